"""Timing of reads, and figures from the device's own events."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps

from bench.gpu.arrays import Spec


def best_of(
    turns: int, work: Callable[[], float], before: Callable[[], None] | None = None, warm_ups: int = 3
) -> dict[str, float]:
    """Seconds of `turns` runs after `warm_ups` that do not count: the best and the median.

    In the first two or three reads, the waves' memory grows, which waits for the device.
    """
    taken = []
    for turn in range(warm_ups + turns):
        if before is not None:
            before()
        seconds = work()
        if turn >= warm_ups:
            taken.append(seconds)
    return {"best_s": min(taken), "median_s": float(np.median(taken)), "turns": turns}


def check(array: ps.Array, spec: Spec) -> None:
    """Check that the first and the last shard, read to the device, have the written values."""
    for number in {0, spec.shards - 1}:
        got = array.read(np.s_[spec.shard(number)], device="cuda").numpy()
        if not np.array_equal(got, spec.expected()):
            raise AssertionError(f"{spec.title}: shard {number} has other values on the device")


def timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def profiled(context: Any, read: Callable[[], float]) -> Any:
    """The profile of one read. Its wall time is that of the caller, until the device was done."""
    with ps.profile(context) as profile:
        seconds = read()
    profile.report["wall_ns"] = round(seconds * 1e9)
    return profile


def union_s(events: Iterable[dict[str, Any]], kinds: tuple[str, ...]) -> float:
    """Seconds in which at least one event of these kinds was running."""
    total, end = 0, 0
    for begin, stop in sorted((e["begin_ns"], e["end_ns"]) for e in events if e["what"] in kinds):
        total += max(0, stop - max(begin, end))
        end = max(end, stop)
    return total / 1e9


def rate_while(events: Iterable[dict[str, Any]], kind: str, other: tuple[str, ...]) -> float | None:
    """Bytes per second of events of `kind` while events of `other` run: from the time when both have started to the
    time when one of them has finally ended, including gaps and stalls. An event's bytes are spread evenly over its
    time."""
    chosen = [e for e in events if e["what"] == kind]
    beside = [e for e in events if e["what"] in other]
    if not chosen or not beside:
        return None
    begin = max(min(e["begin_ns"] for e in chosen), min(e["begin_ns"] for e in beside))
    end = min(max(e["end_ns"] for e in chosen), max(e["end_ns"] for e in beside))
    if end <= begin:
        return None
    moved = 0.0
    for each in chosen:
        taken = each["end_ns"] - each["begin_ns"]
        inside = min(end, each["end_ns"]) - max(begin, each["begin_ns"])
        if inside > 0:
            moved += each["bytes_in"] * inside / taken
    return moved / (end - begin) * 1e9


def stages(report: dict[str, Any]) -> dict[str, Any]:
    """A summary of the profile of a device read: seconds of each stage, with overlaps counted once, and its bytes."""
    sums = {each["what"]: each for each in report["stages"]}
    wall = report["wall_ns"] / 1e9
    kernels = union_s(report["events"], ("decode", "scatter"))
    out: dict[str, Any] = {
        "wall_s": wall,
        "kernel_share": kernels / wall if wall else 0.0,
        "dropped_events": report["dropped_events"],
    }
    for name, kind, counted in (
        ("read", "fetch", "bytes_in"),
        ("transfer", "transfer", "bytes_in"),
        ("decode", "decode", "bytes_out"),
        ("scatter", "scatter", "bytes_out"),
    ):
        seconds = union_s(report["events"], (kind,))
        moved = sums.get(kind, {})
        out[name] = {
            "s": seconds,
            "bytes_in": moved.get("bytes_in", 0),
            "bytes_out": moved.get("bytes_out", 0),
            "bytes_per_s": moved.get(counted, 0) / seconds if seconds else None,
        }
    out["transfer"]["bytes_per_s_while_decoding"] = rate_while(report["events"], "transfer", ("decode", "scatter"))
    return out


def pread_rate(files: list[Path], threads: int) -> float:
    """Bytes per second of reading whole files into existing memory, with `threads` threads."""
    pieces = []
    size = 8 << 20
    opened = [os.open(each, os.O_RDONLY) for each in files]
    for file in opened:
        length = os.fstat(file).st_size
        pieces += [(file, at, min(size, length - at)) for at in range(0, length, size)]
    buffers = [np.ones(size, np.uint8) for _ in range(threads)]

    def once() -> float:
        todo, lock = iter(pieces), threading.Lock()

        def work(buffer: np.ndarray) -> None:
            while True:
                with lock:
                    piece = next(todo, None)
                if piece is None:
                    return
                os.preadv(piece[0], [memoryview(buffer)[: piece[2]]], piece[1])

        workers = [threading.Thread(target=work, args=(buffer,)) for buffer in buffers]
        begin = time.perf_counter()
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        return time.perf_counter() - begin

    seconds = best_of(3, once)["best_s"]
    for file in opened:
        os.close(file)
    return sum(piece[2] for piece in pieces) / seconds
