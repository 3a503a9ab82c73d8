"""Reads into device memory, against the fake driver: these tests have not run on a GPU.

They run in a separate process, because a process looks up the driver only once.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import DeviceArray, FakeCuda, cuda, fake_cuda_library
from support import fake_torch

__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.arange(60 * 50, dtype="f4").reshape(60, 50)


@pytest.fixture
def array(tmp_path: Path) -> ps.Array:
    made = ps.create_array(
        str(tmp_path / "x.zarr"), shape=VALUES.shape, dtype="f4", chunks=(7, 50), shards=(21, 50), codecs=["zstd"]
    )
    made[...] = VALUES
    return made


def test_a_tensor_has_the_values_that_the_host_reads(cuda: FakeCuda, array: ps.Array) -> None:
    tensor = array.read(device="cuda:0")
    assert isinstance(tensor, ps.Tensor)
    assert (tensor.shape, tensor.dtype, tensor.device, tensor.ndim) == ((60, 50), np.dtype("f4"), "cuda:0", 2)
    assert tensor.__dlpack_device__() == (2, 0)
    np.testing.assert_array_equal(tensor.numpy(), VALUES)
    np.testing.assert_array_equal(np.asarray(array.read(np.s_[50:3:-7, 4:9], device="cuda")), VALUES[50:3:-7, 4:9])
    assert cuda.count("legacy stream") == 0


def test_reads_use_the_callers_current_device(cuda: FakeCuda, array: ps.Array) -> None:
    assert array.read(device="cuda").device == "cuda:0"
    cuda.push(1)
    tensor = array.read(device="cuda")
    cuda.pop()
    assert tensor.device == "cuda:1"
    np.testing.assert_array_equal(tensor.numpy(), VALUES)
    assert array.read(device="cuda:1").device == "cuda:1"
    with pytest.raises(ps.InvalidArgumentError, match="there is no device cuda:7"):
        array.read(device="cuda:7")
    with pytest.raises(ps.InvalidArgumentError, match="'cuda:0' and its like"):
        array.read(device="gpu")


def test_exported_values_are_ordered_on_the_consumers_stream(cuda: FakeCuda, array: ps.Array) -> None:
    mine = cuda.stream()
    array.read(device="cuda").numpy()
    cuda.configure(5, lazy=True)
    tensor = array.read(device="cuda", stream=mine)
    capsule = tensor.__dlpack__(stream=mine, max_version=(1, 0))
    assert '"dltensor_versioned"' in repr(capsule)
    assert not tensor.done
    cuda.synchronize(mine)
    np.testing.assert_array_equal(cuda.peek(tensor._read.address, VALUES.shape, "f4"), VALUES)
    assert cuda.count("legacy stream") == 0


@pytest.mark.parametrize(
    "make", [lambda s: s, lambda s: CupyStream(s), lambda s: TorchStream(s), lambda s: Protocol(s)]
)
def test_streams_of_all_kinds(cuda: FakeCuda, array: ps.Array, make: Any) -> None:
    mine = cuda.stream()
    tensor = array.read(device="cuda", stream=make(mine))
    tensor.order(make(mine))
    np.testing.assert_array_equal(tensor.numpy(), VALUES)


class CupyStream:
    def __init__(self, handle: int) -> None:
        self.ptr = handle


class TorchStream:
    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


class Protocol:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


def test_objects_that_are_not_streams_are_refused(cuda: FakeCuda, array: ps.Array) -> None:
    with pytest.raises(ps.InvalidArgumentError, match="stream 0 is ambiguous"):
        array.read(device="cuda", stream=0)
    with pytest.raises(ps.InvalidArgumentError, match="stream is a handle"):
        array.read(device="cuda", stream="mine")
    tensor = array.read(device="cuda")
    with pytest.raises(ps.InvalidArgumentError, match="stream 0 is ambiguous"):
        tensor.__dlpack__(stream=0)
    with pytest.raises(TypeError):
        tensor.__dlpack__(stream="1")


@pytest.mark.parametrize("strides", [None, (4, 240), (-200, 4), (400, 8)])
def test_out_may_be_foreign_device_memory_with_any_strides(
    cuda: FakeCuda, array: ps.Array, strides: tuple[int, ...] | None
) -> None:
    out = DeviceArray(cuda, VALUES.shape, "f4", strides)
    mine = cuda.stream()
    tensor = array.read(device="cuda", out=out, stream=mine)
    cuda.synchronize(mine)
    np.testing.assert_array_equal(out.get(), VALUES)
    assert tensor._read.address == out.address
    assert cuda.count("legacy stream") == 0


class SlowStore:
    """A store that returns only metadata until `go` is set."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.go = folder, threading.Event()

    def get(self, key: str) -> bytes | None:
        if key.startswith("c/"):
            assert self.go.wait(60)
        file = self.folder / key
        return file.read_bytes() if file.is_file() else None


