"""Chunks that consist of the fill value are not stored: every way of writing omits the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from penstock.core.data_types import NAMED_TYPES
from zarr.storage import MemoryStore

CHUNK, CHUNKS = 4, 8


def nan_bits(kind: str) -> list[int]:
    return {
        "f2": [0x7E00, 0xFE00, 0x7C01, 0xFFFF],
        "f4": [0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF],
        "f8": [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF],
    }[kind]


def floats(kind: str) -> np.ndarray:
    bits = np.array(nan_bits(kind), dtype=f"u{kind[1]}").view(kind)
    return np.concatenate([bits, np.array([0.0, -0.0, 1.5, np.inf, -np.inf], dtype=kind)])


def items(dtype: np.dtype) -> np.ndarray:
    """Values that are easily mistaken for each other."""
    if dtype.kind == "f":
        return floats(dtype.str[1:])
    if dtype.kind == "c":
        parts = floats(f"f{dtype.itemsize // 2}")[[0, 1, 4, 5, 6]]
        out = np.empty(len(parts) ** 2, dtype)
        out.real, out.imag = np.repeat(parts, len(parts)), np.tile(parts, len(parts))
        return out
    if dtype.kind in "mM":
        return np.array([0, 1, np.iinfo(np.int64).min], dtype="i8").view(dtype)
    if dtype.kind == "S":
        return np.array([b"", b"a", b"ab", b"\0a"], dtype)
    if dtype.kind == "U":
        return np.array(["", "a", "ab", "é"], dtype)
    if dtype.kind == "V":
        out = np.zeros(3, dtype)
        out["x"], out["y"] = [0, 1, 0], [0.0, 0.0, -0.0]
        return out
    return np.array([0, 1], dtype)


DTYPES = ["?", "i1", "u2", "<i4", ">u4", "i8", "f2", "<f4", ">f4", "f8", "c8", "c16", "M8[s]", "m8[ms]", "S3", "<U2"]
DTYPES_AND_STRUCTURES: list[Any] = [*DTYPES, [("x", "<i4"), ("y", "<f4")]]


def keys_of(store: dict[str, Any]) -> set[str]:
    return {key for key in store if "zarr.json" not in key}


def canonical(values: np.ndarray) -> bytes:
    """The reference: values are equal if their bits are; all NaNs are equal, also in each part of a complex number."""
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("=")))
    parts = little.view(f"f{little.itemsize // 2}") if little.dtype.kind == "c" else little
    if parts.dtype.kind == "f":
        parts = np.where(np.isnan(parts), np.array(np.nan, parts.dtype), parts)
    return parts.tobytes()


@pytest.mark.parametrize("dtype", DTYPES_AND_STRUCTURES, ids=str)
def test_every_way_of_writing_omits_the_same_chunks(dtype):
    dtype = np.dtype(dtype)
    native = dtype.newbyteorder("=")
    random = np.random.default_rng(7)
    pool = items(native)
    for _ in range(12):
        fill = pool[random.integers(len(pool))]
        values = np.empty(CHUNK * CHUNKS, native)
        for chunk in range(CHUNKS):
            some = random.integers(0, len(pool), CHUNK if chunk % 2 else 1)
            values[chunk * CHUNK : (chunk + 1) * CHUNK] = fill if chunk == 0 else pool[some]
        parts = values.reshape(CHUNKS, CHUNK)
        stored = {f"c/{i}" for i in range(CHUNKS) if canonical(parts[i]) != canonical(np.full(CHUNK, fill, native))}
        options: dict[str, Any] = {"shape": values.shape, "dtype": dtype, "chunks": (CHUNK,), "fill_value": fill}

        plain: dict[str, Any] = {}
        ps.create_array(plain, **options)[...] = values
        assert keys_of(plain) == stored

        parts_first: dict[str, Any] = {}
        merged = ps.create_array(parts_first, **options)
        merged[...] = pool[(np.arange(values.size) * 5) % len(pool)]
        merged[1:] = values[1:]
        merged[:1] = values[:1]
        assert keys_of(parts_first) == stored

        sharded: dict[str, Any] = {}
        in_shards = ps.create_array(sharded, **options, shards=(2 * CHUNK,))
        in_shards[...] = values
        assert keys_of(sharded) == {f"c/{i}" for i in range(CHUNKS // 2) if {f"c/{2 * i}", f"c/{2 * i + 1}"} & stored}

        if dtype.byteorder == ">":
            continue  # in zarr-python's arrays, the codec sets the byte order
        found = {}
        for name, pipeline in (("ours", "penstock.zarr.CodecPipeline"), ("theirs", "BatchedCodecPipeline")):
            path = pipeline if name == "ours" else f"zarr.core.codec_pipeline.{pipeline}"
            store = MemoryStore()
            with zarr.config.set({"codec_pipeline.path": path}):
                made = zarr.create_array(store, **options, compressors=None)
                made[...] = values
            found[name] = keys_of(store._store_dict)
        assert found["ours"] == stored
        if dtype.kind not in "cV":  # zarr-python compares zeros of both signs as equal for these, and loses the sign
            assert found["theirs"] == stored


WIDTHS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}


@pytest.mark.parametrize("name", [*NAMED_TYPES, "str"])
def test_small_numbers_and_text_omit_the_same_chunks(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    random = np.random.default_rng(11)
    if name == "str":
        pool = np.array(["", "a", "ab", "é", "\0", "a" * 300], object)
        given: Any = "str"
    else:
        given = np.dtype(getattr(ml_dtypes, name))
        bits = np.arange(2 ** WIDTHS.get(name, 8), dtype="u2" if given.itemsize == 2 else "u1")
        if given.itemsize == 2:  # zeros of both signs, numbers, infinities, NaN of both signs and payloads
            bits = np.array([0, 0x8000, 1, 0x3FC0, 0x7F80, 0xFF80, 0x7FC0, 0xFFC0, 0x7F81, 0xFFFF], "u2")
        pool = bits.view(given)

    def same(one: Any, other: Any) -> bool:
        if name == "str" or "int" in name:
            return bool(one == other)
        both = np.isnan(np.float32(one)) and np.isnan(np.float32(other))
        return bool(both or np.asarray(one).tobytes() == np.asarray(other).tobytes())

    for _ in range(12):
        fill = pool[random.integers(len(pool))]
        values = pool[random.integers(0, len(pool), CHUNK * CHUNKS)]
        values[:CHUNK] = fill
        nans = [each for each in pool if same(each, fill)]
        values[CHUNK : 2 * CHUNK] = [nans[i % len(nans)] for i in range(CHUNK)]
        parts = values.reshape(CHUNKS, CHUNK)
        stored = {f"c/{i}" for i in range(CHUNKS) if not all(same(each, fill) for each in parts[i])}
        options: dict[str, Any] = {"shape": values.shape, "dtype": given, "chunks": (CHUNK,), "fill_value": fill}

        plain: dict[str, Any] = {}
        ps.create_array(plain, **options)[...] = values
        assert keys_of(plain) == stored

        parts_first: dict[str, Any] = {}
        merged = ps.create_array(parts_first, **options)
        merged[...] = pool[(np.arange(values.size) * 5) % len(pool)]
        merged[1:] = values[1:]
        merged[:1] = values[:1]
        assert keys_of(parts_first) == stored

        sharded: dict[str, Any] = {}
        ps.create_array(sharded, **options, shards=(2 * CHUNK,))[...] = values
        assert keys_of(sharded) == {f"c/{i}" for i in range(CHUNKS // 2) if {f"c/{2 * i}", f"c/{2 * i + 1}"} & stored}

        appended: dict[str, Any] = {}
        with ps.create_array(appended, **{**options, "shape": (0,)}).appender() as w:
            for part in np.split(values, [3, 4, 17]):
                w.append(part)
        assert keys_of(appended) == stored


@pytest.mark.parametrize("name", ["int2", "int4"])
def test_fill_values_below_zero(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name))
    for fill in (-2, dtype.type(-2)):
        store: dict[str, Any] = {}
        a = ps.create_array(store, shape=(6,), dtype=dtype, chunks=(2,), fill_value=fill)
        a[:3] = np.array([1, -2, -1]).astype(dtype)
        assert ps.open(store)[...].astype(int).tolist() == [1, -2, -1, -2, -2, -2]
        assert int(a.fill_value) == -2
