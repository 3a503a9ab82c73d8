"""`read_async`: jobs that are waited for, awaited, cancelled and dropped."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time

import numpy as np
import penstock as ps
import pytest
from conftest import Slow, same, sharded, write

VALUES = np.random.default_rng(5).integers(-99, 99, (40, 30), dtype="<i4")


@pytest.fixture(scope="module")
def small() -> ps.Array:
    return ps.open(write(VALUES, (16, 16), sharded((8, 4))))


def test_a_job_returns_what_read_returns(small):
    for key in (np.s_[...], np.s_[3:20:4, ::-1], 5, (1, 2), (1, 2, ...)):
        job = small.read_async(key)
        got, want = job.wait(), small.read(key)
        assert type(got) is type(want)
        assert same(got, want)
        assert job.done
        assert same(job.wait(), want)
    assert same(small.read_async(dtype="f8").wait(), VALUES.astype("f8"))
    assert type(small.read_async((1, 2), dtype="f8").wait()) is np.float64


def test_a_job_returns_out(small):
    for out in (np.empty((40, 30), "<i4"), np.empty((40, 30), "<i4", order="F")[::-1], np.empty((40, 30), "f8")):
        assert small.read_async(out=out).wait() is out
        np.testing.assert_array_equal(out, VALUES)
    with pytest.raises(ps.OutputError, match="shape"):
        small.read_async(out=np.empty(3, "<i4"))


def test_bad_selections_are_refused_at_once(small):
    with pytest.raises(IndexError):
        small.read_async(99)
    with pytest.raises(IndexError):
        small.read_async((0, 99), dtype="f8")


def test_errors_of_the_read_are_raised_by_wait():
    store = write(VALUES, (16, 16))
    store["c/0/0"] = b"nonsense"
    job = ps.open(store).read_async()
    for _ in range(2):
        with pytest.raises(ps.CorruptDataError, match="c/0/0"):
            job.wait()
    with pytest.raises(ps.CorruptDataError, match="c/0/0"):
        asyncio.run(awaited(ps.open(store).read_async()))


async def awaited(job: ps.Job) -> object:
    return await job


def test_jobs_are_awaited(small):
    assert same(asyncio.run(awaited(small.read_async())), VALUES)
    assert same(asyncio.run(awaited(small.read_async(dtype="f8"))), VALUES.astype("f8"))

    async def many() -> list:
        return await asyncio.gather(*(awaited(small.read_async(row)) for row in range(40)))

    assert same(np.stack(asyncio.run(many())), VALUES)


def test_the_event_loop_continues_while_a_job_is_awaited(slow):
    store, values = slow

    async def main() -> tuple[object, int]:
        job = ps.open(store).read_async(np.s_[:500])
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while not job.done:
                ticks += 1
                await asyncio.sleep(0.01)

        got, _ = await asyncio.gather(awaited(job), tick())
        return got, ticks

    got, ticks = asyncio.run(main())
    assert same(got, values[:500])
    assert ticks > 5


def test_a_cancelled_job_raises_and_stops(slow):
    store, _ = slow
    array = ps.open(store)
    for options in ({}, {"dtype": "f8"}):
        job = array.read_async(**options)
        assert not job.done
        begin = time.monotonic()
        job.cancel()
        with pytest.raises(ps.CancelledError):
            job.wait()
        assert time.monotonic() - begin < 1
        assert job.done
        assert store.inside == 0


def test_cancelling_a_task_cancels_its_read(slow):
    store, _ = slow

    async def main() -> ps.Job:
        job = ps.open(store).read_async()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(awaited(job), 0.1)
        return job

    job = asyncio.run(main())
    with pytest.raises(ps.CancelledError):
        job.wait()
    assert store.asked < 100


def test_the_read_continues_after_wait_times_out(slow):
    store, values = slow
    job = ps.open(store).read_async(np.s_[:300])
    with pytest.raises(TimeoutError):
        job.wait(0.05)
    assert not job.done
    done, total = job.progress
    assert 0 <= done < total == 1200
    assert same(job.wait(60), values[:300])


def test_a_store_may_wait_for_other_reads_in_the_background():
    """Such a store waits on the only thread of the pool."""
    context = ps.Context(threads=1)
    values = write(VALUES, (16, 16))
    inner = ps.open(values, context=context)

    class Reading:
        def get(self, key: str) -> bytes | None:
            assert same(inner.read_async().wait(20), VALUES)
            return values.get(key)

    outer = ps.open(Reading(), context=context)
    jobs = [outer.read_async() for _ in range(3)]
    for job in jobs:
        assert same(job.wait(30), VALUES)
    assert same(outer[...], VALUES)


def test_dropping_a_job_cancels_and_waits(slow):
    store, _ = slow
    for options in ({}, {"dtype": "f8"}):
        job = ps.open(store).read_async(**options)
        time.sleep(0.05)
        del job
        gc.collect()
        assert store.inside == 0
        before = store.asked
        time.sleep(0.1)
        assert store.asked == before


def test_out_and_array_live_as_long_as_the_job():
    store = Slow(write(np.arange(100, dtype="<i4"), (10,)))
    with ps.Context(threads=2):
        job = ps.open(store).read_async(out=np.zeros(100, "<i4"))
    del store
    gc.collect()
    np.testing.assert_array_equal(job.wait(), np.arange(100))


def test_progress_of_a_job_is_reported(slow):
    store, values = slow
    calls: list[tuple[int, int]] = []
    got = ps.open(store).read_async(np.s_[:500], progress=lambda done, total: calls.append((done, total))).wait()
    assert same(got, values[:500])
    assert calls[-1] == (2000, 2000)


COLLECTS = """
import gc, sys, threading, time
import numpy as np, penstock as ps

values = np.arange(4000).reshape(40, 100)
objects = {}
ps.create_array(objects, data=values, chunks=(5, 100))
may_go_on = threading.Event()
collects = False
collected = []

class Collects(ps.Store):
    def get(self, key):
        if key.startswith("c/"):
            may_go_on.wait()
            if collects:
                collected.append(gc.collect())
        return objects.get(key)

what = sys.argv[1]
gc.disable()
with ps.Context(threads=1):
    array = ps.open(Collects())
if not what.startswith("job"):
    may_go_on.set()
if what == "job":
    found = [array.read_async()]
elif what == "job with progress":
    found = [array.read_async(progress=lambda done, total: collected.append(gc.collect() if collects else 0))]
elif what == "stream":
    found = [ps.stream(array, tile=(1, 100), depth=8)]
    next(found[0])
elif what == "loader":
    found = [iter(ps.loader(array, batch_size=2, window="64KB"))]
    next(found[0])
else:
    crops = (np.s_[number % 30 : number % 30 + 2] for number in range(1000))
    found = [iter(ps.batches(array, crops, batch_size=4, depth=8))]
    next(found[0])
may_go_on.clear()
reads = [array.read_async() for _ in range(4)]
found.append(found)
del found
collects = True
may_go_on.set()
for each in reads:
    assert (each.wait(timeout=10) == values).all()
assert collected
end = time.monotonic() + 20
while (time.monotonic() < end) and sum(collected) == 0:
    time.sleep(0.01)
collects = False
assert gc.collect() >= 0 and (array[...] == values).all()
"""


@pytest.mark.parametrize("what", ["job", "job with progress", "stream", "loader", "batches"])
def test_the_garbage_collector_may_drop_a_read_on_a_thread_of_the_engine(what):
    program = [sys.executable, "-c", COLLECTS, what]
    ended = subprocess.run(program, timeout=60, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
