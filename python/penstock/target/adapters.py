"""Stores written in Python, as the engine calls them.

An adapter serves requests `(key, offset, length, from_end, expected)`: `length` None means the whole object, `from_end`
the last `length` bytes; `expected` is the version that it must have, or None. It has either `fetch(*request)`, called
on the reading threads, or `submit(requests, pending)`, which returns at once and completes each on an event loop. The
result is the bytes, or None if the object does not exist. If `versions` is true, it is `(bytes, version)`, or False if
the version differs.

`list(prefix, children)` lists names. If `writable` is true, `store(key, value, absent, expected)` replaces an object
and returns its new version if there is one, or False if the condition (absent, or the expected version) does not hold;
`remove(key)` removes one, also if it does not exist. An adapter with `submit` also has `submit_writes(requests,
pending)`: requests are those of `store`, with None as the value of an object that is removed, and each is completed on
the event loop with the result of `store`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from penstock import _core
from penstock.core.errors import ConflictError, ReadOnlyError, StorageError, UnsupportedError
from penstock.core.job import answers
from penstock.target.options import options_named
from penstock.target.store import Store, bytes_view

if TYPE_CHECKING:
    import asyncio  # imported where it is used: it takes a quarter of this package's import time

Request = tuple[str, int, int | None, bool, str | None]
Put = tuple[str, bytes | None, bool, str | None]
Stored = str | None | Literal[False]
_Method = Callable[..., Coroutine[Any, Any, Any]]

_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def _children(keys: Iterable[str], prefix: str) -> Iterable[str]:
    """The names directly below `prefix`, folders with a final '/'."""
    seen = set()
    for key in keys:
        if key.startswith(prefix):
            head, slash, _ = key[len(prefix) :].partition("/")
            seen.add(prefix + head + slash)
    return seen


def _found(value: Any) -> Any:
    """What `get` returned, which must not have the form of an adapter's result with a version."""
    if isinstance(value, bool | tuple):
        raise TypeError(f"get must return bytes or None, not {type(value).__name__}")
    return value


def _cut(value: Any, offset: int, length: int | None, from_end: bool) -> Any:
    """The requested part of a whole object."""
    if _found(value) is None or length is None:
        return value
    view = bytes_view(value)
    return view[max(view.nbytes - length, 0) :] if from_end else view[offset : offset + length]


def _cut_whole(value: bytes, offset: int, length: int | None, from_end: bool) -> Any:
    """The requested part of a response that is longer: web servers that ignore ranges return the whole object."""
    return value if length is None or len(value) <= length else _cut(value, offset, length, from_end)


def _method(store: Any, *names: str) -> Callable[..., Any] | None:
    """The first of these methods that the object has."""
    for name in names:
        found = getattr(store, name, None)
        if callable(found):
            return found  # type: ignore[no-any-return]
    return None


def _cannot(store: Any, what: str) -> Exception:
    return UnsupportedError(f"{type(store).__name__} {what}")


