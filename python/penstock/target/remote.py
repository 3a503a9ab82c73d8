"""Remote URIs: which of them the engine serves, by its own table of schemes and options (driver/schemes.cc)."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from penstock import _core


def is_google_installed() -> bool:
    """Whether a library is installed that exchanges Google's credentials for tokens."""
    return any(importlib.util.find_spec(name) is not None for name in ("gcsfs", "obstore"))


def for_obstore(uri: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """gcsfs's options with obstore's names."""
    made = dict(options)
    token = made.get("token")
    if uri.lower().startswith("gs://") and isinstance(token, str):
        if token in ("google_default", "cloud"):
            del made["token"]
        elif token.endswith(".json"):
            made["application_credentials"] = made.pop("token")
    return made


def serves(uri: str, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether the engine's own stores support the scheme and every option; otherwise another library opens the URI."""
    return _core.serves(os.fsencode(uri), storage_options, is_google_installed)


def to_reopen(target: Any, storage_options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The options with which another process can open a remote URI; None if they are not sufficient."""
    if not isinstance(target, str) or not _core.names_for_others(os.fsencode(target)):
        return None
    return dict(storage_options or {})


def to_reopen_here(target: Any, storage_options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The same for a URI that the engine opens."""
    made = to_reopen(target, storage_options)
    return made if made is not None and serves(target, storage_options) else None
