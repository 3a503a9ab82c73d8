"""Rechunks maps, with a chunk for each time, to time series of small squares, in turns with others, within a memory
limit.

The ceiling is libzstd's own decoding of the source's chunks and encoding of the new ones, on all threads, and, where
the plan has a file, one pass of the values through a file. Reading and writing the whole array in memory is shown next
to it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import Samples, in_turns, once, paired
from penstock.view.demo.benchmark_array import EncodedChunk


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    source = made(setting.folder, scenario)
    chunks = tuple(scenario["chunks"])
    contestants: dict[str, Callable[[], float]] = {}
    values = ps.open_array(source)[...]
    for name, (needs, work) in WAYS.items():
        if missing := [module for module in needs if not importlib.util.find_spec(module)]:
            result.left_out[name] = f"not installed: {', '.join(missing)}"
            continue
        target = setting.folder / f"rechunked-{name.replace(' ', '-')}.zarr"
        try:
            again(target, work, source, chunks, scenario, setting)
        except Exception as why:
            if name == "penstock":
                raise
            result.left_out[name] = f"failed: {type(why).__name__}: {why}"[:200]
            continue
        if not np.array_equal(ps.open_array(target)[...], values):
            result.failed = f"{name} wrote other values"
        contestants[name] = once(
            lambda target=target, work=work: again(target, work, source, chunks, scenario, setting)
        )
    context = ps.Context(threads=setting.threads)
    whole = ps.open_array(source, context=context)
    target = setting.folder / "rechunked-whole.zarr"
    codecs = json.loads((source / "zarr.json").read_text())["codecs"]  # as the others keep them

    def in_memory() -> None:
        shutil.rmtree(target, ignore_errors=True)
        b = ps.create_array(target, shape=whole.shape, dtype=whole.dtype, chunks=chunks, codecs=codecs, context=context)
        b[...] = whole[...]

    contestants["whole"] = once(in_memory)
    in_memory()
    plan = ps.rechunk(source, setting.folder / "plan.zarr", chunks, memory=scenario["memory"], dry_run=True)
    decoded, encoded = whole.dtype.itemsize * np.prod(whole.chunks), whole.dtype.itemsize * np.prod(chunks)
    with (
        setting.ceiling(chunks_of(source, int(decoded))) as first,
        setting.ceiling(chunks_of(target, int(encoded))) as second,
    ):
        contestants["decode"] = lambda: first.measure("decode").seconds
        contestants["encode"] = lambda: second.measure("encode").seconds
        if plan.scratch_bytes:
            contestants["spill"] = once(lambda: spilling(values, setting))
        samples = in_turns(contestants, scenario["turns"])
    parts = [samples[name].seconds for name in ("decode", "encode", "spill") if name in samples]
    ceiling = Samples([sum(turn) for turn in zip(*parts, strict=True)])
    result.ceilings["decode, encode, spill"] = values.nbytes / ceiling.best
    result.ceilings["whole, in memory"] = values.nbytes / samples["whole"].best
    for name, taken in samples.items():
        if name not in ("whole", "decode", "encode", "spill"):
            row = result.add(name, taken, bytes_out=values.nbytes)
            row.fraction_of_ceiling = paired(taken, ceiling)
    ours = samples["penstock"]
    text = "penstock against libzstd's decoding and encoding, and the pass through a file, best runs"
    result.bars.append(Bar(text, ours.best / ceiling.best, scenario["at_most"], at_least=False, unit="x"))
    for name in ("decode", "encode", "spill", "whole"):
        if name in samples:
            result.notes.append(f"{name}: {samples[name].best:.2f} s")
    for name, least in scenario["at_least"].items():
        if name in samples:
            ratio = paired(ours, samples[name])
            result.bars.append(Bar(f"penstock against {name}", ratio, least, at_least=True, unit="x"))
    result.notes.append(f"{scenario['memory']} of memory for penstock: {plan}")
    return result


def chunks_of(path: Path, decoded: int) -> list[EncodedChunk]:
    """The chunks of an array without shards."""
    files = sorted(each for each in (path / "c").rglob("*") if each.is_file())
    return [EncodedChunk(each, 0, each.stat().st_size, decoded) for each in files]


def spilling(values: np.ndarray, setting: Setting) -> None:
    """Writes all values to a file and reads them back, on all threads, in blocks of 1 MiB."""
    path, block = setting.folder / "spilled", 1 << 20
    flat = values.reshape(-1).view("u1")
    with path.open("w+b", buffering=0) as file:

        def write(begin: int) -> None:
            os.pwrite(file.fileno(), flat[begin : begin + block], begin)

        def read(begin: int) -> None:
            into = memoryview(bytearray(min(block, flat.size - begin)))
            os.preadv(file.fileno(), [into], begin)

        with ThreadPoolExecutor(setting.threads) as pool:
            list(pool.map(write, range(0, flat.size, block)))
            list(pool.map(read, range(0, flat.size, block)))
    path.unlink()


def again(target: Path, work: Callable, source: Path, chunks: tuple, scenario: dict, setting: Setting) -> None:
    shutil.rmtree(target, ignore_errors=True)
    work(source, target, chunks, scenario["memory"], setting.threads)


def made(folder: Path, scenario: dict) -> Path:
    """Smooth fields with noise, rounded to 13 bits, as zarr-python writes them."""
    import zarr

    times, rows, columns = scenario["shape"]
    path = folder / f"maps_{times}x{rows}x{columns}.zarr"
    if path.exists() and zarr.open_array(str(path)).attrs.get("whole"):
        return path
    shutil.rmtree(path, ignore_errors=True)
    chunks = (1, rows, columns)
    array = zarr.create_array(str(path), shape=(times, rows, columns), chunks=chunks, dtype="f4")
    draw = np.random.default_rng(1)
    waves = 280 + 10 * np.sin(np.arange(rows)[:, None] / 40) * np.cos(np.arange(columns)[None, :] / 60)
    for begin in range(0, times, 100):
        noise = draw.standard_normal((min(100, times - begin), rows, columns), dtype=np.float32)
        bits = (waves.astype(np.float32) + noise).view(np.uint32)
        array[begin : begin + 100] = (bits & np.uint32(0xFFFFFC00)).view(np.float32)
    array.attrs["whole"] = True
    return path


def penstock(source: Path, target: Path, chunks: tuple, memory: str, threads: int) -> None:
    ps.rechunk(source, target, chunks, memory=memory, context=ps.Context(threads=threads))


def by_hand(source: Path, target: Path, chunks: tuple, memory: str, threads: int) -> None:
    """Slabs of all times that are whole chunks of the new array and fit in the memory."""
    import zarr
    from penstock.core.sizes import parse_bytes

    a = zarr.open_array(str(source), mode="r")
    b = zarr.create_array(str(target), shape=a.shape, chunks=chunks, dtype=a.dtype)
    row_bytes = a.nbytes // a.shape[1]
    rows = max(1, parse_bytes(memory, "memory") // row_bytes // chunks[1]) * chunks[1]
    for begin in range(0, a.shape[1], rows):
        b[:, begin : begin + rows] = a[:, begin : begin + rows]


def tensorstore(source: Path, target: Path, chunks: tuple, memory: str, threads: int) -> None:
    import tensorstore as ts

    limits = {"cache_pool": {"total_bytes_limit": 0}, "data_copy_concurrency": {"limit": threads}}
    context = ts.Context(limits)
    kvstore = {"driver": "file", "path": str(source)}
    a = ts.open({"driver": "zarr3", "kvstore": kvstore}, context=context, read=True).result()
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 3}}]
    grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(target)},
        "metadata": {"shape": list(a.shape), "chunk_grid": grid, "data_type": "float32", "codecs": codecs},
    }
    b = ts.open(spec, context=context, create=True).result()
    from penstock.core.sizes import parse_bytes

    rows = max(1, parse_bytes(memory, "memory") // (4 * a.size // a.shape[1]) // chunks[1]) * chunks[1]
    for begin in range(0, a.shape[1], rows):
        end = min(begin + rows, a.shape[1])
        b[:, begin:end].write(a[:, begin:end].read().result()).result()


def rechunker(source: Path, target: Path, chunks: tuple, memory: str, threads: int) -> None:
    import dask
    import zarr
    from rechunker import rechunk

    a = zarr.open_array(str(source), mode="r")
    scratch = target.with_suffix(".scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    with dask.config.set(scheduler="threads", num_workers=threads):
        rechunk(a, chunks, memory, str(target), temp_store=str(scratch)).execute()
    shutil.rmtree(scratch, ignore_errors=True)


def cubed(source: Path, target: Path, chunks: tuple, memory: str, threads: int) -> None:
    import cubed as library
    from cubed.runtime.create import create_executor
    from penstock.core.sizes import parse_bytes

    work = target.with_suffix(".scratch")
    shutil.rmtree(work, ignore_errors=True)
    executor = create_executor("threads", {"max_workers": threads})
    spec = library.Spec(str(work), allowed_mem=parse_bytes(memory, "memory"), executor=executor)
    a = library.from_zarr(str(source), spec=spec)
    library.to_zarr(a.rechunk(chunks), str(target), executor=executor)
    shutil.rmtree(work, ignore_errors=True)


WAYS: dict[str, tuple[tuple[str, ...], Callable]] = {
    "penstock": (("penstock",), penstock),
    "zarr-python by hand": (("zarr",), by_hand),
    "tensorstore by hand": (("tensorstore",), tensorstore),
    "rechunker": (("rechunker", "dask", "zarr"), rechunker),
    "cubed": (("cubed",), cubed),
}
