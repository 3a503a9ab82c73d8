"""Where something is: a store and a path within it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from penstock import _core, _remote
from penstock._context import Context, current_context
from penstock._errors import InvalidArgumentError, UnsupportedError, _make
from penstock._file_objects import contents, fsspec_place, is_file
from penstock._stores import fsspec_store, remote_store, store_of
from penstock._tiff import is_tiff


def place_of(
    target: Any,
    path: str,
    storage_options: Mapping[str, Any] | None = None,
    context: Context | None = None,
) -> tuple[_core.Store, bytes]:
    """The store that `target` is or is in, and the path within it of `path` below `target`."""
    inner = os.fsencode(path)
    context = current_context() if context is None else context
    if isinstance(target, str):
        if _remote.serves(target, storage_options):
            try:
                store, outer = _remote.find(target, storage_options, context)
                return store, b"/".join(part for part in (outer, inner) if part)
            except UnsupportedError as error:  # no libcurl: fsspec or obstore may know another way
                target = remote_store(target, storage_options, error.message)
        else:
            target = remote_store(target, storage_options) or target
    if (found := fsspec_place(target)) is not None:
        folder, _, name = found[1].rpartition("/")
        return fsspec_store(found[0], folder), b"/".join(part for part in (os.fsencode(name), inner) if part)
    if is_file(target):
        target = contents(target)
    if isinstance(target, str | os.PathLike):
        store, outer = _core.find_place(os.fsencode(target), context)
        return store, b"/".join(part for part in (outer, inner) if part)
    if isinstance(target, bytes | bytearray | memoryview):
        if not is_tiff(target):
            raise _make(UnsupportedError, "these bytes are no file of a format that is one file")
        return _core.dict_store({"bytes": bytes(target)}), b"bytes"

    # zarr-python's arrays, groups and store paths know where they are.
    place = getattr(target, "store_path", target)
    if hasattr(place, "store") and isinstance(getattr(place, "path", None), str):
        inner = b"/".join(part for part in (os.fsencode(place.path), inner) if part)
        target = place.store
    made = store_of(target, context)
    if made is None:
        raise _make(
            InvalidArgumentError,
            f"cannot open {type(target).__name__}: it is no path, no dict, and has no get(key)",
        )
    return made, inner


def folder_of(uri: str) -> str:
    """What stands before the last part of a URI: "s3://bucket/run" of "s3://bucket/run/x"."""
    folder = uri[: uri.rindex("/") + 1]
    return folder if folder.endswith("://") else folder[:-1]


def file_place(uri: str, storage_options: Mapping[str, Any] | None = None) -> tuple[_core.Store, str]:
    """The store that an object is in, and its key."""
    store, key = place_of(uri, "", storage_options)
    if not key:  # the store of all that is below this name
        store, inner = place_of(folder_of(uri), "", storage_options)
        key = b"/".join(part for part in (inner, os.fsencode(uri[uri.rindex("/") + 1 :])) if part)
    return store, os.fsdecode(key)


def to_reopen(uri: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The options by which another process finds what is at a remote URI; None where they are not enough."""
    scheme, separator, rest = uri.partition("://")
    if not separator or not scheme.isidentifier() or scheme in ("file", "zip"):
        return None
    is_query = "?" in rest and not scheme.startswith(("s3", "gs"))  # in keys of buckets it is a character
    if is_query or "@" in rest.partition("/")[0]:
        return None  # it may be a secret, which an open array does not show
    return dict(storage_options or {})
