"""Remote URIs that the engine serves itself, and their `storage_options`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from penstock import _core
from penstock._errors import InvalidArgumentError, _make

_HTTP = ("http", "https")


def _text(value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"not a text but a {type(value).__name__}")
    text = os.fspath(value)
    if any(ord(each) < 0x20 for each in text):
        raise ValueError("a text with control characters")
    return text


def _headers(value: Any) -> list[tuple[str, str]]:
    return [(_text(name), _text(field)) for name, field in dict(value).items()]


def _netrc(value: Any) -> str:
    if isinstance(value, bool):
        return "~" if value else ""
    return _text(value)


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not seconds > 0:
        raise ValueError("not a time above 0")
    return seconds


def _count(value: Any) -> int:
    count = int(value)
    if not 0 <= count <= 1000:
        raise ValueError("not between 0 and 1000")
    return count


_Takes = Mapping[str, tuple[str, Callable[[Any], Any]]]
"""What users write, and the member of remote_options that it becomes."""

_OF_ALL: _Takes = {
    "headers": ("headers", _headers),
    "token": ("token", _text),
    "netrc": ("netrc", _netrc),
    "ca_bundle": ("ca_bundle", _text),
    "connect_timeout": ("connect_timeout", _seconds),
    "timeout": ("timeout", _seconds),
    "retries": ("retries", _count),
}


def serves(uri: str, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether the engine's own stores understand the scheme and every option: what others mean is theirs."""
    return urlsplit(uri).scheme in _HTTP and all(name in _OF_ALL for name in storage_options or {})


def find(uri: str, storage_options: Mapping[str, Any] | None, context: _core.Context) -> tuple[_core.Store, bytes]:
    """The store of a URI that `serves` said yes to, and the path within it."""
    options: dict[str, Any] = {}
    for name, value in (storage_options or {}).items():
        if value is None:
            continue
        member, convert = _OF_ALL[name]
        try:
            options[member] = convert(value)
        except (TypeError, ValueError) as error:
            raise _make(InvalidArgumentError, f"storage_options[{name!r}]: {error}") from None
    return _core.find_remote_place(os.fsencode(uri), context, options)


def to_reopen(target: Any, storage_options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The options that open a URI of `serves` in another process; None where they are not enough."""
    if not isinstance(target, str) or not serves(target, storage_options):
        return None
    parts = urlsplit(target)
    if parts.query or "@" in parts.netloc:
        return None  # an open array does not show what may be a secret, so it cannot say where it is from
    return dict(storage_options or {})
