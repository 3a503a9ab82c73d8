"""TIFFs in device memory equal the host's reads, for every kind of sample whose chain begins on the host.

Against the fake CUDA driver; test_device_tiff.py runs these in a separate process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, cuda, fake_cuda_library
from test_tiff_short_tiles import TILE, pixels, tiled
from tiff_bytes import image, tag, tiff_of

__all__ = ["cuda", "fake_cuda_library"]
DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "tiff"


def check(place: Any, **options: Any) -> None:
    """Compare the whole image, a box and a row byte by byte."""
    array = ps.open(place, **options)
    whole = array[...]
    height, width = array.shape[-2:]
    for key in (
        np.s_[...],
        np.s_[:, height // 3 : height // 3 + 5, width // 4 :: 2],
        np.s_[0, -1],
        np.s_[-1:, ::-3, : width // 2],
    ):
        got = array.read(key, device="cuda").numpy()
        assert got.dtype == whole.dtype
        assert got.tobytes() == np.ascontiguousarray(whole[key]).tobytes(), key


def packed(bits: int, kind: int, *, samples: int = 2, order: int = 1, **more: Any) -> bytes:
    """An image of random bits in strips of many widths."""
    width, height = 37, 23
    row = (width * samples * bits + 7) // 8
    data = np.random.default_rng(bits).integers(0, 256, row * height, dtype="u1")
    if kind in (3, 6):
        data &= 0xBB  # no NaN: the bits of NaN are not compared
    tags = image(width, height, samples, bits) | {339: tag(3, *[kind] * samples), 266: tag(3, order)}
    return tiff_of(tags | more.get("tags", {}), data.tobytes())


@pytest.mark.parametrize("bits", [1, 2, 3, 5, 7, 9, 12, 15, 17, 24, 31, 33, 63])
def test_odd_widths(cuda: FakeCuda, bits: int) -> None:
    check(packed(bits, 1))
    check(packed(bits, 1), bands=[1])


@pytest.mark.parametrize("bits", [1, 8, 12, 16, 32])
def test_reversed_bits(cuda: FakeCuda, bits: int) -> None:
    check(packed(bits, 1, order=2))


@pytest.mark.parametrize(("bits", "kind"), [(16, 3), (24, 3), (32, 3), (64, 3), (32, 5), (64, 5), (64, 6), (128, 6)])
def test_floats_and_complex_numbers(cuda: FakeCuda, bits: int, kind: int) -> None:
    check(packed(bits, kind))


@pytest.mark.parametrize("big", [False, True], ids=["classic", "BigTIFF"])
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("dtype", "predictor"), [("f2", 3), ("f4", 3), ("u2", 2), ("i8", 2), ("f8", 1)])
def test_predictors_orders_and_large_files(
    cuda: FakeCuda, tmp_path: Path, dtype: str, predictor: int, order: str, big: bool
) -> None:
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    values = (np.random.default_rng(2).integers(-40, 40, (83, 111)).cumsum(0) * 7).astype(dtype)
    options = {"byteorder": order, "bigtiff": big, "predictor": predictor, "compression": "zlib", "tile": (32, 48)}
    tifffile.imwrite(tmp_path / "x.tif", values, metadata=None, **options)
    check(tmp_path / "x.tif")


@pytest.mark.parametrize("dtype", ["u1", "f2", "i8"])
def test_tiles_that_were_never_written(cuda: FakeCuda, dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    tile = np.random.default_rng(1).integers(0, 99, (16, 16)).astype(dtype).tobytes()
    tags = image(32, 48, bits=8 * size) | {339: tag(3, {"u": 1, "i": 2, "f": 3}[dtype[0]]), 42113: tag(2, "77")}
    tags |= {322: tag(3, 16), 323: tag(3, 16)}
    offsets = [0, 8, 8, 0, 0, 8]
    tags |= {324: tag(4, *offsets), 325: tag(4, *[len(tile) if at else 0 for at in offsets])}
    check(tiff_of(tags, tile))


@pytest.mark.parametrize("compression", ["none", "lzma", "lzw", "deflate", "packbits", "zstd"])
@pytest.mark.parametrize("planar", [False, True])
def test_short_tiles_are_read_or_refused(cuda: FakeCuda, tmp_path: Path, compression: str, planar: bool) -> None:
    for kept in (TILE[0], 7):
        path = tmp_path / f"{kept}.tif"
        path.write_bytes(tiled(pixels(39, "u2"), compression, planar=planar, kept=kept))
        if kept == TILE[0] or compression in ("none", "lzma"):
            check(path)
            continue
        with pytest.raises(ps.CorruptDataError, match="tile \\(row 1, "):
            ps.open(path).read(np.s_[...], device="cuda").numpy()


def test_masks_and_overviews(cuda: FakeCuda) -> None:
    path = DATA / "cogeotiff__rio-tiler" / "cog_uint8_rgb_mask.tif"
    check(path)
    check(path, mask=True)
    check(path, level=1)
    check(path, level=1, mask=True)
    check(path, bands=[2, 0])


@pytest.mark.parametrize("compression", ["jpeg", "webp", "jpegxl", "jpeg2000", "lerc", "lzma", "packbits"])
def test_jpeg_tiles_are_decoded_before_the_copy(cuda: FakeCuda, tmp_path: Path, compression: str) -> None:
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    values = np.random.default_rng(2).integers(0, 9, (83, 111, 3)).cumsum(0).astype("u1")
    path = tmp_path / "x.tif"
    options: dict[str, Any] = {"compression": compression, "photometric": "rgb", "tile": (32, 48), "metadata": None}
    tifffile.imwrite(path, values, **options)
    try:
        ps.open(path)
    except ps.UnsupportedError as error:
        pytest.skip(str(error))
    check(path)


@pytest.mark.parametrize("compression", ["ccitt_rle", "ccitt_fax3", "ccitt_fax4"])
def test_fax(cuda: FakeCuda, tmp_path: Path, compression: str) -> None:
    rasterio = pytest.importorskip("rasterio")
    values = (np.random.default_rng(2).integers(-3, 4, (83, 111)).cumsum(1) > 0).astype("u1")
    options = {"driver": "GTiff", "width": 111, "height": 83, "count": 1, "dtype": "uint8", "NBITS": 1}
    name = {"ccitt_rle": "CCITTRLE", "ccitt_fax3": "CCITTFAX3", "ccitt_fax4": "CCITTFAX4"}[compression]
    with rasterio.open(tmp_path / "x.tif", "w", compress=name, **options) as to:
        to.write(values, 1)
    check(tmp_path / "x.tif")
