"""zarr-python's GPU buffers filled by Penstock, against the fake CUDA driver and a stand-in for CuPy, not on a GPU.

These run in a separate process.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import ZARR_VERSION
from device_support import FakeCuda, cuda, fake_cuda_library
from support import fake_cupy

__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.random.default_rng(1).integers(0, 9, (70, 50)).astype("f4")
CODECS: dict[str, Any] = {
    "zstd": {},
    "sharded": {"shards": (28, 50)},
    "raw": {"compressors": None},
}


@pytest.fixture(autouse=True)
def modules(cuda: FakeCuda) -> Iterator[None]:
    fake_cupy.install(cuda)
    import penstock.zarr
    import zarr

    before = zarr.config.get("buffer"), zarr.config.get("ndbuffer")
    yield
    penstock.zarr.disable()
    zarr.config.set({"buffer": before[0], "ndbuffer": before[1]})
    penstock.zarr.stats(reset=True)


def written(store: Any, **options: Any) -> None:
    import zarr

    made = zarr.create_array(store=store, shape=VALUES.shape, dtype="f4", chunks=(7, 25), fill_value=3, **options)
    made[:63] = VALUES[:63]  # the last chunks do not exist
    VALUES[63:] = 3


@pytest.mark.parametrize("bypass", [None, False])
@pytest.mark.parametrize("kind", ["file", "memory"])
@pytest.mark.parametrize("codecs", CODECS)
def test_one_line_and_arrays_are_decoded_on_the_device(
    tmp_path: Path, codecs: str, kind: str, bypass: bool | None
) -> None:
    import penstock.zarr
    import zarr

    store: Any = str(tmp_path / "x.zarr") if kind == "file" else zarr.storage.MemoryStore()
    written(store, **CODECS[codecs])
    with penstock.zarr.enable(device="cuda", strict=True, bypass=bypass):
        z = zarr.open_array(store, mode="r")
        assert isinstance(z, penstock.zarr.Array) == (bypass is None and ZARR_VERSION >= (3, 4))
        penstock.zarr.stats(reset=True)
        found = z[:]
        assert type(found) is fake_cupy.ndarray
        np.testing.assert_array_equal(found.get(), VALUES)
        np.testing.assert_array_equal(z[5:60:3, 4].get(), VALUES[5:60:3, 4])
        np.testing.assert_array_equal(z.oindex[[3, 60, 11], 2:9].get(), VALUES[[3, 60, 11], 2:9])
        # vindex is not tested: zarr-python makes an ndarray of its result, which CuPy refuses.
        assert set(penstock.zarr.stats()["read"]["paths"]) == {"device"}
        said = str(penstock.zarr.explain(z))
        assert re.search("reads?.*: device: encoded bytes go to the GPU", said)
        assert ("no codec" if codecs == "raw" else "on the device") in said
    assert type(zarr.open_array(store, mode="r")[:]) is np.ndarray


@contextlib.contextmanager
def gpu_mode(how: str) -> Iterator[None]:
    """zarr-python's GPU mode with Penstock, by one call or by two in either order."""
    import penstock.zarr
    import zarr

    with contextlib.ExitStack() as stack:
        if how == "enable_gpu, enable":
            stack.enter_context(zarr.config.enable_gpu())
        stack.enter_context(penstock.zarr.enable(strict=True, device="cuda" if how == "device" else "cpu"))
        if how == "enable, enable_gpu":
            stack.enter_context(zarr.config.enable_gpu())
        yield


