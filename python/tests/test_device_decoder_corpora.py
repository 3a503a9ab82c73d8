"""The GPU's decoders on the host, on other projects' collections: the reference's bytes, or an error if it has one.

A part of each collection is in tests/data/codecs; if the whole collection is next to the project, all of it is read.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numcodecs
import numpy as np
import penstock as ps
import pytest
from penstock.testing import decode_on_host

ROOT = Path(__file__).parents[2]
OWN = ROOT / "tests" / "data" / "codecs"
WHOLE = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "codecs"
Decode = Callable[[bytes], bytes]

CODECS = {"zstd", "lz4", "zlib", "gzip", "blosc", "shuffle", "delta", "crc32c"}


@pytest.fixture(params=["own", "whole"])
def corpus(request: pytest.FixtureRequest) -> Path:
    folder = OWN if request.param == "own" else WHOLE
    if not folder.is_dir():
        pytest.skip(f"the whole collection is not at {folder}")
    return folder


def files(folder: Path, pattern: str = "*") -> list[Path]:
    found = [each for each in sorted(folder.rglob(pattern)) if each.is_file() and "LICENSE" not in each.name]
    return [each for each in found if each.name != "SOURCE.txt"]


def compare(codec: str, encoded: bytes, reference: Decode) -> bool:
    """Assert that Penstock's outcome is the reference's. Returns whether the chunk decodes."""
    try:
        content = reference(encoded)
    except Exception:
        for size in (0, 1, 1000, 100_000):
            with pytest.raises(ps.Error):
                decode_on_host(codec, encoded, size)
        return False
    assert decode_on_host(codec, encoded, len(content)) == content
    with pytest.raises(ps.CorruptDataError):
        decode_on_host(codec, encoded, len(content) + 1)
    return True


def compare_all(codec: str, paths: Iterable[Path], reference: Decode) -> tuple[int, int]:
    """The numbers of chunks that decode and that do not."""
    counts = [0, 0]
    for path in paths:
        try:
            counts[not compare(codec, path.read_bytes(), reference)] += 1
        except BaseException as why:
            raise AssertionError(f"{path} with {codec}: {why!r}") from why
    return counts[0], counts[1]


def inflate(bits: int) -> Decode:
    def decode(encoded: bytes) -> bytes:
        stream = zlib.decompressobj(bits)
        content = stream.decompress(encoded)
        if not stream.eof:
            raise ValueError("the stream ends early")
        if stream.unused_data:
            raise ValueError("bytes behind the stream")
        return content

    return decode


def zstd(encoded: bytes) -> bytes:
    if not encoded:
        raise ValueError("no bytes")
    return bytes(numcodecs.Zstd().decode(encoded))


def refuse(encoded: bytes) -> bytes:
    raise ValueError("damaged")


def test_zstd(corpus: Path) -> None:
    tried = 0
    for path in files(corpus / "KillingSpark__zstd-rs", "*.zst"):
        twin = path.with_suffix("")
        if not twin.exists():
            continue
        content = twin.read_bytes()
        assert decode_on_host("zstd", path.read_bytes(), len(content)) == content, path
        tried += 1
    assert tried >= 20
    golden = corpus / "facebook__zstd" / "tests"
    decode, _ = compare_all("zstd", files(golden / "golden-decompression"), zstd)
    assert decode >= 3
    # libzstd accepts some of these although the format forbids them.
    _, refused = compare_all("zstd", files(golden / "golden-decompression-errors"), refuse)
    assert refused == 3
    compare_all("zstd", files(corpus / "KillingSpark__zstd-rs" / "ruzstd" / "fuzz"), refuse)


def test_deflate(corpus: Path) -> None:
    tried = 0
    for path in files(corpus / "google__wuffs"):
        codec = {".deflate": "deflate", ".zlib": "zlib", ".gz": "gzip"}.get(path.suffix)
        if codec is None:
            continue
        bits = {"deflate": -15, "zlib": 15, "gzip": 31}[codec]
        twin = path.with_name(path.name + ".decompressed")
        expected = (lambda _, twin=twin: twin.read_bytes()) if twin.exists() else inflate(bits)
        assert compare(codec, path.read_bytes(), expected), path
        tried += 1
    assert tried >= 4
    damaged = files(corpus / "zlib-ng__zlib-ng")
    assert len(damaged) >= 5
    if corpus == WHOLE:
        damaged += files(corpus / "Frommi__miniz_oxide")
    counts = [
        compare_all(codec, damaged, inflate(bits)) for codec, bits in (("deflate", -15), ("zlib", 15), ("gzip", 31))
    ]
    assert sum(each[1] for each in counts) >= 5
    if corpus == WHOLE:
        assert sum(each[0] for each in counts) >= 5


def test_blosc(corpus: Path) -> None:
    expected = np.arange(1_000_000, dtype="<i4").tobytes()

    def reference(encoded: bytes) -> bytes:
        # numcodecs' library is built without Snappy; these files have the same content as their neighbours.
        return expected if encoded[2] >> 5 == 2 and encoded[0] == 2 else bytes(numcodecs.Blosc().decode(encoded))

    paths = files(corpus, "*.cdata")
    decode, refused = compare_all("blosc", paths, reference)
    assert decode >= (19 if corpus == WHOLE else 5)
    assert refused >= 2  # of format versions 4 and 5


def test_lz4_and_snappy() -> None:
    if not WHOLE.is_dir():
        pytest.skip(f"the whole collection is not at {WHOLE}")
    pyarrow = pytest.importorskip("pyarrow")
    (skip,) = files(WHOLE / "lz4__lz4", "*.bin")  # skippable frames and an empty one
    assert decode_on_host("lz4_frame", skip.read_bytes(), 0) == b""
    with pytest.raises(ps.CorruptDataError):
        decode_on_host("lz4_frame", skip.read_bytes(), 1)
    _, refused = compare_all(
        "snappy",
        files(WHOLE / "google__snappy", "*.snappy"),
        lambda encoded: pyarrow.decompress(encoded, 1 << 20, "snappy", asbytes=True),
    )
    assert refused == 3
    for path in (*files(WHOLE / "google__snappy", "html"), *files(WHOLE / "pierrec__lz4", "*.txt")):
        content = path.read_bytes()
        for codec, name in (("snappy", "snappy"), ("lz4_frame", "lz4"), ("lz4_block", "lz4_raw")):
            encoded = pyarrow.compress(content, name, asbytes=True)
            assert decode_on_host(codec, encoded, len(content)) == content


def kinds() -> dict[str, bytes]:
    random = np.random.default_rng(5)
    return {
        "nothing": b"",
        "one": b"1",
        "zeros": bytes(200_000),
        "noise": random.bytes(150_000),
        "text": b"chunk grid array store codec " * 5000,
        "walk": np.cumsum(random.integers(-5, 6, 60_000)).astype("<f4").tobytes(),
        "far": random.bytes(70_000) * 3,  # matches at distances beyond a block of Snappy and the window of LZ4
    }


@pytest.mark.parametrize("codec", ["snappy", "lz4_block", "lz4_frame"])
@pytest.mark.parametrize("kind", kinds())
def test_chunks_of_a_second_library(kind: str, codec: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    content = kinds()[kind]
    name = {"snappy": "snappy", "lz4_block": "lz4_raw", "lz4_frame": "lz4"}[codec]
    encoded = pyarrow.compress(content, name, asbytes=True)
    assert decode_on_host(codec, encoded, len(content)) == content
    for wrong in (len(content) + 1, max(0, len(content) - 1)):
        if wrong != len(content):
            with pytest.raises(ps.CorruptDataError):
                decode_on_host(codec, encoded, wrong)
    with pytest.raises(ps.Error):
        decode_on_host(codec, encoded[: len(encoded) // 2], len(content) or 1)


def test_numcodecs(corpus: Path) -> None:
    tried: dict[str, int] = {}
    for path in files(corpus / "zarr-developers__numcodecs", "encoded.*.dat"):
        settings = path.parent / "config.json"
        if not settings.exists():
            continue
        config = json.loads(settings.read_text())
        if config.get("elementsize") == 0:
            continue  # a shuffle of zero bytes, which is left to the host
        if config["id"] not in CODECS:
            with pytest.raises(ps.UnsupportedError):
                decode_on_host(config, path.read_bytes(), 1)
            continue
        if config["id"] == "delta" and not all(
            np.dtype(each).kind in "iu" for each in (config["dtype"], config["astype"])
        ):
            with pytest.raises(ps.UnsupportedError, match="integers"):
                decode_on_host(config, path.read_bytes(), 1)
            continue
        array = np.load(path.parent.parent / f"array.{path.name.split('.')[1]}.npy", allow_pickle=False)
        expected = array.reshape(-1, order="A").tobytes()
        assert decode_on_host(config, path.read_bytes(), len(expected)) == expected, path
        tried[config["id"]] = tried.get(config["id"], 0) + 1
    if corpus == OWN:
        assert {"zlib", "lz4", "shuffle", "delta"} <= set(tried)
    else:
        assert {"zstd", "lz4", "zlib", "gzip", "blosc", "shuffle", "delta"} <= set(tried)
        assert sum(tried.values()) > 300
