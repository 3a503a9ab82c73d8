"""Many HDF5 files as one group: 10^8 references from 10^4 headers, and the files read by one thread and by two."""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness.result import Bar, Result
from harness.setting import Setting

_HOLE = 4096
_ROWS = 10  # in each file


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    try:
        import h5py  # noqa: F401 - files are written by it
    except ImportError:
        result.left_out["h5py"] = "it is not installed"
        return result
    {"references": references, "threads": threads}[scenario["what"]](scenario, setting, result)
    return result


def references(scenario: dict, setting: Setting, result: Result) -> None:
    """Files that differ only in the values of their time; chunks are holes in the files."""
    files, chunks = scenario["files"], scenario["chunks"]
    folder = setting.folder / f"virtual_{files}_{chunks}"
    if not folder.exists():
        write_like(folder, files, chunks)
    manifest = folder.with_suffix(".manifest")
    found = in_process("references", str(folder), str(manifest), str(chunks))
    count = files * chunks
    row = result.add_row(f"{count:,} references")
    row.best_s = row.median_s = found["open_s"]
    result.notes.append(json.dumps(found))
    result.bars.append(Bar("opens the files in", found["open_s"], scenario["open_s"], at_least=False, unit="s"))
    result.bars.append(Bar("opens the manifest in", found["manifest_ms"], 50, at_least=False, unit="ms"))
    result.bars.append(Bar("looks a reference up in", found["lookup_us"], 5, at_least=False, unit="us"))
    result.bars.append(Bar("memory beyond the open", found["beyond_mib"], 64, at_least=False, unit="MiB"))


def threads(scenario: dict, setting: Setting, result: Result) -> None:
    """Files of different lengths with some variables, read by a process with one processor, and by one with two."""
    folder = setting.folder / f"virtual_differing_{scenario['files']}"
    if not folder.exists():
        write_differing(folder, scenario["files"])
    times: dict[str, list[float]] = {"one": [], "two": [], "h5py": []}
    for _ in range(scenario["turns"]):
        times["one"].append(in_process("open", str(folder), "1")["open_s"])
        times["two"].append(in_process("open", str(folder), "2")["open_s"])
        times["h5py"].append(in_process("h5py", str(folder))["open_s"])
    best = {name: min(each) for name, each in times.items()}
    for name, seconds in best.items():
        row = result.add_row(name)
        row.best_s, row.median_s = seconds, statistics.median(times[name])
    result.bars.append(Bar("two threads against one", best["one"] / best["two"], 1.8, at_least=True, unit="x"))
    result.bars.append(Bar("against a loop of h5py", best["h5py"] / best["two"], 10, at_least=True, unit="x"))


def in_process(*arguments: str) -> dict[str, float]:
    """The measurements of a separate process."""
    paths = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, __file__, *arguments]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    found: dict[str, float] = json.loads(made.stdout)
    return found


