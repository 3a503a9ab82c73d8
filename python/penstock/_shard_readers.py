"""Arrays and files of any kind, joined: each is a raw file whose bytes are made when they are asked for."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock._array import Array
from penstock._context import Context
from penstock._errors import InvalidArgumentError, UnsupportedError, _make
from penstock._shard_files import complain, describe_all, refuse_others

Metadata = Callable[[Any], tuple[int, Sequence[int], npt.DTypeLike]]
Reader = Callable[[Any, int, int], Any]


class JoinedArray(Array):
    """An array of others, one behind the other; pickled as those are."""

    _parts: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return self._parts


class _Part:
    """One shard: what it is, and how a box of it is read."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype

    def box(self, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        """A C-order array of the selected elements, in native byte order."""
        raise NotImplementedError


class _ArrayPart(_Part):
    def __init__(self, array: Array) -> None:
        super().__init__(array.uri, array.shape, array.dtype)
        self.array = array

    def box(self, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        # One thread: this one is among those that the joined array's read has.
        made: npt.NDArray[Any] = self.array.read(selection, threads=1)
        return np.ascontiguousarray(made)


class _ReaderPart(_Part):
    def __init__(self, path: Any, described: Any, reader: Reader) -> None:
        try:
            rows, trailing, dtype = described
            shape = (int(rows), *(int(length) for length in trailing))
            kind = np.dtype(dtype)
        except (TypeError, ValueError) as failure:
            raise ValueError(f"metadata gave {described!r}, not (rows, trailing shape, dtype): {failure}") from None
        if min(shape) < 0:
            raise ValueError(f"metadata gave the shape {shape}")
        super().__init__(str(path), shape, kind)
        self.path, self.reader = path, reader

    def box(self, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        rows = selection[0]
        made = np.asarray(self.reader(self.path, rows.start, rows.stop))
        expected = (rows.stop - rows.start, *self.shape[1:])
        if made.shape != expected or made.dtype.newbyteorder("=") != self.dtype.newbyteorder("="):
            raise _make(
                InvalidArgumentError,
                f"the reader of '{self.name}' gave {made.dtype} {made.shape} for rows [{rows.start}, {rows.stop}), "
                f"its metadata say {self.dtype} {expected}",
            )
        made = made.astype(self.dtype.newbyteorder("="), copy=False)
        return np.ascontiguousarray(made[(slice(None), *selection[1:])])


class _PartStore:
    """The parts as objects: what object i holds are the items of part i in C order. For `_core.object_store`."""

    writable = False
    versions = False

    def __init__(self, parts: list[_Part]) -> None:
        self.parts = parts

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool, _token: str | None) -> Any:
        part = self.parts[int(key)]
        item = part.dtype.itemsize
        if length is None or from_end:
            raise _make(UnsupportedError, "the parts of a joined array are read in ranges")
        first, last = offset // item, -(-(offset + length) // item)
        selection, skipped = smallest_box(part.shape, first, last)
        data = part.box(selection).reshape(-1).view(np.uint8) if item else np.empty(0, np.uint8)
        begin = offset - skipped * item
        return memoryview(data)[begin : begin + length]

    def list(self, _prefix: str, _children: bool) -> list[str]:
        return []


def smallest_box(shape: tuple[int, ...], first: int, last: int) -> tuple[tuple[slice, ...], int]:
    """The smallest contiguous box with the items [first, last) of a C-order array, and the number of its first item."""
    selection: list[slice] = []
    begin = 0
    for d in range(len(shape)):
        inner = math.prod(shape[d + 1 :])
        low, high = (first - begin) // inner, -(-(last - begin) // inner)
        selection.append(slice(low, high))
        begin += low * inner
        if high - low > 1:
            selection.extend(slice(0, length) for length in shape[d + 1 :])
            break
    return tuple(selection), begin


def join_readers(paths: list[str], metadata: Metadata, reader: Reader, axis: int, context: Context) -> JoinedArray:
    """Files that `metadata` and `reader` know how to read."""
    if axis != 0:
        raise _make(InvalidArgumentError, "files that a reader reads are joined along their rows: axis is 0")

    def look(path: str) -> _Part | str:
        try:
            return _ReaderPart(path, metadata(path), reader)
        except Exception as failure:
            return f"'{path}': {type(failure).__name__}: {failure}"

    found = describe_all(paths, [partial(look, path) for path in paths])
    bad = [each for each in found if isinstance(each, str)]
    if bad:
        raise _make(InvalidArgumentError, complain(f"{len(bad)} of {len(found)} files cannot be described", bad))
    parts = [each for each in found if isinstance(each, _Part)]
    return _join(parts, 0, context, (join_again, (paths, metadata, reader)))


def join_again(paths: list[str], metadata: Metadata, reader: Reader) -> JoinedArray:
    """What `join_readers` made, in another process."""
    from penstock._context import current_context

    return join_readers(paths, metadata, reader, 0, current_context())


def join_arrays(arrays: list[Any], axis: int, context: Context) -> JoinedArray:
    """Open arrays, one behind the other."""
    for each in arrays:
        if not isinstance(each, Array):
            raise _make(InvalidArgumentError, f"{each!r} is no array: give its name in the file (dataset=)")
        if each.dtype.kind in "OT" or each._has_items:
            raise _make(UnsupportedError, f"'{each.uri}' holds items of variable length, which cannot be joined")
    return _join([_ArrayPart(each) for each in arrays], axis, context, (_join_opened, (arrays, axis)))


def _join_opened(arrays: list[Any], axis: int) -> JoinedArray:
    from penstock._context import current_context

    return join_arrays(arrays, axis, current_context())


def _join(parts: list[_Part], axis: int, context: Context, again: tuple[Any, ...]) -> JoinedArray:
    if not parts:
        raise _make(InvalidArgumentError, "there are no files to open")
    first = parts[0]
    names, shapes = [part.name for part in parts], [part.shape for part in parts]
    refuse_others(names, shapes, [part.dtype.newbyteorder("=") for part in parts], axis)
    axis %= len(first.shape)
    total = sum(part.shape[axis] for part in parts)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    kept = [part for part in parts if 0 not in part.shape]
    manifest = {
        "penstock_shards": 1,
        "root": "",
        "format": "raw",
        "descr": _descr(first.dtype),
        "fortran_order": False,
        "shape": shape,
        "axis": axis,
        "shards": [{"key": str(i), "length": part.shape[axis], "offset": 0} for i, part in enumerate(kept)]
        or [{"key": "0", "length": total, "offset": 0}],
    }
    name = first.name if len(parts) == 1 else f"{first.name} ... {os.path.basename(parts[-1].name.rstrip('/'))}"
    store = _core.object_store(_PartStore(kept), f"joined:{name}", False)
    opened = JoinedArray(_core.open_manifest(store, context, json.dumps(manifest).encode()))
    opened._parts = again
    return opened


def _descr(dtype: np.dtype[Any]) -> Any:
    native = dtype.newbyteorder("=")
    if native.names is not None:
        return [list(field) for field in native.descr]
    return native.name if native.kind == "V" and native.type is not np.void else native.str
