"""The functions of CuPy that zarr-python and xarray use, on the fake CUDA driver's memory: for tests without a GPU and
without CuPy. `install` replaces CuPy by it. NumPy computes on copies of the values.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from penstock import _core

_cuda: Any = None
_LEGACY = 1


class _Current(threading.local):
    stream = _LEGACY


_current = _Current()
"""Each thread has a current stream of its own, as in CuPy."""


@contextlib.contextmanager
def current(stream: int) -> Iterator[None]:
    """Make `stream` the calling thread's current one, as `with cupy.cuda.ExternalStream(stream)` does."""
    before, _current.stream = _current.stream, stream
    try:
        yield
    finally:
        _current.stream = before


class _Stream:
    """The calling thread's current stream."""

    def __init__(self) -> None:
        self.ptr = 0 if _current.stream == _LEGACY else _current.stream

    def synchronize(self) -> None:
        _call("cuStreamSynchronize", ctypes.c_void_p(self.ptr or _LEGACY))


def _call(name: str, *arguments: Any) -> None:
    """Call the driver with device 0 current, as CuPy does on any thread."""
    _cuda.push(0)
    try:
        _cuda.call(name, *arguments)
    finally:
        _cuda.pop()


class _Device:
    def __init__(self, number: int) -> None:
        assert number == 0

    def synchronize(self) -> None:
        _call("cuCtxSynchronize")


class _Address:
    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], keep: Any) -> None:
        self.keep = keep
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": dtype.str, "version": 3}


class _Memory:
    def __init__(self, size: int) -> None:
        found = ctypes.c_uint64()
        _call("cuMemAlloc", ctypes.byref(found), ctypes.c_size_t(max(size, 1)))
        self.address = found.value

    def __del__(self) -> None:
        if _cuda is not None:
            _call("cuMemFree", ctypes.c_uint64(self.address))


