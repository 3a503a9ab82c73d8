"""Sizes from which reads and writes use other threads, none of which may wait for the GIL."""

from __future__ import annotations

import numpy as np
import penstock as ps
import penstock.zarr as pz
import pytest
import zarr
from conftest import ZARR_VERSION
from zarr.storage import MemoryStore


@pytest.mark.parametrize("bytes_off", [-4096, 0, 4096])
@pytest.mark.parametrize("shards", [None, (2048,)])
def test_arrays_around_the_size_limit_of_single_threads(bytes_off, shards):
    items = ((512 << 10) + bytes_off) // 4
    values = np.arange(items, dtype="i4")
    with pz.enable():
        store = MemoryStore()
        a = zarr.create_array(store, shape=values.shape, chunks=(1024,), shards=shards, dtype="i4")
        a[:] = values
        assert np.array_equal(a[:], values)
        if ZARR_VERSION >= (3, 4):
            assert np.array_equal(pz.wrap(a)[:], values)
    assert np.array_equal(ps.open(store)[:], values)
