"""Text, bytes and NumPy's types, written by the engine and read by zarr-python."""

from __future__ import annotations

from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from zarr.codecs import numcodecs as zarr_numcodecs
from zarr.dtype import VariableLengthBytes

pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = ["", "one", "zwölf", "日本語", "🙂" * 3, "x" * 1000, "end"]
BYTES = [b"", b"one", b"\xff\x00\xfe", b"x" * 1000, b"\0"]


def grid(of: list[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    made = np.empty(shape, object)
    for i in range(made.size):
        made.flat[i] = of[i * 5 % len(of)]
    return made


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "of"), [(str, TEXTS), (VariableLengthBytes(), BYTES)], ids=["text", "bytes"])
@pytest.mark.parametrize("shards", [None, (6, 6)])
def test_items_of_variable_length_are_written(tmp_path, zarr_format, dtype, of, shards):
    if zarr_format == 2 and shards:
        pytest.skip("Zarr v2 has no shards")
    made = zarr.create_array(
        tmp_path / "x", shape=(11, 8), chunks=(3, 2), shards=shards, dtype=dtype, zarr_format=zarr_format
    )
    model = made[...]
    a = ps.open(tmp_path / "x", mode="r+")
    for key, values in [
        (np.s_[...], grid(of, (11, 8))),
        (np.s_[2:7, 1::3], grid(of[::-1], (5, 3))),
        (np.s_[4], grid(of[1:], (8,))),
        (np.s_[3, 3], of[1]),
        (np.s_[::-2], of[2]),
    ]:
        a[key] = values
        model[key] = values
        assert a[...].tolist() == model.tolist()
        assert zarr.open_array(tmp_path / "x", mode="r")[...].tolist() == model.tolist()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_of_bytes_are_created_from_their_values(tmp_path, zarr_format):
    values = grid(BYTES, (5, 2))
    for number, options in enumerate(({}, {"dtype": "bytes"}, {"dtype": bytes, "chunks": (2, 2)})):
        a = ps.create_array(tmp_path / str(number), data=values, zarr_format=zarr_format, **options)
        assert a[...].tolist() == values.tolist()
        assert next(codec.get("name", codec.get("id")) for codec in a.codecs) == "vlen-bytes"
        assert zarr.open_array(tmp_path / str(number), mode="r")[...].tolist() == values.tolist()
        again = ps.create_array({}, data=a, zarr_format=5 - zarr_format)
        assert again[...].tolist() == values.tolist()
    ps.save(tmp_path / "saved", a)
    assert ps.open(tmp_path / "saved")[...].tolist() == values.tolist()
    empty = ps.create_array({}, shape=0, dtype="bytes", zarr_format=zarr_format)
    assert "vlen-bytes" in str(ps.create_array({}, data=empty).codecs[0])
    with pytest.raises(ps.InvalidArgumentError, match="all bytes"):
        ps.create_array({}, data=np.array([b"a", "b"], object))


def test_strings_of_numpy_are_written(tmp_path):
    zarr.create_array(tmp_path / "x", shape=(4,), chunks=(3,), dtype=str)
    a = ps.open(tmp_path / "x", mode="r+")
    for values in (
        np.array(["a", "ü", "", "d"], np.dtypes.StringDType()),
        np.array(["a", "ü", "", "d"], "U3"),
        ["a", "ü", "", "d"],
    ):
        a[...] = np.full(4, "before", object)
        a[...] = values
        assert a[...].tolist() == ["a", "ü", "", "d"]


@pytest.mark.parametrize("codec", [zarr_numcodecs.PCodec(level=4), zarr_numcodecs.ZFPY(mode=4, tolerance=1e-6)])
def test_codecs_of_python_write(tmp_path, codec):
    values = np.linspace(0, 1, 77).reshape(11, 7)
    zarr.create_array(tmp_path / "x", shape=(11, 7), chunks=(4, 3), dtype="f8", serializer=codec)
    a = ps.open(tmp_path / "x", mode="r+")
    a[...] = values
    a[2:5, 1::2] = -1
    values[2:5, 1::2] = -1
    np.testing.assert_allclose(zarr.open_array(tmp_path / "x", mode="r")[...], values, atol=1e-5)
    np.testing.assert_array_equal(a[...], zarr.open_array(tmp_path / "x", mode="r")[...])
