"""xarray reads the same from an array and from its copy in another format: dimensions, missing values, types.

Each format stores these differently: see `src/api/missing_value.h`.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix

xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

pytestmark = pytest.mark.filterwarnings("ignore")

DTYPES = ("bool", "i1", "u1", "i2", "u4", "i8", "f4", "f8", "U3", "O")
MISSING = ("no", "zero", "nine", "nan")
SHAPES: tuple[tuple[int, ...], ...] = ((), (5,), (5, 7), (0, 3))
SOURCES = ("netcdf", "zarr2", "zarr3")
"""104 variables each, copied in three ways to two formats and shown by two engines: 3,744 comparisons."""


def dataset() -> Any:
    """Variables of each type, shape and missing value; the values include the missing value and zeros."""
    out = xr.Dataset(attrs={"title": "all"})
    for dtype, missing, shape in itertools.product(DTYPES, MISSING, SHAPES):
        kind = np.dtype(dtype).kind
        if (kind in "UOb" and missing != "no") or (missing == "nan" and kind != "f"):
            continue
        values = (np.arange(int(np.prod(shape))) % 11).reshape(shape).astype("i8")
        data = values.astype("U3").astype(dtype) if kind in "UO" else values.astype(dtype)
        name = f"{dtype}_{missing}_{len(shape)}_{shape[0] if shape else 0}"
        variable = xr.Variable([f"d{n}" for n in shape], data)
        if missing != "no":
            value = {"zero": 0, "nine": 9, "nan": np.nan}[missing]
            variable.attrs["_FillValue"] = np.dtype(dtype).type(value)
        out[name] = xr.conventions.decode_cf_variable(name, variable) if missing != "no" else variable
    return out


def written(source: str, folder: Path) -> Path:
    path = folder / f"source.{'nc' if source == 'netcdf' else source}"
    if source == "netcdf":
        dataset().to_netcdf(path, engine="netcdf4")
    else:
        dataset().to_zarr(path, zarr_format=int(source[-1]), consolidated=source == "zarr2")
    return path


def shown(path: Path, engine: str) -> Any:
    return xr.open_dataset(path, engine=engine, chunks=None).load()


def differences(found: Any, wanted: Any) -> list[str]:
    assert found.attrs == wanted.attrs
    assert set(found.variables) == set(wanted.variables)
    return [name for name, each in wanted.variables.items() if not found.variables[name].identical(each)]


def copied(source: Path, target: Path, zarr_format: int) -> None:
    ps.copy(source, target, zarr_format=zarr_format)


def copied_anew(source: Path, target: Path, zarr_format: int) -> None:
    ps.copy(source, target, zarr_format=zarr_format, codecs="auto")


def saved_one_by_one(source: Path, target: Path, zarr_format: int) -> None:
    group = ps.open_group(source)
    made = ps.create_group(target, zarr_format=zarr_format, attributes=dict(group.attrs))
    for name, array in group.arrays():
        ps.create_array(made, name, data=array)


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A source, and what xarray reads of it: written once for all copies, which only read it."""
    if request.param == "netcdf":
        pytest.importorskip("netCDF4")
    path = written(request.param, tmp_path_factory.mktemp("source"))
    return path, shown(path, "netcdf4" if request.param == "netcdf" else "zarr")


@matrix
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("copy", [copied, copied_anew, saved_one_by_one])
def test_xarray_reads_the_same_from_a_copy_and_its_source(
    tmp_path: Path, source: tuple[Path, Any], copy: Callable[[Path, Path, int], None], zarr_format: int
) -> None:
    path, wanted = source
    assert len(wanted.variables) > 60
    copy(path, tmp_path / "copy.zarr", zarr_format)
    for engine in ("zarr", "penstock"):
        assert differences(shown(tmp_path / "copy.zarr", engine), wanted) == [], engine


def test_xarray_reads_the_same_from_a_netcdf_file_and_its_source(tmp_path: Path, source: tuple[Path, Any]) -> None:
    """NetCDF's missing value is the number `_FillValue`; Zarr's is the fill value (2), or floats as base64 (3)."""
    path, wanted = source
    ps.convert(path, tmp_path / "copy.nc")
    for engine in ("h5netcdf", "penstock"):
        assert differences(shown(tmp_path / "copy.nc", engine), wanted) == [], engine


