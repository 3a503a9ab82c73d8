"""The GPU's decoders on the host, called from Python, on what numcodecs writes."""

from __future__ import annotations

import gzip
import zlib

import numcodecs
import numpy as np
import penstock as ps
import pytest
from penstock.testing import decode_on_host

WALK = np.cumsum(np.random.default_rng(3).integers(-5, 6, 60_000)).astype("<f4").tobytes()
TEXT = b"chunk grid array store codec " * 3000
CONTENTS = {
    "walk": WALK,
    "text": TEXT,
    "ramp": np.arange(50_000, dtype="<f4").tobytes(),
    "zeros": bytes(100_000),
    "one": b"1",
}


def encoders() -> dict[str, object]:
    made: dict[str, object] = {}
    for level in (-5, 1, 3, 12, 19):
        made[f"zstd {level}"] = ("zstd", numcodecs.Zstd(level, checksum=level == 3).encode)
    made["lz4"] = ("lz4", numcodecs.LZ4().encode)
    made["lz4_block"] = ("lz4_block", lambda data: numcodecs.LZ4().encode(data)[4:])
    made["zlib"] = ("zlib", zlib.compress)
    made["gzip"] = ("gzip", gzip.compress)
    made["deflate"] = ("deflate", lambda data: zlib.compress(data)[2:-4])
    for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for shuffle in (0, 1, 2):
            codec = numcodecs.Blosc(name, 5, shuffle)
            items = np.uint8 if shuffle == 0 else np.dtype("<u4")
            made[f"blosc {name} {shuffle}"] = (
                "blosc",
                lambda data, codec=codec, items=items: codec.encode(
                    np.frombuffer(data, items) if len(data) % np.dtype(items).itemsize == 0 else data
                ),
            )
    return made


ENCODERS = encoders()


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_chunks_of_other_libraries_decode_to_the_same_bytes(encoder: str, content: str) -> None:
    codec, encode = ENCODERS[encoder]  # type: ignore[misc]
    data = CONTENTS[content]
    encoded = encode(data)
    assert decode_on_host(codec, encoded, len(data)) == data
    with pytest.raises(ps.CorruptDataError):
        decode_on_host(codec, encoded, len(data) + 1)
    with pytest.raises(ps.Error):
        decode_on_host(codec, encoded[: len(encoded) // 2], len(data))


def test_a_codec_without_a_device_decoder_is_named() -> None:
    with pytest.raises(ps.UnsupportedError, match="bz2"):
        decode_on_host("bz2", b"", 0)
