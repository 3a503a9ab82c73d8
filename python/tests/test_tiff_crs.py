"""Coordinate systems from parameters: they transform points as GDAL's do."""

from __future__ import annotations

import ast
import os
import re
import warnings
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from tiff_bytes import image, tag, tiff_of

rasterio = pytest.importorskip("rasterio")
pyproj = pytest.importorskip("pyproj")

SYSTEMS = {
    "tmerc": "+proj=tmerc +lat_0=10 +lon_0=12 +k=0.9996 +x_0=500000 +y_0=1000 +ellps=GRS80",
    "merc": "+proj=merc +lon_0=12 +k=0.98 +x_0=500 +y_0=1000 +datum=WGS84",
    "merc of a parallel": "+proj=merc +lat_ts=40 +lon_0=12 +x_0=500 +y_0=1000 +datum=WGS84",
    "lcc": "+proj=lcc +lat_1=40 +lat_2=55 +lat_0=48 +lon_0=12 +x_0=700 +y_0=900 +datum=WGS84",
    "lcc of one parallel": "+proj=lcc +lat_1=46 +lat_0=46 +lon_0=12 +k_0=0.99987 +x_0=600 +y_0=900 +datum=WGS84",
    "laea": "+proj=laea +lat_0=52 +lon_0=10 +x_0=4321000 +y_0=3210000 +ellps=GRS80",
    "aea": "+proj=aea +lat_1=40 +lat_2=55 +lat_0=48 +lon_0=12 +x_0=700 +y_0=900 +datum=NAD83",
    "aeqd": "+proj=aeqd +lat_0=52 +lon_0=10 +x_0=5 +y_0=6 +datum=WGS84",
    "eqdc": "+proj=eqdc +lat_1=40 +lat_2=55 +lat_0=48 +lon_0=12 +x_0=700 +y_0=900 +datum=WGS84",
    "stere": "+proj=stere +lat_0=47 +lon_0=12 +k=0.9999 +x_0=7 +y_0=9 +datum=WGS84",
    "north pole": "+proj=stere +lat_0=90 +lon_0=-45 +k=0.994 +x_0=2000000 +y_0=2000000 +datum=WGS84",
    "north pole of a parallel": "+proj=stere +lat_0=90 +lat_ts=70 +lon_0=-45 +x_0=0 +y_0=0 +datum=WGS84",
    "south pole": "+proj=stere +lat_0=-90 +lat_ts=-71 +lon_0=10 +x_0=0 +y_0=0 +datum=WGS84",
    "sterea": "+proj=sterea +lat_0=52 +lon_0=5 +k=0.9999 +x_0=155000 +y_0=463000 +ellps=bessel",
    "eqc": "+proj=eqc +lat_ts=30 +lat_0=0 +lon_0=12 +x_0=1 +y_0=2 +datum=WGS84",
    "cass": "+proj=cass +lat_0=47 +lon_0=12 +x_0=1 +y_0=2 +datum=WGS84",
    "gnom": "+proj=gnom +lat_0=47 +lon_0=12 +x_0=1 +y_0=2 +ellps=sphere",
    "mill": "+proj=mill +lon_0=12 +x_0=1 +y_0=2 +datum=WGS84",
    "ortho": "+proj=ortho +lat_0=47 +lon_0=12 +x_0=1 +y_0=2 +ellps=sphere",
    "poly": "+proj=poly +lat_0=40 +lon_0=12 +x_0=1 +y_0=2 +datum=WGS84",
    "robin": "+proj=robin +lon_0=12 +x_0=1 +y_0=2 +datum=WGS84",
    "sinu": "+proj=sinu +lon_0=12 +x_0=1 +y_0=2 +a=6371007.181 +b=6371007.181",
    "vandg": "+proj=vandg +lon_0=12 +x_0=1 +y_0=2 +R=6371000",
    "cea": "+proj=cea +lat_ts=30 +lon_0=12 +x_0=1 +y_0=2 +datum=WGS84",
    "omerc": "+proj=omerc +lat_0=47 +lonc=12 +alpha=30 +gamma=30 +k=0.9999 +x_0=1 +y_0=2 +datum=WGS84",
    "omerc without offset": "+proj=omerc +no_uoff +lat_0=47 +lonc=12 +alpha=30 +gamma=30 +k=0.9999 +x_0=1 +y_0=2"
    " +datum=WGS84",
    "feet": "+proj=tmerc +lat_0=40 +lon_0=12 +k=0.9999 +x_0=500000 +y_0=0 +datum=NAD83 +units=us-ft",
    "ETRS89 below": "+proj=tmerc +lat_0=0 +lon_0=12 +k=1 +x_0=500000 +y_0=0 +ellps=GRS80 +towgs84=0,0,0",
    "shifted": "+proj=aea +lat_1=40 +lat_2=55 +lat_0=48 +lon_0=12 +ellps=intl +towgs84=-87,-98,-121 +units=us-ft",
    "shifted and turned": "+proj=tmerc +lat_0=49 +lon_0=-2 +k=0.9996 +ellps=airy"
    " +towgs84=446.448,-125.157,542.06,0.15,0.247,0.842,-20.489",
    "zone on an ellipsoid": "+proj=utm +zone=33 +south +ellps=intl",
    "degrees of an ellipsoid": "+proj=longlat +a=6378000 +rf=298",
}
POINTS = np.array([10.5, 12.0, 14.0, 11.0]), np.array([45.0, 47.5, 49.0, 50.0])


