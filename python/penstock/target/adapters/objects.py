"""Objects with `get(key)`, which may be a coroutine: users' own stores, dicts of other classes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from penstock.core.errors import ReadOnlyError
from penstock.target.adapters.asynchronous import AsyncAdapter
from penstock.target.adapters.requests import Stored, cannot, checked, children_of, cut, method_of
from penstock.target.store import Store


class ObjectAdapter:
    """Any object with `get(key)`; more methods make it faster, listable, writable, versioned.

    `get_range`, `get_suffix`, `getsize`, `list`; `set` (or `put`, or item assignment), `delete`; `set_if_absent`;
    `version`. The names may end with `_sync`, as those of zarr-python's synchronous stores do.
    """

    _MOST_TIMES = 10

    def __init__(self, store: Any) -> None:
        self.store_object = store
        get = method_of(store, "get_sync") or method_of(store, "get")
        assert get is not None
        self.get: Callable[[str], Any] = get
        self.get_range = method_of(store, "get_range_sync", "get_range")
        self.get_suffix = method_of(store, "get_suffix_sync", "get_suffix")
        self.getsize = method_of(store, "getsize")
        self.set = method_of(store, "set_sync", "set", "put")
        self.delete = method_of(store, "delete_sync", "delete", "erase")
        if isinstance(store, MutableMapping):
            self.set, self.delete = store.__setitem__, store.__delitem__
        self.set_if_absent = method_of(store, "set_if_absent_sync", "set_if_absent")
        self.version = method_of(store, "version")
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
        return cut(self.get(key), offset, length, from_end)

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        if self.version is None:
            return checked(self._fetch(key, offset, length, from_end))
        for _ in range(self._MOST_TIMES):
            before = self.version(key)
            if expected is not None and before is not None and before != expected:
                return False
            value = b"" if length == 0 and before is not None else self._fetch(key, offset, length, from_end)
            if value is None or length == 0 or self.version(key) == before:
                return None if value is None else (value, before)
        return False

    def list(self, prefix: str, children: bool) -> Iterable[str]:
        lister = method_of(self.store_object, "list")
        if lister is not None:
            keys = lister(prefix)
        elif isinstance(self.store_object, Mapping):
            keys = [key for key in self.store_object if key.startswith(prefix)]
        else:
            raise cannot(self.store_object, "cannot list its keys: it has no list(prefix)")
        return children_of(keys, prefix) if children else keys

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
            raise cannot(self.store_object, "cannot remove objects: it has no delete(key)")
        with contextlib.suppress(KeyError, FileNotFoundError):
            self.delete(key)


class AsyncObjectAdapter(AsyncAdapter):
    """An object whose `get(key)` is a coroutine, and optionally `get_range`, `get_suffix`, `set`, `delete`, `list`."""

    def __init__(self, store: Any) -> None:
        self.store_object = store
        self.get_range = method_of(store, "get_range")
        self.get_suffix = method_of(store, "get_suffix")
        self.set = method_of(store, "set", "put")
        self.writable = self.set is not None and not getattr(store, "read_only", False)

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        if length is not None and not from_end and self.get_range is not None:
            return checked(await self.get_range(key, offset, length))
        if length is not None and from_end and self.get_suffix is not None:
            return checked(await self.get_suffix(key, length))
        return cut(await self.store_object.get(key), offset, length, from_end)

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        lister = method_of(self.store_object, "list")
        if lister is None:
            raise cannot(self.store_object, "cannot list its keys")
        found = lister(prefix)
        if hasattr(found, "__aiter__"):
            keys = [key async for key in found]
        else:
            keys = list(await found if hasattr(found, "__await__") else found)
        return list(children_of(keys, prefix)) if children else keys

    async def set_value(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        assert self.set is not None
        if absent and await self.store_object.get(key) is not None:
            return False
        await self.set(key, value)
        return None

    async def delete(self, key: str) -> None:
        delete = method_of(self.store_object, "delete", "erase")
        if delete is None:
            raise cannot(self.store_object, "cannot remove objects: it has no delete(key)")
        with contextlib.suppress(KeyError, FileNotFoundError):
            await delete(key)
