"""`zfp` of Zarr v3 and numcodecs' `zfpy`: the streams equal those of zfpy, which has its own libzfp."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numcodecs
import numpy as np
import penstock as ps
import pytest
import zarr
from penstock import testing
from penstock.core import codecs
from zarr.codecs import numcodecs as zarr_numcodecs

zfpy = pytest.importorskip("zfpy")

OWN = ("i4", "i8", "f4", "f8")
KINDS = {"i4": zfpy.type_int32, "i8": zfpy.type_int64, "f4": zfpy.type_float, "f8": zfpy.type_double}
SHAPES = ((1,), (4,), (103,), (1, 1), (8, 4), (13, 7), (3, 1, 5), (4, 8, 12), (1, 2, 1, 1), (2, 3, 5, 6), (5, 4, 8, 3))
LIMITS: tuple[tuple[str, dict[str, float]], ...] = (
    ("reversible", {}),
    ("fixed_rate", {"rate": 12.5}),
    ("fixed_rate", {"rate": 64}),
    ("fixed_precision", {"precision": 0}),
    ("fixed_precision", {"precision": 17}),
    ("fixed_accuracy", {"tolerance": 0.0}),
    ("fixed_accuracy", {"tolerance": 0.01}),
)
MATRIX = list(itertools.product(OWN, SHAPES, LIMITS))


def some_values(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Smooth values with noise and a block of zeros."""
    count = int(np.prod(shape))
    random = np.random.default_rng(count)
    values = 1e4 * np.sin(np.arange(count) / 9) + random.normal(size=count)
    values[count // 2 : count // 2 + 40] = 0
    return values.reshape(shape).astype(dtype)


def zfp_codec(mode: str, limit: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "zfp", "configuration": {"mode": mode, **limit}}]


@pytest.mark.parametrize(("dtype", "shape", "limit"), MATRIX)
def test_zfp_has_the_streams_of_zfpy(dtype, shape, limit):
    values, codec = some_values(dtype, shape), zfp_codec(*limit)
    stream = zfpy.compress_numpy(values, write_header=False, **limit[1])
    assert testing.encode(values, codec) == stream
    decoded = testing.decode(stream, codec, dtype, shape)
    np.testing.assert_array_equal(decoded, zfpy._decompress(stream, KINDS[dtype], shape, **limit[1]))
    if limit[0] == "reversible":
        np.testing.assert_array_equal(decoded, values)


@pytest.mark.parametrize(("dtype", "shape", "limit"), MATRIX)
def test_zfpy_has_the_streams_of_numcodecs(dtype, shape, limit):
    values = some_values(dtype, shape)
    number = {"fixed_rate": 2, "fixed_precision": 3, "fixed_accuracy": 4, "reversible": 4}[limit[0]]
    codec = numcodecs.get_codec({"id": "zfpy", "mode": number, **limit[1]})
    stream = codec.encode(values)
    for config in (codec.get_config(), {"name": "numcodecs.zfpy", "configuration": {"mode": number, **limit[1]}}):
        assert testing.encode(values, [config]) == stream
        np.testing.assert_array_equal(testing.decode(stream, [config], dtype, shape), codec.decode(stream))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python_reads_the_output_of_penstock(tmp_path, zarr_format):
    settings = {"mode": 4, "tolerance": 1e-3}
    options: dict[str, Any] = {"compressors": numcodecs.get_codec({"id": "zfpy", **settings})}
    if zarr_format == 3:
        options = {"serializer": zarr_numcodecs.ZFPY(**settings)}
    values = some_values("f8", (37, 21))
    zarr.create_array(tmp_path / "x", shape=values.shape, dtype="f8", chunks=(8, 9), zarr_format=zarr_format, **options)
    ps.open(tmp_path / "x", mode="r+")[...] = values
    theirs = zarr.open_array(tmp_path / "x", mode="r")[...]
    np.testing.assert_allclose(theirs, values, atol=1e-3)
    np.testing.assert_array_equal(ps.open(tmp_path / "x")[...], theirs)
    assert "zfpy(tolerance=0.001)" in ps.open(tmp_path / "x")._codecs_text


def test_zfpy_after_a_filter_has_the_flat_shape_of_numcodecs():
    values = np.arange(24, dtype="<i4").reshape(4, 6)
    delta, codec = numcodecs.Delta("<i4"), numcodecs.get_codec({"id": "zfpy", "mode": 4, "tolerance": -1})
    stream = codec.encode(delta.encode(values))
    configs = [delta.get_config(), codec.get_config()]
    np.testing.assert_array_equal(testing.decode(stream, configs, "<i4", values.shape), values)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
def test_zfp_promotes_small_integers_as_its_functions_do(dtype):
    values = np.linspace(0, 100, 24).reshape(4, 6).astype(dtype)
    bits = 8 * values.dtype.itemsize
    wide = (values.astype("i4") - (1 << bits - 1 if values.dtype.kind == "u" else 0)) << (31 - bits)
    stream = zfpy.compress_numpy(wide, write_header=False)
    codec = zfp_codec("reversible", {})
    assert testing.encode(values, codec) == stream
    np.testing.assert_array_equal(testing.decode(stream, codec, dtype, values.shape), values)


