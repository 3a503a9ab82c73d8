"""Arrays that one library writes and the others read: Penstock, zarr-python, tensorstore and zarrs-python.

Types, codecs, shards, orders, byte orders, fill values and selections are random. A failure names the writer and the
reader. A peer takes part if it supports the type and the codecs; zarr-python always does.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import ZARR_VERSION
from hypothesis import given, settings
from hypothesis import strategies as st

HAS_TENSORSTORE = importlib.util.find_spec("tensorstore") is not None
HAS_ZARRS = importlib.util.find_spec("zarrs") is not None
HAS_CASTS = importlib.util.find_spec("cast_value_rs") is not None and ZARR_VERSION >= (3, 4)

NUMBERS = ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
TEXTS = ["string", "<U5", "|S7", "datetime64[ms]", "timedelta64[10s]"]


@dataclass(frozen=True)
class Case:
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    dtype: str
    codecs: list[dict[str, Any]]  # after the array-to-bytes codec
    transpose: tuple[int, ...] | None
    big_endian: bool
    fill: float
    zarr_format: int
    seed: int
    filter: dict[str, Any] | None = None  # on items, within shards

    @property
    def numeric(self) -> bool:
        return self.dtype in NUMBERS

    def chain(self) -> list[dict[str, Any]]:
        """The codecs of a chunk as v3 metadata spells them."""
        chain: list[dict[str, Any]] = [] if self.filter is None else [self.filter]
        if self.transpose is not None:
            chain.append({"name": "transpose", "configuration": {"order": list(self.transpose)}})
        if self.dtype == "string":
            chain.append({"name": "vlen-utf8"})
        else:
            chain.append({"name": "bytes", "configuration": {"endian": "big" if self.big_endian else "little"}})
        item_bytes = 1 if self.dtype == "string" else np.dtype(self.dtype).itemsize
        for codec in self.codecs:
            if codec["name"] == "blosc":
                codec = {**codec, "configuration": {**codec["configuration"], "typesize": item_bytes}}
            chain.append(codec)
        return chain

    def values(self) -> np.ndarray:
        random = np.random.default_rng(self.seed)
        count = int(np.prod(self.shape))
        if self.dtype == "string":
            words = ["", "a", "grün", "x" * 40, "日本", "plain"]
            return np.array([words[i] for i in random.integers(0, len(words), count)], dtype=object).reshape(self.shape)
        if self.dtype == "<U5":
            return np.array([str(i) for i in random.integers(0, 99999, count)], dtype="<U5").reshape(self.shape)
        if self.dtype == "|S7":
            return np.array([str(i).encode() for i in random.integers(0, 99999, count)], dtype="|S7").reshape(
                self.shape
            )
        if self.dtype.startswith(("datetime64", "timedelta64")):
            return random.integers(-(10**9), 10**9, self.shape).astype("<i8").view(self.dtype)
        values = random.integers(0, 100, self.shape)
        return (values % 2 == 0) if self.dtype == "bool" else values.astype(self.dtype)

    def fill_value(self) -> Any:
        if self.dtype == "string":
            return "fill" if self.fill else ""
        if self.dtype == "<U5":
            return "fill" if self.fill else ""
        if self.dtype == "|S7":
            return b"fill" if self.fill else b""
        if self.dtype.startswith(("datetime64", "timedelta64")):
            return np.array(self.fill, dtype="<i8").view(self.dtype)[()]
        return bool(self.fill % 2) if self.dtype == "bool" else np.dtype(self.dtype).type(self.fill)


BYTE_CODECS = [
    {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
    {"name": "zstd", "configuration": {"level": 3, "checksum": True}},
    {"name": "gzip", "configuration": {"level": 5}},
    {"name": "crc32c"},
    {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}},
    {"name": "blosc", "configuration": {"cname": "zstd", "clevel": 1, "shuffle": "bitshuffle", "blocksize": 0}},
]


SPECIAL_FILLS = {"f": [float("nan"), float("inf"), -float("inf"), -0.5], "c": [float("nan")], "i": [-1]}


def item_filters(dtype: str) -> list[dict[str, Any]]:
    """Codecs that change items or their type, and that are lossless for small whole numbers."""
    kind = np.dtype(dtype)
    made: list[dict[str, Any]] = []
    if kind.kind in "iuf":
        made.append({"name": "numcodecs.delta", "configuration": {"dtype": kind.str}})
    if kind.kind == "f" and HAS_CASTS:
        made.append({"name": "scale_offset", "configuration": {"offset": 5, "scale": 2}})
    if kind.kind in "iuf" and kind.itemsize <= 4 and HAS_CASTS:
        made.append({"name": "cast_value", "configuration": {"data_type": "float64"}})
    return made


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    chunks = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    shape = tuple(draw(st.integers(1, 13)) for _ in range(rank))
    shards = None
    zarr_format = draw(st.sampled_from([2, 3, 3, 3]))
    if zarr_format == 3 and draw(st.booleans()):
        shards = tuple(chunk * draw(st.integers(1, 3)) for chunk in chunks)
    dtype = draw(st.sampled_from(NUMBERS + TEXTS))
    codecs = draw(st.lists(st.sampled_from(BYTE_CODECS), max_size=2))
    transpose = None
    if draw(st.booleans()) and dtype != "string":
        transpose = tuple(draw(st.permutations(range(rank))))
    if zarr_format == 2:
        codecs = [codec for codec in codecs if codec["name"] in ("zstd", "gzip", "blosc")][:1]
        transpose = None if transpose is None else tuple(reversed(range(rank)))
    kind = np.dtype(dtype).kind if dtype in NUMBERS else ""
    fill = draw(st.sampled_from([0, 0, 1, 7, *SPECIAL_FILLS.get(kind, [])]))
    item_filter = None
    if zarr_format == 3 and kind and not np.isinf(fill) and draw(st.booleans()):
        # zarr-python's delta needs items in one dimension, and a NaN changes the sums of all later items.
        no_delta = transpose is not None or np.isnan(fill)
        known = [each for each in item_filters(dtype) if each["name"] != "numcodecs.delta" or not no_delta]
        # cast_value_rs 0.5 panics if items are not at a multiple of their size, as in a shard of raw chunks.
        if shards is not None and all(codec["name"] == "crc32c" for codec in codecs):
            known = [each for each in known if each["name"] != "cast_value"]
        item_filter = draw(st.sampled_from([None, *known]))
    big_endian = draw(st.booleans()) and dtype != "string"
    if item_filter is not None and ZARR_VERSION < (3, 2):
        big_endian = False  # its filters treated swapped items as native
    return Case(
        shape,
        chunks,
        shards,
        dtype,
        codecs,
        transpose,
        big_endian,
        fill,
        zarr_format,
        draw(st.integers(0, 2**32 - 1)),
        item_filter,
    )


def numpy_dtype(case: Case) -> Any:
    if case.dtype == "string":
        return "string"
    made = np.dtype(case.dtype)
    return made.newbyteorder(">") if case.zarr_format == 2 and case.big_endian else made


def v2_compressor(case: Case) -> Any:
    import numcodecs

    if not case.codecs:
        return None
    name, settings_ = case.codecs[0]["name"], dict(case.codecs[0].get("configuration", {}))
    if name == "blosc":
        shuffles = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
        return numcodecs.Blosc(settings_["cname"], settings_["clevel"], shuffles[settings_["shuffle"]])
    return numcodecs.get_codec({"id": name, **settings_})


def zarr_codecs(case: Case) -> dict[str, Any]:
    from zarr.registry import get_codec_class

    made = [get_codec_class(codec["name"]).from_dict(codec) for codec in case.chain()]
    split = (case.transpose is not None) + (case.filter is not None)
    return {"filters": made[:split], "serializer": made[split], "compressors": made[split + 1 :]}


def write_by_zarr(case: Case, path: Path) -> Any:
    options: dict[str, Any] = {"shape": case.shape, "chunks": case.chunks, "fill_value": case.fill_value()}
    if case.zarr_format == 2:
        return zarr.create_array(
            str(path),
            zarr_format=2,
            dtype=numpy_dtype(case),
            compressors=v2_compressor(case),
            order="F" if case.transpose is not None else "C",
            **options,
        )
    return zarr.create_array(str(path), dtype=numpy_dtype(case), shards=case.shards, **zarr_codecs(case), **options)


def write_by_penstock(case: Case, path: Path) -> Any:
    options: dict[str, Any] = {"shape": case.shape, "chunks": case.chunks, "fill_value": case.fill_value()}
    if case.zarr_format == 2:
        return ps.create_array(
            str(path),
            zarr_format=2,
            dtype=numpy_dtype(case),
            compressors=v2_compressor(case),
            order="F" if case.transpose is not None else "C",
            **options,
        )
    return ps.create_array(str(path), dtype=numpy_dtype(case), shards=case.shards, codecs=case.chain(), **options)


def tensorstore_of(path: Path, case: Case) -> Any:
    import tensorstore as ts

    driver = "zarr3" if case.zarr_format == 3 else "zarr"
    return ts.open({"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}).result()


def tensorstore_reads(case: Case) -> bool:
    # Its driver for version 2 refuses the zstd settings that numcodecs writes.
    refused = case.zarr_format == 2 and (case.fill or any(codec["name"] == "zstd" for codec in case.codecs))
    return HAS_TENSORSTORE and case.numeric and not refused and case.filter is None


def zarrs_reads(case: Case) -> bool:
    # zarrs reads parts of blosc frames by the item size in the settings, which nested frames do not have.
    nested = [codec["name"] for codec in case.codecs[1:]]
    plain = case.numeric and not case.big_endian and case.filter is None
    return HAS_ZARRS and plain and case.zarr_format == 3 and "blosc" not in nested


def read_by_zarrs(path: Path) -> np.ndarray:
    import zarrs  # noqa: F401

    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        return np.asarray(zarr.open_array(str(path), mode="r")[...])


def equal(got: Any, want: np.ndarray) -> bool:
    got = np.asarray(got)
    if got.shape != want.shape:
        return False
    if want.dtype == object:
        return bool(np.all(got.astype(object) == want)) if want.size else True
    return bool(np.array_equal(got, want, equal_nan=want.dtype.kind in "fc"))


def boxes(case: Case) -> list[tuple[slice, ...]]:
    """All, a corner, and every other element: boxes that are written one over the other."""
    return [
        tuple(slice(None) for _ in case.shape),
        tuple(slice(0, (n + 1) // 2) for n in case.shape),
        tuple(slice(n // 3, None, 2) for n in case.shape),
    ]


def check_readers(case: Case, path: Path, want: np.ndarray, who: str) -> None:
    readers: dict[str, Callable[[], Any]] = {
        "penstock": lambda: ps.open(str(path))[...],
        "zarr-python": lambda: zarr.open_array(str(path), mode="r")[...],
    }
    if tensorstore_reads(case):
        readers["tensorstore"] = lambda: tensorstore_of(path, case).read().result()
    if zarrs_reads(case):
        readers["zarrs-python"] = lambda: read_by_zarrs(path)
    for reader, read in readers.items():
        got = read()
        assert equal(got, want), f"{reader} reads otherwise than {who} wrote: {got!r} != {want!r}"


@pytest.mark.parametrize("writer", ["penstock", "zarr-python"])
@settings(max_examples=120)
@given(case=cases(), parts=st.lists(st.integers(0, 2), min_size=1, max_size=3))
def test_arrays_of_one_library_are_read_by_all(writer: str, case: Case, parts: list[int]) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "a.zarr"
        array = (write_by_penstock if writer == "penstock" else write_by_zarr)(case, path)
        values = case.values()
        want = np.full(case.shape, case.fill_value(), dtype=values.dtype)
        for part in parts:
            box = boxes(case)[part]
            array[box] = values[box]
            want[box] = values[box]
        check_readers(case, path, want, writer)
        # Then the other library changes a part of what the first one wrote.
        other = zarr.open_array(str(path), mode="r+") if writer == "penstock" else ps.open(str(path))
        box = boxes(case)[2]
        other[box] = values[box]
        want[box] = values[box]
        check_readers(case, path, want, "the other")
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(not HAS_ZARRS, reason="zarrs is not installed")
@settings(max_examples=40)
@given(case=cases().filter(zarrs_reads))
def test_arrays_of_zarrs_are_read_and_changed(case: Case) -> None:
    import zarrs  # noqa: F401

    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "a.zarr"
        values = case.values()
        with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
            write_by_zarr(case, path)[...] = values
        assert equal(ps.open(str(path))[...], values)
        box = boxes(case)[2]
        changed = np.flip(values)
        ps.open(str(path))[box] = changed[box]
        values[box] = changed[box]
        check_readers(case, path, values, "penstock over zarrs")
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(not HAS_TENSORSTORE, reason="tensorstore is not installed")
@settings(max_examples=40)
@given(case=cases().filter(lambda case: case.numeric and case.zarr_format == 3 and case.filter is None))
def test_arrays_of_tensorstore_are_read_and_changed(case: Case) -> None:
    import tensorstore as ts

    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "a.zarr"
        codecs = case.chain()
        if case.shards is not None:
            codecs = [
                {
                    "name": "sharding_indexed",
                    "configuration": {
                        "chunk_shape": case.chunks,
                        "codecs": codecs,
                        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
                    },
                }
            ]
        metadata = {
            "shape": case.shape,
            "data_type": case.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": case.shards or case.chunks}},
            "codecs": codecs,
        }
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}, "metadata": metadata}
        try:
            array = ts.open(spec, create=True).result()
        except ValueError as refused:
            pytest.skip(f"tensorstore refuses it: {str(refused)[:100]}")
        values = case.values()
        array[...] = values
        assert equal(ps.open(str(path))[...], values)
        box = boxes(case)[2]
        changed = np.flip(values)
        ps.open(str(path))[box] = changed[box]
        values[box] = changed[box]
        check_readers(case, path, values, "penstock over tensorstore")
    finally:
        shutil.rmtree(folder)
