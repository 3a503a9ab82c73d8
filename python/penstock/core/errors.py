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
    """The call has no meaning: a wrong shape, a bad option."""

    code = "invalid_argument"


class OutputError(InvalidArgumentError, BufferError):
    """`out=` cannot hold the result: wrong shape or dtype, or memory that cannot be written to."""


class OutOfRangeError(Error, IndexError):
    """An index leaves the array."""

    code = "out_of_range"


class NotFoundError(Error, FileNotFoundError, KeyError):
    """No array or group of a known format exists there."""

    code = "not_found"


class CorruptDataError(Error, ValueError):
    """Bytes in storage contradict the format or the metadata: a checksum, a size, an index."""

    code = "corrupt_data"


class UnsupportedError(Error, NotImplementedError):
    """Well-formed, but not supported by this release."""

    code = "unsupported"


class ExportError(UnsupportedError, BufferError):
    """A tensor that cannot be exported as requested: its type has no code in DLPack, or it is on another device."""


class PermissionDeniedError(Error, PermissionError):
    """The store refused."""

    code = "permission_denied"


class StorageError(Error, OSError):
    """The store failed, or ended early."""

    code = "io_error"


class ConflictError(Error, OSError):
    """An object kept changing while it was read, or is already in use."""

    code = "conflict"


class ReadOnlyError(Error, PermissionError, ValueError):
    """A write to a read-only array or group: opened with mode="r", or in a read-only store or format.

    It is a PermissionError (and so an OSError), which h5py raises, and a ValueError, which zarr-python raises.
    """

    code = "read_only"


class CancelledError(Error, _FutureCancelledError):
    """The read was cancelled."""

    code = "cancelled"


class DeadlineExceededError(Error, TimeoutError):
    """Time ran out."""

    code = "deadline_exceeded"


class ResourceExhaustedError(Error, MemoryError):
    """A limit of the context or of the system was reached."""

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
