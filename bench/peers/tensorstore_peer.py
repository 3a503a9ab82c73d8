"""tensorstore with both of its thread limits set, and its other defaults: no cache, so each read decodes."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

from . import Peer, Shape, Source


class TensorStore(Peer):
    name = "tensorstore"
    flushes = True  # its default: a write waits until the disk has the file

    def unavailable(self, source: Source) -> str:
        return "" if importlib.util.find_spec("tensorstore") else "not installed"

    def context(self) -> Any:
        import tensorstore as ts

        return ts.Context(
            {
                "data_copy_concurrency": {"limit": self.threads},
                "file_io_concurrency": {"limit": self.threads},
                "file_io_sync": self.flushes,
            }
        )

    def create(self, path: Path, shape: Shape, dtype: str, chunks: Shape, shards: Shape | None) -> Any:
        import tensorstore as ts

        shutil.rmtree(path, ignore_errors=True)
        layout = {"read_chunk": {"shape": chunks}, "write_chunk": {"shape": shards or chunks}}
        codecs = [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 0}}]
        if shards:
            codecs = [{"name": "sharding_indexed", "configuration": {"chunk_shape": chunks, "codecs": codecs}}]
        array = ts.open(
            {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}},
            context=self.context(),
            create=True,
            shape=shape,
            dtype=getattr(ts, dtype),
            chunk_layout=ts.ChunkLayout(layout),
            codec=ts.CodecSpec({"driver": "zarr3", "codecs": codecs}),
            fill_value=0,
        )
        return array.result()

    def open(self, source: Source) -> Any:
        import tensorstore as ts

        context = self.context()
        if isinstance(source, dict):
            store = ts.KvStore.open({"driver": "memory"}, context=context).result()
            for key, value in source.items():
                store.write(key, value).result()
            kvstore: Any = {"driver": "memory"}
        else:
            kvstore = {"driver": "file", "path": f"{source}/"}
        return Reader(ts.open({"driver": "zarr3", "kvstore": kvstore}, context=context, read=True).result())


class TensorStoreUnflushed(TensorStore):
    name = "tensorstore unflushed"
    flushes = False


class Reader:
    def __init__(self, array: Any) -> None:
        self._array = array

    @property
    def raw(self) -> Any:
        """The tensorstore itself."""
        return self._array

    def __getitem__(self, selection: Any) -> Any:
        return self._array[selection].read().result()
