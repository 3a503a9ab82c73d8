"""Arrays and files of any kind, joined: open arrays by the engine, others as sources that are read box by box."""

from __future__ import annotations

import json
import math
import operator
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.convert import as_dtype
from penstock.core.data_types import is_masked, is_masked_array
from penstock.core.errors import ConflictError, Error, InvalidArgumentError, StorageError, UnsupportedError
from penstock.core.sizes import counted
from penstock.shards.files import complain, describe_all, refuse_others, side_by_side
from penstock.target import portable as _portable

Metadata = Callable[[Any], tuple[int, Sequence[int], npt.DTypeLike]]
Reader = Callable[[Any, int, int], Any]

# The least bytes of one call of a reader, and the most bytes of all running calls: a call may cost as much as opening a
# file.
_BLOCK_BYTES = 1 << 20
_READER_BYTES = 64 << 20


class JoinedArray(Array):
    """An array of others, one after the other; its pickle describes them, and they are opened when needed."""

    _describe: Callable[[], Sequence[_Part]]
    _joined_along = 0

    @cached_property
    def _parts(self) -> Sequence[_Part]:
        return self._describe()

    @classmethod
    def of(cls, made: _core.Array, describe: Callable[[], Sequence[_Part]], axis: int) -> Self:
        """The engine's array of the parts that `describe` returns, created when it is first needed."""
        opened = cls(made)
        opened._describe, opened._joined_along = describe, axis
        return opened

    def _shard_lengths(self) -> tuple[int, list[int]] | None:
        axis = self._joined_along
        return (axis, [part.shape[axis] for part in self._parts]) if self.shape else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (list(self._parts), self._joined_along, self.dimension_names)


