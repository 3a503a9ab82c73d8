"""Stores of zarr-python."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock import _core
from penstock.core.errors import StorageError
from penstock.target.adapters.asynchronous import AsyncAdapter
from penstock.target.adapters.requests import Stored, cannot

if TYPE_CHECKING:
    import asyncio


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
            raise cannot(self.zarr_store, "cannot remove objects")
        await self.zarr_store.delete(key)


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
