"""Many small reads at random positions of one shard: the requests to storage, and the time."""

from __future__ import annotations

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once
from penstock.view.demo.benchmark_array import CHUNK_ELEMENTS, BenchmarkArray


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    array = BenchmarkArray(setting.folder, 1, scenario["chunks"])
    array.ensure(setting.say)
    length = scenario["elements"]
    lows = np.random.default_rng(scenario["seed"]).integers(0, array.elements - length, scenario["reads"])
    expected = array.shard_values()
    encoded = [chunk.length for chunk in array.encoded_chunks()]

    present = setting.peers(scenario["readers"], array.path, result)
    for peer in present:
        if peer.name == "penstock":
            with peer.active():
                account(peer.open(array.path), lows, length, expected, encoded, scenario, result)
    contestants = {}
    for peer in present:
        opened = peer.open(array.path)
        contestants[peer.name] = reading(peer, opened, lows[: scenario["timed_reads"]], length)
    for name, taken in in_turns(contestants, scenario["turns"]).items():
        row = result.row(name)
        if row is None:
            row = result.add(name, taken)
        row.best_s, row.median_s = taken.best / scenario["timed_reads"], taken.median / scenario["timed_reads"]
    result.notes.append(f"times are per read, over {scenario['timed_reads']} reads")
    return result


def account(opened, lows, length, expected, encoded, scenario, result: Result) -> None:
    """For every read separately, the bytes that it fetched, compared with the encoded chunks that it touches."""
    worst, indexes, requests, fetched = 0.0, 0, 0, 0
    for low in lows:
        low = int(low)
        with ps.profile() as profile:
            got = opened[low : low + length]
        if not np.array_equal(got, expected[low : low + length]):
            result.failed = f"wrong values at {low}"
            return
        stages = {stage["what"]: stage for stage in profile.report["stages"]}
        index = stages.get("index", {"operations": 0, "bytes_in": 0})
        indexes += index["operations"]
        requests += profile.report["store_requests"]
        fetched += profile.report["store_bytes"]
        touched = range(low // CHUNK_ELEMENTS, (low + length - 1) // CHUNK_ELEMENTS + 1)
        needed = sum(encoded[chunk] for chunk in touched)
        worst = max(worst, (profile.report["store_bytes"] - index["bytes_in"]) / needed)
    row = result.add_row("penstock")
    row.requests, row.bytes_read = requests, fetched
    result.bars.append(Bar("bytes fetched against bytes needed, worst read", worst, scenario["at_most"], False, "x"))
    result.bars.append(Bar("index reads in all", indexes, 1, at_least=False))


def reading(peer, opened, lows, length: int):
    places = [int(low) for low in lows]

    def all_reads() -> None:
        for low in places:
            opened[low : low + length]

    def timed() -> float:
        with peer.active():
            return once(all_reads)()

    return timed
