"""xarray's engine for GeoTIFF, compared with rioxarray's."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from tiff_bytes import image, tag, tiff_of

xr = pytest.importorskip("xarray")
rasterio = pytest.importorskip("rasterio")
rioxarray = pytest.importorskip("rioxarray")
RIOXARRAY = tuple(int(part) for part in rioxarray.__version__.split(".")[:2])
if not hasattr(ps, "TiffArray"):
    pytest.skip("this build opens no TIFF", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning", "ignore:.*differ")

from affine import Affine  # noqa: E402

NORTH_UP = Affine(30.0, 0.0, 500000.0, 0.0, -30.0, 5000000.0)


def write(path: Path, dtype: str = "uint16", bands: int = 3, **options: Any) -> Path:
    """Write a file of 53 rows and 71 columns with GDAL; tags and similar options are removed from `options`."""
    band_tags, tags = options.pop("band_tags", {}), options.pop("tags", {})
    scales, offsets = options.pop("scales", None), options.pop("offsets", None)
    descriptions, units = options.pop("descriptions", None), options.pop("units", None)
    mask, hole = options.pop("mask", None), options.get("nodata")
    rng = np.random.default_rng(7)
    values = rng.uniform(1, 120, (bands, 53, 71)).astype(dtype)
    if "alpha" in options:
        values[-1, 10:20, 5:30] = 0
    if hole is not None:
        values[:, 10:20, 5:30] = hole
    points, rational = options.pop("gcps", None), options.pop("rpcs", False)
    if points:
        kind = rasterio.control.GroundControlPoint
        options |= {"gcps": [kind(row, col, x, y, z) for row, col, x, y, z in points], "transform": Affine.identity()}
    if rational:
        options |= {"crs": None, "transform": Affine.identity()}
    options = {"crs": "EPSG:32632", "transform": NORTH_UP, "tiled": True, "blockxsize": 16, "blockysize": 32, **options}
    with rasterio.open(path, "w", driver="GTiff", width=71, height=53, count=bands, dtype=dtype, **options) as file:
        file.write(values)
        file.update_tags(**tags)
        file.update_tags(1, **band_tags)
        if scales:
            file.scales, file.offsets = scales, offsets
        if descriptions:
            file.descriptions = descriptions
        if units:
            file.units = units
        if mask is not None:
            file.write_mask(mask)
        if rational:
            scale = {"line_off": 1.5, "samp_off": 2.5, "lat_off": 50.0, "long_off": 10.0, "height_off": 100.0}
            scale |= {
                "line_scale": 53.0,
                "samp_scale": 71.0,
                "lat_scale": 0.1,
                "long_scale": 0.2,
                "height_scale": 500.0,
            }
            many = {f"{a}_{b}_coeff": [float(i) for i in range(20)] for a in ("line", "samp") for b in ("num", "den")}
            file.rpcs = rasterio.rpc.RPC(**scale, **many, err_bias=0.5, err_rand=0.25)
    return path


MASK = np.arange(53 * 71).reshape(53, 71) % 7 != 0
FILES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bytes": {"dtype": "uint8", "nodata": 0},
    "signed nodata": {"dtype": "int16", "nodata": -999},
    "wide integers": {"dtype": "int32", "nodata": -1},
    "floats": {"dtype": "float32", "nodata": -9999.0},
    "nan": {"dtype": "float64", "nodata": float("nan"), "bands": 1},
    "complex": {"dtype": "complex64", "bands": 1},
    "strips": {"tiled": False, "blockysize": 8, "blockxsize": 71},
    "planar": {"interleave": "band"},
    "scaled": {"scales": (0.5,) * 3, "offsets": (10.0,) * 3, "nodata": 7},
    "scales of bands": {"scales": (0.5, 1.0, 2.0), "offsets": (10.0, 0.0, -1.0), "nodata": 7},
    "described": {"descriptions": ("red", "green", "blue"), "units": ("m", "m", "K")},
    "one name": {"bands": 1, "descriptions": ("red",), "units": ("m",)},
    "tags": {
        "tags": {
            "TIFFTAG_SOFTWARE": "a program",
            "TIFFTAG_XRESOLUTION": "72",
            "own": "{1,2.5}",
            "n": "7",
            "text": "x y",
        },
        "band_tags": {"STATISTICS_MEAN": "12.5", "STATISTICS_MINIMUM": "3"},
    },
    "degrees": {"crs": "EPSG:4326", "transform": Affine(0.1, 0, 10, 0, -0.1, 50)},
    "south up": {"transform": Affine(30.0, 0.0, 500000.0, 0.0, 30.0, 4000000.0)},
    "rotated": {"transform": NORTH_UP * Affine.rotation(20)},
    "no crs": {"crs": None},
    "nowhere": {"crs": None, "transform": None},
    "alpha": {"bands": 4, "dtype": "uint8", "photometric": "rgb", "alpha": "unspecified"},
    "associated alpha": {"bands": 2, "dtype": "uint8", "alpha": "premultiplied"},
    "alpha of shorts": {"bands": 4, "photometric": "rgb", "alpha": "unspecified"},
    "alpha that masks nothing": {"bands": 2, "dtype": "float32", "alpha": "unspecified"},
    "alpha among others": {"bands": 5, "dtype": "uint8", "photometric": "rgb", "alpha": "unspecified"},
    "north first": {"crs": "EPSG:2193"},
    "gcps": {"gcps": [(0, 0, 10.0, 50.0, 0.0), (0, 71, 11.0, 50.5, 3.5), (53, 0, 9.5, 49.0, 0.0)]},
    "rpcs": {"rpcs": True},
    "mask": {"mask": MASK, "photometric": "rgb", "dtype": "uint8"},
}


@pytest.fixture(scope="session", params=FILES)
def file(request: Any, tmp_path_factory: Any) -> Path:
    if request.param == "rpcs" and RIOXARRAY < (0, 20):
        pytest.skip("this rioxarray gives scenes with RPCs x and y, later ones do not")
    path = tmp_path_factory.mktemp("tiff") / "scene.tif"
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        options = {key: value for key, value in FILES[request.param].items() if value is not None or key == "crs"}
        if request.param == "nowhere":
            options["transform"] = Affine.identity()
        return write(path, **options)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return plain(value.item())
    return "nan" if isinstance(value, float | complex) and value != value else value


def assert_same(ours: Any, theirs: Any) -> None:
    """Assert that values, names, coordinates, attributes and encodings are equal; chunks have the file's bands."""
    xr.testing.assert_equal(ours, theirs)
    assert set(ours.variables) == set(theirs.variables)
    assert set(ours.coords) == set(theirs.coords)
    assert plain(ours.attrs) == plain(theirs.attrs)
    for name in theirs.variables:
        left, right = ours[name], theirs[name]
        assert left.dims == right.dims
        assert left.dtype == right.dtype, name
        assert plain(left.attrs) == plain(right.attrs), name
        chunks = "preferred_chunks"
        assert plain({**left.encoding, chunks: 0}) == plain({**right.encoding, chunks: 0}), name
        if chunks in right.encoding:
            there = right.encoding[chunks]
            assert {d: left.encoding[chunks][d] for d in ("y", "x")} == {d: there[d] for d in ("y", "x")}


