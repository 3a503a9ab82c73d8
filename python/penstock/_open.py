"""`open` and its relatives."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any

from penstock import _core
from penstock._array import Array
from penstock._context import Context, current_context
from penstock._errors import InvalidArgumentError, ReadOnlyError, UnsupportedError, _make
from penstock._group import Group, wrap
from penstock._stores import remote_store, store_of


def open(
    target: Any,
    path: str = "",
    *,
    mode: str = "r",
    context: Context | None = None,
    cache_index: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Array | Group:
    """Open an array or a group. The format is read from the data, never guessed from the name alone.

    Parameters
    ----------
    target
        A path or `file:` URI; a dict of keys and bytes; a zarr-python store, array or group; a `penstock.Store`, or any
        object with `get(key)`; an fsspec mapping; an obstore store.
    path
        Within it, '/'-separated.
    mode
        "r": this release reads.
    context
        Threads, caches and limits; None: the current one.
    cache_index
        Keep shard indexes of a store whose objects have no versions (Python objects, remote stores) from one read to
        the next. Only for data that does not change: otherwise an index lives for one read. Files and dicts have
        versions and need no such promise.
    storage_options
        For URIs that fsspec or obstore serve ("memory://x", "s3://bucket/x"): theirs.

    Raises
    ------
    NotFoundError
        Nothing of a known format is there (also FileNotFoundError, KeyError).
    UnsupportedError, CorruptDataError
        The metadata, by member.
    """
    if mode != "r":
        raise _make(ReadOnlyError, f"this release only reads: mode must be 'r', it is {mode!r}")
    context = current_context() if context is None else context
    inner = os.fsencode(path)
    if isinstance(target, str):
        target = remote_store(target, storage_options) or target
    if isinstance(target, str | os.PathLike):
        return wrap(_core.open_uri(os.fsencode(target), context, inner, cache_index))
    if isinstance(target, bytes | bytearray | memoryview | io.IOBase):
        message = "this release has no format that is one file: open a path, a dict or a store"
        raise _make(UnsupportedError, f"{message}, not {type(target).__name__}")

    # zarr-python's arrays, groups and store paths know where they are.
    place = getattr(target, "store_path", target)
    if hasattr(place, "store") and isinstance(getattr(place, "path", None), str):
        inner = b"/".join(part for part in (os.fsencode(place.path), inner) if part)
        target = place.store
    store = store_of(target)
    if store is None:
        raise _make(
            InvalidArgumentError,
            f"cannot open {type(target).__name__}: it is no path, no dict, and has no get(key)",
        )
    return wrap(_core.open_store(store, context, inner, cache_index))


def open_array(target: Any, path: str = "", **options: Any) -> Array:
    """As `open`, and raises `InvalidArgumentError` where a group is found."""
    node = open(target, path, **options)
    if not isinstance(node, Array):
        raise _make(InvalidArgumentError, f"'{node.uri}' is a group, not an array")
    return node


def open_group(target: Any, path: str = "", **options: Any) -> Group:
    """As `open`, and raises `InvalidArgumentError` where an array is found."""
    node = open(target, path, **options)
    if not isinstance(node, Group):
        raise _make(InvalidArgumentError, f"'{node.uri}' is an array, not a group")
    return node
