"""Files that hold arrays of other formats: found by their first bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import CorruptDataError, Error, InvalidArgumentError, UnsupportedError, system_errors
from penstock.core.group import Group
from penstock.geo.tiff import is_tiff
from penstock.tabular.arrow_messages import begins_stream
from penstock.target.file_objects import ARCHIVE, archive_elsewhere
from penstock.target.place import file_place, local_path

_HDF5 = b"\x89HDF\r\n\x1a\n"
_MEMBER_URI = re.compile(r"(.+?://.+?\.(?:h5|hdf5|nc|nc4|he5))/([^?]+)", re.IGNORECASE)
_HEAD_BYTES = 4096
_BEGIN_BYTES = 64  # of what is elsewhere


def _is_hdf5(head: bytes, at: Callable[[int], bytes]) -> bool:
    """The signature stands at 0, 512, 1024, 2048, ...: before it may lie a block of the user's."""
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


# What a file is, whether it is one (by its first bytes, and others), the module that opens it, and its own options.
_FORMATS: dict[str, tuple[Callable[[bytes, Callable[[int], bytes]], bool], str, frozenset[str]]] = {
    "HDF5": (_is_hdf5, "penstock.hdf5.file", frozenset({"dataset"})),
    "manifest": (_is_manifest, "penstock.references.manifest", frozenset({"missing", "allow_local"})),
    "references": (_is_json, "penstock.references.kerchunk", frozenset({"missing", "allow_local"})),
    "Parquet or Arrow": (_is_arrow, "penstock.tabular.table", frozenset({"columns", "nulls", "dtype"})),
}


def path_here(target: Any) -> str | None:
    """The path on this machine that `target` is, whatever is there; None where it is something else."""
    if not isinstance(target, str):
        if not hasattr(target, "__fspath__"):
            return None
        target = os.fsdecode(target)
    target = local_path(target)
    return target if "://" not in target and not target.startswith("zip:") else None


def local_file(target: Any) -> str | None:
    """The same where it is a file's."""
    path = path_here(target)
    return path if path is not None and os.path.isfile(path) else None


def begins_as_tiff(path: str) -> bool:
    """Whether there is a file that begins as a TIFF does."""
    if not os.path.isfile(path):
        return False
    with system_errors(f"opening '{path}'"):
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return is_tiff(os.read(number, 4))
        finally:
            os.close(number)


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
        return _open("references", target, path, context, storage_options, options)
    if options.get("columns") is None:
        options.pop("columns", None)
    if isinstance(target, bytes | bytearray | memoryview):
        head = bytes(memoryview(target)[:_HEAD_BYTES])
        view = memoryview(target)
        found = _find(head, lambda offset: bytes(view[offset : offset + 8]))
    else:
        file = local_file(target)
        if file is None:
            name = target.rstrip("/") if isinstance(target, str) else ""
            remote = "://" in name and name.rpartition(".")[2].lower() in ("h5", "hdf5", "nc", "nc4", "he5")
            if remote and not name.startswith("file:"):
                return _open("HDF5", target, path, context, storage_options, options)
            if "://" in name and not name.startswith("file:") and _is_remote_references(name, storage_options):
                return _open("references", target, path, context, storage_options, options)
            folder = os.fspath(target) if isinstance(target, str | os.PathLike) else ""
            if isinstance(folder, str) and _holds_references(folder):
                return _open("references", folder, path, context, storage_options, options)
            return None
        with system_errors(f"opening '{file}'"), open(file, "rb") as stream:
            head = stream.read(_HEAD_BYTES)

            def at(offset: int) -> bytes:
                stream.seek(offset)
                return stream.read(8)

            found = _find(head, at)
        # An archive without bytes is a new one that nothing was written to, or whose write a power cut ended.
        if not head and os.path.getsize(file) == 0 and not os.fspath(file).endswith(".zip"):
            raise CorruptDataError(f"'{file}' has no bytes")
        target = file
    if found is None:
        if head.startswith(ARCHIVE) and not isinstance(target, str):
            raise archive_elsewhere("bytes")
        if head.startswith(b"CDF"):
            raise UnsupportedError("NetCDF of the classic format (version 3) is not readable, NetCDF4 is")
        return None
    return _open(found, target, path, context, storage_options, options)


