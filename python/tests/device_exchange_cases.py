"""Exchange of memory and streams with other libraries, on the fake driver: these tests have not run on a GPU. They run
in a separate process, because a process looks up the driver only once.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import DeviceArray, FakeCuda, cuda, fake_cuda_library
from penstock.core.data_types import NAMED_TYPES

__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.arange(60 * 50, dtype="f4").reshape(60, 50)
LEGACY = 1


@pytest.fixture
def array(tmp_path: Path) -> ps.Array:
    made = ps.create_array(
        str(tmp_path / "x.zarr"), shape=VALUES.shape, dtype="f4", chunks=(7, 50), shards=(21, 50), codecs=["zstd"]
    )
    made[...] = VALUES
    return made


class Torch:
    """Exports memory as torch does: DLPack with stream ordering, and version 2 of the interface (without a stream)."""

    def __init__(self, cuda: FakeCuda, memory: DeviceArray, own: int) -> None:
        self.cuda, self.memory, self.own = cuda, memory, own
        self.asked: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: int) -> Any:
        self.asked.append(stream)
        event = ctypes.c_void_p()
        self.cuda.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        self.cuda.call("cuEventRecord", event, ctypes.c_void_p(self.own))
        self.cuda.call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, ctypes.c_uint(0))
        memory = self.memory
        return ps._core._dlpack_capsule(
            self, memory.address, memory.dtype, memory.shape, memory.strides, (2, 0), 0, False
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        found = self.memory.__cuda_array_interface__ | {"version": 2}
        del found["stream"]
        return found


def queue(cuda: FakeCuda, stream: int, memory: DeviceArray, value: int) -> Any:
    """The caller's earlier work: it fills the memory after a long queue of other work."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    kernels = [kind(lambda _: None), kind(lambda _: ctypes.memset(memory.base, value, memory.bytes))]
    for kernel in (*kernels[:1] * 200, kernels[1]):
        assert cuda.driver.penstock_fake_cuda_enqueue(ctypes.c_void_p(stream), kernel, None) == 0
    return kernels


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("given", [True, False])
def test_out_by_dlpack_waits_for_queued_work_of_its_library(
    cuda: FakeCuda, array: ps.Array, given: bool, seed: int
) -> None:
    array.read(device="cuda").numpy()
    own, mine = cuda.stream(), cuda.stream()
    memory = DeviceArray(cuda, VALUES.shape, "f4")
    out = Torch(cuda, memory, own)
    cuda.configure(seed, lazy=True)
    kept = queue(cuda, own, memory, 0xAA)
    tensor = array.read(device="cuda", out=out, stream=mine if given else None)
    assert out.asked == [mine if given else LEGACY]
    tensor.synchronize()
    cuda.synchronize(own)  # an unordered read would be overwritten
    np.testing.assert_array_equal(memory.get(), VALUES)
    assert kept


class OnlyInterface:
    def __init__(self, memory: DeviceArray, version: int) -> None:
        found = memory.__cuda_array_interface__ | {"version": version}
        if version < 3:
            del found["stream"]
        self.__cuda_array_interface__ = found


@pytest.mark.parametrize("seed", range(2))
def test_an_interface_without_a_stream_uses_the_legacy_stream(cuda: FakeCuda, array: ps.Array, seed: int) -> None:
    array.read(device="cuda").numpy()
    memory = DeviceArray(cuda, VALUES.shape, "f4")
    cuda.configure(seed, lazy=True)
    kept = queue(cuda, LEGACY, memory, 0xAA)
    array.read(device="cuda", out=OnlyInterface(memory, 2)).synchronize()
    cuda.synchronize(LEGACY)
    np.testing.assert_array_equal(memory.get(), VALUES)
    assert kept
    cuda.reset()
    memory.stream = None  # version 3 of the interface: no wait is needed
    array.read(device="cuda", out=OnlyInterface(memory, 3)).synchronize()
    assert cuda.count("legacy stream") == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "bool", "f8"])
def test_out_may_be_a_tensor_of_any_type(cuda: FakeCuda, tmp_path: Path, dtype: str) -> None:
    values = (np.arange(40) % 2).astype(ps._core.numpy_dtype("bfloat16") if dtype == "bfloat16" else dtype)
    made = ps.create_array(str(tmp_path / "y.zarr"), shape=values.shape, dtype=values.dtype, chunks=(9,))
    made[...] = values
    out = made.read(np.s_[:20], device="cuda")
    again = made.read(np.s_[20:], device="cuda", out=out)
    assert again._read.address == out._read.address
    assert out.numpy().tobytes() == values[20:].tobytes()


class ReadOnly:
    def __init__(self, memory: DeviceArray) -> None:
        self.memory = memory

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **_: Any) -> Any:
        memory = self.memory
        return ps._core._dlpack_capsule(
            self, memory.address, memory.dtype, memory.shape, memory.strides, (2, 0), 1, True
        )


def test_out_that_cannot_be_written_to_is_refused(cuda: FakeCuda, array: ps.Array) -> None:
    with pytest.raises(ps.InvalidArgumentError, match="out is read-only"):
        array.read(device="cuda", out=ReadOnly(DeviceArray(cuda, VALUES.shape, "f4")))
    with pytest.raises(ps.InvalidArgumentError, match="out is not device memory: it is a ndarray on the host"):
        array.read(device="cuda", out=np.empty(VALUES.shape, "f4"))
    with pytest.raises(ps.InvalidArgumentError, match="out has dtype int32, the values are float32"):
        array.read(device="cuda", out=Torch(cuda, DeviceArray(cuda, VALUES.shape, "i4"), cuda.stream()))


