"""An array as a cuPyNumeric array, its tiles loaded by Legate's tasks. The public names are in `penstock.legate`."""

from __future__ import annotations

import itertools
import math
import operator
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cupynumeric
import numpy as np
from legate.core import (
    ParallelPolicy,
    Scope,
    TaskContext,
    TaskTarget,
    VariantCode,
    VariantOptions,
    get_legate_runtime,
    types,
)
from legate.core.task import OutputStore, task

from penstock import _core
from penstock.api.open import open_array
from penstock.core.array import Array
from penstock.core.errors import Error, InvalidArgumentError, StorageError, UnsupportedError
from penstock.core.sizes import counted
from penstock.core.tiles import tiles
from penstock.shards.sharded_array import ShardedArray, root_of

__all__ = ["load", "processors", "this_rank", "whole_files"]


@dataclass(frozen=True)
class _Load:
    """The shared state of the tasks of one load. Every rank runs the same program, so the same number identifies the
    same load.
    """

    array: Array
    axis: int
    rows: int
    threads: int
    files: list[str] | None = None  # tile i is all of file i


_loads: dict[int, _Load] = {}
# The registration of a task: its collection and its number there.
_registration = operator.attrgetter("library", "task_id")
_numbers = itertools.count()


def processors() -> tuple[TaskTarget, int]:
    """The kind of processor that loads, and their number: GPUs if there are any, else OpenMP groups, else CPUs."""
    machine = get_legate_runtime().get_machine()
    for target in (TaskTarget.GPU, TaskTarget.OMP, TaskTarget.CPU):
        count = machine.count(target)
        if count:
            return target, count
    raise UnsupportedError("the machine has no processors: see LEGATE_CONFIG")


@task(variants=(VariantCode.CPU, VariantCode.OMP, VariantCode.GPU), options=VariantOptions(may_throw_exception=True))
def _load_tile(ctx: TaskContext, destination: OutputStore, number: int) -> None:
    """Read one tile directly into its store."""
    of = _loads[number]
    on_gpu = ctx.get_variant_kind() == VariantCode.GPU
    if on_gpu:
        import cupy

        view = cupy.from_dlpack(destination)
    else:
        view = np.asarray(destination)
    start = ctx.task_index[of.axis] * of.rows
    selection = tuple(slice(start, start + n) if d == of.axis else slice(0, n) for d, n in enumerate(view.shape))
    try:
        array = of.array
        if of.files is not None:
            array = open_array(of.files[start // of.rows])
            selection = tuple(slice(0, n) for n in view.shape)
        if on_gpu:
            array.read(selection, out=view, device="cuda", stream=ctx.task_stream, threads=of.threads)
        else:
            array.read(selection, out=view, threads=of.threads)
        if of.files is not None:
            # The file may have changed since the array was opened: any read checks that.
            of.array[tuple(start if d == of.axis else 0 for d in range(len(view.shape)))]
    except Error as error:
        where = f"{this_rank()}, rows {start} and on"
        raise type(error)(error.message or str(error), *error.notes, where) from error
    except Exception as error:
        raise StorageError(f"{type(error).__name__}: {error}") from error


def whole_files(array: Array, axis: int, rows: int) -> list[str] | None:
    """The files of an array of `.npy` files, if tiles of `rows` along `axis` are one file each; else None."""
    if not isinstance(array, ShardedArray) or array.format != "npy" or not array.uri.startswith("file:"):
        return None
    files = _core.shard_files(array)
    if _core.shard_axis(array) != axis or any(length != rows for _, length, *_ in files):
        return None
    root = root_of(array).removeprefix("file://")
    return [os.path.join(root, os.fsdecode(key)) for key, *_ in files]


def this_rank() -> str:
    """This rank and its host, for errors: the usual reason is a rank on which the file system is not mounted."""
    return f"rank {get_legate_runtime().node_id} on {socket.gethostname()}"


def load(
    source: Any,
    *,
    axis: int = 0,
    over_decompose: int = 1,
    fast_path: bool = True,
    opener: Callable[..., Array] = open_array,
    **options: Any,
) -> Any:
    """Return a cuPyNumeric array with the values of `source`.

    It is cut with `ps.tiles` into as many tiles as the machine has processors of the preferred kind, and a task on each
    reads its tile directly into the memory that Legate allocated for it. The call returns when all are loaded.

    Parameters
    ----------
    source
        An open `Array`, or the argument of `opener`: a path or URI, a pattern of shards with `opener=ps.open_shards`.
        Every rank opens it, and must see the same files.
    axis
        The axis that is divided.
    over_decompose
        Tiles for each processor.
    fast_path
        If each tile is one `.npy` file, its task opens only that file. The values are the same either way.
    opener, options
        Called as `opener(source, **options)` if `source` is not an open array.

    Returns
    -------
    cupynumeric.ndarray
        Complete when this returns.

    Raises
    ------
    Error
        A rank could not open it, or a tile could not be read: the error of the first such task, with its rank.
    UnsupportedError
        cuPyNumeric does not have the type.
    InvalidArgumentError
        The axis is out of range.

    Examples
    --------
    >>> import cupynumeric, penstock.legate
    >>> ps.save("run.zarr", np.arange(12.0).reshape(6, 2))
    >>> penstock.legate.load("run.zarr", axis=0).shape
    (6, 2)
    """
    try:
        array = source if isinstance(source, Array) else opener(source, **options)
    except Error as error:
        raise type(error)(error.message or str(error), *error.notes, this_rank()) from error
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16:
        raise UnsupportedError(f"cuPyNumeric has no elements of type {array.dtype}", f"array '{array.uri}'")
    native = array.dtype.newbyteorder("=")
    if not -array.ndim <= axis < max(1, array.ndim):
        raise InvalidArgumentError(f"axis {axis} is out of range for an array with {counted(array.ndim, 'dimension')}")
    if not array.shape:
        return cupynumeric.array(array[...], dtype=native)
    if array.size == 0:
        return cupynumeric.empty(array.shape, dtype=native)

    axis %= array.ndim
    target, count = processors()
    cut = tiles(array.shape, count, axis=axis, over_decompose=over_decompose)
    tile = tuple(part.stop - part.start for part in cut[0])
    runtime = get_legate_runtime()
    here = max(1, count // max(1, runtime.node_count))
    # A CPU of Legate's is one core; the other kinds share all cores.
    threads = 1 if target == TaskTarget.CPU else max(1, (os.cpu_count() or 1) // here)

    policy = ParallelPolicy()
    policy.set_partitioning_threshold(target, 1)  # small tiles are kept separate
    with Scope(machine=runtime.get_machine().only(target), parallel_policy=policy):
        made = cupynumeric.empty(array.shape, dtype=native)
        (store,) = made.__legate_data_interface__["data"].values()
        number = next(_numbers)
        files = whole_files(array, axis, tile[axis]) if fast_path else None
        _loads[number] = _Load(array, axis, tile[axis], threads, files)
        try:
            launch = tuple(math.ceil(n / length) for n, length in zip(array.shape, tile, strict=True))
            manual = runtime.create_manual_task(*_registration(_load_tile), launch)
            manual.add_output(store.data.partition_by_tiling(tile))
            manual.add_scalar_arg(number, types.int64)
            manual.throws_exception(Error)
            manual.execute()
            runtime.issue_execution_fence(block=True)
        finally:
            del _loads[number]
    return made
