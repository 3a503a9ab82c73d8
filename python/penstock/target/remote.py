"""Remote URIs that the engine itself serves, and their `storage_options`."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from typing import Any

from penstock import _core
from penstock.core.errors import InvalidArgumentError


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
    "ca_bundle": ("ca_bundle", _text),
    "connect_timeout": ("connect_timeout", _seconds),
    "timeout": ("timeout", _seconds),
    "retries": ("retries", _count),
}
_OF_HTTP: _Takes = {**_OF_ALL, "token": ("token", _text), "netrc": ("netrc", _netrc)}
# The names of s3fs, then those of obstore and of the AWS command line.
_OF_BUCKETS: _Takes = {
    **_OF_ALL,
    "anon": ("anonymous", bool),
    "skip_signature": ("anonymous", bool),
    "key": ("key", _text),
    "aws_access_key_id": ("key", _text),
    "secret": ("secret", _text),
    "aws_secret_access_key": ("secret", _text),
    "endpoint_url": ("endpoint_url", _text),
    "region": ("region", _text),
    "path_style": ("path_style", bool),
}
_OF_S3: _Takes = {
    **_OF_BUCKETS,
    "token": ("session_token", _text),
    "aws_session_token": ("session_token", _text),
    "profile": ("profile", _text),
    "aws_region": ("region", _text),
    "region_name": ("region", _text),
    "aws_endpoint": ("endpoint_url", _text),
}
_OF_GS: _Takes = {**_OF_BUCKETS, "token": ("token", _text)}
_GOOGLES_WORDS = ("google_default", "cloud", "cache", "browser")
_GOOGLES_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_TAKEN = {"http": _OF_HTTP, "https": _OF_HTTP, "s3": _OF_S3, "gs": _OF_GS}


def _scheme(uri: str) -> str:
    scheme, separator, _ = uri.partition("://")
    return scheme.lower() if separator else ""


def _flat(uri: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options, including those that s3fs passes to its client; gcsfs calls anonymous access "anon"."""
    options = dict(storage_options or {})
    inner = options.get("client_kwargs")
    if _scheme(uri) == "s3" and isinstance(inner, Mapping):
        del options["client_kwargs"]
        options = {**inner, **options}
    if _scheme(uri) == "gs" and options.get("token") == "anon":
        options["token"], options["anon"] = None, True
    return options


def _is_for_google(uri: str, options: Mapping[str, Any]) -> bool:
    """Whether a `gs:` URI is read with credentials that must be exchanged for tokens: by gcsfs's options for their
    location, by a file of them or, without options, by Google's variable if a library is installed that uses it.
    """
    if _scheme(uri) != "gs":
        return False
    token = options.get("token")
    if not options:
        is_known = any(importlib.util.find_spec(name) is not None for name in ("gcsfs", "obstore"))
        return bool(os.environ.get(_GOOGLES_VARIABLE)) and is_known
    if isinstance(token, str):
        return token in _GOOGLES_WORDS or token.endswith(".json")
    return token is not None


def for_obstore(uri: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """gcsfs's options with obstore's names."""
    made = dict(options)
    token = made.get("token")
    if _scheme(uri) == "gs" and isinstance(token, str):
        if token in ("google_default", "cloud"):
            del made["token"]
        elif token.endswith(".json"):
            made["application_credentials"] = made.pop("token")
    return made


def serves(uri: str, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether the engine's own stores support the scheme and every option; otherwise another library serves the URI."""
    taken = _TAKEN.get(_scheme(uri))
    options = _flat(uri, storage_options)
    return taken is not None and all(name in taken for name in options) and not _is_for_google(uri, options)


def find(uri: str, storage_options: Mapping[str, Any] | None, context: _core.Context) -> tuple[_core.Store, bytes]:
    """The store of a URI for which `serves` is true, and the path within it."""
    options: dict[str, Any] = {}
    for name, value in _flat(uri, storage_options).items():
        if value is None:
            continue
        member, convert = _TAKEN[_scheme(uri)][name]
        try:
            options[member] = convert(value)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"storage_options[{name!r}]: {error}") from None
    return _core.find_remote_place(os.fsencode(uri), context, options)


def to_reopen(target: Any, storage_options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The options that open a URI of `serves` in another process; None if they are not enough."""
    if not isinstance(target, str) or not serves(target, storage_options):
        return None
    host, _, path = target.partition("://")[2].partition("/")
    if "@" in host or (_scheme(target).startswith("http") and "?" in path):
        return None  # an open array does not show possible secrets, so it cannot be opened elsewhere
    return dict(storage_options or {})