def test_a_read_with_out_may_return_before_storage_answers(cuda: FakeCuda, array: ps.Array, tmp_path: Path) -> None:
    out = DeviceArray(cuda, VALUES.shape, "f4")
    mine = cuda.stream()
    store = SlowStore(tmp_path / "x.zarr")
    tensor = ps.open(store).read(device="cuda", out=out, stream=mine, wait=False)
    assert not tensor.done
    store.go.set()
    tensor.order(mine)
    cuda.synchronize(mine)
    np.testing.assert_array_equal(out.get(), VALUES)


def test_out_may_be_a_dlpack_producer(cuda: FakeCuda, array: ps.Array) -> None:
    memory = array.read(np.s_[:30], device="cuda")
    out = array.read(np.s_[30:], device="cuda", out=OnlyDlpack(memory))
    np.testing.assert_array_equal(out.numpy(), VALUES[30:])
    np.testing.assert_array_equal(memory.numpy(), VALUES[30:])


class OnlyDlpack:
    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.tensor.__dlpack__(**arguments)


def test_out_that_does_not_fit_is_refused(cuda: FakeCuda, array: ps.Array) -> None:
    with pytest.raises(ps.InvalidArgumentError, match=r"out has dtype int32, the .* float32"):
        array.read(device="cuda", out=DeviceArray(cuda, VALUES.shape, "i4"))
    with pytest.raises(ps.InvalidArgumentError, match="out has shape"):
        array.read(device="cuda", out=DeviceArray(cuda, (3, 50), "f4"))
    with pytest.raises(ps.InvalidArgumentError, match="out is device memory"):
        array.read(device="cuda", out=np.empty(VALUES.shape, "f4").tolist())
    with pytest.raises(ps.InvalidArgumentError, match="out is on cuda:0, the read is for cuda:1"):
        array.read(device="cuda:1", out=DeviceArray(cuda, VALUES.shape, "f4"))


PARTLY = np.zeros((77, 50), "f4")  # the last chunks do not exist
PARTLY[:60] = VALUES
MASK = np.random.default_rng(3).random(PARTLY.shape) < 0.3
SELECTIONS: dict[str, tuple[Any, Any]] = {
    "a list": (np.s_[[3, 1, 70, 3]], np.s_[[3, 1, 70, 3]]),
    "two lists": (ps.oindex[[3, 1, 70], [4, 2]], np.ix_([3, 1, 70], [4, 2])),
    "steps": (ps.oindex[[1, 3, 5, 40, 41, 9, 7], 3:40:2], (np.r_[1, 3, 5, 40, 41, 9, 7], np.s_[3:40:2])),
    "a mask of rows": (ps.oindex[MASK[:, 0], ::-1], (MASK[:, 0], np.s_[::-1])),
    "an int next to a list": (ps.oindex[7, [9, 1]], np.s_[7, [9, 1]]),
    "points": (ps.vindex[[3, 70, 3], [49, 0, 49]], np.s_[[3, 70, 3], [49, 0, 49]]),
    "points in two dimensions": (ps.vindex[[[3], [70]], [[4, 0, 5]]], np.s_[[[3], [70]], [[4, 0, 5]]]),
    "a mask": (ps.vindex[MASK], MASK),
    "all by a mask": (ps.vindex[np.ones_like(MASK)], np.ones_like(MASK)),
    "nothing": (ps.vindex[np.zeros_like(MASK)], np.zeros_like(MASK)),
    "blocks": (ps.blocks[1:, 0], np.s_[21:, :]),
    "backwards": (np.s_[::-1, 40:3:-3], np.s_[::-1, 40:3:-3]),
}


@pytest.mark.parametrize("which", SELECTIONS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_device_reads_all_selections_of_the_host(cuda: FakeCuda, array: ps.Array, which: str, dtype: str) -> None:
    array.resize(PARTLY.shape)
    selection, expected = SELECTIONS[which]
    found = array.read(selection, device="cuda", dtype=dtype)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.numpy(), PARTLY[expected])


