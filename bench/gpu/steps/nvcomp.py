"""Our decoders against nvCOMP's on the same resident bytes, and the three implementations of the GPU-Zarr study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from penstock import _core

from bench.gpu import arrays, compute, implementations, measure
from bench.gpu.decoders import Wave
from bench.gpu.results import LeftOutError, say
from bench.gpu.run import GB, Row, Run

TURNS = 20
BARS = ("benchmark", "rounded_zstd", "rounded_lz4", "rounded_zlib")  # Penstock should be as fast as nvCOMP on these


def rows(run: Run) -> Iterator[Row]:
    """Rows with bars come first, because writing the other arrays may take the rest of the step's time."""
    for name, spec in sorted(run.specs.items(), key=lambda each: each[0] not in BARS):
        if not spec.codecs:
            continue
        if name == "benchmark":
            yield f"{name}, one shard", partial(decode, run, name, 1)
        yield name, partial(decode, run, name, spec.shards)
    if "benchmark" in run.specs:
        for title, implementation in (
            ("zarr-python, NumPy", zarr_numpy),
            ("zarr-python, CuPy", zarr_cupy),
            ("Penstock", penstock),
        ):
            yield f"study, {title}", partial(implementation, run)


def decode(run: Run, name: str, shards: int) -> None:
    """A wave of all chunks of `shards` shards, launched 20 times; the same by nvCOMP. Timed by device events."""
    spec = run.specs[name]
    path = arrays.ensure(run.folder, spec)
    codecs = arrays.device_codecs(arrays.inner_codecs(path))
    chunks = arrays.shard_chunks(path, spec.chunks) * shards
    taken = {}
    # Our numbers are saved before nvCOMP is loaded.
    for decoder in ("penstock", "nvcomp"):
        if decoder == "nvcomp" and not run.nvcomp():
            raise LeftOutError(f"nvCOMP: {run.without_nvcomp}")
        wave = Wave(codecs, chunks, spec.chunk_bytes, decoder == "nvcomp")
        kernels = wave.best(2 if run.small else TURNS)
        wave.check(spec.expected())
        taken[decoder] = max(sum(kernels.values()) / 1e3, 1e-9)  # the fake driver's clock may not advance
        run.results.measured(decoder, wave.nbytes / taken[decoder] / GB, "GB/s", kernels_ms=kernels, chunks=len(chunks))
        model = run.results.predicted_kernels(name) if shards == spec.shards else {}
        shown = {kernel: "model {:g} to {:g}".format(*model[kernel]) if kernel in model else "" for kernel in kernels}
        if model and decoder == "penstock":
            run.results.write("found", predicted_kernels_ms=model)
        say("    " + ", ".join(f"{kernel} {ms:.3f} ms {shown[kernel]}".rstrip() for kernel, ms in kernels.items()))
        del wave  # frees its memory before the next one allocates
    ratio = taken["nvcomp"] / taken["penstock"]
    run.results.measured("of nvCOMP", ratio, "x", bar=1 if name in BARS else None)


def peer(run: Run, name: str, make: Callable[[bool], Callable[[], float]], library: str) -> dict[bool, float]:
    """One implementation without the dot products (False) and with them (True): seconds, written as numbers."""
    spec, best = run.specs["benchmark"], {}
    for dots in (False, True):
        try:
            seconds = measure.best_of(run.turns if name == "penstock" else 1, make(dots))["best_s"]
        except implementations.Unavailable as why:
            raise LeftOutError(str(why)) from None
        what = f"{compute.DOTS} dot products by {library}" if dots else "load"
        run.results.measured(what, spec.nbytes / seconds / GB, "GB/s", seconds=seconds)
        best[dots] = seconds
    return best


def zarr_numpy(run: Run) -> None:
    spec = run.specs["benchmark"]
    path = arrays.ensure(run.folder, spec)
    peer(run, "zarr", lambda dots: implementations.zarr_numpy(path, spec, run.options.threads, dots), "NumPy")


def zarr_cupy(run: Run) -> None:
    spec = run.specs["benchmark"]
    path = arrays.ensure(run.folder, spec)
    peer(run, "zarr", lambda dots: implementations.zarr_cupy(path, spec, dots), "CuPy")


def penstock(run: Run) -> None:
    """Shards as a stream, with the dot products on the tile's stream: how much of them overlaps with the reads."""
    spec = run.specs["benchmark"]
    library, missing = compute.choose(run.driver.simulated)
    for each in missing:
        run.results.left_out(each)
    array, _ = run.open("benchmark")
    best = peer(
        run,
        "penstock",
        lambda dots: implementations.penstock_stream(array, library if dots else None),
        library.name,
    )
    asked = min(implementations.penstock_by_shard(array, spec)[1] for _ in range(run.turns + 1))
    run.results.measured("caller's own time a shard", asked * 1e6, "µs", published=[60, 2400])
    alone = compute_alone(array, spec, library)
    run.results.write("found", compute=library.name, compute_alone_s=alone)
    allowed = 1.1 * (max(best[False], alone) + min(best[False], alone) / spec.shards)
    run.results.measured(
        "load and compute overlap, of the time allowed",
        best[True] / allowed,
        "x",
        bar=None if library.name == compute.Host.name else 1,
        at_least=False,
    )


def compute_alone(array: Any, spec: arrays.Spec, library: Any) -> float:
    """Seconds of the dot products of all shards, with the values in device memory."""
    tensor = array.read(np.s_[spec.shard(0)], device="cuda").synchronize()
    stream = _core._DeviceStream(0)

    def work() -> None:
        for _ in range(spec.shards):
            library.queue(tensor, stream.handle)
        library.finish()

    return measure.best_of(1, lambda: measure.timed(work))["best_s"]
