"""Open files instead of their names."""

from __future__ import annotations

import io
import os
import threading
from typing import Any

import numpy as np


def in_memory(target: Any) -> bool:
    """Whether `target` is the bytes of a file. NumPy has them as one row of `uint8`: `numpy.memmap`, `fromfile`."""
    if isinstance(target, np.ndarray):
        return target.dtype == np.uint8 and target.ndim == 1
    return isinstance(target, bytes | bytearray | memoryview)


def is_file(target: Any) -> bool:
    """An object with `read` and `seek`: an open file, or a similar object. (Except fsspec's, which have locations.)"""
    is_open = callable(getattr(target, "read", None)) and callable(getattr(target, "seek", None))
    return is_open and fsspec_place(target) is None


class ReaderStore:
    """A file that obstore has opened (`obstore.open_reader`), as a store with one object that is read by ranges.

    The file's position stays the caller's: it is restored after each read.
    """

    KEY = "file"

    def __init__(self, reader: Any) -> None:
        self.size = int(reader.size)
        self._reader, self._lock = reader, threading.Lock()

    def get(self, key: str) -> bytes | None:
        return self.get_range(key, 0, self.size)

    def get_range(self, key: str, offset: int, length: int) -> bytes | None:
        if key != self.KEY:
            return None
        left = max(min(length, self.size - offset), 0)
        parts = []
        with self._lock:
            place = self._reader.tell()
            try:
                self._reader.seek(offset)
                while left and (part := bytes(self._reader.read(left))):
                    parts.append(part)
                    left -= len(part)
            finally:
                self._reader.seek(place)
        return b"".join(parts)

    def getsize(self, key: str) -> int | None:
        return self.size if key == self.KEY else None


def is_reader(target: Any) -> bool:
    """Whether `target` is a file that obstore has opened."""
    kind = type(target)  # its module is `builtins` in some releases
    return kind.__name__ == "ReadableFile" and hasattr(kind, "size") and hasattr(kind, "seek")


def as_store(target: Any, path: str) -> tuple[Any, str]:
    """A file system of fsspec as a mapper, with the path in it: a path there or a URI. Other targets are returned
    unchanged."""
    if not hasattr(target, "get_mapper"):
        return target, path
    classes = (f"{each.__module__}.{each.__qualname__}" for each in type(target).__mro__)
    if "fsspec.spec.AbstractFileSystem" not in classes:
        return target, path
    if "://" in path:
        path = target._strip_protocol(path)
    if "://" not in path:
        return target.get_mapper("/"), path
    scheme, _, place = path.partition("://")  # file systems of web servers name files by URLs
    host, _, inner = place.partition("/")
    return target.get_mapper(f"{scheme}://{host}"), inner


def fsspec_place(target: Any) -> tuple[Any, str] | None:
    """(file system, path) of a file of fsspec, open or not yet, which is then read by ranges; else None."""
    fs, path = getattr(target, "fs", None), getattr(target, "path", None)
    if not isinstance(path, str) or not callable(getattr(fs, "cat_file", None)) or not hasattr(target, "mode"):
        return None
    return (fs, path) if getattr(target, "compression", None) is None else None


def contents(file: Any) -> bytes | str:
    """The path of a local file, or all bytes of another file object.

    A name is not enough: members of archives have their names in the archive, and compressed files that of their
    content. So only a file that the system itself opened counts, if its name still refers to it.
    """
    if isinstance(file, io.TextIOWrapper):
        file = file.buffer
    path = _path(file)
    if path is not None:
        return path
    if hasattr(file, "getvalue"):
        return bytes(file.getvalue())
    place = file.tell() if _can_seek(file) else None
    if place is not None:
        file.seek(0)
    made = file.read()
    if place is not None:
        file.seek(place)
    return bytes(made)


def _path(file: Any) -> str | None:
    raw = file.raw if isinstance(file, io.BufferedReader | io.BufferedRandom | io.BufferedWriter) else file
    if not isinstance(raw, io.FileIO) or not isinstance(raw.name, str | bytes | os.PathLike):
        return None
    try:
        if not isinstance(file, io.BufferedReader):
            file.flush()
        path = os.path.abspath(os.fsdecode(raw.name))
        return path if os.path.samestat(os.fstat(raw.fileno()), os.stat(path)) else None
    except (OSError, ValueError):  # deleted since, or closed
        return None


def _can_seek(file: Any) -> bool:
    seekable = getattr(file, "seekable", None)
    return not callable(seekable) or bool(seekable())
