"""The device reads Zarr arrays of many codecs as the host does; against the fake driver, not on a GPU.

These run in a separate process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, cuda, fake_cuda_library

__all__ = ["cuda", "fake_cuda_library"]

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
SHAPE, CHUNKS, SHARDS = (23, 17, 11), (5, 4, 6), (10, 8, 6)
SELECTIONS = [np.s_[...], np.s_[3:20, ::3, 5], np.s_[22::-4, 1:16, -1::-2]]
MORE_SELECTIONS = [np.s_[7, 16, :], np.s_[5:5]]


def blosc(cname: str, shuffle: str, size: int) -> dict[str, Any]:
    return {
        "name": "blosc",
        "configuration": {"cname": cname, "clevel": 5, "shuffle": shuffle, "typesize": size, "blocksize": 0},
    }


def chains(dtype: np.dtype[Any]) -> dict[str, list[Any]]:
    size = dtype.itemsize
    found: dict[str, list[Any]] = {
        "none": [BYTES],
        "zstd big": [BIG, {"name": "zstd", "configuration": {"level": 3, "checksum": True}}],
        "gzip shuffle crc32c": [
            BYTES,
            {"name": "numcodecs.shuffle", "configuration": {"elementsize": size}},
            {"name": "gzip", "configuration": {"level": 5}},
            {"name": "crc32c"},
        ],
        "transpose lz4": [
            {"name": "transpose", "configuration": {"order": [2, 0, 1]}},
            BYTES,
            {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}},
        ],
        "blosc lz4": [BYTES, blosc("lz4", "shuffle", size)],
        "blosc zstd": [BIG, blosc("zstd", "bitshuffle", size)],
        "bz2 on the host": [
            BYTES,
            {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
            {"name": "numcodecs.bz2", "configuration": {"level": 1}},
        ],
        "all on the host": [BYTES, {"name": "numcodecs.lzma", "configuration": {}}],
    }
    if dtype.kind in "iu":
        found["delta"] = [
            {"name": "numcodecs.delta", "configuration": {"dtype": dtype.str}},
            BYTES,
            {"name": "numcodecs.zlib", "configuration": {"level": 1}},
        ]
    if dtype.kind == "f":
        found["delta on the host"] = [
            {"name": "numcodecs.delta", "configuration": {"dtype": dtype.str}},
            BYTES,
            {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
        ]
    if dtype.kind == "b":
        found["packbits"] = [
            {"name": "numcodecs.packbits", "configuration": {}},
            BYTES,
            {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
        ]
    return found


CASES = [
    (name, chain)
    for name in ("bool", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "c8")
    for chain in chains(np.dtype(name))
]


@pytest.mark.parametrize(("dtype", "chain"), CASES, ids=[" ".join(case) for case in CASES])
def test_zarr_arrays_are_read_as_on_the_host(cuda: FakeCuda, tmp_path: Path, dtype: str, chain: str) -> None:
    random = np.random.default_rng(len(chain))
    values = random.integers(0, 2 if dtype == "bool" else 100, SHAPE).astype(dtype)
    cuda.configure(len(chain))
    for sharded, fill in ((False, 0), (True, 1)):
        made = ps.create_array(
            str(tmp_path / f"{sharded}.zarr"),
            shape=SHAPE,
            dtype=dtype,
            chunks=CHUNKS,
            shards=SHARDS if sharded else None,
            codecs=chains(np.dtype(dtype))[chain],
            fill_value=fill,
        )
        made[:15] = values[:15]  # the rest does not exist
        for selection in SELECTIONS + MORE_SELECTIONS * (chain == "blosc lz4"):
            found = made.read(selection, device="cuda", check=True).numpy()
            np.testing.assert_array_equal(found, made[selection])
    said = made.plan(device="cuda")
    assert "cuda: " in said
    assert (" on the host (" in said) == chain.endswith("on the host")