def both(path: Path, **options: Any) -> tuple[Any, Any]:
    return xr.open_dataset(path, engine="penstock", **options), xr.open_dataset(path, engine="rasterio", **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mask_and_scale": False},
        {"mask_and_scale": False, "masked": True},
        {"parse_coordinates": False},
        {"default_name": "scene"},
        {"drop_variables": ["spatial_ref"]},
    ],
    ids=str,
)
def test_a_file_equals_rioxarrays(file, options):
    assert_same(*both(file, **options))


def test_rioxarray_reads_crs_and_transform_from_it(file):
    ours, theirs = (each.band_data.rio for each in both(file))
    assert ours.crs == theirs.crs
    assert ours.transform() == theirs.transform()
    assert ours.bounds() == theirs.bounds()
    assert plain(ours.encoded_nodata) == plain(theirs.encoded_nodata)


SELECTIONS = [
    lambda a: a.isel(band=0),
    lambda a: a.isel(band=-1, y=5, x=7),
    lambda a: a.isel(y=slice(3, 40, 4), x=slice(60, 2, -5)),
    lambda a: a.isel(band=[0, 0], y=[15, 2, 50], x=slice(3, 9)),
    lambda a: a.isel(y=[1, 12, 13], x=[6, 5]),
    lambda a: a.isel(y=slice(5, 5)),
    lambda a: a.isel(y=("p", [3, 12, 52]), x=("p", [0, 12, 70])),
    lambda a: a.isel(band=("p", [0, 0]), y=("p", [3, 12]), x=("p", [0, 12])),
    lambda a: a.isel(band=0, y=("p", [3, 12]), x=("q", [0, 12, 13])),
]