def measure_references(folder: str, manifest: str, chunks: str) -> dict[str, float]:
    import penstock as ps
    from penstock import _core

    ps.open_virtual(sorted(str(each) for each in Path(folder).glob("*.h5"))[:2], concat="time")  # fills caches
    before = most_kib()
    began, used = time.perf_counter(), time.process_time()
    group = ps.open_virtual(f"{folder}/*.h5", concat="time", context=ps.Context(threads=2))
    opened, cpu = time.perf_counter() - began, time.process_time() - used
    beyond = (most_kib() - before) / 1024
    cells = group["x"].shape[0] * (group["x"].shape[1] // 8)
    assert cells == group["x"].shape[0] // _ROWS * int(chunks)
    ps.save_manifest(group, manifest)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        array = ps.open(manifest)["x"]
        took.append(time.perf_counter() - began)
    rng = random.Random(1)
    places = [rng.randrange(cells) for _ in range(2000)]
    began = time.perf_counter()
    for cell in places:  # includes the cost of a call from Python
        _core.exported_rows(array, cell, cell + 1)
    lookup = (time.perf_counter() - began) / len(places)
    size = os.path.getsize(manifest)
    return {
        "open_s": opened,
        "cpu_s": cpu,
        "beyond_mib": beyond,
        "manifest_ms": min(took) * 1e3,
        "manifest_bytes": size,
        "lookup_us": lookup * 1e6,
    }


def most_kib() -> int:
    """The peak memory of this process. (`getrusage` also counts what its parent had when it began.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


def measure_open(folder: str, processors: str) -> dict[str, float]:
    import penstock as ps

    count = int(processors)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    paths = sorted(str(each) for each in Path(folder).glob("*.h5"))
    ps.open_virtual(paths[:2], concat="time")
    began, used = time.perf_counter(), time.process_time()
    group = ps.open_virtual(paths, concat="time", context=ps.Context(threads=count))
    found = {"open_s": time.perf_counter() - began, "cpu_s": time.process_time() - used}
    assert len(group["time"]) > len(paths)
    return found


def measure_h5py(folder: str) -> dict[str, float]:
    """A loop that collects what a joined group needs of each file: variables, shapes, attributes, chunks."""
    import h5py

    paths = sorted(Path(folder).glob("*.h5"))
    began = time.perf_counter()
    for path in paths:
        with h5py.File(path) as file:
            for name, each in file.items():
                _ = name, each.shape, each.dtype, each.chunks, each.fillvalue, dict(each.attrs)
                if each.chunks is not None:
                    places: list[Any] = []
                    each.id.chunk_iter(places.append)
            file["time"][...]
    return {"open_s": time.perf_counter() - began}


def write_like(folder: Path, files: int, chunks: int) -> None:
    """One file, and copies with other times: the zeros of the values are holes, so that 10^4 of them fit on a disk."""
    import h5py

    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    template = draft / "template"
    with h5py.File(template, "w", libver="latest") as file:
        x = file.create_dataset("x", (_ROWS, chunks // _ROWS * 8), "f4", chunks=(1, 8))
        for row in range(_ROWS):
            for column in range(0, x.shape[1], 8):
                x.id.write_direct_chunk((row, column), bytes(32))
        t = file.create_dataset("time", data=np.arange(_ROWS, dtype="i8"))
        t.make_scale("time")
        x.dims[0].attach_scale(t)
        file.flush()
        place = t.id.get_offset()
    whole = template.read_bytes()
    blocks = [at for at in range(0, len(whole), _HOLE) if any(whole[at : at + _HOLE])]
    for number in range(files):
        times = (np.arange(_ROWS, dtype="<i8") + number * _ROWS).tobytes()
        with open(draft / f"{number:06d}.h5", "wb") as stream:
            for at in blocks:
                stream.seek(at)
                stream.write(whole[at : at + _HOLE])
            stream.seek(place)
            stream.write(times)
            stream.truncate(len(whole))
    template.unlink()
    draft.rename(folder)


def write_differing(folder: Path, files: int) -> None:
    """Files with different lengths and stored bytes, as a model writes them: ten variables of compressed chunks."""
    import h5py

    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    rng = np.random.default_rng(1)
    begin = 0
    for number in range(files):
        rows = 3 + number % 3
        with h5py.File(draft / f"{number:06d}.h5", "w") as file:
            t = file.create_dataset("time", data=np.arange(begin, begin + rows, dtype="f8"))
            t.make_scale("time")
            t.attrs["units"] = "days since 2000-01-01"
            for variable in range(10):
                values = rng.integers(0, 1 << (variable + 1), (rows, 16, 16), "i4")
                made = file.create_dataset(f"v{variable}", data=values, chunks=(1, 8, 8), compression="gzip")
                made.dims[0].attach_scale(t)
                made.attrs["units"], made.attrs["long_name"] = "K", f"variable {variable}"
        begin += rows
    draft.rename(folder)


if __name__ == "__main__":
    kinds = {"references": measure_references, "open": measure_open, "h5py": measure_h5py}
    json.dump(kinds[sys.argv[1]](*sys.argv[2:]), sys.stdout)
