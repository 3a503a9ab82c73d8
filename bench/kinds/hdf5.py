"""HDF5 files: compared with h5py, and with pread alone, or libdeflate and an unshuffle, on the same chunks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired
from penstock.view.demo.benchmark_array import EncodedChunk

_READS, _OPENS = 1000, 200


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    try:
        import h5py
    except ImportError:
        result.left_out["h5py"] = "it is not installed"
        return result
    if scenario["work"] == "value":
        return one_value(h5py, scenario, result, setting.folder)
    path, chunks = written(h5py, scenario, setting.folder)
    array = ps.open(path, dataset="x", context=ps.Context(threads=setting.threads))
    file = h5py.File(path)
    if scenario["work"] == "one":
        return one_chunk(scenario, result, array, file["x"])
    out, theirs = np.empty(array.shape, array.dtype), np.empty(array.shape, array.dtype)
    contestants: dict[str, Callable[[], float]] = {
        "penstock": once(lambda: array.read(out=out)),
        "h5py": once(lambda: file["x"].read_direct(theirs)),
    }
    for work in contestants.values():
        work()
    if not np.array_equal(out, theirs):
        result.failed = "penstock reads wrong values"
        return result
    with setting.ceiling(chunks) as ceiling:
        limit = scenario["ceiling"]
        contestants[f"ceiling {limit}"] = lambda: ceiling.measure(limit).seconds
        samples = in_turns(contestants, scenario["turns"])
    for name in ("penstock", "h5py"):
        row = result.add(name, samples[name], bytes_out=out.nbytes)
        row.fraction_of_ceiling = paired(samples[name], samples[f"ceiling {limit}"])
    result.ceilings[f"{limit}_s"] = samples[f"ceiling {limit}"].best
    ours = samples["penstock"]
    if "at_least_of_peers" in scenario:
        ratio = samples["h5py"].best / ours.best
        result.bars.append(Bar("penstock against h5py, best runs", ratio, scenario["at_least_of_peers"], True, "x"))
    fraction = paired(ours, samples[f"ceiling {limit}"])
    text = f"penstock against {limit} alone, median of turns"
    result.bars.append(Bar(text, fraction, scenario["at_least_of_ceiling"], True, "x"))
    return result


def one_value(h5py: Any, scenario: dict, result: Result, folder: Path) -> Result:
    """Open a file of many datasets and read one value of one of them, with a new open each time."""
    count, shape, chunks = scenario["datasets"], tuple(scenario["shape"]), tuple(scenario["chunks"])
    path = folder / f"hdf5_{count}_datasets.h5"
    values = np.random.default_rng(1).random((count, *shape))
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for number in range(count):
            file.create_dataset(f"d{number:03d}", data=values[number], chunks=chunks, compression="gzip")
    number = count // 2
    name, at = f"d{number:03d}", tuple(length // 2 for length in shape)

    def by_h5py() -> float:
        with h5py.File(path) as file:
            return float(file[name][at])

    ways: dict[str, Callable[[], float]] = {
        "penstock": lambda: float(ps.open(path, name)[at]),
        "penstock, by way of the group": lambda: float(ps.open(path)[name][at]),
        "h5py": by_h5py,
    }
    for way, work in ways.items():
        if work() != values[(number, *at)]:
            result.failed = f"{way} reads wrong values"
            return result

    def often(work: Callable[[], float]) -> Callable[[], float]:
        def timed() -> float:
            begin = time.perf_counter()
            for _ in range(_OPENS):
                work()
            return (time.perf_counter() - begin) / _OPENS

        return timed

    samples = in_turns({way: often(work) for way, work in ways.items()}, scenario["turns"])
    for way in ways:
        result.add(way, samples[way])
    ratio = samples["h5py"].best / samples["penstock"].best
    result.bars.append(Bar("penstock against h5py, best runs", ratio, scenario["at_least_of_peers"], True, "x"))
    return result


def one_chunk(scenario: dict, result: Result, array: ps.Array, dataset: Any) -> Result:
    """A thousand reads of one chunk each, of other chunks in every turn, because h5py caches what it has read."""
    length = array.chunks[0]
    random = np.random.default_rng(1)

    def all_of(source: Any) -> Callable[[], float]:
        def work() -> float:
            starts = [int(n) * length for n in random.integers(0, array.shape[0] // length, _READS)]
            begin = time.perf_counter()
            for start in starts:
                source[start : start + length]
            return time.perf_counter() - begin

        return work

    for start in random.integers(0, array.shape[0] // length, 10) * length:
        if not np.array_equal(array[start : start + length], dataset[start : start + length]):
            result.failed = "penstock reads wrong values"
            return result
    contestants = {"penstock": all_of(array), "h5py": all_of(dataset)}
    samples = in_turns(contestants, scenario["turns"])
    for name, taken in samples.items():
        result.add(name, taken, bytes_out=_READS * length * array.dtype.itemsize)
    ratio = samples["h5py"].best / samples["penstock"].best
    result.bars.append(Bar("penstock against h5py, best runs", ratio, scenario["at_least_of_peers"], True, "x"))
    return result


def written(h5py: Any, scenario: dict, folder: Path) -> tuple[Path, list[EncodedChunk]]:
    """A file of smooth values with some noise, and the locations of its chunks."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{scenario['name']}.h5"
    shape, chunk = tuple(scenario["shape"]), tuple(scenario["chunks"])
    random = np.random.default_rng(0)
    with h5py.File(path, "w", libver="latest") as file:
        made = file.create_dataset("x", shape, "<f4", chunks=chunk, **scenario.get("options", {}))
        rows = max(chunk[0], min(shape[0], (1 << 24) // int(np.prod(shape[1:], dtype=np.int64))))
        for start in range(0, shape[0], rows):
            block = (min(rows, shape[0] - start), *shape[1:])
            ramp = np.linspace(start, start + block[0], block[0], dtype="f4").reshape(-1, *[1] * (len(shape) - 1))
            made[start : start + block[0]] = np.round(ramp + random.normal(size=block).astype("f4"), 2)
        found: list[EncodedChunk] = []
        bytes_out = 4 * int(np.prod(chunk, dtype=np.int64))
        if scenario["work"] != "one":
            made.id.chunk_iter(lambda info: found.append(EncodedChunk(path, info.byte_offset, info.size, bytes_out)))
    return path, found
