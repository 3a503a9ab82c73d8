"""Device memory of other libraries' pools, for results of device reads: see `Context(device_allocator=...)`.

All of them are called in the order of one stream of Penstock's: returned memory is free for others in that order.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, Protocol

from penstock.core.errors import InvalidArgumentError, UnsupportedError


class DeviceAllocator(Protocol):
    """The interface of a `device_allocator`. Called on any thread."""

    def allocate(self, count: int, device: int, stream: int) -> int:
        """Return the address of memory on a device, for work in the order of the stream with that handle."""

    def release(self, address: int, count: int, device: int, stream: int) -> None:
        """Take the memory back; all uses of it precede later work of the stream."""


class _Torch:
    """PyTorch's caching allocator."""

    def __init__(self) -> None:
        self._cuda: Any = _library("torch.cuda", "torch")

    def allocate(self, count: int, device: int, stream: int) -> int:
        return int(self._cuda.caching_allocator_alloc(count, device, stream))

    def release(self, address: int, count: int, device: int, stream: int) -> None:
        self._cuda.caching_allocator_delete(address)


class _Cupy:
    """The allocator that CuPy uses: its memory pool, or the one set by `cupy.cuda.set_allocator`."""

    def __init__(self) -> None:
        self._cuda: Any = _library("cupy.cuda", "cupy")
        self._live: dict[int, Any] = {}
        self._lock = threading.Lock()

    def allocate(self, count: int, device: int, stream: int) -> int:
        with self._cuda.Device(device), self._cuda.ExternalStream(stream, device):
            memory = self._cuda.alloc(count)
        address = int(memory.ptr)
        with self._lock:
            self._live[address] = memory
        return address

    def release(self, address: int, count: int, device: int, stream: int) -> None:
        with self._lock:
            memory = self._live.pop(address)
        # Its pool keeps free memory by the stream that was current at allocation: ours.
        with self._cuda.Device(device), self._cuda.ExternalStream(stream, device):
            del memory


class _Stream:
    """A stream's handle, as NVIDIA's libraries accept it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


class _Rmm:
    """RMM's memory resource of the device at the time of allocation."""

    def __init__(self) -> None:
        self._mr: Any = _library("rmm.mr", "rmm")
        self._stream: Any = _library("rmm.pylibrmm.stream", "rmm").Stream
        self._live: dict[int, Any] = {}
        self._lock = threading.Lock()

    def allocate(self, count: int, device: int, stream: int) -> int:
        resource = self._mr.get_per_device_resource(device)
        address = int(resource.allocate(count, self._stream(_Stream(stream))))
        with self._lock:
            self._live[address] = resource
        return address

    def release(self, address: int, count: int, device: int, stream: int) -> None:
        with self._lock:
            resource = self._live.pop(address)
        resource.deallocate(address, count, self._stream(_Stream(stream)))


_KNOWN: dict[str, Callable[[], DeviceAllocator]] = {"torch": _Torch, "cupy": _Cupy, "rmm": _Rmm}


def allocator_of(given: Any) -> DeviceAllocator | None:
    """The argument of a context as an object with `allocate` and `release`."""
    if given is None:
        return None
    if isinstance(given, str):
        if given not in _KNOWN:
            raise InvalidArgumentError(f"device_allocator is one of {', '.join(_KNOWN)}, not {given!r}")
        return _KNOWN[given]()
    if not (callable(getattr(given, "allocate", None)) and callable(getattr(given, "release", None))):
        raise InvalidArgumentError(
            f"device_allocator is a name or an object with allocate and release, not {type(given).__name__}",
        )
    made: DeviceAllocator = given
    return made


def _library(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnsupportedError(f"device_allocator={name!r} needs the package {name}: {error}") from error
