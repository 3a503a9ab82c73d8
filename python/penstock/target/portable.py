"""Open arrays as bytes, with which another process reads the same array without reading its metadata from storage."""

from __future__ import annotations

import pickle
from typing import Any

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.registry import OpenedFrom
from penstock.target.place import place_of

_DOCUMENTS = ("zarr.json", ".zarray", ".zattrs")


def pack(array: Array) -> bytes:
    """`array` as bytes for `unpack`, including its metadata.

    Raises
    ------
    TypeError
        The array exists in this process only, such as one of a dict.
    """
    whole = pickle.dumps(array)
    if not array.format.startswith("zarr") or type(array) is not Array:
        return pickle.dumps((whole, None))
    uri, options = registry.location_of(array)
    store, inner = _place(uri, options)
    prefix = inner.decode("utf-8", "surrogateescape")
    prefix = f"{prefix}/" if prefix else ""
    found = {name: store.get(prefix + name) for name in _DOCUMENTS}
    documents = {name: text.decode() for name, text in found.items() if text is not None}
    return pickle.dumps((whole, (uri, options, documents, array.read_only)))


def _place(uri: str | OpenedFrom, options: dict[str, Any] | None) -> tuple[_core.Store, bytes]:
    return place_of(uri, "", options) if isinstance(uri, str) else place_of(uri.target, uri.path, options)


def unpack(packed: bytes, context: Context | None = None) -> Array:
    """The array that was passed to `pack`; for a Zarr array nothing is read."""
    whole, described = pickle.loads(packed)
    if described is None:
        array: Array = pickle.loads(whole)
        return array
    uri, options, documents, read_only = described
    store, inner = _place(uri, options)
    made = _wrap(_core.open_described(store, current_context() if context is None else context, inner, documents))
    made._storage_options, made._opened_from = (options, None) if isinstance(uri, str) else (None, uri)
    if read_only:
        _core.set_mode(made, "r")
    return made


def _wrap(opened: Any) -> Array:
    return Array(opened)
