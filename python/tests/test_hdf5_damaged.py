"""Damaged HDF5 files: an unreadable object is an error and never absent, in `open`, `in`, listings and xarray."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

h5py = pytest.importorskip("h5py")
xarray = pytest.importorskip("xarray")

PROGRAM = Path(__file__).parent / "programs" / "damaged_hdf5.py"
STEP = os.environ.get("PENSTOCK_DAMAGE_STEP", "29")  # 1 damages each byte of each header


def write(path: Path, libver: str, **options: Any) -> None:
    with h5py.File(path, "w", libver=libver) as file:
        time = file.create_dataset("time", data=np.arange(4.0))
        time.make_scale("time")
        for name in ("t2m", "u"):
            file.create_dataset(name, data=np.arange(24, dtype="i2").reshape(4, 6), **options)
            file[name].dims[0].attach_scale(time)
            file[name].attrs["units"] = "K"
            file[name].attrs["_FillValue"] = np.int16(-1)


def header_of(path: Path, name: str) -> int:
    with h5py.File(path) as file:
        return int(h5py.h5o.get_info(file[name].id).addr)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("layout", ["plain", "chunked"])
def test_a_damaged_header_never_hides_a_variable(tmp_path: Path, libver: str, layout: str) -> None:
    path = tmp_path / "x.nc"
    write(path, libver, **({} if layout == "plain" else {"chunks": (2, 3), "compression": "gzip"}))
    command = [sys.executable, str(PROGRAM), str(path), str(tmp_path / "bad.nc"), str(int(libver == "latest")), STEP]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = done.stdout.splitlines()
    assert not [line for line in lines if line.startswith("WRONG")]
    assert lines[-1].startswith("done"), (lines[-1], done.stderr)
    _, places, _, refused = lines[-1].split()
    assert int(refused) > int(places) // 4


def test_a_damaged_dataset_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "x.nc"
    write(path, "latest")
    flip(path, header_of(path, "t2m") + 10)
    group = ps.open(path)
    assert group.keys() == ["t2m", "time", "u"]
    with pytest.raises(ps.CorruptDataError, match="t2m"):
        ps.open(path, "t2m")
    with pytest.raises(ps.CorruptDataError, match="t2m"):
        "t2m" in group  # noqa: B015
    with pytest.raises(ps.CorruptDataError, match="t2m"):
        xarray.open_dataset(path, engine="penstock")
    rest = xarray.open_dataset(path, engine="penstock", drop_variables=["t2m"])
    assert sorted(rest.variables) == ["time", "u"]
    with pytest.raises(ps.CorruptDataError, match="t2m"):
        ps.open_shards(str(path), dataset="t2m")


def test_a_damaged_source_of_a_virtual_dataset_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "source.h5", "latest")
    layout = h5py.VirtualLayout((4, 6), "i2")
    layout[...] = h5py.VirtualSource(tmp_path / "source.h5", "t2m", (4, 6))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_virtual_dataset("v", layout, fillvalue=7)
    assert ps.open(tmp_path / "x.h5", "v")[0, 1] == 1
    flip(tmp_path / "source.h5", header_of(tmp_path / "source.h5", "t2m") + 10)
    with pytest.raises(ps.CorruptDataError):
        ps.open(tmp_path / "x.h5", "v")


def test_a_damaged_attribute_is_an_error(tmp_path: Path) -> None:
    """The text heap of an attribute is erased. A scale whose attributes are not readable is not a scale of 1."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(3)
        file["x"].attrs["units"] = "kelvin"  # of variable length: stored in a heap
    data = path.read_bytes()
    flip(path, data.index(b"GCOL"))
    with pytest.raises(ps.CorruptDataError, match="attribute 'units'"):
        ps.open(path, "x")


