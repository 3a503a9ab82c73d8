"""The matrix of files that GDAL writes, read by Penstock and by GDAL; and COGs that GDAL wrote, over HTTP."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix
from support.http_server import ROUND_TRIP, HttpServer
from test_tiff import picture

rasterio = pytest.importorskip("rasterio")
pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

COMPRESSIONS = ["NONE", "DEFLATE", "LZW", "ZSTD", "LZMA", "PACKBITS"]
DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]


def written(path: Path, values: np.ndarray, **options: Any) -> np.ndarray:
    """Write (band, y, x) and return what GDAL reads."""
    bands, height, width = values.shape
    common = {"driver": "GTiff", "width": width, "height": height, "count": bands, "dtype": values.dtype.name}
    with rasterio.open(path, "w", **common | options) as file:
        file.write(values)
    with rasterio.open(path) as file:
        read: np.ndarray = file.read()
        return read


def knows(dtype: str) -> bool:
    return np.dtype(dtype).name in rasterio.dtypes.dtype_rev


@matrix
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("layout", ["tiles", "strips"])
def test_the_matrix_of_gdal_is_read_alike(tmp_path, compression, layout):
    path = tmp_path / "x.tif"
    blocks = {"tiled": True, "blockxsize": 32, "blockysize": 16} if layout == "tiles" else {"blockysize": 7}
    read = 0
    for dtype, interleave, (big, endian) in itertools.product(
        filter(knows, DTYPES), ("pixel", "band"), (("NO", "LITTLE"), ("YES", "BIG"))
    ):
        kind = np.dtype(dtype).kind
        predictors = [1]
        if compression in ("DEFLATE", "LZW", "ZSTD"):
            predictors += [2] * (kind in "iu") + [2, 3] * (dtype in ("f4", "f8"))
        values = picture(dtype, (3, 45, 70))
        for predictor in predictors:
            label = f"{compression} {layout} {endian} {dtype} {interleave} BigTIFF={big} p{predictor}"
            options = {"compress": compression, "interleave": interleave, "bigtiff": big, "endianness": endian}
            if predictor != 1:
                options["predictor"] = predictor
            wanted = written(path, values, **options, **blocks)
            np.testing.assert_array_equal(wanted, values, err_msg=label)
            a = ps.open(path)
            assert a.dtype == values.dtype, label
            np.testing.assert_array_equal(a[...], values, err_msg=label)
            np.testing.assert_array_equal(a[1:, 9:33:2, 60:3:-5], values[1:, 9:33:2, 60:3:-5], err_msg=label)
            read += 1
    assert read >= 4 * 11


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_odd_widths_of_gdal_are_read_alike(tmp_path, compression):
    path = tmp_path / "x.tif"
    for bits, interleave, blocks, endian in itertools.product(
        [1, 2, 3, 4, 5, 7, 9, 10, 12, 15, 17, 24, 31],
        ("pixel", "band"),
        ({"tiled": True, "blockxsize": 32, "blockysize": 16}, {"blockysize": 7}),
        ("LITTLE", "BIG"),
    ):
        if (bits, endian) == (24, "BIG"):
            continue  # libtiff reverses what GDAL packed with the highest byte first; other readers do not
        dtype = "u1" if bits < 8 else "u2" if bits < 16 else "u4"
        values = (picture(dtype, (2, 45, 70)) & np.array((1 << bits) - 1, dtype)).astype(dtype)
        options = {"compress": compression, "interleave": interleave, "endianness": endian, "nbits": bits}
        wanted = written(path, values, **options, **blocks)
        np.testing.assert_array_equal(wanted, values)
        np.testing.assert_array_equal(ps.open(path)[...], values, err_msg=f"{bits} {options} {blocks}")


@pytest.mark.parametrize("nodata", [None, 7])
@pytest.mark.parametrize("compression", ["NONE", "DEFLATE"])
def test_tiles_that_were_never_written_are_nodata(tmp_path, compression, nodata):
    path = tmp_path / "x.tif"
    options = {"driver": "GTiff", "width": 200, "height": 150, "count": 2, "dtype": "int16", "sparse_ok": True}
    options |= {"tiled": True, "blockxsize": 32, "blockysize": 32, "compress": compression, "nodata": nodata}
    with rasterio.open(path, "w", **options) as file:
        file.write(np.full((2, 32, 32), 5, "i2"), window=rasterio.windows.Window(64, 32, 32, 32))
    with rasterio.open(path) as file:
        wanted = file.read()
    assert (wanted == (nodata or 0)).sum() == wanted.size - 2 * 32 * 32
    np.testing.assert_array_equal(ps.open(path)[...], wanted)


class Served:
    """A COG with overviews on a test server."""

    def __init__(self, path: Path, server: HttpServer, **options: Any) -> None:
        self.values = picture("u2", (3, 1500, 1400))
        common = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500000, 0, -10, 4600000)}
        self.read = written(path, self.values, driver="COG", blocksize=256, compress="deflate", **common, **options)
        self.path, self.server = path, server
        server.put("data/x.tif", path.read_bytes())
        self.url = f"{server.url}/data/x.tif"


@pytest.fixture
def served(tmp_path):
    with HttpServer({}) as server:
        yield Served(tmp_path / "x.tif", server)


def test_a_cog_takes_one_request_to_open_and_one_to_read(served):
    served.server.latency = ROUND_TRIP
    a = ps.open(served.url)
    assert len(served.server.requests) == 1
    assert a.overviews == ((750, 700), (375, 350), (187, 175))
    assert a.epsg == 32633
    served.server.forget()
    np.testing.assert_array_equal(a[:, 300:500, 300:500], served.values[:, 300:500, 300:500])
    assert len(served.server.requests) == 1
    served.server.forget()
    np.testing.assert_array_equal(a[...], served.values)
    assert served.server.waves == 1
    assert len(served.server.requests) <= 1 + served.path.stat().st_size // (1 << 20)


def test_an_overview_is_read_if_it_suffices(served):
    a = ps.open(served.url)
    bounds = (500000, 4585000, 514000, 4600000)
    ps.read_window(a, bounds, (150, 140))
    served.server.forget()
    got = ps.read_window(a, bounds, (150, 140), "average")
    asked = [re.fullmatch(r"bytes=(\d+)-(\d+)", each.headers["range"]) for each in served.server.requests]
    assert sum(int(each[2]) + 1 - int(each[1]) for each in asked) < 0.1 * served.path.stat().st_size
    with rasterio.open(served.path) as file:
        window = rasterio.windows.from_bounds(*bounds, file.transform)
        wanted = file.read(window=window, out_shape=(3, 150, 140), resampling=rasterio.enums.Resampling.average)
    assert np.abs(got.astype("i8") - wanted).max() <= 1
    for level in (1, 2, 3):
        with rasterio.open(served.path, overview_level=level - 1) as file:
            np.testing.assert_array_equal(ps.open(served.url, level=level)[...], file.read())


def test_sidecar_files_of_a_remote_one_are_read_when_needed(served, tmp_path):
    path = tmp_path / "plain.tif"
    written(path, served.values)
    with rasterio.Env(TIFF_USE_OVR=True), rasterio.open(path, "r+") as file:
        file.build_overviews([2])
    for name in ("plain.tif", "plain.tif.ovr"):
        served.server.put(f"data/{name}", (tmp_path / name).read_bytes())
    served.server.forget()
    url = f"{served.server.url}/data/plain.tif"
    assert ps.open(url).overviews == ()
    assert len(served.server.requests) == 1
    with rasterio.open(path, overview_level=0) as file:
        np.testing.assert_array_equal(ps.open(url, level=1)[...], file.read())
    with pytest.raises(ps.NotFoundError):
        ps.open(url, mask=True)


def test_a_remote_cog_that_changes_while_it_is_read_is_a_conflict(served):
    a = ps.open(served.url)
    served.server.put("data/x.tif", served.path.read_bytes() + b"\0")
    with pytest.raises(ps.ConflictError):
        a[...]


@pytest.mark.parametrize("compression", ["DEFLATE", "ZSTD", "NONE", "JPEG"])
@pytest.mark.parametrize("interleave", ["PIXEL", "BAND", "TILE"])
def test_masks_of_cogs_are_read_wherever_they_are_stored(tmp_path, interleave, compression):
    """GDAL stores each tile's mask after the tile, or after the tiles of all bands, or all masks after the image."""
    from rasterio.enums import Resampling
    from rasterio.shutil import copy

    if tuple(map(int, rasterio.__gdal_version__.split(".")[:2])) < (3, 11) and (
        interleave != "PIXEL" or compression == "JPEG"
    ):
        pytest.skip(f"GDAL {rasterio.__gdal_version__} writes no such COG, and upsamples JPEG's colours more coarsely")
    values = (picture("u1", (3, 300, 420)) % 200).astype("u1")
    valid = np.random.default_rng(1).random((300, 420)) > 0.3
    path, place = tmp_path / "x.tif", rasterio.Affine(10, 0, 500000, 0, -10, 4600000)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        with rasterio.open(
            tmp_path / "from.tif", "w", driver="GTiff", width=420, height=300, count=3, dtype="uint8", crs="EPSG:32633",
            transform=place,
        ) as to:  # fmt: skip
            to.write(values)
            to.write_mask(valid)
        copy(tmp_path / "from.tif", path, driver="COG", interleave=interleave, compress=compression, blocksize=128)
    array = ps.open(path)
    assert len(array.overviews) == 2
    assert (array.structure.get("MASK_INTERLEAVED_WITH_IMAGERY") == "YES") == (interleave == "PIXEL")
    for level in range(3):
        with rasterio.open(path, **({"overview_level": level - 1} if level else {})) as source:
            np.testing.assert_array_equal(ps.open(path, level=level)[...], source.read())
            np.testing.assert_array_equal(ps.open(path, level=level, mask=True)[0], source.dataset_mask())
    bounds = (500160, 4598000, 502720, 4599840)
    with rasterio.open(path) as source:
        window = rasterio.windows.from_bounds(*bounds, transform=place)
        wanted = source.read(window=window, out_shape=(3, 23, 32), masked=True, resampling=Resampling.average)
    got = ps.read_window(array, bounds, (23, 32), "average", fill_value=0)
    assert np.abs(got.astype("i8") - wanted.filled(0)).max() <= 1
