"""`progress=True`: a line on the terminal for long operations."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from penstock.core.errors import InvalidArgumentError


class ProgressLine:
    """Writes "reading 45% of 3.3 GB, 1.2 GB/s, 2 s left" to stderr, on one line that is overwritten."""

    def __init__(self, verb: str, stream: Any = None) -> None:
        self._verb, self._stream, self._begin = verb, sys.stderr if stream is None else stream, time.monotonic()
        self._last = 0.0
        self._width = 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        ended = total > 0 and done >= total
        if not ended and now - self._last < 0.1:
            return
        self._last = now
        seconds = max(now - self._begin, 1e-9)
        rate = done / seconds
        text = f"{self._verb} {100 * done // total if total else 0}% of {_bytes(total)}, {_bytes(rate)}/s"
        if ended:
            text += f", {seconds:.1f} s"
        elif done:
            text += f", {(total - done) / rate:.0f} s left"
        self._stream.write("\r" + text.ljust(self._width) + ("\n" if ended else ""))
        self._stream.flush()
        self._width = len(text)


def _bytes(number: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def callback_of(progress: Any, verb: str) -> Callable[..., Any] | None:
    """The callback for the engine: a line on stderr for True, nothing for None and False, a function unchanged."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return ProgressLine(verb)
    if not callable(progress):
        raise InvalidArgumentError(f"progress must be True or a function, got {progress!r}")
    made: Callable[..., Any] = progress
    return made
