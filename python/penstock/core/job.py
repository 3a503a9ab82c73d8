"""Reads and writes in the background of a Python program."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from penstock import _core
from penstock.core.errors import DeadlineExceededError

if TYPE_CHECKING:
    from penstock.core.array import Array, Progress, Selection

_live: weakref.WeakSet[Job] = weakref.WeakSet()
_writing: set[_Ticket] = set()
_appenders: weakref.WeakSet[_Closes] = weakref.WeakSet()
_streams: weakref.WeakSet[_Cancels] = weakref.WeakSet()


class _Ticket(Protocol):
    @property
    def done(self) -> bool: ...
    @property
    def progress(self) -> tuple[int, int]: ...
    def cancel(self) -> None: ...
    def wait_for(self, seconds: float) -> bool: ...
    def result(self) -> Any: ...
    def on_done(self, then: Callable[[], None]) -> None: ...


class _Closes(Protocol):
    def close(self) -> object: ...


class _Cancels(Protocol):
    def cancel(self) -> object: ...


class Job:
    """A running read or write. Made by `Array.read_async` and `Array.write_async`.

    Dropping it cancels a read and waits for its workers; a write continues, if necessary until the end of the program.
    `await job` also returns the result; a cancelled task cancels the job.

    Examples
    --------
    >>> a = ps.create_array({}, data=np.arange(1000.0), chunks=(100,))
    >>> job = a.read_async(np.s_[::10])
    >>> job.wait().shape
    (100,)
    >>> job.done, job.progress[0] == job.progress[1]
    (True, True)

    Two reads in a coroutine:

    >>> import asyncio
    >>> async def first_and_last():
    ...     first, last = await asyncio.gather(a.read_async(0), a.read_async(-1))
    ...     return float(first), float(last)
    >>> asyncio.run(first_and_last())
    (0.0, 999.0)
    """

    _what = "read"
    _doing = "reading"

    def __init__(self, ticket: _Ticket, finish: Callable[[Any], Any], look_every: float | None = None) -> None:
        """`look_every`: seconds between two checks of an awaiting task, for reads whose end is not always notified."""
        self._ticket = ticket
        self._finish = finish
        self._look_every = look_every
        _live.add(self)

    @property
    def done(self) -> bool:
        """True when it has ended, also by a failure."""
        return self._ticket.done

    @property
    def progress(self) -> tuple[int, int]:
        """(bytes done, bytes in all), decoded."""
        return self._ticket.progress

    def cancel(self) -> None:
        """Request that it stop; `wait` then raises `CancelledError`, unless it had ended.

        After a stopped write each storage object is the old one or the new one.

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
        ... except ps.CancelledError:
        ...     print("cancelled")
        cancelled
        """
        self._ticket.cancel()

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for the end and return the result of `read` or `write`, or raise its exception.

        Parameters
        ----------
        timeout
            Seconds; None: no limit.

        Returns
        -------
        numpy.ndarray, Tensor or None
            The result of the read, also in further calls; None for writes.

        Raises
        ------
        DeadlineExceededError
            (a TimeoutError) The time is over; the job continues.
        CancelledError
            The job was cancelled.
        KeyboardInterrupt
            Ctrl-C, which also cancels the job.
        Error
            As for `Array.read` and `Array.write`.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(1000.0), chunks=(100,))
        >>> job = a.read_async()
        >>> float(job.wait(timeout=60).sum())
        499500.0
        """
        try:
            ended = self._ticket.wait_for(-1.0 if timeout is None else max(0.0, timeout))
        except BaseException:
            self.cancel()
            self._ticket.wait_for(-1.0)  # nothing continues after a Ctrl-C; a second one returns at once
            raise
        if not ended:
            raise DeadlineExceededError(f"the {self._what} did not end within {timeout} s; it continues")
        return self._finish(self._ticket.result())

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio  # a caller that awaits has already imported it; the import takes 40 ms

        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def wake() -> None:
            if not ended.done():
                ended.set_result(None)

        def from_worker() -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have been closed
                loop.call_soon_threadsafe(wake)

        self._ticket.on_done(from_worker)
        try:
            while not (yield from asyncio.wait([ended], timeout=self._look_every).__await__())[0]:
                self._ticket.wait_for(0.0)
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self._finish(self._ticket.result())

    def __repr__(self) -> str:
        return f"<penstock.Job {'done' if self.done else self._doing}>"


class WriteJob(Job):
    """A running write. It has no owner: dropping this object does not stop it."""

    _what = "write"
    _doing = "writing"

    def __init__(self, ticket: _Ticket) -> None:
        super().__init__(ticket, lambda _: None)
        _live.discard(self)  # these are cancelled at the end of the program
        _writing.add(ticket)
        ticket.on_done(lambda: _writing.discard(ticket))


