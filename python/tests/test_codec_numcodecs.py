"""Every codec of numcodecs that is native here: Penstock decodes what numcodecs encodes, and the reverse."""

from __future__ import annotations

from typing import Any

import numcodecs
import numpy as np
import penstock as ps
import pytest
from penstock import testing

# Casts of values out of range must be equal too.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]
LENGTHS = [1, 2, 3, 7, 8, 9, 511, 512, 513, 1025]


def items(dtype: str, length: int, seed: int = 0, small: bool = False) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(seed)
    native = np.dtype(dtype).newbyteorder("=")
    if native.kind == "b":
        made = random.integers(0, 2, length).astype(bool)
    elif native.kind in "iu":
        info = np.iinfo(native)
        low, high = (max(info.min, -50), min(info.max, 50)) if small else (info.min, info.max)
        made = random.integers(low, high, length, native, endpoint=True)
    else:
        made = (random.standard_normal(length) * (10 if small else 1000)).astype(native)
        if not small and length > 8:
            made[[1, 3, 5, 6]] = np.inf, -np.inf, np.nan, -0.0
    return made.astype(dtype)


def encoded_by_numcodecs(codecs: list[dict[str, Any]], array: np.ndarray[Any, Any]) -> bytes:
    chunk: Any = array
    for config in codecs:
        chunk = numcodecs.get_codec(dict(config)).encode(chunk)
    return np.asarray(memoryview(numcodecs.compat.ensure_contiguous_ndarray(chunk))).tobytes()


def decoded_by_numcodecs(codecs: list[dict[str, Any]], chunk: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    for config in reversed(codecs):
        chunk = numcodecs.get_codec(dict(config)).decode(chunk)
    return np.frombuffer(numcodecs.compat.ensure_bytes(chunk), array.dtype).reshape(array.shape)


def same(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> None:
    native = theirs.astype(theirs.dtype.newbyteorder("="))
    assert ours.dtype == native.dtype
    assert ours.shape == native.shape
    if native.dtype.kind == "f":
        np.testing.assert_array_equal(ours, native)
        number = ~np.isnan(native)  # the sign of a NaN depends on the processor
        np.testing.assert_array_equal(np.signbit(ours[number]), np.signbit(native[number]))
    else:
        assert ours.tobytes() == native.tobytes()


def check(codecs: list[dict[str, Any]], array: np.ndarray[Any, Any], equal_bytes: bool) -> None:
    theirs = encoded_by_numcodecs(codecs, array)
    expected = decoded_by_numcodecs(codecs, theirs, array)
    dtype = array.dtype.str
    same(testing.decode(theirs, codecs, dtype, array.shape), expected)
    ours = testing.encode(array, codecs, dtype)
    again = decoded_by_numcodecs(codecs, ours, array)
    same(again.astype(again.dtype.newbyteorder("=")), expected)
    if equal_bytes:
        assert ours == theirs


COMPRESSORS: list[dict[str, Any]] = [
    {"id": "zlib"},
    {"id": "zlib", "level": -1},
    {"id": "zlib", "level": 0},
    {"id": "zlib", "level": 9},
    {"id": "gzip"},
    {"id": "gzip", "level": -1},
    {"id": "gzip", "level": 9},
    {"id": "zstd"},
    {"id": "zstd", "level": -5, "checksum": True},
    {"id": "zstd", "level": 100},
    {"id": "lz4"},
    {"id": "lz4", "acceleration": 100},
    {"id": "lz4", "acceleration": -1},
    {"id": "bz2"},
    {"id": "bz2", "level": 9},
    {"id": "base64"},
    {"id": "lzma", "preset": 1},
    {"id": "lzma", "format": 1, "check": 0, "preset": 0},
    {"id": "lzma", "format": 1, "check": 1},
    {"id": "lzma", "format": 1, "check": 10, "preset": 2},
    {"id": "lzma", "format": 2, "preset": 3},
    {"id": "lzma", "format": 3, "filters": [{"id": 33, "preset": 1}]},
    {"id": "lzma", "format": 3, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]},
    {"id": "lzma", "format": 3, "filters": [{"id": 0x4000000000000001, "preset": 1}]},
    {"id": "lzma", "format": 3, "filters": [{"id": 4}, {"id": 33, "dict_size": 65536, "lc": 2, "lp": 1, "pb": 0}]},
]


@pytest.mark.parametrize("codec", COMPRESSORS, ids=str)
@pytest.mark.parametrize("length", [1, 8, 1000, 40_000])
def test_compressors_agree(codec, length):
    check([codec], items("<i4", length, small=True), equal_bytes=False)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 1000])