@pytest.mark.parametrize("select", SELECTIONS, ids=range(len(SELECTIONS)))
def test_selections_equal_rioxarrays(file, select):
    ours, theirs = both(file, cache=False)
    got, want = select(ours.band_data), select(theirs.band_data).load()
    xr.testing.assert_equal(got.load(), want)
    assert got.dtype == want.dtype


@pytest.mark.parametrize("points", [False, True])
def test_empty_backward_slices_are_empty(file, points):
    ours = xr.open_dataset(file, engine="penstock", cache=False).band_data
    select = {"band": ("p", [0, 0]), "x": ("p", [3, 4])} if points else {"band": 0}
    assert ours.isel({**select, "y": slice(2, 2, -1)}).load().shape == ((2, 0) if points else (0, ours.sizes["x"]))


@pytest.mark.parametrize(
    "options",
    [
        {"lock": False, "variable": "other", "group": "other"},
        {"open_kwargs": {"sharing": False, "driver": "GTiff", "NUM_THREADS": "ALL_CPUS"}},
        {"open_kwargs": {"overview_level": 0}},
        {"open_kwargs": {"OVERVIEW_LEVEL": "1", "driver": "GTiff"}},
    ],
    ids=str,
)
def test_options_of_rioxarrays_engine_are_accepted(tmp_path, options):
    path = write(tmp_path / "a.tif")
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2, 4])
    ours, theirs = both(path, **options)
    theirs.band_data.attrs.pop("RESAMPLING", None)  # the overview's own
    xr.testing.assert_identical(ours, theirs)
    assert list(ours.sizes) == list(theirs.sizes)
    np.testing.assert_array_equal(ours.to_dataframe().values, theirs.to_dataframe().values)


@pytest.mark.parametrize("given", [{"driver": "PNG"}, {"georef_sources": "NONE"}, {"overview_level": "AUTO"}])
def test_options_of_gdal_without_a_counterpart_are_refused(tmp_path, given):
    with pytest.raises(ps.UnsupportedError, match=next(iter(given))):
        xr.open_dataset(write(tmp_path / "a.tif"), engine="penstock", open_kwargs=given)


@pytest.mark.parametrize(
    "given", [{"zarr_format": 3}, {"consolidated": False}, {"use_zarr_fill_value_as_mask": True}], ids=str
)
def test_options_of_zarr_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(ps.InvalidArgumentError, match=f"{next(iter(given))} is an option of Zarr"):
        xr.open_dataset(write(tmp_path / "a.tif"), engine="penstock", **given)