def test_points_are_read_into_memory_with_any_strides(cuda: FakeCuda, array: ps.Array) -> None:
    out = DeviceArray(cuda, (2, 3), "f4", (-4, 20))
    array.read(ps.vindex[[[3], [59]], [[4, 0, 5]]], device="cuda", out=out).synchronize()
    np.testing.assert_array_equal(out.get(), VALUES[[[3], [59]], [[4, 0, 5]]])


def by_job(array: ps.Array, **how: Any) -> Any:
    return array.read_async(**how).wait()


@pytest.mark.parametrize("read", [ps.Array.read, by_job])
def test_progress_grows_until_all_chunks_are_queued(cuda: FakeCuda, array: ps.Array, tmp_path: Path, read: Any) -> None:
    store = SlowStore(tmp_path / "x.zarr")
    seen: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        seen.append((done, total))
        store.go.set()

    tensor = read(ps.open(store), device="cuda", progress=report)
    assert tensor._read.queued
    decoded = 9 * 7 * 50 * 4
    assert (seen[0], seen[-1]) == ((0, decoded), (decoded, decoded))
    assert seen == sorted(seen)
    np.testing.assert_array_equal(tensor.numpy(), VALUES)


@pytest.mark.parametrize("read", [ps.Array.read, by_job])
def test_progress_stops_a_device_read(cuda: FakeCuda, array: ps.Array, tmp_path: Path, read: Any) -> None:
    store = SlowStore(tmp_path / "x.zarr")

    def stop(done: int, total: int) -> bool:
        threading.Timer(0.2, store.go.set).start()  # the store answers after the read was cancelled
        return False

    def fail(done: int, total: int) -> bool:
        stop(done, total)
        raise KeyError("mine")

    opened = ps.open(store)
    with pytest.raises(ps.CancelledError):
        read(opened, device="cuda", progress=stop)
    store.go.clear()
    with pytest.raises(KeyError, match="mine"):
        read(opened, device="cuda", progress=fail)
    with pytest.raises(ps.InvalidArgumentError, match="out has shape"):
        opened.read_async(device="cuda", out=DeviceArray(cuda, (3, 50), "f4"), progress=stop)


def test_out_is_not_written_to_after_an_interrupt(cuda: FakeCuda, array: ps.Array) -> None:
    array.read(device="cuda").numpy()  # the engine starts
    out, mine = DeviceArray(cuda, VALUES.shape, "f4"), cuda.stream()

    def interrupt(done: int, total: int) -> bool:
        raise KeyboardInterrupt

    for seed in range(10):
        cuda.configure(seed, lazy=True)
        with pytest.raises(KeyboardInterrupt):  # it keeps the traceback
            array.read(device="cuda", out=out, progress=interrupt)
        size = ctypes.c_size_t(out.bytes)
        cuda.call("cuMemsetD8Async", ctypes.c_uint64(out.base), ctypes.c_ubyte(0xAA), size, ctypes.c_void_p(mine))
        cuda.synchronize(mine)
        cuda.driver.penstock_fake_cuda_pump(1 << 30)  # all that is queued
        np.testing.assert_array_equal(cuda.peek(out.base, (out.bytes,), "u1"), np.full(out.bytes, 0xAA, "u1"))
    cuda.configure()


def test_the_host_form_of_dlpack(cuda: FakeCuda, array: ps.Array) -> None:
    tensor = array.read(device="cuda")
    np.testing.assert_array_equal(np.from_dlpack(tensor, device="cpu"), VALUES)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 1))


def test_the_cuda_array_interface(cuda: FakeCuda, array: ps.Array) -> None:
    found = array.read(device="cuda").__cuda_array_interface__
    assert found["shape"] == VALUES.shape
    assert (found["typestr"], found["version"], found["stream"]) == ("<f4", 3, 1)


def test_read_async(cuda: FakeCuda, array: ps.Array) -> None:
    job = array.read_async(device="cuda")
    tensor = job.wait()
    assert job.done
    np.testing.assert_array_equal(tensor.numpy(), VALUES)