GPU_MODES = ("device", "enable, enable_gpu", "enable_gpu, enable")


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="arrays are wrapped in zarr 3.4 and later")
@pytest.mark.parametrize("how", GPU_MODES)
def test_gpu_mode_wraps_arrays_and_groups_that_are_opened(tmp_path: Path, how: str) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"))
    theirs = zarr.open
    before = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
    with gpu_mode(how):
        for opened in (
            zarr.open_array(str(tmp_path / "x.zarr"), mode="r"),
            zarr.open(str(tmp_path / "x.zarr"), mode="r"),
            zarr.open_group(str(tmp_path))["x.zarr"],
            penstock.zarr.wrap(before),
        ):
            assert type(opened) is penstock.zarr.Array
            penstock.zarr.stats(reset=True)
            found = opened[3:70, ::2]
            assert type(found) is fake_cupy.ndarray
            np.testing.assert_array_equal(found.get(), VALUES[3:70, ::2])
            assert penstock.zarr.stats()["read"]["paths"] == {"device": 1}
            assert "selections, read: device" in str(penstock.zarr.explain(opened))
    assert zarr.open is theirs


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="arrays are wrapped in zarr 3.4 and later")
def test_arrays_are_wrapped_in_gpu_mode_only(tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    path, theirs = str(tmp_path / "x.zarr"), zarr.open

    def wraps() -> bool:
        return type(zarr.open(path, mode="r")) is penstock.zarr.Array

    written(path)
    with penstock.zarr.enable():
        assert not wraps()
        with zarr.config.enable_gpu():
            assert wraps()
        assert not wraps()
        with penstock.zarr.enable(bypass=True):
            assert wraps()
            with penstock.zarr.enable(bypass=False), zarr.config.enable_gpu():
                assert zarr.open is theirs
                assert not wraps()
            assert wraps()
        assert not wraps()
        with zarr.config.enable_gpu():
            assert wraps()
    assert zarr.open is theirs


def coroutines(of: Any = None) -> Any:
    """A store in memory that has no synchronous methods."""
    import zarr

    class Slow(zarr.storage.MemoryStore):
        _supports_sync_io = False
        get_sync = None

        async def get(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            return await super().get(*args, **kwargs)

    return Slow() if of is None else Slow(of._store_dict)


def test_an_asynchronous_store_gives_encoded_bytes_too(tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    for options in (CODECS["zstd"], CODECS["sharded"]):
        store = coroutines()
        written(store, **options)
        with penstock.zarr.enable(device="cuda", strict=True):
            z = zarr.open_array(store, mode="r")
            np.testing.assert_array_equal(z[:].get(), VALUES)


def test_damaged_chunks_are_errors(tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"))
    path = tmp_path / "x.zarr" / "c" / "2" / "1"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x55
    content[len(content) // 2 + 1] ^= 0xAA
    path.write_bytes(content)
    with penstock.zarr.enable(device="cuda"):
        z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")

        def read() -> None:
            z[:]
            ps.current_context().synchronize()

        with pytest.raises((ps.Error, RuntimeError, ValueError)):
            read()


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="arrays are wrapped in zarr 3.4 and later")
@pytest.mark.parametrize("how", GPU_MODES)
@pytest.mark.parametrize("kind", ["file", "coroutines", "python"])
@pytest.mark.parametrize("codecs", ["zstd", "sharded"])
def test_reads_return_before_the_device_is_done(
    cuda: FakeCuda, tmp_path: Path, codecs: str, kind: str, how: str
) -> None:
    import zarr

    class Python(zarr.storage.MemoryStore):
        """Its methods are called: a subclass may do more than the engine's store."""

    store: Any = {"file": str(tmp_path / "x.zarr"), "coroutines": coroutines(), "python": Python()}[kind]
    written(store, **CODECS[codecs])
    with gpu_mode(how):
        z = zarr.open_array(store, mode="r")
        np.testing.assert_array_equal(z[:].get(), VALUES)
        with cuda.ahead():
            found = [z[:], z[5:60, ::3]]
        for each, expected in zip(found, (VALUES, VALUES[5:60, ::3]), strict=True):
            np.testing.assert_array_equal(each.get(), expected)


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="arrays are wrapped in zarr 3.4 and later")
def test_zarr_python_reads_into_memory_of_a_stream_after_the_device_is_done(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    import penstock.zarr
    import zarr
    from penstock.interop.zarr import pipeline

    def refuse(*_: Any) -> Any:
        raise pipeline._Refused("a codec that the engine does not have")

    waits: list[str] = []
    store = coroutines()
    written(store)
    with penstock.zarr.enable(device="cuda"):
        z = zarr.open_array(store, mode="r")
        monkeypatch.setattr(pipeline.CodecPipeline, "_admit_read", refuse)
        monkeypatch.setattr(pipeline._gpu, "wait_for_device", lambda _: waits.append("device"))
        read = type(z.async_array.codec_pipeline._zarr).read
        monkeypatch.setattr(
            type(z.async_array.codec_pipeline._zarr),
            "read",
            lambda *given: waits.append("read") or read(*given),
        )
        np.testing.assert_array_equal(z[:].get(), VALUES)
    assert waits == ["device", "read", "device"]


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="arrays are wrapped in zarr 3.4 and later")
@pytest.mark.parametrize("per_thread", [True, False])
def test_another_thread_cannot_order_the_default_stream_of_this_one(cuda: FakeCuda, per_thread: bool) -> None:
    import penstock.zarr
    import zarr

    store = coroutines()
    written(store)
    with penstock.zarr.enable(device="cuda"), fake_cupy.current(2 if per_thread else cuda.stream()):
        z = zarr.open_array(store, mode="r")
        np.testing.assert_array_equal(z[:].get(), VALUES)
        cuda.reset()
        found = z[:]
        assert (cuda.count("cuCtxSynchronize") > 0) == per_thread
        np.testing.assert_array_equal(found.get(), VALUES)


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="arrays are wrapped in zarr 3.4 and later")
def test_selections_of_a_store_of_coroutines_are_those_of_zarr_python() -> None:
    import penstock.zarr
    import zarr

    store = coroutines()
    written(store)
    with penstock.zarr.enable(device="cuda"):
        z = zarr.open_array(store, mode="r")
        for selection in (np.s_[3], np.s_[-1, 4:], np.s_[..., 7], np.s_[60:999], (), np.s_[np.int64(2), :3]):
            np.testing.assert_array_equal(z[selection].get(), VALUES[selection])
        assert z[3:3].shape == (0, 50)
        for wrong in (np.s_[70], np.s_[0, 0, 0], np.s_[::-1]):
            with pytest.raises((IndexError, ValueError)):
                z[wrong]


@contextlib.contextmanager
def slow_work(cuda: FakeCuda, stream: int, to: fake_cupy.ndarray, values: Any) -> Iterator[None]:
    """Work of a stream: 30 pauses of 10 ms, in which other streams run, then `values` are written to `to`.

    The block begins at once; its end waits for the work.
    """
    content, address, pauses = np.ascontiguousarray(values, to.dtype).tobytes(), to._region()[0], 30

    def run(last: int | None) -> None:
        time.sleep(0.01)
        if last:
            ctypes.memmove(address, content, len(content))

    called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(run)
    enqueue = cuda.driver.penstock_fake_cuda_enqueue
    enqueue.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    for i in range(pauses):
        assert enqueue(stream, ctypes.cast(called, ctypes.c_void_p), int(i == pauses - 1)) == 0
    try:
        yield
    finally:
        cuda.synchronize(stream)


READS: dict[str, Any] = {
    "a box": lambda z: z[5:60, ::2],
    "all": lambda z: z[:],
    "lists": lambda z: z.oindex[[3, 60, 11], 2:9],
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", ["file", "coroutines"])
@pytest.mark.parametrize("how", ["default", "loop", "wrapped", "enable_gpu"])
def test_values_are_complete_on_a_nonblocking_stream(
    cuda: FakeCuda, tmp_path: Path, how: str, kind: str, read: str
) -> None:
    import penstock.zarr
    import zarr

    store: Any = str(tmp_path / "x.zarr") if kind == "file" else zarr.storage.MemoryStore()
    written(store)
    if kind == "coroutines":
        store = coroutines(store)
    stream = cuda.stream()
    found: list[Any] = []

    def consume(z: Any) -> None:
        cuda.push(0)
        with fake_cupy.current(stream):
            found.append(READS[read](z).get())
        cuda.pop()

    if how == "wrapped" and ZARR_VERSION < (3, 4):
        pytest.skip("arrays are wrapped in zarr 3.4 and later")
    options: dict[str, Any] = {} if how == "enable_gpu" else {"device": "cuda"}
    if how in ("loop", "wrapped"):
        options["bypass"] = how == "wrapped"
    with penstock.zarr.enable(strict=True, **options), zarr.config.enable_gpu():
        z = zarr.open_array(store, mode="r")
        READS[read](z).get()  # the engine starts
        cuda.hold_kernels()
        consumer = threading.Thread(target=consume, args=(z,))
        consumer.start()
        consumer.join(0.3)
        waits = consumer.is_alive()
        cuda.hold_kernels(False)
        consumer.join()
    assert waits, "values were taken before any kernel ran"
    host = zarr.open_array(store, mode="r")
    np.testing.assert_array_equal(found[0], READS[read](host))


@pytest.mark.parametrize("bypass", [None, False])
def test_memory_is_overwritten_after_the_consumers_work(cuda: FakeCuda, tmp_path: Path, bypass: bool | None) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"))
    stream = cuda.stream()
    with penstock.zarr.enable(device="cuda", strict=True, bypass=bypass), fake_cupy.current(stream):
        z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
        out = fake_cupy.empty(VALUES.shape, "f4")
        with slow_work(cuda, stream, out, np.full(VALUES.shape, -1)):
            z.get_basic_selection(..., out=zarr.core.buffer.gpu.NDBuffer(out))
        np.testing.assert_array_equal(out.get(), VALUES)


@pytest.mark.parametrize("selection", ["box", "lists"])
@pytest.mark.parametrize("bypass", [None, False])
def test_values_of_a_nonblocking_stream_are_written(
    cuda: FakeCuda, tmp_path: Path, bypass: bool | None, selection: str
) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"))
    stream, values = cuda.stream(), np.arange(700, dtype="f4").reshape(14, 50)
    with penstock.zarr.enable(device="cuda", strict=True, bypass=bypass), fake_cupy.current(stream):
        z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r+")
        given = fake_cupy.empty(values.shape, "f4")
        with slow_work(cuda, stream, given, values):
            if selection == "box":
                z[7:21] = given
            else:
                z.oindex[list(range(7, 21)), :] = given
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[7:21], values)


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="arrays are wrapped in zarr 3.4 and later")
def test_a_failure_on_the_device_is_raised_by_the_next_read(cuda: FakeCuda, tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"), compressors=zarr.codecs.ZstdCodec(checksum=True))
    path = tmp_path / "x.zarr" / "c" / "2" / "1"
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x55  # a byte of the checksum, which the device compares
    path.write_bytes(content)
    with penstock.zarr.enable(device="cuda", strict=True, bypass=True):
        z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
        failed = z[:]
        failed.get()  # the device has finished
        with pytest.raises(ps.CorruptDataError, match="c/2/1") as caught:
            z[:7]
        assert "of an earlier read" in str(caught.value)
        np.testing.assert_array_equal(z[:7].get(), VALUES[:7])


def test_a_read_that_waits_raises_its_own_failure(tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"), compressors=zarr.codecs.ZstdCodec(checksum=True))
    path = tmp_path / "x.zarr" / "c" / "2" / "1"
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x55  # a byte of the checksum, which the device compares
    path.write_bytes(content)
    with penstock.zarr.enable(device="cuda", strict=True, bypass=False):
        z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
        with pytest.raises(RuntimeError, match="checksum") as caught:  # zarr-python's exception
            z[:]
        assert isinstance(caught.value.__cause__, ps.CorruptDataError)
        assert "c/2/1" in str(caught.value.__cause__)
        np.testing.assert_array_equal(z[:7].get(), VALUES[:7])  # not raised again


def test_device_values_are_written(tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"))
    with penstock.zarr.enable(device="cuda", strict=True):
        z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r+")
        z[10:20] = fake_cupy.asarray(VALUES[20:30])
    expected = VALUES.copy()
    expected[10:20] = VALUES[20:30]
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[:], expected)


@pytest.mark.parametrize("kind", ["file", "memory", "coroutines"])
@pytest.mark.parametrize("codecs", CODECS)
def test_device_values_are_copied_through_pinned_memory(
    cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codecs: str, kind: str
) -> None:
    import penstock.zarr
    import zarr

    class Slow(zarr.storage.MemoryStore):
        _supports_sync_io = False
        get_sync = None

    store: Any = str(tmp_path / "x.zarr") if kind == "file" else zarr.storage.MemoryStore()
    written(store, **CODECS[codecs])
    if kind == "coroutines":
        store = Slow(store._store_dict)
    values = np.random.default_rng(2).random((35, 50)).astype("f4")
    expected = VALUES.copy()
    expected[14:49] = values  # whole chunks
    expected[50:55, 3:48] = values[:5, :45]
    expected[60:70] = values[:10, ::-1]
    expected[1] = 7
    given = fake_cupy.asarray(values), fake_cupy.asarray(values[:, ::-1].copy()), fake_cupy.asarray(np.float32(7))
    with penstock.zarr.enable(device="cuda", strict=True):
        z = zarr.open_array(store, mode="r+")
        with monkeypatch.context() as patched:
            patched.setattr(fake_cupy.ndarray, "get", None)
            z[14:49] = given[0]
            z[50:55, 3:48] = given[0][:5, :45]
            z[60:70] = given[1][:10]
            z[1] = given[2]
        # Elements that lists select are copied to the host as a whole.
        z.oindex[[5, 2], :] = given[0][:2]
        expected[[5, 2]] = values[:2]
        np.testing.assert_array_equal(z[:].get(), expected)


def test_objects_that_are_not_devices_are_refused() -> None:
    import penstock.zarr

    with pytest.raises(ps.InvalidArgumentError, match="'cpu' or 'cuda'"):
        penstock.zarr.enable(device="gpu")
