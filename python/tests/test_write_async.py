"""`Array.write_async`: callers do not wait, nothing is lost, and every error is reported once."""

import asyncio
import contextlib
import subprocess
import sys
import textwrap
import threading

import numpy as np
import penstock as ps
import pytest


class Gated(dict):
    """A store that accepts no chunk while its gate is closed, and refuses some."""

    def __init__(self, is_open=True):
        super().__init__()
        self.gate = threading.Event()
        self.refuses = ()
        if is_open:
            self.gate.set()

    def __setitem__(self, key, value):
        if not key.endswith(".json"):
            assert self.gate.wait(60)
            if key in self.refuses:
                raise OSError("the disk is full")
        super().__setitem__(key, value)


def made(store, shape, dtype="int32", chunks=None, **how):
    return ps.create_array(
        store, shape=shape, dtype=dtype, chunks=chunks or tuple(max(1, n // 3) for n in shape), **how
    )


def values_of(dtype, shape, seed):
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "T":
        return np.array([f"text {i}" * (i % 3) for i in range(int(np.prod(shape)))], dtype=dtype).reshape(shape)
    if dtype.kind in "mM":
        return random.integers(0, 1000, shape).astype(dtype)
    if dtype.kind == "U":
        return random.integers(0, 1000, shape).astype(dtype)
    return (random.random(shape) * 100).astype(dtype)


DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "M8[s]", "<U4"]
SELECTIONS = [..., (slice(1, 9), slice(None)), (3, slice(2, 7)), (slice(None, None, -2), 4), ([5, 1, 1], slice(None))]


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtypes.StringDType()], ids=str)
@pytest.mark.parametrize("where", ["dict", "file", "memory-sharded"])
def test_stores_the_same_as_write(tmp_path, dtype, where):
    for number, selection in enumerate(SELECTIONS):
        stores = [({}, {}), (tmp_path / f"{number}a.zarr", tmp_path / f"{number}b.zarr"), ({}, {})]
        ours, theirs = stores[["dict", "file", "memory-sharded"].index(where)]
        sharded = {"chunks": (2, 3), "shards": (6, 6)} if where == "memory-sharded" else {}
        a, b = made(ours, (10, 12), dtype, **sharded), made(theirs, (10, 12), dtype, **sharded)
        value = values_of(dtype, np.asarray(b[selection]).shape, number)
        kept = value.copy()
        job = a.write_async(selection, value)
        value[...] = value.flat[0]  # the values were copied
        assert job.wait(30) is None
        assert job.done
        b.write(selection, kept)
        np.testing.assert_array_equal(a[...], b[...])


def test_values_are_cast_and_repeated():
    for value in (7, 2.0, [1, 2, 3], np.int8(3), np.broadcast_to(np.int32(4), (5, 3)), np.arange(15.0).reshape(5, 3)):
        a, b = made({}, (5, 3)), made({}, (5, 3))
        a.write_async(..., value).wait(30)
        b[...] = value
        np.testing.assert_array_equal(a[...], b[...])


@pytest.mark.parametrize("flag", [1, np.True_, np.False_, None])
def test_switches_are_truth_values(flag):
    a, switches = made({}, (5, 3)), {"durable": flag, "write_empty_chunks": flag}
    a.write_async(..., 1, **switches).wait(30)
    a.write(slice(0, 2), 2, **switches)
    a.append(np.full((1, 3), 3), **switches)
    with a.appender(**switches) as rows:
        rows.append(np.full((1, 3), 4))
    np.testing.assert_array_equal(a[:, 0], [2, 2, 1, 1, 1, 3, 4])


def test_arguments_that_write_refuses_are_refused_at_once(tmp_path):
    a = made({}, (5, 3))
    with pytest.raises(ps.InvalidArgumentError):
        a.write_async(..., np.zeros((4, 3)))
    with pytest.raises((ps.OutOfRangeError, IndexError)):
        a.write_async(9, 1)
    made(tmp_path / "a.zarr", (5,))[...] = 1
    with pytest.raises(ps.ReadOnlyError):
        ps.open(tmp_path / "a.zarr", mode="r").write_async(..., 2)
    record = np.dtype([("x", "i4"), ("y", "f4")])
    with pytest.raises(ps.InvalidArgumentError, match="fields"):
        made({}, (4,), record).write_async("x", 1)


def test_callers_do_not_wait_for_a_slow_store():
    a = made(store := Gated(is_open=False), (64, 1024), "float64", (64, 1024))
    value = np.ones(a.shape)
    jobs = [a.write_async(..., value * (i + 1)) for i in range(4)]
    assert not any(job.done for job in jobs)
    assert repr(jobs[-1]) == "<penstock.Job writing>"
    with pytest.raises(ps.DeadlineExceededError):
        jobs[0].wait(0.01)
    np.testing.assert_array_equal(a[...], value * 0)  # reads do not wait for writes
    store.gate.set()
    for job in jobs:
        job.wait(30)
    np.testing.assert_array_equal(a[...], value * 4)


