"""HDF5 and NetCDF4 in xarray: variables, attributes, types, order and encodings equal those of xarray's own engines.

The matrix: 13 types, 5 kinds of storage, fixed and unlimited, attributes of 8 types on each variable and on the file,
text of three kinds, packed and missing values; 13 files in all, each with and without decoding.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix

xarray = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")
if importlib.util.find_spec("netCDF4") is None:
    pytest.skip("netCDF4 is not installed", allow_module_level=True)

PROGRAM = Path(__file__).parent / "programs" / "netcdf_matrix.py"
STORAGES = ["contiguous", "chunked", "zlib", "shuffle", "zlib_plain"]
MATRIX = [f"{name}_{unlimited}.nc" for name in STORAGES for unlimited in (False, True)]
FILES = [*MATRIX, "names.nc", "enumeration.nc", "groups.nc"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("matrix")
    subprocess.run([sys.executable, PROGRAM, folder], check=True, timeout=300)
    return folder, pickle.loads((folder / "wanted").read_bytes())


def text_of(value: Any) -> str:
    """A value with its type as text, regardless of the byte order that NumPy prints."""
    if isinstance(value, np.dtype):
        names = value.metadata or {}
        return f"{value.newbyteorder('=')!r} {names.get('enum')} {names.get('enum_name')}"
    return repr(value)


def check_same(found: Any, wanted: Any, encoding: dict[Any, Any], encodings: dict[Any, Any]) -> None:
    xarray.testing.assert_identical(found.load(), wanted)
    assert list(found.variables) == list(wanted.variables)
    assert {key: found.encoding.get(key) for key in encoding} == encoding
    assert {name: repr(value) for name, value in found.attrs.items()} == {k: repr(v) for k, v in wanted.attrs.items()}
    for name, variable in wanted.variables.items():
        ours = found.variables[name]
        assert ours.dtype == variable.dtype, name
        assert {key: repr(value) for key, value in ours.attrs.items()} == {
            key: repr(value) for key, value in variable.attrs.items()
        }, name
        assert {key: text_of(value) for key, value in ours.encoding.items()} == {
            key: text_of(value) for key, value in encodings[name].items()
        }, name


@pytest.mark.parametrize("name", FILES)
def test_files_equal_netcdf4s(files: tuple[Path, dict[str, Any]], name: str) -> None:
    folder, wanted = files
    options: list[dict[str, Any]] = [{}, {"group": "below"} if name == "groups.nc" else {"decode_cf": False}]
    for (encoding, dataset, encodings), each in zip(wanted[name], options, strict=False):
        found = xarray.open_dataset(folder / name, engine="penstock", **each)
        check_same(found, dataset, encoding, encodings)


@pytest.mark.skipif(importlib.util.find_spec("h5netcdf") is None, reason="h5netcdf is not installed")
@pytest.mark.parametrize("name", FILES)
def test_files_equal_h5netcdfs(files: tuple[Path, dict[str, Any]], name: str) -> None:
    for options in ({}, {"decode_cf": False}):
        path = files[0] / name
        with xarray.open_dataset(path, engine="h5netcdf", **options) as wanted:
            found = xarray.open_dataset(path, engine="penstock", **options)
            for variable in found.variables.values():  # h5netcdf sets no encoding without compression
                if not variable.encoding.get("zlib"):
                    variable.encoding.pop("complevel", None)
            encodings = {each: dict(variable.encoding) for each, variable in wanted.variables.items()}
            check_same(found, wanted.load(), dict(wanted.encoding), encodings)


@matrix
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", FILES)
def test_netcdf_is_written_to_zarr(
    files: tuple[Path, dict[str, Any]], tmp_path: Path, name: str, zarr_format: int
) -> None:
    dataset = xarray.open_dataset(files[0] / name, engine="penstock")
    if zarr_format == 3:  # xarray cannot read the fill values of bytes that it writes to format 3
        dataset = dataset.drop_vars("marked", errors="ignore")
    dataset.to_zarr(tmp_path / "o.zarr", zarr_format=zarr_format, consolidated=False)
    for engine in ("penstock", "zarr"):
        options: dict[str, Any] = {} if engine == "penstock" else {"consolidated": False}
        xarray.testing.assert_equal(xarray.open_dataset(tmp_path / "o.zarr", engine=engine, **options), dataset)


@pytest.mark.skipif(importlib.util.find_spec("h5netcdf") is None, reason="h5netcdf is not installed")
@pytest.mark.parametrize("name", MATRIX)
def test_a_copy_by_to_netcdf_is_stored_alike(files: tuple[Path, dict[str, Any]], tmp_path: Path, name: str) -> None:
    dataset = xarray.open_dataset(files[0] / name, engine="penstock")
    dataset.to_netcdf(tmp_path / "copy.nc", engine="h5netcdf")
    copy = xarray.open_dataset(tmp_path / "copy.nc", engine="penstock")
    xarray.testing.assert_identical(copy, dataset)
    assert copy.encoding["unlimited_dims"] == dataset.encoding["unlimited_dims"]
    for variable, wanted in dataset.variables.items():
        for key in ("zlib", "complevel", "shuffle", "fletcher32", "chunksizes", "dtype"):
            assert copy[variable].encoding.get(key) == wanted.encoding.get(key), (variable, key)


def test_a_copy_by_netcdf4_has_the_same_compression(tmp_path: Path) -> None:
    """netCDF4 does not compress variables whose level is 0."""
    netcdf4 = pytest.importorskip("netCDF4")
    if not (netcdf4.__has_zstandard_support__ and netcdf4.__has_bzip2_support__):
        pytest.skip("netCDF4 has no plugins")
    levels = {"zstd": 5, "bzip2": 7, "zlib": 3}
    with netcdf4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 100)
        for name, level in levels.items():
            file.createVariable(name, "f8", ("x",), compression=name, complevel=level)[:] = np.arange(100.0)
    dataset = xarray.open_dataset(tmp_path / "a.nc", engine="penstock")
    dataset.to_netcdf(tmp_path / "b.nc", engine="netcdf4")
    for path in ("a.nc", "b.nc"):
        found = xarray.open_dataset(tmp_path / path, engine="penstock")
        for name, level in levels.items():
            assert found[name].encoding[name]
            assert found[name].encoding["complevel"] == level


@pytest.mark.skipif(importlib.util.find_spec("h5netcdf") is None, reason="h5netcdf is not installed")
@pytest.mark.skipif(not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP), reason="this h5py has no szip")
@pytest.mark.parametrize("options", [("ec", 16), ("nn", 4)])
def test_a_copy_by_h5netcdf_has_the_options_of_szip(tmp_path: Path, options: tuple[str, int]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.arange(40.0), chunks=(20,), compression="szip", compression_opts=options)
    with xarray.open_dataset(tmp_path / "a.h5", engine="penstock") as dataset:
        dataset.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    with h5py.File(tmp_path / "b.nc") as file:
        assert file["v"].compression == "szip"
        assert file["v"].compression_opts == options


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_references_are_written_to_zarr(tmp_path: Path, zarr_format: int) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("v", data=np.arange(10.0), chunks=(10,), compression="gzip", shuffle=True)
        info = made.id.get_chunk_info(0)
    zarray = {
        "zarr_format": 2,
        "shape": [10],
        "chunks": [10],
        "dtype": "<f8",
        "order": "C",
        "fill_value": None,
        "filters": [{"id": "shuffle", "elementsize": 8}],
        "compressor": {"id": "zlib", "level": 4},
    }
    refs = {
        ".zgroup": json.dumps({"zarr_format": 2}),
        "v/.zarray": json.dumps(zarray),
        "v/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["x"]}),
        "v/0": [str(tmp_path / "x.h5"), info.byte_offset, info.size],
    }
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    dataset = xarray.open_dataset(tmp_path / "refs.json", engine="penstock")
    dataset.to_zarr(tmp_path / "o.zarr", zarr_format=zarr_format, consolidated=False)
    assert ps.open(tmp_path / "o.zarr")["v"][...].tolist() == list(range(10))


def test_lazy_text_pickles(files: tuple[Path, dict[str, Any]]) -> None:
    dataset = xarray.open_dataset(files[0] / "zlib_True.nc", engine="penstock", decode_cf=False)
    again = pickle.loads(pickle.dumps(dataset))
    assert again["strings"].values.tolist() == ["a", "", "längst"]
    assert again["strings"].dtype == dataset["strings"].dtype


def test_unsupported_variables_are_omitted_with_a_warning(tmp_path):
    """References, lists and empty datasets, which users of h5py store next to their data."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3.0)
        file.create_dataset("lists", (2,), h5py.vlen_dtype("i4"))
        file.create_dataset("references", data=np.array([file["x"].ref], h5py.ref_dtype))
        file["nothing"] = h5py.Empty("f4")
        file.create_dataset("text_in_structures", (2,), np.dtype([("a", h5py.string_dtype())]))
    with (
        pytest.warns(UserWarning, match="is omitted") as said,
        xarray.open_dataset(tmp_path / "a.h5", engine="penstock") as made,
    ):
        assert list(made.variables) == ["x"]
    named = [str(each.message) for each in said if "is omitted" in str(each.message)]
    for name in ("lists", "references", "nothing", "text_in_structures"):
        assert sum(f"'{name}' of file://" in text for text in named) == 1, named
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dropped = ["lists", "references", "nothing", "text_in_structures"]
        xarray.open_dataset(tmp_path / "a.h5", engine="penstock", drop_variables=dropped).close()


