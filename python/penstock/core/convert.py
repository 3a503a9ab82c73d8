"""Reads with another dtype than the array's, and the check of `out=`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.data_types import torch_as_name
from penstock.core.errors import InvalidArgumentError, OutputError
from penstock.core.indexing import check_fields, take_fields
from penstock.core.tensor import by_dlpack

if TYPE_CHECKING:
    from penstock.core.array import Array, Progress, Selection

_ROWS_BYTES = 32 << 20  # the size of the reads when an array is iterated over


def as_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """The dtype that `dtype` names: of NumPy or PyTorch, or of ml_dtypes by name, whether imported or not."""
    dtype = torch_as_name(dtype)
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
        target = _by_dlpack(out)
    else:
        try:
            target = np.asarray(memoryview(out))
        except TypeError:
            message = f"out must be an ndarray or a writable buffer object, got {type(out).__name__}"
            raise OutputError(message) from None
    if not target.flags.writeable:
        raise OutputError("out cannot be written to")
    if target.size and any(stride == 0 and size > 1 for stride, size in zip(target.strides, target.shape, strict=True)):
        raise OutputError("out has elements that share memory")
    if dtype is not None and as_dtype(dtype) != target.dtype:
        raise InvalidArgumentError(f"dtype is {as_dtype(dtype)}, out has {target.dtype}")
    shape = array._resolve(selection)[1]
    if target.shape != shape:
        raise OutputError(f"out has shape {target.shape}, the selection {shape}", f"array '{array.uri}'")
    check_cast(array, target.dtype, OutputError)
    return target


def _by_dlpack(out: Any) -> npt.NDArray[Any]:
    if callable(getattr(out, "is_neg", None)) and out.is_neg():  # PyTorch exports such a tensor all the same
        raise OutputError("out is a negated view of a tensor: its memory has the values with the other sign")
    try:
        return np.from_dlpack(out)
    except (BufferError, RuntimeError):
        found = by_dlpack(out, writable=True)  # bfloat16 and other types that NumPy does not have
        if found is None:
            raise
        return found


def check_cast(
    array: Array,
    dtype: np.dtype[Any],
    kind: type[InvalidArgumentError] = InvalidArgumentError,
    of: np.dtype[Any] | None = None,
) -> None:
    """Refuse casts that NumPy's "same_kind" rule refuses, and text, which it would cut.

    `of`: the dtype of some fields of the items; None: of the items.
    """
    stored = array.dtype if of is None else of
    if not can_cast(array, dtype, of):
        message = f"{stored} cannot be cast to {dtype} by NumPy's 'same_kind' casting; read, then use astype"
        raise kind(message, f"array '{array.uri}'")


def can_cast(array: Array, dtype: np.dtype[Any], of: np.dtype[Any] | None = None) -> bool:
    """Whether `check_cast` accepts the type."""
    stored = array.dtype if of is None else of
    if dtype == stored or (array._has_items and dtype.kind in "OT"):
        return True
    return dtype.kind not in "SUT" and bool(np.can_cast(stored, dtype, "same_kind"))


def cast_fields(
    array: Array, selection: Any, fields: Any, dtype: npt.DTypeLike | None, threads: int, progress: Progress | None
) -> Any:
    """Some fields of items, as another dtype."""
    stored, wanted = check_fields(array, fields), np.dtype(dtype)
    check_cast(array, wanted, of=stored)  # before the read
    return take_fields(array._read(selection, threads, progress), fields, stored).astype(wanted)


def becomes(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether the engine's reads produce `dtype`, by conversion or because the elements have it already."""
    return dtype == array.dtype or (not array._has_items and _core._converts(array.dtype, dtype))


def read_into(
    array: Array, selection: Selection, target: npt.NDArray[Any], threads: int, progress: Progress | None
) -> None:
    """Read into `target`, of any dtype, with NumPy's "same_kind" casting.

    NumPy casts types that the engine does not convert (times, text, floats of less than 16 bits), after the read.
    """
    if target.flags.aligned and becomes(array, target.dtype):
        array._read_into(selection, target, threads, progress, None if target.dtype == array.dtype else target.dtype)
        return
    made = array._read(selection, threads, progress)
    np.copyto(target, made, casting="unsafe" if array._has_items else "same_kind")


def iterate_rows(array: Array) -> Iterator[Any]:
    """`array[0]`, `array[1]`, ..., read in blocks of a chunk's rows."""
    if array.size == 0:  # without blocks, but possibly with rows of shape (0,)
        yield from array[...]
        return
    rows = max(1, array.chunks[0] if array.chunks else 1)
    row_bytes = max(1, array.nbytes // max(1, array.shape[0]))
    rows = max(1, min(rows, _ROWS_BYTES // row_bytes))
    blocks = _core._Stream(array, (rows, *(max(1, size) for size in array.shape[1:])), 0, 0, ())
    while (block := blocks.next()) is not None:
        yield from block[2]
