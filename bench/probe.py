"""Measures one read in this process and prints one line of JSON. Started by several kinds."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np


def status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


class Peak:
    """The highest resident size while inside, beyond what it was on entry."""

    def __enter__(self) -> Peak:
        self.before = status("VmRSS")
        try:
            Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
            self._reset = True
        except OSError:
            self._reset = False  # not allowed here: memory is sampled
            self._stop = threading.Event()
            self._highest = self.before
            self._thread = threading.Thread(target=self._sample)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._reset:
            self.bytes = status("VmHWM") - self.before
        else:
            self._stop.set()
            self._thread.join()
            self.bytes = self._highest - self.before

    def _sample(self) -> None:
        while not self._stop.wait(0.002):
            self._highest = max(self._highest, status("VmRSS"))


def read(peer_name: str, way: str, threads: str, path: str) -> dict:
    from peers import by_name

    peer = by_name(peer_name, int(threads))
    with peer.active():
        opened = peer.open(Path(path))
        opened[:10]  # imports, pools and the index are not part of the read
        if way == "out":
            out = np.ones(opened.shape, dtype=np.float32)
            with Peak() as peak:
                opened.read(out=out, threads=int(threads))
            return {"peak_bytes": peak.bytes}
        with Peak() as peak:
            got = opened[:]
        return {"peak_bytes": peak.bytes - got.nbytes}


def first(peer_name: str, threads: str, path: str, repeats: str) -> dict:
    from peers import by_name

    peer = by_name(peer_name, int(threads))
    with peer.active():
        peer.open(Path(path))  # imports are not part of the read
        begin = time.perf_counter()
        opened = peer.open(Path(path))
        got = opened[:]
        first_s = time.perf_counter() - begin
        total = float(np.asarray(got).sum(dtype="f8"))
        del got
        taken = []
        for _ in range(int(repeats)):
            begin = time.perf_counter()
            opened[:]
            taken.append(time.perf_counter() - begin)
    return {"first_s": first_s, "repeated_s": min(taken), "sum": total}


def shards(pattern: str, options: str, threads: str) -> dict:
    import penstock as ps

    opened = ps.open_shards(pattern, **json.loads(options))
    opened[:10]
    out = np.ones(opened.shape, opened.dtype)
    with Peak() as peak:
        opened.read(out=out, threads=int(threads))
    return {"peak_bytes": peak.bytes}


def tiff(reader: str, threads: str, path: str) -> dict:
    if reader == "penstock":
        import penstock as ps

        opened = ps.open(path)
        opened[:, :10, :10]
        out = np.ones(opened.shape, opened.dtype)
        with Peak() as peak:
            opened.read(out=out, threads=int(threads))
        return {"peak_bytes": peak.bytes}
    import rasterio
    from rasterio.windows import Window

    with rasterio.open(path, num_threads=int(threads)) as file:
        file.read(window=Window(0, 0, 10, 10))
        out = np.ones((file.count, file.height, file.width), file.dtypes[0])
        with Peak() as peak:
            file.read(out=out)
        return {"peak_bytes": peak.bytes}


def plan(path: str) -> dict:
    import penstock as ps

    with Peak() as peak:
        begin = time.perf_counter()
        array = ps.open(path)
        opened = time.perf_counter()
        text = str(array.plan())
        planned = time.perf_counter()
    lines = text.strip().splitlines()
    return {
        "open_s": opened - begin,
        "plan_s": planned - opened,
        "peak_bytes": peak.bytes,
        "plan_first_line": lines[0] if lines else "",
    }


def loader(name: str, where: str, per_chunk: str, scenario: str, threads: str) -> dict:
    """An epoch: peak memory, without processes of the loader's own, and the time of the first batch."""
    from kinds.loader import LOADERS

    epoch = LOADERS[name][1](where, int(per_chunk), json.loads(scenario), int(threads))
    with Peak() as peak:
        begin = time.perf_counter()
        batches = iter(epoch(0))
        count = len(np.asarray(next(batches)))
        first_s = time.perf_counter() - begin
        for batch in batches:
            count += len(np.asarray(batch))
    return {"peak_bytes": peak.bytes, "first_s": first_s, "samples": count}


if __name__ == "__main__":
    kinds = {"read": read, "first": first, "plan": plan, "shards": shards, "tiff": tiff, "loader": loader}
    print(json.dumps(kinds[sys.argv[1]](*sys.argv[2:])))
