"""One shuffled epoch of rows, from arrays with increasing numbers of samples per chunk, in turns with other libraries.

The arrays are files, or, with `latency_ms`, at a server that answers after that time. The ceiling is Penstock's read of
the whole array in order: a loader's additional time is the copy into batches and the order.

Each loader also makes an epoch in processes of its own, which report its peak memory (with the batches that it returns)
and the time of its first batch, from the request of the epoch on. The memory of worker processes (PyTorch) is not
counted.
"""

from __future__ import annotations

import importlib.util
import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
from harness.range_server import serving
from harness.result import Bar, Result, duration
from harness.setting import Setting
from harness.timing import Samples, in_turns, once, paired

from kinds.memory import probe


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    worst: dict[str, float] = {}
    most: dict[tuple[str, str], float] = {}  # the highest ratio of Penstock's number to that of the other loader
    for per_chunk in scenario["samples_per_chunk"]:
        path = made(setting.folder, per_chunk, scenario)
        with reached(path, scenario) as where:
            samples = measure(where, per_chunk, scenario, setting, result)
            loaders = [name for name in samples if name != "whole"]
            alone = {name: in_processes(name, where, per_chunk, scenario, setting) for name in loaders}
        values = scenario["samples"] * sample_bytes(scenario)
        whole = samples.pop("whole")
        result.ceilings[f"whole, {per_chunk} a chunk"] = values / whole.best
        for name, taken in samples.items():
            row = result.add(f"{name}, {per_chunk} a chunk", taken, bytes_out=values)
            row.fraction_of_ceiling = paired(taken, whole)
            if "error" in alone[name]:
                why = f"{name}, {per_chunk} a chunk, in a process of its own: {alone[name]['error']}"
                result.notes.append(why)
                if name == "penstock":
                    result.failed = why
                continue
            row.peak_bytes = alone[name]["peak_bytes"]
            row.note = f"first batch after {duration(alone[name]['first_s'])}"
            for number in COMPARED.get(name, ()) if "error" not in alone["penstock"] else ():
                ratio = alone["penstock"][number] / max(alone[name][number], 1e-9)
                most[name, number] = max(most.get((name, number), 0.0), ratio)
        ours = samples["penstock"]
        for name, taken in samples.items():
            if name != "penstock":
                ratio = paired(ours, taken)
                result.notes.append(f"{per_chunk} a chunk: penstock takes 1/{ratio:.2f} of the time of {name}")
                worst[name] = min(worst.get(name, ratio), ratio)
    for (name, number), ratio in most.items():
        text = f"{NUMBERS[number]} of penstock against {name}, the worst number of samples a chunk"
        result.bars.append(Bar(text, ratio, 1.0, at_least=False, unit="x"))
    for name, ratio in worst.items():
        text = f"penstock against {name}, the worst number of samples a chunk"
        result.bars.append(Bar(text, ratio, scenario["at_least"], at_least=True, unit="x"))
    return result


def in_processes(name: str, where: str, per_chunk: int, scenario: dict, setting: Setting) -> dict:
    """The highest memory and the earliest first batch of as many processes as there are turns; or an error."""
    found: dict = {}
    for _ in range(scenario["turns"]):
        arguments = (name, where, str(per_chunk), json.dumps(scenario), str(setting.threads))
        one = probe("loader", *arguments, timeout=scenario.get("timeout_s", 600))
        if "error" in one:
            return one
        if one["samples"] != scenario["samples"]:
            return {"error": f"{one['samples']} samples of {scenario['samples']}"}
        found["peak_bytes"] = max(one["peak_bytes"], found.get("peak_bytes", 0))
        found["first_s"] = min(one["first_s"], found.get("first_s", one["first_s"]))
    return found


def sample_bytes(scenario: dict) -> int:
    return int(np.prod(scenario["sample"])) * 4


def made(folder: Path, per_chunk: int, scenario: dict) -> Path:
    """A group with one variable: smooth values with noise, rounded to 13 bits, as zarr-python writes it."""
    import zarr

    rows, columns = scenario["sample"]
    path = folder / f"loader_{scenario['samples']}x{rows}x{columns}_{per_chunk}.zarr"
    if path.exists() and zarr.open_group(str(path)).attrs.get("whole"):
        return path
    group = zarr.open_group(str(path), mode="w")
    chunks = (per_chunk, rows, columns)
    shape = (scenario["samples"], rows, columns)
    array = group.create_array("t2m", shape=shape, chunks=chunks, dtype="f4", dimension_names=("time", "y", "x"))
    draw = np.random.default_rng(1)
    waves = 280 + 10 * np.sin(np.arange(rows)[:, None] / 40) * np.cos(np.arange(columns)[None, :] / 60)
    for begin in range(0, scenario["samples"], 32):
        noise = draw.standard_normal((min(32, scenario["samples"] - begin), rows, columns), dtype=np.float32)
        bits = (waves.astype(np.float32) + noise).view(np.uint32)
        array[begin : begin + 32] = (bits & np.uint32(0xFFFFFC00)).view(np.float32)
    group.attrs["whole"] = True
    return path


@contextmanager
def reached(path: Path, scenario: dict) -> Iterator[str]:
    """The group's path, or its URL."""
    if "latency_ms" not in scenario:
        yield str(path.resolve())
        return
    with serving(path.parent, scenario["latency_ms"] / 1e3) as root:
        yield f"{root}/{path.name}"


