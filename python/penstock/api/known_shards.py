"""`manifest=` of `open_shards`: the contents of a manifest of the same files, opened with the same arguments."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import ConflictError, CorruptDataError, InvalidArgumentError, UnsupportedError
from penstock.references.manifest import open_manifest_bytes
from penstock.references.objects import ReferencedArray
from penstock.shards import arrays as _array_shards
from penstock.shards.files import file_stamps
from penstock.shards.names import Files, object_named
from penstock.shards.readers import JoinedArray
from penstock.shards.sharded_array import ShardedArray, changed_stamps, sharded
from penstock.tabular.shards import JoinedTables
from penstock.target.sniff import is_manifest


def known_manifest(
    path: str | os.PathLike[str],
    found: Files,
    axis: int,
    raw: Mapping[str, Any] | None,
    context: Context,
    storage_options: Mapping[str, Any] | None,
) -> ShardedArray | JoinedArray | None:
    """The array of the manifest at `path`, if it describes the current state of these files, opened with the same
    arguments."""
    name = os.fspath(path)
    known = object_named(name, storage_options)
    if known is not None and known.driver == "references" and raw is None:
        return _known_arrays(name, known, found, axis, context)
    if known is None or known.driver != "manifest":
        _check_cache(name, known)
        return None
    saved = known.content()
    try:
        made = _core.open_manifest(found.store, context, saved)
    except (CorruptDataError, UnsupportedError):  # written again
        return None
    files = _core.shard_files(made)
    if [each[0] for each in files] != found.keys or (made.format == "raw") != (raw is not None):
        return None
    rank = len(made.shape)
    if not -rank <= axis < rank or _core.shard_axis(made) != axis % rank:
        return None
    if raw is not None and not _is_as_asked(made, files, axis % rank, raw):
        return None
    changed = _core.shards_changed(made) or changed_stamps(saved, made, None, storage_options, False)
    return None if changed else sharded(made, storage_options)


def _known_arrays(manifest: str, known: _core.Found, found: Files, axis: int, context: Context) -> JoinedArray | None:
    """The same for files in both item orders."""

    try:
        made = open_manifest_bytes(known.content(), manifest, context, "error")
    except (ConflictError, CorruptDataError, UnsupportedError):
        return None
    if not isinstance(made, JoinedArray):
        return None
    parts = _array_shards.saved_parts(made)
    if parts is None or {part.format for part in parts} != {"npy"}:
        return None
    paths = [os.path.abspath(path) for path in found.paths()]
    if [part.path for part in parts] != paths or axis not in (made._joined_along, made._joined_along - made.ndim):
        return None
    stamps = [None if stamp is None else list(stamp) for stamp in file_stamps(paths)]
    return made if stamps == [part.stamp for part in parts] else None


def _is_as_asked(made: _core.Array, files: list[Any], axis: int, raw: Mapping[str, Any]) -> bool:
    """Whether raw files were interpreted in the way that `raw` describes."""
    descr, fortran = _core.shard_items(made)
    if _items(descr) != _items(raw["dtype"]) or (fortran != raw["fortran_order"] and len(made.shape) > 1):
        return False
    row = [*made.shape[:axis], *made.shape[axis + 1 :]]
    wanted = raw["row_shape"] or []
    rows = raw["rows"] or [None] * len(files)
    if raw["shape"] is not None:
        if len(raw["shape"]) != len(made.shape):
            return False
        wanted = [*raw["shape"][:axis], *raw["shape"][axis + 1 :]]
        rows = [raw["shape"][axis]] * len(files)
    return row == wanted and all(
        offset == raw["offset"] and n in (None, length) for (_, length, offset, _), n in zip(files, rows, strict=True)
    )


def _items(descr: str) -> Any:
    return json.loads(descr) if descr.startswith("[") else descr


def known_references(
    path: str | os.PathLike[str],
    kind: str,
    files: list[str],
    arguments: tuple[Any, ...],
    axis: int,
    context: Context,
    storage_options: Mapping[str, Any] | None,
) -> Array | None:
    """The array of the manifest at `path`, if it describes these files."""

    name = os.fspath(path)
    known = object_named(name, storage_options)
    if known is None or known.driver != "references":
        _check_cache(name, known)
        return None
    try:
        made = open_manifest_bytes(known.content(), name, context, "error", storage_options, expected=frozenset(files))
    except (ConflictError, CorruptDataError):  # written again
        return None
    if isinstance(made, JoinedTables) and made.changed():
        return None
    joined = made._joined if isinstance(made, ReferencedArray) else None
    if joined is None or joined.shards.get("files") != files:
        return None
    if isinstance(made, JoinedTables):
        columns, nulls, dtype = arguments
        choice = made.choice
        names = [each.name for each in choice.columns]
        same = names == ([columns] if isinstance(columns, str) else list(columns or names))
        same = same and choice.joined != isinstance(columns, str) and (dtype is None or np.dtype(dtype) == choice.dtype)
        same = same and (choice.nulls is None if isinstance(nulls, str) else _is_same(choice.nulls, nulls))
        return made if same and kind != "hdf5" else None
    assert isinstance(made, ReferencedArray)
    dataset, rank = arguments[0], len(made.shape)
    same = joined.shards.get("dataset") == dataset if dataset else joined.shards.get("only") is True
    same = same and -rank <= axis < rank and joined.shards.get("axis") == axis % rank
    return made if same and kind == "hdf5" else None


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values are equal, or both NaN."""
    return bool(a == b) or bool(a != a and b != b)


def _check_cache(name: str, known: _core.Found | None) -> None:
    """Refuse to overwrite a file that is not a manifest."""
    if os.path.isdir(name) or (known is not None and known.begin and not is_manifest(known)):
        raise InvalidArgumentError(f"manifest='{name}' exists and is not a manifest; refusing to overwrite it")
