"""Reads an uncompressed array over HTTP through the cache on disk, warm, compared with `pread` of the same bytes.

`pread` reads the cache's own files into reused memory, with as many threads as the reader has. The reader's time
includes verifying the checksums of all bytes.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import penstock as ps
from harness.range_server import COUNT, serving
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    name = f"disk_cache_{scenario['chunks']}x{scenario['chunk_bytes']}"
    path, folder = setting.folder / f"{name}.zarr", setting.folder / f"{name}.cache"
    values = np.random.default_rng(5).integers(0, 256, scenario["chunks"] * scenario["chunk_bytes"], dtype="u1")
    shutil.rmtree(folder, ignore_errors=True)
    if not path.exists():
        ps.create_array(str(path), data=values, chunks=(scenario["chunk_bytes"],), codecs=[])
    with serving(path.parent, scenario["latency_ms"] / 1e3) as root:
        url = f"{root}/{path.name}"

        def opened(**options: object) -> ps.Array:
            return ps.open(url, context=ps.Context(threads=setting.threads, chunk_cache=0, **options))

        def requests() -> int:
            with urlopen(root + COUNT) as answer:
                return int(answer.read())

        plain = opened()
        trusted, checked = opened(disk_cache=folder, disk_cache_trust=86400), opened(disk_cache=folder)
        if not np.array_equal(trusted[...], values):
            result.failed = "the cache gives wrong values"
        before = requests()
        if not np.array_equal(opened(disk_cache=folder, disk_cache_trust=86400)[...], values):
            result.failed = "the cache gives wrong values, warm"
        made = requests() - before
        files = sorted(folder.glob("*.ranges"))
        pool = ThreadPoolExecutor(setting.threads)
        room = np.empty(sum(each.stat().st_size for each in files), "u1")
        contestants = {
            "pread": once(lambda: pread_all(files, room, scenario["chunk_bytes"], pool)),
            "penstock, warm, trusted": once(lambda: trusted[...]),
            "penstock, warm, versions requested": once(lambda: checked[...]),
            "penstock, no cache": once(lambda: plain[...]),
        }
        samples = in_turns(contestants, scenario["turns"])
    result.ceilings["pread"] = values.nbytes / samples["pread"].best
    for who, taken in samples.items():
        row = result.add(who, taken, bytes_out=values.nbytes)
        row.fraction_of_ceiling = paired(taken, samples["pread"])
    result.bars.append(Bar("requests of a second, trusted pass", made, 0, at_least=False))
    ratio = paired(samples["penstock, warm, trusted"], samples["pread"])
    result.bars.append(Bar("warm, trusted, against pread", ratio, scenario["at_least"], at_least=True, unit="x"))
    shutil.rmtree(folder, ignore_errors=True)
    return result


def pread_all(files: list[Path], room: np.ndarray, step: int, pool: ThreadPoolExecutor) -> None:
    """Read all bytes of the files in blocks of `step`, as many at a time as the pool has threads."""
    at = 0
    work = []
    opened = [os.open(each, os.O_RDONLY) for each in files]
    for file in opened:
        size = os.fstat(file).st_size
        for begin in range(0, size, step):
            length = min(step, size - begin)
            work.append(pool.submit(os.preadv, file, [room[at : at + length]], begin))
            at += length
    for each in work:
        each.result()
    for file in opened:
        os.close(file)