def zfp_store(dtype: str, shape: tuple[int, ...], **settings: object) -> dict[str, bytes]:
    store: dict[str, bytes] = {}
    ps.create_array(store, shape=shape, dtype=dtype, chunks=shape, codecs=[{"name": "zfp", "configuration": settings}])
    return store


@pytest.mark.parametrize("shape", [(20,), (5, 7), (3, 5, 6), (2, 3, 4, 5)])
@pytest.mark.parametrize("dtype", OWN)
def test_zfp_in_expert_mode_equals_the_mode_of_its_parameters(dtype, shape):
    """Source: zfp's manual, "Expert mode": the parameters that the other modes set."""
    values = (np.arange(np.prod(shape)).reshape(shape) * 3.5).astype(dtype)
    most = 16658
    block = 4 ** len(shape)
    cases = [
        ({"minbits": 1, "maxbits": most, "maxprec": 20, "minexp": -1074}, {"precision": 20}),
        ({"minbits": 16 * block, "maxbits": 16 * block, "maxprec": 64, "minexp": -1074}, {"rate": 16}),
        ({"minbits": 1, "maxbits": most, "maxprec": 64, "minexp": -1075}, {}),
        ({"minbits": 1, "maxbits": most, "maxprec": 64, "minexp": -(2**31)}, {}),
    ]
    if dtype[0] == "f":
        cases.append(({"minbits": 1, "maxbits": most, "maxprec": 64, "minexp": -7}, {"tolerance": 2.0**-7}))
    for expert, known in cases:
        store = zfp_store(dtype, shape, mode="expert", **expert)
        ps.open(store, mode="r+")[...] = values
        (key,) = set(store) - {"zarr.json"}
        stream = zfpy.compress_numpy(values, write_header=False, **known)
        assert store[key] == stream
        np.testing.assert_array_equal(ps.open(store)[...], zfpy._decompress(stream, KINDS[dtype], shape, **known))


@pytest.mark.parametrize(
    "dtype",
    ["int2", "uint2", "int4", "uint4", "i1", "u1", "i2", "u2", "float16", "bfloat16", "u4", "u8", "M8[s]", "m8[ms]"],
)
def test_zfp_of_types_that_are_promoted(dtype):
    pytest.importorskip("ml_dtypes")
    store = zfp_store(dtype, (4, 6), mode="reversible")
    kind = ps.open(store).dtype
    limits = {"int2": (-2, 2), "uint2": (0, 4), "int4": (-8, 8), "uint4": (0, 16), "i1": (-128, -104), "u1": (232, 256)}
    lowest, highest = limits.get(dtype, (0, 24))
    values = np.resize(np.arange(lowest, highest), 24).reshape(4, 6)
    values = (values if kind.kind in "mM" else values.astype("f4") if "float" in dtype else values).astype(kind)
    ps.open(store, mode="r+")[...] = values
    np.testing.assert_array_equal(ps.open(store)[...], values)


def test_zfp_refuses_values_beyond_the_signed_types():
    for dtype, most in (("u4", 2**31 - 1), ("u8", 2**63 - 1)):
        store = zfp_store(dtype, (8,), mode="reversible")
        ps.open(store, mode="r+")[...] = most
        assert ps.open(store)[3] == most
        with pytest.raises(ps.InvalidArgumentError, match=f"up to {most} only"):
            ps.open(store, mode="r+")[...] = most + 1


def test_negative_values_decode_to_zero_in_unsigned_types():
    stream = zfpy.compress_numpy(np.arange(-4, 4, dtype="i4"), write_header=False)
    decoded = testing.decode(stream, zfp_codec("reversible", {}), "u4", (8,))
    np.testing.assert_array_equal(decoded, [0, 0, 0, 0, 0, 1, 2, 3])


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "quick"},
        {"mode": "fixed_rate"},
        {"mode": "fixed_rate", "rate": "4"},
        {"mode": "fixed_rate", "rate": 1e30},
        {"mode": "fixed_rate", "rate": float("nan")},
        {"mode": "fixed_accuracy", "tolerance": -1},
        {"mode": "fixed_precision", "precision": 2.5},
        {"mode": "fixed_precision", "precision": -1},
        {"mode": "expert", "minbits": 1, "maxbits": 100, "maxprec": 64},
        {"mode": "expert", "minbits": 2**32, "maxbits": 2**32, "maxprec": 64, "minexp": 0},
        {"mode": "expert", "minbits": 2**31, "maxbits": 2**32 - 1, "maxprec": 64, "minexp": 0},
        {"mode": "expert", "minbits": 100, "maxbits": 10, "maxprec": 64, "minexp": 0},
        {"mode": "expert", "minbits": 1, "maxbits": 10, "maxprec": 0, "minexp": 0},
    ],
)
def test_invalid_zfp_settings_are_refused(settings):
    metadata = json.loads(zfp_store("f4", (4,), mode="reversible")["zarr.json"])
    metadata["codecs"] = [{"name": "zfp", "configuration": settings}]
    with pytest.raises(ps.CorruptDataError, match="codec 'zfp'"):
        ps.open({"zarr.json": json.dumps(metadata).encode()})


