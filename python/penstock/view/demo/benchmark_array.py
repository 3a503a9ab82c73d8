"""The array that the demo and the benchmark read: written by zarr-python, described without Penstock.

One dimension of float32; every shard holds `arange` over its own elements, in 400 zstd chunks (level 0) of 256,000
elements. Eight shards are 3.28 GB, 0.62 GB on disk.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock._core import bytes_text

SHARDS = 8
CHUNKS_PER_SHARD = 400
CHUNK_ELEMENTS = 256_000
ITEM_BYTES = 4
# The stored size with zarr-python's writer and this content; only used to check the space on disk.
ENCODED_FRACTION = 0.2
ABSENT = 2**64 - 1


@dataclass(frozen=True)
class EncodedChunk:
    """The location of one chunk: bytes [offset, offset + length) of a file decode to `decoded` bytes."""

    file: Path
    offset: int
    length: int
    decoded: int


@dataclass(frozen=True)
class BenchmarkArray:
    """The array under `folder`, which does not have to exist yet."""

    folder: Path
    shards: int = SHARDS
    chunks_per_shard: int = CHUNKS_PER_SHARD

    @property
    def path(self) -> Path:
        return self.folder / f"benchmark-{self.shards}x{self.chunks_per_shard}.zarr"

    @property
    def shard_elements(self) -> int:
        return self.chunks_per_shard * CHUNK_ELEMENTS

    @property
    def elements(self) -> int:
        return self.shards * self.shard_elements

    @property
    def nbytes(self) -> int:
        return self.elements * ITEM_BYTES

    def shard_file(self, shard: int) -> Path:
        return self.path / "c" / str(shard)

    def shard_values(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The values of every shard."""
        return np.arange(self.shard_elements, dtype="<f4")

    def is_written(self) -> bool:
        """Whether the complete array of `write` exists."""
        try:
            sizes = json.loads(self._receipt.read_text())
            return bool(sizes == self._sizes())
        except (OSError, ValueError):
            return False

    def write(self, progress: Callable[[int], None]) -> None:
        """Write the array with zarr-python, shard by shard; `progress` receives the number of written ones."""
        import zarr
        from zarr.codecs import ZstdCodec

        shutil.rmtree(self.path, ignore_errors=True)
        self._receipt.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        array = zarr.create_array(
            store=str(self.path),
            shape=(self.elements,),
            chunks=(CHUNK_ELEMENTS,),
            shards=(self.shard_elements,),
            dtype="float32",
            compressors=ZstdCodec(level=0),
            fill_value=0,
        )
        values = self.shard_values()
        for shard in range(self.shards):
            array[shard * self.shard_elements : (shard + 1) * self.shard_elements] = values
            progress(shard + 1)
        self._receipt.write_text(json.dumps(self._sizes()))

    def ensure(self, say: Callable[[str], None]) -> None:
        """Write the array unless it exists."""
        if self.is_written():
            say(f"Found {self.path} ({bytes_text(self.nbytes)})")
            return
        import zarr

        say(f"Writing {self.path} with zarr-python {zarr.__version__} ({bytes_text(self.nbytes)})")
        self.write(lambda done: say(f"  shard {done} of {self.shards}"))

    def matches(self, values: np.ndarray[Any, Any]) -> bool:
        """Whether `values` is the whole array, compared shard by shard so that no second copy is needed."""
        if values.shape != (self.elements,) or values.dtype != np.float32:
            return False
        expected = self.shard_values()
        rows = values.reshape(self.shards, self.shard_elements)
        return all(np.array_equal(row, expected) for row in rows)

    def encoded_chunks(self, shards: int | None = None) -> list[EncodedChunk]:
        """The location of every chunk, from the shard indexes (at the end of each file, then a checksum of 4 bytes)."""
        index_bytes = self.chunks_per_shard * 16
        found = []
        for shard in range(self.shards if shards is None else shards):
            path = self.shard_file(shard)
            with path.open("rb") as file:
                file.seek(-(index_bytes + 4), os.SEEK_END)
                entries = struct.iter_unpack("<QQ", file.read(index_bytes))
            found += [
                EncodedChunk(path, offset, length, CHUNK_ELEMENTS * ITEM_BYTES)
                for offset, length in entries
                if offset != ABSENT
            ]
        return found

    @property
    def _receipt(self) -> Path:
        return self.path.with_suffix(".written.json")

    def _sizes(self) -> dict[str, int]:
        files = [self.path / "zarr.json", *(self.shard_file(shard) for shard in range(self.shards))]
        return {str(file.relative_to(self.path)): file.stat().st_size for file in files}


def choose(folder: Path, scale: float = 1.0, copies: float = 4.6) -> tuple[BenchmarkArray, str]:
    """The largest benchmark array that fits on this machine, and why it is not the full one (or nothing).

    `copies` is how many times the decoded array will be in memory at once.
    """
    if scale < 1 / SHARDS:
        chunks = max(1, round(SHARDS * CHUNKS_PER_SHARD * scale))
        return BenchmarkArray(folder, 1, chunks), f"1 shard of {chunks} chunks, as asked"
    wanted = max(1, round(SHARDS * scale))
    full = BenchmarkArray(folder, 1)
    spare = 1 << 30
    memory, disk = available_memory(), available_disk(folder)
    by_memory = int((memory - spare) / (copies * full.nbytes))
    by_disk = int((disk - spare) / (ENCODED_FRACTION * full.nbytes))
    if BenchmarkArray(folder, wanted).is_written():
        by_disk = wanted
    shards = max(1, min(wanted, by_memory, by_disk))
    reason = ""
    if shards < wanted:
        short = f"{bytes_text(memory)} of memory" if by_memory <= by_disk else f"{bytes_text(disk)} of disk"
        reason = f"{shards} of {wanted} shards: this machine has {short} free"
    return BenchmarkArray(folder, shards), reason


def available_memory() -> int:
    """Bytes that this process may still use, by the limits of the machine and the control group."""
    with open("/proc/meminfo") as file:
        fields = dict(line.split(":", 1) for line in file)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())  # "max": unlimited
        used = int((group / "memory.current").read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return free
    # The page cache counts as used, but is released when needed.
    cached = int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
    return min(free, limit - used + cached)


def available_disk(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
