"""Timing in turns: every contestant runs once per turn, so that a slow minute of the machine affects all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass
class Samples:
    """Seconds per unit of work, one entry per turn."""

    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def paired(ours: Samples, theirs: Samples) -> float:
    """How many times faster Penstock is: the median over turns of the ratio within a turn."""
    return statistics.median(other / own for own, other in zip(ours.seconds, theirs.seconds, strict=True))


def in_turns(contestants: Mapping[str, Callable[[], float]], turns: int, warm_up: int = 1) -> dict[str, Samples]:
    """Each contestant does its work once per turn and returns the seconds that it took."""
    samples = {name: Samples() for name in contestants}
    order = list(contestants)
    for turn in range(warm_up + turns):
        # Rotated, so that a contestant does not always follow the same one.
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            seconds = contestants[name]()
            if turn >= warm_up:
                samples[name].seconds.append(seconds)
    return samples


def once(work: Callable[[], object]) -> Callable[[], float]:
    """Time one call; its result is released after the clock has stopped."""

    def timed() -> float:
        begin = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - begin
        del result
        return seconds

    return timed


def repeated(work: Callable[[], object], aim_seconds: float) -> Callable[[], float]:
    """Time a loop of calls that lasts about `aim_seconds`, with results released; returns seconds per call."""
    calls = 0

    def loop(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            work()
        return time.perf_counter() - begin

    def timed() -> float:
        nonlocal calls
        if not calls:
            calls = 1
            while (seconds := loop(calls)) < aim_seconds / 10:
                calls *= 4
            calls = max(1, round(calls * aim_seconds / seconds))
        return loop(calls) / calls

    return timed
