"""Results of device reads in memory of other libraries' pools, against the fake driver.

These run in a separate process.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, cuda, fake_cuda_library

__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.arange(60 * 50, dtype="f4").reshape(60, 50)


class Pool:
    """A caching allocator: memory that is freed can be allocated again at once, in the order of the stream."""

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda
        self.live: dict[int, int] = {}
        self.streams: set[int] = set()
        self.free: list[tuple[int, int]] = []
        self.taken = 0

    def allocate(self, count: int, device: int, stream: int) -> int:
        self.streams.add(stream)
        self.taken += 1
        for i, (address, size) in enumerate(self.free):
            if size >= count:
                del self.free[i]
                self.live[address] = size
                return address
        made = ctypes.c_uint64()
        self.cuda.call("cuMemAlloc", ctypes.byref(made), ctypes.c_size_t(count))
        self.live[made.value] = count
        return made.value

    def release(self, address: int, count: int, device: int, stream: int) -> None:
        size = self.live.pop(address)
        assert stream in self.streams
        # The other library's use of the memory, which follows ours in the order of the stream.
        what = (ctypes.c_uint64(address), ctypes.c_ubyte(0xEE), ctypes.c_size_t(size), ctypes.c_void_p(stream))
        self.cuda.call("cuMemsetD8Async", *what)
        self.free.append((address, size))


def store(tmp_path: Path) -> str:
    where = str(tmp_path / "x.zarr")
    made = ps.create_array(where, shape=VALUES.shape, dtype="f4", chunks=(7, 50), codecs=["zstd"])
    made[...] = VALUES
    return where


@pytest.mark.parametrize("seed", range(5))
def test_results_are_in_the_peers_memory(cuda: FakeCuda, tmp_path: Path, seed: int) -> None:
    pool = Pool(cuda)
    array = ps.open(store(tmp_path), context=ps.Context(device_allocator=pool))
    cuda.configure(seed, lazy=True)
    mine = cuda.stream()
    keep = ctypes.c_uint64()
    cuda.call("cuMemAlloc", ctypes.byref(keep), ctypes.c_size_t(VALUES.nbytes))
    for _ in range(4):
        tensor = array.read(device="cuda")
        address = tensor._read.address
        assert address in pool.live
        tensor.order(mine)
        copy = (keep, ctypes.c_uint64(address), ctypes.c_size_t(VALUES.nbytes), ctypes.c_void_p(mine))
        cuda.call("cuMemcpyDtoDAsync", *copy)
        del tensor  # the copy has not begun, and the memory is in the peer's pool again
        assert not pool.live
        again = array.read(device="cuda")
        np.testing.assert_array_equal(again.numpy(), VALUES)
        cuda.synchronize(mine)
        np.testing.assert_array_equal(cuda.peek(keep.value, VALUES.shape, "f4"), VALUES)
        del again
    assert pool.taken == 8
    assert len(pool.free) == 1


def test_a_peer_without_free_memory_is_an_error(cuda: FakeCuda, tmp_path: Path) -> None:
    class Empty:
        given: Any = 0

        def allocate(self, count: int, device: int, stream: int) -> Any:
            if self.given is None:
                raise MemoryError("nothing left")
            return self.given

        def release(self, address: int, count: int, device: int, stream: int) -> None:
            raise AssertionError

    peer = Empty()
    array = ps.open(store(tmp_path), context=ps.Context(device_allocator=peer))
    with pytest.raises(ps.ResourceExhaustedError, match="the allocator returned no memory"):
        array.read(device="cuda")
    peer.given = None
    with pytest.raises((MemoryError, ps.Error), match="nothing left"):
        array.read(device="cuda")
    peer.given = "address"
    with pytest.raises(ps.Error, match="allocate should return an address"):
        array.read(device="cuda")


def test_objects_that_are_not_allocators_are_refused() -> None:
    with pytest.raises(ps.InvalidArgumentError, match="torch, cupy, rmm"):
        ps.Context(device_allocator="jemalloc")
    with pytest.raises(ps.InvalidArgumentError, match="allocate and release"):
        ps.Context(device_allocator=object())
    if "rmm" not in sys.modules:
        with pytest.raises(ps.UnsupportedError, match="needs the package rmm"):
            ps.Context(device_allocator="rmm")


class Scope:
    """A context manager that records its argument."""

    entered: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, *what: Any) -> None:
        self.what = what

    def __enter__(self) -> None:
        Scope.entered.append(self.what)

    def __exit__(self, *_: object) -> None: ...


def module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(members)
    return made


def test_torchs_allocator_is_used(cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(cuda)
    stand_in = module(
        "torch.cuda",
        caching_allocator_alloc=lambda size, device, stream: pool.allocate(size, device, stream),
        caching_allocator_delete=lambda address: pool.live.pop(address),
    )
    monkeypatch.setitem(sys.modules, "torch", module("torch", cuda=stand_in))
    monkeypatch.setitem(sys.modules, "torch.cuda", stand_in)
    array = ps.open(store(tmp_path), context=ps.Context(device_allocator="torch"))
    tensor = array.read(device="cuda")
    np.testing.assert_array_equal(tensor.numpy(), VALUES)
    address = tensor._read.address
    assert pool.live == {address: VALUES.nbytes}
    del tensor
    assert not pool.live


def test_cupys_allocator_is_used(cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(cuda)

    class Memory:
        def __init__(self, size: int) -> None:
            self.ptr = pool.allocate(size, 0, 1)

        def __del__(self) -> None:
            pool.live.pop(self.ptr)

    stand_in = module("cupy.cuda", alloc=Memory, Device=Scope, ExternalStream=Scope)
    monkeypatch.setitem(sys.modules, "cupy", module("cupy", cuda=stand_in))
    monkeypatch.setitem(sys.modules, "cupy.cuda", stand_in)
    Scope.entered.clear()
    array = ps.open(store(tmp_path), context=ps.Context(device_allocator="cupy"))
    tensor = array.read(device="cuda")
    np.testing.assert_array_equal(tensor.numpy(), VALUES)
    address = tensor._read.address
    assert list(pool.live) == [address]
    del tensor
    assert not pool.live
    assert [each[0] for each in Scope.entered[::2]] == [0, 0]
    assert Scope.entered[1] == Scope.entered[3]


def test_rmms_resource_is_used(cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(cuda)
    handles: set[int] = set()

    class Stream:
        def __init__(self, of: Any) -> None:
            version, self.handle = of.__cuda_stream__()
            assert version == 0
            handles.add(self.handle)

    resource = SimpleNamespace(
        allocate=lambda size, stream: pool.allocate(size, 0, stream.handle),
        deallocate=lambda address, size, stream: pool.live.pop(address),
    )
    mr = module("rmm.mr", get_per_device_resource=lambda device: resource)
    monkeypatch.setitem(sys.modules, "rmm", module("rmm", mr=mr))
    monkeypatch.setitem(sys.modules, "rmm.mr", mr)
    monkeypatch.setitem(sys.modules, "rmm.pylibrmm", module("rmm.pylibrmm"))
    monkeypatch.setitem(sys.modules, "rmm.pylibrmm.stream", module("rmm.pylibrmm.stream", Stream=Stream))
    array = ps.open(store(tmp_path), context=ps.Context(device_allocator="rmm"))
    tensor = array.read(device="cuda")
    np.testing.assert_array_equal(tensor.numpy(), VALUES)
    del tensor
    assert not pool.live
    assert len(handles) == 1
