"""Writes the whole benchmark array to files, in turns with libzstd alone and with other libraries.

With `replaces` every turn overwrites the array of the turn before; without it the files are new: the old ones are
erased before the clock starts. All bytes written before are on storage by then, so that no contestant waits for
another's.

The kernel's time for the bytes alone differs much between machines (a virtual one may have to find memory for its page
cache), so the same encoded bytes are also written plainly, from memory to new files, in every turn.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import Samples, in_turns, once, paired
from penstock.view.demo import benchmark_array
from penstock.view.demo.benchmark_array import CHUNK_ELEMENTS


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
        contestants["plain write"] = writing_plainly(array.path, setting)
        for peer in setting.peers(scenario["writers"], array.path, result):
            path = setting.folder / f"written-by-{peer.name.replace(' ', '-')}.zarr"
            target = peer.create(path, (array.elements,), "float32", (CHUNK_ELEMENTS,), (array.shard_elements,))
            contestants[peer.name] = writing(peer, target, values, None if scenario["replaces"] else path)
            written.append((peer, path))
        samples = in_turns(contestants, scenario["turns"])
    reader = setting.peers(["tensorstore"], array.path, Result("", ""))
    for peer, path in written:
        # Verified by another reader than the writer, if one can take part.
        if not array.matches(np.asarray((reader[0] if reader else peer).open(path)[:])):
            result.failed = f"{peer.name} wrote wrong values"
        shutil.rmtree(path, ignore_errors=True)

    result.notes.append("replaces files" if scenario["replaces"] else "writes new files")
    result.ceilings["encode"] = array.nbytes / samples["ceiling encode"].best
    for name, taken in samples.items():
        if not name.startswith(("ceiling ", "plain ")):
            row = result.add(name, taken, bytes_out=array.nbytes)
            row.fraction_of_ceiling = paired(taken, samples["ceiling encode"])
    ours, encode, write = samples["penstock"], samples["ceiling encode"], samples["plain write"]
    both = Samples([a + b for a, b in zip(encode.seconds, write.seconds, strict=True)])
    result.notes.append(f"writing the encoded bytes alone: {write.best:.2f} s best, {write.median:.2f} s median")
    result.notes.append(f"penstock against libzstd and then that write, median of turns: {paired(ours, both):.3g} x")
    if "at_least_of_ceiling" in scenario:
        of_ceiling = paired(ours, encode)
        text = "penstock against libzstd alone, median of turns"
        result.bars.append(Bar(text, of_ceiling, scenario["at_least_of_ceiling"], at_least=True, unit="x"))
    others = {
        name: taken for name, taken in samples.items() if name not in ("penstock", "ceiling encode", "plain write")
    }
    if others:
        fastest = min(others, key=lambda name: others[name].best)
        text = f"penstock against {fastest}, best runs"
        result.bars.append(Bar(text, others[fastest].best / ours.best, scenario["at_least_of_peers"], True, "x"))
    return result


def writing_plainly(array: Path, setting: Setting) -> Callable[[], float]:
    """Time writing the bytes of all the array's files to new ones, as many at once as there are threads."""
    contents = [path.read_bytes() for path in sorted((array / "c").rglob("*")) if path.is_file()]
    folder = setting.folder / "written-plainly"

    def write_all() -> None:
        with ThreadPoolExecutor(setting.threads) as pool:
            list(pool.map(lambda i: (folder / str(i)).write_bytes(contents[i]), range(len(contents))))

    timed = once(write_all)

    def write() -> float:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        os.sync()
        try:
            return timed()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return write


def writing(peer, target, values, erased: Path | None) -> Callable[[], float]:
    """Time one write of everything, after erasing its chunks under `erased`."""

    def write_all() -> None:
        target[:] = values

    timed = once(write_all)

    def write() -> float:
        if erased is not None:
            shutil.rmtree(erased / "c", ignore_errors=True)
        os.sync()
        with peer.active():
            return timed()

    return write
