"""Shards with codecs before or after the sharding codec: each is one cell, decoded as a whole in memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import ZARR_VERSION
from numcodecs.zstd import Zstd
from zarr.codecs import (
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    VLenUTF8Codec,
    ZstdCodec,
)
from zarr.storage import MemoryStore

VALUES = np.arange(20 * 30, dtype="<i4").reshape(20, 30)
FILL = 9


def shard(chunk: tuple[int, ...], *codecs: Any, index: str = "end") -> ShardingCodec:
    return ShardingCodec(chunk_shape=chunk, codecs=codecs or [BytesCodec(), ZstdCodec()], index_location=index)


INNER = shard((2, 4))
CHAINS: dict[str, list[Any]] = {
    "zstd": [INNER, ZstdCodec()],
    "gzip and a checksum, index at the start": [shard((2, 4), index="start"), GzipCodec(), Crc32cCodec()],
    "nested, both compressed": [shard((4, 4), INNER, GzipCodec()), ZstdCodec()],
    "only the inner one": [shard((4, 4), INNER, GzipCodec())],
    "uncompressed chunks": [shard((2, 4), BytesCodec(endian="big")), ZstdCodec()],
    "transposed": [TransposeCodec(order=(1, 0)), INNER, ZstdCodec()],
    "transposed within": [shard((2, 4), TransposeCodec(order=(1, 0)), BytesCodec(), ZstdCodec()), ZstdCodec()],
}
if ZARR_VERSION >= (3, 4):
    from zarr.codecs import CastValue, ScaleOffset

    CHAINS["scaled before"] = [ScaleOffset(offset=5, scale=2), INNER]
    CHAINS["cast before"] = [CastValue(data_type="int64"), INNER, ZstdCodec()]


def made(codecs: list[Any], **options: Any) -> tuple[MemoryStore, Any]:
    at = next(i for i, codec in enumerate(codecs) if isinstance(codec, ShardingCodec))
    options = {"shape": VALUES.shape, "chunks": (8, 16), "dtype": "i4", "fill_value": FILL, **options}
    store = MemoryStore()
    chain = {"filters": codecs[:at], "serializer": codecs[at], "compressors": codecs[at + 1 :]}
    return store, zarr.create_array(store, **chain, **options)


@pytest.mark.filterwarnings("ignore:Combining a `sharding_indexed`")
@pytest.mark.parametrize("name", CHAINS)
def test_reads_and_writes_agree_with_zarr_python(name: str) -> None:
    store, theirs = made(CHAINS[name])
    wanted = np.full_like(VALUES, FILL)
    theirs[3:, 5:] = wanted[3:, 5:] = VALUES[3:, 5:]
    a = ps.open(store)
    np.testing.assert_array_equal(a[...], wanted)
    a[1:15, ::2] = wanted[1:15, ::2] = VALUES[1:15, ::2] + 1000
    a.oindex[[19, 0], [29, 1, 1]] = 4
    wanted[np.ix_([19, 0], [29, 1])] = 4
    a.vindex[[7, 8], [16, 15]] = wanted[[7, 8], [16, 15]] = [5, 6]
    for reader in (a, ps.open(store), theirs):
        np.testing.assert_array_equal(reader[...], wanted)
    np.testing.assert_array_equal(a[17:2:-3, 4:], wanted[17:2:-3, 4:])
    np.testing.assert_array_equal(a.vindex[[19, 0, 19], [0, 29, 0]], wanted[[19, 0, 19], [0, 29, 0]])
    a[...] = FILL
    assert [key for key in store._store_dict if key != "zarr.json"] == []


@pytest.mark.filterwarnings("ignore:Combining a `sharding_indexed`")
def test_text() -> None:
    words = np.array(["", "a", "\u00e9\u4e16", "xyz" * 50] * 6, dtype=object)
    options = {"shape": 24, "chunks": 8, "dtype": str, "fill_value": "none"}
    store, theirs = made([shard((4,), VLenUTF8Codec(), ZstdCodec()), ZstdCodec()], **options)
    theirs[:10] = words[:10]
    a = ps.open(store)
    a[9:11] = words[9:11]
    wanted = [*words[:11], *["none"] * 13]
    assert list(a[...]) == wanted
    assert list(theirs[...]) == wanted


@pytest.mark.filterwarnings("ignore:Combining a `sharding_indexed`")
def test_is_described_by_name() -> None:
    store, theirs = made(CHAINS["nested, both compressed"])
    a = ps.open(store)
    assert (a.chunks, a.shards) == (theirs.chunks, theirs.shards) == ((8, 16), None)
    theirs[...] = VALUES
    assert "sharding_indexed((4, 4), sharding_indexed((2, 4)" in str(a.plan(...))


@pytest.mark.filterwarnings("ignore:Combining a `sharding_indexed`")
def test_damage_is_named() -> None:
    folder: dict[str, bytes] = {}
    store, theirs = made(CHAINS["zstd"])
    theirs[...] = VALUES
    for key, value in store._store_dict.items():
        folder[key] = value.to_bytes()
    whole = bytearray(Zstd().decode(folder["c/0/0"]))
    for damage, message in [
        (whole[:100], "shard has 100 bytes, its index needs"),
        (whole[:-1], "crc32c"),
        (whole[:40] + b"\0" * 4 + whole[44:], r"decoding entry \d+ of the shard"),
    ]:
        folder["c/0/0"] = Zstd().encode(bytes(damage))
        with pytest.raises(ps.Error, match=message) as caught:
            ps.open(folder)[:4]
        assert "c/0/0" in str(caught.value)
        assert "sharding_indexed" in str(caught.value)
        np.testing.assert_array_equal(ps.open(folder)[8:], VALUES[8:])


def test_sharding_after_codecs_of_whole_arrays_is_refused() -> None:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [8],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}, shard((4,)).to_dict()],
    }
    with pytest.raises(ps.Error, match=r"'numcodecs\.delta' before sharding_indexed is not readable"):
        ps.open({"zarr.json": json.dumps(document).encode()})