def test_failures_of_the_host_are_raised_by_the_tensor(cuda: FakeCuda, array: ps.Array, tmp_path: Path) -> None:
    (tmp_path / "x.zarr" / "c" / "1" / "0").write_bytes(b"too short")
    tensor = array.read(device="cuda")
    with pytest.raises(ps.CorruptDataError, match="c/1/0"):
        tensor.__dlpack__(stream=cuda.stream())
    with pytest.raises(ps.CorruptDataError):
        tensor.numpy()
    with pytest.raises(ps.CorruptDataError):
        array.read(device="cuda", check=True)


DAMAGED = np.random.default_rng(1).integers(0, 8, (4, 4096)).astype("f4")


@pytest.fixture
def damaged(tmp_path: Path) -> ps.Array:
    """An array whose chunk (2, 0) the device cannot decode."""
    made = ps.create_array(str(tmp_path / "y.zarr"), shape=(4, 4096), dtype="f4", chunks=(1, 4096), codecs=["zstd"])
    made[...] = DAMAGED
    file = tmp_path / "y.zarr" / "c" / "2" / "0"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(b ^ 0x5A for b in content[middle : middle + 40])
    file.write_bytes(content)
    with pytest.raises(ps.CorruptDataError):
        made[2]
    return made


def test_a_failure_on_the_device_is_raised_by_the_next_host_wait(cuda: FakeCuda, damaged: ps.Array) -> None:
    made, values = damaged, DAMAGED
    tensor = made.read(device="cuda")
    stream = cuda.stream()
    tensor.order(stream)  # the error is raised later: exporting does not wait
    with pytest.raises(ps.CorruptDataError) as caught:
        tensor.synchronize()
    assert "c/2/0" in str(caught.value)
    assert "chunk (2, 0)" in str(caught.value)
    seen = cuda.peek(tensor._read.address, values.shape, "f4")
    np.testing.assert_array_equal(seen[[0, 1, 3]], values[[0, 1, 3]])
    assert np.isnan(seen[2]).all()
    with pytest.raises(ps.CorruptDataError):
        made.read(device="cuda", check=True)


@pytest.mark.parametrize("where", ["freed", "host", "beyond its end"])
def test_out_that_is_no_longer_device_memory_is_refused(cuda: FakeCuda, array: ps.Array, where: str) -> None:
    out = DeviceArray(cuda, VALUES.shape, "f4")
    here = np.empty_like(VALUES)
    if where == "freed":
        cuda.call("cuMemFree", ctypes.c_uint64(out.base))
    elif where == "host":
        out.address = here.ctypes.data
    else:
        out.address += 8
    with pytest.raises(ps.InvalidArgumentError, match="device"):
        array.read(device="cuda", out=out)
    np.testing.assert_array_equal(array.read(device="cuda").numpy(), VALUES)


def test_clear_frees_idle_memory(cuda: FakeCuda, array: ps.Array) -> None:
    with ps.Context(threads=2) as context:
        mine = ps.open(array.uri, context=context)
        np.testing.assert_array_equal(mine.read(device="cuda").numpy(), VALUES)
        assert context.usage()["device_wave_bytes"] > 0
        context.clear()
        usage = context.usage()
        assert usage["device_wave_bytes"] == usage["device_result_bytes"] == 0
        np.testing.assert_array_equal(mine.read(device="cuda").numpy(), VALUES)


def test_clear_restores_the_engine_after_a_failed_driver_call(cuda: FakeCuda, array: ps.Array) -> None:
    with ps.Context(threads=2) as context:
        mine = ps.open(array.uri, context=context)
        held = mine.read(device="cuda")
        held.synchronize()
        cuda.fail("cuMemcpyHtoDAsync", 700)
        with pytest.raises(ps.Error, match="cuMemcpyHtoDAsync"):
            mine.read(device="cuda").numpy()
        with pytest.raises(ps.Error, match=r"clear\(\) on the context"):
            mine.read(device="cuda")
        context.clear()
        np.testing.assert_array_equal(mine.read(device="cuda").numpy(), VALUES)
        del held
        np.testing.assert_array_equal(mine.read(device="cuda").numpy(), VALUES)


def handed(cuda: FakeCuda, producer: Any) -> Any:
    """The values of a tensor or an array, copied by a consumer."""
    stream = cuda.stream()
    capsule = producer.__dlpack__(stream=stream, max_version=(1, 0))
    cuda.synchronize(stream)
    return capsule


