"""`copy`, `save` and `load` between formats: every pair of source and destination, as in docs/formats/pairs.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import same

VALUES = np.arange(48, dtype="<i4").reshape(6, 8)
TABLE = Path(__file__).parents[2] / "docs" / "formats" / "pairs.md"


def hdf5(folder: Path) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "s.h5", "w") as file:
        data = file.create_dataset("in/x", data=VALUES, chunks=(3, 8), compression="gzip", shuffle=True)
        data.attrs["units"] = "K"
        file["in/c"] = np.arange(8.0)
        file["in/c"].make_scale("c")
        data.dims[1].attach_scale(file["in/c"])
        file.attrs["title"] = "T"
    return folder / "s.h5"


def zarr_array(folder: Path, zarr_format: int = 3) -> Path:
    ps.create_array(folder / "s.zarr", data=VALUES, attributes={"units": "K"}, zarr_format=zarr_format)
    return folder / "s.zarr"


def zarr_group(folder: Path) -> Path:
    ps.create_group(folder / "g.zarr").create_array("in/x", data=VALUES, attributes={"units": "K"})
    return folder / "g.zarr"


def npy(folder: Path) -> Path:
    np.save(folder / "s.npy", VALUES)
    return folder / "s.npy"


def npz(folder: Path) -> Path:
    np.savez(folder / "s.npz", x=VALUES)
    return folder / "s.npz"


def tiff(folder: Path) -> Path:
    ps.save(folder / "s.tif", VALUES, crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6), nodata=3)
    return folder / "s.tif"


def references(folder: Path) -> Path:
    ps.create_array(folder / "r.zarr", data=VALUES, codecs=[], chunks=(6, 8), zarr_format=2)
    documents: dict[str, Any] = {
        name: (folder / "r.zarr" / name).read_text()
        for name in (".zarray", ".zattrs")
        if (folder / "r.zarr" / name).exists()
    }
    chunk = str(folder / "r.zarr" / "0.0")
    (folder / "s.json").write_text(json.dumps({"version": 1, "refs": {**documents, "0.0": [chunk]}}))
    return folder / "s.json"


def parquet(folder: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"x": VALUES[:, 0]}), folder / "s.parquet")
    return folder / "s.parquet"


def shards(folder: Path) -> ps.Array:
    with ps.ShardWriter(folder / "p_{}.npy") as writer:
        writer.write(VALUES[:3])
        writer.write(VALUES[3:])
    made: ps.Array = ps.open_shards(str(folder / "p_*.npy"))
    return made


SOURCES: dict[str, Callable[[Path], Any]] = {
    "Zarr v3 array": zarr_array,
    "Zarr v2 array": lambda folder: zarr_array(folder, 2),
    "Zarr group": zarr_group,
    "HDF5 group": hdf5,
    "HDF5 array": lambda folder: ps.open(hdf5(folder))["in/x"],
    "TIFF": tiff,
    ".npy": npy,
    ".npz": npz,
    "references": references,
    "Parquet": parquet,
    "shards": shards,
    "ndarray": lambda _: VALUES,
}
NAMES = ["t.zarr", "t.zip", "t.tif", "t.npy", "t.npz", "t.nc", "t.h5", "t.parquet"]


def values_of(source: Any) -> Any:
    return source if isinstance(source, np.ndarray) else ps.load(source) if isinstance(source, Path) else source[...]


def leaves(values: Any) -> list[Any]:
    return [leaf for each in values.values() for leaf in leaves(each)] if isinstance(values, dict) else [values]


def outcome(what: str, source: Any, at: Path) -> str:
    """`written` if `load` returns the values of the source, `refused` if the target does not exist afterwards."""
    before = sorted(os.listdir(at.parent))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if what == "copy":
                ps.copy(source, at)
            else:
                ps.save(at, ps.open(source) if isinstance(source, Path) else source)
    except (ps.Error, TypeError, ValueError):
        assert sorted(os.listdir(at.parent)) == before
        return "refused"
    assert at.is_file() == (at.suffix in (".zip", ".tif", ".npy"))
    got, wanted = leaves(ps.load(at)), leaves(values_of(source))
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert same(np.squeeze(one), np.squeeze(np.asarray(other)))
    return "written"


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> dict[tuple[str, str], list[str]]:
    rows = {}
    for name, make in SOURCES.items():
        for what in ("copy", "save"):
            rows[name, what] = [
                outcome(what, make(folder), folder / target)
                for target in NAMES
                for folder in [tmp_path_factory.mktemp("pair")]
            ]
    return rows


def document(table: dict[tuple[str, str], list[str]]) -> str:
    lines = [
        "# Formats: what `copy` and `save` write",
        "",
        "The name of the destination chooses the format. `written`: the destination holds the source's values, and",
        "`penstock.load` returns them. `refused`: an error names the reason, and nothing is written.",
        "`copy` always makes Zarr; `penstock.convert` (`penstock convert`) also writes TIFF, HDF5 and `.npy`.",
        "Open arrays may be larger than memory: all are read in blocks, also those that become `.npy` or TIFF.",
        "Objects of other libraries (Dask, h5py) become TIFF in blocks, and are read whole for `.npy`.",
        "The test `test_names_and_formats.py` runs every pair and compares this table.",
        "",
        "| source | function | " + " | ".join(f"`{name[1:]}`" for name in NAMES) + " |",
        "|---|---|" + "---|" * len(NAMES),
    ]
    lines += [f"| {name} | `{what}` | " + " | ".join(row) + " |" for (name, what), row in table.items()]
    return "\n".join(lines) + "\n"


def test_the_table_of_pairs_is_correct(table):
    """12 sources, 8 destinations, 2 functions. PENSTOCK_WRITE_TABLES=1 writes the document."""
    made = document(table)
    if os.environ.get("PENSTOCK_WRITE_TABLES"):
        TABLE.write_text(made)
    assert TABLE.read_text() == made


def test_an_hdf5_group_is_copied_with_all_members(tmp_path):
    made = ps.copy(hdf5(tmp_path), tmp_path / "t.zarr")
    assert made.attrs["title"] == "T"
    assert same(made["in/x"][...], VALUES)
    assert made["in/x"].attrs["units"] == "K"
    assert made["in/x"].dimension_names == (None, "c")
    assert made["in/x"].chunks == (3, 8) or made["in/x"].chunks == (6, 8)
    ps.save(tmp_path / "t.zarr", VALUES)
    with pytest.raises(ps.InvalidArgumentError, match="chunks"):
        ps.copy(tmp_path / "s.h5", tmp_path / "t.zarr", chunks=(2, 2), overwrite=True)
    assert same(ps.load(tmp_path / "t.zarr"), VALUES)
    replaced = ps.copy(tmp_path / "s.h5", tmp_path / "t.zarr", overwrite=True)
    assert replaced.keys() == ["in"]


def test_a_loop_of_links_in_hdf5_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_group("a")["again"] = h5py.SoftLink("/a")
        file["a/more"] = h5py.SoftLink("/")
    with pytest.raises(ps.UnsupportedError, match="nested"):
        ps.copy(tmp_path / "s.h5", tmp_path / "t.zarr")
    assert not (tmp_path / "t.zarr").exists()


def test_a_group_is_not_an_array_of_names(tmp_path):
    group = ps.open(zarr_group(tmp_path))
    with pytest.raises(TypeError, match="group"):
        np.asarray(group)
    with pytest.raises(ps.InvalidArgumentError, match="group"):
        ps.create_array(tmp_path / "t.zarr", data=group)


def test_a_single_file_is_copied_into_its_own_folder(tmp_path):
    for make in (tiff, npy):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = ps.copy(make(tmp_path), tmp_path / "t.zarr", overwrite=True)
        assert same(np.squeeze(made[...]), VALUES)
    with pytest.raises(ps.InvalidArgumentError, match="into itself"):
        ps.copy(zarr_array(tmp_path), tmp_path / "s.zarr", overwrite=True)


def test_the_coordinate_system_of_a_tiff_is_not_lost_silently(tmp_path):
    with pytest.warns(UserWarning, match="coordinate system"):
        ps.copy(tiff(tmp_path), tmp_path / "t.zarr")
    ps.save(tmp_path / "t.tif", ps.open(tmp_path / "s.tif"))
    again, first = ps.open(tmp_path / "t.tif"), ps.open(tmp_path / "s.tif")
    assert (again.crs, again.transform, again.nodata) == (first.crs, first.transform, first.nodata)


def test_objects_that_are_not_text_are_refused(tmp_path):
    ps.save(tmp_path / "x.zarr", VALUES)
    for bad in ([1, "a", None, {}], [1, 2], ["a", b"b"], [None]):
        with pytest.raises(ps.InvalidArgumentError, match="objects"):
            ps.save(tmp_path / "x.zarr", np.array(bad, dtype=object))
        assert same(ps.load(tmp_path / "x.zarr"), VALUES)
    ps.save(tmp_path / "x.zarr", np.array(["a", "bc"], dtype=object))
    assert list(ps.load(tmp_path / "x.zarr")) == ["a", "bc"]


def test_masked_values_are_filled_or_refused(tmp_path):
    masked = np.ma.masked_equal(VALUES, 5)
    for name in ("x.zarr", "x.tif", "x.npy"):
        with pytest.raises(ps.InvalidArgumentError, match="mask"):
            ps.save(tmp_path / name, masked)
        assert not (tmp_path / name).exists()
    assert same(ps.create_array(tmp_path / "x.zarr", data=masked, fill_value=-9)[...], masked.filled(-9))
    ps.save(tmp_path / "x.tif", masked, nodata=-9)
    assert same(np.squeeze(ps.load(tmp_path / "x.tif")), masked.filled(-9))
    ps.save(tmp_path / "x.zarr", np.ma.array(VALUES))
    assert same(ps.load(tmp_path / "x.zarr"), VALUES)


def test_data_arrays_keep_dimensions_and_attributes(tmp_path):
    xarray = pytest.importorskip("xarray")
    values = xarray.DataArray(VALUES, dims=("y", "x"), attrs={"units": "m", "scale": np.float32(2)})
    ps.save(tmp_path / "x.zarr", values)
    made = ps.open(tmp_path / "x.zarr")
    assert made.dimension_names == ("y", "x")
    assert dict(made.attrs) == {"units": "m", "scale": 2.0}
    ps.save(tmp_path / "again.zarr", made)
    again = ps.open(tmp_path / "again.zarr")
    assert (again.dimension_names, dict(again.attrs)) == (made.dimension_names, dict(made.attrs))
    with pytest.warns(UserWarning, match=r"coordinates .* x "):
        ps.save(tmp_path / "x.zarr", values.assign_coords(x=np.arange(8)))
    with pytest.raises(ps.UnsupportedError, match="to_zarr"):
        ps.save(tmp_path / "x.zarr", values.to_dataset(name="a"))


def test_data_arrays_keep_their_place_in_tiffs(tmp_path):
    rioxarray = pytest.importorskip("rioxarray")
    with rioxarray.open_rasterio(tiff(tmp_path)) as values:
        ps.save(tmp_path / "t.tif", values)
    again, first = ps.open(tmp_path / "t.tif"), ps.open(tmp_path / "s.tif")
    assert (again.crs, again.transform, again.nodata) == (first.crs, first.transform, first.nodata)


def test_selections_of_data_arrays_have_their_own_place(tmp_path):
    """xarray's selections change the coordinates, not the grid mapping's GeoTransform."""
    rioxarray = pytest.importorskip("rioxarray")
    values = np.arange(2 * 60 * 80, dtype="f4").reshape(2, 60, 80)
    place = {"crs": 32633, "transform": (10, 0, 500000, 0, -10, 4000000), "area_or_point": "Point"}
    ps.save(tmp_path / "s.tif", values, **place)
    with rioxarray.open_rasterio(tmp_path / "s.tif") as whole:
        cases = [
            (whole, (10, 0, 500000, 0, -10, 4000000)),
            (whole[:, 5:, 10:], (10, 0, 500100, 0, -10, 3999950)),
            (whole[:, ::-1], (10, 0, 500000, 0, 10, 3999400)),
            (whole[:, ::2, 1::2], (20, 0, 500005, 0, -20, 4000005)),
            (whole[0, 5:6, 3:4], (10, 0, 500030, 0, -10, 3999950)),
            (whole.drop_vars(["x", "y"]), (10, 0, 500000, 0, -10, 4000000)),
        ]
        for chosen, transform in cases:
            ps.save(tmp_path / "t.tif", chosen)
            made = ps.open(tmp_path / "t.tif")
            assert (tuple(made.transform)[:6], made.epsg, made.area_or_point) == (transform, 32633, "Point")
            assert same(np.squeeze(made[...]), np.squeeze(chosen.values))
        with pytest.warns(UserWarning, match=r"coordinates .* x, y "):
            ps.save(tmp_path / "t.tif", whole[:, :, [0, 3, 4]])
        assert ps.open(tmp_path / "t.tif").transform is None
        ps.save(tmp_path / "t.tif", whole.drop_vars(["x", "y", "spatial_ref"]))
        assert ps.open(tmp_path / "t.tif").transform is None


def test_missing_values_and_meanings_of_data_arrays_are_written(tmp_path):
    rioxarray = pytest.importorskip("rioxarray")
    values = np.array([[[-9, 2], [3, 4]]], "i2")
    how = {"scales": [0.5], "offsets": [3.0], "units": ["K"], "descriptions": ["heat"]}
    ps.save(tmp_path / "s.tif", values, nodata=-9, **how)
    with rioxarray.open_rasterio(tmp_path / "s.tif", masked=True) as masked:  # NaN, and the encoding has -9
        ps.save(tmp_path / "t.tif", masked)
        made = ps.open(tmp_path / "t.tif")
        assert (made.dtype, made.nodata) == (np.float32, -9)
        assert same(made[...], values.astype("f4"))
        masked.encoding["_FillValue"] = 1e300  # not a value of float32
        ps.save(tmp_path / "t.tif", masked)
        made = ps.open(tmp_path / "t.tif")
        assert np.isnan(made.nodata)
        assert np.array_equal(np.isnan(made[...]), values == -9)
    with rioxarray.open_rasterio(tmp_path / "s.tif") as stored:
        ps.save(tmp_path / "t.tif", stored)
    made = ps.open(tmp_path / "t.tif")
    assert (made.scales, made.offsets, made.units, made.descriptions) == ((0.5,), (3.0,), ("K",), ("heat",))
    assert same(made[...], values)


@pytest.mark.parametrize("dims", [("y", "x", "band"), ("band", "x", "y"), ("lon", "lat"), ("x", "time", "y")])
def test_transposed_data_arrays_are_not_written_to_tiffs(tmp_path, dims):
    xarray = pytest.importorskip("xarray")
    with pytest.raises(ps.InvalidArgumentError, match="transpose"):
        ps.save(tmp_path / "t.tif", xarray.DataArray(np.zeros((3, 4, 5)[: len(dims)]), dims=dims))
    assert not (tmp_path / "t.tif").exists()


def test_the_program_refuses_the_same_names(tmp_path):
    zarr_array(tmp_path)
    command = [sys.executable, "-m", "penstock", "copy", "s.zarr"]
    for name in ("o.nc", "o.tif", "o.npy", "o.H5"):
        ran = subprocess.run([*command, name], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 2
        assert name in ran.stderr
    assert os.listdir(tmp_path) == ["s.zarr"]
