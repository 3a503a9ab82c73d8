"""`convert` from and to GeoTIFF: position, meaning of pixels, coordinates of NetCDF and Zarr."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from test_names_and_formats import VALUES


def test_georeferencing_is_copied_from_tiff_to_tiff(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.tif", VALUES, crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6), nodata=3)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", compress="zstd", verify=True)
    assert made.epsg == 32633
    assert tuple(made.transform)[:6] == (10, 0, 5e5, 0, -10, 5e6)
    assert made.nodata == 3


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
@pytest.mark.parametrize(
    ("bands", "options"),
    [
        (1, {"mask": True}),
        (3, {"photometric": "rgb"}),
        (3, {"photometric": "rgb", "mask": True}),
        (4, {"photometric": "rgb", "alpha": True}),
        (5, {"photometric": "rgb"}),
        (2, {"alpha": True}),
        (4, {}),
    ],
)
def test_colours_opacity_and_masks_are_copied_from_tiff_to_tiff(
    tmp_path: Path, dtype: str, bands: int, options: dict[str, Any]
) -> None:
    rasterio = pytest.importorskip("rasterio")
    values = (np.arange(bands * 40 * 50).reshape(bands, 40, 50) % 251).astype(dtype)
    if options.get("mask"):
        options = {**options, "mask": np.arange(2000).reshape(40, 50) % 3 != 0}
    ps.create_array(tmp_path / "a.tif", data=values, tiles=16, **options)
    ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", verify=True)
    with rasterio.open(tmp_path / "a.tif") as wanted, rasterio.open(tmp_path / "b.tif") as found:
        assert found.colorinterp == wanted.colorinterp
        assert found.mask_flag_enums == wanted.mask_flag_enums
        np.testing.assert_array_equal(found.read_masks(), wanted.read_masks())
        np.testing.assert_array_equal(found.read(), values)
    ps.convert(ps.open(tmp_path / "a.tif", bands=[0]), tmp_path / "c.tif")
    assert ps.open(tmp_path / "c.tif").photometric == "minisblack"


@pytest.mark.parametrize("bits", [1, 4, 8, 12])
@pytest.mark.parametrize("photometric", ["miniswhite", "minisblack", "palette"])
def test_bits_and_their_meaning_are_copied_from_tiff_to_tiff(tmp_path: Path, bits: int, photometric: str) -> None:
    values = (np.arange(2000).reshape(1, 40, 50) % 2**bits).astype("u2" if bits > 8 else "u1")
    colours = {"colormap": np.arange(3 * 2**bits).reshape(-1, 3) % 65536} if photometric == "palette" else {}
    ps.create_array(tmp_path / "a.tif", data=values, bits=bits, photometric=photometric, **colours)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", verify=True)
    assert (made.photometric, made.tags["BitsPerSample"]) == (photometric, bits)
    np.testing.assert_array_equal(made.colormap, ps.open(tmp_path / "a.tif").colormap)
    wide = ps.create_array(tmp_path / "c.tif", data=ps.open(tmp_path / "a.tif"), dtype="u4", photometric="minisblack")
    assert wide.tags["BitsPerSample"] == 32
    if bits <= 8 and photometric != "palette":
        ps.convert(tmp_path / "a.tif", tmp_path / "d.tif", compress="jpeg")
        ps.create_array(tmp_path / "e.tif", data=np.concatenate([values, values]), bits=bits)
        assert ps.convert(tmp_path / "e.tif", tmp_path / "f.tif").tags["BitsPerSample"] == (bits, bits)


def test_an_image_in_the_files_own_order_keeps_its_meaning(tmp_path: Path) -> None:
    values = np.arange(12, dtype="u1").reshape(3, 4)
    meaning = {"scales": [0.5], "offsets": [2.0], "units": ["m"], "descriptions": ["height"], "nodata": 3}
    colours = {"colormap": np.arange(768).reshape(256, 3)}
    for options in (meaning, colours, {"photometric": "miniswhite"}, {"mask": np.eye(3, 4, dtype=bool)}):
        ps.create_array(tmp_path / "a.tif", data=values, overwrite=True, **options)
        image = ps.open(tmp_path / "a.tif", layout="native")
        assert image.shape == (3, 4)
        made = ps.convert(image, tmp_path / "b.tif", verify=False, overwrite=True)
        np.testing.assert_array_equal(made[0], values)
        for fact in ("scales", "offsets", "units", "descriptions", "nodata", "photometric", "has_mask"):
            assert getattr(made, fact) == getattr(image, fact), fact
        np.testing.assert_array_equal(made.colormap, image.colormap)
        if made.has_mask:
            np.testing.assert_array_equal(ps.open(tmp_path / "b.tif", mask=True)[0] != 0, options["mask"])


def test_points_without_a_transform_remain_points(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.tif", VALUES, crs=32633, area_or_point="Point")
    assert ps.convert(tmp_path / "a.tif", tmp_path / "b.tif").area_or_point == "Point"


def test_a_mask_of_an_image_can_be_omitted(tmp_path: Path) -> None:
    ps.create_array(tmp_path / "a.tif", data=np.ones((1, 8, 8), "u1"), mask=np.eye(8, dtype=bool))
    assert not ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", mask=False).has_mask
    with pytest.warns(UserWarning, match="the mask of .* is not written to Zarr"):
        ps.convert(ps.open(tmp_path / "a.tif"), tmp_path / "b.zarr")


def test_a_nodata_value_that_no_pixel_can_have_is_omitted(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    options = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "int16", "nodata": -30000}
    with rasterio.open(tmp_path / "a.tif", "w", **options) as file:
        file.write(np.zeros((1, 4, 4), "i2"))
    data = bytearray((tmp_path / "a.tif").read_bytes().replace(b"-30000", b"-99999"))
    (tmp_path / "a.tif").write_bytes(data)
    assert ps.open(tmp_path / "a.tif").nodata == -99999
    assert ps.convert(tmp_path / "a.tif", tmp_path / "b.tif").nodata is None


def test_texts_are_copied_from_tiff_to_tiff(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    texts = {
        "TIFFTAG_DOCUMENTNAME": "scene 7",
        "TIFFTAG_IMAGEDESCRIPTION": '{"level": 2}',
        "TIFFTAG_SOFTWARE": "written by hand",
        "TIFFTAG_DATETIME": "2026:11:29 12:00:00",
        "TIFFTAG_ARTIST": "A. Painter",
        "TIFFTAG_HOSTCOMPUTER": "host",
        "TIFFTAG_COPYRIGHT": "CC0",
    }
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", width=4, height=4, count=1, dtype="uint8") as file:
        file.write(np.zeros((1, 4, 4), "u1"))
        file.update_tags(sensor="MSI", **texts)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif")
    assert made.gdal_metadata == {"sensor": "MSI"}
    assert (made.tags["Software"], made.tags["Copyright"]) == ("written by hand", "CC0")
    with rasterio.open(tmp_path / "b.tif") as file:
        assert {name: text for name, text in file.tags().items() if name != "AREA_OR_POINT"} == {
            **texts,
            "sensor": "MSI",
        }


PLACE = {"crs": 32633, "transform": (10, 0, 500000, 0, -10, 4600000)}

MEANING = {
    "nodata": -9999,
    "scales": [0.1, 0.1],
    "offsets": [2.0, 2.0],
    "units": ["m", "m"],
    "descriptions": ["red", "nir"],
    "attributes": {"sensor": "MSI"},
}


def scene(path: Path, dtype: str = "i2", **options: Any) -> Path:
    """A GeoTIFF of two bands; one pixel in nine is nodata."""
    values = np.arange(2 * 40 * 60).reshape(2, 40, 60).astype(dtype)
    if "nodata" in options:
        values[:, ::3, ::3] = options["nodata"]
    ps.save(path, values, tiles=16, **PLACE, **options)
    return path


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "meaning"), [("i2", MEANING), ("f4", {"nodata": -1.5}), ("f8", {}), ("u1", {})])
def test_a_placed_image_becomes_a_dataset(
    tmp_path: Path, dtype: str, meaning: dict[str, Any], zarr_format: int
) -> None:
    """xarray's datasets of the TIFF and of the group are equal, with our engine and with their own engines."""
    xarray = pytest.importorskip("xarray")
    source = scene(tmp_path / "a.tif", dtype, **meaning)
    made = ps.convert(source, tmp_path / "a.zarr", zarr_format=zarr_format, chunks=(1, 16, 16), verify=True)
    assert isinstance(made, ps.Group)
    assert sorted(made) == ["band", "band_data", "spatial_ref", "x", "y"]
    assert made["band_data"].chunks == (1, 16, 16)
    np.testing.assert_array_equal(made["band_data"][...], ps.open(source)[...])
    wanted = xarray.open_dataset(source, engine="penstock", decode_coords="all").load()
    for engine in ("penstock", "zarr"):
        got = xarray.open_dataset(tmp_path / "a.zarr", engine=engine, decode_coords="all", consolidated=False).load()
        xarray.testing.assert_allclose(got, wanted, rtol=1e-6)  # xarray scales int16 as float64
        in_json = {k: list(v) if isinstance(v, tuple) else v for k, v in wanted["band_data"].attrs.items()}
        assert got["band_data"].attrs == in_json
        assert got["spatial_ref"].attrs == wanted["spatial_ref"].attrs
        encoding = wanted["band_data"].encoding
        assert got["band_data"].encoding.get("_FillValue") == encoding.get("_FillValue")
        if meaning.get("scales"):
            for name in ("scale_factor", "add_offset"):
                assert got["band_data"].encoding[name] == encoding[name]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "meaning"), [("i2", MEANING), ("f4", {"nodata": -1.5}), ("f4", {"nodata": "nan"})])
