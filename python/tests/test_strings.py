"""Elements of variable length: text, bytes and objects, compared with zarr-python and numcodecs."""

from __future__ import annotations

import json
import struct
from typing import Any

import numcodecs
import numpy as np
import penstock as ps
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from support.http_server import ROUND_TRIP, HttpServer
from zarr.dtype import VariableLengthBytes

pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = ["", "one", "zwölf", "日本語", "🙂" * 3, "x" * 1000, "\0mid\0", "end"]
BYTES = [b"", b"one", b"\xff\x00\xfe", b"x" * 1000, b"\0"]


def stored(values: Any, chunks: tuple[int, ...], dtype: Any = str, **options: Any) -> tuple[dict[str, bytes], Any]:
    """The keys of an array that zarr-python wrote, and the values that it reads."""
    store: dict[str, Any] = {}
    made = zarr.create_array(store, shape=np.shape(values), chunks=chunks, dtype=dtype, **options)
    made[...] = np.asarray(values, dtype=object)
    return {key: bytes(value.to_bytes()) for key, value in store.items()}, made[...]


def grid(of: list[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    made = np.empty(shape, object)
    for i in range(made.size):
        made.flat[i] = of[i * 7 % len(of)]
    return made


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "of"), [(str, TEXTS), (VariableLengthBytes(), BYTES)], ids=["text", "bytes"])
@pytest.mark.parametrize("key", [np.s_[...], np.s_[3], np.s_[::-2, 1:7:3], np.s_[5:5], np.s_[2:9, -1]])
def test_reads_equal_zarr_pythons(zarr_format, dtype, of, key):
    keys, expected = stored(grid(of, (11, 8)), (4, 3), dtype, zarr_format=zarr_format)
    a = ps.open(keys)
    assert a.dtype == expected.dtype
    got = a[key]
    assert got.dtype == expected.dtype
    assert got.shape == expected[key].shape
    assert got.tolist() == expected[key].tolist()


def test_one_element_is_a_str_or_bytes():
    keys, _ = stored(grid(TEXTS, (11,)), (4,))
    assert ps.open(keys)[2] == TEXTS[14 % len(TEXTS)]
    assert type(ps.open(keys)[2]) is str
    keys, _ = stored(grid(BYTES, (11,)), (4,), VariableLengthBytes())
    assert ps.open(keys)[1] == BYTES[7 % len(BYTES)]
    assert type(ps.open(keys)[1]) is bytes
    assert ps.open(keys)[1, ...].shape == ()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_that_were_never_written_are_the_fill_value(zarr_format):
    store: dict[str, Any] = {}
    made = zarr.create_array(
        store, shape=(10,), chunks=(3,), dtype=str, fill_value="nichts: ∅", zarr_format=zarr_format
    )
    made[4] = "etwas"
    a = ps.open(store)
    assert a.fill_value == "nichts: ∅"
    assert a[...].tolist() == made[...].tolist() == ["nichts: ∅"] * 4 + ["etwas"] + ["nichts: ∅"] * 5


def test_shards_hold_text():
    values = grid(TEXTS, (20, 12))
    keys, expected = stored(values, (3, 2), shards=(6, 4))
    a = ps.open(keys)
    assert a.shards == (6, 4)
    assert a[...].tolist() == expected.tolist()
    assert a[7:13, 3].tolist() == expected[7:13, 3].tolist()


def test_text_in_fortran_order():
    values = grid(TEXTS, (7, 5))
    keys, expected = stored(values, (3, 2), zarr_format=2, order="F")
    assert json.loads(keys[".zarray"])["order"] == "F"
    assert ps.open(keys)[...].tolist() == expected.tolist()


@pytest.mark.parametrize(
    "compressor", [None, numcodecs.GZip(3), numcodecs.Blosc("lz4"), numcodecs.BZ2(), numcodecs.LZMA()]
)
def test_sizes_that_are_not_known_beforehand(compressor):
    """Megabytes of text from kilobytes: the buffers of every codec grow."""
    values = np.array(["abc" * 1_000_000, "x", "y" * 500_000, ""], dtype=object)
    keys, expected = stored(values, (2,), zarr_format=2, compressors=compressor)
    assert ps.open(keys)[...].tolist() == expected.tolist()
    if compressor is None:
        return  # nothing is copied
    small = ps.Context(memory_limit=2 << 20)
    with pytest.raises(ps.ResourceExhaustedError):
        ps.open(keys, context=small)[...]


def test_out_takes_objects_and_strings():
    keys, expected = stored(grid(TEXTS, (6, 4)), (4, 3))
    a = ps.open(keys)
    objects = np.full((12, 4), 7, object)[::2]
    assert a.read(out=objects) is objects
    assert objects.tolist() == expected.tolist()
    texts = np.full((4, 6), "?", np.dtypes.StringDType()).T
    a.read(out=texts)
    assert texts.tolist() == expected.tolist()
    assert a.read(dtype=object).tolist() == expected.tolist()
    assert a.read(np.s_[1], dtype=object).dtype == object
    with pytest.raises(ps.OutputError, match="cannot be cast"):
        a.read(out=np.zeros((6, 4)))
    with pytest.raises(ps.InvalidArgumentError, match="cannot be cast"):
        a.read(dtype="U3")


