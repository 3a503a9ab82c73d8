"""Arrays and files of any kind, joined: each chunk of each is an object's bytes, made when they are asked for."""

from __future__ import annotations

import math
import operator
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.errors import ConflictError, Error, InvalidArgumentError, StorageError, UnsupportedError
from penstock.references.objects import Described, Joined, Object, open_described, pack_table
from penstock.shards.files import complain, describe_all, refuse_others
from penstock.target import portable as _portable

Metadata = Callable[[Any], tuple[int, Sequence[int], npt.DTypeLike]]
Reader = Callable[[Any, int, int], Any]

# Cells are about as large, or as a shard's chunks, and no more than so many.
_BLOCK_BYTES = 1 << 20
# What calls of a reader under way together give: a call may cost as much as opening a file, and more.
_READER_BYTES = 64 << 20
_MOST_CELLS = 1 << 20
# Gaps between the cells of an object, so that one request never covers two cells, nor one that is not read.
_GAP_BYTES = 1 << 20


class JoinedArray(Array):
    """An array of others, one behind the other; pickled with what is known of those, which are opened when needed."""

    _parts: list[_Part]
    _joined_along = 0

    def _shard_lengths(self) -> tuple[int, list[int]] | None:
        axis = self._joined_along
        return (axis, [part.shape[axis] for part in self._parts]) if self.shape else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._parts, self._joined_along)


