"""Shared by the cases of all formats: the registry, and a user's first operations on an input."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_BYTES = 1_000_000
CASE_TIMEOUT = 20  # seconds after which a case is killed
Action = Callable[[], object]
CASES: dict[str, Callable[[Path], Action]] = {}


def case(made: Callable[[Path], Action]) -> Callable[[Path], Action]:
    CASES[made.__name__] = made
    return made


def add_case(name: str, made: Callable[[Path], Action]) -> None:
    CASES[name] = made


def touch(found: Any) -> Any:
    """A user's first operations on a group or an array."""
    import penstock as ps

    if isinstance(found, ps.Group):
        names = list(found)
        with contextlib.suppress(ps.Error):
            dict(found.attrs)
        return len(names), [_first(found[name]) for name in names[:3]]
    return _first(found)


def _first(found: Any) -> Any:
    import penstock as ps

    if isinstance(found, ps.Group):
        return None
    repr(found)
    dict(found.attrs)
    return found[tuple(slice(0, 1) for _ in found.shape)]