def test_many_threads_and_asynchronous_reads():
    values = grid(TEXTS, (4000,))
    keys, expected = stored(values, (50,))
    a = ps.open(keys, context=ps.Context(threads=4))
    for _ in range(3):
        assert a.read(threads=4).tolist() == expected.tolist()
    assert a.read_async().wait().tolist() == expected.tolist()
    out = np.empty(4000, object)
    assert a.read_async(out=out).wait() is out
    assert out.tolist() == expected.tolist()
    seen: list[tuple[int, int]] = []
    a.read(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


def test_iteration_and_conversion():
    keys, expected = stored(grid(TEXTS, (9,)), (4,))
    a = ps.open(keys)
    assert list(a) == expected.tolist()
    assert np.asarray(a).tolist() == expected.tolist()
    assert len(a) == 9


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (b"", "has 0 bytes, the lengths alone of 4 items have more"),
        (struct.pack("<I", 3) + struct.pack("<I", 0) * 4, "has 3 items, the chunk's shape needs 4"),
        (struct.pack("<II", 4, 0xFFFFFFFF) + b"abcdefghijkl", "ends within item 0 of 4"),
        (struct.pack("<IIIII", 4, 0, 0, 0, 9) + b"abc", "ends within item 3 of 4"),
        (struct.pack("<IIIII", 4, 0, 0, 0, 3) + b"ab\xff", "item 3 of 3 bytes is not UTF-8"),
    ],
)
def test_damaged_chunks_are_errors(chunk, message):
    keys, _ = stored(grid(TEXTS, (4,)), (4,), compressors=None)
    keys["c/0"] = chunk
    with pytest.raises(ps.CorruptDataError, match=message):
        ps.open(keys)[...]


def test_a_chunk_that_claims_any_size_stays_within_the_limit():
    import zlib

    keys, _ = stored(grid(TEXTS, (2,)), (2,), zarr_format=2, compressors=numcodecs.Zlib(1))
    keys["0"] = zlib.compress(struct.pack("<II", 2, 0) + bytes(200 << 20), 9)
    with pytest.raises((ps.ResourceExhaustedError, ps.CorruptDataError)):
        ps.open(keys, context=ps.Context(memory_limit=16 << 20))[...]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=30), st.integers(1, 8)
)
def test_any_text_is_returned_unchanged(texts, chunk):
    keys, _ = stored(np.array(texts, object), (chunk,))
    assert ps.open(keys)[...].tolist() == texts


OBJECTS: list[Any] = [1, "two", None, {"three": [3.5, True]}, [4, [5]], "", "sechs"]


def objects_v2(filters: list[Any], values: list[Any], fill: Any = None) -> dict[str, bytes]:
    """A Zarr v2 array of objects, which zarr-python 3 cannot write."""
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    data: Any = array
    for codec in filters:
        data = codec.encode(data)
    metadata = {
        "zarr_format": 2,
        "shape": [len(values)],
        "chunks": [len(values)],
        "dtype": "|O",
        "order": "C",
        "fill_value": fill,
        "filters": [codec.get_config() for codec in filters],
        "compressor": {"id": "zlib", "level": 1},
    }
    return {".zarray": json.dumps(metadata).encode(), "0": numcodecs.Zlib(1).encode(data)}


@pytest.mark.parametrize("codec", [numcodecs.JSON(), numcodecs.MsgPack()], ids=["json2", "msgpack2"])
def test_objects_of_zarr_2(codec):
    a = ps.open(objects_v2([codec], OBJECTS))
    assert a.dtype == object
    assert "via Python" in a._codecs_text
    assert a[...].tolist() == OBJECTS
    assert a[::-2].tolist() == OBJECTS[::-2]
    assert a[3] == OBJECTS[3]
    for _ in range(50):  # reference counts stay balanced
        a[...]
    assert a.read(threads=2).tolist() == OBJECTS


def test_pickles_of_zarr_2():
    keys = objects_v2([numcodecs.Pickle()], OBJECTS)
    with pytest.raises(ps.UnsupportedError, match="allow_pickle=True"):
        ps.open(keys)
    assert ps.open(keys, context=ps.Context(allow_pickle=True))[...].tolist() == OBJECTS


def test_arrays_of_arrays_of_zarr_2():
    arrays = [np.arange(3), np.arange(0), np.arange(5)]
    got = ps.open(objects_v2([numcodecs.VLenArray("<i8")], arrays))[...]
    assert got.dtype == object
    for one, wanted in zip(got, arrays, strict=True):
        np.testing.assert_array_equal(one, wanted)


def test_categories_of_zarr_2():
    labels = ["female", "male"]
    values = ["male", "female", "male", "male"]
    got = ps.open(objects_v2([numcodecs.Categorize(labels, dtype="O", astype="u1")], values))[...]
    assert got.tolist() == values


def test_remote_text_is_requested_many_chunks_at_a_time():
    """The sizes of text chunks are not known before they are read; earlier, this made requests sequential."""
    store, wanted = stored([f"text {i}" for i in range(40)], (1,))
    with HttpServer({f"x.zarr/{key}": value for key, value in store.items()}, latency=ROUND_TRIP) as server:
        array = ps.open(f"{server.url}/x.zarr")
        server.requests.clear()
        assert array[:].tolist() == wanted.tolist()
        assert len({each.wave for each in server.requests}) <= 4
