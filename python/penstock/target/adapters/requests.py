"""Types and functions that all adapters use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from penstock.core.errors import UnsupportedError
from penstock.target.store import bytes_view

Request = tuple[str, int, int | None, bool, str | None]
Put = tuple[str, bytes | None, bool, str | None]
Stored = str | None | Literal[False]

ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""The exceptions by which file systems report that an object does not exist."""


def children_of(keys: Iterable[str], prefix: str) -> Iterable[str]:
    """The names directly below `prefix`, folders with a final '/'."""
    seen = set()
    for key in keys:
        if key.startswith(prefix):
            head, slash, _ = key[len(prefix) :].partition("/")
            seen.add(prefix + head + slash)
    return seen


def checked(value: Any) -> Any:
    """What `get` returned, which must not have the form of an adapter's result with a version."""
    if isinstance(value, bool | tuple):
        raise TypeError(f"get must return bytes or None, not {type(value).__name__}")
    return value


def cut(value: Any, offset: int, length: int | None, from_end: bool) -> Any:
    """The requested part of a whole object."""
    if checked(value) is None or length is None:
        return value
    view = bytes_view(value)
    return view[max(view.nbytes - length, 0) :] if from_end else view[offset : offset + length]


def cut_whole(value: bytes, offset: int, length: int | None, from_end: bool) -> Any:
    """The requested part of a response that is longer: web servers that ignore ranges return the whole object."""
    return value if length is None or len(value) <= length else cut(value, offset, length, from_end)


def method_of(store: Any, *names: str) -> Callable[..., Any] | None:
    """The first of these methods that the object has."""
    for name in names:
        found = getattr(store, name, None)
        if callable(found):
            return found  # type: ignore[no-any-return]
    return None


def cannot(store: Any, what: str) -> Exception:
    return UnsupportedError(f"{type(store).__name__} {what}")
