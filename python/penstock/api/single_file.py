"""Files that hold arrays of other formats: found by their first bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import CorruptDataError, Error, InvalidArgumentError, system_errors
from penstock.core.group import Group
from penstock.hdf5 import file as _hdf5
from penstock.netcdf import file as _netcdf
from penstock.references import kerchunk as _kerchunk
from penstock.references import manifest as _manifest
from penstock.references.kerchunk import is_folder_of_references
from penstock.tabular import opening as _tabular
from penstock.target.file_objects import ARCHIVE, archive_elsewhere
from penstock.target.local import local_file, path_here
from penstock.target.sniff import HEAD_BYTES, find_kind, kind_of

_MEMBER_URI = re.compile(r"(.+?://.+?\.(?:h5|hdf5|nc|nc4|he5))/([^?]+)", re.IGNORECASE)


# The module that opens each format, and the options of its own.
_FORMATS: dict[str, tuple[Callable[..., Array | Group], frozenset[str]]] = {
    "HDF5": (_hdf5.open_target, frozenset({"dataset"})),
    "NetCDF": (_netcdf.open_target, frozenset({"dataset"})),
    "manifest": (_manifest.open_target, frozenset({"missing", "allow_local"})),
    "references": (_kerchunk.open_target, frozenset({"missing", "allow_local"})),
    "Parquet or Arrow": (_tabular.open_target, frozenset({"columns", "nulls", "dtype"})),
}


def is_references(target: Any) -> bool:
    """True for a kerchunk document that is a dict, which a dict of stored bytes is not."""
    if not isinstance(target, dict) or not target:
        return False
    if isinstance(target.get("refs"), Mapping):
        return True
    zarr = any(isinstance(key, str) and key.rpartition("/")[2] in (".zgroup", ".zarray", "zarr.json") for key in target)
    return zarr and any(isinstance(value, str | list | tuple) for value in target.values())


def split_member(target: Any, path: str) -> tuple[Any, str]:
    """("model.nc", "group/t2m") if `target` is "model.nc/group/t2m" and model.nc is a file that holds many arrays.

    Returns the arguments as they are for any other target. Of a URI the suffix decides, without a request.
    """
    here = path_here(target)
    if here is None:
        found = _MEMBER_URI.match(target) if isinstance(target, str) else None
        return (target, path) if found is None else (found[1], _joined(found[2], path))
    if os.path.lexists(here):
        return target, path
    file = here.rstrip("/")
    while not os.path.lexists(file):
        parent = os.path.dirname(file)
        if parent in ("", file):
            return target, path
        file = parent
    if not os.path.isfile(file) or kind_of(file) is None:
        return target, path
    return file, _joined(here[len(file) :], path)


def _joined(member: str, path: str) -> str:
    return "/".join(part.strip("/") for part in (member, path) if part.strip("/"))


def open_file(
    target: Any, path: str, context: Context, storage_options: Mapping[str, Any] | None, options: dict[str, Any]
) -> Array | Group | None:
    """What `target` holds where it is a file of one of these formats (or its bytes); None where it is none."""
    if isinstance(target, str) and target.startswith("reference://"):
        return open_as("references", target, path, context, storage_options, options)
    if options.get("columns") is None:
        options.pop("columns", None)
    if isinstance(target, bytes | bytearray | memoryview):
        head = bytes(memoryview(target)[:HEAD_BYTES])
        view = memoryview(target)
        found = find_kind(head, lambda offset: bytes(view[offset : offset + 8]))
    else:
        file = local_file(target)
        if file is None:
            name = target.rstrip("/") if isinstance(target, str) else ""
            remote = "://" in name and name.rpartition(".")[2].lower() in ("h5", "hdf5", "nc", "nc4", "he5")
            if remote and not name.startswith("file:"):
                return _open_remote(target, path, context, storage_options, options)
            if "://" in name and not name.startswith("file:") and _is_remote_references(name, storage_options):
                return open_as("references", target, path, context, storage_options, options)
            folder = os.fspath(target) if isinstance(target, str | os.PathLike) else ""
            if isinstance(folder, str) and _holds_references(folder):
                return open_as("references", folder, path, context, storage_options, options)
            return None
        with system_errors(f"opening '{file}'"), open(file, "rb") as stream:
            head = stream.read(HEAD_BYTES)

            def at(offset: int) -> bytes:
                stream.seek(offset)
                return stream.read(8)

            found = find_kind(head, at)
        # An archive without bytes is a new one that nothing was written to, or whose write a power cut ended.
        if not head and os.path.getsize(file) == 0 and not os.fspath(file).endswith(".zip"):
            raise CorruptDataError(f"'{file}' has no bytes")
        target = file
    if found is None:
        if head.startswith(ARCHIVE) and not isinstance(target, str):
            raise archive_elsewhere("bytes")
        return None
    return open_as(found, target, path, context, storage_options, options)


def _holds_references(folder: str) -> bool:
    """References saved as Parquet: a folder with a .zmetadata that has a record size."""
    path = os.path.join(folder, ".zmetadata")
    if not folder or not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return b'"record_size"' in stream.read()


def _open_remote(
    url: str,
    path: str,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> Array | Group:
    """Opens a remote file with a name of HDF5 or NetCDF: as the former first, because most of them are."""
    try:
        return open_as("HDF5", url, path, context, storage_options, options)
    except CorruptDataError:
        with suppress(Error):
            if url.partition("?")[0].lower().endswith(".nc"):
                return open_as("NetCDF", url, path, context, storage_options, options)
        raise


def _is_remote_references(url: str, storage_options: Mapping[str, Any] | None) -> bool:
    """What has options of references; JSON by its name; a folder of Parquet by what it holds."""
    if any(name in (storage_options or {}) for name in ("remote_options", "remote_protocol")):
        return True
    suffix = url.partition("?")[0].rpartition(".")[2].lower()
    if suffix in ("parq", "parquet"):
        return is_folder_of_references(url, storage_options)
    return suffix == "json"


def open_as(
    name: str,
    target: Any,
    path: str,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> Array | Group:
    open_target, known = _FORMATS[name]
    unknown = set(options) - known
    if unknown:
        raise InvalidArgumentError(f"{name} files have no option {sorted(unknown)[0]!r}")
    return open_target(target, path, context, storage_options, **options)
