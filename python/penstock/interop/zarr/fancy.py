"""Selections beyond ints and slices in the engine's form: only those that zarr-python accepts, with the same meaning.

If a selection is refused here, or by the engine, zarr-python's own method runs, and its exception is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock import _core
from penstock.core import indexing as _indexing


def _is_int(item: Any) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool)


def _is_slice(item: Any) -> bool:
    return type(item) is slice and (item.step is None or (_is_int(item.step) and item.step > 0))


def is_plain(key: Any) -> bool:
    """Ints, slices with a positive step and Ellipsis."""
    return all(item is ... or _is_int(item) or _is_slice(item) for item in _indexing.as_tuple(key))


def _as_array(item: Any) -> Any:
    return np.asarray(item) if isinstance(item, list) else item


def _is_list(item: Any, kinds: str) -> bool:
    return type(item) is np.ndarray and item.ndim > 0 and item.dtype.kind in kinds


def _orthogonal(array: _core.Array, key: Any) -> _core._Selection | None:
    items = tuple(_as_array(item) for item in _indexing.as_tuple(key))
    for item in items:
        if not (item is ... or _is_int(item) or _is_slice(item) or (_is_list(item, "iub") and item.ndim == 1)):
            return None
    return _indexing.orthogonal(array, items)


def _coordinates(array: _core.Array, key: Any) -> _core._Selection | None:
    items = tuple(_as_array(item) for item in _indexing.as_tuple(key))
    if not all(_is_int(item) or _is_list(item, "iu") for item in items):
        return None
    return _indexing.coordinates(array, items)


def _masked(array: _core.Array, key: Any) -> _core._Selection | None:
    items = _indexing.as_tuple(key)
    if len(items) != 1 or not _is_list(items[0], "b") or items[0].shape != array.shape:
        return None
    return _indexing.masked(array, items[0])


def _is_block(end: Any) -> bool:
    return end is None or (_is_int(end) and end >= 0)


def _blocks(array: _core.Array, key: Any) -> _core._Selection | None:
    items = _indexing.as_tuple(key)
    for item in items:
        # zarr-python does not clip these slices as Python does.
        plain = _is_slice(item) and item.step in (None, 1) and all(_is_block(end) for end in (item.start, item.stop))
        if not (item is ... or _is_int(item) or plain):
            return None
    return _indexing.blocks(array, items)


KINDS: dict[str, Callable[[_core.Array, Any], _core._Selection | None]] = {
    "orthogonal": _orthogonal,
    "coordinate": _coordinates,
    "mask": _masked,
    "block": _blocks,
}
