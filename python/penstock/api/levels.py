"""`create_levels`: an image and its coarser levels, written in one pass."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.api.groups import create_group
from penstock.core import device as _device
from penstock.core.array import Array, Progress
from penstock.core.context import current_context
from penstock.core.data_types import cast, with_buffer
from penstock.core.errors import InvalidArgumentError
from penstock.core.group import Group
from penstock.core.job import close_at_exit
from penstock.core.progress import callback_of
from penstock.core.sizes import check_count, check_threads, counted, parse_bytes
from penstock.core.tensor import as_host

_MOST_LEVELS = 32


def create_levels(
    target: Any,
    path: str = "",
    *,
    data: npt.ArrayLike | None = None,
    shape: tuple[int, ...] | None = None,
    dtype: Any = None,
    chunks: tuple[int, ...],
    levels: int | None = None,
    resampling: str = "mean",
    convention: str = "ome",
    name: str = "",
    queue: int | str | None = None,
    threads: int | None = None,
    overwrite: bool = False,
    attributes: dict[str, Any] | None = None,
    progress: Progress | bool | None = None,
    context: Any = None,
    **options: Any,
) -> LevelAppender:
    """Create a group with an image and its coarser levels, all written from the same rows, without reading back.

    The arrays are `"0"`, `"1"`, ...; each is half as large as the one before in its last two dimensions (rounded up).

    Parameters
    ----------
    target, path
        As for `create_group`.
    data
        All rows; they are appended before this returns.
    shape, dtype
        Of the image, without `data`. Dimension 0 is 0: it grows by `append`. In an image of rank 2 it is y, and halved
        in the levels.
    chunks
        Of every level.
    levels
        The number of arrays; None: until y and x fit in one chunk.
    resampling
        "mean" (integers are rounded, halves up; NaN is ignored), "nearest" (the first of four), or "mode" (the most
        frequent of four). Means are those of each channel: an alpha channel has no effect on the others. Where
        transparent pixels have arbitrary colours, pass colours that are multiplied by alpha.
    convention
        How the group's attributes name the levels: "ome" (OME-Zarr 0.5) or "geozarr" (the Zarr convention
        `multiscales`). They are written by `close`, and name complete levels only.
    name
        Of the image, in OME-Zarr's attributes.
    queue, threads
        As for `Array.appender`, for each level.
    progress
        For `data`. True: a line on stderr, or a bar in a notebook. A function: called with (bytes of the image that
        were appended, bytes in all), of which `queue` may still hold the last ones. Returning False stops
        (`CancelledError`).
    overwrite, attributes
        As for `create_group`. The convention adds its own attributes.
    context
        Threads, caches and limits; None: the current one.
    options
        As for `create_array`: `shards`, `codecs`, `fill_value`, `dimension_names`.

    Returns
    -------
    LevelAppender
        With `append`, `flush` and `close`; a context manager.

    Raises
    ------
    InvalidArgumentError
        `shape` and `chunks` do not fit together, an option is not valid, or a node exists there.
    ReadOnlyError, PermissionDeniedError
        The store cannot be written to.

    Examples
    --------
    >>> x = np.arange(512 * 512, dtype="u4").reshape(512, 512)
    >>> ps.create_levels("scene.zarr", data=x, chunks=(128, 128)).close()
    <penstock.Group 'file:///...scene.zarr'>
    >>> ps.open("scene.zarr", level=2).shape
    (128, 128)

    A scan that arrives plane by plane:

    >>> with ps.create_levels("scan.zarr", shape=(0, 256, 256), dtype="u2", chunks=(1, 64, 64), levels=3) as w:
    ...     for plane in range(5):
    ...         w.append(np.full((1, 256, 256), plane, "u2"))
    >>> [each.shape for each in ps.open("scan.zarr").values()]
    [(5, 256, 256), (5, 128, 128), (5, 64, 64)]
    """
    report = None if data is None else callback_of(progress, "writing")
    values = (
        None
        if data is None
        else _device.to_host(data, context or current_context())
        if _device.is_device_value(data)
        else data
    )
    rows = None if values is None else as_host(values)
    if rows is not None:
        shape, dtype = (0, *rows.shape[1:]), rows.dtype if dtype is None else dtype
    if shape is None or dtype is None:
        raise InvalidArgumentError("give data, or shape and dtype")
    if len(shape) < 2 or len(chunks) != len(shape) or shape[0] != 0:
        raise InvalidArgumentError(
            f"shape must have y and x and begin with 0, and chunks as many numbers: got {shape} and {chunks}"
        )
    full = shape if rows is None or len(shape) > 2 else rows.shape
    count = _count_of(full, chunks) if levels is None else check_count(levels, "levels")
    if count > _MOST_LEVELS:
        raise InvalidArgumentError(f"levels must be at most {_MOST_LEVELS}, got {count}")
    queue_bytes = 0 if queue is None else check_count(parse_bytes(queue, "queue"), "queue")
    workers = check_threads(threads)
    paths = [str(number) for number in range(count)]

    def begin(group: Group) -> LevelAppender:
        arrays = [
            group.create_array(each, shape=_core._level_shape(shape, number), dtype=dtype, chunks=chunks, **options)
            for number, each in enumerate(paths)
        ]
        return LevelAppender(group, paths, arrays, resampling, convention, name, queue_bytes, workers)

    zarr_format = 2 if isinstance(target, Group) and target.format == "zarr2" else 3
    begin(create_group({}, zarr_format=zarr_format, attributes=attributes, context=context))  # checks all options
    made = begin(create_group(target, path, overwrite=overwrite, attributes=attributes, context=context))
    if rows is not None:
        made._append(rows, report)
    return made


def _count_of(shape: tuple[int, ...], chunks: tuple[int, ...]) -> int:
    count = 1
    while any(
        length > max(1, chunk)
        for length, chunk in zip(_core._level_shape(shape, count - 1)[-2:], chunks[-2:], strict=True)
    ):
        count += 1
    return count


class LevelAppender:
    """Appends rows to an image and its levels. Made by `create_levels`; a context manager, which closes it.

    Examples
    --------
    >>> w = ps.create_levels("scan.zarr", shape=(0, 128, 128), dtype="u2", chunks=(1, 64, 64), levels=2)
    >>> w.append(np.ones((3, 128, 128), "u2"))
    >>> w.flush()                              # the rows so far are stored
    >>> w.append(np.ones((1, 128, 128), "u2"))
    >>> w.close()["1"].shape
    (4, 64, 64)
    >>> w.group.attrs["ome"]["multiscales"][0]["datasets"][1]["path"]
    '1'
    """

    def __init__(
        self,
        group: Group,
        paths: list[str],
        arrays: list[Array],
        resampling: str,
        convention: str,
        name: str,
        queue_bytes: int,
        threads: int,
    ) -> None:
        self._group = group
        self._image, self._count = arrays[0], len(arrays)
        self._core = _core._LevelAppender(group, paths, arrays, resampling, convention, name, queue_bytes, threads)
        close_at_exit(self)

    @property
    def group(self) -> Group:
        """The group with the levels."""
        return self._group

    def __repr__(self) -> str:
        return f"<penstock.LevelAppender of '{self._group.uri}', {counted(self._count, 'level')}>"

    def append(self, rows: npt.ArrayLike) -> None:
        """Copy `rows` and their halves to the queues of all levels. Waits while one of them is full.

        After an error, `rows` was not taken, unless the notes give a number of rows that were. The failure of a coarser
        level is raised by the next call.

        Parameters
        ----------
        rows
            Planes or rows of the image itself: as many dimensions as the image, with the same lengths except along
            dimension 0. Cast to its dtype as in NumPy's assignment. They may be changed as soon as this returns.

        Raises
        ------
        InvalidArgumentError
            The shape does not fit, or `close` was called.
        Error
            The failure of an earlier write.
        """
        self._append(rows, None)

    def _append(self, rows: npt.ArrayLike, progress: Progress | None) -> None:
        if _device.is_device_value(rows):
            rows = _device.to_host(rows, _core._context_of(self._image))
        items = as_host(rows)
        if not (items.dtype.isnative and _core._converts(items.dtype, self._image.dtype)):
            items = cast(items, self._image.dtype)  # of dtypes that only NumPy casts
        self._core.append(with_buffer(np.asarray(items)), items.dtype, progress)

    def flush(self) -> None:
        """Wait until all rows of all levels are stored; an odd row of a level waits for the next one.

        Raises
        ------
        Error
            Names the rows that were not stored, and the reason. The rows stay queued.
        """
        self._core.flush()

    def close(self) -> Group:
        """Store the remaining rows, name the complete levels in the group's attributes, and return the group.

        Returns
        -------
        Group
            The group with the levels.

        Raises
        ------
        Error
            As for `flush`; rows that are not stored are lost.
        """
        self._core.close(self._group)
        return self._group

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
