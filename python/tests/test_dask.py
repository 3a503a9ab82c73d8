"""Arrays as Dask arrays, with threads and with a cluster of two workers."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

dask_array = pytest.importorskip("dask.array")

import penstock.dask  # noqa: E402


@pytest.fixture
def array(tmp_path: Path) -> ps.Array:
    values = np.random.default_rng(2).random((60, 50))
    made = ps.create_array(tmp_path / "a.zarr", shape=values.shape, dtype="f8", chunks=(5, 10), shards=(20, 30))
    made[:] = values
    return made


def test_blocks_are_read_unchanged(array: ps.Array) -> None:
    made = penstock.dask.from_array(array, chunks=(20, 30))
    assert made.chunks == ((20, 20, 20), (30, 20))
    np.testing.assert_array_equal(made.compute(scheduler="threads"), array[:])
    np.testing.assert_array_equal(made[3:40:7, -1].compute(), array[3:40:7, -1])
    np.testing.assert_allclose(made.mean(axis=0).compute(), array[:].mean(axis=0))


def test_bytes_of_blocks_are_numbers_or_text(array: ps.Array) -> None:
    assert penstock.dask.blocks(array, "9600B") == penstock.dask.blocks(array, 9600) == (20, 50)
    assert all(type(length) is int for length in penstock.dask.blocks(array, 9600.0))  # type: ignore[arg-type]
    with pytest.raises(ps.InvalidArgumentError, match="block_bytes must be a number of bytes"):
        penstock.dask.blocks(array, -1)


def test_from_array_of_dask_takes_arrays_too(array: ps.Array) -> None:
    np.testing.assert_array_equal(dask_array.from_array(array).compute(), array[:])


def shards(folder: Path, values: np.ndarray) -> dict[str, ps.Array]:
    """The same array as shards of files, of Zarr and of HDF5, and from a custom reader."""

    def rows_of(path: str) -> tuple[int, tuple[int, ...], str]:
        found = np.load(path, mmap_mode="r")
        return found.shape[0], found.shape[1:], found.dtype.str

    def read_rows(path: str, low: int, high: int) -> np.ndarray:
        return np.load(path, mmap_mode="r")[low:high]

    for suffix in ("npy", "zarr", "npz", *(["h5"] if importlib.util.find_spec("h5py") else [])):
        ps.save_shards(values, folder / f"part_{{}}.{suffix}", rows=25)
    npy = str(folder / "part_*.npy")
    made = {
        "npy": ps.open_shards(npy),
        "zarr": ps.open_shards(str(folder / "part_*.zarr")),
        "npz": ps.open_shards(str(folder / "part_*.npz")),
        "own": ps.open_shards(npy, metadata=rows_of, reader=read_rows),
    }
    if (folder / "part_0.h5").exists():
        made["hdf5"] = ps.open_shards(str(folder / "part_*.h5"), dataset="x")
    return made


def test_workers_of_a_cluster_open_the_array_themselves(array: ps.Array, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        made = penstock.dask.from_array(array, chunks=(20, 30))
        np.testing.assert_array_equal(made.compute(), array[:])
        np.testing.assert_allclose((made + 1).sum(axis=1).compute(), (array[:] + 1).sum(axis=1))
        for name, joined in shards(tmp_path, array[:]).items():
            made = penstock.dask.from_array(joined, chunks=(20, 30))
            np.testing.assert_array_equal(made.compute(), array[:], err_msg=name)


class Described:
    """The attributes that `blocks` uses."""

    def __init__(self, shape: tuple[int, ...], chunks: tuple[int, ...], shards: tuple[int, ...] | None) -> None:
        self.shape, self.chunks, self.shards, self.dtype = shape, chunks, shards, np.dtype("u2")


@settings(max_examples=300, deadline=None)
@given(
    axes=st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 300), st.integers(1, 20)), min_size=1, max_size=4),
    sharded=st.booleans(),
    limit=st.integers(1, 1 << 24),
)
def test_blocks_are_whole_objects_below_the_limit(axes: list[tuple[int, int, int]], sharded: bool, limit: int) -> None:
    shape = tuple(n for n, _, _ in axes)
    chunks = tuple(c for _, c, _ in axes)
    shards = tuple(c * k for _, c, k in axes) if sharded else None
    block = penstock.dask.blocks(Described(shape, chunks, shards), limit)  # type: ignore[arg-type]
    unit = shards or chunks
    bytes_of_chunk = 2 * math.prod(min(c, max(1, n)) for c, n in zip(chunks, shape, strict=True))
    assert 2 * math.prod(block) <= max(limit, bytes_of_chunk)
    for n, length, chunk, whole in zip(block, shape, chunks, unit, strict=True):
        assert 1 <= n <= max(1, length)
        assert n == length or n % chunk == 0 or length == 0
        assert n == length or n % whole == 0 or 2 * math.prod(unit) > limit or length == 0


def test_an_array_of_a_dict_works_with_threads() -> None:
    made = ps.create_array({}, shape=(4,), dtype="i4", chunks=(2,))
    made[:] = [1, 2, 3, 4]
    assert penstock.dask.from_array(made).sum().compute(scheduler="threads") == 10


@pytest.mark.parametrize("kind", ["dict", "store", "wrapped", "group", "fsspec"])
def test_copies_into_memory_of_this_process_are_refused(array: ps.Array, kind: str) -> None:
    zarr = pytest.importorskip("zarr")
    target: Any = {} if kind == "dict" else zarr.storage.MemoryStore()
    if kind == "wrapped":
        target = zarr.storage.WrapperStore(target)
    elif kind == "fsspec":
        fsspec = pytest.importorskip("fsspec")
        target = fsspec.filesystem("dir", path="/copies", fs=fsspec.filesystem("memory")).get_mapper("")
    elif kind == "group":
        target = zarr.create_group(target)
    for work in (penstock.dask.rechunk, penstock.dask.convert):
        with pytest.raises(ps.UnsupportedError, match="copies of it"):
            work(array, target, chunks=(5, 5))


def test_masks_of_blocks_are_not_lost(tmp_path: Path) -> None:
    values = np.arange(32, dtype="f4").reshape(1, 4, 8)
    blocks = dask_array.ma.masked_equal(dask_array.from_array(values, chunks=(1, 2, 8)), 20)
    ps.create_array(tmp_path / "a.zarr", data=values)
    a = ps.open(tmp_path / "a.zarr", mode="r+")
    for write in (
        lambda: ps.save(tmp_path / "b.zarr", blocks),
        lambda: ps.save(tmp_path / "b.npy", blocks),
        lambda: ps.save(tmp_path / "b.tif", blocks),
        lambda: ps.save_shards(blocks, str(tmp_path / "b_{}.npy"), rows=1),
        lambda: a.write(..., blocks),
    ):
        with pytest.raises(ps.InvalidArgumentError, match="masked"):
            write()
    assert [each.name for each in tmp_path.iterdir()] == ["a.zarr"]
    np.testing.assert_array_equal(a[...], values)
    ps.save(tmp_path / "b.tif", blocks, nodata=-1)
    np.testing.assert_array_equal(ps.open(tmp_path / "b.tif")[...], np.where(values == 20, -1, values))


def test_masks_of_blocks_of_a_data_array_are_not_lost(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    values = np.arange(32, dtype="f4").reshape(1, 4, 8)
    blocks = dask_array.from_array(values, chunks=(1, 2, 8))
    # Of blocks that Dask knows to be masked xarray makes NaN.
    masked = blocks.map_blocks(lambda block: np.ma.masked_equal(block, 20), meta=np.array((), "f4"))
    data = xarray.DataArray(masked, dims=("band", "y", "x"))
    a = ps.create_array(tmp_path / "a.zarr", data=values)
    for write in (
        lambda: ps.save(tmp_path / "b.zarr", data),
        lambda: ps.save(tmp_path / "b.npy", data),
        lambda: ps.save(tmp_path / "b.tif", data),
        lambda: ps.save_shards(data, str(tmp_path / "b_{}.npy"), rows=1),
        lambda: a.write(..., data),
    ):
        with pytest.raises(ps.InvalidArgumentError, match="masked"):
            write()
    assert [each.name for each in tmp_path.iterdir()] == ["a.zarr"]
    wanted = np.where(values == 20, -1, values)
    ps.save(tmp_path / "b.tif", data, nodata=-1)
    ps.save(tmp_path / "c.tif", data.assign_attrs(_FillValue=-1))
    for name in ("b.tif", "c.tif"):
        np.testing.assert_array_equal(ps.open(tmp_path / name)[...], wanted)
    made = ps.create_array(tmp_path / "d.zarr", data=data, fill_value=-1)
    np.testing.assert_array_equal(made[...], wanted)
    ps.save(tmp_path / "e.zarr", xarray.DataArray(dask_array.from_array(values, chunks=2), dims=("band", "y", "x")))
    np.testing.assert_array_equal(ps.open(tmp_path / "e.zarr")[...], values)