def open_elsewhere(
    target: Any, path: str, context: Context, storage_options: Mapping[str, Any] | None, options: dict[str, Any]
) -> Array | Group | None:
    """The same of a URI whose name says nothing: one request for its first bytes, another where there are none."""
    from penstock.api.shards import open_begun
    from penstock.api.store_files import open_in_store
    from penstock.references.kerchunk import is_folder_of_references

    if not isinstance(target, str | os.PathLike | bytes | bytearray | memoryview):
        return open_in_store(target, path, context, options)
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
        return _open("references", target, path, context, storage_options, options)
    if head.startswith(ARCHIVE):
        raise archive_elsewhere(target)
    if not path and (made := open_begun(target, head, context, storage_options, options)) is not None:
        return made
    found = _find(head, lambda offset: b"")  # what stands behind the first bytes would be a request each
    return None if found is None else _open(found, target, path, context, storage_options, options)


def _holds_references(folder: str) -> bool:
    """References saved as Parquet: a folder with a .zmetadata that has a record size."""
    path = os.path.join(folder, ".zmetadata")
    if not folder or not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return b'"record_size"' in stream.read()


def _is_remote_references(url: str, storage_options: Mapping[str, Any] | None) -> bool:
    """What has options of references; JSON by its name; a folder of Parquet by what it holds."""
    if any(name in (storage_options or {}) for name in ("remote_options", "remote_protocol")):
        return True
    suffix = url.partition("?")[0].rpartition(".")[2].lower()
    if suffix in ("parq", "parquet"):
        from penstock.references.kerchunk import is_folder_of_references

        return is_folder_of_references(url, storage_options)
    return suffix == "json"


def kind_of(path: str) -> str | None:
    """What a file of this machine is by its first bytes: "HDF5", "Parquet or Arrow", "manifest", "references", None."""
    with open(path, "rb") as stream:
        head = stream.read(_HEAD_BYTES)

        def at(offset: int) -> bytes:
            stream.seek(offset)
            return stream.read(8)

        found = _find(head, at)
    return found


# What only `known_format` has to tell from raw bytes.
_MAGIC = {
    b"\x93NUMPY": "a .npy file",
    b"PK\x03\x04": "a zip archive",
    b"CDF\x01": "a NetCDF file",
    b"CDF\x02": "a NetCDF file",
    b"CDF\x05": "a NetCDF file",
}
_OPENS_AS_JSON = re.compile(rb"\s*\{\s*[\"}]")  # a brace alone may be a number's


def known_format(path: str) -> str | None:
    """The format of a file of this machine, as errors name it; None: its bytes say nothing."""
    with open(path, "rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if is_tiff(head[:4]):
        return "a TIFF"
    kind = kind_of(path)
    if kind == "references" and not _OPENS_AS_JSON.match(head):
        kind = None
    if kind is not None:
        return {"HDF5": "an HDF5 file", "references": "JSON"}.get(kind, f"a {kind} file")
    return next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)


def known_suffix(name: str) -> str | None:
    """The same of a folder or of what is elsewhere, by its name."""
    suffix = os.path.splitext(name.rstrip("/"))[1].lower()
    known = (".npy", ".npz", ".zarr", ".tif", ".tiff", ".zip", ".json")
    return f"a {suffix} by its name" if suffix in known else None


def _find(head: bytes, at: Callable[[int], bytes]) -> str | None:
    return next((name for name, (is_one, _, _) in _FORMATS.items() if is_one(head, at)), None)


def _open(
    name: str,
    target: Any,
    path: str,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> Array | Group:
    _, module, known = _FORMATS[name]
    unknown = set(options) - known
    if unknown:
        raise InvalidArgumentError(f"{name} files have no option {sorted(unknown)[0]!r}")
    opened: Array | Group = import_module(module).open_target(target, path, context, storage_options, **options)
    return opened