SMALL_FLOATS = [name for name in NAMED_TYPES if name == "bfloat16" or name.startswith("float8")]


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_small_floats_are_copied_back_from_the_device(cuda: FakeCuda, tmp_path: Path, dtype: str) -> None:
    values = np.arange(1, 7).astype(ps._core.numpy_dtype(dtype))
    here, there = (
        ps.create_array(str(tmp_path / name), shape=(6,), dtype=values.dtype, chunks=(4,), fill_value=1)
        for name in ("here", "there")
    )
    here[...] = values
    there[...] = here.read(device="cuda")
    assert there[...].tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_types_without_a_typestr_have_no_interface(cuda: FakeCuda, tmp_path: Path, dtype: str) -> None:
    values = np.arange(6).astype(ps._core.numpy_dtype(dtype))
    made = ps.create_array(str(tmp_path / "y.zarr"), shape=(6,), dtype=values.dtype, chunks=(3,), fill_value=1)
    made[...] = values
    tensor = made.read(device="cuda")
    assert not hasattr(tensor, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=f"no name for {dtype}: take the values by DLPack"):
        tensor.__cuda_array_interface__  # noqa: B018
    kind = ps._core._dlpack_view(tensor.__dlpack__(stream=cuda.stream(), max_version=(1, 1)))[3]
    assert kind == ps._core._dlpack_type(values.dtype)


class Protocol:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


def test_a_stream_object_of_the_default_stream_is_the_legacy_one(cuda: FakeCuda, array: ps.Array) -> None:
    memory = DeviceArray(cuda, VALUES.shape, "f4")
    cuda.configure(1, lazy=True)
    kept = queue(cuda, LEGACY, memory, 0xAA)
    array.read(device="cuda", out=OnlyInterface(memory, 3), stream=Protocol(0))
    cuda.synchronize(LEGACY)  # the legacy stream waits for the read, which has waited for the stream
    np.testing.assert_array_equal(memory.get(), VALUES)
    assert kept
    with pytest.raises(ps.InvalidArgumentError, match="stream 0 is ambiguous"):
        array.read(device="cuda", stream=0)


def test_an_array_for_a_device_is_not_exported_without_a_copy(cuda: FakeCuda, array: ps.Array) -> None:
    opened = ps.open(array.uri, device="cuda")
    for stream in (None, LEGACY, cuda.stream()):
        with pytest.raises(BufferError, match="always makes a copy"):
            opened.__dlpack__(stream=stream, copy=False)


IS_COPIED = 2


def flags_of(capsule: Any) -> int:
    """The flags of a versioned capsule, which follow two numbers of 32 bits and two pointers."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_uint64.from_address(get(capsule, b"dltensor_versioned") + 24).value


def test_vectors_as_elements_are_refused() -> None:
    """Elements of several numbers, which DLPack describes by its lanes."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = ps.Tensor(np.zeros(4, "f4")).__dlpack__()
    ctypes.c_uint16.from_address(get(capsule, b"dltensor") + 22).value = 2
    with pytest.raises(ps.UnsupportedError, match="vectors"):
        ps._core._dlpack_view(capsule)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strides", [None, (4, 240), (-200, 4)])
def test_a_copy_is_made_on_the_consumers_stream(
    cuda: FakeCuda, array: ps.Array, strides: tuple[int, ...] | None, seed: int
) -> None:
    out = None if strides is None else DeviceArray(cuda, VALUES.shape, "f4", strides)
    array.read(device="cuda").numpy()
    mine = cuda.stream()
    cuda.configure(seed, lazy=True)
    tensor = array.read(device="cuda", out=out)
    capsule = tensor.__dlpack__(stream=mine, max_version=(1, 1), copy=True)
    assert flags_of(capsule) == IS_COPIED
    assert not tensor.done  # the export did not wait
    address, shape, found, _, device = ps._core._dlpack_view(capsule)
    assert (shape, found, device) == (VALUES.shape, (200, 4), (2, 0))
    assert address != tensor._read.address
    cuda.synchronize(mine)
    np.testing.assert_array_equal(cuda.peek(address, VALUES.shape, "f4"), VALUES)
    assert flags_of(tensor.__dlpack__(stream=mine, max_version=(1, 1))) == 0
    assert cuda.count("legacy stream") == 0


def test_a_copy_without_a_stream_is_complete_on_return(cuda: FakeCuda, array: ps.Array) -> None:
    cuda.configure(1, lazy=True)
    capsule = array.read(device="cuda").__dlpack__(stream=-1, max_version=(1, 1), copy=True)
    address = ps._core._dlpack_view(capsule)[0]
    np.testing.assert_array_equal(cuda.peek(address, VALUES.shape, "f4"), VALUES)
    assert cuda.count("legacy stream") == 0


def test_a_copy_of_nothing_and_of_one_element(cuda: FakeCuda, array: ps.Array) -> None:
    for selection, shape in ((np.s_[5:5], (0, 50)), (np.s_[3, 4], ())):
        tensor = array.read(selection, device="cuda")
        capsule = tensor.__dlpack__(stream=cuda.stream(), max_version=(1, 1), copy=True)
        assert ps._core._dlpack_view(capsule)[1] == shape


@pytest.mark.parametrize("copy", [None, True])
def test_an_array_exports_a_copy(cuda: FakeCuda, array: ps.Array, copy: bool | None) -> None:
    opened = ps.open(array.uri, device="cuda")
    mine = cuda.stream()
    cuda.reset()
    capsule = opened.__dlpack__(stream=mine, max_version=(1, 1), copy=copy)
    assert flags_of(capsule) == IS_COPIED
    assert cuda.count("cuMemcpyDtoDAsync") == 0  # the read wrote into separate memory: a second copy is not needed
    cuda.synchronize(mine)
    np.testing.assert_array_equal(cuda.peek(ps._core._dlpack_view(capsule)[0], VALUES.shape, "f4"), VALUES)
