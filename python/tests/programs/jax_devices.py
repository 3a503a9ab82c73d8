"""Started by test_jax.py: loads over eight devices."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import ml_dtypes
import numpy as np
import penstock as ps
import penstock.jax
import pytest
from jax.sharding import NamedSharding, PartitionSpec

where = Path(sys.argv[1])
a: Any = ps.open(where / "a.zarr")
values = a[:]
devices = np.array(jax.devices())
assert len(devices) == 8
grid = jax.sharding.Mesh(devices.reshape(4, 2), ("y", "x"))

for spec in (
    PartitionSpec("y", "x"),
    PartitionSpec("x"),
    PartitionSpec(None, "y"),
    PartitionSpec(),
    PartitionSpec(("y", "x")),
):
    sharding = NamedSharding(grid, spec)
    made = penstock.jax.load(a, sharding)
    assert made.sharding == sharding
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, values)
    for shard in made.addressable_shards:
        np.testing.assert_array_equal(shard.data, values[shard.index])

# Replicas share one read: eight devices that hold the whole array cause one.
reads = []
read_async = ps.Array.read_async


def counted(self: ps.Array, selection: Any = ..., **options: Any) -> Any:
    reads.append(selection)
    return read_async(self, selection, **options)


ps.Array.read_async = counted  # type: ignore[method-assign]
penstock.jax.load(a, NamedSharding(grid, PartitionSpec()))
assert len(reads) == 1
penstock.jax.load(a, NamedSharding(grid, PartitionSpec("y")))
assert len(reads) == 1 + 4
ps.Array.read_async = read_async  # type: ignore[method-assign]

assert penstock.jax.load(a, jax.devices()[3]).devices() == {jax.devices()[3]}
assert penstock.jax.load(where / "wide.zarr", jax.devices()[0]).dtype == np.float32  # as jax.numpy.asarray
for kind in ("pinned_host", "device"):
    made = penstock.jax.load(a, NamedSharding(grid, PartitionSpec("y"), memory_kind=kind))
    assert {shard.data.sharding.memory_kind for shard in made.addressable_shards} == {kind}
    np.testing.assert_array_equal(made, values)
for wrong in ("cpu", None, grid):
    with pytest.raises(ps.InvalidArgumentError, match="sharding must be"):
        penstock.jax.load(a, wrong)
half = penstock.jax.load(a, jax.devices()[0], dtype=ml_dtypes.bfloat16)
assert half.dtype == ml_dtypes.bfloat16
np.testing.assert_array_equal(np.asarray(half), values.astype(ml_dtypes.bfloat16))


def rows_of(path: str) -> tuple[int, tuple[int, ...], str]:
    found = np.load(path, mmap_mode="r")
    return found.shape[0], found.shape[1:], found.dtype.str


def read_rows(path: str, low: int, high: int) -> Any:
    return np.load(path, mmap_mode="r")[low:high]


# Shards in files, and shards from a custom reader.
shards = str(where / "part_*.npy")
for joined in (ps.open_shards(shards), ps.open_shards(shards, metadata=rows_of, reader=read_rows)):
    for spec in (PartitionSpec("y", "x"), PartitionSpec(None, "y"), PartitionSpec()):
        made = penstock.jax.load(joined, NamedSharding(grid, spec))
        np.testing.assert_array_equal(made, values)
        for shard in made.addressable_shards:
            np.testing.assert_array_equal(shard.data, values[shard.index])

with pytest.raises(ps.InvalidArgumentError, match="does not divide"):
    penstock.jax.load(where / "wide.zarr", NamedSharding(jax.sharding.Mesh(devices[:3], "z"), PartitionSpec("z")))
for other in (where / "text.zarr", *(ps.create_array({}, shape=3, dtype=name) for name in ("M8[s]", "m8[s]", "r32"))):
    with pytest.raises(ps.UnsupportedError, match="no elements of type"):
        penstock.jax.load(other, jax.devices()[0])
for asked, why in (("nonsense", "no data type named 'nonsense'"), ("M8[s]", r"no elements of type datetime64\[s\]")):
    with pytest.raises(ps.UnsupportedError, match=why):
        penstock.jax.load(a, jax.devices()[0], dtype=asked)
print("passed")