def test_base64_is_the_same_text(length):
    check([{"id": "base64"}], items("u1", length), equal_bytes=True)


@pytest.mark.parametrize("text", [b"YWJj\x01", b"YWJ", b"YW=j", b"YWJj====", b"=", b"Y", b"YWJjYW==YWJj"])
def test_damaged_base64_is_refused(text):
    assert bytes(testing.decode(b"YWJj\r\nYQ==\n", [{"id": "base64"}], "|u1", (4,))) == b"abca"
    with pytest.raises(ps.CorruptDataError):
        testing.decode(text, [{"id": "base64"}], "|u1", (3,))


@pytest.mark.parametrize("shuffle", [-1, 0, 1, 2])
@pytest.mark.parametrize("cname", ["lz4", "lz4hc", "blosclz", "zlib", "zstd"])
@pytest.mark.parametrize("dtype", ["|u1", "<i2", ">f8"])
def test_blosc_agrees(cname, shuffle, dtype):
    for settings in ({}, {"clevel": 9, "blocksize": 512}):
        codec = {"id": "blosc", "cname": cname, "shuffle": shuffle, **settings}
        for length in (1, 9, 5000):
            check([codec], items(dtype, length, small=True), equal_bytes=False)


CHECKSUMS: list[dict[str, Any]] = [
    {"id": "adler32"},
    {"id": "adler32", "location": "end"},
    {"id": "crc32"},
    {"id": "crc32", "location": "end"},
    {"id": "crc32c"},
    {"id": "crc32c", "location": "start"},
    {"id": "fletcher32"},
    {"id": "jenkins_lookup3"},
    {"id": "jenkins_lookup3", "initval": 12345},
]


@pytest.mark.parametrize("codec", CHECKSUMS, ids=str)
@pytest.mark.parametrize("length", [*LENGTHS, 100_001])
def test_checksums_are_the_same_bytes(codec, length):
    check([codec], items("u1", length), equal_bytes=True)


@pytest.mark.parametrize("codec", CHECKSUMS, ids=str)
def test_checksum_errors_have_both_values(codec):
    chunk = bytearray(encoded_by_numcodecs([codec], items("u1", 100)))
    chunk[50] ^= 1
    with pytest.raises(ps.CorruptDataError, match=rf"{codec['id']} of 100 bytes is [0-9a-f]{{8}}, stored is"):
        testing.decode(chunk, [codec], "u1", (100,))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 8, 12, 16, 24, 31])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 300, 4099])
def test_shuffle_is_the_same_bytes(size, count):
    check([{"id": "shuffle", "elementsize": size}], items("u1", max(size, 1) * count), equal_bytes=True)


def test_shuffle_has_numcodecs_default():
    check([{"id": "shuffle", "elementsize": 4}], items("<f8", 100), equal_bytes=True)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("order", "<>")
def test_delta_is_the_same_bytes(order, length):
    for dtype in INTEGERS + FLOATS:
        array = items(order + dtype, length, small=dtype[0] == "f")
        check([{"id": "delta", "dtype": array.dtype.str}], array, equal_bytes=True)


@pytest.mark.parametrize("encoded", ["?", *INTEGERS, *FLOATS])
@pytest.mark.parametrize("decoded", ["?", *INTEGERS, *FLOATS])
def test_delta_agrees_between_types(decoded, encoded):
    if {decoded[0], encoded[0]} == {"f", "u"}:
        pytest.skip("what a float out of range becomes as an integer is the processor's choice, loop by loop")
    for order in "<>":
        for length in (1, 5, 600):
            array = items(order + decoded, length, small=True)
            codec = {"id": "delta", "dtype": array.dtype.str, "astype": np.dtype(order + encoded).str}
            check([codec], array, equal_bytes=True)


@pytest.mark.parametrize("encoded", ["?", *INTEGERS, *FLOATS])
@pytest.mark.parametrize("decoded", ["?", *INTEGERS, *FLOATS])
def test_astype_is_the_same_bytes(decoded, encoded):
    # Integers of every size wrap. Casts of floats beyond an integer's range depend on the processor, and differ between
    # NumPy's own loops, so these values stay within the range.
    for order, other in ("<<", "<>", ">>"):
        for length in (1, 5, 600):
            array = items(order + decoded, length, small=decoded[0] == "f")
            if decoded[0] == "f" and encoded[0] == "u":
                array = np.abs(array)
            codec = {
                "id": "astype",
                "decode_dtype": array.dtype.str,
                "encode_dtype": np.dtype(other + encoded).str,
            }
            theirs = encoded_by_numcodecs([codec], array)
            assert testing.encode(array, [codec], array.dtype.str) == theirs
            if encoded[0] != "f" or decoded[0] == "f":
                check([codec], array, equal_bytes=True)


