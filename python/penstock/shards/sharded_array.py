"""The array of `.npy` or raw files, and the manifest with the facts about them."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.errors import ConflictError, InvalidArgumentError
from penstock.core.sizes import counted
from penstock.shards import arrays as _array_shards
from penstock.shards.files import complain, side_by_side
from penstock.shards.names import write_named
from penstock.shards.readers import JoinedArray
from penstock.target import remote as _remote
from penstock.target.local import local_path
from penstock.target.locations import Document
from penstock.target.place import file_place, folder_of, place_of
from penstock.target.remote import to_reopen
from penstock.target.stores import remote_stamp

_STAMPS = "stamps"


class ShardedArray(Array):
    """An array of `.npy` or raw files: its pickle has all facts about them, so that no header is read again."""

    _missing = "error"

    def __reduce__(self) -> tuple[Any, ...]:
        local = self.uri.startswith(("file:", "zip:"))
        if not local and self._storage_options is None:
            return super().__reduce__()
        manifest = _core.save_manifest(self, b"", False, [])
        return _unpickle, (root_of(self), manifest, None if local else self._storage_options, self._missing)


def sharded(made: _core.Array, storage_options: Mapping[str, Any] | None, missing: str = "error") -> ShardedArray:
    """`made`, with the arguments by which another process finds its files."""
    out = ShardedArray(made)
    out._storage_options = to_reopen(out.uri, storage_options)
    out._missing = missing
    return out


def root_of(array: _core.Array) -> str:
    """The folder above the keys of `array`'s files."""
    files = _core.shard_files(array)
    first = os.fsdecode(files[0][0])
    uri: str = array.uri  # of many files: "<root><first> ... <last>", and names may have " ... " in them
    end = len(uri) if len(files) == 1 else uri.rfind(" ... ")
    while end > 0:
        if uri.endswith(first, 0, end):
            return uri[: end - len(first)]
        end = uri.rfind(" ... ", 0, end)
    return uri.split(" ... ")[0]


def _unpickle(
    root: str, manifest: bytes, storage_options: Mapping[str, Any] | None = None, missing: str = "error"
) -> ShardedArray:
    return _from_manifest(root, manifest, current_context(), storage_options, missing)


def _from_manifest(
    root: str,
    manifest: bytes,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    missing: str = "error",
) -> ShardedArray:
    if missing not in ("error", "fill"):
        raise InvalidArgumentError(f"missing must be 'error' or 'fill', got {missing!r}")
    store, inner = place_of(root, "", storage_options, is_folder=True)
    return sharded(_core.open_manifest(store, context, manifest, missing == "fill", inner), storage_options, missing)


def save_manifest(
    array: Any,
    path: str | os.PathLike[str],
    *,
    checksums: Sequence[int] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write the facts about an array's files, for later opens and other processes: `open_shards(path)`.

    A name that ends with ".json" gets JSON, every other one a shorter binary form (except for files of fsspec). The
    file is replaced atomically. Times and sizes identify the files' contents: `open_shards` does not verify them, and a
    read fails if a file has other ones. If the manifest is in the files' folder, or above, both can be moved together.
    """
    if isinstance(array, JoinedArray):
        return _array_shards.save_joined(array, local_path(os.fspath(path)))
    root = root_of(array) if _core.shard_files(array) else array.uri
    name = local_path(os.fspath(path))
    if "://" in name:
        store, key = file_place(name, storage_options)
        folder = f"{store.uri.rstrip('/')}/{key.rpartition('/')[0]}".rstrip("/")
        below = f"{root.rstrip('/')}/"
        kept = (below[len(folder) + 1 :].strip("/") or ".") if below.startswith(f"{folder}/") else root
    else:
        name = os.path.abspath(name)
        kept = root
        if root.startswith("file://"):
            folder = os.path.abspath(root[len("file://") :])
            relative = os.path.relpath(folder, os.path.dirname(name))
            kept = relative if not relative.startswith("..") else folder
    stamps = _stamps_of(array, root, array._storage_options or storage_options)
    text = _core.save_manifest(array, os.fsencode(kept), name.endswith(".json") or bool(stamps), list(checksums))
    if stamps:
        text = json.dumps({**json.loads(text), _STAMPS: stamps}, indent=1).encode()
    write_named(name, [text], storage_options)


def _stamps_of(array: _core.Array, root: str, storage_options: Mapping[str, Any] | None) -> list[str | None]:
    """fsspec's facts about each file's version, if its store has none; nothing for files of other stores."""
    if "://" not in root or root.startswith(("file:", "zip:")) or _remote.serves(root, storage_options):
        return []
    try:
        fs, folder = importlib.import_module("fsspec.core").url_to_fs(root, **dict(storage_options or {}))
    except (ImportError, ValueError):
        return []
    names = [f"{folder.rstrip('/')}/{os.fsdecode(key)}" for key, *_ in _core.shard_files(array)]
    return side_by_side(partial(remote_stamp, fs), names)


def changed_stamps(
    saved: bytes, array: _core.Array, root: str | None, storage_options: Mapping[str, Any] | None, may_be_gone: bool
) -> list[str]:
    """The files that changed since the manifest was saved, among those whose reads do not detect it."""
    stamps = json.loads(saved).get(_STAMPS) if saved.startswith(b"{") and f'"{_STAMPS}"'.encode() in saved else None
    if not stamps:
        return []
    now = _stamps_of(array, root_of(array) if root is None else root, storage_options)
    names = [os.fsdecode(key) for key, *_ in _core.shard_files(array)]
    return [
        f"'{name}'"
        for name, was, is_now in zip(names, stamps, now, strict=False)
        if None not in (was, is_now) and was != is_now and not (may_be_gone and is_now == "gone")
    ]


def open_saved(
    saved: bytes,
    name: str,
    context: Context | None,
    storage_options: Mapping[str, Any] | None,
    missing: str = "error",
    axis: int = 0,
    allow_local: bool | None = None,
) -> ShardedArray:
    """The files of the manifest that was read from `name`; no header is read. `axis` is 0 or the manifest's.

    `allow_local`: whether a manifest that is elsewhere may name local files (see `penstock.open`).
    """
    folder = folder_of(name) if "://" in name else os.path.dirname(os.path.abspath(name))
    root = os.fsdecode(_core.named_location(os.fsencode(folder), _core.manifest_root(saved)))
    Document.of(name, allow_local).check(root)
    context = current_context() if context is None else context
    made = _from_manifest(root, saved, context, storage_options, missing)
    if changed := changed_stamps(saved, made, root, storage_options, missing == "fill"):
        what = f"{counted(len(changed), 'file')} changed since the manifest was saved: save it again"
        raise ConflictError(complain(what, changed))
    check_axis(axis, _core.shard_axis(made), len(made.shape), made.uri)
    return made


def check_axis(axis: int, known: int, rank: int, uri: str) -> None:
    if axis not in (0, known, known - rank):
        raise InvalidArgumentError(f"the manifest joins '{uri}' along axis {known}, not {axis}")
