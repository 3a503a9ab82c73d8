"""The device gives the host's bytes: every decoder and every kernel. Run under compute-sanitizer too.

python -m bench.gpu.parity [FOLDER]      # prints how many reads were compared
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
from penstock import testing


class DifferenceError(AssertionError):
    """The device gave other bytes than the host."""


def blosc(cname: str, shuffle: str) -> dict[str, Any]:
    settings = {"cname": cname, "clevel": 5, "shuffle": shuffle, "typesize": 4, "blocksize": 0}
    return {"name": "blosc", "configuration": settings}


CODECS: list[Any] = [
    [],
    ["zstd"],
    [{"name": "zstd", "configuration": {"level": 9, "checksum": True}}],
    ["gzip"],
    ["numcodecs.zlib"],
    ["numcodecs.lz4"],
    [blosc("zstd", "shuffle")],
    [blosc("lz4", "bitshuffle")],
    [blosc("lz4hc", "shuffle")],
    [blosc("zlib", "noshuffle")],
    [blosc("blosclz", "shuffle")],
    ["zstd", "crc32c"],
]
SELECTIONS = (np.s_[...], np.s_[::3, 5:90:7], np.s_[::-1, 13], np.s_[170:, :])
SHAPE, CHUNKS, SHARDS = (180, 150), (17, 31), (51, 124)


def contents() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    size = SHAPE[0] * SHAPE[1]
    return {
        "ramp": np.arange(size, dtype="f4"),
        "walk": random.standard_normal(size).cumsum().astype("f4"),
        "noise": (1000 * random.standard_normal(size)).astype(">i2"),
        "steps": np.repeat(random.integers(0, 9, size // 50), 50).astype("u1"),
    }


def same(got: Any, expected: np.ndarray, what: str) -> int:
    if got.tobytes() != np.ascontiguousarray(expected).tobytes():
        raise DifferenceError(what)
    return 1


def made(folder: Path, name: str, values: np.ndarray, context: ps.Context | None, codecs: Any) -> ps.Array:
    """An array of which some chunks are missing, open in the context."""
    uri = str(folder / f"{name}.zarr")
    array = ps.create_array(
        uri, shape=values.shape, dtype=values.dtype, chunks=CHUNKS, shards=SHARDS, codecs=codecs, fill_value=3
    )
    array[:170] = values[:170]
    return ps.open(uri, context=context) if context else array


def compare_reads(array: ps.Array, what: str) -> int:
    compared = 0
    for selection in SELECTIONS:
        device = array.read(selection, device="cuda", check=True).numpy()
        compared += same(device, array[selection], f"{what} {selection}")
    return compared


def chains(folder: Path, context: ps.Context | None) -> int:
    compared = 0
    for number, codecs in enumerate(CODECS):
        for name, values in contents().items():
            array = made(folder, f"{number}-{name}", values.reshape(SHAPE), context, codecs)
            compared += compare_reads(array, f"{codecs} {name}")
    return compared


def filters(folder: Path, context: ps.Context | None) -> int:
    compared = 0
    for name, values in contents().items():
        shuffle = {"name": "numcodecs.shuffle", "configuration": {"elementsize": values.itemsize}}
        array = made(folder, f"shuffle-{name}", values.reshape(SHAPE), context, ["bytes", shuffle, "zstd"])
        compared += compare_reads(array, f"shuffle {name}")
    for dtype in ("<i2", "<u4", "<i8"):
        delta = {"name": "numcodecs.delta", "configuration": {"dtype": dtype}}
        values = contents()["walk"].reshape(SHAPE).astype(dtype)
        compared += compare_reads(
            made(folder, f"delta-{dtype[1:]}", values, context, [delta, "zstd"]), f"delta {dtype}"
        )
    return compared


def bit_planes(block: np.ndarray) -> bytes:
    """Items of a block, transposed to planes of bits, as HDF5's filter does."""
    bits = np.unpackbits(np.ascontiguousarray(block).view(np.uint8).reshape(len(block), -1), axis=1, bitorder="little")
    return np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little").tobytes()


def hdf5_bitshuffle(chunk: np.ndarray, block: int, compression: str) -> bytes:
    parts = [bit_planes(chunk[at : at + block]) for at in range(0, len(chunk), block)]
    if compression == "none":
        return b"".join(parts)
    codec: Any = {"id": "lz4"} if compression == "lz4" else {"id": "zstd", "level": 1}
    skipped = 4 if compression == "lz4" else 0  # the size that numcodecs puts first
    out = chunk.nbytes.to_bytes(8, "big") + (block * chunk.itemsize).to_bytes(4, "big")
    for part in parts:
        encoded = testing.encode(np.frombuffer(part, "u1"), [codec])[skipped:]
        out += len(encoded).to_bytes(4, "big") + encoded
    return out