class _Part:
    """One shard: its description, and how a box of it is read."""

    format = "joined"

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> None:
        self.name, self.shape, self.dtype, self.chunks = name, shape, dtype, chunks
        if not dtype.itemsize:
            raise UnsupportedError(f"'{name}' has items of 0 bytes ({dtype}), which cannot be joined")

    def box(self, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        """A C-order array of the selected elements, in native byte order."""
        raise NotImplementedError

    def read(self, origin: tuple[int, ...], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """The bytes of the elements [origin, origin + shape), as requested by the engine."""
        made = self.box(tuple(slice(low, low + length) for low, length in zip(origin, shape, strict=True)))
        return made.reshape(-1).view(np.uint8)


class SavedPart(_Part):
    """An array that is opened at its first read."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> None:
        super().__init__(name, shape, dtype, chunks)
        self._array: Array | None = None
        self._lock = threading.Lock()

    def open(self) -> Array:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_array": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def array(self) -> Array:
        """The open array, which must match its description."""
        with self._lock:
            if self._array is None:
                made = self.open()
                if (made.shape, made.dtype) != (self.shape, self.dtype):
                    text = f"'{self.name}' was {self.dtype} {self.shape}, it is {made.dtype} {made.shape}"
                    raise ConflictError(text)
                self._array = made
            return self._array

    @classmethod
    def join(cls, parts: Sequence[SavedPart], axis: int, context: _core.Context) -> _core.Array:
        """Opens parts in parallel, and joins them."""
        return _core.join(context, side_by_side(SavedPart.array, parts), axis)

    def box(self, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        # One thread: it is one of those of the joined array's read.
        made: npt.NDArray[Any] = self.array().read(selection, threads=1)
        return np.ascontiguousarray(made)


class ClosedArray(JoinedArray):
    """A joined array from a pickle. The engine opens the parts that a box needs; everything else opens all of them.

    Parts are opened in parallel and joined, so that they are read as before the array was pickled. A task of Dask that
    reads one part of 10,000 opens that one. After all were opened for a use other than reading a box, this is the
    engine's join.
    """

    def __init__(self, made: _core.Array) -> None:
        super().__init__(made)
        self._is_closed = True
        self._names: tuple[str | None, ...] | None = None
        self._opening = threading.Lock()

    @property
    def chunks(self) -> tuple[int, ...]:
        if not self._is_closed:
            return super().chunks
        full = [part.chunks for part in self._parts if 0 not in part.shape] or [self._parts[0].chunks]
        axis = self._joined_along
        along = max(1, *(each[axis] for each in full))
        return (*full[0][:axis], along, *full[0][axis + 1 :])

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        return self._names if self._is_closed else super().dimension_names

    @property
    def info(self) -> Any:
        return self._opened().info if self._is_closed else super().info

    def _plan(self, *arguments: Any, **options: Any) -> Any:
        self._opened()
        return super()._plan(*arguments, **options)

    # Selections other than boxes are resolved with the chunks of the parts.
    def _orthogonal(self, items: Any) -> _core._Selection:
        self._opened()
        return super()._orthogonal(items)

    def _points(self, lists: Any, shape: Any) -> _core._Selection:
        self._opened()
        return super()._points(lists, shape)

    def _of_mask(self, mask: Any) -> _core._Selection:
        self._opened()
        return super()._of_mask(mask)

    def _blocks(self, items: Any) -> _core._Selection:
        self._opened()
        return super()._blocks(items)

    def _opened(self) -> Array:
        with self._opening:
            if self._is_closed:
                self._become(_core.open_parts(self))
                self._is_closed = False
        return self


def _join_range(parts: Sequence[SavedPart], axis: int, context: Context, first: int, end: int) -> _core.Array:
    """Open the parts [first, end) and join them."""
    wanted = parts[first:end]
    kinds = {type(part) for part in wanted}
    kind = kinds.pop() if len(kinds) == 1 else SavedPart
    return kind.join(wanted, axis, context)


class _ArrayPart(SavedPart):
    """An open array; in another process, if that can open it."""

    def __init__(self, array: Array) -> None:
        super().__init__(array.uri, array.shape, array.dtype, array.chunks)
        self.format = array.format
        self._array = array
        self._packed = b""

    def __getstate__(self) -> dict[str, Any]:
        packed = self._packed if self._array is None else _portable.pack(self._array)
        return {**super().__getstate__(), "_packed": packed}

    def open(self) -> Array:
        return _portable.unpack(self._packed)


class _ReaderPart(_Part):
    def __init__(self, path: Any, described: Any, reader: Reader, block_bytes: int) -> None:
        try:
            rows, trailing, dtype = described
            shape = (operator.index(rows), *(operator.index(length) for length in trailing))
            kind = as_dtype(dtype)
        except (TypeError, ValueError) as failure:
            raise ValueError(f"metadata returned {described!r}, not (rows, trailing shape, dtype): {failure}") from None
        if min(shape) < 0:
            raise ValueError(f"metadata returned the shape {shape}")
        row = max(1, kind.itemsize * math.prod(shape[1:]))
        super().__init__(str(path), shape, kind, (max(1, block_bytes // row), *(max(1, n) for n in shape[1:])))
        self.path, self.reader = path, reader

    def box(self, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        rows = selection[0]
        try:
            returned = np.asanyarray(self.reader(self.path, rows.start, rows.stop))
            if is_masked_array(returned) and is_masked(returned):
                text = f"the reader of '{self.name}' returned masked elements for rows [{rows.start}, {rows.stop})"
                raise InvalidArgumentError(f"{text}: return values.filled(x)")
            made = np.asarray(returned)
        except Error:
            raise
        except Exception as failure:
            text = f"the reader of '{self.name}' failed for rows [{rows.start}, {rows.stop})"
            raise StorageError(f"{text}: {type(failure).__name__}: {failure}") from failure
        expected = (rows.stop - rows.start, *self.shape[1:])
        if made.shape != expected or made.dtype.newbyteorder("=") != self.dtype.newbyteorder("="):
            raise InvalidArgumentError(
                f"the reader of '{self.name}' returned {made.dtype} {made.shape} for rows [{rows.start}, {rows.stop}), "
                f"its metadata are {self.dtype} {expected}",
            )
        made = made.astype(self.dtype.newbyteorder("="), copy=False)
        return np.ascontiguousarray(made[(slice(None), *selection[1:])])


def join_readers(paths: list[str], metadata: Metadata, reader: Reader, axis: int, context: Context) -> JoinedArray:
    """Files that `metadata` and `reader` read."""
    if axis != 0:
        raise InvalidArgumentError("files that a reader reads are joined along their rows: axis is 0")

    block_bytes = max(_BLOCK_BYTES, _READER_BYTES // context.threads)

    def look(path: str) -> _Part | str:
        try:
            return _ReaderPart(path, metadata(path), reader, block_bytes)
        except Exception as failure:
            return f"'{path}': {type(failure).__name__}: {failure}"

    found = describe_all(paths, [partial(look, path) for path in paths])
    bad = [each for each in found if isinstance(each, str)]
    if bad:
        raise InvalidArgumentError(complain(f"{len(bad)} of {counted(len(found), 'file')} cannot be described", bad))
    return join_parts([each for each in found if isinstance(each, _Part)], 0, context)


def join_arrays(arrays: list[Any], axis: int, context: Context) -> JoinedArray:
    """Open arrays, one after the other."""
    for each in arrays:
        if not isinstance(each, Array):
            text = f"{each!r} is not an array: give its name in the file (path=, or dataset= of HDF5)"
            raise InvalidArgumentError(text)
        if each.dtype.kind in "OT" or each._has_items:
            raise UnsupportedError(f"'{each.uri}' holds items of variable length, which cannot be joined")
    first = {id(each): i for i, each in reversed(list(enumerate(arrays)))}
    twice = [f"'{each.uri}'" for i, each in enumerate(arrays) if first[id(each)] != i]
    if twice:
        raise InvalidArgumentError(complain(f"arrays that are given twice: {len(twice)} of {len(arrays)}", twice))
    return join_parts([_ArrayPart(each) for each in arrays], axis, context)


def _again(parts: list[_Part], axis: int, names: tuple[str | None, ...] | None = None) -> JoinedArray:
    made = join_parts(parts, axis, current_context())
    if isinstance(made, ClosedArray):
        made._names = names
    return made


def join_parts(parts: Sequence[_Part], axis: int, context: Context) -> JoinedArray:
    """The descriptions of the parts, as one array."""
    if not parts:
        raise InvalidArgumentError("the list of files is empty")
    first = parts[0]
    names, shapes = [part.name for part in parts], [part.shape for part in parts]
    refuse_others(names, shapes, [part.dtype.newbyteorder("=") for part in parts], axis)
    axis %= len(first.shape)
    kind: type[JoinedArray] = JoinedArray
    arrays = [part._array for part in parts if isinstance(part, SavedPart) and part._array is not None]
    if len(arrays) == len(parts):
        made = _core.join(context, arrays, axis)
    else:
        saved = [part for part in parts if isinstance(part, SavedPart)]
        opens = partial(_join_range, saved, axis, context) if len(saved) == len(parts) else None
        kind = JoinedArray if opens is None else ClosedArray
        sources = [
            (part.name.encode(errors="surrogateescape"), part.shape, tuple(max(1, n) for n in part.chunks), part.read)
            for part in parts
        ]
        made = _core.open_sources(context, sources, json.dumps(_descr(first.dtype)).encode(), axis, opens)
    return kind.of(made, lambda: parts, axis)


def _descr(dtype: np.dtype[Any]) -> Any:
    native = dtype.newbyteorder("=")
    if native.names is not None:
        return [list(field) for field in native.descr]
    return native.name if native.kind == "V" and native.type is not np.void else native.str
