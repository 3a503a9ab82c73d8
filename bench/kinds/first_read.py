"""First reads of a new process, with opening, and repeated reads; of real data and of consecutive numbers.

The real data is a terrain model, extended by mirroring. The other array has the numbers from 0 on, as in many
benchmarks: it compresses better, so decoding it shows little about real data. Shapes, dtypes and chunks are equal.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import Samples
from peers import by_name
from penstock.view import demo

from kinds.memory import probe

TERRAIN = Path(demo.__file__).parent / "data" / "jacksboro_fault_dem.zarr"
REPEATS = 5


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    paths = written(setting.folder, scenario["side"])
    names = [peer.name for peer in setting.peers(scenario["readers"], paths["terrain"], result)]
    samples: dict[str, Samples] = {}
    sums: dict[str, set[float]] = {data: set() for data in paths}
    for turn in range(scenario["turns"]):
        for data, path in paths.items():
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                found = probe("first", name, str(setting.threads), str(path), str(REPEATS), timeout=300)
                if "error" in found:
                    result.failed = f"{name}: {found['error']}"
                    return result
                sums[data].add(found["sum"])
                for when in ("first", "repeated"):
                    samples.setdefault(f"{name}: {data}, {when}", Samples()).seconds.append(found[f"{when}_s"])
    if any(len(each) != 1 for each in sums.values()):
        result.failed = f"the readers found different values: {sums}"
    for who, taken in samples.items():
        result.add(who, taken, bytes_out=4 * scenario["side"] ** 2)
    for bar in scenario["bars"]:
        for data in paths:
            for when in ("first", "repeated"):
                ours, theirs = (samples.get(f"{name}: {data}, {when}") for name in ("penstock", bar["against"]))
                if ours and theirs:
                    text = f"{data}, {when}: penstock against {bar['against']}, best runs"
                    result.bars.append(Bar(text, theirs.best / ours.best, bar["at_least"], at_least=True, unit="x"))
    return result


def written(folder: Path, side: int) -> dict[str, Path]:
    """The two arrays of `side` x `side` float32, written by zarr-python if they do not exist."""
    terrain = ps.open(TERRAIN)[...].astype("f4")
    paths = {name: folder / f"{name}_{side}.zarr" for name in ("terrain", "counting")}
    for name, path in paths.items():
        if path.exists():
            continue
        made = by_name("zarr-python default", 1).create(
            path, (side, side), "float32", (256, 256), (side // 2, side // 2)
        )
        if name == "terrain":
            more = [(0, side - length) for length in terrain.shape]
            made[...] = np.pad(terrain, more, mode="symmetric")
        else:
            made[...] = np.arange(side * side, dtype="f4").reshape(side, side)
    return paths
