"""Appends in the background."""

from __future__ import annotations

import math
import operator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, SupportsFloat

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import device as _device
from penstock.core.data_types import with_buffer
from penstock.core.errors import InvalidArgumentError, OutOfRangeError
from penstock.core.job import close_at_exit
from penstock.core.sizes import check_count, check_threads, counted, parse_bytes
from penstock.core.tensor import as_items

if TYPE_CHECKING:
    from penstock.core.writing import Writes


class Appender:
    """Appends rows in the background. Made by `Array.appender`; a context manager, which closes it. Thread-safe.

    Examples
    --------
    >>> a = ps.create_array("log.zarr", shape=(0, 3), dtype="f8", chunks=(100, 3))
    >>> w = a.appender(publish_interval=60)
    >>> w.append(np.ones((30, 3)))
    >>> w.rows, w.held
    (30, 30)
    >>> w.flush()                                          # readers see the rows
    >>> w.held, ps.open("log.zarr").shape
    (0, (30, 3))
    >>> w.close()
    >>> w.closed
    True
    """

    def __init__(
        self,
        array: Writes,
        axis: int,
        queue: int | str | None,
        threads: int | None,
        durable: bool,
        write_empty_chunks: bool,
        publish_interval: float,
    ) -> None:
        _core.check_writable(array)
        axis = operator.index(axis)
        rank = len(array.shape)
        if not -rank <= axis < rank:
            raise OutOfRangeError(f"axis {axis} is out of bounds for array of dimension {rank}")
        if not isinstance(publish_interval, SupportsFloat) or not 0 <= float(publish_interval) < math.inf:
            raise InvalidArgumentError(f"publish_interval must be a number of seconds, got {publish_interval!r}")
        queue_bytes = 0 if queue is None else check_count(parse_bytes(queue, "queue"), "queue")
        workers = check_threads(threads)
        self._array = array
        durable, write_empty_chunks = bool(durable), bool(write_empty_chunks)
        self._core = _core._Appender(
            array, axis % rank, queue_bytes, workers, durable, write_empty_chunks, float(min(publish_interval, 1e9))
        )
        close_at_exit(self)

    @property
    def rows(self) -> int:
        """Rows that `append` has taken."""
        return self._core.rows

    @property
    def held(self) -> int:
        """Rows that the stored shape does not include yet."""
        return self._core.rows - self._core.stored_rows

    @property
    def queued_bytes(self) -> int:
        """Bytes of rows that are not written yet."""
        return self._core.queued_bytes

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._core.closed

    def append(self, rows: npt.ArrayLike, *, stream: Any = None) -> None:
        """Copy `rows` to the queue and return; wait only while the queue is full.

        `rows` may be changed as soon as this returns. Values in a device's memory that have the array's dtype are
        copied in that memory, in the order of a stream as in `Array.write_async`, and transferred to the host in the
        background: this does not wait for the device. Until then the device has both. Other values in a device's memory
        are copied to the host before this returns.

        Parameters
        ----------
        rows
            Has as many dimensions as the array, and the same lengths except along the axis. It is cast to the array's
            dtype as in NumPy's assignment.
        stream
            For values in a device's memory: the stream that produces them, if `rows` does not name it.

        Raises
        ------
        InvalidArgumentError
            The shape does not fit, or the appender is closed; a stream for values in host memory.
        Error
            The failure of an earlier write. Nothing of `rows` was taken unless the notes give a number. The earlier
            rows stay queued, and the next call tries to write them again.
        """
        if _device.is_device_value(rows):
            context = _core._context_of(self._array)
            dtype = _device.described(rows)[1]
            if dtype.isnative and dtype == self._array.dtype:
                there = _device.value_of(rows, context, stream, queues=True)
                self._core.append_device(there.address, there.shape, there.strides, there.stream, there.keep)
                return
            rows = _device.to_host(rows, context, stream)
        elif stream is not None:
            raise InvalidArgumentError("streams belong to devices: the rows are in host memory")
        self._core.append(rows)

    def flush(self) -> None:
        """Wait until all rows are stored, and the shape that includes them. The array then has the new shape.

        A row of chunks that is written in part is read again when it is continued.

        Raises
        ------
        Error
            Names the rows that were not stored, and the reason. Each error is raised once: the first one, with the
            others in its notes. The rows stay queued, and the next call tries to write them again.
        """
        self._core.flush(self._array)

    def close(self) -> None:
        """Do what `flush` does and take no more rows.

        Raises
        ------
        Error
            As for `flush`; rows that are not stored are lost.
        """
        if not self._core.closed:
            self._core.close(self._array)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{counted(self.held, 'row')} held"
        return f"<penstock.Appender of '{self._array.uri}', {counted(self.rows, 'row')}, {state}>"


def rows_of(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """`value` as an ndarray of that dtype whose memory the engine can use."""
    return with_buffer(as_items(value, dtype))
