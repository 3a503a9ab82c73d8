"""Local paths, from users' arguments."""

from __future__ import annotations

import os
from typing import Any

from penstock import _core


def local_path(name: str) -> str:
    """The path that a `file:` URI names; every other name unchanged.

    The URI of an open array has the characters of its path: a file with exactly that name takes precedence.
    """
    return os.fsdecode(_core.local_path(os.fsencode(name))) if name.startswith("file:") else name


def path_here(target: Any) -> str | None:
    """The local path that `target` is, whether it exists or not; None for other targets."""
    if not isinstance(target, str):
        if not hasattr(target, "__fspath__"):
            return None
        target = os.fsdecode(target)
    target = local_path(target)
    return target if "://" not in target and not target.startswith("zip:") else None


def local_file(target: Any) -> str | None:
    """The same if it is a file."""
    path = path_here(target)
    return path if path is not None and os.path.isfile(path) else None
