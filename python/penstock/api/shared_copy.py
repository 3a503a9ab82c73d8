"""Copies that several processes share: the calls of each process, and the plan that they share."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.api import images
from penstock.api.convert import check_group, consolidated, is_one_file
from penstock.api.copy import CopyJob, more_options
from penstock.api.open import open
from penstock.api.rechunk import folder_of
from penstock.core.array import Array
from penstock.core.context import current_context
from penstock.core.errors import ConflictError, InvalidArgumentError, UnsupportedError
from penstock.core.group import Group
from penstock.geo.tiff import TiffArray
from penstock.shards.sharded_array import ShardedArray

Steps = list[tuple[Any, ...]]
"""The plan of a stage: (path, text, passes, ...) for each array that is encoded again."""


@dataclass(frozen=True)
class SharedCopy:
    """A `convert` or `rechunk` to Zarr that is done in parts. It pickles if its source and target do."""

    source: Any
    target: Any
    path: str
    how: Mapping[str, Any]  # chunks, shards, codecs, zarr_format
    more: Mapping[str, Any]
    storage_options: Mapping[str, Any] | None
    target_options: Mapping[str, Any] | None
    keeps_place: bool  # images become groups, as `convert` makes them
    consolidate: bool = False

    def bounded(self, processes: int, threads: int | None = None) -> SharedCopy:
        """The same with memory and threads for each of `processes` that share a machine: plans depend on both."""
        context = current_context()
        own = self.more["threads"] or threads or context.threads
        memory = self.more["memory"] or max(1, context._memory_limit // 2 // processes)
        return replace(self, more={**self.more, "threads": operator.index(own), "memory": memory})

    def run(self, stage: str, number: int = 0, count: int = 1, wanted: Steps | None = None) -> Steps:
        """One stage of one part.

        Parameters
        ----------
        stage
            "prepare", "first", "second", "compare", "finish": see `copy_stage` in <penstock/copy.h>.
        wanted
            The plan of "prepare"; `ConflictError` if this process has another one.
        """
        source = self.source
        if not isinstance(source, Array | Group):
            source = open(source, storage_options=self.storage_options)
        more = {**self.more, "part": (stage, number, count)}
        if self.keeps_place and isinstance(source, TiffArray) and images.is_placed(source):
            steps = images.write_image_part(
                source,
                self.target,
                self.path,
                how=self.how,
                more=more,
                target_options=self.target_options,
            )
        else:
            if self.consolidate:
                check_group(source)
            how = dict(self.how)
            if self.keeps_place and how["shards"] is None and isinstance(source, ShardedArray):
                how["shards"] = False  # its files must not become Zarr's shards
            job = CopyJob(
                source,
                self.target,
                self.path,
                **how,
                more=more,
                context=None,
                target_options=self.target_options,
            )
            steps = list(job.run()["steps"])
        if wanted is not None and [step[:4] for step in steps] != [step[:4] for step in wanted]:
            raise ConflictError(f"part {number} of {count} has another plan than the process that prepared the copy")
        if self.consolidate and stage == "finish":
            made = self.open()
            if isinstance(made, Group):
                consolidated(made, None)
        return steps

    def open(self) -> Array | Group:
        """The copy."""
        if isinstance(self.target, Group):
            return self.target[self.path]
        return open(self.target, self.path, storage_options=self.target_options)


def shared_copy(source: Any, target: Any, chunks: Any, keeps_place: bool, options: Mapping[str, Any]) -> SharedCopy:
    """The job of `convert` (`keeps_place`) or `rechunk` with these arguments.

    Raises
    ------
    UnsupportedError
        The target is one file.
    """
    known = {"path", "shards", "codecs", "zarr_format", "memory", "scratch", "resume", "durable", "verify", "threads"}
    known |= {"storage_options", "target_options"} | ({"consolidate"} if keeps_place else set())
    if unknown := sorted(set(options) - known):
        raise InvalidArgumentError(f"a copy by several processes has no option {unknown[0]!r}")
    if keeps_place and is_one_file(target):
        raise UnsupportedError(f"'{os.fsdecode(target)}' is one file: several processes write Zarr only")
    scratch = options.get("scratch")
    more = more_options(options.get("memory"), folder_of(target) if scratch is None else scratch)
    more |= {"decode_once": not keeps_place, "verify": bool(options.get("verify")), "overwrite": False}
    more |= {"resume": bool(options.get("resume")), "durable": bool(options.get("durable"))}
    more |= {"threads": options.get("threads"), "progress": None}
    how = {name: options.get(name) for name in ("shards", "codecs", "zarr_format")}
    return SharedCopy(
        source,
        target,
        options.get("path", ""),
        {"chunks": chunks, **how},
        more,
        options.get("storage_options"),
        options.get("target_options"),
        keeps_place,
        bool(options.get("consolidate")),
    )


def has_two_passes(steps: Steps) -> bool:
    """Whether the stage "second" has anything to do."""
    return any(step[2] == 2 for step in steps)
