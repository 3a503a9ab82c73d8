"""Versions of remote objects, which manifests pin, and which reads of files over fsspec expect."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from penstock import _core
from penstock.core.errors import ConflictError
from penstock.shards.files import side_by_side
from penstock.target.adapters.pinned import PinnedFsspecAdapter, stamp_of
from penstock.target.remote import serves
from penstock.target.stores import remote_stamp


class Stamps:
    """Finds the stamps of remote objects, once for each. Called by the engine with their URLs.

    `opened`: by URL, the file systems of objects and their stamps when they were opened. Another stamp is a
    `ConflictError`.
    """

    def __init__(
        self, storage_options: Mapping[str, Any] | None, opened: Mapping[str, tuple[Any, str]] | None = None
    ) -> None:
        self._options = dict(storage_options or {})
        self._opened = dict(opened or {})
        self._known: dict[str, str] = {}

    def __call__(self, urls: list[str]) -> list[str]:
        new = [url for url in dict.fromkeys(urls) if url not in self._known]
        self._known.update(zip(new, side_by_side(self._now, new), strict=True))
        return [self._known[url] for url in urls]

    def _now(self, url: str) -> str:
        """Return "" if no version is known: any version matches then."""
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            return ""
        try:
            filesystem, path = url_to_fs(url, **self._options)
        except (ImportError, ValueError):  # fsspec does not serve it
            return ""
        if hasattr(filesystem, "invalidate_cache"):
            filesystem.invalidate_cache(path)
        stamp = remote_stamp(filesystem, path)
        opened_by, before = self._opened.get(url, (None, None))
        if stamp is not None and stamp != before and _are_alike(filesystem, opened_by):
            raise ConflictError(f"'{url}' changed since it was opened")
        return "" if stamp is None or stamp == "gone" else stamp


def _are_alike(a: Any, b: Any) -> bool:
    """Whether two file systems of fsspec report the same facts about a file. Each thread has its own."""

    def made_by(fs: Any) -> tuple[Any, ...]:
        return type(fs), getattr(fs, "storage_args", ()), getattr(fs, "storage_options", {})

    return made_by(a) == made_by(b)


class PinnedFiles:
    """Files that fsspec reads, each in the version that it has now, before its first byte is read.

    Reads expect these versions, at the cost of a request, once the files are open: from `compare` on.
    """

    def __init__(self, adapter: PinnedFsspecAdapter, uri: str, stamps: Mapping[str, str]) -> None:
        self._adapter = adapter
        adapter.pin(stamps)
        adapter.compares = False
        self.store = _core.object_store(adapter, uri, adapter.is_asynchronous)
        self.stamps = {f"{uri}/{key}": (adapter.fs, stamp) for key, stamp in stamps.items()}

    def compare(self) -> None:
        """Compare the version at each read from now on."""
        self._adapter.compares = True

    @classmethod
    def of_paths(
        cls, first: str, store: _core.Store, keys: Sequence[bytes], storage_options: Mapping[str, Any] | None
    ) -> PinnedFiles | None:
        """Pin files in a place; None for places of the engine and other libraries.

        `first`: the path or URI of the first. `store`, `keys`: where all are.
        """
        if "://" not in first or serves(first, storage_options):
            return None
        try:
            from fsspec.core import url_to_fs

            fs, path = url_to_fs(first, **dict(storage_options or {}))
        except (ImportError, ValueError, TypeError):  # obstore serves it
            return None
        root, key = path, os.fsdecode(keys[0])
        if not root.endswith(key):
            return None
        return cls._of(fs, root[: len(root) - len(key)].rstrip("/"), store, keys)

    @classmethod
    def of_store(cls, target: Any, store: _core.Store, keys: Sequence[bytes]) -> PinnedFiles | None:
        """Pin files in a store object; None if it is not a mapper of fsspec."""
        if type(target).__module__.split(".")[0] != "fsspec" or not (hasattr(target, "fs") and hasattr(target, "root")):
            return None
        return cls._of(target.fs, target.fs._strip_protocol(target.root).rstrip("/"), store, keys)

    @classmethod
    def _of(cls, fs: Any, root: str, store: _core.Store, keys: Sequence[bytes]) -> PinnedFiles | None:
        is_local = type(fs).__module__ == "fsspec.implementations.local"
        if is_local or not keys or not hasattr(fs, "invalidate_cache"):
            return None

        adapter = PinnedFsspecAdapter(fs, root, {})

        def stamp(key: str) -> str | None:
            try:
                info = adapter.info(key)
            except Exception:  # a server that does not support that request
                return None
            return None if info is None or info.get("type") == "directory" else stamp_of(info)

        names = [os.fsdecode(key) for key in keys]
        first = stamp(names[0])
        if first is None:  # a folder: Zarr
            return None
        found = zip(names, [first, *side_by_side(stamp, names[1:])], strict=True)
        return cls(adapter, store.uri.rstrip("/"), {key: made for key, made in found if made is not None})
