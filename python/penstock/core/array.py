"""Arrays."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import convert as _convert
from penstock.core import device as _device
from penstock.core import registry
from penstock.core import tensor as _tensor
from penstock.core.attributes import Attributes
from penstock.core.compressors import compressors_of
from penstock.core.errors import ExportError, InvalidArgumentError
from penstock.core.indexing import Reads, check_fields, copy_out, take_fields
from penstock.core.job import Job, WriteJob, start_direct, start_in_thread
from penstock.core.plan import Plan
from penstock.core.progress import callback_of
from penstock.core.sizes import check_threads
from penstock.core.writing import Writes

_TOUCHED_CHUNKS = 4096  # the most touched chunks that a plan lists

BasicItem = SupportsIndex | slice | EllipsisType | None
Selection = Any
"""Items like `BasicItem` or a tuple of them, lists, masks, names of fields, `penstock.oindex[...]` and similar keys."""
Progress = Callable[[int, int], bool | None]
Out = TypeVar("Out")


class Array(Reads, Writes, _core.Array):
    """An open array: immutable, shareable between threads. Made by `penstock.open`.

    `a[...]` takes ints, slices with any step, Ellipsis and None, with NumPy's semantics, and returns a new ndarray (a
    NumPy scalar if ints select one element). It also takes a mask, lists of positions, and names of fields. As in
    zarr-python, lists for all dimensions are points (`vindex`), and one list among slices is orthogonal (`oindex`, as
    in NumPy unless an int is separated from the list). Chunks that were never written are the fill value; a failed read
    is an exception. Small reads of stores that do not block keep the GIL, all others release it; Ctrl-C stops a read.

    Examples
    --------
    >>> ps.save("t.zarr", np.arange(600.0).reshape(30, 20))
    >>> a = ps.open("t.zarr")
    >>> a
    <penstock.Array 'file:///...t.zarr' shape=(30, 20) dtype=float64 chunks=(30, 20)>
    >>> a[2, :3]
    array([40., 41., 42.])
    >>> a[::-1, 0][:2], float(a[-1, -1])
    (array([580., 560.]), 599.0)
    >>> a[[0, 2], 1:3]
    array([[ 1.,  2.],
           [41., 42.]])
    >>> np.mean(a, axis=1)[:2]
    array([ 9.5, 29.5])

    Writes and attributes are stored at once:

    >>> a[0, :10] = -1
    >>> a.attrs["units"] = "K"
    >>> b = ps.open("t.zarr")
    >>> b[0, 8:11], b.attrs["units"]
    (array([-1., -1., 10.]), 'K')
    >>> a.nbytes, a.nchunks, a.nbytes_stored() > 0
    (4800, 1, True)
    """

    # The storage options if the array was opened by a remote URI: with both it can be opened again. None otherwise.
    _storage_options: dict[str, Any] | None = None
    # The target of `open`, if it can be opened again but not by the array's URI: a store of fsspec, for example.
    _opened_from: registry.OpenedFrom | None = None
    # The group that the array was opened from, if a caller may need it: the group may hold coordinates.
    _within: Any = None

    # `shape`, `dtype`, `chunks`, `shards`, `dimension_names`, `format`, `uri`, `read_only` and `[]` are _core's.

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in memory."""
        return self.size * self.dtype.itemsize

    @property
    def nchunks(self) -> int:
        """Number of chunks in the grid, including those that were never written."""
        return int(self._plan(slice(0, 0), 0, 0)["grid_cells"]) if self.shape else 1

    @property
    def _is_regular(self) -> bool:
        """Whether one length for each dimension describes the chunk grid."""
        pairs = zip(self.shape, self.chunks, strict=True)
        return math.prod(-(-size // max(1, chunk)) for size, chunk in pairs) == self.nchunks

    def nbytes_stored(self) -> int | None:
        """Count the bytes of the chunks in storage. Requests sizes or indexes of shards, and reads no data.

        Metadata is not counted. A remote store gets one
        request for each shard; sizes of chunks without shards are unknown there.

        Returns
        -------
        int or None
            Bytes. None if the store does not report the sizes of its objects.
        """
        found: int | None = registry.call("nbytes_stored", self)
        return found

    @property
    def info(self) -> Any:
        """Facts as text, which `print` shows: format, chunks, sizes in memory and in storage, codecs, attributes.

        Reads no data. The size in storage is "unknown" if it needs a network or many objects.
        """
        return registry.call("array_info", self)

    @property
    def compressors(self) -> tuple[dict[str, Any], ...]:
        """The members of `codecs` that encode bytes to bytes, in the order of encoding; for shards, those of the inner
        chunks.

        In Zarr version 2 the compressor; in TIFF and HDF5 the file's filters under their names here.
        """
        return compressors_of(self.codecs)

    @property
    def fill_value(self) -> Any:
        """The value of elements that were never written: a NumPy scalar of the array's dtype, or str or bytes.

        None if the metadata defines none (Zarr v2): such elements are zeros.
        """
        if self._fill_value_json == "null":
            return None
        if self._has_items:
            return self._fill_object
        made = np.zeros(1, self.dtype)
        if not self.dtype.itemsize:
            return made[0]
        made.view(f"V{self.dtype.itemsize}")[0] = np.void(self._fill_value_bytes)
        return made[0]

    @property
    def attrs(self) -> Attributes:
        """The attributes: a mapping whose changes are written at once."""
        return Attributes(self)

    @attrs.setter
    def attrs(self, attributes: Mapping[str, Any]) -> None:
        self.attrs.put(attributes)

    @property
    def codecs(self) -> list[dict[str, Any]]:
        """The codecs as the metadata lists them, in the order of encoding."""
        codecs: list[dict[str, Any]] = json.loads(self._codecs_json)
        return codecs

    if TYPE_CHECKING:
        # Also returns an array if ints select one element (a NumPy scalar): both have the same methods.
        def __getitem__(self, key: Any, /) -> npt.NDArray[Any]: ...

    @overload
    def read(  # type: ignore[overload-overlap]  # "cpu" is a str, too: the first that fits is meant
        self,
        selection: Selection = ...,
        out: None = None,
        device: Literal["cpu"] | None = None,
        stream: None = None,
        dtype: npt.DTypeLike | None = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
        check: bool = False,
        wait: bool = True,
    ) -> npt.NDArray[Any]: ...
    @overload
    def read(
        self,
        selection: Selection,
        out: Out,
        device: Literal["cpu"] | None = None,
        stream: None = None,
        dtype: npt.DTypeLike | None = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
        check: bool = False,
        wait: bool = True,
    ) -> Out: ...
    @overload
    def read(  # type: ignore[overload-overlap]
        self,
        selection: Selection = ...,
        *,
        out: Out,
        device: Literal["cpu"] | None = None,
        stream: None = None,
        dtype: npt.DTypeLike | None = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
        check: bool = False,
        wait: bool = True,
    ) -> Out: ...
    @overload
    def read(
        self,
        selection: Selection = ...,
        out: Any = None,
        *,
        device: str,
        stream: Any = None,
        dtype: npt.DTypeLike | None = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
        check: bool = False,
        wait: bool = True,
    ) -> _device.DeviceTensor: ...
    @overload
    def read(
        self,
        selection: Selection = ...,
        out: Any = None,
        device: str | None = None,
        stream: Any = None,
        dtype: npt.DTypeLike | None = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
        check: bool = False,
        wait: bool = True,
    ) -> Any: ...
    def read(
        self,
        selection: Selection = ...,
        out: Any = None,
        device: str | None = None,
        stream: Any = None,
        dtype: npt.DTypeLike | None = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
        check: bool = False,
        wait: bool = True,
    ) -> Any:
        """Read `selection` and return it: any key of `[]` (`numpy.s_` helps), or `penstock.oindex[...]` and the like.

        Parameters
        ----------
        selection
            Ints, slices, lists, masks or names of fields, as for `[]`.
        out
            A writable ndarray or buffer object of the selection's shape, with any strides; it is returned. With the
            array's dtype, chunks decode straight into it. Its contents are unspecified after an error.
        device
            None or "cpu"; "cuda:0" (or another number), or "cuda", the caller's current device: the result is a
            `penstock.Tensor` in that device's memory, and the read continues after this returns. `out` is then device
            memory of another library, with `__dlpack__` or `__cuda_array_interface__`; with it, all is queued on the
            device on return. All selections are possible, except names of fields.
        stream
            The stream that the caller works on: a handle, a stream of CuPy or torch, or an object with
            `__cuda_stream__`. Nothing is written before the work that is queued on it is done, and with `out` the
            stream waits for the read.
        wait
            For device reads with `out`: False returns before storage is read, as reads without `out` do. Call
            `order(stream)` or `synchronize()` on the result before using `out`.
        check
            For device reads: wait for the device and raise its failures.
        dtype
            Of the result. Values are cast as NumPy's "same_kind" casting allows, chunk by chunk and without memory in
            addition to the result: booleans, integers, floats of 16 bits and more, bfloat16 and complex numbers. NumPy
            casts other types, after the read. Of device reads: the device casts the same types.
        threads
            Decoding workers of this read; None: the context's.
        progress
            True: a line on stderr, or a bar in a notebook. A function: called with (bytes done, bytes in all) about
            ten times a second and at the end. Returning False stops the read (`CancelledError`); an exception stops it
            and is raised to the caller. A device read with `progress` returns when all is queued on the device; it
            counts queued bytes.

        Returns
        -------
        numpy.ndarray, Tensor or out
            A new array of the selection's shape; a NumPy scalar if ints select one element; with `device` a tensor in
            that device's memory; with `out` that object. Values in host memory are complete when this returns.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError, OutputError
            The selection or `out` does not fit, or NumPy does not allow the cast (also IndexError, ValueError,
            BufferError).
        CorruptDataError
            Bytes in storage contradict the metadata; the notes name chunk, key, byte range and array.
        NotFoundError, StorageError, PermissionDeniedError
            The store failed. Chunks that do not exist are the fill value.
        ConflictError
            An object changed while it was read.
        UnsupportedError
            A codec that this release does not have, by name.
        CancelledError
            `progress` returned False.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(24, dtype="i2").reshape(4, 6), chunks=(2, 3))
        >>> a.read(np.s_[1:3, ::2])
        array([[ 6,  8, 10],
               [12, 14, 16]], dtype=int16)

        Into memory that exists, with a cast and with four workers:

        >>> buffer = np.empty((4, 6), "f4")
        >>> a.read(..., out=buffer, threads=4) is buffer
        True
        >>> a.read(ps.oindex[[3, 0], [5, 1]], dtype="f8")
        array([[23., 19.],
               [ 5.,  1.]])
        """
        workers = check_threads(threads)
        progress = callback_of(progress, "reading")
        dtype = None if dtype is None else _convert.as_dtype(dtype)
        if _device.is_device(device):
            return _device.read(self, selection, out, device, stream, dtype, workers, check, wait, progress)
        _check_host(stream)
        if out is None:
            if dtype is None or dtype == self.dtype:
                return self._read(selection, workers, progress)
            selection, fields = self._prepare(selection)
            if fields is not None:
                return _convert.cast_fields(self, selection, fields, dtype, workers, progress)
            _convert.check_cast(self, dtype)
            target = np.empty(self._resolve(selection)[1], dtype)
            _convert.read_into(self, selection, target, workers, progress)
            return target[()] if wants_scalar(target.shape, selection) else target
        selection, fields = self._prepare(selection)
        if fields is not None:
            made = take_fields(self._read(selection, workers, progress), fields, check_fields(self, fields))
            copy_out(out, made)
            return out
        target = _convert.as_output(out, self, selection, dtype)
        _convert.read_into(self, selection, target, workers, progress)
        return out

    def read_async(
        self,
        selection: Selection = ...,
        out: Any = None,
        device: str | None = None,
        stream: Any = None,
        dtype: npt.DTypeLike | None = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Job:
        """Start `read` on other threads and return a `Job`, which uses `out` until it is done.

        Invalid selections and arguments are reported by this call, all other errors by `Job.wait`. Parameters are those
        of `Array.read`.

        Returns
        -------
        Job
            The running read. Jobs of one context share its threads and may end in any order.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError, OutputError
            The selection or `out` does not fit.

        Examples
        --------
        Read the next part while the program computes with this one:

        >>> a = ps.create_array({}, data=np.arange(40.0).reshape(4, 10), chunks=(1, 10))
        >>> job = a.read_async(np.s_[0])
        >>> sums = []
        >>> for row in range(4):
        ...     x = job.wait()
        ...     if row < 3:
        ...         job = a.read_async(np.s_[row + 1])
        ...     sums.append(float(x.sum()))
        >>> sums
        [45.0, 145.0, 245.0, 345.0]
        """
        workers = check_threads(threads)
        progress = callback_of(progress, "reading")
        dtype = None if dtype is None else _convert.as_dtype(dtype)
        if _device.is_device(device):
            return _device.read_async(self, selection, out, device, stream, dtype, workers, progress)
        _check_host(stream)
        asked = selection
        selection, fields = self._prepare(selection)
        if fields is not None:
            check_fields(self, fields)
            self._resolve(selection)
            return start_in_thread(self, asked, out, dtype, workers, progress)
        target = None if out is None else _convert.as_output(out, self, selection, dtype)
        wanted = self.dtype if target is None and dtype is None else target.dtype if target is not None else dtype
        wanted = np.dtype(wanted)
        _convert.check_cast(self, wanted)
        direct = _convert.becomes(self, wanted) and (target is None or target.flags.aligned)
        if direct and progress is None and not self._has_items:
            scalar = out is None and wants_scalar(self._resolve(selection)[1], selection)
            return start_direct(self, selection, out, target, workers, scalar, wanted)
        self._resolve(selection)  # raises here, not in `wait`, for invalid selections
        return start_in_thread(self, selection, out, dtype, workers, progress)

    def write_async(
        self,
        selection: Any,
        value: Any,
        *,
        threads: int | None = None,
        durable: bool = False,
        write_empty_chunks: bool = False,
        stream: Any = None,
        encoder: str | None = None,
    ) -> Job:
        """Copy `value`, start to write it, and return a `Job` without waiting for encoding and storage.

        `value` may be changed as soon as this returns. Writes that are started with one context are done one after the
        other, in the order in which they were started, each by all of the context's threads; reads do not wait for
        them. If the waiting copies exceed the context's `write_queue` bytes, this call waits. The program waits for its
        writes before it ends.

        Values in a device's memory are copied in that memory, in the order of `stream`, or of the stream on which torch
        or CuPy work now: later work on that stream may change them, and this call waits neither for earlier work nor
        for the copy. Arrays of JAX do not change, so that any stream will do. For other objects without `stream` this
        call waits for the copy. If the device has too little memory, it waits for a copy to the host. Values that only
        NumPy casts to the array's dtype are also copied to the host.

        Errors are raised by `wait` of the job, or else, once, by `flush`. Parameters are those of `Array.write`.

        Returns
        -------
        Job
            The running write; its `wait` returns None.

        Raises
        ------
        InvalidArgumentError
            Arguments that `write` refuses; fields of a structured dtype.
        UnsupportedError
            An array of Python objects.

        Examples
        --------
        >>> a = ps.create_array("out.zarr", shape=(4, 10), dtype="f8", chunks=(1, 10))
        >>> x = np.empty(10)
        >>> for step in range(4):
        ...     x[:] = step
        ...     job = a.write_async(np.s_[step], x)     # x may change now
        >>> a.flush()
        >>> a[:, 0]
        array([0., 1., 2., 3.])
        """
        workers = check_threads(threads)
        durable, write_empty_chunks = bool(durable), bool(write_empty_chunks)
        selection, fields = self._prepare(selection)
        if fields is not None:
            raise InvalidArgumentError("write_async writes whole elements: write fields with `a[...] = x`")
        encoder = None if encoder is None else _core.checked_encoder(encoder)
        if _device.is_device_value(value):
            return self._start_from_device(selection, value, workers, durable, write_empty_chunks, stream, encoder)
        if stream is not None:
            raise InvalidArgumentError("streams belong to devices: the value is in host memory")
        if encoder == "device":
            raise InvalidArgumentError("encoder='device' is for values in device memory")
        return WriteJob(self._start_write(selection, value, workers, durable, write_empty_chunks))

    def flush(self) -> None:
        """Wait for all writes of `write_async` that were started with this array's context, for any array.

        Raises
        ------
        Error
            The first error of a write whose job was not waited for; its notes name the others.
        """
        _core._context_of(self).synchronize()

    def plan(self, selection: Selection = ..., *, device: str | None = None, max_lines: int = 64) -> Plan:
        """Return how `selection` would be read: a text of requests, decodes and fills, with the sums as numbers.

        Reads the indexes that it needs, and requests the sizes of objects that are read as a whole (of a remote store:
        a HEAD each, for at most about 10,000 objects).

        `device="cuda"` (or "cuda:1"; the first one without a number) plans a read into the memory of that device, whose
        requests are longer. The plan then also shows which codecs are decoded there and which on the host, and why;
        whether the device reads encoded bytes in the host's memory without a copy; and what `encoder="auto"` would
        choose for a write of the same selection from the device's memory. It needs no device.

        Parameters
        ----------
        selection
            As for `read`.
        max_lines
            The most operations in the text.
        device
            None, or the device of the planned read.

        Returns
        -------
        Plan
            A `str` with attributes.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError
            The selection does not fit.

        Examples
        --------
        >>> a = ps.create_array("a.zarr", data=np.arange(10_000.0).reshape(100, 100), chunks=(10, 100))
        >>> plan = a.plan(np.s_[:, 0])                  # a column: one element of each row is needed
        >>> plan.requests, plan.chunks_touched, plan.amplification
        (10, 10, 100.0)
        >>> print(a.plan(np.s_[0]))
        plan for 'file:///...a.zarr': 1 of 10 cells
        0 index reads, 1 request, ... bytes, 1 of them a whole object
        ...
          decode chunk (0, 0) from all, scatter
        """
        on_device = _device.is_device(device)
        prepared, fields = self._prepare(selection)
        check_fields(self, fields)
        facts = self._plan(prepared, max_lines, _TOUCHED_CHUNKS, on_device)
        text = facts["text"]
        if on_device:
            name = _device.checked_name(device)
            head, gap, operations = text.partition("\n\n")
            number = int(name.partition(":")[2] or 0)
            path = _core._device_path(self, number)
            encoder = _core._encoder_choice(self, prepared, number)
            text = f"{head}\n{name}: {path}\nwritten from {name}, it is encoded by {encoder}{gap}{operations}"
        return Plan(text, facts, self, selection)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("reading an array from storage always makes a copy")
        wanted = None if dtype is None else _convert.as_dtype(dtype)
        if wanted is None or _convert.can_cast(self, wanted):
            made: npt.NDArray[Any] = self.read(..., dtype=wanted)
            return made
        return np.asarray(self.read(...)).astype(wanted)  # `numpy.asarray(x, dtype)` casts floats to ints, too

    _export_device: str | None = None

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): reads end in ordinary memory. (2, number): the array was opened for a device."""
        if self._export_device is None:
            return _tensor.CPU
        return (_device.CUDA, _device.device_number(self._export_device))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Read the whole array and export it: `torch.from_dlpack(a)`. See `penstock.Tensor.__dlpack__`.

        The consumer owns the values. `copy=False` is refused: reading always makes a copy. An array that was opened for
        a device is read into that device's memory, ordered on the consumer's `stream`; a chunk that fails there is
        raised by the next read into that device's memory, or by `Context.synchronize`.
        """
        if copy is False:
            raise ExportError("reading an array from storage always makes a copy", f"array '{self.uri}'")
        if self._export_device is not None:
            _tensor.check_type(self.dtype)
            made: _device.DeviceTensor = self.read(..., device=self._export_device)
            return made._export(stream, max_version, dl_device, copy, fresh=True)
        _tensor.check_request(stream, dl_device)
        _tensor.check_type(self.dtype)
        values = self.read(..., out=_tensor.aligned_empty(self.shape, self.dtype, self))
        return _tensor.export(values, max_version, _tensor.IS_COPIED)

    def _opened(self) -> Array:
        """This array, whose parts are open, too."""
        return self

    def _shard_lengths(self) -> tuple[int, list[int]] | None:
        """Return the axis along which files follow each other and the length of each; None for a single file."""
        files = _core.shard_files(self) if self.shape else None
        return (_core.shard_axis(self), [length for _, length, _, _ in files]) if files else None

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return _convert.iterate_rows(self)

    def _repr_html_(self) -> str:
        """The HTML for notebooks: the facts of `info` and a drawing of the chunk grid."""
        made: str = registry.call("array_html", self)
        return made

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The text of `info` for IPython in a terminal; one line within lists."""
        nested = cycle or len(getattr(printer, "stack", ())) > 1
        printer.text(repr(self) if nested else registry.call("array_text", self))

    def __repr__(self) -> str:
        shards = "" if self.shards is None else f" shards={self.shards}"
        return f"<penstock.Array {self.uri!r} shape={self.shape} dtype={self.dtype} chunks={self.chunks}{shards}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return registry.reopen, (*registry.location_of(self), "r" if self.read_only else None)

    def __dask_tokenize__(self) -> tuple[str, str]:
        """A new name each time: Dask identifies values by name, and storage may have changed."""
        return "penstock.Array", uuid.uuid4().hex


def wants_scalar(shape: tuple[int, ...], selection: Selection) -> bool:
    """As in NumPy: ints for all dimensions give a scalar, with an Ellipsis a 0-d array."""
    if isinstance(selection, _core._Selection):
        return False
    items = selection if isinstance(selection, tuple) else (selection,)
    return not shape and not any(item is ... for item in items)


def _check_host(stream: Any) -> None:
    if stream is not None:
        raise InvalidArgumentError("streams belong to devices: with device='cpu' stream must be None")
