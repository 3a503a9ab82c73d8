"""Reads the whole benchmark array, in turns with the ceilings and with other libraries.

Ways to read: `out` into one warm array of the caller; `loop` is `a[:]` with the result released. Only Penstock has the
first one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired
from peers import Peer
from penstock.view.demo import benchmark_array
from penstock.view.demo.benchmark_array import BenchmarkArray
from penstock.view.demo.ceiling import Ceiling, Measured


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    array, reason = benchmark_array.choose(
        setting.folder, scenario["shards"] / benchmark_array.SHARDS, scenario["copies"]
    )
    if reason:
        result.notes.append(reason)
    array.ensure(setting.say)
    contestants: dict[str, Callable[[], float]] = {}
    report: dict = {}

    with setting.ceiling(array.encoded_chunks()) as ceiling:
        passes: dict[str, list[Measured]] = {what: [] for what in scenario["ceilings"]}
        for what, measured in passes.items():
            contestants[f"ceiling {what}"] = limit(ceiling, what, measured)
        for peer in setting.peers(scenario["readers"], array.path, result):
            opened = peer.open(array.path)
            if peer.name == "penstock":
                way = Ours(opened, array, setting.threads, into_memory=scenario["way"] == "out")
                with peer.active():
                    report = way.check_and_profile()
                contestants[way.name] = once(way.read)
            else:
                contestants[peer.name] = reader(peer, opened)
        samples = in_turns(contestants, scenario["turns"])

    for what, measured in passes.items():
        best = min(measured, key=lambda value: value.seconds)
        result.ceilings[what] = best.raw if what == "pread" else best.effective
    for name, taken in samples.items():
        if name.startswith("ceiling "):
            continue
        row = result.add(name, taken, bytes_out=array.nbytes)
        row.fraction_of_ceiling = paired(taken, samples["ceiling decode"])
        if name.startswith("penstock"):
            row.requests, row.bytes_read = report["store_requests"], report["store_bytes"]
    for bar in scenario["bars"]:
        ours, theirs = samples.get(bar["reader"]), samples.get(bar["against"])
        if ours and theirs:
            # A peer counts with its best run. A ceiling is not a contestant: it is compared within each turn, so that
            # other load of the machine affects both.
            if bar["against"] == "ceiling decode":
                text, ratio = f"{bar['reader']} against libzstd alone, median of turns", paired(ours, theirs)
            else:
                text, ratio = f"{bar['reader']} against {bar['against']}, best runs", theirs.best / ours.best
            result.bars.append(Bar(text, ratio, bar["at_least"], at_least=True, unit="x"))
    if report:
        (setting.folder / f"profile-{scenario['name']}.json").write_text(json.dumps(report))
    return result


class Ours:
    """Penstock, in one of the two ways."""

    def __init__(self, opened: Any, array: BenchmarkArray, threads: int, into_memory: bool) -> None:
        self.name = "penstock out=" if into_memory else "penstock a[:]"
        self._opened, self._array, self._threads = opened, array, threads
        self._out = np.ones(array.elements, dtype=np.float32) if into_memory else None

    def read(self) -> Any:
        if self._out is None:
            return self._opened[:]
        self._opened.read(out=self._out, threads=self._threads)
        return self._out

    def check_and_profile(self) -> dict:
        with ps.profile() as profile:
            got = self.read()
        if not self._array.matches(got):
            raise ValueError("Penstock's values are wrong")
        return dict(profile.report)


def limit(ceiling: Ceiling, what: str, measured: list[Measured]) -> Callable[[], float]:
    def measure() -> float:
        measured.append(ceiling.measure(what))
        return measured[-1].seconds

    return measure


def reader(peer: Peer, opened: Any) -> Callable[[], float]:
    timed = once(lambda: opened[:])

    def read() -> float:
        with peer.active():
            return timed()

    return read
