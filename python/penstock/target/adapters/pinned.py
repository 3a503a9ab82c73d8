"""Files of fsspec that must keep the version in which an array was opened."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ConflictError
from penstock.target.adapters.fsspec import FsspecAdapter, lock_of
from penstock.target.adapters.requests import ABSENT

if TYPE_CHECKING:
    import asyncio


def stamp_of(info: Mapping[str, Any]) -> str:
    """The size of an fsspec file, and the identification of its version."""
    names = ("ETag", "etag", "e_tag", "generation", "mtime", "LastModified", "last_modified", "updated", "created")
    tags = [f"{name}={info[name]}" for name in names if info.get(name) is not None]
    return " ".join([f"size={info.get('size')}", *tags[:1]])


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
            except ABSENT:
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
        with lock_of(self.fs):
            self.fs.invalidate_cache(self.path(key))
            try:
                found: Mapping[str, Any] = self.fs.info(self.path(key))
            except ABSENT:
                return None
        return found

    def _check(self, key: str, pin: _Pin, info: Mapping[str, Any] | None) -> None:
        if info is not None and stamp_of(info) == pin.stamp:
            return
        how = "was removed" if info is None else "has changed"
        raise ConflictError(f"'{self.fs.unstrip_protocol(self.path(key))}' {how} since the array was opened")