class _Part:
    """One shard: what it is, and how a box of it is read."""

    format = "joined"

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], chunks: tuple[int, ...]) -> None:
        self.name, self.shape, self.dtype, self.chunks = name, shape, dtype, chunks
        if not dtype.itemsize:
            raise UnsupportedError(f"'{name}' has items of no bytes ({dtype}), which cannot be joined")

    def box(self, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        """A C-order array of the selected elements, in native byte order."""
        raise NotImplementedError


class SavedPart(_Part):
    """An array that is opened when it is first read."""

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
        """The open array, which is what was known of it."""
        with self._lock:
            if self._array is None:
                made = self.open()
                if (made.shape, made.dtype) != (self.shape, self.dtype):
                    text = f"'{self.name}' was {self.dtype} {self.shape}, it is {made.dtype} {made.shape}"
                    raise ConflictError(text)
                self._array = made
            return self._array

    def box(self, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        # One thread: this one is among those that the joined array's read has.
        made: npt.NDArray[Any] = self.array().read(selection, threads=1)
        return np.ascontiguousarray(made)


class _ArrayPart(SavedPart):
    """An open array; in another process, where that reads it."""

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
            kind = np.dtype(dtype)
        except (TypeError, ValueError) as failure:
            raise ValueError(f"metadata gave {described!r}, not (rows, trailing shape, dtype): {failure}") from None
        if min(shape) < 0:
            raise ValueError(f"metadata gave the shape {shape}")
        row = max(1, kind.itemsize * math.prod(shape[1:]))
        super().__init__(str(path), shape, kind, (max(1, block_bytes // row), *(max(1, n) for n in shape[1:])))
        self.path, self.reader = path, reader

    def box(self, selection: tuple[slice, ...]) -> npt.NDArray[Any]:
        rows = selection[0]
        try:
            made = np.asarray(self.reader(self.path, rows.start, rows.stop))
        except Error:
            raise
        except Exception as failure:
            text = f"the reader of '{self.name}' failed for rows [{rows.start}, {rows.stop})"
            raise StorageError(f"{text}: {type(failure).__name__}: {failure}") from failure
        expected = (rows.stop - rows.start, *self.shape[1:])
        if made.shape != expected or made.dtype.newbyteorder("=") != self.dtype.newbyteorder("="):
            raise InvalidArgumentError(
                f"the reader of '{self.name}' gave {made.dtype} {made.shape} for rows [{rows.start}, {rows.stop}), "
                f"its metadata say {self.dtype} {expected}",
            )
        made = made.astype(self.dtype.newbyteorder("="), copy=False)
        return np.ascontiguousarray(made[(slice(None), *selection[1:])])


class _Cells:
    """The parts as objects, for `_core.object_store`: object i holds the cells of part i, each `stride` bytes from the
    last; they are numbered along the axis first, then in C order of the others."""

    writable = False
    versions = False

    def __init__(self, parts: list[_Part], cell: tuple[int, ...], steps: list[int], axis: int) -> None:
        self.parts, self.cell, self.steps, self.axis = parts, cell, steps, axis
        shape = parts[0].shape
        self.around = tuple(-(-n // c) for d, (n, c) in enumerate(zip(shape, cell, strict=True)) if d != axis)
        self.cell_bytes = parts[0].dtype.itemsize * math.prod(cell)
        self.stride = self.cell_bytes + _GAP_BYTES

    def fetch(self, key: str, offset: int, length: int | None, from_end: bool, _token: str | None) -> Any:
        if length is None or from_end:
            raise UnsupportedError("the parts of a joined array are read in ranges")
        if length == 0:
            return b""
        first, last = offset // self.stride, (offset + length - 1) // self.stride
        if first == last:
            return self._bytes(int(key), first, offset - first * self.stride, length)
        out = np.zeros(length, np.uint8)
        for number in range(first, last + 1):
            begin = max(offset, number * self.stride)
            end = min(offset + length, number * self.stride + self.cell_bytes)
            if begin < end:
                out[begin - offset : end - offset] = self._bytes(
                    int(key), number, begin - number * self.stride, end - begin
                )
        return out.data

    def _bytes(self, which: int, number: int, begin: int, length: int) -> memoryview:
        """`length` bytes from `begin` of a cell, which is padded where its part ends."""
        part, axis = self.parts[which], self.axis
        along, rest = divmod(number, math.prod(self.around))
        at = [int(i) for i in np.unravel_index(rest, self.around)] if self.around else []
        at.insert(axis, along)
        origin = [i * (self.steps[which] if d == axis else self.cell[d]) for d, i in enumerate(at)]
        there = [
            min(self.steps[which] if d == axis else self.cell[d], n - o)
            for d, (o, n) in enumerate(zip(origin, part.shape, strict=True))
        ]
        item = part.dtype.itemsize
        box, skipped = smallest_box(self.cell, begin // item, -(-(begin + length) // item))
        lengths = tuple(each.stop - each.start for each in box)
        inside = tuple(slice(each.start, min(each.stop, n)) for each, n in zip(box, there, strict=True))
        if all(each.start < each.stop for each in inside):
            made = part.box(tuple(slice(o + s.start, o + s.stop) for o, s in zip(origin, inside, strict=True)))
        else:
            made = np.zeros((0,) * len(lengths), part.dtype.newbyteorder("="))
        if made.shape != lengths:
            padded = np.zeros(lengths, made.dtype)
            if made.size:
                padded[tuple(slice(0, n) for n in made.shape)] = made
            made = padded
        data = made.reshape(-1).view(np.uint8)
        return data.data[begin - skipped * item :][:length]

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
        raise InvalidArgumentError(complain(f"{len(bad)} of {len(found)} files cannot be described", bad))
    return join_parts([each for each in found if isinstance(each, _Part)], 0, context)


def join_arrays(arrays: list[Any], axis: int, context: Context) -> JoinedArray:
    """Open arrays, one behind the other."""
    for each in arrays:
        if not isinstance(each, Array):
            text = f"{each!r} is no array: give its name in the file (path=, or dataset= of HDF5)"
            raise InvalidArgumentError(text)
        if each.dtype.kind in "OT" or each._has_items:
            raise UnsupportedError(f"'{each.uri}' holds items of variable length, which cannot be joined")
    first = {id(each): i for i, each in reversed(list(enumerate(arrays)))}
    twice = [f"'{each.uri}'" for i, each in enumerate(arrays) if first[id(each)] != i]
    if twice:
        raise InvalidArgumentError(complain(f"{len(twice)} of {len(arrays)} arrays are given twice", twice))
    return join_parts([_ArrayPart(each) for each in arrays], axis, context)


def _again(parts: list[_Part], axis: int) -> JoinedArray:
    return join_parts(parts, axis, current_context())


def _cell_of(parts: list[_Part], axis: int) -> tuple[tuple[int, ...], list[int]]:
    """The shape of cells, and how much of it each part fills along `axis`: whole chunks, as many as make up a block."""
    shape, item = parts[0].shape, parts[0].dtype.itemsize
    longest = max(part.shape[axis] for part in parts)
    limits = [longest if d == axis else n for d, n in enumerate(shape)]
    chunks = [max(1, min(part.chunks[axis], part.shape[axis])) for part in parts]
    cell = [
        max(chunks) if d == axis else max(1, min(c, n))
        for d, (c, n) in enumerate(zip(parts[0].chunks, shape, strict=True))
    ]
    total = item * math.prod(shape) // shape[axis] * sum(part.shape[axis] for part in parts)
    most = max(_BLOCK_BYTES, total // _MOST_CELLS)
    for d, limit in enumerate(limits):
        cell[d] = min(limit, cell[d] * max(1, most // (item * math.prod(cell))))
        if cell[d] < limit:
            break
    return tuple(cell), [max(1, cell[axis] // chunk) * chunk for chunk in chunks]


def _one_layout(parts: Sequence[_Part], axis: int, context: Context) -> JoinedArray | None:
    """The engine's join of open arrays. None where the arrays are not open yet, or one grid does not hold them."""
    arrays = [part._array for part in parts if isinstance(part, SavedPart) and part._array is not None]
    if len(arrays) != len(parts):
        return None
    try:
        return JoinedArray(_core.join(context, arrays, axis))
    except UnsupportedError:
        return None


def join_parts(parts: Sequence[_Part], axis: int, context: Context) -> JoinedArray:
    """What is known of each part, as one array."""
    if not parts:
        raise InvalidArgumentError("there are no files to open")
    first = parts[0]
    names, shapes = [part.name for part in parts], [part.shape for part in parts]
    refuse_others(names, shapes, [part.dtype.newbyteorder("=") for part in parts], axis)
    axis %= len(first.shape)
    opened = _one_layout(parts, axis, context)
    if opened is not None:
        opened._parts, opened._joined_along = list(parts), axis
        return opened
    shape = [*first.shape[:axis], sum(part.shape[axis] for part in parts), *first.shape[axis + 1 :]]
    document = {
        "zarr_format": 2,
        "shape": shape,
        "chunks": [max(1, n) for n in shape],
        "dtype": _descr(first.dtype),
        "compressor": None,
        "filters": None,
        "fill_value": None,
        "order": "C",
    }
    name = first.name if len(parts) == 1 else f"{first.name} ... {os.path.basename(parts[-1].name.rstrip('/'))}"
    described = Described({".zarray": document, ".zattrs": {}}, pack_table(0, [], []), [], "joined", f"joined:{name}")
    kept = [part for part in parts if 0 not in part.shape]
    if kept:
        cell, steps = _cell_of(kept, axis)
        document["chunks"] = list(cell)
        cells = _Cells(kept, cell, steps, axis)
        store = _core.object_store(cells, described.uri, False)
        unique = len({part.name for part in kept}) == len(kept)  # arrays of dicts all have one name
        described.objects = [
            Object(part.name if unique else f"{part.name} (part {i})", store, str(i)) for i, part in enumerate(kept)
        ]
        described.table = _table(cells)
        described.joined = _edges(cells)
    opened = JoinedArray(open_described(described, context, (_again, ())))
    opened._parts, opened._joined_along = list(parts), axis
    return opened


def _table(of: _Cells) -> bytes:
    """Where each cell is, in C order of all."""
    counts = np.array([-(-part.shape[of.axis] // step) for part, step in zip(of.parts, of.steps, strict=True)])
    which = np.repeat(np.arange(len(counts)), counts)
    own = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    grid = [*of.around]
    grid.insert(of.axis, len(own))
    inner = math.prod(of.around)
    around = np.arange(inner).reshape(of.around) if of.around else np.zeros((), np.int64)
    along = [1] * len(grid)
    along[of.axis] = len(own)
    numbers = own.reshape(along) * inner + np.expand_dims(around, of.axis)
    objects = np.broadcast_to(which.reshape(along), grid).reshape(-1)
    offsets = numbers.reshape(-1).astype(np.uint64) * np.uint64(of.stride)
    return pack_table(len(offsets), offsets, np.full(len(offsets), of.cell_bytes, np.uint64), objects=objects)


def _edges(of: _Cells) -> Joined:
    ends: list[npt.NDArray[Any]] = [np.zeros(1, np.uint64)]
    before = 0
    for part, step in zip(of.parts, of.steps, strict=True):
        length = part.shape[of.axis]
        ends.append((np.minimum(np.arange(step, length + step, step), length) + before).astype(np.uint64))
        before += length
    edges = np.concatenate(ends)
    return Joined(of.axis, edges, np.full(len(edges) - 1, of.cell[of.axis], np.uint64))


def _descr(dtype: np.dtype[Any]) -> Any:
    native = dtype.newbyteorder("=")
    if native.names is not None:
        return [list(field) for field in native.descr]
    return native.name if native.kind == "V" and native.type is not np.void else native.str