@pytest.mark.parametrize("dtype", ["bool", "complex64", "S4"])
def test_types_that_zfp_does_not_support_are_refused(dtype):
    with pytest.raises(ps.UnsupportedError, match="codec 'zfp' does not support"):
        testing.describe(zfp_codec("reversible", {}), dtype, (4,))


@pytest.mark.parametrize(("dtype", "shape"), [("u2", (4,)), ("u4", (4,)), (">f4", (4,)), ("f4", ()), ("f4", (1,) * 5)])
def test_zfpy_accepts_what_numcodecs_accepts(dtype, shape):
    codec = {"id": "zfpy", "mode": 4, "tolerance": 0.1}
    if shape == ():
        assert testing.decode(testing.encode(np.float32(3), [codec]), [codec], "f4", ()) == 3
        return
    with pytest.raises(ps.UnsupportedError, match="zfpy"):
        testing.describe([codec], dtype, shape)
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        numcodecs.get_codec(codec).encode(np.zeros(shape, dtype))


def decodes(stream: bytes, codec: list[dict[str, Any]], dtype: str, shape: tuple[int, ...]) -> bool:
    """Whether these bytes decode. The only error is corrupt data."""
    try:
        return testing.decode(stream, codec, dtype, shape).shape == shape
    except ps.CorruptDataError:
        return False


def test_truncated_streams_are_refused():
    """Except if so little is missing that zeros complete the last blocks."""
    values = some_values("f4", (13, 7))
    for codec in (zfp_codec("reversible", {}), [{"id": "zfpy", "mode": 3, "precision": 20}]):
        whole = testing.encode(values, codec)
        assert decodes(whole, codec, "f4", values.shape)
        for length in range(len(whole) - 48):
            assert not decodes(whole[:length], codec, "f4", values.shape), length
    with pytest.raises(ps.CorruptDataError, match="zfp stream is cut short: has 0 bytes"):
        testing.decode(b"", zfp_codec("fixed_rate", {"rate": 8}), "f4", (4,))


def test_headers_of_other_arrays_are_refused():
    codec = [{"id": "zfpy", "mode": 3, "precision": 20}]
    for dtype, shape in (("f8", (13, 7)), ("i4", (13, 7)), ("f4", (7, 13)), ("f4", (13, 8)), ("f4", (90,))):
        stream = testing.encode(some_values(dtype, shape), codec)
        with pytest.raises(ps.CorruptDataError, match="another type or shape"):
            testing.decode(stream, codec, "f4", (13, 7))
    with pytest.raises(ps.CorruptDataError, match="no header"):
        testing.decode(b"zfq" + bytes(80), codec, "f4", (13, 7))


@pytest.mark.parametrize(
    "expert", [(1, 16658, 64, -1074), (1, 40, 9, -20), (300, 4000, 64, 0), (1, 3, 64, -1074), (0, 1, 64, -2000)]
)
@pytest.mark.parametrize("dtype", OWN)
def test_zfp_in_expert_mode_survives_any_bytes(dtype, expert):
    """If `maxbits` is below a block's header, libzfp's bit count wraps: it writes and reads more than announced."""
    names = ("minbits", "maxbits", "maxprec", "minexp")
    codec = zfp_codec("expert", dict(zip(names, expert, strict=True)))
    values = some_values(dtype, (7, 9))
    whole = testing.encode(values, codec)
    assert testing.decode(whole, codec, dtype, (7, 9)).shape == (7, 9)
    random = np.random.default_rng(0)
    for length in range(0, 600, 7):
        for given in (whole[:length], random.integers(0, 256, length, dtype="u1").tobytes(), b"\xff" * length):
            decodes(given, codec, dtype, (7, 9))


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("dtype", [*OWN, "i2", "u1", "u4"])
def test_the_codec_without_libzfp_is_the_same(dtype, limit):
    values = abs(some_values("f8", (5, 7))).astype(dtype)
    codec = zfp_codec(*limit)
    settings = json.dumps(codec[0]["configuration"])
    stage = codecs.make("zfp", settings, values.dtype, values.shape, allow_pickle=False)
    assert stage is not None
    stream = testing.encode(values, codec)
    assert stage.encode(values) == stream
    assert bytes(stage.decode(stream)) == testing.decode(stream, codec, dtype, values.shape).tobytes()


def test_an_array_without_dimensions_has_one_value():
    store: dict[str, bytes] = {}
    ps.create_array(store, shape=(), dtype="f8", codecs=zfp_codec("reversible", {}))
    ps.open(store, mode="r+")[...] = 2.5
    assert ps.open(store)[...] == 2.5
    assert store["c"] == zfpy.compress_numpy(np.array([2.5]), write_header=False)
