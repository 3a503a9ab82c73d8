"""Codecs of Zarr v3 against zarr-python's: cast_value, scale_offset, and those of numcodecs in v3 spelling."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from penstock import testing
from zarr.codecs import numcodecs as v3

cast_value_rs = pytest.importorskip("cast_value_rs")
scale_offset = pytest.importorskip("zarr.codecs.scale_offset")

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ROUNDINGS = ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def interesting(dtype: str) -> np.ndarray[Any, Any]:
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        values = [info.min, info.min + 1, 0, 1, 2, 3, 127, info.max // 2, info.max // 3, info.max - 1, info.max]
        return np.array(values, dtype)
    halves = np.arange(-6, 7) / 2
    rest = [
        0.1,
        1 / 3,
        -1 / 3,
        100.4999,
        126.5,
        127.49,
        1 + 2**-11,
        1 + 2**-24,
        1 + 2**-10,
        2049.0,
        -2051.0,
        1e-7,
        -6e-8,
    ]
    return np.concatenate([halves, rest]).astype(dtype)


@pytest.mark.parametrize("target", INTEGERS + FLOATS)
@pytest.mark.parametrize("source", INTEGERS + FLOATS)
def test_cast_value_casts_as_zarr_does(source, target):
    modes: list[str | None] = [None, "clamp"] + (["wrap"] if np.dtype(target).kind in "iu" else [])
    for rounding in ROUNDINGS:
        for mode in modes:
            configuration = {"data_type": target, "rounding": rounding}
            if mode:
                configuration["out_of_range"] = mode
            codecs = [{"name": "cast_value", "configuration": configuration}, BYTES]
            for value in interesting(source):
                array = np.array([value], source)
                try:
                    expected = cast_value_rs.cast_array(
                        array, target_dtype=np.dtype(target), rounding_mode=rounding, out_of_range_mode=mode
                    )
                except ValueError:
                    with pytest.raises(ps.InvalidArgumentError, match="cannot hold"):
                        testing.encode(array, codecs)
                    continue
                ours = np.frombuffer(testing.encode(array, codecs), np.dtype(target).newbyteorder("<"))
                np.testing.assert_array_equal(ours, expected, err_msg=f"{value!r} {configuration}")


def test_cast_value_maps_scalars_both_ways():
    configuration = {
        "data_type": "uint8",
        "scalar_map": {"encode": [["NaN", 0], ["Infinity", 255]], "decode": [[0, "NaN"], [255, "Infinity"]]},
    }
    codecs = [{"name": "cast_value", "configuration": configuration}, BYTES]
    array = np.array([1, np.nan, np.inf, 7.0], "f4")
    assert testing.encode(array, codecs) == bytes([1, 0, 255, 7])
    np.testing.assert_array_equal(testing.decode(bytes([1, 0, 255, 7]), codecs, "f4", (4,)), array)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_scale_offset_of_integers_is_exact_or_an_error(dtype):
    array = interesting(dtype)
    kind = np.dtype(dtype).type
    for offset, scale in ((0, 1), (1, 2), (3, 1), (0, 3), (100, 1)):
        codecs = [{"name": "scale_offset", "configuration": {"offset": offset, "scale": scale}}, BYTES]
        for value in array:
            one = np.array([value], dtype)
            exact, info = (int(value) - offset) * scale, np.iinfo(dtype)
            if not info.min <= exact <= info.max:
                with pytest.raises(ps.InvalidArgumentError):
                    testing.encode(one, codecs)
            else:
                expected = scale_offset._encode(one, kind(offset), kind(scale))
                assert testing.encode(one, codecs) == expected.tobytes()
            if int(value) % scale != 0 or not info.min <= int(value) // scale + offset <= info.max:
                with pytest.raises(ps.CorruptDataError):
                    testing.decode(one.tobytes(), codecs, dtype, (1,))
            else:
                expected = scale_offset._decode(one, kind(offset), kind(scale), scale_repr=scale)
                assert testing.decode(one.tobytes(), codecs, dtype, (1,)).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_scale_offset_of_floats_rounds_as_numpy_does(dtype):
    array = (np.random.default_rng(0).standard_normal(1000) * 100).astype(dtype)
    kind = np.dtype(dtype).type
    for offset, scale in ((0, 1), (1.5, 0.1), (-3, 7)):
        codecs = [{"name": "scale_offset", "configuration": {"offset": offset, "scale": scale}}, BYTES]
        expected = scale_offset._encode(array, kind(offset), kind(scale))
        assert testing.encode(array, codecs) == expected.tobytes()
        back = scale_offset._decode(expected, kind(offset), kind(scale), scale_repr=scale)
        assert testing.decode(expected.tobytes(), codecs, dtype, array.shape).tobytes() == back.tobytes()


COMPRESSORS = st.sampled_from(
    [
        v3.Zlib(level=1),
        v3.LZ4(),
        v3.BZ2(level=1),
        v3.LZMA(preset=1),
        v3.Zstd(level=3),
        v3.GZip(level=2),
        v3.Blosc(cname="lz4", shuffle=1),
        v3.Shuffle(elementsize=4),
        v3.CRC32(),
        v3.CRC32C(),
        v3.Adler32(),
        v3.Fletcher32(),
        v3.JenkinsLookup3(),
        zarr.codecs.ZstdCodec(level=1),
        zarr.codecs.Crc32cCodec(),
        zarr.codecs.GzipCodec(level=1),
    ]
)
FILTERS = st.sampled_from(
    [
        [],
        [v3.Delta(dtype="<i4")],
        [v3.Delta(dtype="<i4", astype="<i8")],
        [v3.AsType(encode_dtype="<i2", decode_dtype="<i4"), v3.Delta(dtype="<i2")],
        [v3.FixedScaleOffset(offset=3, scale=2, dtype="<i4", astype="<i8")],
        [zarr.codecs.TransposeCodec(order=(1, 0)), v3.Delta(dtype="<i4")],
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    filters=FILTERS,
    compressors=st.lists(COMPRESSORS, max_size=3),
    shape=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    chunks=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 1000),
)
def test_chains_that_zarr_python_wrote_read(filters, compressors, shape, chunks, seed):
    values: dict[str, Any] = {}
    array = np.random.default_rng(seed).integers(-1000, 1000, shape, "i4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = zarr.create_array(
            zarr.storage.MemoryStore(values),
            shape=shape,
            chunks=chunks,
            dtype="int32",
            filters=filters,
            compressors=compressors,
        )
        try:
            written[:] = array
        except ValueError:  # a byte shuffle whose size is not a multiple of its items
            assume(False)
    np.testing.assert_array_equal(ps.open(values)[:], array)
