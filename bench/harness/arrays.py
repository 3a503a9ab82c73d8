"""The small arrays of the latency scenarios, written by zarr-python and cached under build/bench."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
from penstock.view.demo.benchmark_array import ABSENT, EncodedChunk

INDEX_ENTRY_BYTES = 16
CHECKSUM_BYTES = 4


def write(folder: Path, name: str, shape: list[int], chunks: list[int], shards: list[int] | None) -> Path:
    """A float32 arange with zstd level 0 chunks."""
    import zarr
    from zarr.codecs import ZstdCodec

    path = folder / f"{name}.zarr"
    shutil.rmtree(path, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    array = zarr.create_array(
        store=str(path),
        shape=tuple(shape),
        chunks=tuple(chunks),
        shards=tuple(shards) if shards else None,
        dtype="float32",
        compressors=ZstdCodec(level=0),
        fill_value=0,
    )
    array[...] = values(shape)
    return path


def values(shape: list[int]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype="float32").reshape(shape)


def as_dict(path: Path) -> dict[str, bytes]:
    """All objects of an array, as in a memory store."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def encoded_chunks(path: Path, chunk_bytes: int, chunks_per_shard: int | None) -> list[EncodedChunk]:
    """The locations of the chunks, in the order of the files and of the entries in them."""
    found = []
    files = sorted((path / "c").rglob("*"), key=lambda file: [int(part) for part in file.relative_to(path / "c").parts])
    for file in files:
        if file.is_dir():
            continue
        if chunks_per_shard is None:
            found.append(EncodedChunk(file, 0, file.stat().st_size, chunk_bytes))
            continue
        content = file.read_bytes()
        index = content[-INDEX_ENTRY_BYTES * chunks_per_shard - CHECKSUM_BYTES : -CHECKSUM_BYTES]
        found += [
            EncodedChunk(file, offset, length, chunk_bytes)
            for offset, length in struct.iter_unpack("<QQ", index)
            if offset != ABSENT
        ]
    return found