def test_an_unqueried_failure_is_raised_once_by_the_next_call(
    cuda: FakeCuda, array: ps.Array, damaged: ps.Array
) -> None:
    with ps.Context(threads=2, device_memory_limit=1 << 20) as context:
        good = ps.open(array.uri, context=context)
        other = good.read(device="cuda")
        ask = {"read": lambda: good.read(device="cuda"), "tensor": other.synchronize, "context": context.synchronize}
        for asked, deferred, kept in itertools.product(ask, (True, False), (True, False)):
            if deferred:
                held = handed(cuda, ps.open(damaged.uri, context=context, device="cuda"))
            else:
                held = handed(cuda, ps.open(damaged.uri, context=context).read(device="cuda"))
            if not kept:
                del held
            with pytest.raises(ps.CorruptDataError, match="of an earlier read") as caught:
                ask[asked]()
            for name in ("c/2/0", "chunk (2, 0)", f"array '{damaged.uri}'"):
                assert name in str(caught.value)
            for each in ask.values():
                each()
        np.testing.assert_array_equal(good.read(device="cuda").numpy(), VALUES)


def test_the_context_waits_for_exported_reads(cuda: FakeCuda, damaged: ps.Array) -> None:
    with ps.Context(threads=2, device_memory_limit=1 << 20) as context:
        cuda.configure(3, lazy=True)
        capsule = ps.open(damaged.uri, context=context).read(device="cuda").__dlpack__(stream=cuda.stream())
        with pytest.raises(ps.CorruptDataError, match="c/2/0"):
            context.synchronize()
        context.synchronize()
        del capsule


def test_failures_are_reported_if_the_consumer_orders_itself(cuda: FakeCuda, damaged: ps.Array) -> None:
    with ps.Context(threads=2, device_memory_limit=1 << 20) as context:
        capsule = ps.open(damaged.uri, context=context).read(device="cuda").__dlpack__(stream=-1)
        with pytest.raises(ps.CorruptDataError, match="of an earlier read"):
            context.synchronize()
        context.synchronize()
        del capsule


def test_memory_waits_for_a_consumer_that_orders_itself(cuda: FakeCuda, array: ps.Array) -> None:
    tensor = array.read(device="cuda")
    capsule = tensor.__dlpack__(stream=-1)
    del capsule
    tensor.synchronize()  # references that were dropped are released now
    cuda.reset()
    cuda.fail("cuCtxRecordEvent", 1)  # as with a driver that does not have it
    del tensor
    assert cuda.count("cuCtxSynchronize") == 1


@pytest.mark.parametrize("ordered", [True, False])
def test_failures_in_foreign_memory_are_reported_too(cuda: FakeCuda, damaged: ps.Array, ordered: bool) -> None:
    with ps.Context(threads=2, device_memory_limit=1 << 20) as context:
        opened = ps.open(damaged.uri, context=context)
        stream = cuda.stream() if ordered else None
        opened.read(device="cuda", out=DeviceArray(cuda, damaged.shape, "f4"), stream=stream)
        with pytest.raises(ps.CorruptDataError, match="of an earlier read"):
            context.synchronize()
        context.synchronize()


def test_a_tile_that_fails_when_its_stream_is_closed_is_reported(cuda: FakeCuda, damaged: ps.Array) -> None:
    with ps.Context(threads=2, device_memory_limit=1 << 20) as context:
        opened = ps.open(damaged.uri, context=context)
        for _ in range(10):  # a worker may hold the read longer than all others
            cuda.configure(3, lazy=True)
            with ps.stream(opened, tile=damaged.shape, device="cuda") as tiles:
                next(iter(tiles))
            del tiles
            with pytest.raises(ps.CorruptDataError, match="of an earlier read"):
                context.synchronize()
            context.synchronize()


def test_a_failure_that_was_queried_is_raised_only_once(cuda: FakeCuda, array: ps.Array, damaged: ps.Array) -> None:
    with ps.Context(threads=2, device_memory_limit=1 << 20) as context:
        bad, good = (ps.open(each.uri, context=context) for each in (damaged, array))
        with pytest.raises(ps.CorruptDataError):
            bad.read(device="cuda", check=True)
        tensor = bad.read(device="cuda")
        handed(cuda, tensor)
        for _ in range(2):
            with pytest.raises(ps.CorruptDataError) as caught:
                tensor.synchronize()
            assert "earlier" not in str(caught.value)
        bad.read(device="cuda")  # dropped at once: the caller does not use its values
        stopped = bad.read(device="cuda")
        handed(cuda, stopped)
        stopped._read.cancel()
        context.synchronize()
        good.read(device="cuda", check=True)


