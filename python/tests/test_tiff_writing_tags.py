"""Georeferencing, metadata and colours of written TIFFs, as GDAL, rasterio and pyproj read them."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import penstock as ps
import pytest
from tiff_writing_cases import UTM, picture


@pytest.mark.parametrize(
    "crs", [32633, "EPSG:4326", "epsg:3857", np.int64(2056), "EPSG:4326+5773", "EPSG:25832+7837", "EPSG:4979"]
)
def test_systems_with_a_code_are_read_by_gdal(tmp_path, crs):
    rasterio = pytest.importorskip("rasterio")
    pyproj = pytest.importorskip("pyproj")
    path = tmp_path / "x.tif"
    ps.save(path, picture("u1", (1, 20, 20)), crs=crs, transform=UTM)
    wanted = pyproj.CRS.from_user_input(crs)
    assert ps.open(path).crs == wanted
    with rasterio.open(path) as file:
        assert pyproj.CRS.from_wkt(file.crs.to_wkt()).equals(wanted, ignore_axis_order=True)
        assert tuple(file.transform)[:6] == UTM


def test_objects_of_pyproj_and_rasterio_and_wkt_are_systems(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    pyproj = pytest.importorskip("pyproj")
    affine = pytest.importorskip("affine")
    path = tmp_path / "x.tif"
    system = pyproj.CRS.from_epsg(32633)
    old = rasterio.crs.CRS.from_epsg(32633)
    for crs in (system, system.to_wkt(), system.to_wkt("WKT1_GDAL"), old, old.to_wkt()):
        ps.save(path, picture("u1", (1, 20, 20)), crs=crs, transform=affine.Affine(*UTM))
        assert ps.open(path).epsg == 32633
        assert tuple(ps.open(path).transform)[:6] == UTM


@pytest.mark.parametrize(
    "proj",
    [
        "+proj=laea +lat_0=47.3 +lon_0=8.5 +x_0=1000 +y_0=2000 +datum=WGS84 +units=m",
        "+proj=tmerc +lat_0=1 +lon_0=3 +k=0.9 +ellps=bessel +units=us-ft",
        "+proj=sinu +R=6371007.181 +units=m",
        "+proj=longlat +R=6371000",
        "+proj=longlat +a=3396190 +b=3376200",
        "+proj=utm +zone=33 +a=6378137 +b=6356752.3",
    ],
)
def test_a_system_without_a_code_is_written_as_wkt(tmp_path, proj):
    rasterio = pytest.importorskip("rasterio")
    pyproj = pytest.importorskip("pyproj")
    wanted = pyproj.CRS.from_proj4(proj)
    path = tmp_path / "x.tif"
    ps.save(path, picture("u1", (1, 20, 20)), crs=wanted, transform=UTM)
    assert ps.open(path).epsg is None
    with rasterio.open(path) as file:
        theirs = pyproj.CRS.from_wkt(file.crs.to_wkt())
    base = wanted.geodetic_crs
    for read in (ps.open(path).crs, theirs):
        there = pyproj.Transformer.from_crs(read.geodetic_crs, read, always_xy=True).transform(9.25, 46.5)
        here = pyproj.Transformer.from_crs(base, wanted, always_xy=True).transform(9.25, 46.5)
        np.testing.assert_allclose(there, here, atol=1e-6)
        assert read.ellipsoid.semi_major_metre == pytest.approx(wanted.ellipsoid.semi_major_metre)


def test_systems_that_geotiff_lacks_are_refused_by_name(tmp_path):
    pyproj = pytest.importorskip("pyproj")
    local = pyproj.CRS.from_wkt('LOCAL_CS["my site",UNIT["metre",1],AXIS["x",EAST],AXIS["y",NORTH]]')
    for crs, words in (
        (local, "my site"),
        (pyproj.CRS.from_proj4("+proj=ob_tran +o_proj=longlat +o_lat_p=30 +lon_0=9"), "no EPSG code"),
        (pyproj.CRS.from_proj4("+proj=utm +zone=33 +ellps=bessel +towgs84=1,2,3"), "datum shift"),
        ("EPSG:4978", "WGS 84"),
        ("EPSG:5773", "EGM96"),
    ):
        with pytest.raises(ps.UnsupportedError, match=words):
            ps.create_array(tmp_path / "x.tif", shape=(1, 9, 9), dtype="u1", crs=crs)
    for crs in ("EPSG:99999999", "nonsense", 3.5, -1):
        with pytest.raises(ps.InvalidArgumentError, match="coordinate system"):
            ps.create_array(tmp_path / "x.tif", shape=(1, 9, 9), dtype="u1", crs=crs)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("point", [False, True])
@pytest.mark.parametrize(
    "transform", [UTM, (0.5, 0, -180, 0, -0.25, 90), (3, 1, 7, -1, -3, 5), (10, 0, 0, 0, 10, 0), (-1, 0, 5, 0, -1, 5)]
)
def test_transforms_are_read_by_gdal(tmp_path, transform, point):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    kind = "Point" if point else "Area"
    ps.save(path, picture("u1", (1, 20, 20)), transform=transform, crs=3857, area_or_point=kind)
    ours = ps.open(path)
    assert tuple(ours.transform)[:6] == pytest.approx(transform)
    assert ours.area_or_point == kind
    with rasterio.open(path) as file:
        assert tuple(file.transform)[:6] == pytest.approx(transform)
        assert file.tags()["AREA_OR_POINT"] == kind


@pytest.mark.parametrize("kind", [None, "Area", "Point"])
def test_a_transform_without_a_system_has_none_in_gdal(tmp_path, kind):
    rasterio = pytest.importorskip("rasterio")
    path, theirs = tmp_path / "x.tif", tmp_path / "y.tif"
    values = picture("u1", (1, 20, 20))
    ps.save(path, values, transform=UTM, area_or_point=kind)
    shape = {"width": 20, "height": 20, "count": 1, "dtype": "uint8"}
    with rasterio.open(theirs, "w", driver="GTiff", transform=rasterio.Affine(*UTM), **shape) as file:
        file.update_tags(AREA_OR_POINT=kind or "Area")
        file.write(values)
    with rasterio.open(path) as ours, rasterio.open(theirs) as file:
        assert ours.crs == file.crs
        assert ours.transform == file.transform
        assert ours.tags().get("AREA_OR_POINT") == file.tags().get("AREA_OR_POINT")
    assert ps.open(path).crs is None
    assert ps.open(path).area_or_point == ps.open(theirs).area_or_point


def test_the_kind_of_pixels_may_be_one_of_gdals_tags(tmp_path):
    for given, option, expected in (("Point", None, "Point"), ("Area", None, "Area"), ("Point", "Area", "Area")):
        how = {"crs": 32633, "transform": (10, 0, 5e5, 0, -10, 5e6), "area_or_point": option}
        ps.save(tmp_path / "a.tif", np.zeros((1, 8, 8), "u1"), attributes={"AREA_OR_POINT": given, "a": "b"}, **how)
        image = ps.open(tmp_path / "a.tif")
        assert (image.area_or_point, image.gdal_metadata) == (expected, {"a": "b"})
        assert tuple(image.transform)[:6] == how["transform"]


def test_metadata_is_read_again(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    values = picture("i2", (2, 20, 20))
    made = ps.create_array(
        path,
        data=values,
        descriptions=["red & <blue>", None],
        units=[None, "m"],
        scales=[0.1, 1e-7],
        offsets=[-5.5, 0.0],
        nodata=-32768,
        attributes={"who": 'me & "you"', "n": 3, "TIFFTAG_<x>": "é"},
    )
    assert isinstance(made, ps.TiffArray)
    for ours in (made, ps.open(path)):
        assert ours.descriptions == ("red & <blue>", None)
        assert ours.units == (None, "m")
        assert ours.scales == (0.1, 1e-7)
        assert ours.offsets == (-5.5, 0.0)
        assert ours.gdal_metadata == {"who": 'me & "you"', "n": "3", "TIFFTAG_<x>": "é"}
        assert ours.nodata == -32768
    with rasterio.open(path) as file:
        assert file.descriptions == ("red & <blue>", None)
        assert file.units == (None, "m")
        assert file.scales == (0.1, 1e-7)
        assert file.offsets == (-5.5, 0.0)
        assert file.tags()["who"] == 'me & "you"'
        assert file.nodata == -32768
        np.testing.assert_array_equal(file.read(), values)


@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [("u1", 255), ("i8", -(2**63)), ("u8", 2**64 - 1), ("f4", 0.1), ("f4", np.nan), ("f8", -np.inf)],
)
def test_nodata_is_exact(tmp_path, dtype, nodata):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    ps.save(path, np.full((1, 40, 20), nodata, dtype), tiles=16, nodata=nodata)
    ours = ps.open(path)
    assert np.array(ours.nodata, dtype).tobytes() == np.array(nodata, dtype).tobytes() or np.isnan(nodata)
    np.testing.assert_array_equal(ours[...], np.full((1, 40, 20), nodata, dtype))
    with rasterio.open(path) as file:
        if file.nodata is not None:  # rasterio cannot represent the largest numbers of uint64
            assert np.array(file.nodata, dtype) == np.array(nodata, dtype) or np.isnan(file.nodata)
        assert (file.nodata is None) == (dtype == "u8")


def test_colours(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    for bands, dtype, options, wanted in (
        (3, "u1", {}, ("rgb", [])),
        (4, "u1", {"alpha": True}, ("rgb", ["alpha"])),
        (4, "u1", {}, ("minisblack", ["undefined"] * 3)),
        (3, "u2", {"photometric": "rgb"}, ("rgb", [])),
        (2, "u2", {"alpha": True}, ("minisblack", ["alpha"])),
        (3, "u1", {"photometric": "minisblack"}, ("minisblack", ["undefined"] * 2)),
    ):
        values = picture(dtype, (bands, 20, 30))
        ps.save(path, values, tiles=16, **options)
        ours = ps.open(path)
        assert ours.photometric == wanted[0]
        np.testing.assert_array_equal(ours[...], values)
        with rasterio.open(path) as file:
            colours = [each.name for each in file.colorinterp]
            assert colours == (["red", "green", "blue"] if wanted[0] == "rgb" else ["gray"]) + wanted[1]
    colormap = np.random.default_rng(3).integers(0, 65536, (200, 3))
    ps.save(path, picture("u1", (1, 40, 40)), tiles=16, colormap=colormap, resampling="nearest")
    np.testing.assert_array_equal(ps.open(path).colormap[:200], colormap)
    assert not ps.open(path).colormap[200:].any()
    with rasterio.open(path) as file:
        assert file.colormap(1)[7][:3] == tuple(colormap[7] // 257) or file.colormap(1)[7][:3] == tuple(
            colormap[7] >> 8
        )


def test_xml_of_the_metadata_is_valid(tmp_path):
    path = tmp_path / "x.tif"
    ps.save(path, picture("u1", (1, 9, 9)), attributes={"<&\"'>": "<&\"'>]]>"})
    assert ps.open(path).gdal_metadata == {"<&\"'>": "<&\"'>]]>"}
    text = ps.open(path).tags["GDAL_METADATA"]
    item = ElementTree.fromstring(text).find("Item")
    assert item is not None
    assert (item.get("name"), item.text) == ("<&\"'>", "&lt;&amp;&quot;'&gt;]]&gt;")
