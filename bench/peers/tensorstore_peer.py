"""tensorstore with both of its thread limits set, and otherwise as it comes: no cache, so each read decodes."""

from __future__ import annotations

import importlib.util
from typing import Any

from . import Peer, Source


class TensorStore(Peer):
    name = "tensorstore"

    def unavailable(self, source: Source) -> str:
        return "" if importlib.util.find_spec("tensorstore") else "not installed"

    def open(self, source: Source) -> Any:
        import tensorstore as ts

        context = ts.Context(
            {"data_copy_concurrency": {"limit": self.threads}, "file_io_concurrency": {"limit": self.threads}}
        )
        if isinstance(source, dict):
            store = ts.KvStore.open({"driver": "memory"}, context=context).result()
            for key, value in source.items():
                store.write(key, value).result()
            kvstore: Any = {"driver": "memory"}
        else:
            kvstore = {"driver": "file", "path": f"{source}/"}
        return Reader(ts.open({"driver": "zarr3", "kvstore": kvstore}, context=context, read=True).result())


class Reader:
    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, selection: Any) -> Any:
        return self._array[selection].read().result()
