"""The few functions of the CUDA driver that the benchmark itself needs: memory, copies, events."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any


class NoDriverError(Exception):
    """The driver does not exist, or finds no device."""


class Driver:
    """The driver that Penstock would load, with device 0's primary context current on the calling thread."""

    def __init__(self) -> None:
        file = os.environ.get("PENSTOCK_CUDA_DRIVER") or "libcuda.so.1"
        try:
            self._library = ctypes.CDLL(file)
        except OSError as error:
            raise NoDriverError(str(error)) from None
        if not hasattr(self._library, "cuGetProcAddress_v2"):
            raise NoDriverError(f"{file} is older than CUDA 12.0: it has no cuGetProcAddress_v2")
        self.simulated = hasattr(self._library, "penstock_fake_cuda_count")
        self.call("cuInit", ctypes.c_uint(0))
        version, devices, self._context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceGetCount", ctypes.byref(devices))
        if devices.value < 1:
            raise NoDriverError("the driver finds no device")
        self.version, self.devices = version.value, devices.value
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), ctypes.c_int(0))
        self.call("cuCtxPushCurrent", self._context)
        self.memory_bytes = self._memory()[1]

    def _memory(self) -> tuple[int, int]:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def free_bytes(self) -> int:
        return self._memory()[0]

    def attribute(self, number: int) -> int | None:
        """A CU_DEVICE_ATTRIBUTE of device 0; None if the driver does not support it."""
        value = ctypes.c_int()
        try:
            self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), ctypes.c_int(0))
        except NoDriverError:
            return None
        return value.value

    def call(self, name: str, *arguments: Any) -> None:
        """A function of the driver, which must succeed."""
        found = ctypes.c_void_p()
        status = self._library.cuGetProcAddress_v2(
            name.encode(), ctypes.byref(found), 12000, ctypes.c_uint64(0), ctypes.byref(ctypes.c_int())
        )
        if status or not found.value:
            raise NoDriverError(f"the driver has no {name}")
        types = [type(each) if isinstance(each, ctypes._SimpleCData) else ctypes.c_void_p for each in arguments]
        status = ctypes.CFUNCTYPE(ctypes.c_int, *types)(found.value)(*arguments)
        if status:
            raise NoDriverError(f"{name}: error {status}")

    def synchronize(self) -> None:
        """Wait for all work of the device, including that of other libraries."""
        self.call("cuCtxSynchronize")

    def works(self) -> bool:
        """Whether the context still accepts calls: after a kernel's fault all of them fail, until the process ends."""
        try:
            self.synchronize()
            self.free_bytes()
        except NoDriverError:
            return False
        return True

    def close(self) -> None:
        """Release the context, and with it its memory on the device."""
        self.call("cuCtxPopCurrent", ctypes.byref(ctypes.c_void_p()))
        self.call("cuDevicePrimaryCtxRelease", ctypes.c_int(0))

    def name(self, device: int = 0) -> str:
        if self.simulated:
            return "simulated"
        text = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", ctypes.cast(text, ctypes.c_void_p), ctypes.c_int(100), ctypes.c_int(device))
        return text.value.decode()

    def names(self) -> list[str]:
        """The names of all devices that this process may use. The first one is measured."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return [self.name(device) for device in range(count.value)]

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name(),
            "memory_bytes": self.memory_bytes,
            "cuda": f"{self.version // 1000}.{self.version % 1000 // 10}",
            "simulated": self.simulated,
        }

    def copy_rates(self, size: int, turns: int) -> dict[str, float]:
        """Bytes per second of copies of `size` bytes, `turns` in flight: to the device, to the host, on the device."""
        stream, begin, end = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        host, here, there = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
        bytes_ = ctypes.c_size_t(size)
        self.call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))
        for event in (begin, end):
            self.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        self.call("cuMemHostAlloc", ctypes.byref(host), bytes_, ctypes.c_uint(1))
        for memory in (here, there):
            self.call("cuMemAlloc", ctypes.byref(memory), bytes_)
        ctypes.memset(host, 1, size)  # so that all pages exist

        def rate(copy: Callable[[], None]) -> float:
            best = 0.0
            for _ in range(3):
                copy()
                self.call("cuEventRecord", begin, stream)
                for _ in range(turns):
                    copy()
                self.call("cuEventRecord", end, stream)
                self.call("cuEventSynchronize", end)
                ms = ctypes.c_float()
                self.call("cuEventElapsedTime", ctypes.byref(ms), begin, end)
                best = max(best, size * turns / max(ms.value * 1e-3, 1e-9))
            return best

        rates = {
            "to_device": rate(lambda: self.call("cuMemcpyHtoDAsync", here, host, bytes_, stream)),
            "to_host": rate(lambda: self.call("cuMemcpyDtoHAsync", host, here, bytes_, stream)),
            # A copy reads and writes.
            "device_memory": 2 * rate(lambda: self.call("cuMemcpyDtoDAsync", there, here, bytes_, stream)),
        }
        for memory in (here, there):
            self.call("cuMemFree", memory)
        self.call("cuMemFreeHost", host)
        for event in (begin, end):
            self.call("cuEventDestroy", event)
        self.call("cuStreamDestroy", stream)
        return rates
