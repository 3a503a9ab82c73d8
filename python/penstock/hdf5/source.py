"""HDF5 files: how h5py opens one, and where the engine finds its bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import (
    CorruptDataError,
    NotFoundError,
    UnsupportedError,
    system_errors,
)
from penstock.core.group import Group
from penstock.hdf5.dimensions import DimensionNames, ScaleNames, all_dimension_names
from penstock.references.objects import UNPICKLABLE, Object
from penstock.target.place import place_of, to_reopen
from penstock.target.remote import serves
from penstock.target.stores import pinned_store, remote_stamp
from penstock.target.without_ranges import content_without_ranges


def import_h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        text = "open_shards of HDF5 files needs the Python package h5py (pip install h5py)"
        raise UnsupportedError(text) from error
    return h5py


@dataclass
class Source:
    """A file: how h5py opens it, and where the engine finds its bytes."""

    target: Any  # a path, bytes, or a remote URI
    context: Context
    storage_options: Mapping[str, Any] | None
    uri: str
    _dimensions: tuple[Any, DimensionNames] | None = field(default=None, repr=False, compare=False)
    _scales: tuple[Any, ScaleNames] = field(default_factory=lambda: (None, {}), repr=False, compare=False)
    _place: tuple[_core.Store, bytes, int | None] | None = field(default=None, repr=False, compare=False)
    _content: tuple[bytes | None] | None = field(default=None, repr=False, compare=False)  # None: not read yet

    @classmethod
    def of(cls, target: Any, context: Context, storage_options: Mapping[str, Any] | None) -> Source:
        if isinstance(target, bytes | bytearray | memoryview):
            return cls(bytes(target), context, None, "memory:")
        if "://" in target and not os.path.exists(target):
            return cls(target, context, storage_options, target)
        path = os.path.abspath(target)
        return cls(path, context, None, f"file://{path}")

    def place(self) -> tuple[_core.Store, bytes, int | None]:
        """The store that has the file for the engine, its key, and its size where the store does not report it."""
        if self._place is None:
            if self.is_remote and serves(self.target, self.storage_options):
                self._place = *place_of(self.target, "", self.storage_options, self.context), None
            elif self._in_memory():
                pass
            elif self.is_remote:
                filesystem, path = self._filesystem()
                file = self.file_object()
                assert file.store is not None
                self._place = file.store, os.fsencode(file.key), int(filesystem.size(path))
            else:
                folder, name = os.path.split(self.target)
                self._place = _core.file_store(os.fsencode(folder)), os.fsencode(name), None
        assert self._place is not None
        return self._place

    def use(self, found: _core.Found) -> None:
        """Takes the place where the engine found the file."""
        self._place = found.store, found.key, None

    @property
    def is_reached_by_engine(self) -> bool:
        """Whether the engine's own stores have the file, and not fsspec's."""
        return not self.is_remote or serves(self.target, self.storage_options)

    def _in_memory(self) -> bool:
        """Whether all bytes are in memory; then the engine reads them there."""
        whole = self.content()
        if whole is not None:
            self._place = _core.dict_store({"file": whole}, None, False), b"file", None
        return whole is not None

    def without_ranges(self) -> bool:
        """Whether the engine refused the file because its server ignores ranges. It is in memory then."""
        return self.is_remote and self._content is None and self._in_memory()

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The h5py file. Closed again at once: nothing of the library stays between reads."""
        h5py = import_h5py()
        stream = self.begin()
        try:
            file = h5py.File(stream, "r")
        except OSError as error:
            if isinstance(stream, str) and not os.path.exists(stream):
                raise NotFoundError(f"there is no file '{stream}'") from error
            if error.errno:  # the system's, not of what is in the file
                with system_errors(f"opening '{self.target}'"):
                    raise
            raise CorruptDataError(f"HDF5 cannot open the file: {error}", f"opening '{self.uri}'") from error
        with file:
            yield file

    def begin(self) -> Any:
        """What h5py opens: a path or a stream."""
        whole = self.content()
        if whole is not None:
            return io.BytesIO(whole)
        if self.is_remote:
            filesystem, path = self._filesystem()
            return filesystem.open(path, "rb")
        return self.target

    def content(self) -> bytes | None:
        """All bytes, where they are in memory: of bytes, and of files of servers that ignore ranges."""
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

    def read_at(self, offset: int, length: int) -> bytes:
        """Bytes of the file."""
        whole = self.content()
        if whole is not None:
            return whole[offset : offset + length]
        if self.is_remote:
            filesystem, path = self._filesystem()
            made: bytes = filesystem.cat_file(path, offset, offset + length)
            return made
        with open(self.target, "rb") as stream:
            stream.seek(offset)
            return stream.read(length)

    def file_object(self) -> Object:
        """The file as the engine reads it, pinned to what it is now."""
        whole = self.content()
        if whole is not None:
            return Object("memory:", data=whole)
        if self.is_remote:
            filesystem, path = self._filesystem()
            filesystem.invalidate_cache(path)
            stamp = remote_stamp(filesystem, path)
            made = Object(self.uri, pinned_store(filesystem, path, stamp), path.rpartition("/")[2])
            made.storage_options = to_reopen(self.uri, self.storage_options)
            made.remote_stamp = stamp
            return made
        folder, name = os.path.split(self.target)
        status = os.stat(self.target)
        return Object(
            self.target,
            _core.file_store(os.fsencode(folder)),
            name,
            pinned=True,
            path=self.target,
            stamp=(status.st_size, status.st_mtime_ns),
        )

    def holder(self, file: Any, found: Any) -> Source:
        """The file that `found` lies in, of what was found in the open `file`: a link may have led into another."""
        from h5py import h5o

        if h5o.get_info(found.id).fileno == h5o.get_info(file.id).fileno:
            return self
        name = found.file.filename
        if isinstance(self.target, bytes) or self.is_remote or not os.path.isfile(name):
            text = "links into other HDF5 files are followed only in files that are opened by a path"
            raise UnsupportedError(text)
        return Source.of(os.path.abspath(name), self.context, None)

    def dimension_names(self, named: Callable[[], DimensionNames]) -> DimensionNames:
        """Of all datasets: numbers of dimensions without a name depend on all that the file holds."""
        now = self.stamp()
        if self._dimensions is None or self._dimensions[0] != now:
            self._dimensions = now, named()
        return self._dimensions[1]

    def named_by_h5py(self) -> DimensionNames:
        """What `dimension_names` keeps, where links lead into other files."""
        with self.opened() as file:

            def check(group: Any) -> None:
                check_links(self.holder(file, group).file_object(), group)

            return all_dimension_names(file, check)

    def scale_names(self, stamp: tuple[int, ...] | None) -> ScaleNames | None:
        """The cache of scale names for the file's state `stamp`; None if its state is not known."""
        if stamp is None:
            return None
        if self._scales[0] != stamp:
            self._scales = stamp, {}
        return self._scales[1]

    @property
    def is_remote(self) -> bool:
        return bool(self.uri == self.target)

    @property
    def is_local(self) -> bool:
        """Whether it is a file of this machine."""
        return not self.is_remote and not isinstance(self.target, bytes)

    def stamp(self) -> tuple[int, ...] | None:
        """What changes whenever a local file does."""
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


def check_links(file: Object, group: Any) -> None:
    """The library lists the links of a damaged group to its own end, and that of the process."""
    from h5py import h5o

    place = file.place()
    if place is None:
        return
    with suppress(UnsupportedError):
        _core.hdf5_check_group(*place, h5o.get_info(group.id).addr)