@pytest.mark.parametrize(
    ("dtype", "said"), [("int16", "true"), ("int32", "true"), ("uint8", "false"), ("float32", "true")]
)
@pytest.mark.parametrize(
    "options",
    [{}, {"mask_and_scale": False}, {"mask_and_scale": False, "masked": True}, {"band_as_variable": True}],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*_Unsigned attribute but is not")
def test_the_unsigned_attribute_decides_the_sign(tmp_path, dtype, said, options):
    path = write(tmp_path / "a.tif", dtype=dtype, tags={"_Unsigned": said})
    with rasterio.open(path, "r+") as file:
        values = file.read()
        values[:, ::3] = np.array(-7 % 256).astype(values.dtype) if said == "false" else -7
        file.write(values)
    ours, theirs = both(path, **options)
    assert {name: each.dtype for name, each in ours.items()} == {name: each.dtype for name, each in theirs.items()}
    xr.testing.assert_identical(ours, theirs)
    for name, each in theirs.items():
        assert ours[name].encoding.get("_Unsigned") == each.encoding.get("_Unsigned")


def test_missing_values_compare_with_the_stored_number(tmp_path):
    path = write(tmp_path / "a.tif", dtype="int16", tags={"_Unsigned": "true"}, nodata=-1)
    with rasterio.open(path, "r+") as file:
        file.write(np.full(file.shape, -1, "int16"), 1)
        file.write(np.full(file.shape, -2, "int16"), 2)
    ours = xr.open_dataset(path, engine="penstock")
    assert np.isnan(ours.band_data[0]).all()
    assert (ours.band_data[1] == 65534).all()
    assert ours.band_data.encoding["_FillValue"] == np.uint16(65535)


def test_floats_without_a_scale_are_the_stored_ones(tmp_path):
    path = tmp_path / "a.tif"
    ps.save(path, np.tile(np.array([-0.0, 1.5], "f4"), (1, 16, 8)))
    for options in ({}, {"masked": True, "mask_and_scale": False}):
        values = xr.open_dataset(path, engine="penstock", **options)["band_data"].values
        assert np.signbit(values[..., ::2]).all()  # nothing was added to them


def test_an_open_image_is_shown(tmp_path):
    path = write(tmp_path / "a.tif", nodata=7)
    ours = xr.open_dataset(ps.open(path), engine="penstock")
    xr.testing.assert_identical(ours, xr.open_dataset(path, engine="penstock"))
    xr.testing.assert_identical(pickle.loads(pickle.dumps(ours)), ours)
    with pytest.raises(ValueError, match="is shown as it is"):
        xr.open_dataset(ps.open(path, bands=[1]), engine="penstock")
    with pytest.raises(ValueError, match="is shown as it is"):
        xr.open_dataset(ps.open(path), engine="penstock", bands=[1])


def test_relative_paths_work_in_other_working_folders(tmp_path, monkeypatch):
    path = write(tmp_path / "a.tif")
    want = xr.load_dataset(path, engine="penstock")
    monkeypatch.chdir(tmp_path)
    lazy = pickle.dumps(xr.open_dataset("a.tif", engine="penstock", cache=False))
    monkeypatch.chdir("/")
    found = pickle.loads(lazy)
    xr.testing.assert_identical(found.load(), want)
    assert found.band_data.encoding["source"] == "a.tif"


def test_labels_select(tmp_path):
    ours, theirs = both(write(tmp_path / "a.tif"))
    box = {"x": slice(500300, 501000), "y": slice(4999500, 4999000), "band": 2}
    xr.testing.assert_equal(ours.sel(box), theirs.sel(box))
    point = {"x": 500777, "y": 4999111}
    xr.testing.assert_equal(ours.sel(point, method="nearest"), theirs.sel(point, method="nearest"))


def test_plain_returns_the_stored_values(tmp_path):
    path = write(tmp_path / "a.tif", dtype="int16", nodata=-999)
    ours = xr.open_dataset(path, engine="penstock", convention="plain")
    assert list(ours.data_vars) == ["raster"]
    assert ours.raster.dims == ("band", "y", "x")
    assert ours.band.dtype == "u1"
    assert ours.band.values.tolist() == [0, 1, 2]
    assert ours.raster.dtype == "i2"
    with rasterio.open(path) as file:
        np.testing.assert_array_equal(ours.raster.values, file.read())
    assert ours.raster.attrs["_FillValue"] == -999
    assert ours.raster.rio.crs.to_epsg() == 32632
    opened = xr.open_dataarray(path, engine="penstock", convention="plain")
    xr.testing.assert_identical(opened, ours.raster)
    with pytest.raises(ValueError, match="convention"):
        xr.open_dataset(path, engine="penstock", convention="fancy")
    with pytest.raises(ValueError, match="default_name"):
        xr.open_dataset(path, engine="penstock", default_name=None)


def test_bands_may_be_variables(tmp_path):
    options = {"descriptions": ("red", "green", "blue"), "units": ("m", "m", "K"), "tags": {"own": "7"}, "nodata": 7}
    options |= {"scales": (0.5, 1.0, 2.0), "offsets": (10.0, 0.0, -1.0), "band_tags": {"STATISTICS_MEAN": "12.5"}}
    path = write(tmp_path / "a.tif", **options)
    for how in ({}, {"mask_and_scale": False}, {"parse_coordinates": False}):
        ours, theirs = both(path, band_as_variable=True, **how)
        assert list(ours.data_vars) == list(theirs.data_vars) == ["band_1", "band_2", "band_3"]
        assert_same(ours, theirs)
    assert ours.attrs["own"] == 7
    assert "STATISTICS_MEAN" not in ours.band_2.attrs
    assert ours.band_3.attrs["units"] == "K"


KEYS = {"system": [1024, 0, 1, 1, 3072, 0, 1, 32633], "heights": [4096, 0, 1, 5773], "feet": [4096, 0, 1, 6360]}
KEYS |= {"no heights": [4096, 0, 1, 5030], "feet alone": [4099, 0, 1, 9002], "area": [1025, 0, 1, 1]}


def keys(*names: str) -> dict[int, Any]:
    entries = sorted(tuple(KEYS[name][i : i + 4]) for name in names for i in range(0, len(KEYS[name]), 4))
    return {34735: tag(3, 1, 1, 1, len(entries), *(number for entry in entries for number in entry))}


ODD: dict[str, tuple[dict[int, Any], Any]] = {
    "heights": (keys("system", "heights"), {"units": "metre"}),
    "heights in feet": (keys("system", "feet"), {"units": "US survey foot"}),
    "a unit of heights": (keys("system", "feet alone"), {"units": "foot"}),
    "no heights": (keys("system", "no heights"), {}),
    "heights of nothing": (keys("heights"), {}),
    "area": (keys("system", "area"), {"AREA_OR_POINT": "Area"}),
    "least and largest": ({280: tag(3, 1), 281: tag(3, 200)}, {"TIFFTAG_MAXSAMPLEVALUE": 200}),
    "resolution": ({282: tag(5, 721234567, 10**7), 283: tag(5, 1, 0), 296: tag(3, 2)}, {"TIFFTAG_YRESOLUTION": 0}),
    "complex integers": ({258: tag(3, 32), 256: tag(4, 1), 257: tag(4, 1), 339: tag(3, 5)}, {}),
}


@pytest.mark.parametrize("name", ODD)
def test_attributes_of_unusual_files_equal_rioxarrays(tmp_path, name):
    tags, wanted = ODD[name]
    (tmp_path / "a.tif").write_bytes(tiff_of(image(2, 2) | tags, bytes([1, 0, 2, 0])))
    ours, theirs = (each.band_data for each in both(tmp_path / "a.tif"))
    assert plain(ours.attrs) == plain(theirs.attrs)
    assert wanted.items() <= ours.attrs.items()
    for each in ("rasterio_dtype", "dtype"):
        assert ours.encoding[each] == theirs.encoding[each]
    np.testing.assert_array_equal(ours.values, theirs.values)


@pytest.mark.parametrize("nodata", ["-9999", "256", "nan", "inf"])
@pytest.mark.parametrize("options", [{}, {"mask_and_scale": False}, {"masked": True}], ids=str)
def test_nodata_that_the_type_cannot_hold_is_ignored(tmp_path, nodata, options):
    (tmp_path / "a.tif").write_bytes(tiff_of(image(2, 2) | {42113: tag(2, nodata)}, bytes([7, 1, 2, 255])))
    assert_same(*both(tmp_path / "a.tif", **options))
    plain = xr.open_dataset(tmp_path / "a.tif", engine="penstock", convention="plain")
    assert "_FillValue" not in plain.raster.attrs
    assert plain.raster.values.tolist() == [[[7, 1], [2, 255]]]


@pytest.mark.parametrize("options", [{}, {"mask_and_scale": False}, {"mask_and_scale": False, "masked": True}], ids=str)
def test_gdals_item_of_nodata_values_is_a_mask(tmp_path, options):
    values = np.random.default_rng(2).integers(0, 2, (3, 53, 71)).astype("u1")
    path = write(tmp_path / "a.tif", dtype="uint8", nodata=1, tags={"NODATA_VALUES": "0 1 0"})
    with rasterio.open(path, "r+") as file:
        file.write(values)
    ours, theirs = both(path, **options)
    assert_same(ours, theirs)
    xr.testing.assert_equal(
        *(each.band_data.isel(band=[2, 1], y=("p", [3, 9]), x=("p", [5, 0])) for each in both(path))
    )
    xr.testing.assert_equal(*(each.band_data.isel(band=1, y=[7, 3], x=slice(9, 2, -2)) for each in both(path)))


def test_control_points_and_polynomials_are_those_of_the_level(tmp_path):
    for options in ({"gcps": FILES["gcps"]["gcps"]}, {"rpcs": True}):
        path = write(tmp_path / "a.tif", **options)
        with rasterio.open(path, "r+") as file:
            file.build_overviews([2, 4])
        for level in (0, 1, 2):
            ours = ps.open(path, level=level)
            with rasterio.open(path, **({"overview_level": level - 1} if level else {})) as file:
                points = [(each.col, each.row, each.x, each.y, each.z) for each in file.gcps[0]]
                assert ours.gcps == [pytest.approx(point, rel=1e-14) for point in points]
                if file.rpcs is None:
                    continue
                for name, value in file.rpcs.to_dict().items():
                    assert ours.rpcs[name.upper()] == pytest.approx(value, rel=1e-14), (level, name)
        attributes = xr.open_dataset(path, engine="penstock", level=1).spatial_ref.attrs
        if "gcps" in options:
            assert '"row": 0.0, "col": 36.0' in attributes["gcps"]
        else:
            assert json.loads(attributes["rpcs"])["line_off"] == ps.open(path, level=1).rpcs["LINE_OFF"]


def test_levels_and_bands_are_selected(tmp_path):
    path = write(tmp_path / "a.tif")
    with rasterio.open(path, "r+") as file:
        file.build_overviews([2, 4])
    ours = xr.open_dataset(path, engine="penstock", level=1, bands=[2, 0])
    with rasterio.open(path, overview_level=0) as file:
        np.testing.assert_array_equal(ours.band_data, file.read([3, 1]))
    assert ours.sizes == {"band": 2, "y": 27, "x": 36}
    assert float(ours.x[1] - ours.x[0]) == pytest.approx(30 * 71 / 36)


@pytest.mark.parametrize("name", ["a.tif", "a.TIFF", "s3://bucket/a.tif", "a.zarr", "a.zarr.zip", "a.nc", "a.h5", "a"])
@pytest.mark.parametrize("others", [(), ("rasterio",), ("zarr",), ("rasterio", "zarr")])
@pytest.mark.parametrize("is_on", [False, True])
def test_the_engine_claims_only_names_that_no_other_claims(monkeypatch, name, others, is_on):
    from xarray.backends import plugins

    known = {each: engine for each, engine in xr.backends.list_engines().items() if each in ("penstock", *others)}
    monkeypatch.setattr(plugins, "list_engines", lambda: known)
    monkeypatch.setattr(xr.backends, "list_engines", lambda: known)
    monkeypatch.setenv("PENSTOCK_XARRAY_GUESS", "1" if is_on else "0")
    kind = name.lower().removeprefix("s3://bucket/").removeprefix("a")
    # xarray's engine "zarr" recognises `.zarr` but not archives.
    owner = {".tif": "rasterio", ".tiff": "rasterio", ".zarr": "zarr"}.get(kind)
    ours = kind in (".tif", ".tiff", ".zarr", ".zarr.zip") and (is_on or owner not in others)
    assert known["penstock"].guess_can_open(name) == ours
    if ours and not is_on:
        assert plugins.guess_engine(name) is known["penstock"] or plugins.guess_engine(name) == "penstock"


def test_a_tiff_is_recognised_by_its_name_or_content(tmp_path):
    path = write(tmp_path / "a.tif")
    other = tmp_path / "scene"
    other.write_bytes(path.read_bytes())
    np.testing.assert_array_equal(
        xr.open_dataset(other, engine="penstock").band_data, xr.open_dataset(path, engine="penstock").band_data
    )


def test_lazy_images_pickle_as_their_location(file):
    ours = xr.open_dataset(file, engine="penstock", cache=False)
    again = pickle.loads(pickle.dumps(ours))
    xr.testing.assert_identical(again.load(), ours.load())


def test_scenes_become_one_dataset_through_dask(tmp_path):
    pytest.importorskip("dask")
    paths = [write(tmp_path / f"{i}.tif", nodata=7) for i in range(3)]
    options = {"combine": "nested", "concat_dim": "scene", "chunks": {}}
    ours, theirs = (xr.open_mfdataset(paths, engine=engine, **options) for engine in ("penstock", "rasterio"))
    assert ours.band_data.chunks == ((1, 1, 1), (3,), (32, 21), (16, 16, 16, 16, 7))
    xr.testing.assert_equal(ours.compute(), theirs.compute())
    ours.close()


@pytest.mark.parametrize("options", [{"device": "cuda"}, {"device_id": None}, {"device_id": 0}], ids=str)
def test_absent_devices_are_refused_at_once(tmp_path, options):
    path = write(tmp_path / "a.tif")
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount():
            pytest.skip("there is a GPU here")
    except ImportError:
        pass
    with pytest.raises(ps.Error, match=r"cuda|CUDA|GPU|device"):
        xr.open_dataset(path, engine="penstock", **options)
    with pytest.raises(ps.UnsupportedError, match="tpu"):
        xr.open_dataset(path, engine="penstock", device="tpu")


def test_coordinates_of_rotated_grids_are_computed_on_demand(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tif", transform=NORTH_UP * Affine.rotation(20))
    ours, theirs = xr.open_dataset(path, engine="penstock"), xr.open_dataset(path, engine="rasterio")
    for index in ({"x": 3}, {"y": 5, "x": 4}, {"y": [7, 2]}, {"y": slice(9, 2, -3), "x": [1, 60]}, {"x": slice(0, 0)}):
        for name in ("xc", "yc"):
            xr.testing.assert_identical(ours[name].isel(index).variable, theirs[name].isel(index).variable)
    wide = tmp_path / "wide.tif"
    rows, columns = 1 << 24, 1 << 24
    wide.write_bytes(
        tiff_of(image(columns, rows) | {34264: tag(12, *[3.0, 1.0, 0, 9, 1.0, -3.0, 0, 7, *[0.0] * 8])}, b"abcd")
    )
    centre = xr.open_dataset(wide, engine="penstock").xc[5, rows - 1]
    assert float(centre) == 3.0 * (columns - 0.5) + 5.5 + 9


def test_axes_larger_than_memory_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tif"
    path.write_bytes(tiff_of(image((1 << 27) + 1, 2), b"abcd"))
    with pytest.raises(ps.UnsupportedError, match="parse_coordinates=False"):
        xr.open_dataset(path, engine="penstock")
    assert xr.open_dataset(path, engine="penstock", parse_coordinates=False).sizes["x"] == (1 << 27) + 1
