"""Reads one tile of an array on each MPI rank. The public names are in `penstock.mpi`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from penstock import _core
from penstock.api.open import open_array
from penstock.api.shared_copy import SharedCopy, has_two_passes, shared_copy
from penstock.core.array import Array
from penstock.core.errors import Error, InvalidArgumentError, StorageError
from penstock.core.group import Group
from penstock.core.tiles import tiles
from penstock.target import portable as _portable

__all__ = ["convert", "load", "open", "rechunk", "tile"]

T = TypeVar("T")


def open(target: Any, comm: Any = None, *, opener: Callable[..., Array] = open_array, **options: Any) -> Array:
    """Open an array on every rank; only rank 0 reads storage, and it broadcasts the metadata.

    Parameters
    ----------
    target
        The argument of `opener`: a path or URI, a pattern of shards with `opener=ps.open_shards`. Used on rank 0 only.
    comm
        An `mpi4py` communicator; None: `MPI.COMM_WORLD`.
    opener, options
        Called on rank 0 as `opener(target, **options)`.

    Returns
    -------
    Array
        The same array on every rank.

    Raises
    ------
    Error
        The error of rank 0, on every rank.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import penstock.mpi
    >>> ps.save("run.zarr", np.ones((100, 20)))
    >>> penstock.mpi.open("run.zarr").shape
    (100, 20)
    >>> ps.save_shards(np.zeros((10, 2)), "part_{}.npy", rows=5)
    ['part_0.npy', 'part_1.npy']
    >>> penstock.mpi.open("part_*.npy", opener=ps.open_shards).shape
    (10, 2)
    """
    comm = _world(comm)
    packed = _on_first(comm, lambda: _portable.pack(opener(target, **options)))
    return _together(comm, lambda: _portable.unpack(packed))


def tile(shape: tuple[int, ...], comm: Any = None, *, axis: int = 0) -> tuple[slice, ...]:
    """Return this rank's part of an array of that shape: see `ps.tiles`.

    Parameters
    ----------
    shape
        Of the array; at least one dimension.
    comm
        An `mpi4py` communicator; None: `MPI.COMM_WORLD`.
    axis
        The axis that is divided.

    Returns
    -------
    tuple of slice
        A rank beyond the last tile has none of `axis`: its slice is empty.

    Raises
    ------
    InvalidArgumentError
        The shape has no dimensions, or the axis is out of range.

    Examples
    --------
    On the only rank of a program without a launcher:

    >>> from mpi4py import MPI
    >>> import penstock.mpi
    >>> penstock.mpi.tile((100, 20), MPI.COMM_SELF)
    (slice(0, 100, None), slice(0, 20, None))
    """
    comm = _world(comm)
    parts = tiles(shape, comm.Get_size(), axis=axis)
    rank: int = comm.Get_rank()
    if rank < len(parts):
        return parts[rank]
    axis %= len(shape)
    return tuple(slice(n, n) if d == axis else slice(0, n) for d, n in enumerate(shape))


def load(
    source: Any,
    comm: Any = None,
    *,
    axis: int = 0,
    device: str | None = None,
    out: Any = None,
    threads: int | None = None,
    **options: Any,
) -> Any:
    """Read this rank's tile of an array: `a[tile(a.shape)]`.

    Parameters
    ----------
    source
        An open `Array`, the same on every rank, or a target of `open`.
    comm
        An `mpi4py` communicator; None: `MPI.COMM_WORLD`.
    axis
        The axis that is divided: rank r holds the r-th of equal runs; the last one may be shorter. With more ranks than
        rows the last ranks hold none.
    device, out, threads
        As for `Array.read`. Ranks of one machine share its GPUs and cores: "cuda" is the GPU with the rank's number on
        its machine (cyclically if there are more ranks than GPUs), not the current one, and threads=None gives each
        rank its share of the cores.
    options
        For `open`.

    Returns
    -------
    numpy.ndarray or Tensor
        The tile; it may have no rows.

    Raises
    ------
    Error
        The failure of this rank; on the other ranks a StorageError with the rank and its error.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import penstock.mpi
    >>> ps.save("run.zarr", np.arange(40.0).reshape(10, 4))
    >>> rows = penstock.mpi.load("run.zarr")
    >>> MPI.COMM_WORLD.allreduce(len(rows))
    10
    """
    comm = _world(comm)
    array = source if isinstance(source, Array) else open(source, comm, **options)
    picks = device is not None and str(device) == "cuda"
    machine = _Machine(comm) if threads is None or picks else None
    threads = machine.threads() if threads is None and machine is not None else threads

    def read() -> Any:
        if not array.shape:
            raise InvalidArgumentError("an array without dimensions has no tiles")
        return array.read(
            tile(array.shape, comm, axis=axis),
            out=out,
            device=machine.device() if picks and machine is not None else device,
            threads=threads,
        )

    return _together(comm, read)


def rechunk(source: Any, target: Any, chunks: Any, comm: Any = None, **options: Any) -> Array | Group:
    """Copy into other chunks, as `penstock.rechunk`, by all ranks: each writes its part of the target's objects.

    Ranks exchange nothing. Rank 0 checks the arguments and writes the metadata. If an array needs two passes, the ranks
    wait once for each other, and the file in `scratch` must be visible to all of them.

    Parameters
    ----------
    source, target
        A target of `penstock.open`, the same on every rank; or an open array or group. Groups of other formats than
        Zarr are refused (`UnsupportedError`): copy their arrays one by one.
    chunks
        As for `penstock.rechunk`.
    comm
        An `mpi4py` communicator; None: `MPI.COMM_WORLD`.
    options
        `path`, `shards`, `codecs`, `zarr_format`, `memory`, `scratch`, `resume`, `durable`, `verify`, `threads`,
        `storage_options` and `target_options` of `penstock.rechunk`. `memory` and `threads` are of one rank; ranks of
        one machine share both by default. After a rank was killed, `resume=True` continues.

    Returns
    -------
    Array or Group
        The copy, on every rank.

    Raises
    ------
    Error
        As for `penstock.rechunk`, on every rank.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import penstock.mpi
    >>> ps.save("maps.zarr", np.ones((20, 40)))
    >>> penstock.mpi.rechunk("maps.zarr", "series.zarr", {0: -1, 1: 8}).chunks
    (20, 8)
    """
    return _share(comm, shared_copy(source, target, chunks, False, options))


def convert(source: Any, target: Any, comm: Any = None, *, chunks: Any = None, **options: Any) -> Array | Group:
    """Convert to Zarr, as `penstock.convert`, by all ranks.

    As `rechunk` of this module, with the source's chunks if none are given.

    Parameters
    ----------
    source, target, comm, options
        As for `rechunk`; also `consolidate` of `penstock.convert`.
    chunks
        As for `penstock.convert`; None: the source's.

    Returns
    -------
    Array or Group
        The copy, on every rank.

    Raises
    ------
    UnsupportedError
        The target is one file: TIFF, HDF5 or `.npy`.
    Error
        As for `penstock.convert`, on every rank.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> import penstock.mpi
    >>> np.save("x.npy", np.ones((20, 40)))
    >>> penstock.mpi.convert("x.npy", "x.zarr").shape
    (20, 40)
    """
    return _share(comm, shared_copy(source, target, chunks, True, options))


def _share(comm: Any, work: SharedCopy) -> Array | Group:
    comm = _world(comm)
    machine = _Machine(comm)
    rank, ranks = comm.Get_rank(), comm.Get_size()
    # The plan depends on memory and threads: every rank has those of rank 0.
    bounds = _on_first(comm, lambda: work.bounded(machine.size, machine.threads()).more)
    mine = replace(work, more=bounds)
    plan = _on_first(comm, lambda: mine.run("prepare"))
    _together(comm, lambda: mine.run("first", rank, ranks, plan))
    if has_two_passes(plan):
        _together(comm, lambda: mine.run("second", rank, ranks, plan))
    if bounds["verify"]:
        _together(comm, lambda: mine.run("compare", rank, ranks))
    _on_first(comm, lambda: mine.run("finish"))
    return _together(comm, mine.open)


class _Machine:
    """The ranks of one communicator that share this machine's memory."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        local = comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.rank, self.size = local.Get_rank(), local.Get_size()
        local.Free()

    def threads(self) -> int:
        # A rank that its launcher has bound to cores sees only those, and does not share them.
        mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        bound = mine < (os.cpu_count() or 1)
        return mine if bound else max(1, mine // self.size)

    def device(self) -> str:
        # If the launcher assigns each rank a GPU of its own, only one is visible.
        return f"cuda:{self.rank % max(1, _core._device_count())}"


class _Failure:
    """An exception of another rank, in a form that can be sent."""

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error) if isinstance(error, Error) else StorageError
        self.text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"

    def on_rank(self, rank: int, size: int) -> Error:
        return self.kind(f"rank {rank} of {size} failed", *self.text.splitlines())


def _on_first(comm: Any, work: Callable[[], T]) -> T:
    """The result of `work()` on rank 0, or its error, on all ranks."""
    failure: Exception | None = None
    made: Any = None
    if comm.Get_rank() == 0:
        try:
            made = work()
        except Exception as error:
            failure = error
    sent = comm.bcast((made, None if failure is None else _Failure(failure)), root=0)
    if failure is not None:
        raise failure
    if sent[1] is not None:
        raise sent[1].on_rank(0, comm.Get_size())
    result: T = sent[0]
    return result


def _together(comm: Any, work: Callable[[], T]) -> T:
    """`work()`; if it failed on any rank, an error on all."""
    failure: Exception | None = None
    made: Any = None
    try:
        made = work()
    except Exception as error:
        failure = error
    # Every rank reaches this, so no rank waits for one that failed.
    states = comm.allgather(None if failure is None else _Failure(failure))
    if failure is not None:
        raise failure
    for rank, other in enumerate(states):
        if other is not None:
            raise other.on_rank(rank, comm.Get_size())
    result: T = made
    return result


def _world(comm: Any) -> Any:
    if comm is not None:
        return comm
    from mpi4py import MPI

    return MPI.COMM_WORLD
