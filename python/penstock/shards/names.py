"""The files that a pattern, a folder or a list names, and their format."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock import _core
from penstock.core.context import current_context
from penstock.core.errors import InvalidArgumentError, NotFoundError, system_errors
from penstock.target.local import local_path
from penstock.target.place import file_place, place_of
from penstock.target.sniff import format_by_name

FORMATS = ("npy", "raw", "hdf5", "parquet", "arrow", "zarr", "tiff")
"""The values of `format=`: .npy and raw files are opened by the engine, the others in special ways."""

_ZARR_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zmetadata")


def names_of(files: Any) -> str | list[Any]:
    """The `files` argument: one name, or a list of names and other members."""
    if isinstance(files, bytes | bytearray):
        raise InvalidArgumentError(f"names of files are str or paths, not {type(files).__name__}: {files!r}")
    if isinstance(files, str | os.PathLike):
        return local_path(_text(files))
    try:
        given = list(files)
    except TypeError:
        text = f"files are a pattern, a folder or a list, not {type(files).__name__}"
        raise InvalidArgumentError(text) from None
    return [local_path(_text(each)) if isinstance(each, str | os.PathLike) else each for each in given]


def _text(name: str | os.PathLike[Any]) -> str:
    made = os.fspath(name)
    return made if isinstance(made, str) else os.fsdecode(made)


def is_wild(name: str) -> bool:
    return _core.is_shard_pattern(os.fsencode(name))


def object_named(name: str, storage_options: Mapping[str, Any] | None) -> _core.Found | None:
    """The one file or object with this name, and its first bytes; None for a pattern, a folder, or a missing file."""
    if "://" not in name:
        if not os.path.isfile(name):
            return None
        store, key = place_of(os.path.abspath(name), "", is_object=True)
        return _core.object_at(store, current_context(), key)
    if is_wild(name):
        return None
    store, inner = file_place(name, storage_options)
    if not inner or inner.endswith("/"):
        return None
    return _core.object_at(store, current_context(), os.fsencode(inner))


def is_zarr_folder(name: str) -> bool:
    """Whether the name is that of a Zarr folder; of a URI, by its ending. A group of `.zarr` members is a folder."""
    named = format_by_name(name.rstrip("/")) == "zarr"
    if "://" in name:
        return named and not is_wild(name)
    if "*" in name or "?" in name:  # a pattern; names of folders with brackets are looked up
        return False
    if not any(os.path.isfile(os.path.join(name, each)) for each in _ZARR_DOCUMENTS):
        return False
    return named or not any(format_by_name(each) == "zarr" for each in os.listdir(name))


def is_node(name: str, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether the name is that of one file or object, or of a Zarr folder."""
    return is_zarr_folder(name) or object_named(name, storage_options) is not None


def read_named(name: str, storage_options: Mapping[str, Any] | None = None) -> bytes:
    """All bytes of the one file or object of this name."""
    if "://" not in name:
        with open(name, "rb") as file:
            return file.read()
    store, key = file_place(name, storage_options)
    found = store.get(key)
    if found is None:
        raise NotFoundError(f"there is no '{name}'")
    return found


class Files:
    """The files of the caller, in the engine's form: a store and keys within it."""

    def __init__(
        self,
        files: str | Sequence[str],
        allow_gaps: bool,
        storage_options: Mapping[str, Any] | None,
        format: str | None = None,
    ) -> None:
        def open_folder(folder: bytes) -> tuple[_core.Store, bytes]:
            return place_of(os.fsdecode(folder), "", storage_options, is_folder=True)

        names = os.fsencode(files) if isinstance(files, str) else [os.fsencode(each) for each in files]
        self.found = _core.find_shard_files(names, current_context(), allow_gaps, format, open_folder)
        self.store, self.keys = self.found.store, self.found.keys

    def paths(self, most: int | None = None) -> list[str]:
        """The files' names in the form for `open`; only the first `most`."""
        return [os.fsdecode(each) for each in self.found.names(most)]

    def format(self) -> str:
        """The format of the first file: by its bytes, or by its name if they do not decide."""
        return self.found.format()


def write_atomically(path: str, parts: Iterable[Any], ordered: bool = False) -> None:
    """Replace a file by `parts`, atomically: after a power cut it is the old one or the new one.

    `ordered`: after a power cut the file is the new one only if earlier names in its folder exist too.
    """
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with system_errors(f"writing '{path}'"):
            with open(draft, "wb") as file:
                for part in parts:
                    file.write(part)
                sync_file(file)
            if ordered:
                sync_names([path])
            os.replace(draft, path)
    except FileNotFoundError as failure:
        raise NotFoundError(f"there is no folder '{os.path.dirname(path)}' to write into") from failure
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def _syncs() -> bool:
    return current_context().sync != "none"


def sync_file(file: Any) -> None:
    """Return when the bytes of an open file are on the storage device; at once if the context waives it."""
    if _syncs():
        file.flush()
        _sync(file.fileno())


def sync_names(paths: Iterable[str]) -> None:
    """Return when the names of these files are on the storage device, in their folders and in the folders above
    them within this file system.
    """
    if not _syncs():
        return
    done: set[str] = set()
    for path in paths:
        folder = os.path.dirname(os.path.abspath(path))
        while folder not in done:
            done.add(folder)
            with system_errors(f"syncing the folder '{folder}'"):
                try:
                    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                except PermissionError:  # this process did not create it
                    break
                try:
                    _sync(number)
                finally:
                    os.close(number)
            above = os.path.dirname(folder)
            if above == folder or os.path.ismount(folder):
                break
            folder = above


def _sync(number: int) -> None:
    try:
        os.fsync(number)
    except OSError as failure:
        if failure.errno not in (errno.EINVAL, errno.ENOSYS):  # a file system without this function
            raise


def write_named(path: str, parts: Iterable[Any], storage_options: Mapping[str, Any] | None = None) -> None:
    """Replace the file or object with this name by `parts`, atomically."""
    if "://" not in path:  # the files may be elsewhere, with options for that place
        write_atomically(path, parts)
        return
    store, key = file_place(path, storage_options)
    store.put(key, b"".join(bytes(part) for part in parts))
    store.flush()
