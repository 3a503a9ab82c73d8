"""How the engine reaches a zarr-python store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from zarr.abc import store as stores
from zarr.core.buffer import cpu
from zarr.storage import LocalStore, MemoryStore, ZipStore

from penstock import _core
from penstock.core.errors import Error, StorageError
from penstock.interop.zarr.settings import current_context
from penstock.interop.zarr.waiting import Waits, is_long
from penstock.target.adapters.zarr import ZarrAdapter, ZarrSyncAdapter
from penstock.target.stores import obeyed


def _supports_sync(store: object) -> bool:
    """Whether a store has synchronous methods. zarr-python reports it from 3.4 on; earlier versions are examined."""
    if _zarr_says is not None:
        return bool(_zarr_says(store))
    complete = all(callable(getattr(store, name, None)) for name in ("get_sync", "set_sync", "delete_sync"))
    return complete and bool(getattr(store, "_supports_sync_io", True))


_zarr_says: Any = getattr(stores, "_store_supports_sync_io", None)


def _own(error: BaseException) -> BaseException:
    """The store's exception: the adapters replace some of them by a StorageError."""
    return error.__cause__ if type(error) is StorageError and error.__cause__ is not None else error


class _LoopAdapter(ZarrAdapter):
    """A store whose coroutines run on the event loop of the read. It keeps the store's last exception."""

    def __init__(self, store: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(store)
        self._loop = loop
        self.error: BaseException | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        try:
            return await super().get(key, offset, length, from_end, expected)
        except BaseException as error:
            self.error = _own(error)
            raise


class _Raised(threading.local):
    wanted = False
    leaves = False
    error: BaseException | None = None


class _SyncAdapter(ZarrSyncAdapter):
    """A store with synchronous methods. Within `Route.errors` it keeps the thread's last exception of the store."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.raised = _Raised()
        self.waits = False
        self._last_was_long = False

    def note_time(self, seconds: float) -> None:
        """Take note of the time of a call. One long call may have waited for the processor, or for the GIL."""
        long = is_long(seconds)
        self.waits = self.waits or (long and self._last_was_long)
        self._last_was_long = long

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        begin = time.perf_counter()
        try:
            if self.raised.leaves and self.waits:
                raise Waits
            value = super().fetch(key, offset, length, from_end, expected)
            self.note_time(time.perf_counter() - begin)
            return value
        except Exception as error:
            if self.raised.wanted:
                self.raised.error = _own(error)
            raise


class Route:
    """The access path to one store. `path` is "native", "sync" or "async"."""

    __slots__ = ("_adapter", "core", "native_writes", "path", "reason", "root", "store", "sync", "values")

    def __init__(self, store: Any) -> None:
        self.store = store
        self.core: _core.Store | None = None
        self.values: dict[str, Any] | None = None
        self.native_writes = False
        self._adapter: _SyncAdapter | None = None
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
            self._adapter = _SyncAdapter(store)
            self.core = _core.object_store(self._adapter, str(store), False)
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

    @property
    def waits(self) -> bool:
        """Whether a synchronous method of the store has waited, as for a network."""
        return self._adapter is not None and self._adapter.waits

    def note_time(self, seconds: float) -> bool:
        """Take note of the time of a call of a synchronous method; return `waits`."""
        if self._adapter is not None:
            self._adapter.note_time(seconds)
        return self.waits

    @contextlib.contextmanager
    def overlapping(self) -> Iterator[None]:
        """Around calls that overlap, because the store waits. If all of them took less than a long one, it does not."""
        begin = time.perf_counter()
        yield
        if self._adapter is not None and not is_long(time.perf_counter() - begin):
            self._adapter.waits = False

    @contextlib.contextmanager
    def leaving(self) -> Iterator[None]:
        """Within it, a read of this thread fails if it needs a further request of a store that waits."""
        assert self._adapter is not None
        raised = self._adapter.raised
        before, raised.leaves = raised.leaves, True
        try:
            yield
        finally:
            raised.leaves = before

    @contextlib.contextmanager
    def errors(self, leaves: bool = False) -> Iterator[None]:
        """Raise the exceptions of a store's synchronous methods as they are, as zarr-python does.

        With `leaves`, a read ends with `Waits` if it needs a further request of a store that waits.
        """
        raised = None if self._adapter is None else self._adapter.raised
        if raised is None:
            yield
            return
        before = raised.wanted, raised.leaves, raised.error
        raised.wanted, raised.leaves, raised.error = True, leaves, None
        try:
            yield
        except Error as ours:
            if raised.error is None:
                raise
            raise raised.error from ours
        finally:
            raised.wanted, raised.leaves, raised.error = before

    @contextlib.contextmanager
    def on_loop(self, loop: asyncio.AbstractEventLoop) -> Iterator[_core.Store]:
        """The store for a read while `loop` runs; exceptions of its coroutines are raised as they are."""
        adapter = _LoopAdapter(self.store, loop)
        try:
            yield _core.object_store(adapter, str(self.store), True)
        except Error as ours:
            if adapter.error is None:
                raise
            raise adapter.error from ours
        finally:
            adapter.error = None
