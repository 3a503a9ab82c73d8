"""HDF5 files that are objects of a store."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

from penstock import _core
from penstock.core.context import Context
from penstock.hdf5.source import Source
from penstock.references.objects import UNPICKLABLE
from penstock.target.file_objects import ReaderStore, fsspec_place
from penstock.target.without_ranges import content_without_ranges


def source_in_store(target: Any, found: _core.Found, context: Context) -> tuple[Source, bool]:
    """The file that was found in the store of `target`, and whether it is read from there; otherwise, its bytes are in
    memory.

    A store that returns only whole objects is read once.
    """
    key = os.fsdecode(found.key)
    if isinstance(target, ReaderStore):
        made = _StoreSource(found.store, key, None, context)
        made._place = found.store, found.key, target.size
        return made, True
    whole = _whole_of(target, key)
    if whole is not None:
        return Source.of(whole, context, None), False
    stream = _stream_of(target, key)
    if stream is not None:
        return _StoreSource(found.store, key, stream, context), True
    return Source.of(found.content(), context, None), False


class _StoreSource(Source):
    """An HDF5 file in a store, whose size is known, or known from a stream."""

    def __init__(self, store: _core.Store, key: str, stream: Callable[[], Any] | None, context: Context) -> None:
        super().__init__(None, context, None, f"{store.uri.rstrip('/')}/{key}")
        self.store, self.key, self.stream = store, key, stream

    @property
    def is_remote(self) -> bool:
        return True

    def place(self, folders: dict[str, _core.Store] | None = None) -> tuple[_core.Store, bytes, int | None]:
        if self._place is None:
            assert self.stream is not None
            with self.stream() as stream:
                self._place = self.store, os.fsencode(self.key), int(stream.seek(0, os.SEEK_END))
        return self._place

    @property
    def is_reached_by_engine(self) -> bool:
        return True

    def content(self) -> bytes | None:
        return None

    def stamp(self) -> None:
        return None

    def reopen(self, path: str) -> tuple[Any, tuple[Any, ...]]:
        return _refuse_to_reopen, (UNPICKLABLE,)


def _refuse_to_reopen(*arguments: Any) -> Any:
    raise TypeError("files in stores cannot be opened again elsewhere")


class _Reader(io.RawIOBase):
    """A reader of obstore with the interface of Python's files."""

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


def _whole_of(target: Any, key: str) -> bytes | None:
    """All bytes of a file of fsspec whose web server ignores ranges; None for any other file."""
    file = fsspec_place(target)
    if file is None and type(target).__module__.split(".")[0] == "fsspec" and hasattr(target, "root"):
        file = target.fs, f"{target.root.rstrip('/')}/{key}"
    if file is None or getattr(file[0], "protocol", None) != ("http", "https"):
        return None
    if file[0].info(file[1]).get("partial"):  # the server announces ranges
        return None
    return content_without_ranges(*file, file[1])


def _stream_of(target: Any, key: str) -> Callable[[], Any] | None:
    """Open the file by ranges, if the store supports them; None: it returns whole objects only."""
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