@pytest.mark.parametrize("encoded", ["i1", "i2", "i4", "i8", "u4", *FLOATS])
@pytest.mark.parametrize("decoded", [*INTEGERS, *FLOATS])
def test_fixedscaleoffset_is_the_same_bytes(decoded, encoded):
    for order in "<>":
        for offset, scale in ((0, 1), (3, 2), (0.5, 10), (2, 0.1), (1, 3.7)):
            if decoded[0] == "u" and offset != 0:
                offset = 0
            array = items(order + decoded, 700, small=True)
            if encoded[0] == "u":
                array = np.abs(array)
                offset = 0
            codec = {
                "id": "fixedscaleoffset",
                "offset": offset,
                "scale": scale,
                "dtype": array.dtype.str,
                "astype": np.dtype(order + encoded).str,
            }
            check([codec], array, equal_bytes=True)


@pytest.mark.parametrize("digits", [-2, -1, 0, 1, 2, 3, 5, 10])
@pytest.mark.parametrize("decoded", FLOATS)
@pytest.mark.parametrize("encoded", FLOATS)
def test_quantize_is_the_same_bytes(digits, decoded, encoded):
    for order in "<>":
        array = items(order + decoded, 700, small=True)
        codec = {
            "id": "quantize",
            "digits": digits,
            "dtype": array.dtype.str,
            "astype": np.dtype(order + encoded).str,
        }
        check([codec], array, equal_bytes=True)


@pytest.mark.parametrize("keep", [0, 1, 3, 7, 10, 23, 30, 52])
@pytest.mark.parametrize("dtype", FLOATS)
def test_bitround_is_the_same_bytes(keep, dtype):
    if keep > {"f2": 10, "f4": 23, "f8": 52}[dtype]:
        with pytest.raises(ps.CorruptDataError, match="keepbits"):
            testing.encode(items(dtype, 3), [{"id": "bitround", "keepbits": keep}])
        return
    array = items(dtype, 1000)
    codec = {"id": "bitround", "keepbits": keep}
    theirs = encoded_by_numcodecs([codec], array)
    assert testing.encode(array, [codec]) == theirs
    # numcodecs accepts only items in native byte order.
    swapped = np.frombuffer(theirs, array.dtype).astype(array.dtype.newbyteorder(">")).tobytes()
    assert testing.encode(array, [codec], array.dtype.newbyteorder(">").str) == swapped
    assert testing.decode(theirs, [codec], array.dtype.str, array.shape).tobytes() == theirs


@pytest.mark.parametrize("length", LENGTHS)
def test_packbits_is_the_same_bytes(length):
    check([{"id": "packbits"}], items("?", length), equal_bytes=True)


def test_chains_of_filters_and_compressors_agree():
    array = items("<i4", 3000, small=True)
    check(
        [
            {"id": "delta", "dtype": "<i4", "astype": "<i2"},
            {"id": "shuffle", "elementsize": 2},
            {"id": "zlib", "level": 5},
            {"id": "fletcher32"},
        ],
        array,
        equal_bytes=False,
    )
    check(
        [
            {"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "<f8", "astype": ">i4"},
            {"id": "delta", "dtype": ">i4", "astype": "<i8"},
            {"id": "astype", "decode_dtype": "<i8", "encode_dtype": "|i1"},
            {"id": "lz4"},
            {"id": "crc32"},
        ],
        items("<f8", 800, small=True) / 100,
        equal_bytes=False,
    )


def test_unknown_settings_are_refused_by_name():
    with pytest.raises(ps.UnsupportedError, match=r"codec 'numcodecs\.zlib' has no setting 'levle'"):
        testing.encode(items("u1", 4), [{"id": "zlib", "levle": 1}])


def test_the_chain_describes_itself():
    codecs = [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}]
    assert testing.describe(codecs, "<i4", (5,)) == "bytes(little) | delta(int32, astype=int32) | zlib(level=1)"
    assert {"delta", "zlib", "lzma", "packbits"} <= set(testing.codec_names())
