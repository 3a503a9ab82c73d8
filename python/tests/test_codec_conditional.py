"""`conditional` of Zarr v3: chunks written from the specification alone are read, and what we write conforms to it."""

from __future__ import annotations

import gzip
import json
import zlib

import numpy as np
import penstock as ps
import pytest

INNER = [{"name": "numcodecs.zlib", "configuration": {"level": 1}}, {"name": "gzip", "configuration": {"level": 1}}]
VALUES = np.arange(24, dtype="<i4").reshape(4, 6)


def store_of(configuration: dict, chunk: bytes) -> dict[str, bytes]:
    store: dict[str, bytes] = {}
    codecs = ["bytes", {"name": "conditional", "configuration": configuration}]
    ps.create_array(store, shape=(4, 6), dtype="int32", codecs=codecs)
    return {**store, "c/0/0": chunk}


@pytest.mark.parametrize("header_bytes", [1, 2, 5])
@pytest.mark.parametrize("mask", range(4))
def test_the_header_records_which_codecs_were_applied(mask, header_bytes):
    content = VALUES.tobytes()
    for bit, encode in enumerate((zlib.compress, gzip.compress)):
        content = encode(content) if mask >> bit & 1 else content
    configuration = {"codecs": INNER, "header_bits": 8 * header_bytes}
    a = ps.open(store_of(configuration, mask.to_bytes(header_bytes, "little") + content))
    np.testing.assert_array_equal(a[...], VALUES)


@pytest.mark.parametrize("shards", [None, (16, 16)])
def test_writing_applies_codecs_that_make_a_chunk_smaller(shards):
    noise = np.random.default_rng(1).integers(0, 2**31, (16, 8), dtype="i4")
    values = np.concatenate([noise, np.zeros((16, 8), "i4") + 7], axis=1)
    store: dict[str, bytes] = {}
    codecs = [
        "bytes",
        {"name": "conditional", "configuration": {"codecs": [{"name": "gzip", "configuration": {"level": 1}}]}},
    ]
    ps.create_array(store, data=values, chunks=(8, 8), shards=shards, codecs=codecs)
    a = ps.open(store, mode="r+")
    np.testing.assert_array_equal(a[...], values)
    if shards is None:
        assert store["c/0/0"] == b"\0" + values[:8, :8].astype("<i4").tobytes()
        assert store["c/0/1"][:1] == b"\1"
        assert gzip.decompress(store["c/0/1"][1:]) == values[:8, 8:].astype("<i4").tobytes()
    a[3:5, 6:10] = -1
    values[3:5, 6:10] = -1
    np.testing.assert_array_equal(ps.open(store)[...], values)


def test_a_bit_without_a_codec_is_an_error():
    with pytest.raises(ps.CorruptDataError, match="applies codec 3, there are 2"):
        ps.open(store_of({"codecs": INNER}, b"\x08" + VALUES.tobytes()))[...]


def test_errors_in_its_metadata_are_named():
    store = store_of({"codecs": INNER}, b"")
    text = json.loads(store["zarr.json"])
    text["codecs"][1]["configuration"]["header_bits"] = 1
    with pytest.raises(ps.CorruptDataError, match="header_bits"):
        ps.open({"zarr.json": json.dumps(text).encode()})
