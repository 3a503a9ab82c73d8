"""Sizes in bytes, as numbers or as text, and parts of texts: counts, suggestions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock import _core
from penstock.core.errors import InvalidArgumentError


def parse_bytes(value: Any, name: str) -> int:
    """A number of bytes: an int, or text such as "2GiB", "128 MB", "1.5G". GB is 1000**3, GiB is 1024**3.

    Raises
    ------
    InvalidArgumentError
        Any other value, or a negative number; the message starts with `name`.
    """
    made = _bytes_of(value)
    if made is None:
        raise InvalidArgumentError(f"{name} must be a number of bytes or text such as '2GiB', got {value!r}")
    if made >= 2**64:
        raise InvalidArgumentError(f"{name} must be less than 2**64 bytes, got {value!r}")
    return int(made)


def _bytes_of(value: Any) -> int | float | None:
    if isinstance(value, str):
        return _core.parse_bytes(value.strip().encode(errors="replace"))
    if hasattr(value, "__index__") and not isinstance(value, bool) and value.__index__() >= 0:
        return int(value.__index__())
    if isinstance(value, float) and value.is_integer() and value >= 0:  # 2e9
        return value
    return None


def check_count(value: Any, name: str) -> int:
    """A whole number of at least 1, such as a number of threads."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise InvalidArgumentError(f"{name} must be a whole number, got {value!r}")
    number = int(value.__index__())
    if number < 1:
        raise InvalidArgumentError(f"{name} must be at least 1, got {number}")
    if number >= 2**63:
        raise InvalidArgumentError(f"{name} must be less than 2**63, got {number}")
    return number


def check_threads(value: Any, name: str = "threads") -> int:
    """A number of threads, or of requests, for the engine, which has at most 2**32 - 1; 0 for None."""
    return 0 if value is None else min(check_count(value, name), 2**32 - 1)


def either(**given: Any) -> Any:
    """The value that is given under one of several names of an option, or None."""
    found = [name for name, value in given.items() if value is not None]
    if len(found) > 1:
        raise InvalidArgumentError(f"{' and '.join(found)} are names of one option: give one of them")
    return given[found[0]] if found else None


def either_bytes(**given: Any) -> int | None:
    """As `either`, of numbers of bytes: at least 1, or None. Errors have the name that was given."""
    value = either(**given)
    if value is None:
        return None
    (name,) = (name for name, each in given.items() if each is not None)
    return max(1, parse_bytes(value, name))


def counted(count: int, noun: str, plural: str = "") -> str:
    """`count` with its noun: `1 chunk`, `0 chunks`, `3 axes`. `plural` is the noun with an s if it is empty."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def suggestion(typed: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the nearest known word, or nothing."""
    found = _core.nearest_word(typed, list(known))
    return f"; did you mean '{found}'?" if found else ""
