"""HDF5 files: the sources from which the engine reads their bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import UnsupportedError
from penstock.core.group import Group
from penstock.hdf5.dimensions import DimensionNames
from penstock.references.objects import UNPICKLABLE
from penstock.target.file_objects import in_memory
from penstock.target.place import place_of
from penstock.target.remote import serves
from penstock.target.stores import pinned_store, remote_stamp
from penstock.target.without_ranges import content_without_ranges


@dataclass
class Source:
    """A file: the source from which the engine reads its bytes."""

    target: Any  # a path, bytes, or a remote URI
    context: Context
    storage_options: Mapping[str, Any] | None
    uri: str
    stamps: dict[str, tuple[Any, str]] = field(default_factory=dict, repr=False, compare=False)  # as in `Stamps`
    _dimensions: tuple[Any, DimensionNames] | None = field(default=None, repr=False, compare=False)
    _place: tuple[_core.Store, bytes, int | None] | None = field(default=None, repr=False, compare=False)
    _content: tuple[bytes | None] | None = field(default=None, repr=False, compare=False)  # None: not read yet

    @classmethod
    def of(cls, target: Any, context: Context, storage_options: Mapping[str, Any] | None) -> Source:
        if in_memory(target):
            return cls(bytes(target), context, None, "memory:")
        if "://" in target and not os.path.exists(target):
            return cls(target, context, storage_options, target)
        return cls.of_file(os.path.abspath(target), context)

    @classmethod
    def of_file(cls, path: str, context: Context) -> Source:
        """The source of a local file by its absolute path."""
        return cls(path, context, None, f"file://{path}")

    @classmethod
    def of_found(cls, found: _core.Found, context: Context) -> Source:
        """The source of a local file that the engine found."""
        root = found.store.uri.removeprefix("file://")
        made = cls.of_file(f"{root.rstrip('/')}/{os.fsdecode(found.key)}", context)
        made.use(found)
        return made

    def place(self, folders: dict[str, _core.Store] | None = None) -> tuple[_core.Store, bytes, int | None]:
        """The store that has the file, its key, and its size if the store does not report it.

        `folders`: known stores of local folders.
        """
        if self._place is None:
            if self.is_remote and serves(self.target, self.storage_options):
                self._place = *place_of(self.target, "", self.storage_options, self.context), None
            elif self._in_memory():
                pass
            elif self.is_remote:
                filesystem, path = self._filesystem()
                filesystem.invalidate_cache(path)
                stamp, name = remote_stamp(filesystem, path), path.rpartition("/")[2]
                store = pinned_store(filesystem, path, stamp)
                if stamp is not None:
                    self.stamps = {f"{store.uri.rstrip('/')}/{name}": (filesystem, stamp)}
                self._place = store, os.fsencode(name), filesystem.size(path)
            else:
                folder, name = os.path.split(self.target)
                known = {} if folders is None else folders
                if folder not in known:
                    known[folder] = _core.file_store(os.fsencode(folder))
                self._place = known[folder], os.fsencode(name), None
        assert self._place is not None
        return self._place

    def use(self, found: _core.Found) -> None:
        """Set the location at which the engine found the file."""
        self._place = found.store, found.key, None

    @property
    def is_reached_by_engine(self) -> bool:
        """Whether the file is in one of the engine's own stores, not in fsspec's."""
        return not self.is_remote or serves(self.target, self.storage_options)

    def _in_memory(self) -> bool:
        """Whether all bytes are in memory; the engine then reads them from there."""
        whole = self.content()
        if whole is not None:
            self._place = _core.dict_store({"file": whole}, None, False), b"file", None
        return whole is not None

    def without_ranges(self) -> bool:
        """Whether the engine refused the file because its server ignores ranges. It is in memory then."""
        return self.is_remote and self._content is None and self._in_memory()

    def content(self) -> bytes | None:
        """All bytes, if they are in memory: for bytes, and for files on servers that ignore ranges."""
        if isinstance(self.target, bytes):
            return self.target
        if self.is_remote and self._content is None:
            self._content = (content_without_ranges(*self._filesystem(), self.uri),)
        return self._content[0] if self._content is not None else None

    def _filesystem(self) -> tuple[Any, str]:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise UnsupportedError(f"opening '{self.uri}' needs the Python package fsspec") from error
        made: tuple[Any, str] = url_to_fs(self.uri, **dict(self.storage_options or {}))
        return made

    def dimension_names(self, named: Callable[[], DimensionNames]) -> DimensionNames:
        """For all datasets: the numbers of dimensions without a name depend on the whole file."""
        now = self.stamp()
        if self._dimensions is None or self._dimensions[0] != now:
            self._dimensions = now, named()
        return self._dimensions[1]

    @property
    def is_remote(self) -> bool:
        return bool(self.uri == self.target)

    @property
    def is_local(self) -> bool:
        """Whether it is a local file."""
        return not self.is_remote and not isinstance(self.target, bytes)

    def stamp(self) -> tuple[int, ...] | None:
        """A value that changes whenever the local file does."""
        if isinstance(self.target, bytes) or self.is_remote or not os.path.exists(self.target):
            return None
        status = os.stat(self.target)
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino

    def reopen(self, path: str) -> tuple[Any, tuple[Any, ...]]:
        target = UNPICKLABLE if isinstance(self.target, bytes) else self.target
        options = dict(self.storage_options) if self.storage_options else None
        return _reopen, (target, path, options)


def _reopen(target: str, path: str, storage_options: Mapping[str, Any] | None) -> Array | Group:
    node: Array | Group = registry.call("open", target, path, storage_options=storage_options)
    return node
