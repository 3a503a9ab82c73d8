"""`progress=True`: a line on the terminal, or a bar in a notebook, for long operations."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable
from typing import Any

from penstock import _core
from penstock.core.errors import CancelledError, InvalidArgumentError


class ProgressLine:
    """Writes "reading 45% of 3.3 GB, 1.2 GB/s (20% of memcpy's 6 GB/s), 2 s left" to stderr, on one line that is
    overwritten.

    The first display of a process measures how fast the machine copies memory, before the work begins.
    """

    def __init__(self, verb: str, stream: Any = None) -> None:
        self._ceiling = _core.copy_rate()
        self._verb, self._begin = _core.printable(verb), time.monotonic()  # it may name an array
        self._stream = sys.stderr if stream is None else stream
        self._last = 0.0
        self._width = 0
        self._ended = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        ended = total > 0 and done >= total
        if self._ended or (not ended and now - self._last < 0.1):
            return
        self._last, self._ended = now, ended
        seconds = max(now - self._begin, 1e-9)
        rate = done / seconds
        text = f"{self._verb} {100 * done // total if total else 0}% of {_bytes(total)}, {_bytes(rate)}/s"
        if self._ceiling:
            text += f" ({100 * rate / self._ceiling:.0f}% of memcpy's {_bytes(self._ceiling)}/s)"
        if ended:
            text += f", {seconds:.1f} s"
        elif done:
            text += f", {(total - done) / rate:.0f} s left"
        self._show(text, done / total if total else 0.0, ended)

    def _show(self, text: str, fraction: float, ended: bool) -> None:
        self._stream.write("\r" + text.ljust(self._width) + ("\n" if ended else ""))
        self._stream.flush()
        self._width = len(text)


class ProgressBar(ProgressLine):
    """Shows the text of a `ProgressLine` in a notebook, next to a bar. Frontends without HTML show the text alone."""

    def __init__(self, verb: str) -> None:
        super().__init__(verb)
        self._handle: Any = None

    def _show(self, text: str, fraction: float, ended: bool) -> None:
        bar = f'<progress value="{fraction:.3f}" max="1" style="width: 16em; vertical-align: middle"></progress>'
        shown = {"text/plain": text, "text/html": f"<div>{bar} <code>{html.escape(text)}</code></div>"}
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def in_notebook() -> bool:
    """Return whether output goes to a Jupyter frontend. Does not import IPython: a kernel has imported it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")  # which the shell of a terminal does not have


def progress_display(verb: str) -> ProgressLine:
    """The display for `progress=True`: a bar in a notebook, a line on stderr elsewhere."""
    return ProgressBar(verb) if in_notebook() else ProgressLine(verb)


def _bytes(number: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def callback_of(progress: Any, verb: str) -> Callable[..., Any] | None:
    """The callback for the engine: a display for True, nothing for None and False, a function unchanged."""
    if progress is None or progress is False:
        return None
    if progress is True:
        return progress_display(verb)
    if not callable(progress):
        raise InvalidArgumentError(f"progress must be True or a function, got {progress!r}")
    made: Callable[..., Any] = progress
    return made


class Shares:
    """Reports operations that follow each other as one, of `total` bytes, to the callback for `progress`."""

    def __init__(self, progress: Any, verb: str, total: int) -> None:
        self._callback, self._total, self._before = callback_of(progress, verb), int(total), 0

    def __bool__(self) -> bool:
        """Whether there is a callback."""
        return self._callback is not None

    def share(self, size: int) -> Callable[[int, int], Any] | None:
        """The callback for the next operation, which counts as `size` bytes whatever it reports; None: no callback.

        Call it after the operation before has ended.
        """
        callback, total, before = self._callback, self._total, self._before
        self._before = min(total, before + int(size))
        if callback is None:
            return None

        def report(done: int, of: int) -> Any:
            return callback(before + (int(size) * done // of if of else int(size)), total)

        return report

    def add(self, size: int) -> None:
        """An operation of `size` bytes has ended without a report.

        Raises
        ------
        CancelledError
            The callback returned False.
        """
        report = self.share(size)
        if report is not None and report(1, 1) is False:
            raise CancelledError("the caller stopped it")
