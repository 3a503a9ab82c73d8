"""Stores written in Python, as the engine calls them.

An adapter answers requests `(key, offset, length, from_end)`: `length` None means the whole object, `from_end` the last
`length` bytes. It has either `fetch(*request)`, called on the reading threads, or `submit(requests, pending)`, which
returns at once and answers each on an event loop; and `list(prefix, children)`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock import _core
from penstock._errors import UnsupportedError, _make

Request = tuple[str, int, int | None, bool]


class Store(ABC):
    """Base class for stores written in Python; only `get` is required.

    Methods are called from several threads at once. `get` returns None where the object is absent, and raises for
    every other trouble: a failure must never look like absence.
    """

    @abstractmethod
    def get(self, key: str) -> bytes | memoryview | None:
        """All bytes of an object, or None where there is none."""

    def get_range(self, key: str, start: int, length: int) -> bytes | memoryview | None:
        """`length` bytes from `start`; override it where the store can read a part."""
        value = self.get(key)
        return None if value is None else memoryview(value)[start : start + length]

    def get_suffix(self, key: str, length: int) -> bytes | memoryview | None:
        """The last `length` bytes; override it where the store can read a part."""
        value = self.get(key)
        return None if value is None else memoryview(value)[-length:] if length else b""

    def list(self, prefix: str) -> Iterable[str]:
        """Every key that begins with `prefix`; needed for listing groups only."""
        raise _make(UnsupportedError, f"{type(self).__name__} cannot list its keys")


def _children(keys: Iterable[str], prefix: str) -> Iterable[str]:
    """What stands directly below `prefix`, folders with a final '/'."""
    seen = set()
    for key in keys:
        if key.startswith(prefix):
            head, slash, _ = key[len(prefix) :].partition("/")
            seen.add(prefix + head + slash)
    return seen


class _ObjectAdapter:
    """Any object with `get(key)`, and `get_range`, `get_suffix`, `getsize`, `list` where it has them."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.get_range: Callable[[str, int, int], Any] | None = getattr(store, "get_range", None)
        self.get_suffix: Callable[[str, int], Any] | None = getattr(store, "get_suffix", None)
        self.getsize: Callable[[str], int] | None = getattr(store, "getsize", None)

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool) -> Any:
        if length is not None:
            if not from_end and self.get_range is not None:
                return self.get_range(key, offset, length)
            if from_end and self.get_suffix is not None:
                return self.get_suffix(key, length)
            if from_end and self.get_range is not None and self.getsize is not None:
                return self.get_range(key, max(self.getsize(key) - length, 0), length)
        value = self.store.get(key)
        if value is None or length is None:
            return value
        view = memoryview(value)
        return view[max(view.nbytes - length, 0) :] if from_end else view[offset : offset + length]

    def list(self, prefix: str, children: bool) -> Iterable[str]:
        lister = getattr(self.store, "list", None)
        if lister is not None:
            keys = lister(prefix)
        elif isinstance(self.store, Mapping):
            keys = (key for key in self.store if key.startswith(prefix))
        else:
            raise _make(UnsupportedError, f"{type(self.store).__name__} cannot list its keys: it has no list(prefix)")
        return _children(keys, prefix) if children else keys


class _FsspecAdapter:
    """An fsspec mapping (`fsspec.get_mapper(...)`), by byte ranges of its file system."""

    def __init__(self, mapper: Any) -> None:
        self.mapper = mapper

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool) -> Any:
        path = f"{self.mapper.root.rstrip('/')}/{key}"
        if length is None:
            return self.mapper.fs.cat_file(path)
        if length == 0:
            return b""
        if from_end:
            return self.mapper.fs.cat_file(path, start=-length)
        return self.mapper.fs.cat_file(path, start=offset, end=offset + length)

    def list(self, prefix: str, children: bool) -> Iterable[str]:
        keys = [key for key in self.mapper if key.startswith(prefix)]
        return _children(keys, prefix) if children else keys


class _ObstoreAdapter:
    """An obstore object store."""

    def __init__(self, store: Any) -> None:
        self.store, self.obstore = store, importlib.import_module("obstore")

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool) -> Any:
        if length == 0:
            return b""
        if length is None:
            return self.obstore.get(self.store, key).bytes()
        if from_end:
            return self.obstore.get(self.store, key, options={"range": {"suffix": length}}).bytes()
        return self.obstore.get_range(self.store, key, start=offset, length=length)

    def list(self, prefix: str, children: bool) -> Iterable[str]:
        keys = [item["path"] for batch in self.obstore.list(self.store, prefix) for item in batch]
        return _children(keys, prefix) if children else keys


