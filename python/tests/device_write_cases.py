"""Writes of values in device memory, against the fake driver: these tests have not run on a GPU.

They run in a separate process.
"""

from __future__ import annotations

import ctypes
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import DeviceArray, FakeCuda, assert_warm, cuda, fake_cuda_library

__all__ = ["cuda", "fake_cuda_library"]

SHAPE, CHUNKS, SHARDS = (23, 17, 11), (5, 4, 6), (10, 8, 6)
BIG = {"name": "bytes", "configuration": {"endian": "big"}}


def on_device(cuda: FakeCuda, values: np.ndarray[Any, Any], strides: tuple[int, ...] | None = None) -> DeviceArray:
    made = DeviceArray(cuda, values.shape, values.dtype, strides)
    memory = np.zeros(made.bytes, np.uint8)
    np.ndarray(values.shape, values.dtype, memory, made.address - made.base, made.strides)[...] = values
    cuda.call(
        "cuMemcpyHtoDAsync",
        ctypes.c_uint64(made.base),
        memory.ctypes.data,
        ctypes.c_size_t(made.bytes),
        ctypes.c_void_p(2),
    )
    cuda.synchronize(2)
    return made


def objects(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


# The first test: each of its many kernels opens all live memory of the fake driver, and other tests leave much of it.
def test_little_pinned_and_device_memory_is_enough(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.random.default_rng(4).integers(0, 100, (100, 1000)).astype("i4")
    context = ps.Context(threads=2, page_locked=4096, device_memory_limit=3 << 10)
    made = ps.create_array(
        str(tmp_path / "x"), shape=values.shape, dtype="i4", chunks=(30, 1000), codecs=["zstd"], context=context
    )
    made[...] = on_device(cuda, values, (4, 400))
    np.testing.assert_array_equal(made[...], values)
    assert context.usage()["page_locked_bytes"] <= 4096


@pytest.mark.parametrize(
    "codecs", [["zstd"], [BIG], ["bytes"], [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, BIG, "gzip"]]
)
@pytest.mark.parametrize("shards", [None, SHARDS])
def test_writes_from_the_device_store_the_hosts_bytes(cuda: FakeCuda, tmp_path: Path, codecs: Any, shards: Any) -> None:
    cuda.configure(7, delay=20)
    values = np.random.default_rng(2).integers(-1000, 1000, SHAPE).astype("i4")
    values[:5, :8, :6] = 9  # only the fill value
    here, there = (
        ps.create_array(
            str(tmp_path / name), shape=SHAPE, dtype="i4", chunks=CHUNKS, shards=shards, codecs=codecs, fill_value=9
        )
        for name in ("here", "there")
    )
    for selection in [
        np.s_[...],
        np.s_[3:20, ::3, 5],
        np.s_[22:0:-4, 1:16, -1::-2],
        np.s_[7, 16, :],
        np.s_[5:5],
        np.s_[2, 3, 4],
    ]:
        part = np.array(values[selection])
        here[selection] = part
        backwards = tuple(-step for step in part.strides)
        turned = tuple(reversed(np.empty(part.shape[::-1], "i4").strides))
        for strides in [None, backwards, turned] if part.size else [None]:
            there[selection] = on_device(cuda, part, strides)
            assert objects(tmp_path / "there") == objects(tmp_path / "here")
    assert cuda.count("legacy stream") == 0


def test_values_are_cast_and_repeated(cuda: FakeCuda, tmp_path: Path) -> None:
    made = ps.create_array(str(tmp_path / "x"), shape=(12, 10), dtype="f4", chunks=(5, 4), codecs=["zstd"])
    expected = np.zeros((12, 10), "f4")
    rows = np.arange(10, dtype="i2")
    for value in [
        np.float64(0.1) * np.arange(120).reshape(12, 10),
        rows,
        rows[:1],
        np.arange(12, dtype="u1")[:, None],
        np.array(7, "f2"),
    ]:
        made[...] = on_device(cuda, np.asarray(value))
        expected[...] = value
        np.testing.assert_array_equal(made[...], expected)
    made[2:4, 1:3] = on_device(cuda, np.full((1, 1, 2, 2), 5, "f8"))
    expected[2:4, 1:3] = 5
    np.testing.assert_array_equal(made[...], expected)
    with pytest.raises(ps.InvalidArgumentError, match="could not broadcast"):
        made[...] = on_device(cuda, np.zeros((3, 10), "f4"))
    # Casts that only NumPy does.
    whole = ps.create_array(str(tmp_path / "i"), shape=(6,), dtype="i4", chunks=(4,))
    whole[...] = on_device(cuda, np.array([1.9, -1.9, 3, 4, 5, 6.5], "f4"))
    assert whole[...].tolist() == [1, -1, 3, 4, 5, 6]


def test_lists_masks_and_fields(cuda: FakeCuda, tmp_path: Path) -> None:
    made = ps.create_array(str(tmp_path / "x"), shape=(12, 10), dtype="f4", chunks=(5, 4))
    expected = np.zeros((12, 10), "f4")
    made.oindex[[3, 1, 7], 2:5] = on_device(cuda, np.arange(9, dtype="f4").reshape(3, 3))
    expected[[3, 1, 7], 2:5] = np.arange(9).reshape(3, 3)
    mask = expected == 0
    made[mask] = on_device(cuda, np.arange(mask.sum(), dtype="i4"))
    expected[mask] = np.arange(mask.sum())
    np.testing.assert_array_equal(made[...], expected)
    structured = ps.create_array(str(tmp_path / "s"), shape=(5,), dtype=[("a", "i4"), ("b", "f8")], chunks=(2,))
    structured.set_basic_selection(..., on_device(cuda, np.arange(5, dtype="f8")), fields="b")
    assert structured[...]["b"].tolist() == [0, 1, 2, 3, 4]


def test_tensors_save_and_append(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(40, 30)).astype("f4")
    ps.save(str(tmp_path / "a"), values)
    tensor = ps.open(str(tmp_path / "a")).read(device="cuda")
    ps.save(str(tmp_path / "b"), tensor)
    assert objects(tmp_path / "a") == objects(tmp_path / "b")
    made = ps.open(str(tmp_path / "b"))
    made.append(tensor)
    made.append(on_device(cuda, values[:3]))
    np.testing.assert_array_equal(made[...], np.concatenate([values, values, values[:3]]))
    half = ps.create_array(str(tmp_path / "h"), data=tensor, dtype="float16")
    np.testing.assert_array_equal(half[...], values.astype("f2"))
    brain = ps.open(str(tmp_path / "a")).read(device="cuda", dtype="bfloat16")
    ps.save(str(tmp_path / "c"), brain)
    assert ps.open(str(tmp_path / "c")).dtype == brain.dtype
    np.testing.assert_array_equal(ps.load(str(tmp_path / "c")), values.astype(brain.dtype))


def test_a_tiff_of_a_tensor(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.arange(3 * 40 * 30, dtype="u2").reshape(3, 40, 30)
    ps.save(str(tmp_path / "x.tif"), on_device(cuda, values))
    np.testing.assert_array_equal(ps.load(str(tmp_path / "x.tif")), values)


@pytest.mark.parametrize("seed", range(6))
def test_writes_wait_for_the_stream_that_makes_the_values(cuda: FakeCuda, tmp_path: Path, seed: int) -> None:
    made = ps.create_array(str(tmp_path / "x"), shape=(4000,), dtype="u1", chunks=(1000,), codecs=["zstd"])
    value = on_device(cuda, np.zeros(4000, "u1"))
    mine = cuda.stream()
    cuda.configure(seed, lazy=True)
    set_bytes = (ctypes.c_uint64(value.base), ctypes.c_ubyte(5), ctypes.c_size_t(4000), ctypes.c_void_p(mine))
    cuda.call("cuMemsetD8Async", *set_bytes)
    if seed % 2:
        value.stream = mine
        made[...] = value
    else:
        made.write(..., value, stream=mine)
    assert (made[...] == 5).all()
    with pytest.raises(ps.InvalidArgumentError, match="streams belong to devices"):
        made.write(..., np.zeros(4000, "u1"), stream=mine)


@pytest.mark.parametrize("how", ["stream=", "interface", "tensor", "cast and repeated"])
def test_a_write_in_the_background_does_not_wait_for_the_device(cuda: FakeCuda, tmp_path: Path, how: str) -> None:
    context = ps.Context(threads=2)
    made = ps.create_array(
        str(tmp_path / "x"), shape=(5, 4000), dtype="i4", chunks=(2, 1000), codecs=["zstd"], context=context
    )
    expected = np.random.default_rng(4).integers(0, 100, (5, 4000)).astype("i4")
    mine = cuda.stream()
    value: Any = on_device(cuda, expected)
    if how == "tensor":
        ps.save(str(tmp_path / "y"), expected)
        value = ps.open(str(tmp_path / "y"), context=context).read(device="cuda").synchronize()
    elif how == "cast and repeated":
        expected = np.broadcast_to(expected[0].astype("i2"), (5, 4000))
        value = on_device(cuda, np.array(expected[0]))
    elif how == "interface":
        value.stream = mine
    options = {"stream": mine} if how in ("stream=", "cast and repeated") else {}
    made.write_async(..., value, **options).wait(30)  # makes the engine's memory
    made[...] = 0
    busy = on_device(cuda, np.arange(6, dtype="i4"), (8,))
    with cuda.ahead():
        # A kernel on the producer's stream that does not begin: the values are those of the stream's end.
        ps.create_array({}, shape=(6,), dtype="i4", context=context).write_async(..., busy, stream=mine)
        job = made.write_async(..., value, **options)
        time.sleep(0.02)
        assert not job.done
        if how != "tensor":  # the next step
            cuda.call(
                "cuMemsetD8Async",
                ctypes.c_uint64(value.base),
                ctypes.c_ubyte(5),
                ctypes.c_size_t(value.bytes),
                ctypes.c_void_p(mine),
            )
    context.synchronize()
    assert job.done
    np.testing.assert_array_equal(made[...], expected)


def test_a_background_write_without_a_stream_waits_for_its_copy(cuda: FakeCuda, tmp_path: Path) -> None:
    made = ps.create_array(str(tmp_path / "x"), shape=(4000,), dtype="u1", chunks=(1000,), codecs=["zstd"])
    value = on_device(cuda, np.full(4000, 7, "u1"))
    cuda.configure(3, delay=200)
    jobs = [made.write_async(..., value)]
    cuda.call("cuMemsetD8Async", *(ctypes.c_uint64(value.base), ctypes.c_ubyte(9)), ctypes.c_size_t(4000), None)
    jobs.append(made.write_async(slice(0, 10), np.full(10, 3, "u1")))
    made.flush()
    assert made[...].tolist() == [3] * 10 + [7] * 3990
    assert all(job.done for job in jobs)


def test_background_writes_report_the_device_failures_once(cuda: FakeCuda, tmp_path: Path) -> None:
    context = ps.Context(threads=2)
    made = ps.create_array(str(tmp_path / "x"), shape=(4000,), dtype="i4", chunks=(1000,), context=context)
    value, mine = on_device(cuda, np.arange(4000, dtype="i4")), cuda.stream()
    made.write_async(..., value, stream=mine)
    made.flush()
    cuda.fail("cuMemcpyDtoDAsync", 700)
    with pytest.raises(OSError, match="cuMemcpyDtoDAsync"):
        made.write_async(..., value, stream=mine)
    made.flush()
    cuda.fail("cuEventQuery", 700)
    made.write_async(..., value, stream=mine)
    with pytest.raises(OSError, match="cuEventQuery") as raised:
        made.flush()
    assert "x'" in str(raised.value)
    made.flush()
    with pytest.raises(ps.InvalidArgumentError, match="streams belong to devices"):
        made.write_async(..., 1, stream=mine)
    with pytest.raises(ps.InvalidArgumentError, match="encoder='device' is for"):
        made.write_async(..., 1, encoder="device")


def test_background_writes_go_through_the_host_if_the_device_is_full(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.arange(9000, dtype="i4")
    made = ps.create_array(
        str(tmp_path / "x"), shape=(9000,), dtype="i8", chunks=(1000,), context=ps.Context(threads=2)
    )
    made[...] = value = on_device(cuda, values)
    cuda.fail("cuMemAlloc", 2)
    made.write_async(..., value, stream=cuda.stream())
    made.flush()
    np.testing.assert_array_equal(made[...], values)


@pytest.mark.parametrize("axis", [0, 1])
def test_an_appender_does_not_wait_for_the_device(cuda: FakeCuda, tmp_path: Path, axis: int) -> None:
    context = ps.Context(threads=2)
    expected = np.arange(60, dtype="i4").reshape(10, 6)
    first, second = expected[:3], expected[3:]
    if axis == 1:
        expected, first, second = expected.T, first.T.copy(), second.T.copy()
    shape = (0, 6) if axis == 0 else (6, 0)
    made = ps.create_array(str(tmp_path / "x"), shape=shape, dtype="i4", chunks=(4, 4), context=context)
    value, busy, mine = on_device(cuda, second), on_device(cuda, np.arange(6, dtype="i4"), (8,)), cuda.stream()
    with made.appender(axis=axis) as rows:
        rows.append(on_device(cuda, first), stream=mine)  # makes the engine's memory
        rows.flush()
        with cuda.ahead():
            # A kernel that does not begin, the rows, and the next step, which changes their memory.
            ps.create_array({}, shape=(6,), dtype="i4", context=context).write_async(..., busy, stream=mine)
            rows.append(value, stream=mine)
            assert rows.rows == 10
            cuda.call(
                "cuMemsetD8Async",
                ctypes.c_uint64(value.base),
                ctypes.c_ubyte(5),
                ctypes.c_size_t(value.bytes),
                ctypes.c_void_p(mine),
            )
        with pytest.raises(ps.InvalidArgumentError, match="streams belong to devices"):
            rows.append(first, stream=mine)
    context.synchronize()
    np.testing.assert_array_equal(made[...], expected)


def test_an_appender_goes_through_the_host_if_it_must(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.arange(9000, dtype="i4")
    context = ps.Context(threads=2)
    made = ps.create_array(str(tmp_path / "x"), shape=(0,), dtype="i4", chunks=(1000,), context=context)
    value, short = on_device(cuda, values), on_device(cuda, values.astype("i2"))
    ps.create_array({}, shape=(9000,), dtype="i4", context=context)[...] = value  # makes the engine's memory
    with made.appender() as rows:
        cuda.fail("cuMemAlloc", 2)
        rows.append(value, stream=cuda.stream())
        rows.append(short)  # another dtype
    np.testing.assert_array_equal(made[...], np.concatenate([values, values.astype("i2")]))


def test_warm_writes_allocate_nothing(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 100, (64, 1024)).astype("i4")
    made = ps.create_array(str(tmp_path / "x"), shape=values.shape, dtype="i4", chunks=(8, 512), codecs=["zstd"])
    value = on_device(cuda, values, (4, 256))

    def write() -> None:
        made[...] = value

    calls = ["cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate"]
    assert_warm(cuda, write, [*calls, "pageable copy", "legacy stream"])
    cuda.reset()
    write()
    assert cuda.count("cuMemcpyDtoHAsync") == 16  # one copy for each chunk
    np.testing.assert_array_equal(made[...], values)


def test_a_device_that_fails_is_an_error(cuda: FakeCuda, tmp_path: Path) -> None:
    context = ps.Context(threads=2)
    made = ps.create_array(
        str(tmp_path / "x"), shape=(4000,), dtype="i4", chunks=(1000,), codecs=["zstd"], context=context
    )
    value = on_device(cuda, np.arange(4000, dtype="i4"))
    made[...] = value
    cuda.fail("cuMemcpyDtoHAsync", 700, after=1)
    with pytest.raises(OSError, match="cuMemcpyDtoHAsync"):
        made[...] = value
    with pytest.raises(OSError, match="an earlier call of the driver failed"):
        made[...] = value
    np.testing.assert_array_equal(made[:1000], np.arange(1000))


SHUFFLE = {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}
LZ4 = {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}


@pytest.mark.parametrize("codecs", [[SHUFFLE, LZ4], [LZ4, "crc32c"], ["zstd"], [SHUFFLE, "zstd", "crc32c"]])
@pytest.mark.parametrize("shards", [None, SHARDS])
def test_zarr_reads_chunks_that_the_device_encoded(cuda: FakeCuda, tmp_path: Path, codecs: Any, shards: Any) -> None:
    zarr = pytest.importorskip("zarr")
    cuda.configure(5, delay=20)
    values = np.random.default_rng(3).integers(-10, 10, SHAPE).astype("i4")
    name = str(tmp_path / "a")
    made = ps.create_array(name, shape=SHAPE, dtype="i4", chunks=CHUNKS, shards=shards, codecs=codecs)
    made.write(..., on_device(cuda, values), encoder="device")
    np.testing.assert_array_equal(ps.open(name)[...], values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # codecs of numcodecs are not part of the specification
        np.testing.assert_array_equal(zarr.open_array(name)[...], values)


@pytest.mark.parametrize("shards", [None, 8000])
def test_the_context_chooses_the_encoder(cuda: FakeCuda, tmp_path: Path, shards: int | None) -> None:
    values = np.arange(40_000, dtype="i4") // 3
    there = on_device(cuda, values)

    def made(name: str) -> ps.Array:
        path = str(tmp_path / name)
        return ps.create_array(path, shape=values.shape, dtype="i4", chunks=1000, shards=shards, codecs=[LZ4])

    for encoder in ("host", "device"):
        with ps.Context(encoder=encoder):
            made(encoder)[...] = there
            ps.save(str(tmp_path / f"saved by {encoder}"), there)
        for name in (encoder, f"saved by {encoder}"):
            np.testing.assert_array_equal(ps.open(str(tmp_path / name))[...], values)
    bytes_of = {each.name: objects(each) for each in tmp_path.iterdir()}
    # Both are LZ4 (or zstd) with different bytes: the device has encoded one of them.
    for host, device in (("host", "device"), ("saved by host", "saved by device")):
        assert bytes_of[host].keys() == bytes_of[device].keys()
        assert bytes_of[host] != bytes_of[device]
    # Names for which the host encodes have the bytes of a write from host memory; the others have the device's.
    made("from host memory")[...] = values
    assert bytes_of["host"] == objects(tmp_path / "from host memory")
    ps.save(str(tmp_path / "saved from host memory"), values)
    assert bytes_of["saved by host"] == objects(tmp_path / "saved from host memory")
    made("named").write(..., there, encoder="device")
    assert bytes_of["device"] == objects(tmp_path / "named")
    saved = ps.open(str(tmp_path / "saved from host memory"), mode="r+")
    saved.write(..., there, encoder="device")
    assert bytes_of["saved by device"] == objects(tmp_path / "saved from host memory")


def test_the_plan_names_the_encoder_and_the_reason(cuda: FakeCuda, tmp_path: Path) -> None:
    def said(codecs: list[Any], selection: Any = ...) -> str:
        made = ps.create_array(
            str(tmp_path / "a"), shape=(4000,), dtype="i4", chunks=1000, codecs=codecs, overwrite=True
        )
        lines = made.plan(selection, device="cuda:0").splitlines()
        return next(line for line in lines if line.startswith("written from cuda:0, it is encoded by "))

    assert "the host: 4 chunks take about" in said([LZ4])
    assert "level 19 compresses better" in said([{"name": "zstd", "configuration": {"level": 19, "checksum": False}}])
    assert "gzip(level=1) has no device encoder" in said([{"name": "gzip", "configuration": {"level": 1}}])
    assert "blosc" in said(
        [
            {
                "name": "blosc",
                "configuration": {"cname": "lz4", "clevel": 1, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
            }
        ]
    )
    assert "no whole chunk is replaced" in said([LZ4], np.s_[10:20])
    assert "lists, points and masks" in said([LZ4], ps.oindex[[1, 5, 7]])


@pytest.mark.parametrize("encoder", ["auto", "host", None])
def test_every_choice_writes_the_same_values(cuda: FakeCuda, tmp_path: Path, encoder: str | None) -> None:
    values = np.arange(4000, dtype="i4") // 3
    made = ps.create_array(str(tmp_path / "a"), shape=(4000,), dtype="i4", chunks=1000, codecs=[LZ4])
    made.write(..., on_device(cuda, values), encoder=encoder)
    np.testing.assert_array_equal(made[...], values)


def test_encoders_that_are_refused(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.arange(400, dtype="i4")
    made = ps.create_array(str(tmp_path / "a"), shape=values.shape, dtype="i4", chunks=100, codecs=["gzip"])
    there = on_device(cuda, values)
    with pytest.raises(ps.UnsupportedError, match=r"gzip\(level=\d\) has no device encoder"):
        made.write(..., there, encoder="device")
    with pytest.raises(ps.InvalidArgumentError, match="'devcie'"):
        made.write(..., there, encoder="devcie")
    with pytest.raises(ps.InvalidArgumentError, match="'devcie'"):
        ps.Context(encoder="devcie")
    with pytest.raises(ps.InvalidArgumentError, match="values in device memory"):
        made.write(..., values, encoder="device")
    made.write(..., values, encoder="host")
    np.testing.assert_array_equal(made[...], values)
