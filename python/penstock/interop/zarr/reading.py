"""Reads of plain selections by the engine, into host memory and into GPU memory.

Each returns `NotImplemented` if zarr-python must read the selection or refuse it.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import zarr
from zarr.registry import get_ndbuffer_class

from penstock import _core
from penstock.core.data_types import cast
from penstock.core.device import PER_THREAD
from penstock.core.errors import (
    CorruptDataError,
    DeadlineExceededError,
    Error,
    OutOfRangeError,
    PermissionDeniedError,
    StorageError,
)
from penstock.interop.zarr import gpu as _gpu
from penstock.interop.zarr.fancy import is_plain
from penstock.interop.zarr.opened import OpenedArray
from penstock.interop.zarr.pipeline import CodecPipeline
from penstock.interop.zarr.program import exported
from penstock.interop.zarr.settings import count

OF_STORES = (StorageError, PermissionDeniedError, DeadlineExceededError)


def _read_shaped(engine: OpenedArray, selection: Any) -> Any:
    """Text, arrays in Fortran order, and items in the other byte order. Single elements are left to zarr-python."""
    assert engine.array is not None
    shape = engine.array._resolve(selection)[1] if is_plain(selection) else ()
    if not shape:
        return NotImplemented
    if engine.order == "C" or engine.dtype.kind == "T":
        found = engine.array._read(selection, engine.threads, None)
    else:
        found = np.empty(shape, engine.array.dtype, order="F")
        engine.array._read_into(selection, exported(found), engine.threads, None)
    return np.asarray(cast(np.asarray(found), engine.dtype), order="K" if engine.order == "C" else "F")


def read_plain(engine: OpenedArray, selection: Any, scalar: bool) -> Any:
    """A new array in host memory, or an element with `scalar`."""
    assert engine.array is not None
    try:
        with engine.reading():
            if engine.dtype.kind == "T" or not engine.plain:
                found = _read_shaped(engine, selection)
            else:
                found = _core.read_plain(engine.array, selection, scalar, engine.threads)
    except OutOfRangeError:
        return NotImplemented
    except (CorruptDataError, *OF_STORES):
        return NotImplemented  # the pipeline finds the error, too, and reports it with zarr-python's message
    except Error:
        if engine.route.path != "sync":
            raise
        return NotImplemented  # an exception of the store, which the pipeline raises unchanged
    if found is not NotImplemented:
        count("read", "array")
    return found


def read_gpu(array: Any, engine: OpenedArray, selection: Any) -> Any:
    """A new array in GPU memory, decoded there.

    Returns when all is queued on the device, ordered on CuPy's current stream. A later failure on the device is raised
    by the next read, or by `synchronize` of the context.
    """
    if engine.route.path == "async":
        return _read_on_loop(array, engine, selection)
    if engine.array is None or not engine.plain or engine.dtype.kind == "T" or not is_plain(selection):
        return NotImplemented
    try:
        shape = engine.array._resolve(selection)[1]
        if not shape or 0 in shape:
            return NotImplemented
        out = _gpu.empty(shape, engine.dtype)
        place = _gpu.memory_of(out)
        assert place.stream is not None
        read = _core._read_to_device(
            engine.array, selection, place.device, place.stream, place.address, shape, place.strides, out,
            engine.threads, False,
        )  # fmt: skip
    except OutOfRangeError:
        return NotImplemented  # zarr-python has its own message; damage found by an earlier read is raised here
    try:
        read.order(place.stream)
    except (CorruptDataError, StorageError):
        with contextlib.suppress(CorruptDataError, StorageError):
            read.outcome()  # nothing writes to `out` any longer
        return NotImplemented  # the pipeline finds the error, too
    count("read", "device")
    return out


def _read_on_loop(array: Any, engine: OpenedArray, selection: Any) -> Any:
    """As `read_gpu`, for a store that has only coroutines: zarr-python's event loop reads into memory of this thread,
    in the order of its stream."""
    if not engine.plain or engine.dtype.kind == "T" or not is_plain(selection):
        return NotImplemented
    if not isinstance(array.async_array.codec_pipeline, CodecPipeline):
        return NotImplemented  # zarr-python's pipeline has no order with the memory of this thread
    try:
        shape = np.broadcast_to(np.empty((), np.uint8), engine.metadata.shape)[selection].shape
    except (IndexError, ValueError):
        return NotImplemented  # zarr-python has its own message
    if not shape or 0 in shape:
        return NotImplemented
    out = get_ndbuffer_class().create(shape=shape, dtype=engine.dtype)
    place = _gpu.memory_of(out.as_ndarray_like())
    if place.stream == PER_THREAD:
        place.stream = None  # the loop's threads cannot name it
    before = _gpu.target.set(place)
    try:
        return zarr.Array.get_basic_selection(array, selection, out=out)
    finally:
        _gpu.target.reset(before)
