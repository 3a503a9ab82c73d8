"""The fake CUDA driver for Python tests, in place of the machine's. If it is not built, the tests are skipped."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("PENSTOCK_FAKE_CUDA", ROOT / "build" / "release" / "tests" / "libpenstock_fake_cuda.so"))


class FakeCuda:
    """Functions of the driver that the tests call themselves, and its counters."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL(str(LIBRARY))
        self.driver.penstock_fake_cuda_count.restype = ctypes.c_uint64
        self.driver.penstock_fake_cuda_live_bytes.restype = ctypes.c_uint64
        self.driver.penstock_fake_cuda_peek.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
        self.driver.penstock_fake_cuda_configure.argtypes = [ctypes.c_uint64, ctypes.c_int, ctypes.c_uint]
        self.driver.penstock_fake_cuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int]
        self.call("cuInit", ctypes.c_uint(0))
        self.contexts = []
        for number in range(2):
            context = ctypes.c_void_p()
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(number))
            self.contexts.append(context)

    def call(self, name: str, *arguments: Any) -> None:
        """A function of the driver, which must succeed."""
        found = ctypes.c_void_p()
        status = self.driver.cuGetProcAddress_v2(
            name.encode(), ctypes.byref(found), 13000, ctypes.c_uint64(0), ctypes.byref(ctypes.c_int())
        )
        assert status == 0, name
        types = [type(each) if isinstance(each, ctypes._SimpleCData) else ctypes.c_void_p for each in arguments]
        status = ctypes.CFUNCTYPE(ctypes.c_int, *types)(found.value)(*arguments)
        assert status == 0, f"{name}: {status}"

    def count(self, name: str) -> int:
        return int(self.driver.penstock_fake_cuda_count(name.encode()))

    def reset(self) -> None:
        self.driver.penstock_fake_cuda_reset_counts()

    def configure(self, seed: int = 1, lazy: bool = False, delay: int = 0) -> None:
        self.driver.penstock_fake_cuda_configure(seed, int(lazy), delay)

    def fail(self, name: str, status: int, after: int = 0) -> None:
        self.driver.penstock_fake_cuda_fail(name.encode(), after, status)

    def hold_kernels(self, hold: bool = True) -> None:
        """Let no kernel begin until the next call with False. No later garbage may wait for one."""
        gc.collect()
        self.driver.penstock_fake_cuda_hold_kernels(int(hold))

    @contextlib.contextmanager
    def ahead(self) -> Iterator[None]:
        """Let no kernel begin within the block, and assert that no call in it waits for the device."""
        self.hold_kernels()
        self.reset()
        try:
            yield
            waits = ("cuEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize", "cuMemFree", "cuMemFreeHost")
            assert {each: self.count(each) for each in waits} == dict.fromkeys(waits, 0)
        finally:
            self.hold_kernels(False)

    def fault(self, status: int) -> None:
        self.driver.penstock_fake_cuda_fault(status)

    def push(self, device: int) -> None:
        self.call("cuCtxPushCurrent", self.contexts[device])

    def pop(self) -> None:
        self.call("cuCtxPopCurrent", ctypes.byref(ctypes.c_void_p()))

    def stream(self) -> int:
        made = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), ctypes.c_uint(1))
        assert made.value is not None
        return made.value

    def synchronize(self, stream: int) -> None:
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def peek(self, address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        out = np.empty(shape, dtype)
        assert self.driver.penstock_fake_cuda_peek(out.ctypes.data, address, out.nbytes)
        return out


class DeviceArray:
    """The part of CuPy's ndarray that Penstock uses: memory with `__cuda_array_interface__`."""

    def __init__(
        self, cuda: FakeCuda, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None
    ) -> None:
        self.cuda, self.shape, self.dtype = cuda, shape, np.dtype(dtype)
        room = np.empty(shape, dtype)
        self.strides = room.strides if strides is None else strides
        extent = self.dtype.itemsize + sum(abs(s) * (n - 1) for s, n in zip(self.strides, shape, strict=True))
        base = ctypes.c_uint64()
        self.bytes = max(extent, 1)
        cuda.call("cuMemAlloc", ctypes.byref(base), ctypes.c_size_t(self.bytes))
        self.base = base.value
        self.address = base.value + sum(-s * (n - 1) for s, n in zip(self.strides, shape, strict=True) if s < 0)
        self.stream: int | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
            "version": 3,
            "stream": self.stream,
        }

    def get(self) -> np.ndarray[Any, Any]:
        """The values, after all streams have finished."""
        memory = self.cuda.peek(self.base, (self.bytes,), np.uint8)
        return np.ndarray(self.shape, self.dtype, memory, self.address - self.base, self.strides)


@contextlib.contextmanager
def slow_device(cuda: FakeCuda, seconds: float = 0.0005) -> Iterator[None]:
    """A device that runs one operation at a time, any of those that are ready, with a pause after each."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            cuda.driver.penstock_fake_cuda_pump(1)
            time.sleep(seconds)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def run_cases(name: str) -> None:
    """Run a file of cases in a separate process, because a process looks up the driver only once."""
    if not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver is not built: {LIBRARY}")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).with_name(name))],
        env=os.environ | {"PENSTOCK_CUDA_DRIVER": str(LIBRARY)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-20000:]


def assert_warm(cuda: FakeCuda, work: Callable[[], object], calls: Iterable[str]) -> None:
    """Assert that `work`, once warm, makes none of these calls. Warming up may take several runs, because concurrency
    differs between them."""
    counts: dict[str, int] = {}
    for _ in range(40):
        cuda.reset()
        for _ in range(4):
            work()
        counts = {call: cuda.count(call) for call in calls}
        if not any(counts.values()):
            return
    raise AssertionError(f"still called: {counts}")


@pytest.fixture(scope="session")
def fake_cuda_library() -> FakeCuda:
    if not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver is not built: {LIBRARY}")
    os.environ["PENSTOCK_CUDA_DRIVER"] = str(LIBRARY)
    return FakeCuda()


@pytest.fixture
def cuda(fake_cuda_library: FakeCuda) -> Any:
    """The fake driver with device 0 current on this thread."""
    fake_cuda_library.configure()
    fake_cuda_library.push(0)
    fake_cuda_library.reset()
    yield fake_cuda_library
    fake_cuda_library.pop()
    fake_cuda_library.configure()
