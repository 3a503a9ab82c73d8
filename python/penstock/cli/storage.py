"""Flags of the command line for access to remote storage: those of the C++ verbs."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.core.errors import InvalidArgumentError

_TEXTS = ("profile", "region", "endpoint_url", "ca_bundle", "timeout", "retries")
_SWITCHES = ("anon", "path_style", "netrc")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--anon`, `--profile`, `--header` and the others to a verb that is written in Python."""
    for name in _TEXTS:
        parser.add_argument(f"--{name.replace('_', '-')}")
    for name in _SWITCHES:
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true")
    parser.add_argument("--header", action="append", default=[])


def options_of(given: argparse.Namespace) -> dict[str, Any] | None:
    """The `storage_options` of parsed flags; None if there were none."""
    made: dict[str, Any] = {name: getattr(given, name) for name in (*_TEXTS, *_SWITCHES) if getattr(given, name)}
    headers = {}
    for each in given.header:
        name, colon, value = each.partition(":")
        if not colon or not name:
            raise InvalidArgumentError(f"--header takes 'NAME: VALUE', got '{each}'")
        headers[name] = value.strip()
    if headers:
        made["headers"] = headers
    return made or None
