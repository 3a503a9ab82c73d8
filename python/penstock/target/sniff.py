"""Formats of files: the engine recognises their first bytes."""

from __future__ import annotations

import os
import re
from typing import Any, TypeGuard

from penstock import _core
from penstock.core.context import current_context
from penstock.core.errors import Error, system_errors
from penstock.target.file_objects import in_memory

_OPENS_AS_JSON = re.compile(rb"\s*\{\s*[\"}]")  # a single brace may belong to a number's text
_HEAD_BYTES = 4096
_NAMES = {
    "tiff": "a TIFF",
    "hdf5": "an HDF5 file",
    "netcdf": "a NetCDF file",
    "manifest": "a manifest file",
    "references": "a manifest file",
    "reference": "JSON",
    "table": "a Parquet or Arrow file",
    "npy": "a .npy file",
}


def driver_of(path: str) -> str | None:
    """The driver that recognises a local file: "hdf5", "netcdf", "table", ...; None if none does."""
    try:
        return _core.find_local(os.fsencode(path), current_context(), b"").driver
    except Error:
        return None


def driver_of_bytes(target: Any) -> str | None:
    """The same for the bytes of a file, or for an open file, whose position does not change."""
    if in_memory(target):
        begin = bytes(memoryview(target)[:_HEAD_BYTES])
    else:
        at = target.tell()
        begin = target.read(_HEAD_BYTES)
        target.seek(at)
    return _core.driver_of_bytes(begin, current_context()) if isinstance(begin, bytes) else None


def is_manifest(found: _core.Found | None) -> TypeGuard[_core.Found]:
    """Whether an object is a manifest: of `.npy` or raw files, of references, of tables or of arrays."""
    return found is not None and found.driver in ("references", "manifest")


def driver_by_name(name: str) -> str | None:
    """The driver whose objects have names with this ending; None if none has it."""
    return _core.driver_by_name(os.fsencode(name.partition("?")[0].rstrip("/")), current_context())


def format_by_name(name: str) -> str | None:
    """The format of files with such an ending, as for `open_shards`: "npy", "raw", "hdf5", "npz", "zarr", "tiff",
    "parquet" or "arrow"; None if no format has it.
    """
    return _core.shard_format_by_name(os.fsencode(name))


def endings_of(format: str) -> list[str]:
    """The endings of a format's names, each with its dot."""
    return _core.shard_endings(format.encode())


def known_format(path: str) -> str | None:
    """The format of a local file, in the words of errors; None if no format has its first bytes."""
    with system_errors(f"opening '{path}'"), open(path, "rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if _core.is_archive(head):
        return "a zip archive"
    driver = driver_of(path)
    if driver == "reference" and not _OPENS_AS_JSON.match(head):
        return None
    return _NAMES.get(driver or "")


def known_suffix(name: str) -> str | None:
    """The same for a folder or a remote file, by its name."""
    suffix = os.path.splitext(name.rstrip("/"))[1].lower()
    known = _core.shard_format_by_name(os.fsencode(f"x{suffix}")) not in (None, "raw")
    return f"a {suffix} by its name" if known or suffix in (".zip", ".json") else None
