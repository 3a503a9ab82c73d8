"""File systems of fsspec."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from penstock.target.adapters.asynchronous import AsyncAdapter
from penstock.target.adapters.requests import ABSENT, Stored, cut_whole
from penstock.target.options import options_named

if TYPE_CHECKING:
    import asyncio

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


def lock_of(fs: Any) -> contextlib.AbstractContextManager[Any]:
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
        except ABSENT:
            return None
        return cut_whole(value, offset, length, from_end)

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        if length == 0:
            return b"" if self.fs.exists(self.path(key)) else None
        try:
            with options_named(self.fs), lock_of(self.fs):
                value = self.fs.cat_file(self.path(key), **self._range(offset, length, from_end))
        except ABSENT:
            return None
        return cut_whole(value, offset, length, from_end)

    def list(self, prefix: str, children: bool) -> list[str]:
        folder = self.path(prefix).rstrip("/")
        try:
            with options_named(self.fs):
                if not children:
                    return [self.key(path) for path in self.fs.find(folder)]
                found = self.fs.ls(folder, detail=True)
        except ABSENT:
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
        with contextlib.suppress(*ABSENT):
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
        with contextlib.suppress(*ABSENT):
            self.fs.rm_file(self.path(key))


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
