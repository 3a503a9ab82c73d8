"""Manifests: an array's metadata and where its chunks are, saved, so that later opens need not look again."""

from __future__ import annotations

import base64
import json
import os
import zlib
from typing import Any

from penstock import _core
from penstock._array import Array
from penstock._context import Context
from penstock._errors import ConflictError, CorruptDataError, InvalidArgumentError, UnsupportedError, _make
from penstock._references import Described, Object, ReferencedArray, open_described
from penstock._shards import ShardedArray
from penstock._shards import save_manifest as save_files

_VERSION = 1
_MOST_TABLE_BYTES = 1 << 31
_MOST_VARIANTS = 1000  # as many as an HDF5 dataset may have


def save_references(array: ReferencedArray, path: str | os.PathLike[str]) -> None:
    """Save where the chunks of an array of references are: a JSON document and, behind it, the table.

    Files beside the manifest are named relative to it, with their size and time of change: opening the manifest
    refuses where one is another by then.
    """
    described = array._described
    table = zlib.compress(_core.save_references(array), 1)
    folder = os.path.dirname(os.path.abspath(path))
    document = {
        "penstock_manifest": _VERSION,
        "kind": "references",
        "format": described.format,
        "uri": described.uri,
        "documents": described.documents,
        "variants": described.variants,
        "dimension_names": described.dimension_names,
        "objects": [_saved_object(each, folder) for each in described.objects],
        "table": {"bytes": len(table), "crc32": zlib.crc32(table), "codec": "zlib"},
    }
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as stream:
            stream.write(json.dumps(document).encode() + b"\n" + table)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _saved_object(each: Object, folder: str) -> dict[str, Any]:
    if each.data is not None:
        return {"name": each.name, "data": base64.b64encode(each.data).decode()}
    if each.path is None:
        return {"name": each.name}
    try:
        status = os.stat(each.path)
        stamp: list[int] | None = [status.st_size, status.st_mtime_ns]
    except FileNotFoundError:
        stamp = None
    relative = os.path.relpath(each.path, folder)
    return {"name": each.name, "path": each.path if relative.startswith("..") else relative, "stamp": stamp}


def load_manifest(path: str) -> tuple[dict[str, Any], bytes]:
    """The document of a manifest and what stands behind it."""
    with open(path, "rb") as stream:
        line = stream.readline()
        rest = stream.read()
    try:
        document = json.loads(line)
    except ValueError as error:
        raise _make(CorruptDataError, f"the manifest '{path}' is damaged: {error}") from error
    if not isinstance(document, dict):
        raise _make(CorruptDataError, f"the manifest '{path}' is no JSON object")
    if document.get("penstock_manifest") != _VERSION:
        version = document.get("penstock_manifest")
        raise _make(UnsupportedError, f"a manifest of version {version!r} is not readable: '{path}'")
    return document, rest


def open_target(path: str, inner: str, context: Context, storage_options: Any, missing: str = "error") -> Array:
    """The array of a manifest of references."""
    document, table = load_manifest(path)
    if inner:
        raise _make(InvalidArgumentError, f"a manifest is one array, it has no '{inner}'")
    if missing not in ("error", "fill"):
        raise _make(InvalidArgumentError, f"missing must be 'error' or 'fill', it is {missing!r}")
    if document.get("kind") != "references":
        raise _make(UnsupportedError, f"a manifest of {document.get('kind')!r} is not opened by its path alone")
    try:
        described = _described(document, table, path, missing)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise _make(CorruptDataError, f"the manifest '{path}' is damaged: {error!r}") from error
    return open_described(described, context, (_reopen, (os.path.abspath(path), missing)))


def _described(document: dict[str, Any], table: bytes, path: str, missing: str) -> Described:
    facts = document["table"]
    if len(table) != facts["bytes"] or zlib.crc32(table) != facts["crc32"]:
        raise _make(CorruptDataError, f"the manifest '{path}' is damaged: its table has another checksum")
    folder = os.path.dirname(os.path.abspath(path))
    unpack = zlib.decompressobj()
    plain = unpack.decompress(table, _MOST_TABLE_BYTES)
    if not unpack.eof:
        raise _make(CorruptDataError, f"the manifest '{path}' is damaged: its table does not end")
    if len(document["variants"]) > _MOST_VARIANTS:
        raise ValueError(f"{len(document['variants'])} chains of codecs")
    names = document["dimension_names"]
    return Described(
        document["documents"],
        plain,
        [_object(each, folder, missing) for each in document["objects"]],
        str(document["format"]),
        str(document["uri"]),
        [
            ([int(i) for i in skipped], None if shape is None else tuple(shape))
            for skipped, shape in document["variants"]
        ],
        None if names is None else tuple(names),
        missing,
    )


def _object(saved: dict[str, Any], folder: str, missing: str) -> Object:
    if "data" in saved:
        return Object(saved["name"], data=base64.b64decode(saved["data"]))
    if "path" not in saved:
        from penstock._stores import remote_store

        base, _, name = saved["name"].rpartition("/")
        store = remote_store(base, None)
        if store is None:
            raise ValueError(f"no store for {saved['name']!r}")
        return Object(saved["name"], store, name)
    path = os.path.join(folder, saved["path"])
    stamp = saved["stamp"]
    there = os.path.exists(path)
    if there and stamp is not None:
        status = os.stat(path)
        if [status.st_size, status.st_mtime_ns] != list(stamp):
            raise _make(ConflictError, f"'{path}' changed since the manifest was saved: save it again")
    where, name = os.path.split(path)
    return Object(saved["name"], _core.file_store(os.fsencode(where)), name, pinned=there, path=path)


def _reopen(path: str, missing: str) -> Array:
    from penstock._context import current_context

    return open_target(path, "", current_context(), None, missing)


def save_manifest(array: Array, path: str | os.PathLike[str]) -> None:
    """Save what opening `array` took: its metadata and where each chunk is. `penstock.open(path)` reads it.

    For arrays of HDF5 files, of references, and of many `.npy` or raw files, which `penstock.open_shards(path)` reads
    too: their manifest is JSON where the name ends with ".json". A file that changed since is noticed when the manifest
    is opened (of `.npy` and raw files: when they are read), and one that changes later when it is read.
    """
    if isinstance(array, ShardedArray):
        return save_files(array, path)
    if not isinstance(array, ReferencedArray):
        raise _make(InvalidArgumentError, f"'{array.uri}' is {array.format}: a manifest is one of references")
    save_references(array, path)
