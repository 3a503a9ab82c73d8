"""How the engine reaches a zarr-python store."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from zarr.abc import store as stores
from zarr.core.buffer import cpu
from zarr.storage import LocalStore, MemoryStore, ZipStore

from penstock import _core
from penstock.interop.zarr.settings import current_context
from penstock.target.adapters import ZarrAdapter, ZarrSyncAdapter
from penstock.target.stores import obeyed


def _supports_sync(store: object) -> bool:
    """Whether a store has synchronous methods. zarr-python reports it from 3.4 on; earlier versions are examined."""
    if _zarr_says is not None:
        return bool(_zarr_says(store))
    complete = all(callable(getattr(store, name, None)) for name in ("get_sync", "set_sync", "delete_sync"))
    return complete and bool(getattr(store, "_supports_sync_io", True))


_zarr_says: Any = getattr(stores, "_store_supports_sync_io", None)


class _LoopAdapter(ZarrAdapter):
    """A store whose coroutines run on the event loop of the read."""

    def __init__(self, store: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(store)
        self._loop = loop

    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop


class Route:
    """The access path to one store. `path` is "native", "sync" or "async"."""

    __slots__ = ("core", "native_writes", "path", "reason", "root", "store", "sync", "values")

    def __init__(self, store: Any) -> None:
        self.store = store
        self.core: _core.Store | None = None
        self.values: dict[str, Any] | None = None
        self.native_writes = False
        self.sync: str | None = None
        self.root = getattr(store, "root", None)  # `LocalStore.move` changes it
        self.reason = ""
        kind = type(store)
        # Subclasses may do more than their base class, so their methods are called.
        if kind is MemoryStore and type(store._store_dict) is dict:
            self.path, self.values = "native", store._store_dict
            self.core = _core.dict_store(self.values, cpu.Buffer.from_bytes, not store.read_only)
        elif kind is LocalStore:
            self.path, self.native_writes = "native", True
            self.sync = current_context()._sync_of_zarr
            self.core = obeyed(_core.file_store(os.fsencode(store.root), self.sync), store.read_only)
        elif kind is ZipStore and store.read_only and store.path is not None:
            self.path = "native"
            self.core = obeyed(_core.zip_store(os.fsencode(store.path.absolute()), current_context()), True)
        elif _supports_sync(store):
            self.path = "sync"
            self.core = _core.object_store(ZarrSyncAdapter(store), str(store), False)
            self.reason = f"{kind.__name__} is a Python store: its get_sync, set_sync and delete_sync are called"
        else:
            self.path = "async"
            self.reason = f"{kind.__name__} has no synchronous methods"

    def serves(self, store: Any) -> bool:
        """Whether this is still the path to `store`."""
        if store is not self.store or getattr(store, "root", None) != self.root:
            return False
        if self.sync is not None:
            return self.sync == current_context()._sync_of_zarr
        return self.values is None or self.values is store._store_dict

    def on_loop(self, loop: asyncio.AbstractEventLoop) -> _core.Store:
        """The store for a read while `loop` runs."""
        return _core.object_store(_LoopAdapter(self.store, loop), str(self.store), True)
