"""Arrays as Dask arrays. The public names are in `penstock.dask`."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.api.open import open_array
from penstock.api.shared_copy import SharedCopy, Steps, has_two_passes, shared_copy
from penstock.core.array import Array
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.core.group import Group
from penstock.core.sizes import check_count, parse_bytes
from penstock.target.reopening import is_in_memory

if TYPE_CHECKING:
    import dask.array
    import distributed

__all__ = ["blocks", "convert", "from_array", "rechunk"]


def blocks(array: Array, block_bytes: int | str = 128 << 20) -> tuple[int, ...]:
    """Return a block shape for Dask: whole storage objects (shards, else chunks), as many as fit into `block_bytes`.

    Blocks grow from the last axis to the first, so that a block is one run of storage if possible. A larger object is
    cut along its first axes, at chunks.

    Parameters
    ----------
    array
        An open array.
    block_bytes
        The most bytes of a block, decoded; or text such as "128MiB".

    Returns
    -------
    tuple of int
        The length of a block along each axis, in elements.

    Raises
    ------
    InvalidArgumentError
        `block_bytes` is not a number of bytes.

    Examples
    --------
    >>> import dask, penstock.dask
    >>> a = ps.create_array({}, shape=(1000, 1000), dtype="f8", chunks=(10, 1000))
    >>> penstock.dask.blocks(a, block_bytes=1_000_000)
    (120, 1000)
    """
    unit = tuple(min(n, max(1, length)) for n, length in zip(array.shards or array.chunks, array.shape, strict=True))
    inner = tuple(min(n, max(1, length)) for n, length in zip(array.chunks, array.shape, strict=True))
    most = max(1, parse_bytes(block_bytes, "block_bytes") // max(1, array.dtype.itemsize))
    shape = list(unit)
    for axis in range(len(shape)):
        if math.prod(shape) <= most:
            break
        others = math.prod(shape) // shape[axis]
        shape[axis] = max(inner[axis], most // others // inner[axis] * inner[axis])
    for axis in reversed(range(len(shape))):
        if shape[axis] < unit[axis]:
            break  # the object was divided here
        others = math.prod(shape) // shape[axis]
        fits = max(1, most // others // unit[axis])
        shape[axis] = min(max(1, array.shape[axis]), fits * unit[axis])
    return tuple(shape)


def from_array(source: Any, chunks: Any = None, **options: Any) -> dask.array.Array:
    """Return a Dask array that reads `source` block by block.

    Workers of a cluster open the array themselves, by its URI; an array that only this process has, such as one of a
    dict, works with threads only.

    Parameters
    ----------
    source
        An open `Array`, or a target of `open_array`.
    chunks
        Blocks in Dask's notation; None: see `blocks`.
    options
        For `dask.array.from_array`: `name`, `lock`, `meta`.

    Returns
    -------
    dask.array.Array
        Lazy: opening reads the metadata only.

    Raises
    ------
    InvalidArgumentError
        `asarray=False`.

    Examples
    --------
    >>> import dask, penstock.dask
    >>> ps.save("run.zarr", np.arange(600.0).reshape(30, 20))
    >>> x = penstock.dask.from_array("run.zarr", chunks=(10, -1))
    >>> x.numblocks, float(x.sum().compute())
    ((3, 1), 179700.0)
    """
    import dask.array

    array = source if isinstance(source, Array) else open_array(source)
    if options.get("asarray") is False:
        raise InvalidArgumentError("blocks of an array are ndarrays: asarray cannot be False")
    made: dask.array.Array = dask.array.from_array(array, chunks=blocks(array) if chunks is None else chunks, **options)
    return made


def rechunk(
    source: Any,
    target: Any,
    chunks: Any,
    *,
    client: distributed.Client | None = None,
    parts: int | None = None,
    **options: Any,
) -> Array | Group:
    """Copy into other chunks, as `penstock.rechunk`, by the workers of a cluster: each task writes a part of the
    target's objects.

    Tasks exchange nothing. If an array needs two passes, the tasks of the second one begin when the first is done, and
    the file in `scratch` must be visible to all workers. The scheduler repeats the tasks of a worker that died; they
    continue where it stopped. Each task returns once its objects are written.

    Parameters
    ----------
    source, target
        A target of `penstock.open`, the same for every worker; or an open array or group that pickles. Groups of other
        formats than Zarr are refused (`UnsupportedError`): copy their arrays one by one.
    chunks
        As for `penstock.rechunk`.
    client
        None: the current one.
    parts
        Tasks of a pass; by default four for each worker.
    options
        As for `penstock.mpi.rechunk`. `memory` and `threads` are of one task; by default those of this process's
        context, divided among the workers of one machine.

    Returns
    -------
    Array or Group
        The copy.

    Raises
    ------
    Error
        As for `penstock.rechunk`, also of a task.
    InvalidArgumentError
        The cluster has no workers.
    UnsupportedError
        The target is a dict or a store in this process's memory, of which workers have copies.

    Examples
    --------
    >>> import dask, distributed, penstock.dask
    >>> ps.save("maps.zarr", np.ones((20, 40)))
    >>> with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
    ...     penstock.dask.rechunk("maps.zarr", "series.zarr", (20, 8), client=client).chunks
    (20, 8)
    """
    return _share(shared_copy(source, target, chunks, False, options), client, parts)


def convert(
    source: Any,
    target: Any,
    *,
    chunks: Any = None,
    client: distributed.Client | None = None,
    parts: int | None = None,
    **options: Any,
) -> Array | Group:
    """Convert to Zarr, as `penstock.convert`, by the workers of a cluster.

    As `rechunk` of this module, with the source's chunks if none are given.

    Parameters
    ----------
    source, target, client, parts, options
        As for `rechunk`; also `consolidate` of `penstock.convert`.
    chunks
        As for `penstock.convert`; None: the source's.

    Returns
    -------
    Array or Group
        The copy.

    Raises
    ------
    UnsupportedError
        The target is one file: TIFF, HDF5 or `.npy`; or as for `rechunk`.
    Error
        As for `penstock.convert`, also of a task.

    Examples
    --------
    >>> import dask, distributed, penstock.dask
    >>> np.save("x.npy", np.ones((20, 40)))
    >>> with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
    ...     penstock.dask.convert("x.npy", "x.zarr", client=client).shape
    (20, 40)
    """
    return _share(shared_copy(source, target, chunks, True, options), client, parts)


def _pickles_as_a_copy(target: Any) -> bool:
    store = getattr(getattr(target, "store_path", target), "store", target)
    while hasattr(store, "_store"):  # a wrapper of zarr-python's
        store = store._store
    if (fs := getattr(store, "fs", None)) is not None:
        return is_in_memory(fs)
    if isinstance(store, Mapping):
        return True
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(store).__mro__}
    return "zarr.storage._memory.MemoryStore" in names


def _share(work: SharedCopy, client: distributed.Client | None, parts: int | None) -> Array | Group:
    if _pickles_as_a_copy(work.target):
        kind = type(work.target).__name__
        raise UnsupportedError(f"the target is a {kind} in this process's memory: workers would write to copies of it")
    if client is None:
        from distributed import get_client

        client = get_client()
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers:
        raise InvalidArgumentError("the cluster has no workers")
    hosts = Counter(each["host"] for each in workers)
    together = max(hosts.values()) * max(each["nthreads"] for each in workers)  # tasks at a time on one machine
    work = work.bounded(together, max(1, (os.cpu_count() or 1) // together))
    count = 4 * len(workers) if parts is None else check_count(parts, "parts")

    def stage(name: str, plan: Steps | None = None) -> None:
        tasks = [client.submit(work.run, name, number, count, plan, pure=False) for number in range(count)]
        for task in tasks:
            task.result()

    plan = work.run("prepare")
    stage("first", plan)
    if has_two_passes(plan):
        stage("second", plan)
    if work.more["verify"]:
        stage("compare")
    work.run("finish")
    return work.open()