class ObjectAdapter:
    """Any object with `get(key)`; more methods make it faster, listable, writable, versioned.

    `get_range`, `get_suffix`, `getsize`, `list`; `set` (or `put`, or item assignment), `delete`; `set_if_absent`;
    `version`. The names may end with `_sync`, as those of zarr-python's synchronous stores do.
    """

    _MOST_TIMES = 10

    def __init__(self, store: Any) -> None:
        self.store_object = store
        get = _method(store, "get_sync") or _method(store, "get")
        assert get is not None
        self.get: Callable[[str], Any] = get
        self.get_range = _method(store, "get_range_sync", "get_range")
        self.get_suffix = _method(store, "get_suffix_sync", "get_suffix")
        self.getsize = _method(store, "getsize")
        self.set = _method(store, "set_sync", "set", "put")
        self.delete = _method(store, "delete_sync", "delete", "erase")
        if isinstance(store, MutableMapping):
            self.set, self.delete = store.__setitem__, store.__delitem__
        self.set_if_absent = _method(store, "set_if_absent_sync", "set_if_absent")
        self.version = _method(store, "version")
        kind = type(store)
        if issubclass(kind, Store):  # methods that Store only declares count as absent
            self.set = self.set if kind.set is not Store.set else None
            self.delete = self.delete if kind.delete is not Store.delete else None
            self.version = self.version if kind.version is not Store.version else None
        self.writable = self.set is not None and not getattr(store, "read_only", False)
        self.versions = self.version is not None

    def _fetch(self, key: str, offset: int, length: int | None, from_end: bool) -> Any:
        if length is not None:
            if not from_end and self.get_range is not None:
                return self.get_range(key, offset, length)
            if from_end and self.get_suffix is not None:
                return self.get_suffix(key, length)
            if from_end and self.get_range is not None and self.getsize is not None:
                size = self.getsize(key)
                return None if size is None else self.get_range(key, max(size - length, 0), length)
        return _cut(self.get(key), offset, length, from_end)

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        if self.version is None:
            return _found(self._fetch(key, offset, length, from_end))
        for _ in range(self._MOST_TIMES):
            before = self.version(key)
            if expected is not None and before is not None and before != expected:
                return False
            value = b"" if length == 0 and before is not None else self._fetch(key, offset, length, from_end)
            if value is None or length == 0 or self.version(key) == before:
                return None if value is None else (value, before)
        return False

    def list(self, prefix: str, children: bool) -> Iterable[str]:
        lister = _method(self.store_object, "list")
        if lister is not None:
            keys = lister(prefix)
        elif isinstance(self.store_object, Mapping):
            keys = [key for key in self.store_object if key.startswith(prefix)]
        else:
            raise _cannot(self.store_object, "cannot list its keys: it has no list(prefix)")
        return _children(keys, prefix) if children else keys

    def store(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        if self.set is None:
            raise ReadOnlyError(f"{type(self.store_object).__name__} cannot be written to: it has no set(key, value)")
        if absent and self.set_if_absent is not None:
            if not self.set_if_absent(key, value):
                return False
        else:
            if absent and self.get(key) is not None:
                return False
            if expected is not None and self.version is not None and self.version(key) != expected:
                return False
            self.set(key, value)
        return None if self.version is None else self.version(key)

    def remove(self, key: str) -> None:
        if self.delete is None:
            raise _cannot(self.store_object, "cannot remove objects: it has no delete(key)")
        with contextlib.suppress(KeyError, FileNotFoundError):
            self.delete(key)


class _EventLoop:
    """One background thread with an event loop, started at first use; a forked child gets its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._loop = None

    def get(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="penstock-stores", daemon=True).start()
            return self._loop


_event_loop = _EventLoop()


class _Answering(threading.local):
    on = False


_answering = _Answering()
"""Set while a request is completed on an event loop. The engine may send the next ones from there; it does not wait."""


def _refuse_to_wait(loop: asyncio.AbstractEventLoop) -> None:
    """Raise an error if this thread runs `loop`: a caller on it would wait forever for what the loop has to do."""
    import asyncio

    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if running is loop and not _answering.on:
        raise UnsupportedError(
            "this call would wait for the event loop that it runs on, which serves the store: use `await "
            "a.read_async(...)`, or another thread (`asyncio.to_thread`); for zarr.create_array(data=a), pass a[...]"
        )


class AsyncAdapter:
    """Base of adapters for asynchronous stores: all requests of one call run concurrently."""

    _CHECK_SECONDS = 0.05
    writable = False
    versions = False

    def loop(self) -> asyncio.AbstractEventLoop:
        return _event_loop.get()

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        raise NotImplementedError

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        raise NotImplementedError

    async def set_value(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        raise NotImplementedError

    def submit(self, requests: list[Request], pending: Any) -> None:
        self._begin(self.get, requests, pending)

    def submit_writes(self, requests: list[Put | None], pending: Any) -> None:
        self._begin(self._write, requests, pending)

    async def _write(self, key: str, value: bytes | None, absent: bool, expected: str | None) -> Stored:
        if value is not None:
            return await self.set_value(key, value, absent, expected)
        await self.delete(key)
        return None

    def _begin(self, method: _Method, requests: Sequence[tuple[Any, ...] | None], pending: Any) -> None:
        import asyncio

        loop = self.loop()
        _refuse_to_wait(loop)
        answers.add(asyncio.run_coroutine_threadsafe(self._answer_all(method, requests, pending), loop))

    async def _answer(self, which: int, method: _Method, request: tuple[Any, ...], pending: Any) -> None:
        try:
            value = await method(*request)
        except BaseException as error:
            self._complete(pending.failed, which, error)
            return
        try:
            self._complete(pending.done, which, value)
        except BaseException as error:
            self._complete(pending.failed, which, error)

    @staticmethod
    def _complete(complete: Callable[[int, Any], None], which: int, value: Any) -> None:
        before, _answering.on = _answering.on, True
        try:
            complete(which, value)
        finally:
            _answering.on = before

    async def _answer_all(self, method: _Method, requests: Sequence[tuple[Any, ...] | None], pending: Any) -> None:
        import asyncio

        begun = [self._answer(i, method, one, pending) for i, one in enumerate(requests) if one is not None]
        waiting = {asyncio.ensure_future(one) for one in begun}
        while waiting:
            _, waiting = await asyncio.wait(waiting, timeout=self._CHECK_SECONDS)
            if waiting and pending.stopped:
                for task in waiting:
                    task.cancel()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        import asyncio

        loop = self.loop()
        try:
            _refuse_to_wait(loop)
        except UnsupportedError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def list(self, prefix: str, children: bool) -> list[str]:
        return self._wait(self.list_keys(prefix, children))  # type: ignore[no-any-return]

    def store(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        return self._wait(self.set_value(key, value, absent, expected))  # type: ignore[no-any-return]

    def remove(self, key: str) -> None:
        self._wait(self.delete(key))


@contextlib.contextmanager
def _no_absence() -> Iterator[None]:
    """Replace exceptions that the engine would take for an absent object.

    zarr-python's stores return None for those. An exception is a failure, such as that of a virtual store whose
    source file was removed: the fill value would be wrong.
    """
    try:
        yield
    except (KeyError, FileNotFoundError) as error:
        raise StorageError(f"{type(error).__name__}: {error}") from error


_ZARR_KEY = re.compile(r"(^|/)(zarr\.json|c(/\d+)*)$")


class ZarrAdapter(AsyncAdapter):
    """A zarr-python `Store`, on zarr-python's own event loop: sessions of remote stores belong to one loop."""

    def __init__(self, store: Any) -> None:
        from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
        from zarr.core.buffer import cpu

        self.zarr_store = store
        self.prototype = cpu.buffer_prototype  # also if zarr-python's buffers are those of a GPU
        self.range_request, self.offset_request = RangeByteRequest, OffsetByteRequest
        self.suffix_request = SuffixByteRequest
        self.writable = bool(store.supports_writes and not store.read_only)

    def loop(self) -> asyncio.AbstractEventLoop:
        try:
            from zarr.core.sync import _get_loop
        except ImportError:
            return super().loop()
        loop: asyncio.AbstractEventLoop = _get_loop()
        return loop

    def byte_request(self, offset: int, length: int | None, from_end: bool) -> Any:
        if length is None:
            return self.offset_request(offset) if offset else None
        return self.suffix_request(length) if from_end else self.range_request(offset, offset + length)

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        wanted = self.byte_request(offset, length, from_end)
        with _no_absence():
            value = await self.zarr_store.get(key, self.prototype, byte_range=wanted)
        return None if value is None else value.as_numpy_array()

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        if not children:
            return [key async for key in self.zarr_store.list_prefix(prefix)]
        # Names only: each is listed as an object and, except for metadata, as a folder. (Some stores list a file as its
        # own content.)
        names = [name async for name in self.zarr_store.list_dir(prefix)]
        folders = [name for name in names if not _core.is_zarr_document(os.fsencode(name))]
        return [prefix + name for name in names] + [f"{prefix}{name}/" for name in folders]

    async def set_value(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        buffer = self.prototype.buffer.from_bytes(value)
        if not absent:
            await self.zarr_store.set(key, buffer)
            return None
        if await self.zarr_store.exists(key):  # `set_if_not_exists` does not report whether it wrote
            return False
        await self.zarr_store.set_if_not_exists(key, buffer)
        return None

    async def delete(self, key: str) -> None:
        if not self.zarr_store.supports_deletes:
            raise _cannot(self.zarr_store, "cannot remove objects")
        await self.zarr_store.delete(key)


class IcechunkAdapter(ZarrAdapter):
    """A store of Icechunk. It raises an error for keys and folders that Zarr does not have: nothing is there."""

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        try:
            return await super().get(key, offset, length, from_end, expected)
        except ValueError:  # its InvalidInputError
            if _ZARR_KEY.search(key):
                raise
            return None

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        try:
            return await super().list_keys(prefix, children)
        except ValueError:
            if _ZARR_KEY.search(prefix.rstrip("/")) or await self.zarr_store.exists(f"{prefix}zarr.json"):
                raise
            return []


class ZarrSyncAdapter(ZarrAdapter):
    """A zarr-python `Store` with `get_sync`, `set_sync` and `delete_sync`: called on the reading threads."""

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        wanted = self.byte_request(offset, length, from_end)
        with _no_absence():
            value = self.zarr_store.get_sync(key, prototype=self.prototype, byte_range=wanted)
        return None if value is None else value.as_numpy_array()

    def store(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        if absent and self.zarr_store.get_sync(key, prototype=self.prototype) is not None:
            return False
        self.zarr_store.set_sync(key, self.prototype.buffer.from_bytes(value))
        return None

    def remove(self, key: str) -> None:
        self.zarr_store.delete_sync(key)


class AsyncObjectAdapter(AsyncAdapter):
    """An object whose `get(key)` is a coroutine, and optionally `get_range`, `get_suffix`, `set`, `delete`, `list`."""

    def __init__(self, store: Any) -> None:
        self.store_object = store
        self.get_range = _method(store, "get_range")
        self.get_suffix = _method(store, "get_suffix")
        self.set = _method(store, "set", "put")
        self.writable = self.set is not None and not getattr(store, "read_only", False)

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        if length is not None and not from_end and self.get_range is not None:
            return _found(await self.get_range(key, offset, length))
        if length is not None and from_end and self.get_suffix is not None:
            return _found(await self.get_suffix(key, length))
        return _cut(await self.store_object.get(key), offset, length, from_end)

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        lister = _method(self.store_object, "list")
        if lister is None:
            raise _cannot(self.store_object, "cannot list its keys")
        found = lister(prefix)
        if hasattr(found, "__aiter__"):
            keys = [key async for key in found]
        else:
            keys = list(await found if hasattr(found, "__await__") else found)
        return list(_children(keys, prefix)) if children else keys

    async def set_value(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        assert self.set is not None
        if absent and await self.store_object.get(key) is not None:
            return False
        await self.set(key, value)
        return None

    async def delete(self, key: str) -> None:
        delete = _method(self.store_object, "delete", "erase")
        if delete is None:
            raise _cannot(self.store_object, "cannot remove objects: it has no delete(key)")
        with contextlib.suppress(KeyError, FileNotFoundError):
            await delete(key)


# File systems whose reads share one file position, one connection or one table: fsspec has an instance for each thread.
_ONE_THREAD_PROTOCOLS = frozenset({"tar", "libarchive", "ftp", "filecache"})
_locks: weakref.WeakKeyDictionary[Any, threading.Lock] = weakref.WeakKeyDictionary()
_locks_lock = threading.Lock()


def _forget_locks() -> None:
    global _locks_lock
    _locks_lock = threading.Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def _lock_of(fs: Any) -> contextlib.AbstractContextManager[Any]:
    """A lock for reads of an fsspec file system that two threads cannot use; all its users share it."""
    while fs is not None:
        protocol = getattr(fs, "protocol", ())
        if ({protocol} if isinstance(protocol, str) else set(protocol)) & _ONE_THREAD_PROTOCOLS:
            with _locks_lock:
                return _locks.setdefault(fs, threading.Lock())
        fs = getattr(fs, "fs", None)
    return contextlib.nullcontext()


class FsspecAdapter(AsyncAdapter):
    """A folder of an fsspec file system, by byte ranges; asynchronous if the file system is."""

    def __init__(self, fs: Any, root: str) -> None:
        self.fs, self.root = fs, root.rstrip("/")
        self.writable = takes_writes(fs)
        inner = fs
        while hasattr(inner, "fs"):  # a folder of another file system reports a type that may be wrong
            inner = inner.fs
        self.is_asynchronous = bool(fs.async_impl and inner.async_impl)

    def loop(self) -> asyncio.AbstractEventLoop:
        return self.fs.loop or super().loop()

    def path(self, key: str) -> str:
        return f"{self.root}/{key}" if self.root else key

    def key(self, path: str) -> str:
        """The reverse; file systems return paths with and without a leading '/'."""
        return path.strip("/")[len(self.root.strip("/")) :].lstrip("/")

    @staticmethod
    def _range(offset: int, length: int | None, from_end: bool) -> dict[str, int]:
        if length is None:
            return {}
        return {"start": -length} if from_end else {"start": offset, "end": offset + length}

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        if length == 0:
            return b"" if await self.fs._exists(self.path(key)) else None
        try:
            with options_named(self.fs):
                value = await self.fs._cat_file(self.path(key), **self._range(offset, length, from_end))
        except _ABSENT:
            return None
        return _cut_whole(value, offset, length, from_end)

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        if length == 0:
            return b"" if self.fs.exists(self.path(key)) else None
        try:
            with options_named(self.fs), _lock_of(self.fs):
                value = self.fs.cat_file(self.path(key), **self._range(offset, length, from_end))
        except _ABSENT:
            return None
        return _cut_whole(value, offset, length, from_end)

    def list(self, prefix: str, children: bool) -> list[str]:
        folder = self.path(prefix).rstrip("/")
        try:
            with options_named(self.fs):
                if not children:
                    return [self.key(path) for path in self.fs.find(folder)]
                found = self.fs.ls(folder, detail=True)
        except _ABSENT:
            return []
        return [self.key(item["name"]) + ("/" if item["type"] == "directory" else "") for item in found]

    async def set_value(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        path = self.path(key)
        if absent and await self.fs._exists(path):
            return False
        try:
            with options_named(self.fs):
                await self.fs._pipe_file(path, value)
        except FileNotFoundError:
            await self.fs._makedirs(path.rpartition("/")[0], exist_ok=True)
            await self.fs._pipe_file(path, value)
        return None

    async def delete(self, key: str) -> None:
        with contextlib.suppress(*_ABSENT):
            await self.fs._rm_file(self.path(key))

    def store(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        path = self.path(key)
        if absent and self.fs.exists(path):  # few file systems have an exclusive create
            return False
        try:
            with options_named(self.fs):
                self.fs.pipe_file(path, value)
        except FileNotFoundError:
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self.fs.pipe_file(path, value)
        return None

    def remove(self, key: str) -> None:
        with contextlib.suppress(*_ABSENT):
            self.fs.rm_file(self.path(key))


def stamp_of(info: Mapping[str, Any]) -> str:
    """The size of an fsspec file, and the identification of its version."""
    names = ("ETag", "etag", "e_tag", "generation", "mtime", "LastModified", "last_modified", "updated", "created")
    tags = [f"{name}={info[name]}" for name in names if info.get(name) is not None]
    return " ".join([f"size={info.get('size')}", *tags[:1]])


# File systems that cannot be written to, and references, whose writes would only be in memory.
_READ_ONLY_PROTOCOLS = frozenset({"github", "git", "tar", "libarchive", "reference", "data"})


def takes_writes(fs: Any) -> bool:
    """Whether an fsspec file system can be written to, as far as it reports that."""
    while fs is not None:
        protocol = getattr(fs, "protocol", ())
        names = {protocol} if isinstance(protocol, str) else set(protocol)
        if getattr(fs, "read_only", False) or names & _READ_ONLY_PROTOCOLS:
            return False
        if "zip" in names and getattr(fs, "mode", "r") == "r":
            return False
        method = getattr(type(fs), "_pipe_file", None)  # of asynchronous ones: fsspec's own raises
        if getattr(method, "__module__", None) == "fsspec.asyn":
            return False
        fs = getattr(fs, "fs", None)
    return True


class _Pin:
    """The version that a file must have, and the requests that compare it."""

    def __init__(self, stamp: str) -> None:
        self.stamp = stamp
        self.under_way: asyncio.Task[None] | None = None
        self.next: asyncio.Task[None] | None = None
        self.lock = threading.Lock()
        self.begun = self.good = 0  # requests of the stamp; the last one that found it unchanged


class PinnedFsspecAdapter(FsspecAdapter):
    """A folder of an fsspec file system, of which some files have a known stamp: reading another version of such a file
    raises `ConflictError`.

    The stamp is requested after the ranges: bytes that were read before it belong to the same version. Ranges that
    arrive during that request share the next one. While `compares` is False, no stamp is requested.
    """

    def __init__(self, fs: Any, root: str, stamps: Mapping[str, str]) -> None:
        super().__init__(fs, root)
        self.writable = False
        self.compares = True
        self._pins: dict[str, _Pin] = {}
        self.pin(stamps)

    def pin(self, stamps: Mapping[str, str]) -> None:
        """Expect these stamps, by key, from now on."""
        self._pins.update({key: _Pin(stamp) for key, stamp in stamps.items()})

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        import asyncio

        value = await super().get(key, offset, length, from_end, expected)
        pin = self._pins.get(key) if self.compares else None
        if pin is None:
            return value
        if pin.next is None:
            pin.next = asyncio.ensure_future(self._look(key, pin, pin.under_way))
        await asyncio.shield(pin.next)  # another range may need it when this one no longer does
        return value

    async def _look(self, key: str, pin: _Pin, before: asyncio.Task[None] | None) -> None:
        import asyncio

        if before is not None:
            await asyncio.wait([before])
        pin.under_way, pin.next = pin.next, None
        try:
            self.fs.invalidate_cache(self.path(key))
            try:
                info = await self.fs._info(self.path(key))
            except _ABSENT:
                info = None
            self._check(key, pin, info)
        finally:
            pin.under_way = None

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        value = super().fetch(key, offset, length, from_end, expected)
        pin = self._pins.get(key) if self.compares else None
        if pin is None:
            return value
        arrived = pin.begun
        with pin.lock:
            if pin.good > arrived:
                return value
            pin.begun += 1
            self._check(key, pin, self.info(key))
            pin.good = pin.begun
        return value

    def info(self, key: str) -> Mapping[str, Any] | None:
        """What the file system reports on a file now; None if it does not exist."""
        with _lock_of(self.fs):
            self.fs.invalidate_cache(self.path(key))
            try:
                found: Mapping[str, Any] = self.fs.info(self.path(key))
            except _ABSENT:
                return None
        return found

    def _check(self, key: str, pin: _Pin, info: Mapping[str, Any] | None) -> None:
        if info is not None and stamp_of(info) == pin.stamp:
            return
        how = "was removed" if info is None else "has changed"
        raise ConflictError(f"'{self.fs.unstrip_protocol(self.path(key))}' {how} since the array was opened")


class ObstoreAdapter(AsyncAdapter):
    """An obstore object store. Entity tags are versions, and writes are conditional on them."""

    def __init__(self, store: Any, writable: bool = True) -> None:
        self.object_store = store
        self.exceptions = importlib.import_module("obstore.exceptions")
        kind = type(store).__name__
        self.versions = kind in ("S3Store", "GCSStore", "AzureStore", "MemoryStore")
        self.writable = writable and kind != "HTTPStore"
        # Stores that write on condition of a tag; other stores refuse that.
        self.swaps = self.versions

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        options: dict[str, Any] = {}
        if length and from_end:
            options["range"] = {"suffix": length}
        elif length:
            options["range"] = (offset, offset + length)
        if expected is not None:
            options["if_match"] = expected
        try:
            if length == 0:
                tag = (await self.object_store.head_async(key))["e_tag"]
                return False if expected is not None and tag != expected else self._with_tag(b"", tag)
            found = await self.object_store.get_async(key, options=options)
            return self._with_tag(await found.bytes_async(), found.meta["e_tag"])
        except _ABSENT:
            return None
        except self.exceptions.PreconditionError:
            return False
        except (self.exceptions.PermissionDeniedError, self.exceptions.UnauthenticatedError) as error:
            raise PermissionError(str(error)) from error
        except self.exceptions.GenericError:
            # A range beyond the object is an error of the reader, not of the store.
            if length and not from_end and offset + length > (await self.object_store.head_async(key))["size"]:
                return self._with_tag(b"", None)
            raise

    def _with_tag(self, value: Any, tag: str | None) -> Any:
        return (value, tag) if self.versions else value

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        if children:
            found = await self.object_store.list_with_delimiter_async(prefix or None)
            return [item["path"] for item in found["objects"]] + [path + "/" for path in found["common_prefixes"]]
        return [item["path"] async for batch in self.object_store.list(prefix or None) for item in batch]

    async def set_value(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        mode: Any = "overwrite"
        if absent:
            mode = "create"
        elif expected is not None and self.swaps:
            mode = {"e_tag": expected}
        try:
            made = await self.object_store.put_async(key, value, mode=mode)
        except (self.exceptions.AlreadyExistsError, self.exceptions.PreconditionError):
            return False
        except (self.exceptions.NotFoundError, FileNotFoundError):
            if expected is None:
                raise
            return False
        except (self.exceptions.PermissionDeniedError, self.exceptions.UnauthenticatedError) as error:
            raise PermissionError(str(error)) from error
        return made["e_tag"] if self.versions else None

    async def delete(self, key: str) -> None:
        with contextlib.suppress(*_ABSENT):
            await self.object_store.delete_async(key)
