"""A location: a store and a path within it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from penstock import _core
from penstock.core.context import Context, current_context
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.target import remote as _remote
from penstock.target.file_objects import as_store, contents, fsspec_place, in_memory, is_file
from penstock.target.stores import fsspec_file, place_of_others, store_of


def check_path(path: Any) -> str:
    """The path; empty for None. Refuses one that is not text, for instance a shape in its position."""
    if isinstance(path, str):
        return path
    if path is None:
        return ""
    hint = f"; a shape is given by name: shape={path!r}" if isinstance(path, tuple | list | int) else ""
    raise InvalidArgumentError(f"path must be text, got {path!r}{hint}")


def place_of(
    target: Any,
    path: str | None,
    storage_options: Mapping[str, Any] | None = None,
    context: Context | None = None,
    is_folder: bool = False,
    is_object: bool = False,
) -> tuple[_core.Store, bytes]:
    """The store at `target` (if `is_folder` is certain) or the one that contains it, and the path of `path` in that
    store.

    `is_object`: a local path names a file, or a file to be created.
    """
    path = check_path(path)
    context = current_context() if context is None else context
    if is_file(target):
        target, storage_options = contents(target), None
    target, path = as_store(target, path)
    found = place_elsewhere(target, storage_options, context, is_folder)
    if found is None and is_object and not path:
        found = _core.find_object_place(os.fsencode(target), context)
    if found is None:
        found = _core.find_place(os.fsencode(target), context, storage_options if isinstance(target, str) else None)
    store, outer = found
    return store, b"/".join(part for part in (outer, os.fsencode(path)) if part)


def place_elsewhere(
    target: Any, storage_options: Mapping[str, Any] | None, context: Context, is_folder: bool = False
) -> tuple[_core.Store, bytes] | None:
    """The store and path of a target that is not a local path; None for a local path."""
    if isinstance(target, str):
        found = _core.find_elsewhere(os.fsencode(target), context, storage_options, _remote.is_google_installed)
        if not isinstance(found, str):
            return found
        return place_of_others(target, storage_options, found, is_folder, context)
    if isinstance(target, os.PathLike):
        return None
    if (file := fsspec_place(target)) is not None:
        return fsspec_file(*file, context)
    if in_memory(target):
        return _core.dict_store({"bytes": bytes(target)}, None, False), b"bytes"

    _refuse_other_readers(target)
    # zarr-python's arrays, groups and store paths have their location.
    inner = b""
    place = getattr(target, "store_path", target)
    if hasattr(place, "store") and isinstance(getattr(place, "path", None), str):
        inner, target = os.fsencode(place.path), place.store
    made = store_of(target, context)
    if made is None and isinstance(target, _core.Array | _core.Group):
        raise InvalidArgumentError(f"'{target.uri}' is open already: a target is a path, a URI or a store")
    if made is None:
        raise InvalidArgumentError(
            f"cannot open {type(target).__name__}: it is not a path, not a dict, and has no get(key)",
        )
    return made, inner


def place_of_folder(
    uri: str, storage_options: Mapping[str, Any] | None, context: Context
) -> tuple[_core.Store, bytes] | None:
    """The store and path of a folder with files that references name; None for a local one."""
    if _core.is_elsewhere(os.fsencode(uri)):
        return place_of(uri, "", storage_options, context, is_folder=True)
    if storage_options:
        raise UnsupportedError(f"storage_options are for remote URIs, not for '{uri}'")
    return None


def folder_of(uri: str) -> str:
    """A URI without its last component: "s3://bucket/run" of "s3://bucket/run/x"."""
    folder = uri[: uri.rindex("/") + 1]
    return folder if folder.endswith("://") else folder[:-1]


def file_place(uri: str, storage_options: Mapping[str, Any] | None = None) -> tuple[_core.Store, str]:
    """The store of an object, and its key."""
    store, key = place_of(uri, "", storage_options)
    if not key:  # the store of all objects below this name
        store, inner = place_of(folder_of(uri), "", storage_options, is_folder=True)
        key = b"/".join(part for part in (inner, os.fsencode(uri[uri.rindex("/") + 1 :])) if part)
    return store, os.fsdecode(key)


def _refuse_other_readers(target: Any) -> None:
    """Files and groups of h5py have `get`, but are not stores; a file that is open for writing is not complete."""
    library = type(target).__module__.partition(".")[0]
    if library not in ("h5py", "netCDF4"):
        return
    name = type(target).__name__
    raise InvalidArgumentError(f"cannot open {library}'s {name}: open its file by the path, after it was closed")
