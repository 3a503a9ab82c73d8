"""Reads that need another dtype than the array's, and the check of `out=`.

They go slab by slab through one small temporary array, in whole chunks where that fits: no second array of the
result's size exists, and few chunks are decoded twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock._errors import CancelledError, InvalidArgumentError, OutputError, _make
from penstock._indexing import check_fields, take_fields

if TYPE_CHECKING:
    from penstock._array import Array, Progress, Selection

_SLAB_BYTES = 32 << 20

Range = tuple[int, int, int, int]
"""start, step, count, axis of the result (-1: dropped by an int)."""


def as_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """What `dtype` names: a dtype of NumPy's, or by name one of ml_dtypes, imported or not."""
    if isinstance(dtype, str):
        try:
            return np.dtype(dtype)
        except TypeError:
            return _core.numpy_dtype(dtype)
    return np.dtype(dtype)


def as_output(out: Any, array: Array, selection: Selection, dtype: npt.DTypeLike | None) -> npt.NDArray[Any]:
    """`out` as an ndarray over the same memory."""
    if isinstance(out, np.ndarray):
        target = out
    elif hasattr(out, "__array_interface__"):
        target = np.asarray(out)
    elif hasattr(out, "__dlpack__"):
        target = np.from_dlpack(out)
    else:
        try:
            target = np.asarray(memoryview(out))
        except TypeError:
            message = f"out must be an ndarray or a writable buffer object, it is {type(out).__name__}"
            raise _make(OutputError, message) from None
    if not target.flags.writeable:
        raise _make(OutputError, "out cannot be written to")
    if target.size and any(stride == 0 and size > 1 for stride, size in zip(target.strides, target.shape, strict=True)):
        raise _make(OutputError, "out has elements that share memory")
    if dtype is not None and np.dtype(dtype) != target.dtype:
        raise _make(InvalidArgumentError, f"dtype is {np.dtype(dtype)}, out has {target.dtype}")
    shape = array._resolve(selection)[1]
    if target.shape != shape:
        raise _make(OutputError, f"out has shape {target.shape}, the selection {shape}", f"array '{array.uri}'")
    check_cast(array, target.dtype, OutputError)
    return target


def check_cast(array: Array, dtype: np.dtype[Any], kind: type[InvalidArgumentError] = InvalidArgumentError) -> None:
    """Refuse what NumPy's "same_kind" casting refuses, and text, which it would cut."""
    if dtype == array.dtype or (array._has_items and dtype.kind in "OT"):
        return
    if dtype.kind in "SUT" or not np.can_cast(array.dtype, dtype, "same_kind"):
        message = f"{array.dtype} cannot be cast to {dtype} by NumPy's 'same_kind' casting; read, then use astype"
        raise _make(kind, message, f"array '{array.uri}'")


def cast_fields(
    array: Array, selection: Any, fields: Any, dtype: npt.DTypeLike | None, threads: int, progress: Progress | None
) -> Any:
    """Some fields of items, as another dtype."""
    made = take_fields(array._read(selection, threads, progress), fields, check_fields(array, fields))
    if not np.can_cast(made.dtype, np.dtype(dtype), "same_kind"):
        raise _make(InvalidArgumentError, f"{made.dtype} cannot be cast to {np.dtype(dtype)}", f"array '{array.uri}'")
    return made.astype(dtype)


def copy_out(out: Any, made: Any) -> None:
    """Put what was read into `out`, where it cannot be read there."""
    if np.shape(out) != np.shape(made):
        raise _make(OutputError, f"out has shape {np.shape(out)}, the selection {np.shape(made)}")
    np.copyto(out, made, casting="same_kind")


