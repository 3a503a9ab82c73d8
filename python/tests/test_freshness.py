"""An open array shows what storage holds now, never a mixture of what it held before."""

from __future__ import annotations

import os
import shutil

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import as_bytes, sharded, write
from zarr.codecs import BytesCodec, ZstdCodec

BEFORE = np.arange(256, dtype="<i4").reshape(16, 16)
AFTER = np.random.default_rng(1).integers(-(2**31), 2**31 - 1, (16, 16), dtype="<i4")
CHAINS = {"sharded": ((8, 8), sharded((2, 4))), "plain": ((4, 8), [BytesCodec(), ZstdCodec(level=0)])}


@pytest.mark.parametrize("kind", CHAINS)
def test_rewritten_chunks_of_a_file_array_are_seen(kind, tmp_path):
    chunks, codecs = CHAINS[kind]
    path = tmp_path / "x.zarr"
    write(BEFORE, chunks, codecs, store=path)
    array = ps.open(path)
    np.testing.assert_array_equal(array[...], BEFORE)
    zarr.open_array(path)[...] = AFTER
    np.testing.assert_array_equal(array[...], AFTER)
    zarr.open_array(path)[3:9, 5] = 1
    want = AFTER.copy()
    want[3:9, 5] = 1
    np.testing.assert_array_equal(array[3:9, 3:7], want[3:9, 3:7])
    np.testing.assert_array_equal(array[...], want)


@pytest.mark.parametrize("kind", CHAINS)
def test_a_replaced_directory_is_seen(kind, tmp_path):
    chunks, codecs = CHAINS[kind]
    write(BEFORE, chunks, codecs, store=tmp_path / "x.zarr")
    write(AFTER, chunks, codecs, store=tmp_path / "next.zarr")
    array = ps.open(tmp_path / "x.zarr")
    np.testing.assert_array_equal(array[...], BEFORE)
    os.rename(tmp_path / "x.zarr", tmp_path / "old.zarr")
    os.rename(tmp_path / "next.zarr", tmp_path / "x.zarr")
    np.testing.assert_array_equal(array[...], AFTER)
    shutil.rmtree(tmp_path / "old.zarr")
    np.testing.assert_array_equal(array[...], AFTER)


def test_shards_that_appear_or_are_erased_are_seen(tmp_path):
    path = tmp_path / "x.zarr"
    write(BEFORE, (8, 8), sharded((2, 4)), store=path, fill_value=-1)
    array = ps.open(path)
    np.testing.assert_array_equal(array[...], BEFORE)
    shard = path / "c" / "0" / "1"
    os.rename(shard, tmp_path / "kept")
    want = BEFORE.copy()
    want[:8, 8:] = -1
    np.testing.assert_array_equal(array[...], want)
    os.rename(tmp_path / "kept", shard)
    np.testing.assert_array_equal(array[...], BEFORE)


def test_many_rewrites_in_a_row_are_seen(tmp_path):
    path = tmp_path / "x.zarr"
    write(BEFORE, (16, 16), sharded((4, 4)), store=path)
    array, writer = ps.open(path), zarr.open_array(path)
    for turn in range(60):
        writer[...] = BEFORE + turn
        np.testing.assert_array_equal(array[5:7, ::3], BEFORE[5:7, ::3] + turn)


@pytest.mark.parametrize("kind", CHAINS)
def test_values_replaced_in_a_dict_are_seen(kind):
    chunks, codecs = CHAINS[kind]
    values = write(BEFORE, chunks, codecs)
    array = ps.open(values)
    np.testing.assert_array_equal(array[...], BEFORE)
    new = write(AFTER, chunks, codecs)
    for key in [*values]:
        values[key] = new[key]
    np.testing.assert_array_equal(array[...], AFTER)
    # New objects, often at addresses that were used before.
    for turn in range(50):
        values.update(write(BEFORE + turn, chunks, codecs))
        np.testing.assert_array_equal(array[...], BEFORE + turn)


def test_bytearrays_changed_in_place_are_seen():
    values = {
        key: bytearray(value) for key, value in write(BEFORE, (16, 16), sharded((16, 16), [BytesCodec()])).items()
    }
    array = ps.open(values)
    np.testing.assert_array_equal(array[...], BEFORE)
    values["c/0/0"][:4] = b"\xff\xff\xff\xff"
    assert array[0, 0] == -1
    values["c/0/0"][:] = write(AFTER, (16, 16), sharded((16, 16), [BytesCodec()]))["c/0/0"]
    np.testing.assert_array_equal(array[...], AFTER)


@pytest.mark.parametrize("kind", CHAINS)
def test_changes_by_zarr_of_its_memory_store_are_seen(kind):
    chunks, codecs = CHAINS[kind]
    store = zarr.storage.MemoryStore({})
    write(BEFORE, chunks, codecs, store=store)
    array = ps.open(store)
    np.testing.assert_array_equal(array[...], BEFORE)
    for turn in range(20):
        zarr.open_array(store)[...] = AFTER - turn
        np.testing.assert_array_equal(array[...], AFTER - turn)
        zarr.open_array(store)[1:3, 5] = turn
        assert array[2, 5] == turn


class Plain:
    """A store without versions that counts requests."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values
        self.asked: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.asked.append(key)
        return self.values.get(key)


@pytest.mark.parametrize("kind", CHAINS)
def test_every_read_queries_a_store_without_versions(kind):
    chunks, codecs = CHAINS[kind]
    store = Plain(write(BEFORE, chunks, codecs))
    array = ps.open(store)
    np.testing.assert_array_equal(array[...], BEFORE)
    store.values = write(AFTER, chunks, codecs)
    np.testing.assert_array_equal(array[...], AFTER)


def test_cache_index_caches_indexes_without_versions():
    store = Plain(write(BEFORE, (16, 16), sharded((4, 4))))
    asked = []
    for cache_index in (False, True):
        array = ps.open(store, cache_index=cache_index)
        np.testing.assert_array_equal(array[0, :3], BEFORE[0, :3])
        store.asked.clear()
        np.testing.assert_array_equal(array[5, :3], BEFORE[5, :3])
        asked.append(len(store.asked))
    assert asked == [2, 1]  # the index and the chunk; then the chunk alone


def test_metadata_is_read_when_an_array_is_opened(tmp_path):
    store = zarr.storage.MemoryStore({})
    write(BEFORE, (16, 16), store=store)
    array = ps.open(store)
    write(AFTER[:8], (8, 16), store=store)
    assert array.shape == (16, 16)
    assert ps.open(as_bytes(store)).shape == (8, 16)
