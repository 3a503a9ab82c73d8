"""Appends to a store whose puts take a while: how long the caller is blocked, compared with copying the same rows.

The rows of one turn fit in the queue. A copy is written to reused memory, like the queue's. Encoders start 20 ms after
the first whole row of chunks, or when the queue is half full, which is at the end of a turn. On a machine without an
idle core, the wall clock of longer turns includes their work, and that of any turn the work of other processes; the
processor time of the calling thread does not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping
from statistics import median

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import Samples, in_turns, once, paired


class Slow(MutableMapping[str, bytes]):
    def __init__(self, seconds: float) -> None:
        self.objects: dict[str, bytes] = {}
        self.seconds = seconds

    def __getitem__(self, key: str) -> bytes:
        return self.objects[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        time.sleep(self.seconds)
        self.objects[key] = bytes(value)

    def __delitem__(self, key: str) -> None:
        del self.objects[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.objects)

    def __len__(self) -> int:
        return len(self.objects)


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    rows, width = scenario["rows"], scenario["row_bytes"] // 4
    values = np.random.default_rng(7).random((rows, width), dtype="f4")
    room = np.empty_like(values)
    store = Slow(0)
    context = ps.Context(threads=setting.threads)
    array = ps.create_array(
        store, shape=(0, width), dtype="f4", chunks=(scenario["chunk_rows"], width), context=context
    )
    store.seconds = scenario["sleep_ms"] / 1e3
    step = scenario["rows_each"]
    appender = array.appender(queue=2 * values.nbytes, publish_interval=3600)

    def append() -> None:
        for at in range(0, rows, step):
            appender.append(values[at : at + step])

    def copy() -> None:
        for at in range(0, rows, step):
            room[at : at + step] = values[at : at + step]

    append()
    appender.flush()  # allocates the queue's memory
    copy()
    turns = 0
    work: list[float] = []  # processor time of the calling thread, in turns of appends and copies

    def measured() -> float:
        nonlocal turns
        turns += 1
        begin, worked = time.perf_counter(), time.thread_time()
        append()
        taken, worked = time.perf_counter() - begin, time.thread_time() - worked
        copied = time.thread_time()
        copy()
        work.append(worked / (time.thread_time() - copied))
        appender.flush()  # not timed: it empties the queue
        return taken

    samples = in_turns({"copy": once(copy), "append": measured}, scenario["turns"])
    appender.close()
    if array.shape != ((turns + 1) * rows, width) or not np.array_equal(array[-rows:], values):
        result.failed = "the array has other rows"
    compare(result, "append", samples, work, values.nbytes, scenario["at_most"])
    return result


def compare(
    result: Result, who: str, samples: dict[str, Samples], work: list[float], values_bytes: int, at_most: float
) -> None:
    """The rows and bars of a caller that need only copy its values. `work`: processor time against a copy, by turns."""
    result.ceilings["copy"] = values_bytes / samples["copy"].best
    for name, taken in samples.items():
        row = result.add(name, taken, bytes_out=values_bytes)
        row.fraction_of_ceiling = paired(taken, samples["copy"])
    for text, ratio in (("processor time", median(work)), ("time", 1 / paired(samples[who], samples["copy"]))):
        result.bars.append(Bar(f"{text} of the caller, against a copy", ratio, at_most, at_least=False, unit="x"))