def points_of(crs: pyproj.CRS) -> np.ndarray:
    """Transforms of longitude and latitude on the system's own ellipsoid, without a change of datum."""
    to = pyproj.Transformer.from_crs(crs.geodetic_crs, crs, always_xy=True)
    return np.array(to.transform(*POINTS))


@pytest.mark.parametrize("name", SYSTEMS)
def test_points_are_transformed_as_by_gdal(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.tif"
    options = {"driver": "GTiff", "width": 8, "height": 8, "count": 1, "dtype": "uint8"}
    with rasterio.open(path, "w", crs=SYSTEMS[name], transform=rasterio.Affine(1, 0, 0, 0, -1, 0), **options) as to:
        to.write(np.zeros((1, 8, 8), "u1"))
    with rasterio.open(path) as file:
        wanted = pyproj.CRS.from_wkt(file.crs.to_wkt())
    crs = ps.open(path).crs
    assert crs is not None
    scale = 1 if "longlat" in SYSTEMS[name] else 1e-3
    np.testing.assert_allclose(points_of(crs), points_of(wanted), atol=1e-9 if scale == 1 else scale)
    assert [axis.unit_name for axis in crs.axis_info] == [axis.unit_name for axis in wanted.axis_info]
    assert crs.ellipsoid.semi_major_metre == wanted.ellipsoid.semi_major_metre
    datums = [each.geodetic_crs.datum.name.removesuffix(" ensemble") for each in (crs, wanted)]
    assert datums[0] == datums[1] or "+datum" not in SYSTEMS[name]
    assert crs.geodetic_crs.name == wanted.geodetic_crs.name or "+datum" not in SYSTEMS[name]
    to_wgs84 = [pyproj.Transformer.from_crs(each, "EPSG:4326", always_xy=True) for each in (crs, wanted)]
    points = points_of(wanted)
    np.testing.assert_allclose(to_wgs84[0].transform(*points), to_wgs84[1].transform(*points), rtol=0, atol=1e-9)


def keys(
    entries: dict[int, int], doubles: dict[int, float] | None = None, minor: int = 0, height: str | None = None
) -> dict:
    """The tags that store GeoTIFF's keys."""
    doubles = doubles or {}
    fields = {key: (key, 0, 1, value) for key, value in entries.items()}
    fields |= {key: (key, 34736, 1, i) for i, key in enumerate(doubles)}
    fields |= {} if height is None else {4097: (4097, 34737, len(height) + 1, 0)}
    directory = [1, 1, minor, len(fields)] + [number for key in sorted(fields) for number in fields[key]]
    made = {34735: tag(3, *directory)}
    made |= {34736: tag(12, *doubles.values())} if doubles else {}
    return made | ({} if height is None else {34737: tag(2, height + "|")})


def file_of(tags: dict) -> bytes:
    """A georeferenced file of 2 x 2 pixels with these tags."""
    return tiff_of(image(2, 2) | {33550: tag(12, 1, 1, 0), 33922: tag(12, *[0.0] * 6)} | tags, b"abcd")


def gdals(data: bytes) -> pyproj.CRS:
    """The coordinate system that GDAL finds in a file."""
    with rasterio.MemoryFile(data) as memory, memory.open() as file:
        return pyproj.CRS.from_wkt(file.crs.to_wkt())


def test_projections_keep_the_datum_of_a_named_system() -> None:
    tags = keys({1024: 1, 2048: 4258, 3072: 32767, 3075: 1, 3076: 9001}, {3080: 12.0, 3081: 5.0})
    crs = ps.open(tiff_of(image(2, 2) | tags, b"abcd")).crs
    assert crs.geodetic_crs.to_epsg() == 4258
    assert crs.is_projected
    assert crs.to_dict()["lat_0"] == 5


@pytest.mark.parametrize(
    ("code", "unit", "size"),
    [(2853, 9003, None), (2264, 9001, None), (32119, 9002, None), (32633, 9036, None), (32633, 32767, 2.0)],
)
def test_codes_with_another_unit_use_the_files_unit(code: int, unit: int, size: float | None) -> None:
    data = file_of(keys({1024: 1, 3072: code, 3076: unit}, {3077: size} if size else None))
    array, wanted = ps.open(data), gdals(data)
    assert array.epsg is None
    assert array.crs.to_epsg(100) is None
    assert array.crs.equals(wanted, ignore_axis_order=True)
    sizes = [axis.unit_conversion_factor for axis in array.crs.axis_info]
    assert sizes == pytest.approx([axis.unit_conversion_factor for axis in wanted.axis_info], rel=1e-12)
    np.testing.assert_allclose(points_of(array.crs), points_of(wanted), atol=1e-3)


@pytest.mark.parametrize(("code", "unit"), [(2264, 9003), (2264, 32767), (32633, 9001), (2193, 9001)])
def test_codes_with_their_own_or_an_unknown_unit_stay_codes(code: int, unit: int) -> None:
    array = ps.open(file_of(keys({1024: 1, 3072: code, 3076: unit})))
    assert array.epsg == code
    assert array.crs == pyproj.CRS.from_epsg(code)


@pytest.mark.parametrize("unit", [9101, 9102, 9105, 9106, 9107, 9114, 9122])
def test_angles_are_in_the_unit_of_the_file(unit: int) -> None:
    data = file_of(keys({1024: 2, 2048: 32767, 2050: 32767, 2054: unit, 2056: 7030}))
    crs, wanted = ps.open(data).crs, gdals(data)
    sizes = [axis.unit_conversion_factor for axis in crs.axis_info]
    assert sizes == pytest.approx([axis.unit_conversion_factor for axis in wanted.axis_info], rel=1e-12)
    angles = {3080: 0.2, 3081: 0.1, 3082: 500.0, 3083: 0.0, 3092: 1.0}
    tags = keys({1024: 1, 2048: 32767, 2050: 32767, 2054: unit, 2056: 7030, 3072: 32767, 3075: 1, 3076: 9002}, angles)
    data = file_of(tags)
    crs, wanted = ps.open(data).crs, gdals(data)
    points = np.array([5.0, 400.0]), np.array([7.0, 900.0])
    to = [pyproj.Transformer.from_crs(each, "EPSG:4326", always_xy=True) for each in (crs, wanted)]
    np.testing.assert_allclose(to[0].transform(*points), to[1].transform(*points), atol=1e-11)


PLACES = {1024: 2, 2048: 32767, 2050: 32767, 2056: 7030}


@pytest.mark.parametrize(
    ("entries", "doubles"),
    [
        ({**PLACES, 2051: 8903}, {}),
        ({**PLACES, 2051: 8908}, {}),
        ({**PLACES, 2051: 8901}, {2061: 10.0}),
        ({**PLACES, 2051: 32767}, {2061: 10.0}),
        ({**PLACES, 1024: 1, 2051: 8903, 3072: 32767, 3075: 1, 3076: 9001}, {3080: 3.0, 3081: 0.0, 3092: 1.0}),
    ],
)
def test_prime_meridians_equal_gdals(entries: dict, doubles: dict) -> None:
    data = file_of(keys(entries, doubles))
    crs, wanted = ps.open(data).crs, gdals(data)
    meridians = [each.prime_meridian.longitude * each.prime_meridian.unit_conversion_factor for each in (crs, wanted)]
    assert meridians[0] == pytest.approx(meridians[1], abs=1e-12)
    np.testing.assert_allclose(points_of(crs), points_of(wanted), atol=1e-3)


def test_an_unknown_prime_meridian_is_reported() -> None:
    with pytest.warns(UserWarning, match="not supported: geo_keys"):
        assert ps.open(file_of(keys({**PLACES, 2051: 8999}))).crs is None


@pytest.mark.parametrize(
    "entries",
    [
        {1024: 2, 2048: 32767, 2050: 6742},
        {1024: 2, 2048: 32767, 2050: 6742, 2054: 9114},
        {1024: 2, 2048: 32767, 2050: 32767, 2056: 7022},
        {1024: 2, 2048: 32767, 2050: 32767, 2056: 7035},
        {1024: 1, 2048: 4326, 3072: 32767, 3074: 3856},
        {1024: 1, 2048: 4258, 3072: 32767, 3074: 16033, 3076: 9001},
        {1024: 1, 2048: 4269, 3072: 32767, 3074: 13101, 3076: 9003},
        {1024: 1, 2048: 32767, 2050: 6742, 3072: 32767, 3074: 16047, 3076: 9001},
    ],
)
def test_datums_ellipsoids_and_projections_have_codes(entries: dict) -> None:
    data = file_of(keys(entries))
    crs, wanted = ps.open(data).crs, gdals(data)
    ours, theirs = crs.ellipsoid, wanted.ellipsoid
    assert ours.semi_major_metre == theirs.semi_major_metre
    assert ours.inverse_flattening == pytest.approx(theirs.inverse_flattening, rel=1e-9)
    names = [each.geodetic_crs.datum.name.removesuffix(" ensemble") for each in (crs, wanted)]
    assert names[0] == names[1] or entries.get(2050) == 32767
    sizes = [axis.unit_conversion_factor for axis in crs.axis_info]
    assert sizes == pytest.approx([axis.unit_conversion_factor for axis in wanted.axis_info], rel=1e-12)
    np.testing.assert_allclose(points_of(crs), points_of(wanted), rtol=1e-12, atol=1e-9 if crs.is_geographic else 1e-3)


@pytest.mark.parametrize("zone", [16018, 16035])
@pytest.mark.parametrize("ellipsoid", [7030, 7019])
def test_a_datum_of_an_ellipsoid_alone_has_no_code(zone: int, ellipsoid: int) -> None:
    """PROJ takes a datum called "unknown" for any datum of that ellipsoid, such as Jamaica's (EPSG:3450)."""
    entries = {1024: 1, 2048: 32767, 2050: 32767, 2056: ellipsoid, 3072: 32767, 3074: zone, 3076: 9001}
    a = ps.open(file_of(keys(entries)))
    assert (a.epsg, a.crs.to_epsg()) == (None, None)
    assert a.crs.datum.name.startswith("Not specified (based on ")


@pytest.mark.parametrize(
    "datum",
    ["Not_specified_based_on_WGS_84_spheroid", "Jamaica 2001", "Unknown based on WGS 84 ellipsoid", "ETRS_1989"],
)
def test_a_datum_without_a_code_has_the_cited_name(tmp_path: Path, datum: str) -> None:
    wkt = pyproj.CRS("+proj=utm +zone=18 +ellps=WGS84 +type=crs").to_wkt("WKT1_GDAL")
    wkt = wkt.replace("Unknown based on WGS 84 ellipsoid", datum)
    options = {"driver": "GTiff", "width": 2, "height": 2, "count": 1, "dtype": "uint8"}
    with rasterio.open(tmp_path / "x.tif", "w", crs=rasterio.crs.CRS.from_wkt(wkt), **options) as file:
        file.write(np.zeros((1, 2, 2), "u1"))
    with rasterio.open(tmp_path / "x.tif") as file:
        wanted = file.crs
    a = ps.open(tmp_path / "x.tif")
    assert a.epsg == wanted.to_epsg()
    assert a.crs.datum.name == pyproj.CRS.from_wkt(wanted.to_wkt()).datum.name


def test_codes_of_other_kinds_are_not_understood() -> None:
    for entries in ({2048: 4326, 3074: 1623}, {2048: 4326, 3074: 9000}, {2048: 1025, 3074: 16033}, {2050: 1025}):
        with pytest.warns(UserWarning, match="is not supported"):
            assert ps.open(file_of(keys({1024: 1, 3072: 32767} | entries))).crs is None


def test_heights_equal_gdals_or_are_omitted() -> None:
    for height in (5773, 6360, 5030, 4979):
        data = file_of(keys({1024: 1, 3072: 32633, 4096: height}, minor=1))
        crs = ps.open(data).crs
        assert crs.equals(gdals(data), ignore_axis_order=True), height
        assert len(crs.axis_info) == 3
    for flat, code in ((4258, 4937), (4152, 4957), (6668, 6667)):
        data = file_of(keys({1024: 2, 2048: flat, 4096: code}, minor=1))
        crs = ps.open(data).crs
        assert crs.to_epsg() == code
        assert crs.equals(gdals(data), ignore_axis_order=True)
    feet = file_of(keys({1024: 1, 3072: 32119, 3076: 9002, 4096: 5773}, minor=1))
    assert ps.open(feet).crs.equals(gdals(feet), ignore_axis_order=True)
    for height in (5019, 5101, 4326, 32633):  # codes of GeoTIFF 1.0, and systems that are not vertical
        array = ps.open(file_of(keys({1024: 1, 3072: 32633, 4096: height})))
        assert array.crs == pyproj.CRS.from_epsg(32633)
        assert array.epsg == 32633


@pytest.mark.parametrize(
    ("entries", "name"),
    [
        ({4098: 1089, 4099: 9001}, "MLLW height"),
        ({4099: 9003}, "navd88"),
        ({4096: 32767, 4098: 5103, 4099: 9003}, None),
        ({4096: 32767}, "of our own"),
    ],
)
def test_custom_heights_equal_gdals(entries: dict, name: str | None) -> None:
    data = file_of(keys({1024: 1, 3072: 26914} | entries, minor=1, height=name))
    (across, heights), (their_across, theirs) = ps.open(data).crs.sub_crs_list, gdals(data).sub_crs_list
    assert across.equals(their_across, ignore_axis_order=True)
    assert heights.is_vertical
    assert heights.name == (name or "unknown")
    assert heights.name == theirs.name or name is None
    assert heights.datum.name == theirs.datum.name
    units = [each.axis_info[0].unit_conversion_factor for each in (heights, theirs)]
    assert units[0] == pytest.approx(units[1], rel=1e-12)


def test_names_and_units_do_not_define_heights() -> None:
    for entries, name in (({4099: 9001}, None), ({}, "navd88"), ({4098: 6326}, "a geodetic datum")):
        crs = ps.open(file_of(keys({1024: 1, 3072: 26914} | entries, minor=1, height=name))).crs
        assert crs == pyproj.CRS.from_epsg(26914)


def test_an_oblique_grid_without_an_angle_is_rotated_as_by_gdal() -> None:
    entries = {1024: 1, 2048: 4326, 3072: 32767, 3075: 3, 3076: 9001}
    data = file_of(keys(entries, {3088: 12.0, 3089: 47.0, 3093: 1.0, 3094: 30.0}))
    np.testing.assert_allclose(points_of(ps.open(data).crs), points_of(gdals(data)), atol=1e-3)


def test_the_last_of_a_repeated_key_is_used() -> None:
    data = file_of({34735: tag(3, *[1, 1, 0, 3, 1024, 0, 1, 1, 3072, 0, 1, 32767, 3072, 0, 1, 32633])})
    assert ps.open(data).crs.equals(gdals(data), ignore_axis_order=True)


def test_systems_that_are_not_understood_are_reported() -> None:
    """Laborde's oblique Mercator: the error names it, and the keys are readable."""
    array = ps.open(tiff_of(image(2, 2) | keys({1024: 1, 2048: 4326, 3072: 32767, 3075: 4}), b"abcd"))
    with pytest.warns(UserWarning, match=r"method 4\): geo_keys"):
        assert array.crs is None
    assert array.geo_keys == {"GTModelType": 1, "GeodeticCRS": 4326, "ProjectedCRS": 32767, "ProjMethod": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ps.open(tiff_of(image(2, 2), b"abcd")).crs is None


ERDAS = "IMAGINE GeoTIFF Support\nCopyright 1991 - 2001 by ERDAS, Inc. All Rights Reserved\n"
UNITS_OF_GDAL = (
    "feet",
    "Feet",
    "us_survey_feet",
    "international_feet",
    "Foot",
    "meters",
    "Meter",
    "Kilometer",
    "yards",
)
CITATIONS = {
    "ERDAS": (1026, ERDAS + "Projection Name = LCC\nUnits = {}\nGeoTIFF Units = {}"),
    "ERDAS, two units": (1026, ERDAS + "Projection Name = LCC\nUnits = {}\nGeoTIFF Units = meters"),
    "ERDAS, projection": (3073, ERDAS + "Projection = LCC\nUnits = {}"),
    "ArcGIS": (1026, "PCS Name = X|LUnits = {}"),
    "ArcGIS, projection": (3073, "PCS Name = X|LUnits = {}"),
}


def cited(key: int, text: str, entries: dict[int, int]) -> bytes:
    """A conic system on NAD83 whose unit is only in a citation."""
    doubles = {3078: 44.3, 3079: 46.0, 3084: -120.5, 3085: 43.6, 3086: 2500000.0, 3087: 0.0}
    fields = {
        each: (each, 0, 1, value) for each, value in {1024: 1, 2048: 4269, 3072: 32767, 3075: 8, **entries}.items()
    }
    fields |= {each: (each, 34736, 1, i) for i, each in enumerate(doubles)}
    fields[key] = (key, 34737, len(text) + 1, 0)
    directory = [1, 1, 0, len(fields)] + [number for each in sorted(fields) for number in fields[each]]
    return file_of({34735: tag(3, *directory), 34736: tag(12, *doubles.values()), 34737: tag(2, text + "|")})


@pytest.mark.parametrize("citation", CITATIONS)
def test_units_in_citations_equal_gdals(citation: str) -> None:
    key, text = CITATIONS[citation]
    for unit in UNITS_OF_GDAL:
        data = cited(key, text.replace("{}", unit), {})
        found, wanted = ps.open(data).crs, gdals(data)
        sizes = [[axis.unit_conversion_factor for axis in each.axis_info] for each in (found, wanted)]
        assert sizes[0] == pytest.approx(sizes[1], rel=1e-9), unit
        np.testing.assert_allclose(points_of(found), points_of(wanted), atol=1e-3, err_msg=unit)
    for unit, size in (("US Survey Feet", 1200 / 3937), ("Foot_US", 1200 / 3937), ("International Feet", 0.3048)):
        found = ps.open(cited(key, text.replace("{}", unit), {})).crs  # GDAL reads these as metres
        assert found.axis_info[0].unit_conversion_factor == pytest.approx(size, rel=1e-9)


@pytest.mark.parametrize("unit", [9001, 9002, 9003])
def test_a_citation_takes_precedence_as_in_gdal(unit: int) -> None:
    key, text = CITATIONS["ERDAS"]
    for name in ("feet", "meters", "international_feet"):
        data = cited(key, text.replace("{}", name), {3076: unit})
        found, wanted = ps.open(data).crs, gdals(data)
        np.testing.assert_allclose(points_of(found), points_of(wanted), atol=1e-3, err_msg=name)


def test_an_unknown_unit_is_ignored() -> None:
    assert ps.open(cited(1026, ERDAS + "Units = cubits", {})).crs.axis_info[0].unit_conversion_factor == 1


CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "tiff"
# Systems whose code differs from GDAL's, or for which GDAL has none, and why.
OTHER_CODES = {
    "lambert_azimuthal_equal_area.tif": "GDAL identifies a system of parameters by its name too",
    "oblique_mercator_laborde.tif": "the method has no parameters in GeoTIFF 1.1: no system",
    "oblique_stereographic.tif": "GDAL identifies a system of parameters by its name too",
    "polar_stereographic_variant_a.tif": "GDAL identifies a system of parameters by its name too",
    "esri_pcs_gcs_ellipsoid_names.tif": "GDAL identifies a system of parameters by its name too",
    "compound_with_VerticalCitationGeoKey_only.tif": "GDAL gives the code of the compound system",
    "cog_gcps_ovr.tif": "the system of the control points: GDAL has it in the place of the image's",
    "cint_sar.tif": "the system of the control points: GDAL has it in the place of the image's",
    "corrupted_gtiff_tags.tif": "GDAL gives up at the ellipsoid's axis",
    "epsg26711_3855_geotiff1_1.tif": "the horizontal part of a compound system",
    "epsg32631_4979_geotiff1_1.tif": "the horizontal part of a compound system",
    "compdcrs_no_citation.tif": "the horizontal part of a compound system",
    "compdcrs_without_gtcitation.tif": "the horizontal part of a compound system",
    "epsg_2193_override.tif": "GDAL follows the citation, which names a system of its own",
    "inconsistent_invflattening.tif": "GDAL makes a system of its own of the file's flattening, 6e-7 off",
}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of files of others is not next to the checkout")
@pytest.mark.filterwarnings("ignore")
def test_codes_of_the_corpus_are_those_of_crs_and_of_gdal() -> None:
    """All TIFFs with a coordinate system, of GDAL, libgeotiff, rio-tiler and others: about 200."""
    compared, other = 0, {}
    for path in sorted(CORPUS.rglob("*.tif*")):
        try:
            array = ps.open(path)
            with rasterio.open(path) as file:
                wanted = file.crs.to_epsg() if file.crs else None
        except (ps.Error, rasterio.errors.RasterioError):
            continue
        if not hasattr(array, "epsg") or (array.crs is None and wanted is None):
            continue
        compared += 1
        crs, code = array.crs, array.epsg
        horizontal = crs.sub_crs_list[0] if crs is not None and crs.is_compound else crs
        if crs is not None and crs.is_bound:
            horizontal = crs.source_crs
        assert code is None or horizontal.to_2d().to_epsg() == code, path
        if code != wanted:
            other[path.name] = (code, wanted)
    assert compared > 150
    assert {name: codes for name, codes in other.items() if name not in OTHER_CODES} == {}


@pytest.mark.parametrize("code", [3031, 3413, 3995, 3976, 6931, 6932])
def test_polar_systems_of_parameters_have_their_codes(code: int, tmp_path: Path) -> None:
    """Both of their axes point away from the pole; without that, no code is found."""
    text = rasterio.crs.CRS.from_proj4(rasterio.crs.CRS.from_epsg(code).to_proj4()).to_wkt()
    shape = {"width": 4, "height": 4, "count": 1, "dtype": "uint8"}
    with rasterio.open(tmp_path / "a.tif", "w", crs=text, transform=rasterio.Affine(10, 0, 0, 0, -10, 0), **shape):
        pass
    with rasterio.open(tmp_path / "a.tif") as file:
        assert file.crs.to_epsg() == code
    array = ps.open(tmp_path / "a.tif")
    assert array.epsg == array.crs.to_epsg() == code


@pytest.mark.parametrize("code", [2304, 8352, 31300])
def test_a_system_written_as_text_lacks_the_code_of_its_base(code: int, tmp_path: Path) -> None:
    """GDAL writes projections that GeoTIFF has no number for as ESRI's text, and their base by its code."""
    text = re.sub(r',AUTHORITY\["EPSG","\d+"\](?=\]$)', "", rasterio.crs.CRS.from_epsg(code).to_wkt())
    shape = {"width": 4, "height": 4, "count": 1, "dtype": "uint8"}
    with rasterio.open(tmp_path / "a.tif", "w", crs=text, transform=rasterio.Affine(10, 0, 0, 0, -10, 0), **shape):
        pass
    array = ps.open(tmp_path / "a.tif")
    assert array.epsg == array.crs.to_epsg()
    assert array.crs.is_projected


def test_the_meaning_of_keys_is_computed_once_for_many_files(tmp_path: Path) -> None:
    from penstock.geo.crs import SYSTEMS as kept
    from penstock.geo.crs import Kept

    names = []
    for i, code in enumerate((32633, 32634, 32633)):
        names.append(tmp_path / f"{i}.tif")
        ps.save(names[-1], np.zeros((1, 4, 4), np.uint8), crs=f"EPSG:{code}", transform=(1, 0, 0, 0, -1, 4))
    kept.by_keys.clear()
    images = [ps.open(name) for name in names]
    assert [image.epsg for image in images] == [32633, 32634, 32633]
    assert images[0].crs is images[2].crs
    assert images[0].crs != images[1].crs
    assert len(kept.by_keys) == 2

    few = Kept()
    for i in range(3 * few.MOST):
        assert few.of(str(i).encode(), lambda i=i: i) == i
    assert few.of(bytes(few.MOST_BYTES + 1), lambda: -1) == -1
    assert len(few.by_keys) <= few.MOST
    assert few.of(b"0", lambda: -2) == -2


def test_keys_have_the_names_of_the_engine() -> None:
    names = Path(__file__).parents[2] / "src/format/tiff/tiff_names.cc"
    if not names.exists():
        pytest.skip("needs a source checkout")
    known = set(re.findall(r'"(\w+)"', names.read_text().partition("kGeoKeys[] = {")[2].partition("};")[0]))
    source = Path(ps.__file__).parent / "geo/crs.py"
    used = {node.value for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Constant)}
    keys = {text for text in used if isinstance(text, str) and re.fullmatch(r"(GT|Geo|Proj|Ellips|Vertical)\w*", text)}
    assert len(keys) > 40
    assert keys - known == {"VerticalCRS", "VerticalReferenceFrame"}  # types of PROJ's JSON
