"""Changes of arrays: `a[...] = x`, `write`, `resize`, `append`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import device as _device
from penstock.core import indexing as _indexing
from penstock.core.appender import Appender
from penstock.core.chunking import as_list
from penstock.core.data_types import unmasked, with_buffer
from penstock.core.errors import InvalidArgumentError
from penstock.core.indexing import Fields
from penstock.core.job import WriteJob
from penstock.core.progress import callback_of
from penstock.core.sizes import check_threads
from penstock.core.tensor import as_items

if TYPE_CHECKING:
    _Base = _core.Array
else:
    _Base = object

Progress = Callable[[int, int], bool | None]


def as_value(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """`value` as an ndarray of that dtype and shape: cast as in NumPy's assignment, repeated as in broadcasting. One
    list is one element.
    """
    if shape == () and "vlen" in (dtype.metadata or {}) and np.ndim(value) == 1:
        one = np.empty(1, object)
        one[0] = value
        items: npt.NDArray[Any] = one.reshape(())
    else:
        items = as_items(value, dtype)
    if items.shape != shape:
        # As in NumPy: leading dimensions of length 1 are allowed.
        while items.ndim > len(shape) and items.shape[0] == 1:
            items = items[0]
        try:
            items = np.broadcast_to(items, shape)
        except ValueError:
            raise InvalidArgumentError(
                f"could not broadcast a value of shape {np.shape(value)} into shape {shape}"
            ) from None
    return with_buffer(np.asarray(items))


class Writes(_Base):
    """The part of `Array` that changes what is stored."""

    __slots__ = ()

    def write(
        self,
        selection: Any,
        value: Any,
        *,
        threads: int | None = None,
        progress: Progress | bool | None = None,
        durable: bool = False,
        write_empty_chunks: bool = False,
        stream: Any = None,
        encoder: str | None = None,
    ) -> None:
        """Write `value` to `selection` (any key of `[]`), as `a[selection] = value` does.

        Each storage object (a chunk, or a shard) is replaced at once, and only if it did not change since this write
        read it; otherwise the write reads it again and repeats its change. So writers of different chunks of one shard,
        threads or processes, lose nothing. Untouched chunks of a shard keep their encoded bytes.

        Parameters
        ----------
        selection
            Any key of `[]`: ints, slices, lists, masks or names of fields; `penstock.oindex[...]` and the like.
        value
            Anything that NumPy would assign: it is cast to the array's dtype and broadcast. Values in a device's memory
            (with `__dlpack__` or `__cuda_array_interface__`) are transferred chunk by chunk, as `encoder` determines.
        threads
            Encoding workers of this write; None: the context's.
        progress
            True: a line on stderr, or a bar in a notebook. A function: called with (bytes done, bytes in all) about
            ten times a second and at the end. Returning False stops the write between two objects (`CancelledError`);
            an exception stops it and is raised to the caller.
        durable
            Return only when every object is on the storage device, if the store reports that.
        write_empty_chunks
            Also store chunks that equal the fill value bit for bit; otherwise they are omitted.
        stream
            For values in a device's memory: the stream that produces them, if `value` does not name it.
        encoder
            For values in a device's memory. "host": elements are copied to the host, which encodes them. "device":
            chunks that are replaced as a whole are encoded on the device, and only their encoded bytes are copied to
            the host. "auto": the device if it has encoders for all codecs and is much faster by a model
            (`a.plan(selection, device="cuda")` shows the choice and the reason). None: the context's setting, "auto" by
            default. Device encoders are verified on the CPU only; the host decodes one chunk of each wave and compares.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError
            The selection or the shape of the value does not fit, or elements of it are masked. Nothing was written.
        TypeError, ValueError
            NumPy cannot convert the value to the array's dtype. Nothing was written.
        ReadOnlyError
            The store or the format is read-only.
        ConflictError
            An object kept changing while it was written.
        UnsupportedError
            `encoder="device"`, and a codec of the array has no encoder there; the message names it.
        StorageError, PermissionDeniedError
            The store failed.
        CancelledError
            `progress` returned False.

        Notes
        -----
        After an error every object has its old value or its new one; the notes of the error name the first object that
        was not written, and the number of written ones.

        Examples
        --------
        >>> a = ps.create_array("a.zarr", shape=(4, 6), dtype="i4", chunks=(2, 3))
        >>> a.write(np.s_[1:3], np.arange(6))                  # broadcast, as in NumPy
        >>> a.write(ps.oindex[[0, 3], [5, 1]], -1, durable=True)
        >>> a[...]
        array([[ 0, -1,  0,  0,  0, -1],
               [ 0,  1,  2,  3,  4,  5],
               [ 0,  1,  2,  3,  4,  5],
               [ 0, -1,  0,  0,  0, -1]], dtype=int32)
        """
        workers = check_threads(threads)
        durable, write_empty_chunks = bool(durable), bool(write_empty_chunks)
        progress = callback_of(progress, "writing")
        encoder = None if encoder is None else _core.checked_encoder(encoder)
        if stream is None and encoder is None:
            self._write(selection, value, workers, progress, durable, write_empty_chunks)
        elif _device.is_device_value(value):
            self._write_from_device(selection, value, workers, progress, durable, write_empty_chunks, stream, encoder)
        elif stream is not None:
            raise InvalidArgumentError("streams belong to devices: the value is in host memory")
        elif encoder == "device":
            raise InvalidArgumentError("encoder='device' is for values in device memory")
        else:
            self._write(selection, value, workers, progress, durable, write_empty_chunks)

    def set_basic_selection(
        self, selection: Any, value: Any, *, fields: Fields | None = None, prototype: Any = None
    ) -> None:
        """Write to ints, slices, Ellipsis and None. As in zarr-python.

        Examples
        --------
        >>> a = ps.create_array({}, shape=(2, 3), dtype="i4")
        >>> a.set_basic_selection(np.s_[1, :2], [7, 8])
        >>> a[1]
        array([7, 8, 0], dtype=int32)
        """
        self._set(selection, value, fields)

    def set_orthogonal_selection(
        self, selection: Any, value: Any, *, fields: Fields | None = None, prototype: Any = None
    ) -> None:
        """Write as `oindex[selection] = value`. As in zarr-python.

        Examples
        --------
        >>> a = ps.create_array({}, shape=(2, 3), dtype="i4")
        >>> a.set_orthogonal_selection((slice(None), [2, 0]), [7, 8])
        >>> a[1]
        array([8, 0, 7], dtype=int32)
        """
        self._set(_indexing.orthogonal(self, selection), value, fields)

    def set_coordinate_selection(
        self, selection: Any, value: Any, *, fields: Fields | None = None, prototype: Any = None
    ) -> None:
        """Write single elements: one list of positions for each dimension. As in zarr-python.

        If an element occurs twice, the later value is stored.

        Examples
        --------
        >>> a = ps.create_array({}, shape=(2, 3), dtype="i4")
        >>> a.set_coordinate_selection(([0, 1], [2, 0]), [7, 8])
        >>> a[...]
        array([[0, 0, 7],
               [8, 0, 0]], dtype=int32)
        """
        self._set(_indexing.coordinates(self, selection), value, fields)

    def set_mask_selection(self, mask: Any, value: Any, *, fields: Fields | None = None, prototype: Any = None) -> None:
        """Write the elements at which a boolean array of the array's shape is true, in C order. As in zarr-python.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(6).reshape(2, 3))
        >>> a.set_mask_selection(a[...] > 3, 0)
        >>> a[...]
        array([[0, 1, 2],
               [3, 0, 0]])
        """
        self._set(_indexing.masked(self, mask), value, fields)

    def set_block_selection(
        self, selection: Any, value: Any, *, fields: Fields | None = None, prototype: Any = None
    ) -> None:
        """Write whole chunks (or shards, if the array is sharded). As in zarr-python.

        Examples
        --------
        >>> a = ps.create_array({}, shape=(4, 4), dtype="i4", chunks=(2, 2))
        >>> a.set_block_selection((1, 0), 7)
        >>> a[2]
        array([7, 7, 0, 0], dtype=int32)
        """
        self._set(_indexing.blocks(self, selection), value, fields)

    def _set(
        self,
        selection: Any,
        value: Any,
        fields: Fields | None,
        threads: int = 0,
        progress: Progress | None = None,
        durable: bool = False,
        write_empty_chunks: bool = False,
    ) -> None:
        if _indexing.check_fields(self, fields) is not None:
            # The other fields keep their values; a write by another process between this read and the write is lost.
            items = np.asarray(self._read(selection, 0, None))
            if _device.is_device_value(value):
                value = _device.to_host(value, _core._context_of(self))
            items[fields if isinstance(fields, str) else list(fields or ())] = unmasked(value)
            value = items
        self._write(selection, value, threads, progress, durable, write_empty_chunks)

    def _write_from_device(
        self,
        key: Any,
        value: Any,
        threads: int,
        progress: Progress | None,
        durable: bool,
        write_empty_chunks: bool,
        stream: Any = None,
        encoder: str | None = None,
    ) -> None:
        # Values that the device does not gather or cast are copied to the host unchanged.
        how: tuple[int, Any, bool, bool] = (threads, progress, durable, write_empty_chunks)
        context = _core._context_of(self)
        selection, fields = self._prepare(key)  # type: ignore[attr-defined]
        ranges, shape = (None, ()) if fields is not None else self._resolve(selection)
        if fields is None and self.dtype.kind not in "OT":
            there = _device.value_of(value, context, stream)
            same = there.dtype == self.dtype
            if same or (ranges is not None and _core._converts(there.dtype, self.dtype)):
                memory = (there.address, there.spread(shape), there.dtype, there.device)
                self._write_device(selection, memory, there.stream, *how, encoder)
                return
        self._set(selection, _device.to_host(value, context, stream), fields, *how)

    def _start_from_device(
        self,
        selection: Any,
        value: Any,
        threads: int,
        durable: bool,
        write_empty_chunks: bool,
        stream: Any,
        encoder: str | None,
    ) -> WriteJob:
        context = _core._context_of(self)
        ranges, shape = self._resolve(selection)
        if self.dtype.kind not in "OT":
            there = _device.value_of(value, context, stream, queues=True)
            same = there.dtype == self.dtype
            if same or (ranges is not None and _core._converts(there.dtype, self.dtype)):
                memory = (there.address, there.spread(shape), there.dtype, there.device)
                ticket = self._start_write_device(
                    selection, memory, there.stream, threads, durable, write_empty_chunks, encoder
                )

                def release(kept: Any = there.keep) -> None:
                    """Let the values' owner use their memory again."""

                ticket.on_done(release)
                return WriteJob(ticket)
        value = _device.to_host(value, context, stream)
        return WriteJob(self._start_write(selection, value, threads, durable, write_empty_chunks))

    def _write_fancy(
        self,
        key: Any,
        value: Any,
        threads: int,
        progress: Progress | None,
        durable: bool,
        write_empty_chunks: bool,
    ) -> None:
        # Keys that C++ leaves to Python: lists, masks, names of fields.
        selection, fields = self._prepare(key)  # type: ignore[attr-defined]
        if selection is key and fields is None and not isinstance(key, _core._Selection):
            _indexing.fancy(self, key)  # raises the error of an invalid key
        self._set(selection, value, fields, threads, progress, durable, write_empty_chunks)

    def resize(self, new_shape: SupportsIndex | Iterable[SupportsIndex]) -> None:
        """Change the shape of the array to `new_shape`, in storage and in this object.

        Existing chunks in the new part are erased first: they remain from an append that was killed. Then the metadata
        is written, then chunks outside of the new shape are erased. Chunks at the edge keep the elements beyond it, as
        with zarr-python, until a write replaces all other elements of the chunk. Takes turns with appenders. Other open
        objects of this array keep their shape.

        Parameters
        ----------
        new_shape
            A length for each dimension, in elements; an int for an array of one dimension.

        Raises
        ------
        InvalidArgumentError
            The number of dimensions differs, or a length is negative.
        ReadOnlyError, UnsupportedError
            The store or the format is read-only, or the array's shape cannot change.

        Examples
        --------
        >>> a = ps.create_array("a.zarr", data=np.ones((2, 3)), fill_value=-1)
        >>> a.resize((3, 3))
        >>> a[:, 0]
        array([ 1.,  1., -1.])
        """
        self._resize(_check_shape(new_shape))

    def append(
        self,
        data: npt.ArrayLike,
        axis: int = 0,
        *,
        threads: int | None = None,
        progress: Progress | bool | None = None,
        durable: bool = False,
        write_empty_chunks: bool = False,
    ) -> tuple[int, ...]:
        """Add `data` at the end of `axis`.

        The end is that of the stored array, including rows that other writers appended. Rows are written before the
        metadata includes them, shard by shard: readers see all of them or none, also if the writer fails. If the last
        shard is not full, the next call reads and rewrites it; `appender` collects rows and avoids that. Appenders of
        all processes, containers and hosts take turns. An appender that is killed delays the next one by its lease: 10
        seconds, or the value of the environment variable PENSTOCK_APPEND_LEASE (0.05 to 600). One that is stopped for
        longer and then continues changes nothing: it raises `ConflictError`.

        Parameters
        ----------
        data
            Rows: as many dimensions as the array, with the same lengths except along `axis`. Cast as in `write`.
        axis
            The dimension along which the array grows.
        threads, progress, durable, write_empty_chunks
            As for `Array.write`.

        Returns
        -------
        tuple of int
            The new shape, which this object then has.

        Raises
        ------
        InvalidArgumentError
            The shape of `data` does not fit, or the array does not have the axis.
        ConflictError
            The array was resized meanwhile, or another appender took over.
        ReadOnlyError, PermissionDeniedError, UnsupportedError
            The array cannot be appended to.

        Examples
        --------
        >>> a = ps.create_array("log.zarr", shape=(0, 3), dtype="f8", chunks=(100, 3))
        >>> for hour in range(4):
        ...     shape = a.append(np.full((24, 3), hour))
        >>> shape
        (96, 3)
        """
        data = _device.to_host(data, _core._context_of(self)) if _device.is_device_value(data) else data
        axis = operator.index(axis)
        if not -len(self.shape) <= axis < len(self.shape):
            raise InvalidArgumentError(f"axis {axis} is out of bounds for array of dimension {len(self.shape)}")
        axis %= len(self.shape)
        items = with_buffer(as_items(data, self.dtype))
        progress = callback_of(progress, "appending")
        self._append(items, axis, check_threads(threads), progress, bool(durable), bool(write_empty_chunks))
        return self.shape

    def appender(
        self,
        axis: int = 0,
        *,
        queue: int | str | None = None,
        threads: int | None = None,
        durable: bool = False,
        write_empty_chunks: bool = False,
        publish_interval: float = 1.0,
    ) -> Appender:
        """Return an object that appends rows in the background, without waiting for encoding and storage.

        Each row of chunks (or of shards) is written when it is complete, so each chunk is encoded once even if each
        `append` has few rows. The stored shape includes rows only after their chunks are stored. A killed process loses
        only the rows for which no `flush` has returned.

        Parameters
        ----------
        axis
            The dimension along which the array grows.
        queue
            Bytes of rows that are not stored yet: a number, or text such as "1GiB". `append` waits while the queue is
            full. None: 256 MiB. Two rows of chunks are held as a whole, even if they are larger.
        threads
            Encoding workers; None: the context's.
        durable
            `flush` and `close` return only when every object is on the storage device, if the store reports that.
        write_empty_chunks
            Also store chunks that equal the fill value.
        publish_interval
            Seconds. The shape is stored at most once in this time, except by `flush` and `close`. Readers see new rows
            with this delay, and other appenders of this array wait this long.

        Returns
        -------
        Appender
            A context manager, which closes it.

        Raises
        ------
        OutOfRangeError
            The array does not have the axis.
        ReadOnlyError, PermissionDeniedError, UnsupportedError
            The array cannot be appended to.

        Examples
        --------
        >>> a = ps.create_array("log.zarr", shape=(0, 3), dtype="f8", chunks=(100, 3))
        >>> with a.appender(queue="64MiB") as w:
        ...     for minute in range(250):                      # each of the three chunks is encoded once
        ...         w.append(np.full((1, 3), minute))
        >>> a.shape, float(a[249, 0])
        ((250, 3), 249.0)
        """
        return Appender(self, axis, queue, threads, durable, write_empty_chunks, publish_interval)


def _check_shape(shape: Any) -> tuple[int, ...]:
    shape = as_list(shape)
    sizes = (operator.index(shape),) if isinstance(shape, SupportsIndex) else tuple(operator.index(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise InvalidArgumentError(f"sizes must not be negative: {sizes}")
    return sizes
