"""The settings of `enable`, and the counters of `stats`."""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import Any

from penstock.core import context as _context
from penstock.core.context import Context
from penstock.core.errors import UnsupportedError


class _Settings:
    """Process-wide, as zarr-python's own configuration is."""

    strict: bool = False
    bypass: bool | None = False
    """Whether zarr-python's functions return our arrays. None: in GPU mode only."""
    context: Context | None = None


settings = _Settings()


def current_context() -> Context:
    """The context of `enable(threads=...)`, or the one of the caller."""
    return settings.context or _context.current_context()


_lock = threading.Lock()
_counts: Counter[tuple[str, str, str]] = Counter()


def count(operation: str, path: str, reason: str = "") -> None:
    """Count one read or write by `path`, because of `reason`."""
    with _lock:
        _counts[operation, path, reason] += 1


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def stats(*, reset: bool = False) -> dict[str, dict[str, Any]]:
    """Return counters of the paths of reads and writes since the start, or the last reset.

    Parameters
    ----------
    reset
        Set all counters to 0 afterwards.

    Returns
    -------
    dict
        For "read" and "write": `paths`, a count for each path ("native": store and codecs in C++; "sync": codecs in
        C++, the store's synchronous methods, or its coroutines if they wait; "async": codecs in C++, the store's
        coroutines; "array": no pipeline at all, through `wrap`; "device": decoded in GPU memory; "zarr": zarr-python's
        own code), and `reasons`, a count for each reason to take a slower one.

    Examples
    --------
    >>> import zarr, penstock.zarr
    >>> before = penstock.zarr.stats(reset=True)
    >>> with penstock.zarr.enable():
    ...     z = zarr.create_array("x.zarr", data=np.zeros((100, 50), "f4"), chunks=(10, 50))
    ...     x = z[:10]
    >>> penstock.zarr.stats()["read"]
    {'paths': {'native': 1}, 'reasons': {}}
    """
    with _lock:
        now = dict(_counts)
        if reset:
            _counts.clear()
    out: dict[str, dict[str, Any]] = {kind: {"paths": {}, "reasons": {}} for kind in ("read", "write")}
    for (operation, path, reason), number in sorted(now.items()):
        paths, reasons = out[operation]["paths"], out[operation]["reasons"]
        paths[path] = paths.get(path, 0) + number
        if reason:
            reasons[reason] = reasons.get(reason, 0) + number
    return out


def delegated(operation: str, reason: str) -> None:
    """Count an operation for zarr-python's own code; refuse it if `strict` is set."""
    if settings.strict:
        raise UnsupportedError(f"strict: this {operation} would go zarr-python's own way, because {reason}")
    count(operation, "zarr", reason)


def type_name(value: Any) -> str:
    """The name of a value's type with its package: `penstock.Array` is not `zarr.Array`."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"
