"""Checks that the device returns the host's bytes, for every decoder and every kernel. Also runs under
compute-sanitizer.

python -m bench.gpu.parity [--quick] [--folder FOLDER]      # one line per case; exit status 1: some differ

A case is one codec and one content. A case that differs or fails does not end the others.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
from penstock import testing

from bench.gpu import arrays

SHOWN = 32  # number of bytes shown from the first difference on


class DifferenceError(AssertionError):
    """The device returned other bytes than the host."""

    def __init__(self, what: str, got: bytes, expected: bytes) -> None:
        self.what, self.size = what, len(expected)
        self.offset = testing.first_different_byte(got, expected) or 0
        self.got, self.expected = (each[self.offset : self.offset + SHOWN] for each in (got, expected))
        bytes_ = f"{self.got.hex(' ', 4)} and not {self.expected.hex(' ', 4)}"
        super().__init__(f"{what}: first at byte {self.offset} of {self.size}, {bytes_}")


@dataclass
class Case:
    """One codec and one content. `run(folder)` returns the number of comparisons; it raises at the first difference."""

    codec: str
    content: str
    run: Callable[[Path], int]


@dataclass
class Outcome:
    """The outcome of a case: the number of equal comparisons, and why it ended early (None: it did not)."""

    codec: str
    content: str
    compared: int = 0
    difference: DifferenceError | None = None
    error: str | None = None
    kernel: str | None = None
    saved: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return self.difference is None and self.error is None

    def line(self) -> str:
        if self.good:
            return f"{self.codec}, {self.content}: {self.compared} reads give the host's bytes"
        why = f"OTHER BYTES in {self.difference}" if self.difference else f"FAILED: {self.error}"
        return f"{self.codec}, {self.content}: {why}" + (f"; {self.kernel}" if self.kernel else "")

    def fields(self) -> dict[str, Any]:
        """The outcome in the form of a line of results."""
        out: dict[str, Any] = {"codec": self.codec, "content": self.content, "compared": self.compared}
        if self.difference is not None:
            of = self.difference
            out["difference"] = {
                "read": of.what,
                "offset": of.offset,
                "bytes": of.size,
                "got": of.got.hex(),
                "expected": of.expected.hex(),
            }
        return {**out, "error": self.error, "kernel": self.kernel, "saved": self.saved}


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
        "walk": random.standard_normal(size).cumsum().astype("f4"),
        "ramp": np.arange(size, dtype="f4"),
        "noise": (1000 * random.standard_normal(size)).astype(">i2"),
        "steps": np.repeat(random.integers(0, 9, size // 50), 50).astype("u1"),
    }


def same(got: Any, expected: np.ndarray, what: str) -> int:
    wanted = np.ascontiguousarray(expected).tobytes()
    if got.tobytes() != wanted:
        raise DifferenceError(what, got.tobytes(), wanted)
    return 1


def made(folder: Path, name: str, values: np.ndarray, context: ps.Context | None, codecs: Any) -> ps.Array:
    """An array with some missing chunks, opened in the context."""
    uri = str(folder / f"{name}.zarr")
    array = ps.create_array(
        uri, shape=values.shape, dtype=values.dtype, chunks=CHUNKS, shards=SHARDS, codecs=codecs, fill_value=3
    )
    array[:170] = values[:170]
    return ps.open(uri, context=context) if context else array


def compare_reads(array: ps.Array, selections: tuple[Any, ...] = SELECTIONS) -> int:
    compared = 0
    for selection in selections:
        device = array.read(selection, device="cuda", check=True).numpy()
        compared += same(device, array[selection], str(selection))
    return compared


def name_of(codecs: Any) -> str:
    """A list of codecs as text: `blosc lz4 bitshuffle`."""
    names = []
    for each in codecs:
        settings = {} if isinstance(each, str) else each["configuration"]
        words = ["" if isinstance(each, str) else each["name"], settings.get("cname", ""), settings.get("shuffle", "")]
        names.append(each if isinstance(each, str) else " ".join(filter(None, words)))
        names[-1] += " with checksum" if settings.get("checksum") else ""
    return " | ".join(names) or "raw"


def chains(context: ps.Context | None) -> Iterator[Case]:
    for codecs in CODECS:
        for name, values in contents().items():

            def run(folder: Path, codecs: Any = codecs, values: np.ndarray = values) -> int:
                return compare_reads(made(folder, "array", values.reshape(SHAPE), context, codecs))

            yield Case(name_of(codecs), name, run)


def large_chunks(context: ps.Context | None) -> Iterator[Case]:
    """Chunks of 1 MiB: frames of several blocks, matches at long distances, and several thread blocks per part."""
    for codecs in (["zstd"], ["numcodecs.lz4"], ["numcodecs.zlib"], [blosc("zstd", "shuffle")]):

        def run(folder: Path, codecs: Any = codecs) -> int:
            values = arrays.rounded(600_000)
            uri = str(folder / "array.zarr")
            array = ps.create_array(uri, shape=values.shape, dtype="f4", chunks=(1 << 18,), codecs=codecs)
            array[...] = values
            opened = ps.open(uri, context=context) if context else array
            return compare_reads(opened, (np.s_[...], np.s_[1000:500_000:3]))

        yield Case(name_of(codecs), "chunks of 1 MiB", run)


def filters(context: ps.Context | None) -> Iterator[Case]:
    for name, values in contents().items():
        shuffle = {"name": "numcodecs.shuffle", "configuration": {"elementsize": values.itemsize}}

        def run(folder: Path, values: np.ndarray = values, shuffle: Any = shuffle) -> int:
            return compare_reads(made(folder, "array", values.reshape(SHAPE), context, ["bytes", shuffle, "zstd"]))

        yield Case("shuffle | zstd", name, run)
    for dtype in ("<i2", "<u4", "<i8"):
        delta = {"name": "numcodecs.delta", "configuration": {"dtype": dtype}}

        def sums(folder: Path, dtype: str = dtype, delta: Any = delta) -> int:
            values = contents()["walk"].reshape(SHAPE).astype(dtype)
            return compare_reads(made(folder, "array", values, context, [delta, "zstd"]))

        yield Case("delta | zstd", dtype, sums)


def bit_planes(block: np.ndarray) -> bytes:
    """Items of a block, transposed to planes of bits, as HDF5's filter does."""
    bits = np.unpackbits(np.ascontiguousarray(block).view(np.uint8).reshape(len(block), -1), axis=1, bitorder="little")
    return np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little").tobytes()