class _EventLoop:
    """One background thread with an event loop, started when first needed; a forked child gets its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._loop = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="penstock-stores", daemon=True).start()
            return self._loop


_event_loop = _EventLoop()


class _AsyncAdapter:
    """Base of adapters whose stores are asynchronous: all requests of one call are under way together."""

    _CHECK_SECONDS = 0.05

    def loop(self) -> asyncio.AbstractEventLoop:
        return _event_loop.get()

    async def get(self, key: str, offset: int, length: int | None, from_end: bool) -> Any:
        raise NotImplementedError

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        raise NotImplementedError

    def submit(self, requests: list[Request], pending: Any) -> None:
        asyncio.run_coroutine_threadsafe(self._answer_all(requests, pending), self.loop())

    async def _answer(self, which: int, request: Request, pending: Any) -> None:
        try:
            pending.done(which, await self.get(*request))
        except BaseException as error:
            pending.failed(which, error)

    async def _answer_all(self, requests: list[Request], pending: Any) -> None:
        waiting = {asyncio.ensure_future(self._answer(i, one, pending)) for i, one in enumerate(requests)}
        while waiting:
            _, waiting = await asyncio.wait(waiting, timeout=self._CHECK_SECONDS)
            if waiting and pending.stopped:
                for task in waiting:
                    task.cancel()

    def list(self, prefix: str, children: bool) -> list[str]:
        return asyncio.run_coroutine_threadsafe(self.list_keys(prefix, children), self.loop()).result()


class _ZarrAdapter(_AsyncAdapter):
    """A zarr-python `Store`, on zarr-python's own event loop: sessions of remote stores belong to one loop."""

    def __init__(self, store: Any) -> None:
        from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
        from zarr.core.buffer import default_buffer_prototype

        self.store = store
        self.prototype = default_buffer_prototype()
        self.range_request, self.offset_request = RangeByteRequest, OffsetByteRequest
        self.suffix_request = SuffixByteRequest

    def loop(self) -> asyncio.AbstractEventLoop:
        try:
            from zarr.core.sync import _get_loop
        except ImportError:
            return super().loop()
        loop: asyncio.AbstractEventLoop = _get_loop()
        return loop

    async def get(self, key: str, offset: int, length: int | None, from_end: bool) -> Any:
        wanted: Any
        if length is None:
            wanted = self.offset_request(offset) if offset else None
        elif from_end:
            wanted = self.suffix_request(length)
        else:
            wanted = self.range_request(offset, offset + length)
        value = await self.store.get(key, self.prototype, byte_range=wanted)
        return None if value is None else value.as_numpy_array()

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        if not children:
            return [key async for key in self.store.list_prefix(prefix)]
        # Names only: each is offered as an object and as a folder.
        names = [prefix + name async for name in self.store.list_dir(prefix)]
        return names + [name + "/" for name in names]


class _AsyncObjectAdapter(_AsyncAdapter):
    """An object whose `get(key)` is a coroutine, and `get_range(key, start, length)` where it has one."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.get_range = getattr(store, "get_range", None)

    async def get(self, key: str, offset: int, length: int | None, from_end: bool) -> Any:
        if length is not None and not from_end and self.get_range is not None:
            return await self.get_range(key, offset, length)
        value = await self.store.get(key)
        if value is None or length is None:
            return value
        view = memoryview(value)
        return view[max(view.nbytes - length, 0) :] if from_end else view[offset : offset + length]

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        raise _make(UnsupportedError, f"{type(self.store).__name__} cannot list its keys")


def _is_zarr_store(target: Any) -> bool:
    return any(base.__module__ == "zarr.abc.store" and base.__name__ == "Store" for base in type(target).__mro__)


def store_of(target: Any) -> _core.Store | None:
    """The store that `target` is, or None where it is none."""
    if type(target) is _core.Store:
        return target
    if isinstance(target, dict):
        return _core.dict_store(target)
    kind = type(target)
    name = f"{kind.__module__}.{kind.__qualname__}"
    label = f"{kind.__name__}:"
    if _is_zarr_store(target):
        if name == "zarr.storage._local.LocalStore":
            return _core.file_store(os.fsencode(target.root))
        if name == "zarr.storage._memory.MemoryStore" and isinstance(target._store_dict, dict):
            return _core.dict_store(target._store_dict)
        if name == "zarr.storage._zip.ZipStore" and target.read_only and target.path is not None:
            return _core.zip_store(os.fsencode(target.path.absolute()))
        return _core.object_store(_ZarrAdapter(target), str(target), True)
    if kind.__module__.split(".")[0] == "obstore":
        return _core.object_store(_ObstoreAdapter(target), label, False)
    if kind.__module__.split(".")[0] == "fsspec" and hasattr(target, "fs") and hasattr(target, "root"):
        return _core.object_store(_FsspecAdapter(target), label, False)
    get = getattr(target, "get", None)
    if not callable(get):
        return None
    if asyncio.iscoroutinefunction(get):
        return _core.object_store(_AsyncObjectAdapter(target), label, True)
    return _core.object_store(_ObjectAdapter(target), label, False)
