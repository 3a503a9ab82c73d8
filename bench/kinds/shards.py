"""Many files as one array: reading eight `.npy` files, and opening thousands of files, also of HDF5."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired

_PIECE = 1 << 20


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    if scenario["what"] in _OTHERS:
        _OTHERS[scenario["what"]](scenario, setting, result)
        return result
    folder = setting.folder / f"shards_{scenario['shards']}_{scenario['rows']}_{scenario['columns']}"
    if not folder.exists():
        write(folder, scenario["shards"], scenario["rows"], scenario["columns"])
    paths = sorted(str(path) for path in folder.glob("shard_*.npy"))
    {"read": read, "open": opening, "open_many": opening_many}[scenario["what"]](scenario, folder, paths, result)
    return result


def read(scenario: dict, folder: Path, paths: list[str], result: Result) -> None:
    import penstock as ps

    a = ps.open_shards(str(folder / "shard_*.npy"), context=ps.Context(threads=2))
    expected = np.concatenate([np.load(path) for path in paths])
    out = np.zeros(a.shape, a.dtype)
    if not np.array_equal(a.read(out=out), expected):
        result.failed = "penstock read other values"
    del expected
    contestants: dict[str, Callable[[], float]] = {
        "penstock, warm memory": once(lambda: a.read(out=out)),
        "pread in 2 threads": once(lambda: pread(paths, out)),
        "penstock, fresh result": once(lambda: a[...]),
        "np.load + concatenate": once(lambda: np.concatenate([np.load(path) for path in paths])),
    }
    samples = in_turns(contestants, scenario["turns"])
    for name, taken in samples.items():
        result.add(name, taken, bytes_out=a.nbytes)
    best = a.nbytes / samples["pread in 2 threads"].best
    result.ceilings["pread in 2 threads"] = best
    share = paired(samples["penstock, warm memory"], samples["pread in 2 threads"])
    result.bars.append(Bar("of pread alone, warm memory", share, 0.95, at_least=True, unit="x"))
    ratio = paired(samples["penstock, fresh result"], samples["np.load + concatenate"])
    result.bars.append(Bar("against np.load + concatenate", ratio, 2, at_least=True, unit="x"))


def opening(scenario: dict, folder: Path, paths: list[str], result: Result) -> None:
    import penstock as ps

    pattern, manifest, cache = str(folder / "shard_*.npy"), folder / "all.shards", folder / "cache.shards"
    ps.save_manifest(ps.open_shards(pattern), manifest)
    ps.open_shards(pattern, manifest=cache)
    contestants: dict[str, Callable[[], float]] = {
        "penstock": once(lambda: ps.open_shards(pattern)),
        # First a manifest that is trusted until a file is read, then one for which the folder is listed and each file
        # checked.
        "penstock, manifest": once(lambda: ps.open_shards(manifest)),
        "penstock, manifest= as a cache": once(lambda: ps.open_shards(pattern, manifest=cache)),
        "np.load(mmap_mode='r')": once(lambda: [np.load(path, mmap_mode="r") for path in paths]),
    }
    samples = in_turns(contestants, scenario["turns"])
    for name, taken in samples.items():
        result.add(name, taken)
    loop = samples["np.load(mmap_mode='r')"]
    for name, limit in scenario["at_least"].items():
        ratio = paired(samples[name], loop)
        result.bars.append(Bar(f"{name} against a loop of np.load", ratio, limit, at_least=True, unit="x"))


def opening_many(scenario: dict, folder: Path, paths: list[str], result: Result) -> None:
    import penstock as ps

    pattern, manifest, cache = str(folder / "shard_*.npy"), folder / "all.shards", folder / "cache.shards"
    opened = ps.open_shards(pattern)
    if not np.array_equal(opened[-1], np.load(paths[-1])[-1]):
        result.failed = "penstock read other values"
    ps.save_manifest(opened, manifest)
    contestants: dict[str, Callable[[], float]] = {
        "penstock": once(lambda: ps.open_shards(pattern)),
        "penstock, manifest": once(lambda: ps.open_shards(manifest)),
        "penstock, manifest= as a cache": once(lambda: ps.open_shards(pattern, manifest=cache)),
    }
    for name, taken in in_turns(contestants, scenario["turns"]).items():
        result.add(name, taken)
        result.bars.append(Bar(f"{name} opens in", taken.best, scenario["at_most_s"], at_least=False, unit="s"))


def memory(scenario: dict, setting: Setting, result: Result) -> None:
    import penstock as ps

    from kinds.memory import probe

    rows, columns = scenario["rows"], scenario["columns"]
    chosen = {"npy": {}, "h5": {"dataset": "x"}, "parquet": {"column": "x"}}
    needs = {"h5": "h5py", "parquet": "pyarrow"}
    for suffix, options in chosen.items():
        if suffix in needs and importlib.util.find_spec(needs[suffix]) is None:
            result.left_out[suffix] = f"{needs[suffix]} is not installed"
            continue
        folder = setting.folder / f"shards_memory_{suffix}_{rows}"
        if not (folder / "penstock.shards").exists():
            how = {"compression": "gzip", "shuffle": True} if suffix == "h5" else {}
            values = np.arange(rows * columns, dtype="f4").reshape(rows, columns)
            values = values.reshape(-1) if suffix == "parquet" else values
            ps.save_shards(values, folder / f"shard_{{:04d}}.{suffix}", shards=scenario["shards"], **how)
        pattern = str(folder / f"shard_*.{suffix}")
        found = probe("shards", pattern, json.dumps(options), "2", timeout=scenario["timeout_s"])
        if "error" in found:
            result.failed = f"{suffix}: {found['error']}"
            continue
        result.add_row(suffix).peak_bytes = found["peak_bytes"]
        mib = found["peak_bytes"] / 2**20
        result.bars.append(Bar(f"peak beyond the result, {suffix}", mib, scenario["at_most_mib"], False, "MiB"))


def opening_hdf5(scenario: dict, setting: Setting, result: Result) -> None:
    try:
        import h5py
    except ImportError:
        result.left_out["h5py"] = "it is not installed"
        return
    import penstock as ps

    folder = setting.folder / f"hdf5_shards_{scenario['shards']}"
    pattern, manifest = str(folder / "shard_*.h5"), folder / "penstock.shards"
    if not manifest.exists():
        values = np.zeros((scenario["shards"] * scenario["rows"], scenario["columns"]))
        ps.save_shards(values, str(folder / "shard_{:06d}.h5"), rows=scenario["rows"], compression="gzip")
    paths = sorted(folder.glob("shard_*.h5"))

    def loop() -> None:
        for path in paths:
            with h5py.File(path) as file:
                _ = file["x"].shape, file["x"].dtype

    contestants: dict[str, Callable[[], float]] = {
        "penstock": once(lambda: ps.open_shards(pattern, dataset="x")),
        "penstock, manifest": once(lambda: ps.open_shards(manifest)),
        "h5py.File": once(loop),
    }
    samples = in_turns(contestants, scenario["turns"])
    for name, taken in samples.items():
        result.add(name, taken)
    ratio = paired(samples["penstock, manifest"], samples["h5py.File"])
    result.bars.append(Bar("penstock, manifest against a loop of h5py.File", ratio, 10, at_least=True, unit="x"))


def pread(paths: list[str], out: np.ndarray) -> None:
    """Read the same bytes into the same memory with two threads: the limit of every reader."""
    flat = memoryview(out.reshape(-1).view(np.uint8))
    files = [os.open(path, os.O_RDONLY) for path in paths]
    pieces: list[tuple[int, Any, int]] = []
    at = 0
    for file in files:
        size = os.fstat(file).st_size - 128
        for begin in range(0, size, _PIECE):
            length = min(_PIECE, size - begin)
            pieces.append((file, flat[at + begin : at + begin + length], 128 + begin))
        at += size
    todo, lock = iter(pieces), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                piece = next(todo, None)
            if piece is None:
                return
            os.preadv(piece[0], [piece[1]], piece[2])

    other = threading.Thread(target=work)
    other.start()
    work()
    other.join()
    for file in files:
        os.close(file)


def write(folder: Path, shards: int, rows: int, columns: int) -> None:
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    for number in range(shards):
        # Files of different lengths, as simulations write them.
        values = np.full((rows + number % 3, columns), number, "float64")
        values[:, 0] = np.arange(len(values))
        np.save(draft / f"shard_{number:06d}.npy", values)
    draft.rename(folder)


_OTHERS = {"open_hdf5": opening_hdf5, "memory": memory}