def test_unwritten_elements_keep_their_values(tmp_path: Path) -> None:
    """xarray uses the fill value of version 2 as the missing value, unlike that of version 3."""
    for dtype, fill, missing in itertools.product(("i2", "u1", "f4"), (0, 7, 255), (None, 0, 7, 200)):
        if dtype == "u1" or fill != 255:
            made = zarr.create_array(
                tmp_path / "a.zarr", name="v", shape=(8,), chunks=(2,), dtype=dtype, fill_value=fill,
                dimension_names=["x"], overwrite=True,
            )  # fmt: skip
            made[2:4] = 7
            made[6:] = [0, 200 % 128]
            if missing is not None:
                coder = xr.backends.zarr.FillValueCoder
                made.attrs["_FillValue"] = coder.encode(np.dtype(dtype).type(missing), np.dtype(dtype))
            wanted = xr.open_zarr(tmp_path / "a.zarr", consolidated=False, chunks=None).load()
            ps.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2, overwrite=True)
            found = xr.open_zarr(tmp_path / "b.zarr", consolidated=False, chunks=None).load()
            assert found.identical(wanted), (dtype, fill, missing)
            assert np.array_equal(ps.open(tmp_path / "b.zarr")["v"][:], made[:])
            ps.copy(tmp_path / "b.zarr", tmp_path / "c.zarr", zarr_format=3, overwrite=True)
            again = xr.open_zarr(tmp_path / "c.zarr", consolidated=False, chunks=None).load()
            assert again.identical(wanted), (dtype, fill, missing)


@pytest.mark.parametrize("missing", ["text", [1, 2], None, 1e300, -1, {"a": 1}])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_missing_value_of_another_type_loses_no_data(tmp_path: Path, missing: Any, zarr_format: int) -> None:
    for dtype in ("u1", "f4", "S2", "U2"):
        values = np.array([1, 0, 3]).astype(dtype)
        made = zarr.create_array(tmp_path / "a.zarr", data=values, zarr_format=5 - zarr_format, overwrite=True)
        made.attrs["_FillValue"] = missing
        if zarr_format == 3:
            made.attrs["_ARRAY_DIMENSIONS"] = ["x"]
        ps.copy(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=zarr_format, overwrite=True)
        assert np.array_equal(ps.open(tmp_path / "b.zarr")[:], values)


def test_names_of_dimensions_in_version_2(tmp_path: Path) -> None:
    made = ps.create_array(tmp_path / "a.zarr", shape=(2, 3), dtype="f4", dimension_names=["y", "x"], zarr_format=2)
    assert made.dimension_names == ("y", "x") == ps.open(tmp_path / "a.zarr").dimension_names
    assert made.attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]
    for names in (["y"], "yx", [1, 2], ["y", None], None):
        zarr.open_array(tmp_path / "a.zarr").attrs["_ARRAY_DIMENSIONS"] = names
        assert ps.open(tmp_path / "a.zarr").dimension_names is None
    for dims in ((), ("x",)):
        values = xr.DataArray(np.ones((2,) * len(dims)), dims=dims, name="v")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ps.create_array(tmp_path / "g.zarr", name="v", data=values, zarr_format=2, overwrite=True)
        found = xr.open_zarr(tmp_path / "g.zarr", consolidated=False)
        assert found["v"].dims == dims


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("way", ["copy", "create_array"])
def test_nodata_of_a_tiff_masks_its_copy(tmp_path: Path, way: str, zarr_format: int) -> None:
    rasterio = pytest.importorskip("rasterio")
    dtypes, nodatas = ("uint8", "int16", "uint32", "float32", "float64"), (None, 0, 7, -9, np.nan)
    cases = [
        (dtype, nodata)
        for dtype, nodata in itertools.product(dtypes, nodatas)
        if dtype.startswith("f") or nodata is None or nodata >= np.iinfo(dtype).min
    ]
    for dtype, nodata in cases:
        values = (np.arange(2 * 8 * 9) % 11).reshape(2, 8, 9).astype(dtype)
        shape = {"width": 9, "height": 8, "count": 2}
        with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", dtype=dtype, nodata=nodata, **shape) as file:
            file.write(values)
        ps.create_group(tmp_path / "b.zarr", zarr_format=zarr_format, overwrite=True)
        if way == "copy":
            ps.copy(tmp_path / "a.tif", tmp_path / "b.zarr", "v", zarr_format=zarr_format)
        else:
            ps.create_array(tmp_path / "b.zarr", "v", data=ps.open(tmp_path / "a.tif"), zarr_format=zarr_format)
        wanted = xr.open_dataset(tmp_path / "a.tif", engine="penstock")["band_data"]
        found = xr.open_zarr(tmp_path / "b.zarr", consolidated=False)["v"]
        assert found.dims == wanted.dims
        np.testing.assert_array_equal(found.values, wanted.values, err_msg=f"{dtype} {nodata}")
        assert np.array_equal(ps.open(tmp_path / "b.zarr")["v"][:], values)
    assert len(cases) == 20


