"""Coordinate systems of parameters: they put points where those of GDAL put them."""

from __future__ import annotations

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
    "degrees of an ellipsoid": "+proj=longlat +a=6378000 +rf=298",
}
POINTS = np.array([10.5, 12.0, 14.0, 11.0]), np.array([45.0, 47.5, 49.0, 50.0])


def points_of(crs: pyproj.CRS) -> np.ndarray:
    """Where longitude and latitude of the system's own ellipsoid are: no change of datum is in it."""
    to = pyproj.Transformer.from_crs(crs.geodetic_crs, crs, always_xy=True)
    return np.array(to.transform(*POINTS))


@pytest.mark.parametrize("name", SYSTEMS)
def test_points_are_where_gdal_has_them(tmp_path: Path, name: str) -> None:
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


def keys(*entries: tuple[int, int], doubles: tuple[float, ...] = ()) -> dict:
    directory = [1, 1, 0, len(entries) + len(doubles)]
    for key, value in entries:
        directory += [key, 0, 1, value]
    for i, key in enumerate((3080, 3081)[: len(doubles)]):
        directory += [key, 34736, 1, i]
    made = {34735: tag(3, *directory)}
    return made | ({34736: tag(12, *doubles)} if doubles else {})


def test_projections_on_a_named_geographic_system_keep_its_datum() -> None:
    tags = keys((1024, 1), (2048, 4258), (3072, 32767), (3075, 1), (3076, 9001), doubles=(12.0, 5.0))
    crs = ps.open(tiff_of(image(2, 2) | tags, b"abcd")).crs
    assert crs.geodetic_crs.to_epsg() == 4258
    assert crs.is_projected
    assert crs.to_dict()["lat_0"] == 5


def test_what_is_not_understood_is_said_and_its_keys_are_there() -> None:
    """Laborde's oblique Mercator."""
    array = ps.open(tiff_of(image(2, 2) | keys((1024, 1), (2048, 4326), (3072, 32767), (3075, 4)), b"abcd"))
    with pytest.warns(UserWarning, match=r"method 4\): geo_keys"):
        assert array.crs is None
    assert array.geo_keys == {"GTModelType": 1, "GeodeticCRS": 4326, "ProjectedCRS": 32767, "ProjMethod": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ps.open(tiff_of(image(2, 2), b"abcd")).crs is None
