from __future__ import annotations

import importlib.util
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from penstock.view.demo import zarr_python

from . import Peer, Shape, Source


def create_array(path: Path, shape: Shape, dtype: str, chunks: Shape, shards: Shape | None) -> Any:
    """A new array of zarr-python, the same for all of its pipelines."""
    import zarr
    from zarr.codecs import ZstdCodec

    shutil.rmtree(path, ignore_errors=True)
    return zarr.create_array(
        store=str(path),
        shape=shape,
        chunks=chunks,
        shards=shards,
        dtype=dtype,
        compressors=ZstdCodec(level=0),
        fill_value=0,
    )


class ZarrPython(Peer):
    """zarr-python with one of its pipelines."""

    pipeline = ""

    def unavailable(self, source: Source) -> str:
        if not importlib.util.find_spec("zarr"):
            return "not installed"
        return zarr_python.missing(self.pipeline)

    def open(self, source: Source) -> Any:
        import zarr
        from zarr.core.buffer import cpu
        from zarr.storage import MemoryStore

        if isinstance(source, dict):
            store: Any = MemoryStore({key: cpu.Buffer.from_bytes(value) for key, value in source.items()})
        else:
            store = str(source)
        with self.active():
            return zarr.open_array(store, mode="r")

    def create(self, path: Path, shape: Shape, dtype: str, chunks: Shape, shards: Shape | None) -> Any:
        with self.active():
            return create_array(path, shape, dtype, chunks, shards)

    def active(self) -> AbstractContextManager[Any]:
        return zarr_python.configured(zarr_python.PIPELINES[self.pipeline], self.threads)


class Default(ZarrPython):
    name = "zarr-python default"
    pipeline = "default"


class Fused(ZarrPython):
    name = "zarr-python fused"
    pipeline = "fused"