def test_a_tree_with_cyclic_links_ends(tmp_path):
    """Each of ten groups has links to all others and to the root: there are 10! paths through them."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for i in range(10):
            file.create_group(f"g{i}")["v"] = np.arange(i + 1)
        for i in range(10):
            file[f"g{i}/root"] = file
            for k in range(10):
                if k != i:
                    file[f"g{i}/to{k}"] = file[f"g{k}"]
    tree = xarray.open_datatree(tmp_path / "x.h5", engine="penstock")
    found = [node for node in tree.subtree if "v" in node.dataset]
    assert sorted(node["v"].size for node in found) == list(range(1, 11))
    assert len(list(tree.subtree)) == 11


def test_variables_shorter_than_an_unlimited_dimension_are_filled(tmp_path: Path) -> None:
    import netCDF4

    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("member", None)
        file.createDimension("x", 3)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(7.0)
        file.createVariable("short", "f4", ("time", "x"))[:4] = np.arange(12.0).reshape(4, 3)
        file.createVariable("filled", "i2", ("time", "x"), fill_value=-5)[:2] = np.arange(6).reshape(2, 3)
        file.createVariable("empty", "i4", ("time", "member"))
        file.createVariable("text", str, ("time",))[0] = "ä"
        file.createVariable("of_member", "u1", ("member",))[:] = np.arange(2)
        file.createVariable("whole", "f4", ("time", "x"))[:] = np.ones((7, 3))
    keys: list[Any] = [
        {},
        {"time": 5},
        {"time": slice(2, 6)},
        {"time": [0, 6, 3]},
        {"x": 1, "time": slice(None, None, -2)},
        {"time": xarray.DataArray([6, 1], dims="p"), "x": xarray.DataArray([0, 2], dims="p")},
        {"time": slice(4, 4)},
    ]
    for mask in (True, False):
        with (
            xarray.open_dataset(path, engine="netcdf4", mask_and_scale=mask) as expected,
            xarray.open_dataset(path, engine="penstock", mask_and_scale=mask) as found,
        ):
            assert found.sizes == expected.sizes
            assert found.encoding["unlimited_dims"] == expected.encoding["unlimited_dims"]
            for key in keys:
                xarray.testing.assert_identical(found.isel(key).load(), expected.isel(key).load())
            for name in found.variables:
                assert found[name].dtype == expected[name].dtype
                assert found[name].shape == expected[name].shape
            xarray.testing.assert_identical(pickle.loads(pickle.dumps(found)).load(), expected)


def test_of_a_later_unlimited_dimension_the_end_is_filled(tmp_path: Path) -> None:
    """netCDF4 reads other values; h5netcdf reads the same."""
    import netCDF4

    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(7.0)
        file.createVariable("filled", "i2", ("x", "time"), fill_value=-5)[:, :2] = np.arange(6).reshape(3, 2)
    with xarray.open_dataset(path, engine="penstock", mask_and_scale=False) as found:
        expected = np.full((3, 7), -5, "i2")
        expected[:, :2] = np.arange(6).reshape(3, 2)
        np.testing.assert_array_equal(found["filled"], expected)
        np.testing.assert_array_equal(found["filled"][1:, 5:0:-2], expected[1:, 5:0:-2])


def test_a_variable_that_is_not_readable_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["whole"] = np.arange(3)
        layout = h5py.VirtualLayout((3,), "f2")
        layout[:] = h5py.VirtualSource(".", "whole", (3,))
        file.create_virtual_dataset("converted", layout)
        file["after"] = np.arange(4.0)
    with pytest.raises(ps.UnsupportedError, match="int64"):
        ps.open(path)["converted"]
    with (
        pytest.warns(UserWarning, match="'converted' of .* is omitted: virtual HDF5 datasets of float16"),
        xarray.open_dataset(path, engine="penstock") as found,
    ):
        assert set(found.variables) == {"whole", "after"}
    with pytest.warns(UserWarning, match="not copied .*'converted'"):
        ps.copy(path, tmp_path / "y.zarr")
    assert set(ps.open(tmp_path / "y.zarr")) == {"whole", "after"}
    assert ps.open(tmp_path / "y.zarr")["after"][3] == 3


def test_array_types_add_dimensions(tmp_path: Path) -> None:
    """Also of nested array types. Arrays of text become text; arrays of lists and of references are left out."""
    numbers = np.arange(4 * 2 * 3 * 5, dtype="i4").reshape(4, 2, 3, 5)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        nested = h5py.h5t.array_create(h5py.h5t.array_create(h5py.h5t.NATIVE_INT32, (3, 5)), (2,))
        made = h5py.h5d.create(file.id, b"nested", nested, h5py.h5s.create_simple((4,)))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, numbers, nested)
        for name, base in (("text", h5py.string_dtype()), ("lists", h5py.vlen_dtype("i2"))):
            item = h5py.h5t.array_create(h5py.h5t.py_create(base, logical=True), (2,))
            h5py.h5d.create(file.id, name.encode(), item, h5py.h5s.create_simple((3,)))
    with pytest.warns(UserWarning, match="lists"):
        dataset = xarray.open_dataset(tmp_path / "x.h5", engine="penstock")
    assert set(dataset.variables) == {"nested", "text"}
    np.testing.assert_array_equal(dataset["nested"].values, numbers)
    assert dataset["nested"].encoding["dtype"] == np.dtype("i4")
    assert dataset["text"].shape == (3, 2)
    assert dataset["text"].values.tolist() == [["", ""]] * 3
    dataset.to_zarr(tmp_path / "copy.zarr")
    xarray.testing.assert_identical(xarray.open_zarr(tmp_path / "copy.zarr").load(), dataset.load())


def test_names_that_netcdf_reserves_are_no_attributes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["t"] = np.arange(3)
        file["t"].attrs.update({"CLASS": np.bytes_("IMAGE"), "NAME": "probe 3", "units": "K"})
    dataset = xarray.open_dataset(tmp_path / "x.h5", engine="penstock")
    assert dataset["t"].attrs == {"units": "K"}
    dataset.to_netcdf(tmp_path / "y.nc", engine="h5netcdf")


def test_an_attribute_without_elements_is_an_empty_array(tmp_path: Path) -> None:
    netcdf4 = pytest.importorskip("netCDF4")
    with netcdf4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        variable = file.createVariable("v", "f8", ("x",))
        variable[:] = 1
        variable.setncattr("none", np.array([], "i4"))
        file.setncattr("none", np.array([], "f4"))
    wanted = xarray.open_dataset(tmp_path / "a.nc", engine="netcdf4").load()
    found = xarray.open_dataset(tmp_path / "a.nc", engine="penstock").load()
    xarray.testing.assert_identical(found, wanted)
    assert found.attrs["none"].shape == (0,)
    found.to_netcdf(tmp_path / "b.nc", engine="netcdf4")  # xarray writes no None
    xarray.testing.assert_identical(xarray.open_dataset(tmp_path / "b.nc", engine="netcdf4"), wanted)
