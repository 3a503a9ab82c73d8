"""Writes the whole benchmark array to files, in turns with libzstd alone and with other libraries.

With `replaces` every turn overwrites the array of the turn before; without it the files are new: the old ones are
erased before the clock starts. All bytes written before are on storage by then, so that no contestant waits for
another's.

Writers that flush (Penstock and tensorstore, by default) return when the disk has the files; they are compared with
each other. Those that do not, Penstock with `sync="none"` among them, are compared with each other and with libzstd
alone.

The kernel's time for the bytes alone differs much between machines (a virtual one may have to find memory for its page
cache), so the same encoded bytes are also written plainly, from memory to new files, in every turn, with a flush of
each file and without.
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
        for name in PLAIN:
            contestants[name] = writing_plainly(array.path, setting, flushes="flushed" in name)
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
    encode = samples["ceiling encode"]
    for name, plain in zip(OURS, PLAIN, strict=True):
        ours, write = samples[name], samples[plain]
        both = Samples([a + b for a, b in zip(encode.seconds, write.seconds, strict=True)])
        result.notes.append(f"{plain} of the encoded bytes: {write.best:.2f} s best, {write.median:.2f} s median")
        result.notes.append(f"{name} against libzstd and then that, median of turns: {paired(ours, both):.3g} x")
        others = {peer: taken for peer, taken in samples.items() if peer in RIVALS[name]}
        if others:
            fastest = min(others, key=lambda peer: others[peer].best)
            text = f"{name} against {fastest}, best runs"
            result.bars.append(Bar(text, others[fastest].best / ours.best, scenario["at_least_of_peers"], True, "x"))
    if "at_least_of_ceiling" in scenario:
        of_ceiling = paired(samples["penstock unflushed"], encode)
        text = "penstock unflushed against libzstd alone, median of turns"
        result.bars.append(Bar(text, of_ceiling, scenario["at_least_of_ceiling"], at_least=True, unit="x"))
    return result


OURS = ("penstock", "penstock unflushed")
PLAIN = ("plain write, flushed", "plain write")
RIVALS = {
    "penstock": ("tensorstore",),
    "penstock unflushed": ("tensorstore unflushed", "zarr-python fused", "zarrs-python"),
}


def writing_plainly(array: Path, setting: Setting, flushes: bool) -> Callable[[], float]:
    """Time writing the bytes of all the array's files to new ones, as many at once as there are threads.

    With `flushes` each file is written under another name, flushed and renamed, so that it is whole after a power cut.
    """
    contents = [path.read_bytes() for path in sorted((array / "c").rglob("*")) if path.is_file()]
    folder = setting.folder / "written-plainly"

    def write_one(i: int) -> None:
        if not flushes:
            (folder / str(i)).write_bytes(contents[i])
            return
        with (folder / f"{i}.new").open("wb", buffering=0) as file:
            file.write(contents[i])
            os.fdatasync(file.fileno())
        (folder / f"{i}.new").rename(folder / str(i))

    def write_all() -> None:
        with ThreadPoolExecutor(setting.threads) as pool:
            list(pool.map(write_one, range(len(contents))))

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
