"""zarr-python's arrays in GPU memory, as far as Penstock needs them: `__cuda_array_interface__`, which CuPy's arrays
have.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from zarr.core.config import config
from zarr.registry import get_ndbuffer_class

from penstock import _core
from penstock.core.device import LEGACY

BUFFERS = ("zarr.buffer.gpu.Buffer", "zarr.buffer.gpu.NDBuffer")
"""The settings of `zarr.config.enable_gpu()`."""


@dataclass
class DeviceMemory:
    """One array in device memory.

    `stream` is the stream of its consumer, never 0. None: it is not known, and reads and writes wait for the device.
    """

    array: Any
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int
    stream: int | None


target: ContextVar[DeviceMemory | None] = ContextVar("penstock_zarr_target", default=None)
"""The memory that the calling thread made for a read on zarr-python's event loop, and this thread's stream: zarr-python
copies context variables to the loop."""


def on_device(array: Any) -> bool:
    """Whether a value is in GPU memory."""
    return not isinstance(array, np.ndarray) and hasattr(array, "__cuda_array_interface__")


def memory_of(array: Any, ordered: bool = True) -> DeviceMemory:
    """Return the location of `array`, and CuPy's current stream in this thread.

    `ordered` is False if this is not the consumer's thread, as on zarr-python's event loop: the consumer's stream is
    not known there.
    """
    shown = array.__cuda_array_interface__
    address, shape, strides = shown["data"][0], tuple(shown["shape"]), shown.get("strides")
    if strides is None:
        item, strides = np.dtype(shown["typestr"]).itemsize, ()
        for length in reversed(shape):
            strides = (item, *strides)
            item *= length
    device = _core._device_of(address) if address else None
    if device is None:
        device = _core._current_device()
    stream = (shown.get("stream") or LEGACY) if ordered else None
    return DeviceMemory(array, address, shape, tuple(strides), device, stream)


def target_of(array: Any, ordered: bool) -> DeviceMemory:
    """As `memory_of`. On zarr-python's event loop, the stream is known for the memory in `target`."""
    place, known = memory_of(array, ordered), target.get()
    if place.stream is None and known is not None and known.address == place.address:
        place.stream = known.stream
    return place


def wait_for_target() -> None:
    """Wait for the device of the memory in `target`, if there is one: work on this thread's stream is not ordered with
    that of its consumer.
    """
    known = target.get()
    if known is not None:
        wait_for_device(known.array)


def wait_for_current_stream() -> None:
    """Wait for the work on CuPy's current stream in this thread."""
    import cupy

    cupy.cuda.get_current_stream().synchronize()


def wait_for_device(array: Any) -> None:
    """Wait for all work that the device of `array` received: its producer's stream is not known."""
    import cupy

    cupy.cuda.Device(memory_of(array).device).synchronize()


def gpu_buffers() -> bool:
    """Whether arrays are created in GPU memory, as after `zarr.config.enable_gpu()`."""
    values = config.config
    return (values.get("buffer"), values.get("ndbuffer")) == BUFFERS


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A new array of zarr-python's GPU buffers."""
    return get_ndbuffer_class().create(shape=shape, dtype=dtype).as_ndarray_like()