def hdf5_bitshuffle(chunk: np.ndarray, block: int, compression: str) -> bytes:
    parts = [bit_planes(chunk[at : at + block]) for at in range(0, len(chunk), block)]
    if compression == "none":
        return b"".join(parts)
    codec: Any = {"id": "lz4"} if compression == "lz4" else {"id": "zstd", "level": 1}
    skipped = 4 if compression == "lz4" else 0  # numcodecs stores the size first
    out = chunk.nbytes.to_bytes(8, "big") + (block * chunk.itemsize).to_bytes(4, "big")
    for part in parts:
        encoded = testing.encode(np.frombuffer(part, "u1"), [codec])[skipped:]
        out += len(encoded).to_bytes(4, "big") + encoded
    return out


def bitshuffles(context: ps.Context | None) -> Iterator[Case]:
    values = contents()["walk"].astype("<f4")[:24576].reshape(192, 128)
    for compression in ("none", "lz4", "zstd"):

        def run(folder: Path, compression: str = compression) -> int:
            uri = folder / "array.zarr"
            array = ps.create_array(str(uri), shape=values.shape, dtype="f4", chunks=(64, 64), codecs=["bytes"])
            array[...] = values
            for file in uri.glob("c/*/*"):
                file.write_bytes(hdf5_bitshuffle(np.frombuffer(file.read_bytes(), "<f4"), 512, compression))
            document = json.loads((uri / "zarr.json").read_text())
            settings = {"elementsize": 4, "blocksize": 512, "compression": compression}
            document["codecs"].append({"name": "hdf5.bitshuffle", "configuration": settings})
            (uri / "zarr.json").write_text(json.dumps(document))
            opened = ps.open(str(uri), context=context) if context else ps.open(str(uri))
            return same(opened[...], values, "the host's values") + compare_reads(opened)

        yield Case(f"HDF5 bitshuffle, {compression}", "walk", run)


