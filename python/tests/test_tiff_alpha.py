"""Alpha bands and masks as GDAL interprets them, in files that GDAL writes."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import penstock as ps
import pytest
from rasterio_peers import QUIET, rasterio, xr

pytestmark = QUIET

BANDS = (1, 2, 3, 4, 5)
TYPES = ("uint8", "uint16", "float32")
MORE = ("int8", "int16", "uint32", "int32", "float64")
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "GTiff": [{}, {"alpha": "YES"}, {"alpha": "NO"}, {"photometric": "MINISBLACK"}, {"photometric": "RGB"}],
    "COG": [{}, {"add_alpha": "NO"}],
}
CODECS = ("NONE", "DEFLATE", "LZW", "ZSTD") if os.environ.get("PENSTOCK_SWEEP") else ("DEFLATE",)
ALL_TYPES = TYPES + MORE if os.environ.get("PENSTOCK_SWEEP") else TYPES


def write(path: Any, driver: str, bands: int, dtype: str, nodata: Any, codec: str, last: str, options: Any) -> None:
    values = np.random.default_rng(0).integers(0, 4, (bands, 20, 24)).astype(dtype)
    where = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 5e5, 0, -10, 5e6)}
    shape = {"width": 24, "height": 20, "count": bands, "dtype": dtype, "nodata": nodata}
    with rasterio.open(path, "w", driver=driver, compress=codec, **shape, **where, **options) as file:
        file.write(values)
        if last:
            colors = list(file.colorinterp)
            colors[-1] = rasterio.enums.ColorInterp[last]
            file.colorinterp = colors


@pytest.mark.parametrize(("driver", "last"), [("GTiff", ""), ("GTiff", "alpha"), ("GTiff", "undefined"), ("COG", "")])
def test_masks_and_alpha_equal_gdals(tmp_path, driver, last):
    files = 0
    for bands, dtype, nodata, codec, options in itertools.product(BANDS, ALL_TYPES, (None, 2), CODECS, OPTIONS[driver]):
        if options.get("photometric") == "RGB" and bands < 3:
            continue
        case = f"{bands} {dtype} {nodata} {codec} {options}"
        path = tmp_path / f"{files}.tif"
        write(path, driver, bands, dtype, nodata, codec, last, options)
        files += 1
        with rasterio.open(path) as file:
            is_alpha = file.colorinterp[-1] == rasterio.enums.ColorInterp.alpha
        from penstock.geo.masks import alpha_band

        assert (alpha_band(ps.open(path)) == bands - 1) == is_alpha, case
        with xr.open_dataset(path, engine="penstock") as ours, xr.open_dataset(path, engine="rasterio") as theirs:
            np.testing.assert_array_equal(ours.band_data, theirs.band_data, err_msg=case)
        with rasterio.open(path) as file:
            valid = file.read(masked=True).astype("f8").filled(np.nan)
            halves = file.read(out_shape=(bands, 10, 12), resampling=rasterio.enums.Resampling.average)
        unpacked = ps.open(path, unpack=True)
        np.testing.assert_array_equal(unpacked[...], valid, err_msg=case)
        np.testing.assert_array_equal(unpacked.oindex[[bands - 1], [3, 1]], valid[[bands - 1]][:, [3, 1]], err_msg=case)
        np.testing.assert_array_equal(ps.read_window(ps.open(path), resampling="average"), pixels_of(path), case)
        window = ps.read_window(ps.open(path), shape=(10, 12), resampling="average")
        assert np.abs(window.astype("f8") - halves).max() <= (1e-5 if dtype.startswith("float") else 1), case
    assert files >= 50


def pixels_of(path: Any) -> np.ndarray[Any, Any]:
    with rasterio.open(path) as file:
        made: np.ndarray[Any, Any] = file.read()
    return made


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("bands", BANDS)
@pytest.mark.parametrize("alpha", ["YES", "NO"])
def test_pictures_have_opacity_only_from_an_alpha_band(tmp_path, bands, alpha):
    from penstock.cli.read import main

    write(tmp_path / "a.tif", "GTiff", bands, "uint8", None, "DEFLATE", "", {"alpha": alpha, "photometric": "RGB"}
          if bands > 3 else {"photometric": "MINISBLACK"})  # fmt: skip
    assert main([str(tmp_path / "a.tif"), "-o", str(tmp_path / "a.png")]) == 0
    want = pixels_of(tmp_path / "a.tif")[: 4 if bands == 4 and alpha == "YES" else 3 if bands > 2 else 1]
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.png"), want)


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize(
    "bounds", [["--bounds=-1e1,0,10,8"], ["--bounds", "-1e1,0,10,8"], ["--bounds", "-1e1", "0", "10", "8"]]
)
def test_bounds_are_given_in_every_form(tmp_path, bounds):
    from penstock.cli.read import main

    values = np.arange(20 * 24, dtype="u2").reshape(20, 24)
    ps.save(tmp_path / "a.tif", values, crs="EPSG:32633", transform=(1, 0, -12, 0, -1, 10))
    assert main([str(tmp_path / "a.tif"), *bounds, "-o", str(tmp_path / "b.tif")]) == 0
    np.testing.assert_array_equal(pixels_of(tmp_path / "b.tif")[0], values[2:10, 2:22])


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("bands", [2, 4])
def test_opacity_is_not_stretched_with_the_colours(tmp_path, bands, dtype):
    from penstock.cli.read import main

    most = np.iinfo(dtype).max
    values = np.random.default_rng(0).integers(100, 200, (bands, 20, 24)).astype(dtype)
    values[-1] = most
    values[-1, :5] = most // 2
    values[:, :2] = 0  # transparent, and darker than all visible pixels
    colors = "RGB" if bands == 4 else "MINISBLACK"
    shape = {"width": 24, "height": 20, "count": bands, "dtype": dtype}
    with rasterio.open(tmp_path / "a.tif", "w", photometric=colors, alpha="YES", **shape) as file:
        file.write(values)
    assert main([str(tmp_path / "a.tif"), "-o", str(tmp_path / "a.png")]) == 0
    made = pixels_of(tmp_path / "a.png")
    assert len(made) == bands
    assert [made[-1, row, 0] for row in (0, 2, 5)] == [0, 127, 255]
    seen = np.sort(made[:-1, 2:], axis=None)
    assert dtype == "uint8" or (seen[0] == 0 and seen[len(seen) // 2] in range(118, 138) and seen[-1] == 255)


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("white", ["MINISBLACK", "MINISWHITE"])
def test_grays_of_few_bits_and_of_white_first(tmp_path, bits, white):
    from penstock.cli.read import main

    levels = np.arange(1 << bits, dtype="u1").reshape(1, 1, -1)
    shape = {"width": levels.size, "height": 1, "count": 1, "dtype": "uint8"}
    with rasterio.open(tmp_path / "a.tif", "w", nbits=bits, photometric=white, **shape) as file:
        file.write(levels)
    assert main([str(tmp_path / "a.tif"), "-o", str(tmp_path / "a.png")]) == 0
    want = np.linspace(0, 255, levels.size).astype("u1")
    made = pixels_of(tmp_path / "a.png")[0, 0]
    np.testing.assert_array_equal(made, want if white == "MINISBLACK" else 255 - want)


@pytest.mark.filterwarnings("ignore:.*")
def test_pictures_of_palettes_have_their_colours(tmp_path):
    from penstock.cli.read import main

    values = np.arange(16, dtype="u1").reshape(1, 4, 4)
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", width=4, height=4, count=1, dtype="uint8") as file:
        file.write_colormap(1, {i: (i * 10, 255 - i, i, 255) for i in range(256 // 11)})
        file.write(values)
    assert main([str(tmp_path / "a.tif"), "-o", str(tmp_path / "a.png")]) == 0
    want = np.stack([values[0] * 10, 255 - values[0], values[0]])
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.png"), want)


def test_a_projected_system_in_text_keeps_its_code():
    from penstock.geo.crs import crs_of, epsg_of

    pyproj = pytest.importorskip("pyproj")
    text = "ESRI PE String = " + pyproj.CRS.from_epsg(3857).to_wkt("WKT1_ESRI")
    keys = {"GTModelType": 1, "GTRasterType": 1, "GeodeticCRS": 4326, "ProjectedCitation": text}
    assert epsg_of(keys) == crs_of(keys).to_epsg() == 3857