class ndarray:
    """An array in device memory. Its view is an ndarray at the device's address, which must not be read on the host."""

    __module__ = "cupy"

    def __init__(self, view: np.ndarray[Any, Any], keep: Any) -> None:
        self._view, self._keep = view, keep

    shape = property(lambda self: self._view.shape)
    dtype = property(lambda self: self._view.dtype)
    ndim = property(lambda self: self._view.ndim)
    size = property(lambda self: self._view.size)
    nbytes = property(lambda self: self._view.nbytes)

    def __len__(self) -> int:
        return len(self._view)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._view.ctypes.data, False),
            "strides": self._view.strides,
            "version": 3,
            "stream": _current.stream,
        }

    def _region(self) -> tuple[int, int]:
        steps = [s * (n - 1) for s, n in zip(self._view.strides, self.shape, strict=True)]
        low = sum(min(step, 0) for step in steps)
        high = sum(max(step, 0) for step in steps) + self.dtype.itemsize
        return self._view.ctypes.data + low, high - low

    def _copied(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        base, size = self._region()
        _Stream().synchronize()  # CuPy's own copies are ordered after the work of the current stream only
        memory = _cuda.peek(base, (size,), np.uint8)
        values = np.ndarray(self.shape, self.dtype, memory, self._view.ctypes.data - base, self._view.strides)
        return values, memory

    def get(self) -> np.ndarray[Any, Any]:
        if self.size == 0:
            return np.empty(self.shape, self.dtype)
        return self._copied()[0].copy()

    def copy(self) -> ndarray:
        return asarray(self._copied()[0])

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("values of a device are asked for by get")  # the same error as CuPy's

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, list | np.ndarray | ndarray) for part in parts):
            parts = tuple(part.get() if isinstance(part, ndarray) else part for part in parts)
            return asarray(self.get()[parts])
        if not any(part is Ellipsis for part in parts):
            parts = (*parts, Ellipsis)  # indexing with an int alone would return a value
        return ndarray(self._view[parts], self._keep)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.size == 0:
            return
        values, memory = self._copied()
        values[key] = value.get() if isinstance(value, ndarray) else value
        base, _ = self._region()
        stream = _current.stream
        _call(
            "cuMemcpyHtoDAsync",
            ctypes.c_uint64(base),
            ctypes.c_void_p(memory.ctypes.data),
            ctypes.c_size_t(memory.nbytes),
            ctypes.c_void_p(stream),
        )
        _call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def fill(self, value: Any) -> None:
        self[...] = value

    def view(self, dtype: Any) -> ndarray:
        return ndarray(self._view.view(dtype), self._keep)

    def reshape(self, *shape: Any) -> ndarray:
        return ndarray(self._view.reshape(*shape), self._keep)

    def __eq__(self, other: object) -> Any:
        return self.get() == (other.get() if isinstance(other, ndarray) else other)

    def __ne__(self, other: object) -> Any:
        return asarray(self.get() != asnumpy(other))

    __hash__ = None  # type: ignore[assignment]

    def astype(self, dtype: Any, **_: Any) -> ndarray:
        return asarray(self.get().astype(dtype))

    def __mul__(self, other: Any) -> ndarray:
        return asarray(self.get() * asnumpy(other))

    def __add__(self, other: Any) -> ndarray:
        return asarray(self.get() + asnumpy(other))

    def __or__(self, other: Any) -> ndarray:
        return asarray(self.get() | asnumpy(other))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> ndarray:
        return asarray(getattr(ufunc, method)(*map(asnumpy, inputs), **options))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        def on_host(value: Any) -> Any:
            return (
                [on_host(each) for each in value]
                if isinstance(value, list | tuple)
                else (value.get() if isinstance(value, ndarray) else value)
            )

        made = function(*map(on_host, args), **{key: on_host(value) for key, value in kwargs.items()})
        return asarray(made) if isinstance(made, np.ndarray) else made


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    shape, dtype = tuple(np.atleast_1d(shape)) if not isinstance(shape, tuple) else shape, np.dtype(dtype)
    memory = _Memory(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
    view = np.asarray(_Address(memory.address, tuple(shape[::-1] if order == "F" else shape), dtype, memory))
    return ndarray(view.T if order == "F" else view, memory)


def asarray(values: Any, dtype: Any = None) -> ndarray:
    if isinstance(values, ndarray):
        return values
    host = np.asarray(values, dtype)
    made = empty(host.shape, host.dtype)
    made[...] = host
    return made


def from_dlpack(tensor: Any) -> ndarray:
    """An array from a DLPack producer, which orders the values on the calling thread's current stream."""
    capsule = tensor.__dlpack__(stream=_current.stream, max_version=(1, 1))
    start, shape, strides, *_ = _core._dlpack_view(capsule)
    keep = (tensor, capsule)
    room = np.asarray(_Address(start, shape, np.dtype(tensor.dtype), keep))
    return ndarray(np.lib.stride_tricks.as_strided(room, shape, strides), keep)


def where(condition: Any, values: Any, others: Any) -> ndarray:
    return asarray(np.where(asnumpy(condition), asnumpy(values), asnumpy(others)))


def asnumpy(values: Any) -> np.ndarray[Any, Any]:
    return values.get() if isinstance(values, ndarray) else np.asarray(values)


def install(cuda: Any) -> types.ModuleType:
    """Make this module `cupy`, on the fake driver `cuda`."""
    global _cuda
    _cuda = cuda
    made = types.ModuleType("cupy")
    for name in ("ndarray", "empty", "asarray", "asnumpy", "from_dlpack", "where"):
        setattr(made, name, globals()[name])
    made.array = made.asanyarray = asarray  # type: ignore[attr-defined]
    made.frombuffer = lambda data, dtype: asarray(np.frombuffer(data, dtype))  # type: ignore[attr-defined]
    made.concatenate = lambda parts: asarray(np.concatenate([asnumpy(part) for part in parts]))  # type: ignore[attr-defined]
    made.cuda = types.SimpleNamespace(get_current_stream=_Stream, Device=_Device)  # type: ignore[attr-defined]
    made.__spec__ = types.SimpleNamespace(name="cupy")  # type: ignore[assignment]
    sys.modules["cupy"] = made
    if (zarrs := sys.modules.get("zarr.core.buffer.gpu")) is not None:
        zarrs.cp = made  # zarr imported CuPy when it was imported
    return made