def test_writes_are_done_in_their_order():
    a = made({}, (100,), chunks=(10,))
    random = np.random.default_rng(5)
    expected = np.zeros(100, "int32")
    for number in range(200):
        low, high = sorted(random.integers(0, 101, 2))
        a.write_async(slice(low, high), number)
        expected[low:high] = number
    a.flush()
    np.testing.assert_array_equal(a[...], expected)


def test_a_caller_waits_while_too_much_is_queued():
    with ps.Context(threads=1, write_queue=10_000):
        a = made(store := Gated(is_open=False), (1000,), "int32", (1000,))
    value = np.arange(1000, dtype="int32")
    started = []
    writer = threading.Thread(target=lambda: started.extend(a.write_async(..., value + i) for i in range(6)))
    writer.start()
    writer.join(0.3)
    assert writer.is_alive()
    assert len(started) <= 2, "4,000 bytes each: two have room"
    store.gate.set()
    writer.join(30)
    for job in started:
        job.wait(30)
    np.testing.assert_array_equal(a[...], value + 5)
    with ps.Context(threads=1, write_queue=100):
        b = made({}, (1000,))
    b.write_async(..., value).wait(30)  # larger than the limit: it is written alone


def test_each_error_is_reported_once():
    with ps.Context(threads=1) as context:
        a = made(store := Gated(), (30,), chunks=(10,))
    store.refuses = ("c/1",)
    told = a.write_async(..., 1)
    with pytest.raises(ps.StorageError, match="disk is full"):
        told.wait(30)
    with pytest.raises(ps.StorageError, match="disk is full"):
        told.wait(30)
    context.synchronize()  # it was reported before
    a.write_async(slice(10, 20), 2)
    a.write_async(slice(10, 12), 3)
    a.write_async(slice(20, 30), 4)
    with pytest.raises(ps.StorageError, match="disk is full") as failed:
        context.synchronize()
    assert "c/1" in str(failed.value)
    assert "another write failed" in str(failed.value)
    context.synchronize()
    store.refuses = ()
    np.testing.assert_array_equal(a[20:], np.full(10, 4))
    a.write_async(..., 5).wait(30)
    np.testing.assert_array_equal(a[...], np.full(30, 5))


def test_a_cancelled_write_leaves_old_or_new_objects():
    with ps.Context(threads=1):
        a = made(store := Gated(), (100,), chunks=(10,))
    a[...] = 1
    store.gate.clear()
    first, second = a.write_async(..., 2), a.write_async(..., 3)
    second.cancel()
    first.cancel()
    store.gate.set()
    with pytest.raises(ps.CancelledError):
        second.wait(30)
    with contextlib.suppress(ps.CancelledError):  # a put in progress may end before the write is cancelled
        first.wait(30)
    assert set(np.unique(a[...])) <= {1, 2}


def test_can_be_awaited():
    a = made({}, (100,), chunks=(10,))

    async def write():
        await asyncio.gather(*(a.write_async(slice(i, i + 10), i) for i in range(0, 100, 10)))

    asyncio.run(write())
    np.testing.assert_array_equal(a[...], np.repeat(np.arange(0, 100, 10), 10))


def test_threads_may_write_together():
    a = made({}, (64, 64), chunks=(8, 8))
    values = np.random.default_rng(1).integers(0, 100, (64, 64)).astype("int32")

    def rows(begin):
        for row in range(begin, 64, 4):
            a.write_async(row, values[row])

    threads = [threading.Thread(target=rows, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    a.flush()
    np.testing.assert_array_equal(a[...], values)


def test_the_program_waits_for_its_writes(tmp_path):
    program = """
        import sys, numpy as np, penstock as ps
        a = ps.create_array(sys.argv[1], shape=(4000, 1000), dtype="float64", chunks=(100, 100))
        for i in range(1, 4):
            a.write_async(..., np.full(a.shape, i))
        del a
    """
    path = tmp_path / "a.zarr"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), path], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    np.testing.assert_array_equal(ps.open(path)[...], np.full((4000, 1000), 3.0))


def test_the_program_may_end_while_a_thread_of_the_engine_waits_for_the_gil(tmp_path):
    program = """
        import ctypes, sys, numpy as np, penstock as ps
        sys.setswitchinterval(100)
        a = ps.create_array(sys.argv[1], shape=(400, 100), dtype="float64", chunks=(100, 100))
        a.write_async(..., np.full(a.shape, 1))
        ctypes.PyDLL(None).usleep(300_000)  # holds the GIL while the write ends
    """
    for i in range(5):
        command = [sys.executable, "-c", textwrap.dedent(program), tmp_path / f"{i}.zarr"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert (done.returncode, done.stderr) == (0, "")