def tiffs(context: ps.Context | None) -> Iterator[Case]:
    steps = np.random.default_rng(2).integers(-3, 4, (3, 150, 180)).cumsum(-1)
    for compress in (None, "lzw", "deflate", "packbits", "zstd"):
        for dtype, predictor in (("u1", 2), ("i2", 2), ("f4", 3), ("u4", None)):
            if compress in (None, "packbits") and predictor:
                continue

            def run(folder: Path, compress: Any = compress, dtype: str = dtype, predictor: Any = predictor) -> int:
                path = str(folder / "image.tif")
                values = (steps * 41).astype(dtype)
                ps.save(path, values, compress=compress, predictor=predictor, tiles=64, overviews=None)
                opened = ps.open(path, context=context) if context else ps.open(path)
                return compare_reads(opened, (np.s_[...], np.s_[1, 5:140:7, ::-1]))

            yield Case(f"TIFF {compress or 'raw'}, predictor {predictor or 1}", dtype, run)


def conversions(context: ps.Context | None) -> Iterator[Case]:
    """Casts, batches of crops, and values that are written back to storage."""
    values = contents()["walk"].reshape(SHAPE)

    def casts(folder: Path, dtype: str) -> int:
        array = made(folder, "array", values, context, ["zstd"])
        return same(array.read(dtype=dtype, device="cuda", check=True).numpy(), array.read(dtype=dtype), "all")

    def batches(folder: Path, dtype: str) -> int:
        array = made(folder, "array", values, context, ["zstd"])
        samples = [np.s_[i % 150 : i % 150 + 30, (7 * i) % 100 : (7 * i) % 100 + 40] for i in range(0, 160, 10)]
        pairs = zip(
            ps.batches(array, samples, batch_size=5, dtype=dtype, device="cuda", check=True),
            ps.batches(array, samples, batch_size=5, dtype=dtype),
            strict=True,
        )
        return sum(same(device.numpy(), host.numpy(), f"batch {i}") for i, (device, host) in enumerate(pairs))

    def written(folder: Path, dtype: str) -> int:
        array = made(folder, "array", values, context, ["zstd"])
        compared = 0
        for chunks in ((40, 150), (17, 31), (60, 50)):
            there = ps.create_array(
                str(folder / f"back-{chunks[0]}.zarr"), shape=SHAPE, dtype=dtype, chunks=chunks, codecs=["zstd"]
            )
            there[...] = array.read(device="cuda")
            compared += same(there[...], array[...].astype(dtype), f"chunks of {chunks}")
        return compared

    for title, run, dtypes in (
        ("casts", casts, ("f2", "f8", "c8")),
        ("batches", batches, ("f4", "f2")),
        ("written from the device", written, ("f4", "f8")),
    ):
        for dtype in dtypes:
            yield Case(title, dtype, lambda folder, run=run, dtype=dtype: run(folder, dtype))


def encoders(context: ps.Context | None) -> Iterator[Case]:
    """Values that the device encodes are decoded by the host and by the device."""

    def encoded(folder: Path, values: np.ndarray, codecs: Any, chunks: tuple[int, ...]) -> int:
        source = ps.create_array(
            str(folder / "source.zarr"), shape=values.shape, dtype=values.dtype, chunks=chunks, codecs=["bytes"]
        )
        source[...] = values
        source = ps.open(source.uri, context=context) if context else source
        to = ps.create_array(
            str(folder / "array.zarr"),
            shape=values.shape,
            dtype=values.dtype,
            chunks=chunks,
            codecs=codecs,
            fill_value=3,
        )
        to.write(..., source.read(device="cuda"), encoder="device")
        compared = same(to[...], values, "what the host decodes")
        opened = ps.open(to.uri, context=context) if context else to
        return compared + compare_reads(opened, (np.s_[...],))

    for name, values in contents().items():
        values = values.astype(values.dtype.newbyteorder("<"))
        shuffle = {"name": "numcodecs.shuffle", "configuration": {"elementsize": values.itemsize}}
        for codecs in (
            ["numcodecs.lz4"],
            ["zstd"],
            [{"name": "zstd", "configuration": {"level": 1, "checksum": True}}],
            ["zstd", "crc32c"],
            ["bytes", shuffle, "zstd"],
            ["bytes", shuffle, "numcodecs.lz4", "crc32c"],
        ):
            if shuffle in codecs and values.itemsize == 1:
                continue

            def run(folder: Path, codecs: Any = codecs, values: np.ndarray = values) -> int:
                return encoded(folder, values.reshape(SHAPE), codecs, CHUNKS)

            yield Case(f"encoded by the device, {name_of(codecs)}", name, run)
    for codecs in (["numcodecs.lz4"], ["zstd"]):

        def large(folder: Path, codecs: Any = codecs) -> int:
            return encoded(folder, arrays.rounded(600_000), codecs, (1 << 18,))

        yield Case(f"encoded by the device, {name_of(codecs)}", "chunks of 1 MiB", large)