def slab_steps(ranges: tuple[Range, ...], chunks: tuple[int, ...], itemsize: int, limit: int) -> list[int]:
    """How many selected elements of each dimension a slab has: whole chunks, as many as `limit` bytes hold."""
    steps = [
        min(count, max(1, -(-chunk // abs(step)))) for (_, step, count, _), chunk in zip(ranges, chunks, strict=True)
    ]
    for d in reversed(range(len(ranges))):
        others = math.prod(steps) // steps[d] * itemsize if steps[d] else 0
        fitting = limit // others if others else ranges[d][2]
        steps[d] = min(ranges[d][2], max(steps[d], fitting // steps[d] * steps[d]) if steps[d] else 0)
        if steps[d] < ranges[d][2]:
            break
    return steps


def cut(first: int, count: int, steps: int, start: int, step: int, chunk: int) -> tuple[int, int]:
    """The part [first, end) of a range that one slab takes; it ends at a chunk's edge where it can."""
    end = min(count, first + steps)
    if end < count:
        # The slab's last element is moved back to the last one before a chunk boundary.
        last = start + (end - 1) * step
        beyond = (start + end * step) // chunk
        if last // chunk == beyond:
            edge = beyond * chunk if step > 0 else (beyond + 1) * chunk - 1
            aligned = -(-(edge - start) // step) if step > 0 else -((edge - start) // -step)
            if first < aligned < end:
                end = aligned
    return first, end


def _slabs(
    ranges: tuple[Range, ...], chunks: tuple[int, ...], steps: list[int]
) -> Iterator[tuple[tuple[int, int], ...]]:
    if not ranges:
        yield ()
        return
    start, step, count, _ = ranges[0]
    first = 0
    while first < count:
        part = cut(first, count, steps[0], start, step, chunks[0])
        for rest in _slabs(ranges[1:], chunks[1:], steps[1:]):
            yield (part, *rest)
        first = part[1]


def _key_of(ranges: tuple[Range, ...], parts: tuple[tuple[int, int], ...]) -> tuple[int | slice, ...]:
    """The basic index of a slab, in the array."""
    key: list[int | slice] = []
    for (start, step, _, axis), (first, end) in zip(ranges, parts, strict=True):
        if axis < 0:
            key.append(start)
            continue
        stop = start + end * step
        key.append(slice(start + first * step, stop if stop >= 0 else None, step))
    return tuple(key)


def read_by_slabs(
    array: Array, selection: Selection, target: npt.NDArray[Any], threads: int, progress: Progress | None
) -> None:
    """Read into `target`, whatever its dtype, with NumPy's "same_kind" casting."""
    ranges, shape = array._resolve(selection)
    if ranges is None:
        np.copyto(target, array._read(selection, threads, progress), casting="same_kind")
        return
    total = math.prod(shape) * array.dtype.itemsize
    if total == 0:
        return
    done = 0
    stopped = False

    def report(slab_done: int, slab_total: int) -> bool:
        nonlocal stopped
        here = slab.nbytes * slab_done // max(1, slab_total)
        stopped = progress is not None and progress(done + here, total) is False
        return not stopped

    steps = slab_steps(ranges, array.chunks, array.dtype.itemsize, _SLAB_BYTES)
    room = np.empty(math.prod(steps), array.dtype)
    for parts in _slabs(ranges, array.chunks, steps):
        where: list[slice] = [slice(None)] * len(shape)
        for (_, _, _, axis), part in zip(ranges, parts, strict=True):
            if axis >= 0:
                where[axis] = slice(*part)
        counts = [end - first for (_, _, _, axis), (first, end) in zip(ranges, parts, strict=True) if axis >= 0]
        slab = room[: math.prod(counts)].reshape(counts)
        array._read_into(_key_of(ranges, parts), slab, threads, None if progress is None else report)
        into = target[tuple(where)] if where else target
        np.copyto(into, slab.reshape(into.shape), casting="unsafe" if array._has_items else "same_kind")
        done += slab.nbytes
        if stopped and done < total:  # the slab had ended already
            raise _make(CancelledError, "the read was cancelled", f"array '{array.uri}'")


def iterate_rows(array: Array) -> Iterator[Any]:
    """`array[0]`, `array[1]`, ..., read a chunk's rows at a time."""
    rows = max(1, array.chunks[0] if array.chunks else 1)
    row_bytes = max(1, array.nbytes // max(1, array.shape[0]))
    rows = max(1, min(rows, _SLAB_BYTES // row_bytes))
    for first in range(0, array.shape[0], rows):
        yield from array[first : first + rows]
