"""Manifests: an array's metadata and where its chunks are, saved, so that later opens need not look again."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.errors import ConflictError, CorruptDataError, InvalidArgumentError, UnsupportedError
from penstock.references.objects import Described, Joined, Object, ReferencedArray, open_described
from penstock.shards import arrays as _array_shards
from penstock.shards.files import JoinedReferences, file_stamps, side_by_side
from penstock.shards.names import read_named, write_named
from penstock.shards.readers import JoinedArray
from penstock.shards.sharded_array import ShardedArray
from penstock.shards.sharded_array import open_saved as open_files
from penstock.shards.sharded_array import save_manifest as save_files
from penstock.tabular.shards import JoinedTables
from penstock.target.local import local_path
from penstock.target.locations import Document
from penstock.target.place import to_reopen
from penstock.target.sniff import REFERENCES
from penstock.target.stores import pinned_store, remote_stamp, remote_store

_VERSION = 1
_MOST_TABLE_BYTES = 1 << 31
_MOST_SMALL_TABLE_BYTES = 1 << 26  # as long as a table of less than 1 MB may be
_MOST_EXPANSION = 64  # of longer tables, once more; what is written stays below
_MOST_VARIANTS = 1000  # as many as an HDF5 dataset may have
_MOST_UNLISTED_EDGES = 1 << 20  # cells along the joined axis where the table lists fewer
_MOST_JOINED_VARIANTS = 60000  # joined files may end at as many different lengths


def save_references(
    array: ReferencedArray, path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> None:
    """Save where the chunks of an array of references are: a JSON document and, behind it, the table.

    Files of this machine beside the manifest are named relative to it, with their size and time of change: opening the
    manifest refuses where one is another by then.
    """
    name = local_path(os.fspath(path))
    if "://" in name:
        return write_named(name, [references_bytes(array, None)], storage_options)
    name = os.path.abspath(name)
    write_named(name, [references_bytes(array, os.path.dirname(name))])


def references_bytes(array: ReferencedArray, folder: str | None) -> bytes:
    """The same as bytes; `folder` is where they will lie, None: nowhere, and files are named by their whole paths."""
    described = array._described
    plain = _core.save_references(array)
    table = zlib.compress(plain, 1)
    if len(plain) > max(_MOST_SMALL_TABLE_BYTES, _MOST_EXPANSION * len(table)):
        packer = zlib.compressobj(1, strategy=zlib.Z_HUFFMAN_ONLY)  # expands eightfold at most
        table = packer.compress(plain) + packer.flush()
    document: dict[str, Any] = {
        "penstock_manifest": _VERSION,
        "kind": "references",
        "format": described.format,
        "uri": described.uri,
        "documents": described.documents,
        "variants": described.variants,
        "dimension_names": described.dimension_names,
        "objects": [_saved_object(each, folder) for each in described.objects],
        "table": {"bytes": len(table), "plain_bytes": len(plain), "crc32": zlib.crc32(table), "codec": "zlib"},
    }
    joined = described.joined
    if joined is not None:
        # Lengths repeat, and edges only count them up.
        lengths = np.diff(joined.edges)
        document["joined"] = {
            "axis": joined.axis,
            "cells": _run_lengths(lengths),
            "decoded": _run_lengths(joined.decoded),
        }
        document["shards"] = saved_shards(joined.shards, folder)
    return json.dumps(document).encode() + b"\n" + table


def _run_lengths(numbers: npt.NDArray[np.uint64]) -> list[list[int]]:
    """[number, how often] for each run of equal numbers."""
    if not len(numbers):
        return []
    starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    counts = np.diff(np.r_[starts, len(numbers)])
    return [[int(n), int(count)] for n, count in zip(numbers[starts], counts, strict=True)]


def _spread(runs: list[list[int]], most: int) -> npt.NDArray[np.uint64]:
    pairs = np.array(runs, np.uint64).reshape(-1, 2)
    if len(pairs) and (int(np.max(pairs[:, 1])) > most or int(np.sum(pairs[:, 1])) > most):
        raise ValueError("more chunks than the table has cells")
    return np.repeat(pairs[:, 0], pairs[:, 1].astype(np.int64))


def saved_shards(shards: dict[str, Any], folder: str | None) -> dict[str, Any]:
    """What was joined, with files relative to the manifest."""
    if "files" not in shards:
        return shards
    return {**shards, "files": [_relative(path, folder) for path in shards["files"]]}


def _relative(path: str, folder: str | None) -> str:
    if folder is None or "://" in path:
        return path
    below = os.path.relpath(path, folder)
    return os.path.abspath(path) if below.startswith("..") else below


def _saved_object(each: Object, folder: str | None) -> dict[str, Any]:
    if each.data is not None:
        return {"name": each.name, "data": base64.b64encode(each.data).decode()}
    if each.path is None:
        stamped = {} if each.remote_stamp is None else {"remote_stamp": each.remote_stamp}
        return {"name": each.name, **stamped}
    stamp: Sequence[int] | None = each.stamp  # what it was when its index was read
    if stamp is None:
        try:
            status = os.stat(each.path)
            stamp = [status.st_size, status.st_mtime_ns]
        except FileNotFoundError:
            stamp = None
    saved = {"name": each.name, "path": _relative(each.path, folder), "stamp": stamp}
    return saved if each.crc32c is None else {**saved, "crc32c": each.crc32c}


def _parts(saved: bytes, path: str) -> tuple[dict[str, Any], bytes]:
    """The document of a manifest and what stands behind it."""
    line, _, rest = saved.partition(b"\n")
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"the manifest '{path}' is damaged: {error}") from error
    if not isinstance(document, dict):
        raise CorruptDataError(f"the manifest '{path}' is no JSON object")
    if document.get("penstock_manifest") != _VERSION:
        version = document.get("penstock_manifest")
        raise UnsupportedError(f"a manifest of version {version!r} is not readable: '{path}'")
    return document, rest


def is_saved(begin: bytes) -> bool:
    """Whether bytes begin a manifest, of files or of references."""
    return _core.is_manifest(begin[:64]) or begin.startswith(REFERENCES)


def open_saved(
    saved: bytes,
    path: str,
    context: Context,
    missing: str = "error",
    storage_options: Mapping[str, Any] | None = None,
    allow_local: bool | None = None,
) -> Array:
    """The array of a manifest of either kind that was read from `path`."""
    if _core.is_manifest(saved[:64]):
        return open_files(saved, path, context, storage_options, missing, allow_local=allow_local)
    return open_bytes(saved, path, context, missing, storage_options, allow_local)


def open_target(
    path: str,
    inner: str,
    context: Context,
    storage_options: Any,
    missing: str = "error",
    allow_local: bool | None = None,
    expected: Collection[str] = (),
) -> Array:
    """The array of a manifest of references. `expected`: local files that it may name, wherever it is."""
    if not isinstance(path, str):
        raise UnsupportedError("a manifest is not opened from bytes: open it by its path")
    if inner:
        raise InvalidArgumentError(f"a manifest is one array, it has no '{inner}'")
    saved = read_named(path, storage_options)
    return open_bytes(saved, path, context, missing, storage_options, allow_local, expected)


def open_bytes(
    saved: bytes,
    path: str,
    context: Context,
    missing: str,
    storage_options: Mapping[str, Any] | None = None,
    allow_local: bool | None = None,
    expected: Collection[str] = (),
) -> Array:
    """The array of a manifest that was read from `path`; empty: it lay nowhere, with whole paths."""
    document, table = _parts(saved, path)
    trusted = Document.of(path, allow_local, expected)
    if missing not in ("error", "fill"):
        raise InvalidArgumentError(f"missing must be 'error' or 'fill', it is {missing!r}")
    if document.get("kind") == "tables":
        from penstock.tabular.shards import open_saved

        return open_saved(document, path, context, missing, storage_options, trusted)
    if document.get("kind") == _array_shards.KIND:
        return _array_shards.open_saved(document, path, context, missing, trusted)
    if document.get("kind") != "references":
        raise UnsupportedError(f"a manifest of {document.get('kind')!r} is not opened by its path alone")
    try:
        described = _described(document, table, path, missing, storage_options, trusted)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptDataError(f"the manifest '{path}' is damaged: {error!r}") from error
    if described.joined is not None:
        return JoinedReferences.open(described, context)
    options = dict(storage_options) if storage_options else None
    name = path if "://" in path else os.path.abspath(path)
    return open_described(described, context, (_reopen, (name, missing, options, allow_local)))


def _described(
    document: dict[str, Any],
    table: bytes,
    path: str,
    missing: str,
    storage_options: Mapping[str, Any] | None,
    trusted: Document,
) -> Described:
    facts = document["table"]
    if len(table) != facts["bytes"] or zlib.crc32(table) != facts["crc32"]:
        raise CorruptDataError(f"the manifest '{path}' is damaged: its table has another checksum")
    folder = os.path.dirname(os.path.abspath(path)) if path and "://" not in path else ""
    unpack = zlib.decompressobj()
    most = min(max(_MOST_SMALL_TABLE_BYTES, _MOST_EXPANSION * len(table)), _MOST_TABLE_BYTES)
    plain = unpack.decompress(table, most)
    if not unpack.eof and len(plain) == most:
        raise UnsupportedError(f"the table of the manifest '{path}' has more than {most} bytes, in {len(table)}")
    if not unpack.eof:
        raise CorruptDataError(f"the manifest '{path}' is damaged: its table does not end")
    if len(document["variants"]) > (_MOST_JOINED_VARIANTS if "joined" in document else _MOST_VARIANTS):
        raise ValueError(f"{len(document['variants'])} chains of codecs")
    stores: dict[str, _core.Store] = {}
    found = _Found(folder, missing, stores, storage_options, trusted)
    names = document["dimension_names"]
    return Described(
        document["documents"],
        plain,
        _objects(document["objects"], found),
        str(document["format"]),
        str(document["uri"]),
        [
            ([int(i) for i in skipped], None if shape is None else tuple(shape))
            for skipped, shape in document["variants"]
        ],
        None if names is None else tuple(names),
        missing,
        joined=_joined(document, plain, folder) if "joined" in document else None,
    )


def _joined(document: dict[str, Any], table: bytes, folder: str) -> Joined:
    facts = document["joined"]
    cells = int.from_bytes(table[16:24], "little")
    listed = min(int.from_bytes(table[8:16], "little"), len(table))  # each takes a byte at least
    most = min(cells, max(listed, _MOST_UNLISTED_EDGES))
    lengths, decoded = _spread(facts["cells"], most), _spread(facts["decoded"], most)
    edges = np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)]) if len(lengths) else lengths
    return Joined(int(facts["axis"]), edges, decoded, known_shards(document["shards"], folder))


def known_shards(saved: dict[str, Any], folder: str) -> dict[str, Any]:
    """What `saved_shards` saved."""
    if "files" not in saved:
        return saved
    files = [path if "://" in path else os.path.join(folder, path) for path in saved["files"]]
    return {**saved, "files": [os.path.normpath(path) if "://" not in path else path for path in files]}


@dataclass
class _Found:
    """Where the objects of a manifest are looked for."""

    folder: str
    missing: str
    stores: dict[str, _core.Store]
    storage_options: Mapping[str, Any] | None
    document: Document  # which decides what the manifest may name


def _remote_object(saved: dict[str, Any], where: _Found) -> Object:
    name = where.document.check(str(saved["name"]))
    base, _, key = name.rpartition("/")
    where.document.check(base, name)
    store = where.stores.get(base) or remote_store(base, where.storage_options)
    if store is None:
        raise ValueError(f"no store for {name!r}")
    where.stores[base] = store
    made = Object(name, store, key)
    made.storage_options = to_reopen(name, where.storage_options)
    made.remote_stamp = saved.get("remote_stamp")
    if made.remote_stamp is not None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            return made
        filesystem, path = url_to_fs(name, **dict(where.storage_options or {}))
        now = remote_stamp(filesystem, path)
        gone = now == "gone" and where.missing == "fill"
        if now is not None and now != made.remote_stamp and not gone:
            raise ConflictError(f"'{name}' changed since the manifest was saved: save it again")
        if now == made.remote_stamp:
            made.store, made.key = pinned_store(filesystem, path, now), path.rpartition("/")[2]
    return made


def _objects(saved: list[dict[str, Any]], where: _Found) -> list[Object]:
    paths = [where.document.check(os.path.join(where.folder, each["path"])) for each in saved if "path" in each]
    stamps = dict(zip(paths, file_stamps(paths), strict=True))

    def made(each: dict[str, Any]) -> Object:
        return _object(each, where, stamps)

    asks = any("remote_stamp" in each for each in saved)  # for each of these
    return side_by_side(made, saved) if asks else [made(each) for each in saved]


def _object(saved: dict[str, Any], where: _Found, stamps: Mapping[str, tuple[int, int] | None]) -> Object:
    if "data" in saved:
        return Object(saved["name"], data=base64.b64decode(saved["data"]))
    if "path" not in saved:
        return _remote_object(saved, where)
    folder, stores = where.folder, where.stores
    path = os.path.join(folder, saved["path"])
    stamp = saved["stamp"]
    now = stamps[path]
    if None not in (now, stamp) and now != tuple(stamp):
        raise ConflictError(f"'{path}' changed since the manifest was saved: save it again")
    place, name = os.path.split(path)
    crc32c = saved.get("crc32c")
    store = stores.get(place) or stores.setdefault(place, _core.file_store(os.fsencode(place)))
    made = Object(saved["name"], store, name, pinned=now is not None, path=path)
    made.stamp = None if stamp is None else (int(stamp[0]), int(stamp[1]))
    made.crc32c = None if crc32c is None else int(crc32c)
    return made


def _reopen(
    path: str,
    missing: str,
    storage_options: dict[str, Any] | None = None,
    allow_local: bool | None = None,
) -> Array:
    return open_target(path, "", current_context(), storage_options, missing, allow_local)


def save_manifest(
    array: Array, path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Save what opening `array` took: its metadata and where each chunk is. `penstock.open(path)` reads it.

    `path` may be a URI of a store that can be written to, with its `storage_options`; that of Parquet and Arrow files
    and of `.npy` files in both item orders is a file of this machine.

    For arrays of HDF5 files, of references, and of many files (of Zarr and TIFF only what a manifest opened):
    `penstock.open_shards(path)` reads those too. That of `.npy` and raw files is JSON where the name ends with ".json".
    A file that changed since is noticed when the manifest is opened (of `.npy`, raw, Parquet and Arrow files: when they
    are read), and one that changes later when it is read.
    """
    if isinstance(array, JoinedTables):
        if "://" in local_path(os.fspath(path)):
            raise UnsupportedError(f"manifests of tables are files of this machine, not '{os.fspath(path)}'")
        return array.save(path)
    if isinstance(array, ShardedArray | JoinedArray):
        return save_files(array, path, storage_options=storage_options)
    if not isinstance(array, ReferencedArray):
        raise InvalidArgumentError(f"'{array.uri}' is {array.format}: a manifest is one of references")
    save_references(array, path, storage_options)