def nvcomps_checks(context: ps.Context | None) -> Iterator[Case]:
    """nvCOMP, if it is installed, and our kernel that checks its status codes."""
    with contextlib.suppress(ps.Error):
        context = ps.Context(threads=2, decoder="nvcomp")
        values = contents()["walk"].reshape(SHAPE)
        yield Case(
            "nvCOMP's zlib",
            "walk",
            lambda folder: compare_reads(made(folder, "array", values, context, ["numcodecs.zlib"])),
        )


PARTS: list[Callable[[ps.Context | None], Iterator[Case]]] = [
    chains,
    large_chunks,
    filters,
    bitshuffles,
    tiffs,
    conversions,
    encoders,
    nvcomps_checks,
]


def cases(quick: bool = False, context: ps.Context | None = None) -> Iterator[Case]:
    """Every case; `quick`: one content per codec, for tools that slow the device down a hundred times."""
    seen = set()
    for part in PARTS:
        for case in part(context):
            if quick and case.codec in seen:
                continue
            seen.add(case.codec)
            yield case


def check(case: Case, keep: Path | None = None) -> Outcome:
    """Run a case. A difference is analysed and, with `keep`, saved there: the array, and the first wrong chunk."""
    out = Outcome(case.codec, case.content)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            out.compared = case.run(folder)
            return out
        except DifferenceError as error:
            out.difference = error
        except Exception as error:
            out.error = f"{type(error).__name__}: {error}"
        target = (
            None if keep is None else keep / "".join(c if c.isalnum() else "-" for c in f"{case.codec} {case.content}")
        )
        try:
            if target is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                out.saved.append(Path(shutil.make_archive(str(target), "zip", folder)).name)
            if out.difference is not None:
                out.kernel = wrong_kernel(folder / "array.zarr", target, out.saved)
        except Exception as error:  # the first report is kept
            out.kernel = f"which kernel is wrong is not known: {type(error).__name__}: {error}"
    return out


def wrong_kernel(path: Path, target: Path | None, saved: list[str]) -> str | None:
    """Decode the chunks of a Zarr array one by one on the device and by the host forms, and return the first
    difference.

    That chunk is saved as `target` with .chunk, its codecs and size with .json. None: not an array of Zarr.
    """
    if not (path / "zarr.json").exists():
        return None
    codecs = arrays.inner_codecs(path)
    steps = arrays.device_codecs(codecs)
    if not steps:
        return "no decoder runs: look at the copies and the scatter"
    array = ps.open(str(path))
    values = array[...]
    starts = [range(0, size - chunk + 1, chunk) for size, chunk in zip(array.shape, array.chunks, strict=True)]
    for corner in itertools.product(*starts):
        box = tuple(slice(at, at + chunk) for at, chunk in zip(corner, array.chunks, strict=True))
        block = np.ascontiguousarray(values[box])
        chunk = testing.encode(block, codecs)
        host = testing.decode_on_device(steps, chunk, block.nbytes, device="cpu")
        device = testing.decode_on_device(steps, chunk, block.nbytes)
        different = testing.first_difference(device, host)
        if different is None:
            continue
        if target is not None:
            target.with_suffix(".chunk").write_bytes(chunk)
            about = {"codecs": steps, "decoded_bytes": block.nbytes, "difference": str(different)}
            target.with_suffix(".json").write_text(json.dumps(about))
            saved += [target.with_suffix(each).name for each in (".chunk", ".json")]
        return f"of a chunk by itself {different}"
    return "every chunk by itself is right: look at the scatter, at how waves share memory, and at the order of streams"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small array a codec")
    parser.add_argument("--folder", type=Path, help="where what differs is saved")
    options = parser.parse_args(arguments)
    wrong = 0
    for case in cases(options.quick):
        outcome = check(case, options.folder)
        wrong += not outcome.good
        print(outcome.line(), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