class _ThreadTicket:
    """A read on a thread of its own: for conversions and progress callbacks."""

    def __init__(self, read: Callable[[Progress], Any], progress: Progress | None) -> None:
        self._ended = threading.Event()
        self._stop = False
        self._state = (0, 0)
        self._user_progress = progress
        self._lock = threading.Lock()
        self._then: list[Callable[[], None]] = []
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(read,), name="penstock-job", daemon=True)
        self._thread.start()

    def _run(self, read: Callable[[Progress], Any]) -> None:
        try:
            self._result = read(self._report)
        except BaseException as error:
            self._error = error
        with self._lock:
            self._ended.set()
            then, self._then = self._then, []
        for one in then:
            one()

    def _report(self, done: int, total: int) -> bool:
        self._state = (done, total)
        if self._stop:
            return False
        return self._user_progress is None or self._user_progress(done, total) is not False

    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    @property
    def progress(self) -> tuple[int, int]:
        return self._state

    def cancel(self) -> None:
        self._stop = True

    def wait_for(self, seconds: float) -> bool:
        return self._ended.wait(None if seconds < 0 else seconds)

    def result(self) -> Any:
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def on_done(self, then: Callable[[], None]) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._then.append(then)
                return
        then()


def start_direct(
    array: Array, selection: Selection, out: Any, target: Any, threads: int, scalar: bool, dtype: Any
) -> Job:
    """A read on the context's own threads, directly into the result, which has that dtype."""
    ticket = array._start_read(selection, target, threads, None if dtype == array.dtype else dtype)
    if out is not None:
        return Job(ticket, lambda _: out)
    return Job(ticket, lambda made: made[()] if scalar else made)


def start_in_thread(
    array: Array, selection: Selection, out: Any, dtype: Any, threads: int, progress: Progress | None
) -> Job:
    """A read that needs Python while it runs."""

    def read(report: Progress) -> Any:
        return array.read(selection, out=out, dtype=dtype, threads=threads or None, progress=report)

    return run_in_thread(read, progress)


def run_in_thread(read: Callable[[Progress], Any], progress: Progress | None) -> Job:
    """A job that runs `read` with a function for its progress, which also decides whether it continues."""
    ticket = _ThreadTicket(read, progress)
    job = Job(ticket, lambda made: made)
    weakref.finalize(job, _stop_thread, ticket)
    return job


def _stop_thread(ticket: _ThreadTicket) -> None:
    ticket.cancel()
    # The garbage collector may have called this on a thread that the read needs.
    if not (ticket.is_current_thread() or _core._is_engine_thread()):
        ticket.wait_for(-1.0)


def close_at_exit(appender: _Closes) -> None:
    """Close it before the program ends, if it still exists."""
    _appenders.add(appender)


def cancel_at_exit(reads: _Cancels) -> None:
    """Cancel these reads before the program ends, if they still exist."""
    _streams.add(reads)


def _finish_writes() -> None:
    for appender in list(_appenders):
        try:
            appender.close()
        except Exception as failed:
            print(f"penstock: an appender that was not closed failed: {failed}", file=sys.stderr)
    for ticket in list(_writing):
        try:
            ticket.result()
        except Exception as failed:
            print(f"penstock: a write that was not waited for failed: {failed}", file=sys.stderr)


class _Answers:
    """Calls of asynchronous stores that an event loop's thread has not returned from.

    Python must not end before they return: until 3.14 it ends a thread at its next request for the GIL, which is fatal
    within C++ and Rust.
    """

    _STORES_SECONDS = 0.02

    def __init__(self) -> None:
        self._open: set[concurrent.futures.Future[None]] = set()
        self._any = False

    def add(self, answer: concurrent.futures.Future[None]) -> None:
        self._any = True
        self._open.add(answer)
        answer.add_done_callback(self._open.discard)

    def wait(self, seconds: float) -> None:
        concurrent.futures.wait(list(self._open), seconds)
        if self._any:
            time.sleep(self._STORES_SECONDS)  # a store's own thread woke the loop and has not returned yet


answers = _Answers()


def _cancel_all() -> None:
    _finish_writes()
    # Workers that call Python stores cannot end after the interpreter began to shut down.
    jobs = list(_live)
    for job in jobs:
        job.cancel()
    end = time.monotonic() + 10
    for job in jobs:
        job._ticket.wait_for(max(0.0, end - time.monotonic()))
    for stream in list(_streams):
        stream.cancel()
    answers.wait(max(0.0, end - time.monotonic()))
    _core._end()


atexit.register(_cancel_all)
