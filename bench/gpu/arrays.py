"""The arrays of the benchmark: Penstock writes them, so that nothing else needs to be installed.

The shards of an array are equal: decoding a shard does not depend on the content of another one, and the arrays are
made in a quarter of the time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps

BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
}


def keep_bits(values: np.ndarray, kept: int) -> np.ndarray:
    """float32 values rounded to `kept` bits of the mantissa, as archives of model output keep them."""
    dropped = np.uint32(23 - kept)
    half = np.uint32(1) << dropped >> np.uint32(1)
    bits = values.astype("f4").view("u4") + half
    return (bits >> dropped << dropped).view("f4")


def temperature(elements: int, noise: float) -> np.ndarray:
    """Temperatures in kelvin: 280, waves of two lengths, and noise with the given standard deviation."""
    at = np.arange(elements, dtype="f4")
    values = 280 + 15 * np.sin(at / 700) + 8 * np.sin(at / 90_000)
    values += np.float32(noise) * np.random.default_rng(5).standard_normal(elements, dtype="f4")
    return values.astype("f4")


def ramp(elements: int) -> np.ndarray:
    """The values of the published benchmark."""
    return np.arange(elements, dtype="f4")


def field(elements: int) -> np.ndarray:
    """A temperature with every bit of its noise, which compresses least."""
    return temperature(elements, 1)


def rounded(elements: int) -> np.ndarray:
    """A smooth temperature rounded to 13 bits of the mantissa."""
    return keep_bits(temperature(elements, 0.05), 13)


def ocean(elements: int) -> np.ndarray:
    """A field in 16 bits with scale and offset, half of which is land and missing."""
    at = np.arange(elements, dtype="f4")
    noise = np.random.default_rng(5).standard_normal(elements, dtype="f4")
    values = (8000 * np.sin(at / 700) + 4 * noise).astype("i2")
    return np.where(np.sin(at / 3000) > 0, values, np.int16(-32768))


def walk(elements: int) -> np.ndarray:
    """A random walk rounded to nine bits of the mantissa: a test of long runs, not of a field."""
    steps = np.random.default_rng(5).standard_normal(elements, dtype="f4")
    return keep_bits((280 + 0.05 * steps.cumsum(dtype="f8")).astype("f4"), 9)


@dataclass(frozen=True)
class Spec:
    """One array: `shards` of `chunks` of `chunk_elements`, each shard filled by `values(elements)`."""

    name: str
    title: str
    dtype: str
    codecs: Any
    values: Callable[[int], np.ndarray]
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
    def chunk_bytes(self) -> int:
        return self.chunk_elements * np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        return self.elements * np.dtype(self.dtype).itemsize

    def shard(self, number: int) -> slice:
        return slice(number * self.shard_elements, (number + 1) * self.shard_elements)

    def expected(self) -> np.ndarray:
        """The values that every shard has."""
        return _values(self.values, self.shard_elements)


@cache
def _values(values: Callable[[int], np.ndarray], elements: int) -> np.ndarray:
    return values(elements)


def specs(small: bool) -> dict[str, Spec]:
    """The benchmark array (3.28 GB in eight shards) and the others (1 GB each); `small`: a few hundred kilobytes."""

    def spec(name: str, title: str, dtype: str, codecs: Any, values: Any, benchmark: bool = False) -> Spec:
        if small:
            return Spec(name, title, dtype, codecs, values, 2, 4, 4096)
        chunk = 256_000 if benchmark else 1_024_000 // np.dtype(dtype).itemsize
        return Spec(name, title, dtype, codecs, values, 8 if benchmark else 4, 400 if benchmark else 250, chunk)

    all_ = [
        spec("benchmark", "the benchmark array, zstd", "<f4", ["zstd"], ramp, benchmark=True),
        spec("benchmark_raw", "the benchmark array, uncompressed", "<f4", [], ramp, benchmark=True),
        spec("field_zstd", "temperature, all bits, zstd", "<f4", ["zstd"], field),
        spec("field_blosc", "temperature, all bits, Blosc (zstd, shuffle)", "<f4", [BLOSC], field),
        spec("ocean_zstd", "packed int16 with missing values, zstd", "<i2", ["zstd"], ocean),
        spec("ocean_lz4", "packed int16 with missing values, LZ4", "<i2", ["numcodecs.lz4"], ocean),
        spec("rounded_zstd", "temperature of 13 bits, zstd", "<f4", ["zstd"], rounded),
        spec("rounded_lz4", "temperature of 13 bits, LZ4", "<f4", ["numcodecs.lz4"], rounded),
        spec("rounded_zlib", "temperature of 13 bits, Deflate", "<f4", ["numcodecs.zlib"], rounded),
        spec("walk_zstd", "run lengths (a walk of 9 bits), zstd", "<f4", ["zstd"], walk),
        spec("walk_blosc", "run lengths, Blosc (zstd, shuffle)", "<f4", [BLOSC], walk),
        spec("walk_lz4", "run lengths, LZ4", "<f4", ["numcodecs.lz4"], walk),
        spec("walk_zlib", "run lengths, Deflate", "<f4", ["numcodecs.zlib"], walk),
    ]
    return {each.name: each for each in all_}


def path_of(folder: Path, spec: Spec) -> Path:
    return folder / f"{spec.name}-{spec.shards}x{spec.chunks}x{spec.chunk_elements}.zarr"


def ensure(folder: Path, spec: Spec) -> Path:
    """The array's path; writes the array unless it is complete."""
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
    made[spec.shard(0)] = spec.expected()
    for number in range(1, spec.shards):
        shutil.copyfile(path / "c" / "0", path / "c" / str(number))
    receipt.write_text(json.dumps(sizes(path)))
    return path


def files(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file())


def sizes(path: Path) -> dict[str, int]:
    return {str(each.relative_to(path)): each.stat().st_size for each in files(path)}


def ratio(path: Path, spec: Spec) -> float:
    """Decoded bytes per stored byte, as measured."""
    return spec.nbytes / sum(sizes(path).values())


def inner_codecs(path: Path) -> list[Any]:
    """The codecs of a Zarr 3 array's chunks, with all their settings, as its metadata has them."""
    codecs = json.loads((path / "zarr.json").read_text())["codecs"]
    return codecs[0]["configuration"]["codecs"] if codecs[0]["name"] == "sharding_indexed" else codecs


def device_codecs(codecs: list[Any]) -> list[Any]:
    """The codecs that are steps of a device: all except "bytes", which changes nothing in little-endian arrays."""
    return [each for each in codecs if each["name"] != "bytes"]


def shard_chunks(path: Path, chunks: int) -> list[bytes]:
    """The encoded chunks of the first shard, in order. Source: Zarr 3, sharding codec; the index is at the end."""
    shard = (path / "c" / "0").read_bytes()
    index = np.frombuffer(shard[-(16 * chunks + 4) : -4], "<u8").reshape(-1, 2)
    return [shard[at : at + length] for at, length in index.tolist()]


def drop_page_cache(path: Path) -> None:
    """Ask the system to drop the array's pages. Needs no privileges; the effect depends on the file system."""
    for each in files(path):
        file = os.open(each, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
