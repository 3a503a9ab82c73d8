"""What the device reads is what the host reads, over matrices of arrays; against the fake driver: nothing here has seen
a GPU.

test_device.py runs these in a process of their own.
"""

from __future__ import annotations

import itertools
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
SELECTIONS = [np.s_[...], np.s_[3:20, ::3, 5], np.s_[22::-4, 1:16, -1::-2], np.s_[7, 16, :], np.s_[5:5]]


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
def test_zarr_arrays_are_what_the_host_reads(cuda: FakeCuda, tmp_path: Path, dtype: str, chain: str) -> None:
    random = np.random.default_rng(len(chain))
    values = random.integers(0, 2 if dtype == "bool" else 100, SHAPE).astype(dtype)
    cuda.configure(len(chain))
    for sharded, fill in itertools.product((False, True), (0, 1)):
        made = ps.create_array(
            str(tmp_path / f"{sharded}{fill}.zarr"),
            shape=SHAPE,
            dtype=dtype,
            chunks=CHUNKS,
            shards=SHARDS if sharded else None,
            codecs=chains(np.dtype(dtype))[chain],
            fill_value=fill,
        )
        made[:15] = values[:15]  # the rest is not there
        for selection in SELECTIONS:
            found = made.read(selection, device="cuda", check=True).numpy()
            np.testing.assert_array_equal(found, made[selection])
    said = made.plan(device="cuda")
    assert "cuda: " in said
    assert (" on the host (" in said) == chain.endswith("on the host")


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["<i4", ">i4", ">u2", "<f8", ">f4", "|b1", "|u1"])
def test_zarr_v2_arrays_are_what_the_host_reads(cuda: FakeCuda, tmp_path: Path, order: str, dtype: str) -> None:
    numcodecs, zarr = pytest.importorskip("numcodecs"), pytest.importorskip("zarr")
    kind = np.dtype(dtype)
    filters: list[Any] = [None, [numcodecs.Shuffle(kind.itemsize)]]
    if kind.kind in "iu":
        filters += [[numcodecs.Delta(dtype)], [numcodecs.Delta(dtype, "<i8")]]
    if kind.kind == "b":
        filters += [[numcodecs.PackBits()]]
    compressors = [None, numcodecs.Zlib(1), numcodecs.LZ4(), numcodecs.Blosc("zlib", 5, 1), numcodecs.Zstd(1)]
    values = np.random.default_rng(3).integers(0, 2 if kind.kind == "b" else 200, (23, 17)).astype(kind)
    for i, (some, compressor) in enumerate(itertools.product(filters, compressors)):
        path = str(tmp_path / f"{i}.zarr")
        made = zarr.create_array(
            path,
            shape=values.shape,
            dtype=kind,
            chunks=(7, 5),
            order=order,
            zarr_format=2,
            filters=some or (),
            compressors=compressor,
        )
        made[:20] = values[:20]
        opened = ps.open(path)
        for selection in (np.s_[...], np.s_[::-2, 3:]):
            found = opened.read(selection, device="cuda", check=True).numpy()
            np.testing.assert_array_equal(found, opened[selection], err_msg=f"{some} {compressor}")


COMPRESSIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "deflate": {"compression": "zlib"},
    "lzw": {"compression": "lzw"},
    "zstd": {"compression": "zstd"},
    "packbits": {"compression": "packbits"},
    "lzma": {"compression": "lzma"},
}


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("layout", [{"tile": (32, 48)}, {"rowsperstrip": 13}], ids=["tiles", "strips"])
def test_tiffs_are_what_the_host_reads(
    cuda: FakeCuda, tmp_path: Path, compression: str, layout: dict[str, Any]
) -> None:
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    shapes = {"gray": (83, 111), "rgb": (83, 111, 3), "planes": (3, 83, 111), "five": (31, 67, 5)}
    on_device = 0
    for dtype, order, samples in itertools.product(("u1", "i2", "u4", "f4", "f8", "c8"), "<>", shapes):
        kind = np.dtype(dtype).kind
        predictors = [1]
        if compression in ("deflate", "lzw", "zstd"):
            predictors += [2] * (kind in "iu") + [3] * (kind == "f")
        steps = np.random.default_rng(1).integers(-3, 4, shapes[samples]).cumsum(-1)
        values = (steps * 41).astype(dtype)
        for predictor in predictors:
            path = tmp_path / "x.tif"
            tifffile.imwrite(
                path,
                values,
                byteorder=order,
                photometric="rgb" if samples in ("rgb", "planes") else "minisblack",
                planarconfig="separate" if samples == "planes" else None if samples == "gray" else "contig",
                predictor=predictor if predictor != 1 else None,
                **layout,
                **COMPRESSIONS[compression],
            )
            opened = ps.open(str(path))
            what = f"{dtype} {order} {samples} predictor {predictor}"
            for selection in (np.s_[...], np.s_[..., 5:70:3]):
                found = opened.read(selection, device="cuda", check=True).numpy()
                np.testing.assert_array_equal(found, opened[selection], err_msg=what)
            said = opened.plan(device="cuda").split("cuda: ")[1].split("\n")[0]
            assert (" on the host" in said) == (compression == "lzma"), f"{what}: {said}"
            on_device += " on the device" in said
    assert on_device or compression in ("lzma", "none")
