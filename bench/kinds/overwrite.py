"""Overwrites one chunk of a shard with many: compared with copying the shard's file, and with other libraries.

A writer that flushes (Penstock and tensorstore, by default) is compared with a copy that is flushed and renamed over
the old file; one that does not flush with a plain copy.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import numpy as np
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once
from penstock.view.demo.benchmark_array import CHUNK_ELEMENTS, BenchmarkArray


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    array = BenchmarkArray(setting.folder, 1, scenario["chunks"])
    array.ensure(setting.say)
    values = np.random.default_rng(1).random(CHUNK_ELEMENTS, dtype="float32")
    copy = setting.folder / "shard-copy"
    replaced = setting.folder / "shard-replaced"

    def copy_durably() -> None:
        shutil.copyfile(array.shard_file(0), copy)
        with copy.open("r+b") as file:
            os.fdatasync(file.fileno())
        copy.rename(replaced)

    contestants: dict[str, Callable[[], float]] = {
        "copy of the shard file": once(lambda: shutil.copyfile(array.shard_file(0), copy)),
        "copy, fdatasync and rename": once(copy_durably),
    }
    paths = []
    for peer in setting.peers(scenario["writers"], array.path, result):
        path = setting.folder / f"overwritten-by-{peer.name.replace(' ', '-')}.zarr"
        target = peer.create(path, (array.elements,), "float32", (CHUNK_ELEMENTS,), (array.shard_elements,))
        with peer.active():
            target[:] = array.shard_values()
        contestants[peer.name] = overwriting(peer, target, values, array.chunks_per_shard)
        paths.append(path)
    samples = in_turns(contestants, scenario["turns"])
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
    copy.unlink(missing_ok=True)
    replaced.unlink(missing_ok=True)
    for name, taken in samples.items():
        result.add(name, taken)
    for ours, ceiling in (
        ("penstock", "copy, fdatasync and rename"),
        ("penstock unflushed", "copy of the shard file"),
    ):
        ratio = samples[ours].best / samples[ceiling].best
        result.bars.append(Bar(f"{ours} against a {ceiling}", ratio, scenario["at_most"], False, "x"))
    return result


def overwriting(peer, target, values, chunks: int) -> Callable[[], float]:
    turn = 0

    def overwrite() -> None:
        nonlocal turn
        turn += 7
        low = turn % chunks * CHUNK_ELEMENTS
        target[low : low + CHUNK_ELEMENTS] = values

    timed = once(overwrite)

    def write() -> float:
        with peer.active():
            return timed()

    return write
