"""Opens and reads hostile HDF5 files, one after the other, with limits on memory; prints the name of each before it
starts, then its processor time in seconds and the memory that it needed in KiB.

hostile_hdf5.py penstock|h5py FILE...
"""

from __future__ import annotations

import re
import resource
import sys
import time
from contextlib import suppress
from typing import Any

MOST_BYTES = 1 << 26
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))


def with_penstock(path: str) -> None:
    import penstock as ps

    def walk(node: Any, depth: int) -> None:
        if not isinstance(node, ps.Group):
            if node.nbytes <= MOST_BYTES:
                node[...]
            return
        for name in node.keys()[:100] if depth < 6 else []:
            try:
                walk(node[name], depth + 1)
            except ps.Error:
                continue

    with suppress(ps.Error):
        walk(ps.open(path), 0)


def with_h5py(path: str) -> None:
    """Only the calls of the library that the test of Penstock makes."""
    import h5py

    def walk(node: Any, depth: int) -> None:
        for name in node.attrs:
            try:
                node.attrs[name]
            except Exception:
                continue
        if not hasattr(node, "keys"):
            return
        for name in sorted(node)[:100] if depth < 6 else []:
            try:
                walk(node[name], depth + 1)
            except Exception:
                continue

    with suppress(Exception):
        with h5py.File(path) as file:
            names = sorted(file)
        for name in names[:100]:
            with h5py.File(path) as file:
                walk(file[name], 1)


def memory(name: str) -> int:
    with open("/proc/self/status") as status:
        found = re.search(rf"{name}:\s+(\d+)", status.read())
    return int(found[1]) if found else 0


__import__(sys.argv[1])  # before the first file, so that it is not among its costs
for each in sys.argv[2:]:
    print("at", each, flush=True)
    with suppress(OSError), open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # VmHWM begins at the current memory
    used, began = memory("VmRSS"), time.process_time()
    (with_penstock if sys.argv[1] == "penstock" else with_h5py)(each)
    print("took", time.process_time() - began, memory("VmHWM") - used, flush=True)
print("done", flush=True)
