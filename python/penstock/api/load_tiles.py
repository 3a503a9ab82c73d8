"""One array over several devices of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from penstock.api.open import open_array
from penstock.core.array import Array, Progress
from penstock.core.device import checked_name, is_device
from penstock.core.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from penstock.core.job import Job
from penstock.core.progress import callback_of
from penstock.core.tiles import tiles

_SECONDS_BETWEEN_REPORTS = 0.1


def load_tiles(
    source: Any,
    devices: Sequence[str],
    *,
    axis: int = 0,
    dtype: npt.DTypeLike | None = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    **options: Any,
) -> list[Any]:
    """Read one tile of an array on each device.

    Parameters
    ----------
    source
        An open `Array`, or a target of `open_array`.
    devices
        "cuda:0" (or another number), or "cpu"; one that is named twice gets two tiles. "cuda" without a number is not
        accepted.
    axis
        The axis that is divided: device i holds the i-th of `tiles(a.shape, len(devices), axis)`. With more devices
        than positions the last devices hold none.
    dtype, threads
        As for `Array.read`; `threads` are those of each tile.
    progress
        True: a line on stderr, or a bar in a notebook. A function: called with (bytes done, bytes in all), those of all
        tiles together, about ten times a second. Returning False stops the reads (`CancelledError`).
    options
        For `open_array`.

    Returns
    -------
    list of `penstock.Tensor` or numpy.ndarray
        In the order of `devices`. All tiles are read at the same time; those on devices are queued there, as with
        `Array.read(device=)`.

    Raises
    ------
    Error
        The first that failed; the other reads are stopped.
    InvalidArgumentError
        `devices` is not a list of names with numbers, or the array has no dimensions.

    Examples
    --------
    Two halves in host memory; `["cuda:0", "cuda:1"]` has one on each of two GPUs:

    >>> a = ps.create_array({}, data=np.arange(20.0).reshape(10, 2), chunks=(5, 2))
    >>> [tile.shape for tile in ps.load_tiles(a, ["cpu", "cpu"])]
    [(5, 2), (5, 2)]
    """
    names = [str(each) for each in devices]
    if isinstance(devices, str) or not names:
        raise InvalidArgumentError(f"devices are a list, such as ['cuda:0', 'cuda:1'], not {devices!r}")
    for name in names:
        if is_device(name) and ":" not in checked_name(name):
            raise InvalidArgumentError("devices are named by number ('cuda:0'): 'cuda' is whichever is current")
    array = source if isinstance(source, Array) else open_array(source, **options)
    if not array.shape:
        raise InvalidArgumentError("an array without dimensions has no tiles")
    parts = tiles(array.shape, len(names), axis=axis)
    beyond = [slice(0, n) for n in array.shape]
    beyond[axis] = slice(array.shape[axis], array.shape[axis])
    parts += [tuple(beyond)] * (len(names) - len(parts))
    report = callback_of(progress, "reading")
    jobs: list[Job] = []
    try:
        for name, part in zip(names, parts, strict=True):
            jobs.append(array.read_async(part, device=name, dtype=dtype, threads=threads))
        if report is not None:
            _follow(jobs, report)
        return [job.wait() for job in jobs]
    except BaseException:
        for job in jobs:
            job.cancel()
        raise


def _follow(jobs: list[Job], report: Callable[[int, int], Any]) -> None:
    """Reports the sums of all jobs until they have ended, or one has failed."""
    for job in jobs:
        while True:
            try:
                job.wait(_SECONDS_BETWEEN_REPORTS)
                break
            except DeadlineExceededError:
                if not job.done and report(*_sums(jobs)) is False:
                    raise CancelledError("the caller stopped it") from None
    done, total = _sums(jobs)
    report(max(done, total), max(done, total))


def _sums(jobs: list[Job]) -> tuple[int, int]:
    states = [job.progress for job in jobs]
    return sum(done for done, _ in states), sum(total for _, total in states)
