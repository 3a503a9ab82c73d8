"""Background writes to a store whose puts take a while: how long the caller is blocked, compared with copies.

The values of one turn fit in the queue, and each write is one chunk. A copy is written to reused memory, like the
queue's. The queue's thread encodes and stores when the caller pauses, or 50 ms after the first write: from then on, on
a machine without an idle core, the wall clock of a turn includes that work. It always includes other processes. The
processor time of the calling thread does not.
"""

from __future__ import annotations

import time

import numpy as np
import penstock as ps
from harness.result import Result
from harness.setting import Setting
from harness.timing import in_turns, once

from kinds.appender import Slow, compare


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    writes, width = scenario["writes"], scenario["write_bytes"] // 4
    values = np.random.default_rng(7).random((writes, width), dtype="f4")
    room = np.empty_like(values)
    store = Slow(0)
    context = ps.Context(threads=setting.threads, write_queue=2 * values.nbytes)
    array = ps.create_array(store, shape=values.shape, dtype="f4", chunks=(1, width), context=context)
    store.seconds = scenario["sleep_ms"] / 1e3

    def write() -> None:
        for i in range(writes):
            array.write_async(i, values[i])

    def copy() -> None:
        for i in range(writes):
            room[i] = values[i]

    write()
    array.flush()  # allocates the queue's memory
    copy()
    work: list[float] = []  # processor time of the calling thread, in turns of writes and copies

    def measured() -> float:
        begin, worked = time.perf_counter(), time.thread_time()
        write()
        taken, worked = time.perf_counter() - begin, time.thread_time() - worked
        copied = time.thread_time()
        copy()
        work.append(worked / (time.thread_time() - copied))
        array.flush()  # not timed: it empties the queue
        return taken

    samples = in_turns({"copy": once(copy), "write_async": measured}, scenario["turns"])
    if not np.array_equal(array[...], values):
        result.failed = "the array has other values"
    compare(result, "write_async", samples, work, values.nbytes, scenario["at_most"])
    return result
