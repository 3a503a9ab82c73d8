"""zarr-python's arrays in GPU memory, as far as Penstock asks: `__cuda_array_interface__`, which CuPy's have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from zarr.core.config import config
from zarr.registry import get_ndbuffer_class

from penstock import _core
from penstock.core.device import LEGACY

BUFFERS = ("zarr.buffer.gpu.Buffer", "zarr.buffer.gpu.NDBuffer")
"""What `zarr.config.enable_gpu()` sets."""


@dataclass
class DeviceMemory:
    """One array in device memory. `stream` is the one that its owner works on, never 0."""

    array: Any
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int
    stream: int


def on_device(array: Any) -> bool:
    """It is in GPU memory."""
    return not isinstance(array, np.ndarray) and hasattr(array, "__cuda_array_interface__")


def memory_of(array: Any) -> DeviceMemory:
    """Where `array` is, and the stream that its owner works on now, on this thread."""
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
    return DeviceMemory(array, address, shape, tuple(strides), device, shown.get("stream") or LEGACY)


def gpu_buffers() -> bool:
    """Arrays are made in GPU memory, as `zarr.config.enable_gpu()` says."""
    values = config.config
    return (values.get("buffer"), values.get("ndbuffer")) == BUFFERS


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A new array of zarr-python's GPU buffers."""
    return get_ndbuffer_class().create(shape=shape, dtype=dtype).as_ndarray_like()
