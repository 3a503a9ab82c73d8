"""What headers say that no common writer writes: odd values of tags, and directories that lead nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import penstock as ps
import pytest
from tiff_bytes import image, tag, tiff_of


def sparse(dtype: str, nodata: str) -> Any:
    """The value of a tile that was never written."""
    kind = {"u": 1, "i": 2, "f": 3, "c": 6}[np.dtype(dtype).kind]
    tags = image(16, 16, bits=8 * np.dtype(dtype).itemsize) | {339: tag(3, kind), 42113: tag(2, nodata)}
    tags |= {322: tag(3, 16), 323: tag(3, 16), 324: tag(4, 0), 325: tag(4, 0)}
    array = ps.open(tiff_of(tags))
    assert array.dtype == np.dtype(dtype)
    values = array[...]
    assert (values[0] == values[0, 0, 0]).all() or np.isnan(values).all()
    assert array.fill_value == values[0, 0, 0] or np.isnan(values[0, 0, 0])
    return values[0, 0, 0]


@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [
        ("f2", "-9999"),
        ("f2", "0.1"),
        ("f2", "inf"),
        ("f4", "-3.40282346638529e+38"),
        ("f8", "1e-300"),
        ("c8", "-5"),
        ("i8", "-9223372036854775808"),
        ("i8", "9223372036854775807"),
        ("i8", "-9007199254740993"),
        ("u8", "18446744073709551615"),
        ("u8", "9007199254740993"),
        ("i2", "-9999.0"),
        ("u1", "255"),
    ],
)
def test_sparse_tiles_are_nodata_exactly(dtype, nodata):
    got = sparse(dtype, nodata)
    kind = np.dtype(dtype)
    wanted = kind.type(int(float(nodata)) if kind.kind in "iu" and "." in nodata else
                       int(nodata) if kind.kind in "iu" else float(nodata))  # fmt: skip
    assert got == wanted


@pytest.mark.parametrize(("dtype", "nodata"), [("u1", "256"), ("u8", "-1"), ("i2", "0.5"), ("f2", "1e6"), ("f4", "x")])
def test_sparse_tiles_are_zero_where_the_type_has_no_such_value(dtype, nodata):
    assert sparse(dtype, nodata) == 0


@pytest.mark.parametrize("compression", [1, 5, 8, 32773, 34925, 50000, 34887])
@pytest.mark.parametrize("subsampling", [(1, 1), (2, 2), (4, 1)])
def test_luminance_and_chroma_without_jpeg_are_refused_by_name(compression, subsampling):
    tags = image(8, 8, 3) | {259: tag(3, compression), 262: tag(3, 6), 530: tag(3, *subsampling)}
    with pytest.raises(ps.UnsupportedError, match="YCbCr") as caught:
        ps.open(tiff_of(tags, bytes(8 * 8 * 3)))
    assert f"{subsampling[0]} x {subsampling[1]}" in str(caught.value)


@pytest.mark.parametrize("number", [65537, 65543, 2**32 - 1])
def test_numbers_of_compressions_are_not_cut(number):
    with pytest.raises(ps.UnsupportedError, match=str(number)):
        ps.open(tiff_of(image(8, 8) | {259: tag(4, number)}, bytes(64)))


def test_numbers_of_colour_models_are_not_cut():
    data = bytes(range(192))
    array = ps.open(tiff_of(image(8, 8, 3) | {262: tag(4, 65536 + 6)}, data))
    np.testing.assert_array_equal(array[...], np.moveaxis(np.frombuffer(data, "u1").reshape(8, 8, 3), -1, 0))
    assert array.photometric == str(65536 + 6)