def bitshuffles(folder: Path, context: ps.Context | None) -> int:
    compared = 0
    values = contents()["walk"].astype("<f4")[:24576].reshape(192, 128)
    for compression in ("none", "lz4", "zstd"):
        uri = folder / f"bitshuffle-{compression}.zarr"
        array = ps.create_array(str(uri), shape=values.shape, dtype="f4", chunks=(64, 64), codecs=["bytes"])
        array[...] = values
        for file in uri.glob("c/*/*"):
            file.write_bytes(hdf5_bitshuffle(np.frombuffer(file.read_bytes(), "<f4"), 512, compression))
        document = json.loads((uri / "zarr.json").read_text())
        settings = {"elementsize": 4, "blocksize": 512, "compression": compression}
        document["codecs"].append({"name": "hdf5.bitshuffle", "configuration": settings})
        (uri / "zarr.json").write_text(json.dumps(document))
        opened = ps.open(str(uri), context=context) if context else ps.open(str(uri))
        compared += same(opened[...], values, f"the host's HDF5 bitshuffle, {compression}")
        compared += compare_reads(opened, f"HDF5 bitshuffle, {compression}")
    return compared


def tiffs(folder: Path, context: ps.Context | None) -> int:
    compared = 0
    steps = np.random.default_rng(2).integers(-3, 4, (3, 150, 180)).cumsum(-1)
    for compress in (None, "lzw", "deflate", "packbits", "zstd"):
        for dtype, predictor in (("u1", 2), ("i2", 2), ("f4", 3), ("u4", None)):
            if compress in (None, "packbits") and predictor:
                continue
            path = str(folder / f"{compress}-{dtype}.tif")
            ps.save(path, (steps * 41).astype(dtype), compress=compress, predictor=predictor, tiles=64, overviews=None)
            opened = ps.open(path, context=context) if context else ps.open(path)
            for selection in (np.s_[...], np.s_[1, 5:140:7, ::-1]):
                device = opened.read(selection, device="cuda", check=True).numpy()
                compared += same(device, opened[selection], f"TIFF {compress} {dtype} {predictor} {selection}")
    return compared


def conversions(folder: Path, context: ps.Context | None) -> int:
    """Casts, batches of crops, and values that go back to storage."""
    values = contents()["walk"].reshape(SHAPE)
    array = made(folder, "values", values, context, ["zstd"])
    compared = 0
    for dtype in ("f2", "f8", "c8"):
        device = array.read(dtype=dtype, device="cuda", check=True).numpy()
        compared += same(device, array.read(dtype=dtype), f"cast to {dtype}")
    samples = [np.s_[i % 150 : i % 150 + 30, (7 * i) % 100 : (7 * i) % 100 + 40] for i in range(0, 160, 10)]
    for dtype in ("f4", "f2"):
        pairs = zip(
            ps.batches(array, samples, batch_size=5, dtype=dtype, device="cuda", check=True),
            ps.batches(array, samples, batch_size=5, dtype=dtype),
            strict=True,
        )
        for device, host in pairs:
            compared += same(device.numpy(), host.numpy(), f"a batch of {dtype}")
    tensor = array.read(device="cuda")
    for dtype, chunks in (("f4", (40, 150)), ("f4", (17, 31)), ("f8", (60, 50))):
        there = ps.create_array(
            str(folder / f"back-{dtype}-{chunks[0]}.zarr"), shape=SHAPE, dtype=dtype, chunks=chunks, codecs=["zstd"]
        )
        there[...] = tensor
        compared += same(there[...], array[...].astype(dtype), f"written from the device as {dtype} {chunks}")
    return compared


def nvcomps_checks(folder: Path, context: ps.Context | None) -> int:
    """nvCOMP, where it is installed, and the kernel of ours that looks at what it says."""
    with contextlib.suppress(ps.Error):
        context = ps.Context(threads=2, decoder="nvcomp")
        array = made(folder, "library", contents()["walk"].reshape(SHAPE), context, ["numcodecs.zlib"])
        return compare_reads(array, "nvCOMP's zlib")
    return 0


PARTS: list[Callable[[Path, ps.Context | None], int]] = [
    chains,
    filters,
    bitshuffles,
    tiffs,
    conversions,
    nvcomps_checks,
]


def compare(folder: Path, context: ps.Context | None = None) -> int:
    """Reads everything both ways. Returns the number of comparisons; raises DifferenceError at the first difference."""
    return sum(part(folder, context) for part in PARTS)


def main() -> int:
    if len(sys.argv) > 1:
        print(f"{compare(Path(sys.argv[1]))} reads compared")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{compare(Path(folder))} reads compared")
    return 0


if __name__ == "__main__":
    sys.exit(main())