def test_names_without_a_target_are_absent(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = np.arange(3)
        file["type"] = np.dtype("i4")
        file.create_group("g")["to_a"] = h5py.SoftLink("/a")
        links = {"soft": h5py.SoftLink("g/to_a"), "out": h5py.ExternalLink("other.h5", "/x")}
        nowhere = {
            "gone": h5py.SoftLink("/none"),
            "below": h5py.SoftLink("a/b"),
            "circle": h5py.SoftLink("circle"),
            "no_file": h5py.ExternalLink("none.h5", "/x"),
            "no_x": h5py.ExternalLink("other.h5", "/none"),
        }
        for name, link in (links | nowhere).items():
            file[name] = link
    group = ps.open(tmp_path / "x.h5")
    assert group.keys() == ["a", "g", "out", "soft"]
    for name in nowhere:
        assert name not in group
        with pytest.raises(ps.NotFoundError):
            group[name]
    for name in links:
        assert group[name][...].tolist() == [0, 1, 2]
    (tmp_path / "other.h5").write_bytes(b"not HDF5")
    group = ps.open(tmp_path / "x.h5")
    assert "out" in group.keys()  # noqa: SIM118
    with pytest.raises(ps.CorruptDataError):
        group["out"]


def test_many_links_over_one_long_path_do_not_follow_it_without_end(tmp_path: Path) -> None:
    names = [f"s{i:04d}" for i in range(2000)]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = file.create_group("g")
        group["again"] = group
        group["x"] = np.arange(3)
        file["long"] = h5py.SoftLink("/g/" + "again/" * 9000 + "x")
        for name in names:
            file[name] = h5py.SoftLink("long")
    made = ps.open(tmp_path / "x.h5")
    assert made.keys() == ["g", "long", *names]  # those that were not followed, too
    assert made["s0000"][...].tolist() == [0, 1, 2]


def test_listing_a_group_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", track_order=True) as file:
        for name in ("b", "a", "c"):
            file[name] = 1.0
        file.create_dataset("dim", (3,), "f4").make_scale(
            "This is a netCDF dimension but not a netCDF variable.         3"
        )
        file["_nc4_non_coord_dim"] = np.arange(3)

    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("a dataset was opened")

    monkeypatch.setattr(h5py.Dataset, "__init__", refuse)
    group = ps.open(path)
    assert group.keys() == ["a", "b", "c", "dim"]
    assert group.names_in_file_order == ["b", "a", "c", "dim"]
    monkeypatch.undo()
    assert group["dim"][...].tolist() == [0, 1, 2]


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_a_type_larger_than_its_file_takes_no_memory(tmp_path: Path, chunks: tuple[int, ...] | None) -> None:
    path = tmp_path / "x.h5"
    item = np.dtype({"names": ["a"], "formats": ["<i4"], "offsets": [0], "itemsize": 0x1350})
    with h5py.File(path, "w") as file:
        file.create_dataset("sound", data=np.arange(4))
        file.create_dataset("x", (4,), item, chunks=chunks)
    data = path.read_bytes()
    size = (0x1350).to_bytes(4, "little")
    assert data.count(size) >= 1
    path.write_bytes(data.replace(size, b"\x50\x13\x00\xff"))
    with pytest.raises(ps.Error, match=r"elements of 42781\d+ bytes in a file of"):
        ps.open(path)["x"]
    assert ps.open(path)["sound"][3] == 3


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("rows", [0, 5])
def test_a_file_that_its_program_has_not_closed_is_said_to_be_open(tmp_path: Path, libver: str, rows: int) -> None:
    """libhdf5 keeps the headers in memory until then. A copy is read, because some systems lock the file."""
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        if rows:
            file["x"] = np.arange(rows)
        (tmp_path / "y.h5").write_bytes((tmp_path / "x.h5").read_bytes())
        with pytest.raises(ps.CorruptDataError, match="still be open for writing"):
            ps.open(tmp_path / "y.h5")
        file.flush()
        (tmp_path / "y.h5").write_bytes((tmp_path / "x.h5").read_bytes())
        assert ps.open(tmp_path / "y.h5").keys() == (["x"] if rows else [])
    flip(tmp_path / "x.h5", header_of(tmp_path / "x.h5", "/"))
    with pytest.raises(ps.CorruptDataError) as caught:
        ps.open(tmp_path / "x.h5")
    assert "open for writing" not in str(caught.value)