def test_a_scene_is_the_same_after_zarr(tmp_path: Path, dtype: str, meaning: dict[str, Any], zarr_format: int) -> None:
    if meaning["nodata"] == "nan":
        meaning = {"nodata": float("nan")}
    source = scene(tmp_path / "a.tif", dtype, **meaning)
    group = ps.convert(source, tmp_path / "a.zarr", zarr_format=zarr_format)
    for name, given in (("b.tif", group), ("c.tif", tmp_path / "a.zarr"), ("d.tif", tmp_path / "a.zarr" / "band_data")):
        ps.convert(given, tmp_path / name, verify=True)
        one, other = ps.open(source), ps.open(tmp_path / name)
        assert other.epsg == 32633
        for fact in ("transform", "scales", "offsets", "units", "descriptions", "area_or_point"):
            assert getattr(other, fact) == getattr(one, fact), fact
        assert other.nodata == one.nodata or (np.isnan(one.nodata) and np.isnan(other.nodata))
        assert other.gdal_metadata.get("sensor") == one.gdal_metadata.get("sensor")
        np.testing.assert_array_equal(other[...], one[...])


@pytest.mark.parametrize("ending", [".nc", ".h5"])
@pytest.mark.parametrize(
    ("dtype", "meaning"),
    [
        ("i2", {**MEANING, "descriptions": ["red", None]}),
        ("f4", {"nodata": -1.5}),
        ("f8", {"nodata": float("nan")}),
        ("u1", {"scales": [0.5, 0.25]}),
    ],
)
def test_a_placed_image_is_the_same_after_hdf5(
    tmp_path: Path, dtype: str, meaning: dict[str, Any], ending: str
) -> None:
    pytest.importorskip("h5py")
    xarray = pytest.importorskip("xarray")
    source, target = scene(tmp_path / "a.tif", dtype, **meaning), tmp_path / f"a{ending}"
    made = ps.convert(source, target, chunks=(1, 16, 32), verify=True)
    assert isinstance(made, ps.Group)
    assert sorted(made) == ["band", "band_data", "spatial_ref", "x", "y"]
    assert made["band_data"].chunks == (1, 16, 32)
    again = ps.convert(target, tmp_path / "b.tif", verify=True)
    image = ps.open(source)
    np.testing.assert_array_equal(again[...], image[...])
    for fact in ("epsg", "transform", "scales", "offsets", "units", "descriptions", "area_or_point"):
        assert getattr(again, fact) == getattr(image, fact), fact
    np.testing.assert_equal(again.nodata, image.nodata)
    if not meaning.get("scales") or len(set(meaning["scales"])) == 1:
        got = xarray.open_dataset(target, engine="h5netcdf", decode_coords="all").load()
        wanted = xarray.open_dataset(source, engine="penstock").load()
        np.testing.assert_allclose(got["band_data"], wanted["band_data"], rtol=1e-6)
        for axis in ("x", "y", "band"):
            np.testing.assert_array_equal(got[axis], wanted[axis])


