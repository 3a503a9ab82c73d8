"""Writes all of the benchmark array to warm files, in turns with libzstd alone and with others.

Every turn overwrites the array of the turn before, so that everybody replaces files of the same size.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

import numpy as np
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired
from penstock.demo import benchmark_array
from penstock.demo.benchmark_array import CHUNK_ELEMENTS


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    array, reason = benchmark_array.choose(setting.folder, scenario["shards"] / benchmark_array.SHARDS, copies=3)
    if reason:
        result.notes.append(reason)
    array.ensure(setting.say)
    values = np.tile(array.shard_values(), array.shards)
    contestants: dict[str, Callable[[], float]] = {}
    written = []
    with setting.ceiling(array.encoded_chunks()) as ceiling:
        contestants["ceiling encode"] = lambda: ceiling.measure("encode").seconds
        for peer in setting.peers(scenario["writers"], array.path, result):
            path = setting.folder / f"written-by-{peer.name.replace(' ', '-')}.zarr"
            target = peer.create(path, (array.elements,), "float32", (CHUNK_ELEMENTS,), (array.shard_elements,))
            contestants[peer.name] = writing(peer, target, values)
            written.append((peer, path))
        samples = in_turns(contestants, scenario["turns"])
    reader = setting.peers(["tensorstore"], array.path, Result("", ""))
    for peer, path in written:
        # By a reader that is not the writer, where there is one.
        if not array.matches(np.asarray((reader[0] if reader else peer).open(path)[:])):
            result.failed = f"{peer.name} wrote wrong values"
        shutil.rmtree(path, ignore_errors=True)

    result.ceilings["encode"] = array.nbytes / samples["ceiling encode"].best
    for name, taken in samples.items():
        if not name.startswith("ceiling "):
            row = result.add(name, taken, bytes_out=array.nbytes)
            row.fraction_of_ceiling = paired(taken, samples["ceiling encode"])
    ours = samples["penstock"]
    result.bars.append(
        Bar(
            "penstock against libzstd alone, median of turns",
            paired(ours, samples["ceiling encode"]),
            scenario["at_least_of_ceiling"],
            at_least=True,
            unit="x",
        )
    )
    others = {name: taken for name, taken in samples.items() if name not in ("penstock", "ceiling encode")}
    if others:
        fastest = min(others, key=lambda name: others[name].best)
        text = f"penstock against {fastest}, best runs"
        result.bars.append(Bar(text, others[fastest].best / ours.best, scenario["at_least_of_peers"], True, "x"))
    return result


def writing(peer, target, values) -> Callable[[], float]:
    def write_all() -> None:
        target[:] = values

    timed = once(write_all)

    def write() -> float:
        with peer.active():
            return timed()

    return write
