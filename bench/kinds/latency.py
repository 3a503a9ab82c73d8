"""The time of one small read, in turns with the unavoidable part: libzstd's own time and the system calls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from harness import arrays
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, repeated

CEILINGS = {"codec": "one", "stat+pread": "range", "open+fstat+pread+close": "whole"}


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    shape, chunks, shards = scenario["shape"], scenario["chunks"], scenario.get("shards")
    path = arrays.write(setting.folder, scenario["name"], shape, chunks, shards)
    source = arrays.as_dict(path) if scenario["store"] == "memory" else path
    expected = arrays.values(shape)
    aim = scenario["seconds_per_turn"]
    contestants: dict[str, Callable[[], float]] = {}
    per_shard = math.prod(shards) // math.prod(chunks) if shards else None
    places = arrays.encoded_chunks(path, math.prod(chunks) * 4, per_shard)
    with setting.ceiling(places, threads=1) as ceiling:
        for name in scenario["ceilings"]:
            contestants[name] = lambda what=CEILINGS[name]: ceiling.per_chunk(what, 2000)
        for peer in setting.peers(scenario["readers"], source, result):
            with peer.active():
                opened = peer.open(source)
                for reads, selections in scenario["reads"].items():
                    picks = [as_selection(selection) for selection in expand(selections, shape)]
                    for pick in picks:
                        if peer.reads_values and not np.array_equal(opened[pick], expected[pick]):
                            result.failed = f"{peer.name} reads wrong values"
                    name = peer.name if len(scenario["reads"]) == 1 else f"{peer.name} {reads}"
                    contestants[name] = settled(peer, repeated(cycling(opened, picks), aim))
        samples = in_turns(contestants, scenario["turns"])

    for name in scenario["ceilings"]:
        result.ceilings[f"{name}_s"] = samples[name].best
    for name, taken in samples.items():
        if name not in scenario["ceilings"]:
            result.add(name, taken)
    for bar in scenario["bars"]:
        ours = samples.get(bar["reader"])
        if ours is None:
            continue
        if "at_most_us" in bar:
            beyond = (ours.best - sum(samples[name].best for name in bar["beyond"] if name in samples)) * 1e6
            text = f"{bar['reader']} beyond {' and '.join(bar['beyond'])}"
            result.bars.append(Bar(text, beyond, bar["at_most_us"], at_least=False, unit="us"))
        else:
            ratio = ours.best / samples[bar["against"]].best
            result.bars.append(Bar(f"{bar['reader']} against {bar['against']}", ratio, bar["at_most"], False, "x"))
    return result


def expand(selections: list, shape: list[int]) -> list:
    """A list of selections, or ["every", length]: consecutive ranges of that length along the first axis."""
    if selections[0] != "every":
        return selections
    length = selections[1]
    return [[[low, low + length]] for low in range(0, shape[0], length)]


def as_selection(bounds: list[list[int]]) -> tuple[slice, ...]:
    return tuple(slice(low, high) for low, high in bounds)


def cycling(opened, picks: list) -> Callable[[], object]:
    following = itertools.cycle(picks).__next__
    return lambda: opened[following()]


def settled(peer, timed: Callable[[], float]) -> Callable[[], float]:
    def read() -> float:
        with peer.active():
            return timed()

    return read
