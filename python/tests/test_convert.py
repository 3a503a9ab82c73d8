"""`convert`: every source to every format that can hold it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from test_names_and_formats import SOURCES, VALUES, leaves

GROUPS = {"Zarr group", "HDF5 group"}


@pytest.mark.parametrize("target", ["t.zarr", "t.zip", "t.tif", "t.h5", "t.nc", "t.npy"])
@pytest.mark.parametrize("name", [name for name in SOURCES if name != "ndarray"])
@pytest.mark.filterwarnings("ignore")
def test_every_pair(name: str, target: str, tmp_path: Path) -> None:
    if target in ("t.h5", "t.nc"):
        pytest.importorskip("h5py")
    source = SOURCES[name](tmp_path)
    node = ps.open(source) if isinstance(source, Path) else source
    holds_one = target in ("t.tif", "t.npy")
    if holds_one and isinstance(node, ps.Group):
        with pytest.raises((ps.Error, TypeError)):
            ps.convert(source, tmp_path / target, verify=True)
        assert not (tmp_path / target).exists()
        return
    made = ps.convert(source, tmp_path / target, verify=True)
    got = made[...] if isinstance(made, ps.Array) else ps.load(tmp_path / target)
    wanted = node[...] if isinstance(node, ps.Array) else ps.load(source)
    for one, other in zip(leaves(got), leaves(wanted), strict=True):
        np.testing.assert_array_equal(np.squeeze(one), np.squeeze(other))
    with pytest.raises(ps.InvalidArgumentError, match="overwrite"):
        ps.convert(source, tmp_path / target)
    ps.convert(source, tmp_path / target, overwrite=True)


def test_meaning_goes_along_to_hdf5(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    group = ps.create_group(tmp_path / "a.zarr", attributes={"title": "T", "list": [1, 2], "object": {"a": None}})
    time = np.arange(5, dtype="i4")
    group.create_array("time", data=time, dimension_names=("time",), attributes={"units": "days since 2000-01-01"})
    values = np.arange(60, dtype=">f4").reshape(5, 12)
    group.create_array("sub/t2m", data=values, dimension_names=("time", None), chunks=(2, 5), fill_value=-1)
    group.create_array("t2m", data=values, dimension_names=("time", "x"), chunks=(2, 5), fill_value=-1)
    group.create_array("text", data=np.array(["a", "ö"], object), dtype="str")
    made = ps.convert(tmp_path / "a.zarr", tmp_path / "b.nc", chunks={"time": 1}, verify=True)
    with h5py.File(tmp_path / "b.nc") as file:
        assert file.attrs["title"] == "T"
        assert file.attrs["list"].tolist() == [1, 2]
        assert file.attrs["object"] == '{"a": null}'
        assert file["t2m"].chunks == (1, 12)
        assert file["t2m"].fillvalue == -1
        assert file["t2m"].dims[0][0].name == "/time"
        assert file["time"].attrs["units"] == "days since 2000-01-01"
        assert file["text"].asstr()[:].tolist() == ["a", "ö"]
    assert made["t2m"].dimension_names == ("time", "x")
    assert made["sub/t2m"].shape == (5, 12)
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(tmp_path / "b.nc", engine="h5netcdf") as shown:
        assert shown["t2m"].dims[0] == "time"
        assert str(shown["time"].values[1]).startswith("2000-01-02")


def test_what_goes_wrong_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    ps.create_array(tmp_path / "a.zarr", data=np.arange(3).astype("M8[s]"))
    with pytest.raises(ps.UnsupportedError, match="no type for datetime64"):
        ps.convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    ps.create_array(tmp_path / "c.zarr", data=VALUES, chunks=(2, 8))
    victim = next(path for path in (tmp_path / "c.zarr").rglob("*") if path.is_file() and path.name != "zarr.json")
    victim.write_bytes(victim.read_bytes()[:-4])
    for name in ("d.h5", "d.npy", "d.tif"):
        with pytest.raises(ps.CorruptDataError):
            ps.convert(tmp_path / "c.zarr", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "c.zarr"]
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("x.npy", {"chunks": (2, 2)}),
        ("x.tif", {"codecs": "zstd"}),
        ("x.h5", {"shards": (2, 2)}),
        ("x.h5", {"compression": "lzf"}),
        ("x.zarr", {"crs": 4326}),
    ]
    for name, options in wrong:
        with pytest.raises(ps.InvalidArgumentError, match="no option"):
            ps.convert(tmp_path / "a.zarr", tmp_path / name, **options)


def test_georeferencing_goes_from_tiff_to_tiff(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.tif", VALUES, crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6), nodata=3)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", compress="zstd", verify=True)
    assert made.epsg == 32633
    assert tuple(made.transform)[:6] == (10, 0, 5e5, 0, -10, 5e6)
    assert made.nodata == 3


def test_the_verb(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    group = ps.create_group(tmp_path / "a.zarr")
    group.create_array("x", data=VALUES, dimension_names=("y", "x"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", "convert", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)

    done = run("a.zarr", "b.h5", "--chunks", "y=2", "--verify")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "b.h5: a group in hdf5\n"
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["x"].chunks == (2, 8)
    assert run("a.zarr", "b.h5").returncode == 1
    assert run("a.zarr", "c.h5", "--chunks", "z=2").returncode == 1
    assert run("a.zarr", "c.zarr", "--chunks", "z").returncode == 2
    assert run("a.zarr").returncode == 2
    assert run("--help").returncode == 0
    done = run("b.h5", "c.zarr", "--codec", "zstd:5", "--json", "--verify", "--memory", "1MiB")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["format"] == "zarr3"
    np.testing.assert_array_equal(ps.open(tmp_path / "c.zarr")["x"][...], VALUES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.h5", "c.zarr"]
