"""Formats of files, by their first bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from penstock.core.errors import system_errors
from penstock.tabular.arrow_messages import begins_stream

NPY_MAGIC = b"\x93NUMPY"
REFERENCES = b'{"penstock_manifest"'
_HDF5 = b"\x89HDF\r\n\x1a\n"
HEAD_BYTES = 4096


def _is_hdf5(head: bytes, at: Callable[[int], bytes]) -> bool:
    """The signature is at 0, 512, 1024, 2048, ...: a user block may precede it."""
    if head.startswith(_HDF5):
        return True
    offset = 512
    while offset <= 1 << 26:
        found = at(offset)
        if found == _HDF5:
            return True
        if len(found) < len(_HDF5):
            return False
        offset *= 2
    return False


def _is_manifest(head: bytes, at: Callable[[int], bytes]) -> bool:
    return head.startswith(b'{"penstock_manifest"')


def _is_json(head: bytes, at: Callable[[int], bytes]) -> bool:
    return head.lstrip()[:1] == b"{"


def _is_arrow(head: bytes, at: Callable[[int], bytes]) -> bool:
    return head.startswith((b"PAR1", b"ARROW1\x00\x00", b"\xff\xff\xff\xff")) or begins_stream(head)


def _is_netcdf(head: bytes, at: Callable[[int], bytes]) -> bool:
    return is_netcdf(head)


_KINDS: dict[str, Callable[[bytes, Callable[[int], bytes]], bool]] = {
    "NetCDF": _is_netcdf,
    "HDF5": _is_hdf5,
    "manifest": _is_manifest,
    "references": _is_json,
    "Parquet or Arrow": _is_arrow,
}


def is_tiff(data: bytes | bytearray | memoryview) -> bool:
    """Whether the first bytes are a TIFF's."""
    return bytes(memoryview(data)[:4]) in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def is_netcdf(data: bytes | bytearray | memoryview) -> bool:
    """Whether the first bytes are those of a NetCDF classic file."""
    return bytes(memoryview(data)[:4]) in (b"CDF\1", b"CDF\2", b"CDF\5")


def begins_as_tiff(path: str) -> bool:
    """Whether a file exists that begins as a TIFF does."""
    if not os.path.isfile(path):
        return False
    with system_errors(f"opening '{path}'"):
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return is_tiff(os.read(number, 4))
        finally:
            os.close(number)


def kind_of(path: str) -> str | None:
    """The format of a local file by its first bytes: "HDF5", "NetCDF", "manifest", ...; else None."""
    with open(path, "rb") as stream:
        head = stream.read(HEAD_BYTES)

        def at(offset: int) -> bytes:
            stream.seek(offset)
            return stream.read(8)

        found = find_kind(head, at)
    return found


# Formats that only `known_format` distinguishes from raw bytes.
_MAGIC = {
    b"\x93NUMPY": "a .npy file",
    b"PK\x03\x04": "a zip archive",
}
_OPENS_AS_JSON = re.compile(rb"\s*\{\s*[\"}]")  # a single brace may belong to a number


def known_format(path: str) -> str | None:
    """The format of a local file, as in errors; None: its bytes have no known beginning."""
    with open(path, "rb") as stream:
        head = stream.read(HEAD_BYTES)
    if is_tiff(head[:4]):
        return "a TIFF"
    kind = kind_of(path)
    if kind == "references" and not _OPENS_AS_JSON.match(head):
        kind = None
    if kind is not None:
        return {"HDF5": "an HDF5 file", "references": "JSON"}.get(kind, f"a {kind} file")
    return next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)


def known_suffix(name: str) -> str | None:
    """The same for a folder or a remote file, by its name."""
    suffix = os.path.splitext(name.rstrip("/"))[1].lower()
    known = (".npy", ".npz", ".zarr", ".tif", ".tiff", ".zip", ".json")
    return f"a {suffix} by its name" if suffix in known else None


def find_kind(head: bytes, at: Callable[[int], bytes]) -> str | None:
    """The result of `kind_of`, from the first bytes; `at` reads eight bytes at a later offset."""
    return next((name for name, is_one in _KINDS.items() if is_one(head, at)), None)