def test_dtensors_load_ahead_of_the_device_and_fail_later(
    cuda: FakeCuda, array: ps.Array, damaged: ps.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_torch.install(monkeypatch, cuda.stream())
    from penstock.torch import load

    mesh: Any = fake_torch.Mesh()
    with ps.Context(threads=2, device_memory_limit=1 << 20) as context:
        opened = ps.open(damaged.uri, context=context)
        # The engine starts. (Had this read failed, too, the next one might report it.)
        load(ps.open(array.uri, context=context), mesh, [fake_torch.Shard(0)])
        with cuda.ahead():
            parts = [load(opened, mesh, [fake_torch.Shard(0)]) for _ in range(2)]
        with pytest.raises(ps.CorruptDataError, match="c/2/0") as caught:
            context.synchronize()
        assert "2 reads failed like this" in str(caught.value)
        context.synchronize()  # it was reported before
        del parts
    monkeypatch.delitem(sys.modules, "penstock.torch")


def test_dtensors_are_complete_on_a_nonblocking_stream(
    cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that is queued on torch's current stream right after `load`, while no kernel runs, copies the values."""
    stream = cuda.stream()
    fake_torch.install(monkeypatch, stream)
    from penstock.torch import load

    expected = np.random.default_rng(4).integers(0, 9, (64, 64)).astype("f4")
    made = ps.create_array(str(tmp_path / "x"), shape=(64, 64), dtype="f4", chunks=(16, 64), codecs=["zstd"])
    made[...] = expected
    mesh: Any = fake_torch.Mesh()
    load(made, mesh, [fake_torch.Shard(0)])  # the engine starts
    cuda.synchronize(stream)
    got = np.zeros_like(expected)

    def consume() -> None:
        cuda.push(0)
        local: Any = load(made, mesh, [fake_torch.Shard(0)])
        to, start, count = ctypes.c_void_p(got.ctypes.data), ctypes.c_uint64(local.address), ctypes.c_size_t(got.nbytes)
        cuda.call("cuMemcpyDtoHAsync", to, start, count, ctypes.c_void_p(stream))
        cuda.synchronize(stream)
        cuda.pop()

    cuda.hold_kernels()
    consumer = threading.Thread(target=consume)
    consumer.start()
    consumer.join(0.3)
    waits = consumer.is_alive()
    cuda.hold_kernels(False)
    consumer.join()
    assert waits, "values were taken before any kernel ran"
    np.testing.assert_array_equal(got, expected)
    monkeypatch.delitem(sys.modules, "penstock.torch")


def test_a_loop_over_damaged_reads_names_the_first_and_counts_all(cuda: FakeCuda, damaged: ps.Array) -> None:
    with ps.Context(threads=2, device_memory_limit=1 << 20) as context:
        bad = ps.open(damaged.uri, context=context)
        cuda.configure(3, lazy=True)
        held = [bad.read(device="cuda").__dlpack__(stream=cuda.stream()) for _ in range(2)]
        with pytest.raises(ps.CorruptDataError, match="2 reads failed like this"):
            context.synchronize()
        del held


def test_exhausted_device_memory_is_an_error(cuda: FakeCuda, array: ps.Array) -> None:
    with ps.Context(threads=2) as context:
        mine = ps.open(array.uri, context=context)
        held = mine.read(device="cuda")  # occupies the memory that the next tensor needs
        held.numpy()
        cuda.fail("cuMemAlloc", 2)
        with pytest.raises(ps.ResourceExhaustedError, match="cuMemAlloc"):
            mine.read(np.s_[:59], device="cuda").numpy()
        np.testing.assert_array_equal(mine.read(device="cuda").numpy(), VALUES)


def test_a_memory_limit_makes_waves_smaller(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.random.default_rng(2).integers(0, 5, 1 << 18).astype("i4")
    made = ps.create_array(str(tmp_path / "z.zarr"), shape=values.shape, dtype="i4", chunks=(4096,), codecs=["zstd"])
    made[...] = values
    limit = 3 << 16
    context = ps.Context(threads=2, device_memory_limit=limit)
    opened = ps.open(str(tmp_path / "z.zarr"), context=context)
    np.testing.assert_array_equal(opened.read(np.s_[::2], device="cuda").numpy(), values[::2])
    assert 0 < context.usage()["page_locked_bytes"] <= 256 << 20


def test_a_task_that_awaits_a_read_gets_the_exception(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.random.default_rng(2).integers(0, 5, 1 << 18).astype("i4")
    made = ps.create_array(str(tmp_path / "z.zarr"), shape=values.shape, dtype="i4", chunks=(4096,), codecs=["zstd"])
    made[...] = values
    context = ps.Context(threads=2, device_memory_limit=3 << 16)  # not all of it can be queued at once
    opened = ps.open(str(tmp_path / "z.zarr"), context=context)

    async def read() -> None:
        cuda.hold_kernels()
        job = opened.read_async(device="cuda")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(wait(job))), 0.3)
        cuda.fault(700)
        with pytest.raises(ps.Error, match="cuda:0"):
            await asyncio.wait_for(wait(job), 10)

    async def wait(job: ps.Job) -> None:
        await job

    asyncio.run(read())
    cuda.fault(0)
    context.clear()
    np.testing.assert_array_equal(opened.read(device="cuda").numpy(), values)


def test_an_array_opened_for_a_device_is_a_deferred_producer(cuda: FakeCuda, array: ps.Array) -> None:
    held = cuda.driver.penstock_fake_cuda_live_bytes()
    opened = ps.open(array.uri, device="cuda", context=ps.Context())
    assert cuda.driver.penstock_fake_cuda_live_bytes() == held
    assert opened.__dlpack_device__() == (2, 0)
    mine = cuda.stream()
    capsule = opened.__dlpack__(stream=mine, max_version=(1, 0))
    address, shape, strides, kind, device = ps._core._dlpack_view(capsule)
    assert (shape, strides, kind, device) == (VALUES.shape, (200, 4), (2, 32), (2, 0))
    cuda.synchronize(mine)
    np.testing.assert_array_equal(cuda.peek(address, VALUES.shape, "f4"), VALUES)
    assert cuda.count("legacy stream") == 0


def test_tiles_are_streamed_into_reused_buffers(cuda: FakeCuda, array: ps.Array) -> None:
    cuda.configure(3, delay=50)
    seen, addresses = np.zeros_like(VALUES), set()
    with ps.stream(array, tile="shard", device="cuda", depth=2) as tiles:
        for tile in tiles:
            assert tile.data.device == "cuda:0"
            addresses.add(tile.data._read.address)
            cuda.synchronize(tile.stream)
            seen[tile.box] = cuda.peek(tile.data._read.address, tile.data.shape, "f4")
    np.testing.assert_array_equal(seen, VALUES)
    assert len(addresses) <= 3


def test_a_failed_tile_raises_when_the_loop_reaches_it(cuda: FakeCuda, array: ps.Array, tmp_path: Path) -> None:
    (tmp_path / "x.zarr" / "c" / "1" / "0").write_bytes(b"too short")
    indexes = []
    with ps.stream(array, tile="shard", device="cuda") as tiles:
        indexes.append(next(tiles).index)
        with pytest.raises(ps.CorruptDataError, match="c/1/0"):
            next(tiles)
    assert indexes == [(0, 0)]


@pytest.mark.parametrize("kind", ["handle", "cupy", "torch", "cuda_stream"])
def test_memory_is_released_on_streams_of_all_kinds(cuda: FakeCuda, array: ps.Array, kind: str) -> None:
    handle = cuda.stream()
    stream = {
        "handle": handle,
        "cupy": SimpleNamespace(ptr=handle),
        "torch": SimpleNamespace(cuda_stream=handle),
        "cuda_stream": SimpleNamespace(__cuda_stream__=(0, handle)),
    }[kind]
    first = array.read(device="cuda")
    first.order(stream)
    address = first.__cuda_array_interface__["data"][0]
    cuda.reset()
    first.release(stream)
    with pytest.raises(ps.InvalidArgumentError, match="released"):
        first.order(stream)
    with pytest.raises(ps.InvalidArgumentError, match="released"):
        first.__dlpack__(stream=handle)
    del first
    assert cuda.count("cuCtxRecordEvent") == 0
    second = array.read(device="cuda")
    assert second.__cuda_array_interface__["data"][0] == address
    np.testing.assert_array_equal(second.numpy(), VALUES)
