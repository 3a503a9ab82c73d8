"""The event loop of asynchronous stores that have none of their own."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from penstock.core.errors import UnsupportedError

if TYPE_CHECKING:
    import asyncio  # imported where it is used: it takes a quarter of this package's import time


class _EventLoop:
    """One background thread with an event loop, started at first use; a forked child gets its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._loop = None

    def get(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="penstock-stores", daemon=True).start()
            return self._loop


event_loop = _EventLoop()


class _Answering(threading.local):
    on = False


answering = _Answering()
"""Set while a request is completed on an event loop. The engine may send the next ones from there; it does not wait."""


def refuse_to_wait(loop: asyncio.AbstractEventLoop) -> None:
    """Raise an error if this thread runs `loop`: a caller on it would wait forever for what the loop has to do."""
    import asyncio

    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if running is loop and not answering.on:
        raise UnsupportedError(
            "this call would wait for the event loop that it runs on, which serves the store: use `await "
            "a.read_async(...)`, or another thread (`asyncio.to_thread`); for zarr.create_array(data=a), pass a[...]"
        )
