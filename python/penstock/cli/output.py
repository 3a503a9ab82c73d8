"""What the verbs that are written in Python print: the bytes and exit statuses are those of the C++ verbs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator

from penstock._core import printable
from penstock.core.errors import Error, StorageError


def write_out(data: bytes) -> None:
    """Write to standard output, completely.

    Raises
    ------
    SystemExit
        The reader of a pipe has closed it: the status of the C++ verbs.
    StorageError
        Standard output is closed, or its device is full.
    """
    if sys.stdout is None:
        raise StorageError(f"cannot write the output: {os.strerror(errno.EBADF)}")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it at its end
        if isinstance(error, BrokenPipeError):
            raise SystemExit(128 + signal.SIGPIPE) from None
        raise StorageError(f"cannot write the output: {error.strerror}") from error


def show(text: str) -> None:
    """Print a line, or lines. Names that are not UTF-8 are printed as the bytes that they are.

    Raises
    ------
    SystemExit, StorageError
        As for `write_out`.
    """
    write_out(f"{text}\n".encode("utf-8", "surrogateescape"))


def fail(error: Error, as_json: bool, status: int = 1) -> int:
    """Report an error as the C++ program does. Returns `status`."""
    if as_json:
        document = {"code": error.code, "message": error.message, "notes": list(error.notes)}
        with contextlib.suppress(Error):  # a failed write of an error message cannot be reported
            show(json.dumps({"error": document}, indent=2))
    else:
        _print_message(str(error))
    return status


@contextlib.contextmanager
def warnings_as_messages() -> Iterator[None]:
    """Print warnings as the C++ program does, without the place in the code that caused them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _print_message(str(message))
        yield


def _print_message(text: str) -> None:
    """Print to standard error, if that is possible."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"penstock: {printable(text, lines=True)}", file=sys.stderr, flush=True)
