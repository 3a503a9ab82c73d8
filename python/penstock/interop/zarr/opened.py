"""An array of zarr-python that the engine has opened: what it reads and writes without code of zarr-python."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.config import config

from penstock import _core
from penstock.core.errors import Error
from penstock.interop.zarr.pipeline import CodecPipeline
from penstock.interop.zarr.program import EXPORTED, chunk_order, exact_fill, foreign_codec
from penstock.interop.zarr.route import Route
from penstock.interop.zarr.settings import current_context

_NOTHING = nullcontext()
_PLAIN_BUFFERS = ("zarr.buffer.cpu.Buffer", "zarr.buffer.cpu.NDBuffer")


def plain_buffers() -> bool:
    """Whether arrays are created in host memory: they are unless other buffers are configured."""
    values = config.config
    return (values.get("buffer"), values.get("ndbuffer")) == _PLAIN_BUFFERS


def _with_exact_fill(document: str, fill: Any) -> str:
    """The same document with the bits of a NaN that is the fill value."""
    if "NaN" not in document:
        return document
    members = json.loads(document)
    exact = exact_fill(fill, members["fill_value"])
    return document if exact == members["fill_value"] else json.dumps({**members, "fill_value": exact})


class OpenedArray:
    """One array, opened by the engine; valid as long as its metadata and its store do not change."""

    __slots__ = (
        "array",
        "drives",
        "dtype",
        "keeps_empty",
        "metadata",
        "native",
        "order",
        "plain",
        "reason",
        "route",
        "threads",
        "writes",
    )

    def __init__(self, async_array: Any) -> None:
        self.metadata = async_array.metadata
        pipeline, store = async_array.codec_pipeline, async_array.store_path.store
        # With the pipeline: what one learns of the store's calls is known to the other.
        self.route = pipeline._route(store) if isinstance(pipeline, CodecPipeline) else Route(store)
        self.array: _core.Array | None = None
        self.threads = 0 if self.route.path == "native" else 1
        self.drives = (
            self.route.path != "async"
            and issubclass(type(store), Store)
            and isinstance(pipeline, CodecPipeline)
            and getattr(pipeline, "sync_transform", None) is not None
        )
        self.dtype: np.dtype[Any] = self.metadata.dtype.to_native_dtype()
        self.native = self.dtype if self.dtype.kind == "T" else self.dtype.newbyteorder("=")
        self.keeps_empty = async_array.config.write_empty_chunks
        self.order = self.metadata.order if self.metadata.zarr_format == 2 else async_array.config.order
        self.plain = self.order == "C" and self.dtype.isnative
        """Whether the engine's elements have the order and bytes of zarr-python's."""
        self.reason = self._open(async_array)
        self.writes = self._may_write(async_array)

    @property
    def reads(self) -> bool:
        """Whether plain reads need no code of zarr-python. The pipeline reads from stores that wait."""
        return self.array is not None and not self.route.waits

    def reading(self) -> AbstractContextManager[None]:
        """Within it, a read fails if it needs a further request of a store that waits: the pipeline overlaps them."""
        return self.route.leaving() if self.route.path == "sync" else _NOTHING

    def _may_write(self, async_array: Any) -> bool:
        """Whether plain writes need no code of zarr-python."""
        pipeline, store = async_array.codec_pipeline, async_array.store_path.store
        return (
            self.array is not None
            and (self.route.values is not None or self.route.native_writes)
            and not store.read_only
            and getattr(self.metadata, "_stored_document", None) is None
            and (self.dtype.char in EXPORTED or self.dtype.kind == "T")
            and isinstance(pipeline, CodecPipeline)
            and chunk_order(tuple(pipeline)) in (None, "morton")
        )

    def serves(self, async_array: Any) -> bool:
        return async_array.metadata is self.metadata and self.route.serves(async_array.store_path.store)

    def _open(self, async_array: Any) -> str:
        """Open the array, or return the reason why it cannot be opened."""
        metadata = self.metadata
        if self.route.core is None:
            return self.route.reason
        if not issubclass(type(self.route.store), Store):
            return f"{type(self.route.store).__name__} is not a zarr.abc.store.Store"
        if metadata.zarr_format == 2:
            codecs = [*(metadata.filters or ()), *filter(None, [metadata.compressor])]
        else:
            codecs = list(metadata.codecs)
        foreign = foreign_codec(codecs)
        if foreign:
            return foreign
        if not getattr(async_array.config, "read_missing_chunks", True):
            return "missing chunks are to be errors"
        dtype = self.dtype
        if dtype.hasobject and dtype.kind != "T":
            return f"items that are Python objects: {metadata.dtype}"
        try:
            documents = {
                name: value.to_bytes().decode()
                for name, value in metadata.to_buffer_dict(default_buffer_prototype()).items()
            }
            main = ".zarray" if metadata.zarr_format == 2 else "zarr.json"
            documents[main] = _with_exact_fill(documents[main], metadata.fill_value)
            path = os.fsencode(async_array.store_path.path)
            # As zarr-python's shards; see `batch.keeping_edges`.
            keeps = bool(getattr(async_array.codec_pipeline, "supports_partial_encode", False))
            self.array = _core.open_described(self.route.core, current_context(), path, documents, keeps)
        except Error as error:
            return f"{error.code}: {error.message or str(error).splitlines()[0]}"
        except Exception as error:  # zarr-python refuses to serialise it
            return f"its metadata cannot be written as JSON: {error}"
        if self.array.dtype != self.native:
            reason = f"its arrays in memory have dtype {dtype}, the engine makes {self.array.dtype}"
            self.array = None
            return reason
        return ""