@pytest.mark.parametrize("target", ["copy.zarr", "copy.nc"])
@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_64BIT_OFFSET"])
def test_names_of_variables_and_dimensions_of_netcdf(tmp_path: Path, kind: Any, target: str) -> None:
    """Variables with the name of one of their dimensions: the only, the first, another one, in a group, twice."""
    netcdf = pytest.importorskip("netCDF4")
    names = {"t": ("t",), "station": ("station", "n"), "n": ("t", "n"), "v": ("t", "station", "n")}
    with netcdf.Dataset(tmp_path / "a.nc", "w", format=kind) as file:
        file.createDimension("t", None)
        file.createDimension("station", 3)
        file.createDimension("n", 2)
        for name, dimensions in names.items():
            shape = [{"t": 4, "station": 3, "n": 2}[each] for each in dimensions]
            file.createVariable(name, "i2", dimensions)[:] = np.arange(np.prod(shape)).reshape(shape)
        text = file.createVariable("t_name", "S1", ("station", "n"))
        text[:] = np.array(list("abcdef"), "S1").reshape(3, 2)
    wanted = shown(tmp_path / "a.nc", "netcdf4")
    ps.convert(tmp_path / "a.nc", tmp_path / target, verify=True)
    for engine in ("zarr",) if target.endswith("zarr") else ("netcdf4", "h5netcdf"):
        found = shown(tmp_path / target, engine)
        assert dict(found.sizes) == dict(wanted.sizes), engine
        assert set(found.coords) == set(wanted.coords), engine
        for name in wanted.variables:
            assert found[name].dims == wanted[name].dims, (engine, name)
            np.testing.assert_array_equal(found[name].values, wanted[name].values)


@pytest.mark.parametrize("target", ["copy.zarr", "copy.nc"])
def test_variables_that_are_shorter_than_their_unlimited_dimension(tmp_path: Path, target: str) -> None:
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        inner = file.createGroup("g")
        inner.createDimension("t", None)
        for group, rows in ((file, 5), (inner, 2)):
            group.createVariable("long", "f4", ("t", "x"))[:] = np.ones((rows, 3))
            group.createVariable("short", "i4", ("t",))[0] = 7
            group.createVariable("none", "i2", ("x", "t"), fill_value=-3)
    ps.convert(tmp_path / "a.nc", tmp_path / target, verify=True)
    for group in ("", "g"):
        wanted = xr.open_dataset(tmp_path / "a.nc", engine="netcdf4", group=group, decode_cf=False).load()
        engine = "zarr" if target.endswith("zarr") else "netcdf4"
        found = xr.open_dataset(tmp_path / target, engine=engine, group=group, decode_cf=False).load()
        for name in wanted.variables:
            np.testing.assert_array_equal(found[name].values, wanted[name].values)


