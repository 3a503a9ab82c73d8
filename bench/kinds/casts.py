"""Reads as another dtype, in turns with the plain read and with NumPy's `astype` of its result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    path = setting.folder / f"casts-{scenario['elements']}.zarr"
    values = walk(scenario["elements"])
    if not path.exists():
        setting.say(f"writing {path}")
        made = ps.create_array(path, shape=values.shape, dtype=values.dtype, chunks=(1 << 19,))
        made[...] = values
    opened = ps.open(path)
    plain, cast = np.ones(values.shape, values.dtype), np.ones(values.shape, scenario["to"])
    threads = setting.threads
    before = reset_peak()
    opened.read(out=cast, threads=threads)
    beside = None if before is None else (peak_bytes() - before) / 2**20
    if not np.array_equal(cast, values.astype(scenario["to"])):
        result.failed = "a cast read gives wrong values"
    samples = in_turns(
        {
            "penstock, as stored": once(lambda: opened.read(out=plain, threads=threads)),
            "penstock, cast": once(lambda: opened.read(out=cast, threads=threads)),
            "as stored, then astype": once(lambda: opened.read(out=plain, threads=threads).astype(scenario["to"])),
        },
        scenario["turns"],
    )
    for name, taken in samples.items():
        result.add(name, taken, bytes_out=values.nbytes)
    ratio = paired(samples["penstock, cast"], samples["penstock, as stored"])
    text = "elements a second of a cast read against a plain one, median of turns"
    result.bars.append(Bar(text, ratio, scenario["at_least_of_plain"], True, "x"))
    if beside is None:
        result.notes.append("the system does not say how much memory was used at once")
    else:
        result.bars.append(Bar("memory in addition to the result", beside, scenario["at_most_mib"], False, "MiB"))
    return result


def walk(elements: int) -> np.ndarray:
    """A random walk in 16 bits, repeated."""
    steps = np.random.default_rng(1).integers(-3, 4, min(elements, 1 << 23))
    return np.resize(np.cumsum(steps).astype("i2"), elements)


def reset_peak() -> int | None:
    """Reset the peak of this process's memory; returns its current memory."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return peak_bytes()


def peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
