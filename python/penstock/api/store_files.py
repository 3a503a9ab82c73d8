"""Files elsewhere: at a URI whose name says nothing, in a store, an open file of fsspec."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock import _core
from penstock.api.npy import open_begun, open_npy
from penstock.api.single_file import open_as, open_file
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import Error
from penstock.core.group import Group
from penstock.hdf5.file import open_source
from penstock.hdf5.source import Source
from penstock.references.kerchunk import is_folder_of_references
from penstock.references.objects import UNPICKLABLE, Object
from penstock.tabular.opening import open_target as open_table
from penstock.target.file_objects import ARCHIVE, archive_elsewhere, fsspec_place
from penstock.target.local import local_path, path_here
from penstock.target.place import file_place, place_of
from penstock.target.sniff import NPY_MAGIC, find_kind

_BEGIN_BYTES = 64
_MEMBER = re.compile(r"(.+?\.(?:h5|hdf5|nc|nc4|he5))/(.+)", re.IGNORECASE)
_HDF5, _ARROW = b"\x89HDF\r\n\x1a\n", (b"PAR1", b"ARROW1\x00\x00", b"\xff\xff\xff\xff")


def open_elsewhere(
    target: Any, path: str, context: Context, storage_options: Mapping[str, Any] | None, options: dict[str, Any]
) -> Array | Group | None:
    """The same of a URI whose name says nothing: one request for its first bytes, another where there are none."""
    if not isinstance(target, str | os.PathLike | bytes | bytearray | memoryview):
        return open_in_store(target, path, context, options)
    if (file := _file_in_folder(target, path)) is not None:
        made: Array | Group = registry.call("open", file, context=context, **options)
        return made
    if not isinstance(target, str) or "://" not in target or target.startswith(("file:", "zip:")):
        return None
    try:
        store, key = file_place(target, storage_options)
        head = store.begin(key, _BEGIN_BYTES)
    except Error:
        if options:
            raise
        return None  # that nothing was found says more
    if head is None:
        if not is_folder_of_references(target, storage_options):
            return None
        return open_as("references", target, path, context, storage_options, options)
    if head.startswith(ARCHIVE):
        raise archive_elsewhere(target)
    if not path and (begun := open_begun(target, head, context, storage_options, options)) is not None:
        return begun
    found = find_kind(head, lambda offset: b"")  # later bytes would be a request each
    return None if found is None else open_as(found, target, path, context, storage_options, options)


def _file_in_folder(target: Any, path: str) -> str | None:
    """The path of a file of this machine that `path` leads to or into, below a folder."""
    folder = path_here(target)
    parts = path.split("/")
    if folder is None or not os.path.isdir(folder) or any(each in ("", ".", "..") for each in parts):
        return None
    for count in range(1, len(parts) + 1):
        if os.path.isfile(os.path.join(folder, *parts[:count])):
            return os.path.join(folder, *parts)
    return None


def open_in_store(target: Any, path: str, context: Context, options: Mapping[str, Any]) -> Array | Group | None:
    """The file of another format that a store has at `path`, or that an open file of fsspec is; None: there is none."""

    try:
        store, raw = place_of(target, path, None, context)
        key = os.fsdecode(raw)
        member, inner = _MEMBER.fullmatch(key), ""
        head = None
        with contextlib.suppress(*([Error] if member else [])):  # a store of files says that there is no such folder
            head = store.begin(key, _BEGIN_BYTES) if key else None
        if head is None and member:
            key, inner = member.groups()
            head = store.begin(key, _BEGIN_BYTES)
    except Error:
        if options:
            raise
        return None  # that nothing was found says more
    if head is None or (inner and not head.startswith(_HDF5)):
        return None
    if head.startswith(NPY_MAGIC):
        return open_npy(store, raw, context, None, options)
    if not head.startswith((_HDF5, *_ARROW, ARCHIVE)):
        return None
    if store.uri.startswith("file:"):
        path = os.path.join(local_path(store.uri), key)
        opened: Array | Group = registry.call("open", path, inner, context=context, **options)
        return opened
    if head.startswith(ARCHIVE):
        raise archive_elsewhere(key)
    stream = _stream_of(target, key)
    if head.startswith(_ARROW) or stream is None:
        whole = store.get(key)
        if whole is None:
            return None
        if head.startswith(_ARROW):
            return open_table(whole, "", context, None, **options)
        return open_file(whole, inner, context, None, dict(options))
    return open_source(_StoreSource(store, key, stream, context), inner, **options)


class _StoreSource(Source):
    """An HDF5 file in a store. Where h5py has to read, it reads through a stream."""

    def __init__(self, store: _core.Store, key: str, stream: Callable[[], Any], context: Context) -> None:
        super().__init__(None, context, None, f"{store.uri.rstrip('/')}/{key}")
        self.store, self.key, self.stream = store, key, stream

    @property
    def is_remote(self) -> bool:
        return True

    def place(self) -> tuple[_core.Store, bytes, int | None]:
        if self._place is None:
            with self.stream() as stream:
                self._place = self.store, os.fsencode(self.key), int(stream.seek(0, os.SEEK_END))
        return self._place

    def begin(self) -> Any:
        return self.stream()

    def content(self) -> bytes | None:
        return None

    def read_at(self, offset: int, length: int) -> bytes:
        with self.begin() as stream:
            stream.seek(offset)
            made: bytes = stream.read(length)
            return made

    def file_object(self) -> Object:
        return Object(self.uri, self.store, self.key)

    def stamp(self) -> None:
        return None

    def reopen(self, path: str) -> tuple[Any, tuple[Any, ...]]:
        return _refuse_to_reopen, (UNPICKLABLE,)


def _refuse_to_reopen(*arguments: Any) -> Any:
    raise TypeError("files in stores cannot be opened again elsewhere")


class _Reader(io.RawIOBase):
    """A reader of obstore as Python's files are."""

    def __init__(self, reader: Any) -> None:
        self.reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self.reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self.reader.tell())

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = memoryview(self.reader.read(len(view))).cast("B")
        view[: len(data)] = data
        return len(data)


def _stream_of(target: Any, key: str) -> Callable[[], Any] | None:
    """Opens the file by ranges, where the store has a way to; None: it gives whole objects."""
    file = fsspec_place(target)
    if file is not None:
        return lambda: file[0].open(file[1], "rb")
    kind = type(target)
    if kind.__module__.split(".")[0] == "fsspec" and hasattr(target, "fs") and hasattr(target, "root"):
        return lambda: target.fs.open(f"{target.root.rstrip('/')}/{key}", "rb")
    if kind.__module__ == "zarr.storage._obstore":
        target = target.store
    if type(target).__module__.split(".")[0] == "obstore":
        import obstore

        return lambda: io.BufferedReader(_Reader(obstore.open_reader(target, key)))
    return None