def test_the_mask_of_an_image_is_not_written_to_hdf5(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    ps.create_array(tmp_path / "a.tif", data=VALUES, mask=np.ones(VALUES.shape[-2:], bool), **PLACE)
    with pytest.warns(UserWarning, match="the mask of .* is not written to HDF5"):
        ps.convert(tmp_path / "a.tif", tmp_path / "a.nc", chunks={"y": 2})
    with pytest.raises(ps.InvalidArgumentError, match="no array has a dimension 'z'"):
        ps.convert(tmp_path / "a.tif", tmp_path / "b.nc", chunks={"z": 2})
    assert not (tmp_path / "b.nc").exists()


def test_gdal_finds_the_georeferencing_after_zarr(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    ps.convert(scene(tmp_path / "a.tif", **MEANING), tmp_path / "a.zarr")
    ps.convert(tmp_path / "a.zarr", tmp_path / "b.tif")
    with rasterio.open(tmp_path / "a.tif") as one, rasterio.open(tmp_path / "b.tif") as other:
        for fact in ("crs", "transform", "nodata", "scales", "offsets", "units", "descriptions", "dtypes"):
            assert getattr(other, fact) == getattr(one, fact), fact
        assert other.tags()["sensor"] == "MSI"


def test_an_image_group_is_replaced_after_all_is_written(tmp_path: Path) -> None:
    source, target = scene(tmp_path / "a.tif"), tmp_path / "a.zarr"
    ps.convert(source, target)
    with pytest.raises(ps.InvalidArgumentError):
        ps.convert(source, target)
    with pytest.raises(ps.Error):
        ps.convert(source, target, codecs=["no such codec"], overwrite=True)
    assert ps.open(target)["band_data"].shape == (2, 40, 60)
    ps.convert(source, target, zarr_format=2, overwrite=True)
    assert ps.open(target).format == "zarr2"
    ps.save(tmp_path / "plain.tif", VALUES)
    ps.convert(tmp_path / "plain.tif", target, overwrite=True)
    assert isinstance(ps.open(target), ps.Array)  # without georeferencing, an image becomes an array


def test_colours_are_copied_from_tiff_to_tiff_unless_given(tmp_path: Path) -> None:
    colours = np.arange(768, dtype="u2").reshape(256, 3)
    ps.save(tmp_path / "a.tif", VALUES.astype("u1"), colormap=colours)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", verify=True)
    np.testing.assert_array_equal(made.colormap, ps.open(tmp_path / "a.tif").colormap)
    assert ps.convert(tmp_path / "a.tif", tmp_path / "c.tif", photometric="minisblack").colormap is None
    ps.create_array(tmp_path / "d.tif", data=ps.open(tmp_path / "a.tif"), dtype="f4")
    assert ps.open(tmp_path / "d.tif").dtype == np.float32


def netcdf(path: Path, kind: str) -> Path:
    netcdf4 = pytest.importorskip("netCDF4")
    pyproj = pytest.importorskip("pyproj")
    with netcdf4.Dataset(path, "w", format=kind) as file:
        file.title = "T"
        for name, size in (("time", 2), ("y", 4), ("x", 5)):
            file.createDimension(name, size)
        file.createVariable("x", "f8", ("x",))[:] = 500005 + 10.0 * np.arange(5)
        file.createVariable("y", "f4", ("y",))[:] = 4000.5 - 10 * np.arange(4)
        time = file.createVariable("time", "i4", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = [0, 1]
        file.createVariable("crs", "S1", ()).setncatts(pyproj.CRS.from_epsg(32633).to_cf())
        for name, dtype in (("t", "i2"), ("f", "f4")):
            variable = file.createVariable(name, dtype, ("time", "y", "x"), fill_value=-99)
            variable.setncatts({"grid_mapping": "crs", "units": "K", "long_name": "temperature"})
            if name == "t":
                variable.setncatts({"scale_factor": 0.5, "add_offset": 10.0})
            variable[:] = np.arange(40).reshape(2, 4, 5)
    return path


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"])
def test_netcdf_means_the_same_as_zarr(tmp_path: Path, kind: str, zarr_format: int) -> None:
    xarray = pytest.importorskip("xarray")
    source = netcdf(tmp_path / "a.nc", kind)
    ps.convert(source, tmp_path / "a.zarr", zarr_format=zarr_format, verify=True)
    wanted = xarray.open_dataset(source, engine="netcdf4", decode_coords="all").load()
    for engine in ("penstock", "zarr"):
        got = xarray.open_dataset(tmp_path / "a.zarr", engine=engine, decode_coords="all", consolidated=False).load()
        xarray.testing.assert_identical(got, wanted)


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_variable_of_netcdf_becomes_a_geotiff(tmp_path: Path, kind: str) -> None:
    source = netcdf(tmp_path / "a.nc", kind)
    variable = ps.open(source)["t"]
    made = ps.convert(variable, tmp_path / "a.tif", verify=True)
    assert made.epsg == 32633
    assert tuple(made.transform)[:6] == (10, 0, 500000, 0, -10, 4005.5)
    assert (made.nodata, made.scales, made.offsets) == (-99, (0.5, 0.5), (10, 10))
    assert (made.units, made.descriptions) == (("K", "K"), ("temperature", "temperature"))
    with pytest.raises(ps.UnsupportedError, match="choose one"):
        ps.convert(source, tmp_path / "b.tif")  # t and f


def test_coordinates_lead_to_a_transform_in_metres(tmp_path: Path) -> None:
    """Kilometres and packed coordinates; the rows of GDAL's files begin in the south."""
    pyproj = pytest.importorskip("pyproj")
    group = ps.create_group(tmp_path / "a.zarr")
    attributes = pyproj.CRS.from_epsg(32633).to_cf()
    group.create_array("m", data=np.int8(0), attributes={**attributes, "GeoTransform": "0 1000 0 40000 0 -1000"})
    group.create_array("x", data=np.arange(5.0) + 0.5, dimension_names=("x",), attributes={"units": "km"})
    packed = {"units": "km", "scale_factor": 0.5, "add_offset": 36.5}
    group.create_array("y", data=np.arange(4, dtype="i2") * 2, dimension_names=("y",), attributes=packed)
    group.create_array("v", data=VALUES[:4, :5], dimension_names=("y", "x"), attributes={"grid_mapping": "m: x y"})
    made = ps.convert(group["v"], tmp_path / "a.tif")
    assert made.epsg == 32633
    assert tuple(made.transform)[:6] == (1000, 0, 0, 0, 1000, 36000)


@pytest.mark.parametrize(
    ("names", "attributes"),
    [(("lon", "lat"), ({}, {})), (("a", "b"), ({"units": "degrees_east"}, {})), (("a", "b"), ({"axis": "X"}, {}))],
)
def test_rows_along_x_have_a_transform(tmp_path: Path, names: tuple[str, str], attributes: tuple[Any, Any]) -> None:
    group = ps.create_group(tmp_path / "a.zarr")
    for name, line, facts in zip(names, (10 + 2.0 * np.arange(5), 60 - np.arange(4.0)), attributes, strict=True):
        group.create_array(name, data=line, dimension_names=(name,), attributes=facts)
    group.create_array("v", data=VALUES[:5, :4], dimension_names=names)
    made = ps.convert(group["v"], tmp_path / "a.tif")
    assert made.xy(1, 2) == (12, 58)
    assert tuple(made.transform)[:6] == (0, 2, 9, -1, 0, 60.5)


def test_a_single_row_has_the_place_of_its_coordinate(tmp_path: Path) -> None:
    """As xarray writes a selection: the grid mapping's GeoTransform is that of the whole image."""
    group = ps.create_group(tmp_path / "a.zarr")
    group.create_array("spatial_ref", data=np.int8(0), attributes={"GeoTransform": "500 10 0 900 0 -10"})
    group.create_array("y", data=np.array([845.0]), dimension_names=("y",))
    group.create_array("x", data=505 + 10.0 * np.arange(3, 8), dimension_names=("x",))
    attributes = {"grid_mapping": "spatial_ref"}
    group.create_array("v", data=VALUES[:1, :5], dimension_names=("y", "x"), attributes=attributes)
    made = ps.convert(group["v"], tmp_path / "a.tif")
    assert tuple(made.transform)[:6] == (10, 0, 530, 0, -10, 850)


def test_control_characters_of_attributes_become_blanks(tmp_path: Path) -> None:
    attributes = {"history": "a\x1bb\0", "scale_factor": 0.5}
    ps.create_array(tmp_path / "a.zarr", data=VALUES, dimension_names=("y", "x"), attributes=attributes)
    made = ps.convert(tmp_path / "a.zarr", tmp_path / "a.tif")
    assert made.scales == (0.5,)
    assert made.gdal_metadata["history"].rstrip() == "a b"


def test_masks_and_physical_values_of_a_tiff_keep_their_place(tmp_path: Path) -> None:
    mask = np.ones((40, 60), bool)
    mask[:5] = False
    how = {"nodata": 255, "scales": [0.5], "offsets": [1.0], "units": ["m"], "descriptions": ["height"]}
    ps.save(tmp_path / "a.tif", np.arange(2400, dtype="u2").reshape(1, 40, 60), mask=mask, **how, **PLACE)
    whole = ps.open(tmp_path / "a.tif")
    ps.save(tmp_path / "b.tif", ps.open(tmp_path / "a.tif", mask=True))
    made = ps.open(tmp_path / "b.tif")
    np.testing.assert_array_equal(made[0], np.where(mask, 255, 0))
    assert (made.crs, made.transform, made.nodata, made.scales) == (whole.crs, whole.transform, None, (1.0,))
    unpacked = ps.open(tmp_path / "a.tif", unpack=True)
    ps.save(tmp_path / "b.tif", unpacked)
    made = ps.open(tmp_path / "b.tif")
    np.testing.assert_array_equal(made[...], unpacked[...])
    assert (made.crs, made.transform, made.scales, made.offsets) == (whole.crs, whole.transform, (1.0,), (0.0,))
    assert (made.units, made.descriptions) == (whole.units, whole.descriptions)
    assert np.isnan(made.nodata)
    ps.save(tmp_path / "c.tif", np.zeros((3, 40, 60), "u1"))
    with pytest.raises(ps.InvalidArgumentError, match="transpose"):
        ps.save(tmp_path / "b.tif", ps.open(tmp_path / "c.tif", layout="native"))


@pytest.mark.parametrize("own", [None, 5])
@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8"])
def test_nodata_of_a_sidecar_file_is_copied(tmp_path: Path, dtype: str, own: int | None) -> None:
    xarray = pytest.importorskip("xarray")
    values = np.arange(64).reshape(1, 8, 8).astype(dtype)
    ps.save(tmp_path / "a.tif", values, nodata=own, **PLACE)
    text = '<PAMDataset><PAMRasterBand band="1"><NoDataValue>9</NoDataValue></PAMRasterBand></PAMDataset>'
    (tmp_path / "a.tif.aux.xml").write_text(text)
    expected = np.where(values == 9, np.nan, values)
    for zarr_format in (2, 3) if own is None else (3,):
        ps.convert(tmp_path / "a.tif", tmp_path / "a.zarr", zarr_format=zarr_format, overwrite=True)
        for engine in ("zarr", "penstock"):
            shown = xarray.open_dataset(tmp_path / "a.zarr", engine=engine, consolidated=False)
            np.testing.assert_array_equal(shown["band_data"], expected)
        assert ps.convert(tmp_path / "a.zarr", tmp_path / "b.tif", overwrite=True).nodata == 9
    assert ps.convert(tmp_path / "a.tif", tmp_path / "c.tif").nodata == 9


def test_nodata_values_of_bands_that_differ_are_named(tmp_path: Path) -> None:
    ps.save(tmp_path / "a.tif", np.zeros((2, 8, 8), "u1"), **PLACE)
    bands = "".join(
        f'<PAMRasterBand band="{band}"><NoDataValue>{7 * band}</NoDataValue></PAMRasterBand>' for band in (1, 2)
    )
    (tmp_path / "a.tif.aux.xml").write_text(f"<PAMDataset>{bands}</PAMDataset>")
    for name in ("b.tif", "b.zarr"):
        with pytest.warns(UserWarning, match=r"other nodata values \(7, 14\)"):
            ps.convert(tmp_path / "a.tif", tmp_path / name)


def test_scaled_values_that_equal_the_packed_nodata_stay_valid(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    packed = np.array([[[0, 100, 101, 50]]], "u1")
    ps.save(tmp_path / "a.tif", packed, nodata=0, scales=[0.5], offsets=[-50.0], **PLACE)
    decoded = xarray.open_dataset(tmp_path / "a.tif", engine="penstock").band_data
    ps.save(tmp_path / "b.tif", decoded)
    expected = np.array([[[np.nan, 0, 0.5, -25]]])  # 0 is a value here, and the mark of missing ones in the file
    np.testing.assert_array_equal(decoded, expected)
    np.testing.assert_array_equal(ps.open(tmp_path / "b.tif", unpack=True)[...], expected)


def test_properties_that_a_target_cannot_store_are_named(tmp_path: Path) -> None:
    pyproj = pytest.importorskip("pyproj")
    group = ps.create_group(tmp_path / "a.zarr")
    pole = {
        "grid_mapping_name": "rotated_latitude_longitude",
        "grid_north_pole_latitude": 39.25,
        "grid_north_pole_longitude": -162.0,
    }
    assert pyproj.CRS.from_cf(pole)
    group.create_array("rotated", data=np.int8(0), attributes={**pole, "gcps": "{}", "GeoTransform": "0 1 0 0 0 -1"})
    group.create_array("v", data=VALUES, dimension_names=("y", "x"), attributes={"grid_mapping": "rotated"})
    with pytest.warns(UserWarning, match="not written") as told:
        made = ps.convert(group["v"], tmp_path / "v.tif")
    assert made.crs is None
    texts = [str(each.message) for each in told]
    assert any("ground control points" in text for text in texts)
    assert any("coordinate system" in text for text in texts)
    mask = np.ones((40, 60), bool)
    with pytest.warns(UserWarning, match="the mask of"):
        ps.convert(scene(tmp_path / "m.tif", mask=mask), tmp_path / "m.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("nodata", [0.0, -2.5, float("nan")])
def test_complex_images_keep_their_nodata(tmp_path: Path, nodata: float, zarr_format: int) -> None:
    values = np.array([[1 + 2j, nodata], [3, 4 - 1j]], "c8")
    ps.save(tmp_path / "a.tif", values, nodata=nodata, **PLACE)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "a.zarr", zarr_format=zarr_format)
    back = ps.convert(made, tmp_path / "b.tif", verify=True)
    np.testing.assert_equal(back.nodata, nodata)
    xarray = pytest.importorskip("xarray")
    for engine in ("zarr", "penstock"):
        with xarray.open_dataset(tmp_path / "a.zarr", engine=engine, consolidated=False, mask_and_scale=False) as shown:
            np.testing.assert_equal(complex(shown["band_data"].attrs["_FillValue"]), complex(nodata))


@pytest.mark.parametrize("way", ["zarr", "tif"])
def test_the_crs_of_control_points_is_not_the_images(tmp_path: Path, way: str) -> None:
    rasterio = pytest.importorskip("rasterio")
    points = [rasterio.control.GroundControlPoint(r, c, 10 + c, 50 - r) for r, c in ((0, 0), (0, 8), (6, 0))]
    profile = {"driver": "GTiff", "width": 8, "height": 6, "count": 1, "dtype": "int32"}
    with rasterio.open(tmp_path / "a.tif", "w", **profile, gcps=points, crs="EPSG:4326") as file:
        file.write(VALUES, 1)
    of = tmp_path / "a.tif" if way == "tif" else ps.convert(tmp_path / "a.tif", tmp_path / "a.zarr")
    with pytest.warns(UserWarning, match="ground control points"):
        made = ps.convert(of, tmp_path / "b.tif", verify=True)
    assert (made.crs, made.transform) == (None, None)


def test_the_part_of_a_crs_that_has_keys_is_written(tmp_path: Path) -> None:
    pyproj = pytest.importorskip("pyproj")
    wkt = pyproj.CRS.from_user_input("EPSG:32632+5773").to_wkt().replace("5773", "99999").replace("EGM96", "own")
    assert pyproj.CRS.from_wkt(wkt).is_compound
    group = ps.create_group(tmp_path / "a.zarr")
    group.create_array("crs", data=np.int8(0), attributes={"crs_wkt": wkt, "GeoTransform": "0 1 0 0 0 -1"})
    group.create_array("v", data=VALUES, dimension_names=("y", "x"), attributes={"grid_mapping": "crs"})
    with pytest.warns(UserWarning, match="the whole coordinate system .* is not written: the vertical system"):
        made = ps.convert(group["v"], tmp_path / "v.tif")
    assert made.epsg == 32632


@pytest.mark.parametrize("shape", [(), (5,), (1, 2, 3, 4)])
def test_arrays_of_other_ranks_than_images_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(ps.InvalidArgumentError, match=r"a TIFF has the shape \(band, y, x\) or \(y, x\), not"):
        ps.convert(ps.create_array({}, data=np.ones(shape)), tmp_path / "a.tif")


def test_nodata_of_a_sidecar_file_that_a_copy_loses_is_named(tmp_path: Path) -> None:
    values = np.arange(64, dtype="f4").reshape(1, 8, 8)
    text = '<PAMDataset><PAMRasterBand band="1"><NoDataValue>9</NoDataValue></PAMRasterBand></PAMDataset>'
    for own in (None, 0, 9):
        ps.save(tmp_path / "a.tif", values, nodata=own)
        (tmp_path / "a.tif.aux.xml").write_text(text)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            ps.copy(tmp_path / "a.tif", tmp_path / "a.zarr", overwrite=True)
        assert [str(each.message).startswith("the nodata value of a sidecar file") for each in found] == (
            [] if own == 9 else [True]
        )
    ps.save(tmp_path / "a.tif", values, nodata=0, **PLACE)
    with pytest.warns(UserWarning, match=r"nodata 9.* is not written: Zarr 2 has one value, 0"):
        ps.convert(tmp_path / "a.tif", tmp_path / "b.zarr", zarr_format=2)


@pytest.mark.parametrize("nodata", [-9999.0, 0.5, float("nan"), 255.0])
def test_nodata_that_the_new_dtype_does_not_have_is_omitted(tmp_path: Path, nodata: float) -> None:
    values = np.arange(64, dtype="f4").reshape(1, 8, 8)
    ps.save(tmp_path / "a.tif", values, nodata=nodata, **PLACE)
    made = ps.convert(tmp_path / "a.tif", tmp_path / "b.tif", dtype="u1")
    assert (made.dtype, made.nodata) == ("u1", 255 if nodata == 255 else None)
    np.testing.assert_array_equal(made[...], values)
    values[0, 0, 0] = nodata
    ps.save(tmp_path / "a.tif", values, nodata=nodata, **PLACE)
    if nodata < 0 or nodata != nodata:
        with pytest.raises(ps.InvalidArgumentError, match="values that uint8 does not have"):
            ps.convert(tmp_path / "a.tif", tmp_path / "c.tif", dtype="u1")
