"""The three implementations of the GPU-Zarr study: zarr-python on NumPy, zarr-python on CuPy, and Penstock.

Each reads every shard, and computes on every shard if `compute` is given. Each returns seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps

from bench.gpu.arrays import Spec
from bench.gpu.compute import DOTS


class Unavailable(Exception):
    """The implementation does not run here, for the reason in the text."""


def zarr_numpy(path: Path, spec: Spec, threads: int, compute: bool) -> Callable[[], float]:
    """zarr-python's own pipeline, with a thread per shard and dot products by NumPy."""
    try:
        import zarr
    except ImportError as error:
        raise Unavailable(f"zarr-python is not installed: {error}") from None
    array = zarr.open_array(str(path), mode="r")

    def one(number: int) -> None:
        values = np.asarray(array[spec.shard(number)])
        for _ in range(DOTS if compute else 0):
            np.dot(values, values)

    def run() -> float:
        begin = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(one, range(spec.shards)))
        return time.perf_counter() - begin

    return run


def zarr_cupy(path: Path, spec: Spec, compute: bool) -> Callable[[], float]:
    """zarr-python with `zarr.config.enable_gpu()`: decoded on the host, then copied."""
    try:
        import cupy
        import zarr

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise Unavailable(f"zarr-python and CuPy with a device: {error}") from None

    def run() -> float:
        with zarr.config.enable_gpu():
            array = zarr.open_array(str(path), mode="r")
            begin = time.perf_counter()
            for number in range(spec.shards):
                values = array[spec.shard(number)]
                for _ in range(DOTS if compute else 0):
                    values.dot(values)
            cupy.cuda.Device().synchronize()
            return time.perf_counter() - begin

    return run


def penstock_read(array: ps.Array) -> Callable[[], float]:
    """One read of everything."""

    def run() -> float:
        begin = time.perf_counter()
        array.read(device="cuda").synchronize()
        return time.perf_counter() - begin

    return run


def nvtiff(path: Path, wanted: np.ndarray, synchronize: Callable[[], None]) -> Callable[[], float]:
    """nvTIFF through nvImageCodec's Python interface: from the file to pixels in device memory, by the GPU alone."""
    try:
        from nvidia import nvimgcodec as codec

        decoder = codec.Decoder(backends=[codec.Backend(codec.BackendKind.GPU_ONLY)])
        as_stored = codec.DecodeParams(
            apply_exif_orientation=False,
            color_spec=codec.ColorSpec.UNCHANGED,
            allow_any_depth=True,
            sample_format=codec.SampleFormat.I_UNCHANGED,
        )
        image = decoder.read(str(path), params=as_stored)
        seen = None if image is None else np.asarray(image.cpu())
    except Exception as error:
        raise Unavailable(str(error).splitlines()[0] if str(error) else type(error).__name__) from None
    if seen is None:
        raise Unavailable(f"it does not decode {path.name}")
    if not np.array_equal(seen.reshape(wanted.shape), wanted):
        raise Unavailable(f"it gives other pixels of {path.name}")

    def run() -> float:
        begin = time.perf_counter()
        decoder.read(str(path), params=as_stored)
        synchronize()
        return time.perf_counter() - begin

    return run


def penstock_by_shard(array: ps.Array, spec: Spec) -> tuple[float, float]:
    """A read per shard, all started before waiting for the first: seconds in total, and the caller's own per shard."""
    begin = time.perf_counter()
    tensors = [array.read(np.s_[spec.shard(number)], device="cuda") for number in range(spec.shards)]
    asked = time.perf_counter() - begin
    for each in tensors:
        each.synchronize()
    return time.perf_counter() - begin, asked / spec.shards


def penstock_stream(array: ps.Array, compute: Any) -> Callable[[], float]:
    """Shards streamed two ahead, with the computation in their memory."""

    def run() -> float:
        begin = time.perf_counter()
        with ps.stream(array, tile="shard", device="cuda", depth=2) as tiles:
            for tile in tiles:
                if compute is None:
                    continue
                compute.queue(tile.data, tile.stream)
        if compute is not None:
            compute.finish()
        return time.perf_counter() - begin

    return run