def measure(where: str, per_chunk: int, scenario: dict, setting: Setting, result: Result) -> dict[str, Samples]:
    contestants: dict[str, Callable[[], float]] = {}
    for name in scenario.get("loaders", LOADERS):
        needs, begin = LOADERS[name]
        if missing := [module for module in needs if not importlib.util.find_spec(module)]:
            result.left_out[name] = f"not installed: {', '.join(missing)}"
            continue
        epoch = begin(where, per_chunk, scenario, setting.threads)
        seen = sorted(float(x) for batch in epoch(0) for x in np.asarray(batch)[:, 0, 0])
        expected = sorted(ps.open_array(f"{where}/t2m")[:, 0, 0].tolist())
        if seen != expected:
            result.failed = f"{name} gave other samples, with {per_chunk} a chunk"
        contestants[name] = once(lambda epoch=epoch: consume(epoch(1)))
    whole = ps.open_array(f"{where}/t2m", context=ps.Context(threads=setting.threads))
    contestants["whole"] = once(lambda: whole[...])
    return in_turns(contestants, scenario["turns"])


def consume(batches: Any) -> int:
    return sum(len(np.asarray(batch)) for batch in batches)


def window_bytes(per_chunk: int, scenario: dict) -> int:
    """Two of insitubatch's blocks: it reads one while another is used. It makes a block as large as a batch."""
    chunks = max(scenario["block_chunks"], -(-scenario["batch"] // per_chunk))
    return 2 * chunks * per_chunk * sample_bytes(scenario)


def penstock(where: str, per_chunk: int, scenario: dict, threads: int) -> Callable[[int], Any]:
    array = ps.open_array(f"{where}/t2m", context=ps.Context(threads=threads))
    window = window_bytes(per_chunk, scenario)

    def epoch(number: int) -> Any:
        loader = ps.loader(array, batch_size=scenario["batch"], window=window)  # a new loader: nothing is decoded yet
        loader.set_epoch(number)
        return loader

    return epoch


def insitubatch(where: str, per_chunk: int, scenario: dict, threads: int) -> Callable[[int], Any]:
    from insitubatch import open_geometries, split_by_chunk
    from insitubatch.source import InSituDataset
    from insitubatch.store import obstore_store

    if where.startswith("http:"):
        store = obstore_store(where, client_options={"allow_http": True})
    else:
        store = obstore_store(f"file://{where}")
    geometry = open_geometries(store, ["t2m"])["t2m"]
    split = split_by_chunk(geometry, fractions=(1.0, 0.0, 0.0))

    def epoch(number: int) -> Any:
        of = InSituDataset(
            store, split, {"t2m": geometry}, batch_size=scenario["batch"], block_chunks=scenario["block_chunks"]
        )
        of.set_epoch(number)
        return (batch.arrays["t2m"] for batch in of.train)

    return epoch


def shuffled(samples: int, number: int) -> np.ndarray:
    return np.random.default_rng(number).permutation(samples)


def xbatcher(where: str, per_chunk: int, scenario: dict, threads: int) -> Callable[[int], Any]:
    """One patch for each sample, in random order: the order of batches is left to the caller."""
    import xarray
    from xbatcher import BatchGenerator

    rows, columns = scenario["sample"]
    dataset = xarray.open_zarr(where, chunks=None, consolidated=False)
    patches = BatchGenerator(dataset, input_dims={"time": 1, "y": rows, "x": columns}, preload_batch=False)

    def epoch(number: int) -> Any:
        order = shuffled(scenario["samples"], number)
        for begin in range(0, len(order), scenario["batch"]):
            yield np.concatenate([patches[int(i)]["t2m"].values for i in order[begin : begin + scenario["batch"]]])

    return epoch


class Rows:
    """A map-style data set of PyTorch: one sample for each index."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.array: Any = None

    def __len__(self) -> int:
        import zarr

        return int(zarr.open_array(f"{self.where}/t2m", mode="r").shape[0])

    def __getitem__(self, index: int) -> np.ndarray:
        import zarr

        if self.array is None:  # in the worker that reads
            self.array = zarr.open_array(f"{self.where}/t2m", mode="r")
        return np.asarray(self.array[int(index)])


def threads_over_zarr(where: str, per_chunk: int, scenario: dict, threads: int) -> Callable[[int], Any]:
    """The work of a DataLoader, without PyTorch: workers read single samples, two batches ahead."""
    rows = Rows(where)
    _ = rows[0]

    def epoch(number: int) -> Any:
        order = shuffled(len(rows), number)
        parts = [order[begin : begin + scenario["batch"]] for begin in range(0, len(order), scenario["batch"])]
        with ThreadPoolExecutor(threads) as pool:
            ahead: deque[list[Future[np.ndarray]]] = deque()
            for part in parts:
                ahead.append([pool.submit(rows.__getitem__, index) for index in part])
                if len(ahead) > 2:
                    yield np.stack([each.result() for each in ahead.popleft()])
            while ahead:
                yield np.stack([each.result() for each in ahead.popleft()])

    return epoch


def torch(where: str, per_chunk: int, scenario: dict, threads: int) -> Callable[[int], Any]:
    from torch import Generator
    from torch.utils.data import DataLoader

    def epoch(number: int) -> Any:
        draw = Generator().manual_seed(number)
        return DataLoader(Rows(where), scenario["batch"], shuffle=True, num_workers=threads, generator=draw)

    return epoch


NUMBERS = {"peak_bytes": "memory", "first_s": "first batch"}
COMPARED = {"insitubatch": tuple(NUMBERS)}  # the goal: no more memory, first batch no later
LOADERS: dict[str, tuple[tuple[str, ...], Callable[[str, int, dict, int], Callable[[int], Any]]]] = {
    "penstock": (("penstock",), penstock),
    "insitubatch": (("insitubatch", "obstore"), insitubatch),
    "xbatcher": (("xbatcher", "xarray", "zarr"), xbatcher),
    "threads over zarr-python": (("zarr",), threads_over_zarr),
    "torch DataLoader over zarr-python": (("torch", "zarr"), torch),
}
