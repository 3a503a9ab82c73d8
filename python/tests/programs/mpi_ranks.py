"""Started by test_mpi.py on several ranks: every rank prints the cases that it has passed."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import penstock.mpi
import pytest
from mpi4py import MPI
from penstock.shards import sharded_array as _sharded_array
from penstock.target import portable as _portable


def tiles_of_a_path(comm: Any, folder: Path, values: Any) -> None:
    for axis in range(values.ndim):
        mine = penstock.mpi.load(str(folder / "a.zarr"), comm, axis=axis)
        np.testing.assert_array_equal(mine, values[penstock.mpi.tile(values.shape, comm, axis=axis)])
        together = np.concatenate(comm.allgather(mine), axis=axis)
        np.testing.assert_array_equal(together, values)


def out_and_an_open_array(comm: Any, folder: Path, values: Any) -> None:
    opened = penstock.mpi.open(str(folder / "a.zarr"), comm)
    wanted = values[penstock.mpi.tile(values.shape, comm)]
    out = np.zeros(wanted.shape, values.dtype)
    assert penstock.mpi.load(opened, comm, out=out) is out
    np.testing.assert_array_equal(out, wanted)


def more_ranks_than_rows(comm: Any, folder: Path, values: Any) -> None:
    few = penstock.mpi.load(str(folder / "few.zarr"), comm)
    rows = comm.allgather(few.shape)
    assert sum(shape[0] for shape in rows) == 2
    assert few.shape[1:] == (3,)
    if comm.Get_rank() >= 2:
        assert few.shape == (0, 3)


def only_rank_0_asks_for_metadata(comm: Any, folder: Path, values: Any) -> None:
    document, aside = folder / "a.zarr" / "zarr.json", folder / "aside.json"
    pack = _portable.pack

    def pack_and_hide(array: Any) -> bytes:
        packed = pack(array)
        document.rename(aside)
        return packed

    _portable.pack = pack_and_hide
    try:
        array = penstock.mpi.open(str(folder / "a.zarr"), comm)
        np.testing.assert_array_equal(array[-1], values[-1])
    finally:
        _portable.pack = pack
        comm.Barrier()
        if comm.Get_rank() == 0:
            aside.rename(document)


def a_missing_array(comm: Any, folder: Path, values: Any) -> None:
    with pytest.raises(ps.NotFoundError, match="rank 0 of" if comm.Get_rank() else "nothing.zarr"):
        penstock.mpi.load(str(folder / "nothing.zarr"), comm)


def damage_that_one_rank_meets(comm: Any, folder: Path, values: Any) -> None:
    last = min(comm.Get_size(), values.shape[0]) - 1
    with pytest.raises(ps.CorruptDataError) as failed:
        penstock.mpi.load(str(folder / "damaged.zarr"), comm)
    assert "c/22/0" in str(failed.value)
    assert (f"rank {last} of {comm.Get_size()} failed" in str(failed.value)) == (comm.Get_rank() != last)


def another_exception(comm: Any, folder: Path, values: Any) -> None:
    def opener(target: str) -> Any:
        raise RuntimeError(f"no {target}")

    wanted: Any = (ps.StorageError, "RuntimeError: no x") if comm.Get_rank() else (RuntimeError, "no x")
    with pytest.raises(wanted[0], match=wanted[1]):
        penstock.mpi.open("x", comm, opener=opener)


def shards_of_every_kind(comm: Any, folder: Path, values: Any) -> None:
    asked = [("npy", {}), ("raw", {}), ("zarr", {}), ("npz", {})]
    asked += [("h5", {"dataset": "x"})] if (folder / "part_0.h5").exists() else []
    asked += [("parquet", {"column": "x"})] if (folder / "part_0.parquet").exists() else []
    for suffix, options in asked:
        opener = partial(ps.open_shards, **options)
        for axis in range(values.ndim):
            mine = penstock.mpi.load(str(folder / f"part_*.{suffix}"), comm, axis=axis, opener=opener)
            np.testing.assert_array_equal(np.concatenate(comm.allgather(mine), axis=axis), values)


def rows_of(path: str) -> tuple[int, tuple[int, ...], str]:
    assert MPI.COMM_WORLD.Get_rank() == 0, "the others receive it"
    found = np.load(path, mmap_mode="r")
    return found.shape[0], found.shape[1:], found.dtype.str


def read_rows(path: str, low: int, high: int) -> Any:
    return np.load(path, mmap_mode="r")[low:high]


def own_readers(comm: Any, folder: Path, values: Any) -> None:
    opener = partial(ps.open_shards, metadata=rows_of, reader=read_rows)
    mine = penstock.mpi.load(str(folder / "part_*.npy"), comm, opener=opener)
    np.testing.assert_array_equal(np.concatenate(comm.allgather(mine)), values)


def a_rank_that_lacks_a_file(comm: Any, folder: Path, values: Any) -> None:
    last = min(comm.Get_size(), values.shape[0]) - 1
    array = penstock.mpi.open(str(folder / "part_*.npy"), comm, opener=ps.open_shards)
    if comm.Get_rank() == last:  # the last file is not visible to this rank
        root, manifest, options, missing = array.__reduce__()[1]
        array = _sharded_array._unpickle(root.rstrip("/") + "/lacking", manifest, options, missing)
    with pytest.raises(ps.ConflictError, match=r"part_3\.npy' was removed") as failed:
        penstock.mpi.load(array, comm)
    assert (f"rank {last} of {comm.Get_size()} failed" in str(failed.value)) == (comm.Get_rank() != last)


def gpus_of_their_own(comm: Any, folder: Path, values: Any) -> None:
    for name, number in (("cuda", comm.Get_rank() % 2), ("cuda:1", 1), ("cuda:0", 0)):
        mine = penstock.mpi.load(str(folder / "part_*.npy"), comm, opener=ps.open_shards, device=name)
        assert mine.device == f"cuda:{number}"
        np.testing.assert_array_equal(np.concatenate(comm.allgather(mine.numpy())), values)


CASES = [
    tiles_of_a_path,
    out_and_an_open_array,
    more_ranks_than_rows,
    only_rank_0_asks_for_metadata,
    a_missing_array,
    damage_that_one_rank_meets,
    another_exception,
    shards_of_every_kind,
    own_readers,
    a_rank_that_lacks_a_file,
]
if "PENSTOCK_CUDA_DRIVER" in os.environ:  # the fake driver, with two devices
    CASES = [gpus_of_their_own]

if __name__ == "__main__":
    world = MPI.COMM_WORLD
    where = Path(sys.argv[1])
    for case in CASES:
        case(world, where, np.load(where / "values.npy"))
        print(f"[{world.Get_rank()}: {case.__name__}]", flush=True)
        world.Barrier()