@pytest.mark.parametrize("source", ["netcdf-4", "classic", "many files"])
def test_unlimited_dimensions_of_netcdf_files(tmp_path: Path, source: str) -> None:
    netcdf = pytest.importorskip("netCDF4")
    for k in range(2):
        with netcdf.Dataset(
            tmp_path / f"a{k}.nc", "w", format="NETCDF3_CLASSIC" if source == "classic" else "NETCDF4"
        ) as file:
            file.createDimension("t", None)
            file.createDimension("x", 3)
            if source != "classic":
                file.createDimension("empty", None)
                file.createVariable("nothing", "f4", ("empty", "x"))
            file.createVariable("t", "f8", ("t",))[:] = np.arange(4.0) + 4 * k
            file.createVariable("v", "f4", ("t", "x"))[:] = np.ones((4, 3))
            file.createVariable("fixed", "i4", ("x",))[:] = 5
    opened = ps.open_virtual(str(tmp_path / "a*.nc"), concat="t") if source == "many files" else tmp_path / "a0.nc"
    ps.convert(opened, tmp_path / "b.nc", verify=True)
    with netcdf.Dataset(tmp_path / "a0.nc") as wanted, netcdf.Dataset(tmp_path / "b.nc", "a") as made:
        unlimited = {name for name, of in made.dimensions.items() if of.isunlimited()}
        assert unlimited == {name for name, of in wanted.dimensions.items() if of.isunlimited()}
        rows = len(made.dimensions["t"])
        made["v"][rows] = 7
        assert made["v"].shape == (rows + 1, 3)


def test_netcdf_changes_what_convert_wrote_and_keeps_its_order(tmp_path: Path) -> None:
    netcdf = pytest.importorskip("netCDF4")
    root = ps.create_group(tmp_path / "a.zarr")
    attributes = {f"a{k}": k for k in range(100, 0, -1)}
    for path in ("z", "y", "inner/x", "inner/b"):
        ps.create_array(root, path, data=np.arange(3.0), dimension_names=["n"]).attrs.update(attributes)
    root["inner"].attrs.update(attributes)
    ps.convert(root, tmp_path / "b.nc")
    with netcdf.Dataset(tmp_path / "b.nc", "a") as made:
        made.createVariable("new", "f4", ("n",))[:] = 1
        made["inner"].createVariable("new", "f4", ("n",))
        made["inner/x"].more = made.more = "text"
    with netcdf.Dataset(tmp_path / "b.nc") as made:
        for node in (made["z"], made["inner"], made["inner/b"]):
            assert node.ncattrs() == list(attributes)
        assert made["inner/x"].more == "text"
        assert [*made.variables] == ["y", "z", "new"]
    ps.convert(tmp_path / "b.nc", tmp_path / "c.nc")
    with netcdf.Dataset(tmp_path / "c.nc") as made:
        assert [*made.variables] == ["y", "z", "new"]
        assert [*made["inner"].variables] == ["b", "x", "new"]


def test_datasets_that_can_grow_still_can(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", (4, 3), "i4", chunks=(1024, 3), maxshape=(None, 3))
        file.create_dataset("w", (0, 2), "i4", chunks=(8, 2), maxshape=(None, None))
        file.create_dataset("fixed", (4, 3), "i4")
    ps.convert(tmp_path / "a.h5", tmp_path / "b.h5", verify=True)
    with h5py.File(tmp_path / "b.h5") as file:
        assert [file[name].maxshape for name in ("v", "w", "fixed")] == [(None, 3), (None, None), (4, 3)]
        assert [file[name].chunks for name in ("v", "w")] == [(1024, 3), (8, 2)]


def test_a_missing_value_that_the_type_cannot_hold_is_kept(tmp_path: Path) -> None:
    """Packed variables may have that of their unpacked values: 1e20 with int16."""
    values = np.arange(4, dtype="i2")
    ps.create_array(tmp_path / "a.zarr", "v", data=values, dimension_names=["x"]).attrs["_FillValue"] = 1e20
    made = ps.convert(tmp_path / "a.zarr", tmp_path / "b.nc")
    assert made["v"].attrs["_FillValue"] == 1e20
    np.testing.assert_array_equal(made["v"][...], values)
