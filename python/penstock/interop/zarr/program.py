"""Chunks of a zarr-python array, compiled for the engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.errors import Error
from penstock.core.sizes import counted


class Program:
    """The codecs of an array, compiled for one chunk shape; or the reason why they cannot be."""

    __slots__ = ("core", "dtype", "native", "reason", "write_reason")

    def __init__(self, core: _core.ChunkPipeline | None, dtype: np.dtype[Any] | None, reason: str) -> None:
        self.core, self.dtype, self.reason = core, dtype, reason
        self.native = dtype is not None and dtype.isnative
        """Whether the array in memory has the machine's byte order, which is the engine's."""
        self.write_reason = reason
        """Why writes take another path; empty if they do not."""


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "value"):  # an enumeration
        return value.value
    raise TypeError(f"{type(value).__name__} is not JSON")


def foreign_codec(codecs: Iterable[Any]) -> str | None:
    """The first codec whose code is not zarr-python's or numcodecs' own: its name does not identify its bytes."""
    for codec in codecs:
        kind = type(codec)
        if kind.__module__.split(".")[0] not in ("zarr", "numcodecs") or kind.__module__.startswith("zarr.testing"):
            return f"codec {kind.__qualname__} is not one of zarr-python's"
        inner = [each for name in ("codecs", "index_codecs", "filters") for each in getattr(codec, name, None) or ()]
        inner += filter(None, [getattr(codec, "compressor", None)])  # of Zarr v2
        found = foreign_codec(inner) if inner else None
        if found:
            return found
    return None


def chunk_order(codecs: Iterable[Any]) -> Any:
    """The order of chunks within shards that a user chose; zarr-python's default is "morton"."""
    for codec in codecs:
        order = getattr(codec, "subchunk_write_order", None)
        inner = chunk_order(getattr(codec, "codecs", None) or ())
        if order is not None:
            return inner if order == "morton" and inner is not None else order
    return None


def exact_fill(value: Any, encoded: Any) -> Any:
    """The JSON of a fill value in which NaNs have their bits. `encoded` is zarr-python's, which has one NaN only."""
    if isinstance(encoded, Mapping):
        return {name: exact_fill(value[name], part) for name, part in encoded.items()}
    if isinstance(encoded, list | tuple) and isinstance(value, np.complexfloating):
        return [exact_fill(part, text) for part, text in zip((value.real, value.imag), encoded, strict=True)]
    if isinstance(encoded, str) and isinstance(value, np.floating) and np.isnan(value):
        bits = value.tobytes()
        if bits != type(value)("nan").tobytes():
            return f"0x{int.from_bytes(bits, sys.byteorder):0{2 * len(bits)}x}"
    return encoded


def _document(codecs: tuple[Any, ...], spec: Any) -> dict[str, Any]:
    """zarr.json of an array that is one chunk."""
    fill = spec.fill_value if spec.fill_value is not None else spec.dtype.default_scalar()
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(spec.shape),
        "data_type": spec.dtype.to_json(zarr_format=3),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(spec.shape)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": exact_fill(fill, spec.dtype.to_json_scalar(fill, zarr_format=3)),
        "codecs": [codec if isinstance(codec, dict) else codec.to_dict() for codec in codecs],
    }


def _v2_document(codec: Any, spec: Any) -> dict[str, Any]:
    """.zarray of a Zarr v2 array that is one chunk."""
    fill = spec.fill_value if spec.fill_value is not None else spec.dtype.default_scalar()
    return {
        "zarr_format": 2,
        "shape": list(spec.shape),
        "chunks": list(spec.shape),
        "dtype": spec.dtype.to_json(zarr_format=2)["name"],
        "fill_value": exact_fill(fill, spec.dtype.to_json_scalar(fill, zarr_format=2)),
        "order": spec.order,
        "filters": [each.get_config() for each in codec.filters or ()] or None,
        "compressor": codec.compressor.get_config() if codec.compressor is not None else None,
    }


def compile_program(codecs: tuple[Any, ...], spec: Any) -> Program:
    """The program for chunks of `spec`; it has the reason if C++ cannot process them."""
    dtype: np.dtype[Any] = spec.dtype.to_native_dtype()
    foreign = foreign_codec(codecs)
    if foreign:
        return Program(None, dtype, foreign)
    v2 = codecs[0] if len(codecs) == 1 and type(codecs[0]).__name__ == "V2Codec" else None
    if dtype.hasobject or dtype.kind == "T":
        return Program(None, dtype, f"items of variable length: {spec.dtype}")
    try:
        document = json.dumps(_document(codecs, spec) if v2 is None else _v2_document(v2, spec), default=_plain)
        core = _core.ChunkPipeline(document)
    except Error as error:
        return Program(None, dtype, f"{error.code}: {error.message or str(error).splitlines()[0]}")
    except (TypeError, ValueError, NotImplementedError) as error:
        return Program(None, dtype, f"its metadata cannot be written as JSON: {error}")
    if core.item_bytes != dtype.itemsize:
        return Program(
            None, dtype, f"NumPy's {dtype} takes {counted(dtype.itemsize, 'byte')}, the engine's {core.item_bytes}"
        )
    program = Program(core, dtype, "")
    order = chunk_order(codecs)
    if order not in (None, "morton"):
        program.write_reason = f"chunks are to lie in {order} order within their shard"
    return program


EXPORTED = frozenset("?bBhHiIlLqQefdFDSUV")


def exported(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory with a dtype that buffer objects support."""
    if array.dtype.char in EXPORTED:
        return array
    return array.view(np.dtype((np.void, array.dtype.itemsize)))
