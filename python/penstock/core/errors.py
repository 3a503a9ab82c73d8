"""The exceptions. Each is an `Error` and the matching built-in exception.

The engine's errors are values; `penstock._core` turns one into the class here that has its code.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import CancelledError as _FutureCancelledError
from contextlib import contextmanager
from functools import partial
from typing import Any

__all__ = [
    "CancelledError",
    "ConflictError",
    "CorruptDataError",
    "DeadlineExceededError",
    "Error",
    "ExportError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OutOfRangeError",
    "OutputError",
    "PermissionDeniedError",
    "ReadOnlyError",
    "ResourceExhaustedError",
    "StorageError",
    "UnsupportedError",
]


class Error(Exception):
    """Base of all errors of Penstock.

    `str(error)` is one sentence, then a line for each layer that added a note: codec, chunk, key and byte range, array.

    Parameters
    ----------
    message
        The sentence.
    notes
        One line for each layer, innermost first.
    code
        The kind of error, if it is not the class's.

    Examples
    --------
    >>> try:
    ...     ps.open("absent.zarr")
    ... except ps.Error as error:
    ...     print(error.code, isinstance(error, FileNotFoundError))
    not_found True
    """

    code: str = "internal"
    """The kind of error, as the message begins: `corrupt_data`, `not_found`, ..."""
    notes: tuple[str, ...] = ()
    """One line for each layer that the error passed, innermost first."""
    message: str = ""
    """The first sentence alone."""

    def __init__(self, message: str = "", *notes: str, code: str | None = None) -> None:
        if code is not None:
            self.code = code
        super().__init__("\n".join([f"{self.code}: {message}", *(f"  {note}" for note in notes)]))
        self.message, self.notes = message, notes

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), code=self.code), (self.message, *self.notes), self.__dict__


class InvalidArgumentError(Error, ValueError):
    """The call has no meaning: a wrong shape, a bad option.

    Examples
    --------
    >>> try:
    ...     ps.create_array({}, shape=(4,), dtype="f4", chunks=(-5,))
    ... except ps.InvalidArgumentError as error:       # also a ValueError
    ...     print(error.code)
    invalid_argument
    """

    code = "invalid_argument"


class OutputError(InvalidArgumentError, BufferError):
    """`out=` cannot hold the result: wrong shape or dtype, or memory that cannot be written to.

    Examples
    --------
    >>> a = ps.create_array({}, data=np.zeros((2, 3)))
    >>> try:
    ...     a.read(..., out=np.empty((3, 2)))
    ... except ps.OutputError as error:                # also a ValueError and a BufferError
    ...     print(error.message)
    out has shape (3, 2), the selection (2, 3)
    """


class OutOfRangeError(Error, IndexError):
    """An index exceeds the array.

    Examples
    --------
    >>> a = ps.create_array({}, data=np.zeros((2, 3)))
    >>> try:
    ...     a[2]
    ... except ps.OutOfRangeError as error:            # also an IndexError
    ...     print(error.message)
    index 2 is out of bounds for axis 0 with size 2
    """

    code = "out_of_range"


class NotFoundError(Error, FileNotFoundError, KeyError):
    """No array or group of a known format exists there.

    Examples
    --------
    >>> run = ps.create_group({})
    >>> run["temperature"] = np.zeros(3)
    >>> try:
    ...     run["temprature"]
    ... except ps.NotFoundError as error:              # also a KeyError and a FileNotFoundError
    ...     print(error.notes[-1])
    did you mean 'temperature'?
    """

    code = "not_found"


class CorruptDataError(Error, ValueError):
    """Bytes in storage contradict the format or the metadata: a checksum, a size, an index.

    Examples
    --------
    >>> a = ps.create_array("x.zarr", data=np.ones(100), chunks=(50,), codecs=["crc32c"])
    >>> with open("x.zarr/c/1", "r+b") as file:
    ...     _ = file.write(b"damage")
    >>> try:
    ...     a[...]
    ... except ps.CorruptDataError as error:           # also a ValueError
    ...     print(error)
    corrupt_data: crc32c of 400 bytes is ..., stored is ...
      decoding with crc32c
      decoding chunk (1,)
      reading 'c/1', all
      array 'file:///...x.zarr'
    """

    code = "corrupt_data"


class UnsupportedError(Error, NotImplementedError):
    """Well-formed, but not supported by this release.

    Examples
    --------
    >>> try:
    ...     ps.decode("no_such_codec", b"", "i4", (4,))
    ... except ps.UnsupportedError as error:           # also a NotImplementedError
    ...     print(error.code)
    unsupported
    """

    code = "unsupported"


class ExportError(UnsupportedError, BufferError):
    """A tensor that cannot be exported as requested: its type has no code in DLPack, or it is on another device.

    Examples
    --------
    >>> times = ps.create_array({}, data=np.array(["2026-01-01"], "M8[D]"))
    >>> try:
    ...     np.from_dlpack(times)
    ... except ps.ExportError as error:                # also a BufferError
    ...     print(error.message)
    DLPack has no data type for datetime64[D] (view it as int64)
    """


class PermissionDeniedError(Error, PermissionError):
    """The store refused.

    Examples
    --------
    A store of your own reports a refusal, and the reader receives it with the key:

    >>> class Locked(ps.Store):
    ...     def get(self, key):
    ...         raise PermissionError("sign in first")
    >>> try:
    ...     ps.open(Locked())
    ... except ps.PermissionDeniedError as error:      # also a PermissionError
    ...     print(error.code)
    permission_denied
    """

    code = "permission_denied"


class StorageError(Error, OSError):
    """The store failed, or ended early.

    Examples
    --------
    >>> class Broken(ps.Store):
    ...     def get(self, key):
    ...         raise OSError("the disk is gone")
    >>> try:
    ...     ps.open(Broken())
    ... except ps.StorageError as error:               # also an OSError
    ...     print(error.code)
    io_error
    """

    code = "io_error"


class ConflictError(Error, OSError):
    """An object kept changing while it was read, or is already in use.

    Examples
    --------
    >>> for part in range(2):
    ...     np.save(f"part_{part}.npy", np.full(3, part))
    >>> parts = ps.open_shards("part_*.npy")
    >>> np.save("part_1.npy", np.zeros(30))            # another program replaces a file
    >>> try:
    ...     parts[...]
    ... except ps.ConflictError as error:              # also an OSError
    ...     print(error.code)
    conflict
    """

    code = "conflict"


class ReadOnlyError(Error, PermissionError, ValueError):
    """A write to a read-only array or group: opened with mode="r", or in a read-only store or format.

    It is a PermissionError (and so an OSError), which h5py raises, and a ValueError, which zarr-python raises.

    Examples
    --------
    >>> ps.save("x.zarr", np.zeros(3))
    >>> a = ps.open("x.zarr", mode="r")
    >>> try:
    ...     a[0] = 1
    ... except ps.ReadOnlyError as error:
    ...     print(error.code)
    read_only
    """

    code = "read_only"


class CancelledError(Error, _FutureCancelledError):
    """The read was cancelled.

    Examples
    --------
    >>> import threading
    >>> ready = threading.Event()
    >>> class Slow(ps.Store):
    ...     objects = {}
    ...     def get(self, key):
    ...         if key != "zarr.json":
    ...             ready.wait()
    ...         return self.objects.get(key)
    >>> a = ps.create_array(Slow.objects, data=np.ones(1000), chunks=(1,))
    >>> job = ps.open(Slow()).read_async()
    >>> job.cancel()
    >>> ready.set()
    >>> try:
    ...     job.wait()
    ... except ps.CancelledError as error:            # also a concurrent.futures.CancelledError
    ...     print(error.code)
    cancelled
    """

    code = "cancelled"


class DeadlineExceededError(Error, TimeoutError):
    """Time ran out.

    Examples
    --------
    >>> import threading
    >>> ready = threading.Event()
    >>> class Slow(ps.Store):
    ...     objects = {}
    ...     def get(self, key):
    ...         if key != "zarr.json":
    ...             ready.wait()
    ...         return self.objects.get(key)
    >>> ps.save(Slow.objects, np.ones(3))
    >>> job = ps.open(Slow()).read_async()
    >>> try:
    ...     job.wait(timeout=0.01)
    ... except ps.DeadlineExceededError as error:      # also a TimeoutError; the read continues
    ...     print(error.code)
    deadline_exceeded
    >>> ready.set()
    >>> job.wait()
    array([1., 1., 1.])
    """

    code = "deadline_exceeded"


class ResourceExhaustedError(Error, MemoryError):
    """A limit of the context or of the system was reached.

    Examples
    --------
    >>> ps.save("x.zarr", np.ones((64, 1 << 16)))
    >>> a = ps.open("x.zarr", context=ps.Context(memory_limit="1MiB", threads=1))
    >>> try:
    ...     a[0]                                       # a chunk has 32 MiB
    ... except ps.ResourceExhaustedError as error:     # also a MemoryError
    ...     print(error.code)
    resource_exhausted
    """

    code = "resource_exhausted"


class InternalError(Error, RuntimeError):
    """A fault in Penstock: please report it."""

    code = "internal"


for _name in __all__:  # tracebacks and pickles name the public module
    globals()[_name].__module__ = "penstock"


@contextmanager
def system_errors(doing: str) -> Iterator[None]:
    """Turn errors of the system into those that the engine raises for them."""
    try:
        yield
    except Error:
        raise
    except OSError as failure:
        kind: type[Error] = StorageError
        if isinstance(failure, FileNotFoundError):
            kind = NotFoundError
        elif isinstance(failure, PermissionError):
            kind = PermissionDeniedError
        elif failure.errno in (errno.EMFILE, errno.ENFILE):
            kind = ResourceExhaustedError
        error = kind(f"{doing} failed: {os.strerror(failure.errno) if failure.errno else failure}")
        if isinstance(error, OSError):
            error.errno = failure.errno
        raise error from failure
