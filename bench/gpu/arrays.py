"""The arrays that are read: made by Penstock itself, so that nothing else need be installed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps

BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
}


def of_items(codec: dict[str, Any], item_bytes: int) -> dict[str, Any]:
    return {**codec, "configuration": {**codec["configuration"], "typesize": item_bytes}}


def ramp(shard: int, elements: int) -> np.ndarray:
    """What the published benchmark holds: every shard the same."""
    return np.arange(elements, dtype="f4")


def walk(shard: int, elements: int) -> np.ndarray:
    """A random walk of which nine bits of the mantissa are kept, as compressed model output has."""
    steps = np.random.default_rng(shard).standard_normal(elements, dtype="f4")
    bits = (280 + 0.05 * steps.cumsum(dtype="f8")).astype("f4").view("u4")
    return ((bits + (1 << 13)) & np.uint32(0xFFFFFFFF << 14 & 0xFFFFFFFF)).view("f4")


def packed(shard: int, elements: int) -> np.ndarray:
    """A field in 16 bits with scale and offset: waves and a little noise."""
    at = np.arange(elements, dtype="f4")
    noise = np.random.default_rng(shard).standard_normal(elements, dtype="f4")
    return (8000 * np.sin(at / 700) + 4000 * np.sin(at / 90_000 + shard) + 4 * noise).astype("i2")


@dataclass(frozen=True)
class Spec:
    """One array: `shards` of `chunks` of `chunk_elements`, filled by `values(shard, elements)`."""

    name: str
    title: str
    dtype: str
    codecs: Any
    values: Callable[[int, int], np.ndarray]
    shards: int
    chunks: int
    chunk_elements: int

    @property
    def shard_elements(self) -> int:
        return self.chunks * self.chunk_elements

    @property
    def elements(self) -> int:
        return self.shards * self.shard_elements

    @property
    def nbytes(self) -> int:
        return self.elements * np.dtype(self.dtype).itemsize

    def shard(self, number: int) -> slice:
        return slice(number * self.shard_elements, (number + 1) * self.shard_elements)

    def expected(self, number: int) -> np.ndarray:
        return self.values(number, self.shard_elements)


def specs(small: bool) -> dict[str, Spec]:
    """The benchmark array (3.28 GB in eight shards) and the others (1 GB each); `small`: some hundred kilobytes."""

    def spec(name: str, title: str, dtype: str, codecs: Any, values: Any, benchmark: bool = False) -> Spec:
        if small:
            return Spec(name, title, dtype, codecs, values, 2, 4, 4096)
        chunk = 256_000 if benchmark else 1_024_000 // np.dtype(dtype).itemsize
        return Spec(name, title, dtype, codecs, values, 8 if benchmark else 4, 400 if benchmark else 250, chunk)

    all_ = [
        spec("benchmark", "the benchmark array, zstd", "<f4", ["zstd"], ramp, benchmark=True),
        spec("benchmark_raw", "the benchmark array, uncompressed", "<f4", [], ramp, benchmark=True),
        spec("walk_zstd", "random walk of few bits, zstd", "<f4", ["zstd"], walk),
        spec("walk_blosc", "random walk of few bits, Blosc (zstd, shuffle)", "<f4", [of_items(BLOSC, 4)], walk),
        spec("packed_zstd", "packed int16, zstd", "<i2", ["zstd"], packed),
        spec("packed_blosc", "packed int16, Blosc (zstd, shuffle)", "<i2", [of_items(BLOSC, 2)], packed),
        spec("walk_lz4", "random walk of few bits, LZ4", "<f4", ["numcodecs.lz4"], walk),
        spec("walk_zlib", "random walk of few bits, Deflate", "<f4", ["numcodecs.zlib"], walk),
    ]
    return {each.name: each for each in all_}


def path_of(folder: Path, spec: Spec) -> Path:
    return folder / f"{spec.name}-{spec.shards}x{spec.chunks}x{spec.chunk_elements}.zarr"


def ensure(folder: Path, spec: Spec) -> Path:
    """The array's path; writes it unless it is there, whole."""
    path = path_of(folder, spec)
    receipt = path.with_suffix(".json")
    if receipt.exists() and json.loads(receipt.read_text()) == sizes(path):
        return path
    shutil.rmtree(path, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    made = ps.create_array(
        str(path),
        shape=(spec.elements,),
        dtype=spec.dtype,
        chunks=(spec.chunk_elements,),
        shards=(spec.shard_elements,),
        codecs=spec.codecs,
        fill_value=-1,
    )
    for number in range(spec.shards):
        if number and spec.values is ramp:
            shutil.copyfile(path / "c" / "0", path / "c" / str(number))
        else:
            made[spec.shard(number)] = spec.expected(number)
    receipt.write_text(json.dumps(sizes(path)))
    return path


def files(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file())


def sizes(path: Path) -> dict[str, int]:
    return {str(each.relative_to(path)): each.stat().st_size for each in files(path)}


def drop_page_cache(path: Path) -> None:
    """Asks the system to forget the array's pages. Needs no rights; whether it does is the file system's affair."""
    for each in files(path):
        file = os.open(each, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
