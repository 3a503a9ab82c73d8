"""Other chunks for arrays and groups, with each chunk decoded once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload

from penstock.api.copy import CopyJob, Progress, more_options
from penstock.api.written_values import warn_of_place
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.group import Group
from penstock.core.sizes import either_bytes


@dataclass(frozen=True)
class RechunkStep:
    """How one array gets other chunks. Made by `rechunk` with `dry_run`.

    Attributes
    ----------
    path : str
        Path within the copied node; empty: its root.
    text : str
        Passes, blocks and memory in words.
    passes : int
        1, or 2 through a file in `scratch`.
    memory_bytes : int
        Memory for blocks of elements.
    scratch_bytes : int
        The size of the file in `scratch`; 0: none is needed.

    Examples
    --------
    >>> ps.create_array("maps.zarr", data=np.ones((20, 40, 40)), chunks=(1, 40, 40)).nchunks
    20
    >>> (step,) = ps.rechunk("maps.zarr", "series.zarr", (20, 8, 8), dry_run=True).steps
    >>> step.passes
    1
    """

    path: str
    text: str
    passes: int
    memory_bytes: int
    scratch_bytes: int


@dataclass(frozen=True)
class RechunkPlan:
    """The plan of a copy, with a step for each array that is encoded again. Made by `rechunk` with `dry_run`.

    `str(plan)` is readable text.

    Attributes
    ----------
    steps : tuple of RechunkStep
        In the order of the copy. Arrays that are copied byte for byte have none.

    Examples
    --------
    >>> maps = ps.create_array("maps.zarr", data=np.ones((20, 40, 40)), chunks=(1, 40, 40))
    >>> plan = ps.rechunk(maps, "series.zarr", (20, 8, 8), dry_run=True)
    >>> plan.memory_bytes <= 1 << 30, plan.scratch_bytes
    (True, 0)
    >>> print(plan)
    one pass: reads and writes 1 block of 20 x 40 x 40 (0.2 MiB); ...
    """

    steps: tuple[RechunkStep, ...]

    @property
    def memory_bytes(self) -> int:
        """The most memory for blocks that a step needs."""
        return max((step.memory_bytes for step in self.steps), default=0)

    @property
    def scratch_bytes(self) -> int:
        """The largest file in `scratch`."""
        return max((step.scratch_bytes for step in self.steps), default=0)

    def __str__(self) -> str:
        return "\n".join(f"{step.path + ': ' if step.path else ''}{step.text}" for step in self.steps)


@overload
def rechunk(
    source: Any,
    target: Any,
    chunks: Any,
    *,
    dry_run: Literal[True],
    path: str = ...,
    shards: Any = ...,
    codecs: Any = ...,
    zarr_format: int | None = ...,
    memory: int | str | None = ...,
    memory_limit: int | str | None = ...,
    scratch: str | os.PathLike[str] | None = ...,
    overwrite: bool = ...,
    resume: bool = ...,
    durable: bool = ...,
    verify: bool = ...,
    threads: int | None = ...,
    progress: Progress | bool | None = ...,
    context: Context | None = ...,
    storage_options: Mapping[str, Any] | None = ...,
    target_options: Mapping[str, Any] | None = ...,
) -> RechunkPlan: ...
@overload
def rechunk(
    source: Any,
    target: Any,
    chunks: Any,
    *,
    dry_run: Literal[False] = ...,
    path: str = ...,
    shards: Any = ...,
    codecs: Any = ...,
    zarr_format: int | None = ...,
    memory: int | str | None = ...,
    memory_limit: int | str | None = ...,
    scratch: str | os.PathLike[str] | None = ...,
    overwrite: bool = ...,
    resume: bool = ...,
    durable: bool = ...,
    verify: bool = ...,
    threads: int | None = ...,
    progress: Progress | bool | None = ...,
    context: Context | None = ...,
    storage_options: Mapping[str, Any] | None = ...,
    target_options: Mapping[str, Any] | None = ...,
) -> Array | Group: ...
def rechunk(
    source: Any,
    target: Any,
    chunks: Any,
    *,
    dry_run: bool = False,
    path: str = "",
    shards: Any = None,
    codecs: Any = None,
    zarr_format: int | None = None,
    memory: int | str | None = None,
    memory_limit: int | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    durable: bool = False,
    verify: bool = False,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> Array | Group | RechunkPlan:
    """Copy an array, or a group and everything in it, into other chunks, and open the copy.

    Each chunk of the source is decoded once, and each object of the target is written once, in blocks that fit into
    `memory`. If that is not possible, incomplete blocks are kept in one file, and the copy takes two passes.

    Parameters
    ----------
    source, target, path
        As for `penstock.copy`.
    chunks, shards, codecs, zarr_format, overwrite, durable, verify, threads, progress, target_options
        As for `penstock.copy`.
    dry_run
        Check all arguments and return the plan; nothing is written.
    memory, memory_limit
        For blocks: bytes, or text such as "2GiB"; by default half of the context's memory limit. Both names mean the
        same.
    scratch
        A folder for the file, which is as large as the elements of one array; by default the folder of the target, if
        that is a local path.
    resume
        Continue interrupted work, with the same arguments: blocks in the file and objects at the target are not written
        again. Not for groups of other formats than Zarr.
    context
        Threads, caches and limits; None: the current one.
    storage_options
        For the source's URI, as for `open`.

    Returns
    -------
    Array or Group
        The copy. With `dry_run` a `RechunkPlan`.

    Raises
    ------
    InvalidArgumentError
        The memory is too small for a chunk and an object, or for one pass if there is no folder for a file.
    CorruptDataError
        A chunk of the source cannot be decoded; with `verify`, elements differ.
    CancelledError
        `progress` returned False.

    Examples
    --------
    Maps, one for each time, become time series:

    >>> maps = ps.create_array("maps.zarr", data=np.ones((20, 40, 40)), chunks=(1, 40, 40),
    ...                        dimension_names=("time", "lat", "lon"))
    >>> series = ps.rechunk(maps, "series.zarr", {"time": -1, "lat": 8, "lon": 8}, memory="64MiB")
    >>> series.chunks
    (20, 8, 8)
    >>> series.plan(np.s_[:, 3, 5]).requests
    1
    """
    if scratch is None:
        scratch = folder_of(target)
    memory = either_bytes(memory=memory, memory_limit=memory_limit)
    more = more_options(memory, scratch) | {"decode_once": True, "verify": bool(verify), "overwrite": overwrite}
    more |= {"resume": resume, "durable": durable, "threads": threads, "progress": progress}
    job = CopyJob(
        source, target, path, chunks, shards, codecs, zarr_format, more, context, storage_options, target_options
    )
    if dry_run:
        return plan_of(job)
    warn_of_place(job.source)
    job.run()
    return job.open()


def plan_of(job: CopyJob) -> RechunkPlan:
    """The plan of a copy, whose arguments are all checked; nothing is written."""
    return RechunkPlan(tuple(RechunkStep(*step) for step in job.run(check_only=True)["steps"]))


def folder_of(target: Any) -> str | None:
    """The folder of a local path, or the nearest one that exists."""
    is_uri = isinstance(target, str) and ("://" in target or target.startswith(("zip:", "file:")))
    if is_uri or not isinstance(target, str | os.PathLike):
        return None
    folder = os.path.dirname(os.path.abspath(os.fspath(target)))
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder
