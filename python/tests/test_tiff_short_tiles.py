"""Tiles that contain only the image's rows, which GDAL and tifffile read."""

from __future__ import annotations

import io
import itertools
import zlib
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix
from tiff_bytes import image, tag, tiff_of

imagecodecs = pytest.importorskip("imagecodecs")
tifffile = pytest.importorskip("tifffile")

COMPRESSIONS = {
    "none": (1, bytes),
    "lzw": (5, imagecodecs.lzw_encode),
    "deflate": (8, zlib.compress),
    "packbits": (32773, imagecodecs.packbits_encode),
    "lzma": (34925, imagecodecs.lzma_encode),
    "zstd": (50000, imagecodecs.zstd_encode),
}
TILE = 32, 48
WIDTH = 70
SAMPLES = 3


def pixels(height: int, dtype: str) -> Any:
    random = np.random.default_rng(height)
    return (random.integers(0, 50, (height, WIDTH, SAMPLES)) * np.arange(1, WIDTH + 1)[:, None] % 251).astype(dtype)


def predicted(rows: Any, predictor: int) -> Any:
    """The rows of a tile as the predictor stores them."""
    if predictor == 2:
        return np.concatenate([rows[:, :1], np.diff(rows, axis=1)], axis=1)
    if predictor == 3:
        planes = rows.astype(">f4").view("u1").reshape(len(rows), -1, 4).swapaxes(1, 2).reshape(len(rows), -1)
        step = rows.shape[-1]
        return np.concatenate([planes[:, :step], planes[:, step:] - planes[:, :-step]], axis=1)
    return rows


def tiled(
    values: Any, compression: str, *, planar: bool = False, predictor: int = 1, kept: int = TILE[0], cut: int = 0,
    short_row: int = -1, reversed_bits: bool = False, absent_counts: bool = False,
) -> bytes:  # fmt: skip
    """A TIFF whose last row of tiles has `kept` rows less `cut` bytes; the other tiles are whole."""
    height = values.shape[0]
    down, across = -(-height // TILE[0]), -(-WIDTH // TILE[1])
    padded = np.full((down * TILE[0], across * TILE[1], SAMPLES), 99, values.dtype)
    padded[:height, :WIDTH] = values
    code, encode = COMPRESSIONS[compression]
    data, offsets, counts = b"", [], []
    for plane in [[i] for i in range(SAMPLES)] if planar else [list(range(SAMPLES))]:
        for y, x in itertools.product(range(down), range(across)):
            tile = padded[y * TILE[0] :, x * TILE[1] :, plane][: TILE[0], : TILE[1]]
            raw = np.ascontiguousarray(predicted(np.ascontiguousarray(tile), predictor)).tobytes()
            if y == short_row % down:
                raw = raw[: kept * len(raw) // TILE[0] - cut]
            stored = encode(raw)
            if reversed_bits:
                stored = bytes(int(f"{each:08b}"[::-1], 2) for each in stored)
            offsets.append(8 + len(data))
            counts.append(len(stored))
            data += stored
    tags = image(WIDTH, height, SAMPLES, 8 * values.dtype.itemsize)
    del tags[278]
    tags |= {259: tag(3, code), 262: tag(3, 2), 284: tag(3, 2 if planar else 1), 317: tag(3, predictor)}
    tags |= {322: tag(3, TILE[1]), 323: tag(3, TILE[0]), 324: tag(4, *offsets), 325: tag(4, *counts)}
    tags[339] = tag(3, *[{"u": 1, "i": 2, "f": 3}[values.dtype.kind]] * SAMPLES)
    if reversed_bits:
        tags[266] = tag(3, 2)
    # The data is at the end of the file, so that no bytes follow the last tile.
    head = tiff_of(tags)
    moved = {**tags, 324: tag(4, *[each - 8 + len(head) for each in offsets])}
    return tiff_of(moved) + data


CASES = [
    (compression, planar, predictor, dtype)
    for compression in COMPRESSIONS
    for planar in (False, True)
    for predictor, dtype in [(1, "u1"), (1, "u2"), (2, "u1"), (2, "u2"), (3, "f4")]
    if predictor == 1 or compression not in ("none", "packbits")
]


@matrix
@pytest.mark.parametrize(("compression", "planar", "predictor", "dtype"), CASES)
@pytest.mark.parametrize("height", [TILE[0] + 7, 20], ids=["last row", "only row"])
def test_tiles_of_only_the_image_rows_are_read(compression, planar, predictor, dtype, height):
    values = pixels(height, dtype)
    needed = height % TILE[0]
    for kept in (needed, needed + 1, TILE[0] - 1, TILE[0]):
        file = tiled(values, compression, planar=planar, predictor=predictor, kept=kept)
        got = ps.open(file)
        np.testing.assert_array_equal(got[...], np.moveaxis(values, 2, 0), err_msg=f"{kept} rows")
        np.testing.assert_array_equal(got[1:, height - 3 :, 40:60:3], np.moveaxis(values, 2, 0)[1:, -3:, 40:60:3])
        np.testing.assert_array_equal(ps.open(file, bands=[2, 0])[...], np.moveaxis(values[..., [2, 0]], 2, 0))
        np.testing.assert_array_equal(ps.open(file, layout="native")[...].reshape(-1), (
            np.moveaxis(values, 2, 0) if planar else values).reshape(-1))  # fmt: skip
    peer = tifffile.imread(io.BytesIO(tiled(values, compression, planar=planar, predictor=predictor, kept=needed)))
    np.testing.assert_array_equal(np.moveaxis(peer, 0, 2) if planar else peer, values)


@pytest.mark.parametrize("compression", ["none", "deflate"])
def test_short_tiles_of_reversed_bits_are_read(compression):
    values = pixels(39, "u1")
    got = ps.open(tiled(values, compression, kept=7, reversed_bits=True))[...]
    np.testing.assert_array_equal(got, np.moveaxis(values, 2, 0))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize(("kept", "cut", "row"), [(6, 0, -1), (7, 1, -1), (8, 5, -1), (31, 0, 0), (7, 0, 0)])
def test_tiles_that_are_too_short_are_errors_with_their_names(tmp_path, compression, planar, kept, cut, row):
    values = pixels(39, "u1")
    path = tmp_path / "short.tif"
    path.write_bytes(tiled(values, compression, planar=planar, kept=kept, cut=cut, short_row=row))
    if compression == "none" and row == 0:
        # The byte counts of uncompressed tiles are ignored; the other row of tiles is right.
        got = ps.open(path)[:, TILE[0] :]
        np.testing.assert_array_equal(got, np.moveaxis(values, 2, 0)[:, TILE[0] :])
        return
    with pytest.raises(ps.CorruptDataError) as caught:
        ps.open(path)[...]
    text = str(caught.value)
    assert f"tile (row {row % 2}, " in text, text
    assert "bytes [" in text, text
    assert "short.tif" in text, text


@pytest.mark.parametrize("side", [2048, 4096])
def test_short_tiles_of_one_value_are_read(side):
    """A tile whose stream is too short for the whole tile is read up to 16 MiB, and refused if it is larger."""
    stored = zlib.compress(bytes(side * 3))
    tags = image(side, 3) | {259: tag(3, 8), 322: tag(3, side), 323: tag(3, side), 324: tag(4, 8)}
    tags[325] = tag(4, len(stored))
    np.testing.assert_array_equal(ps.open(tiff_of(tags, stored))[0], np.zeros((3, side), "u1"))
    tags[323] = tag(4, 2**30)
    with pytest.raises(ps.CorruptDataError, match="cannot decode"):
        ps.open(tiff_of(tags, stored))[...]
