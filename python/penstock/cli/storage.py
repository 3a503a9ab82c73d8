"""Flags of the command line for access to remote storage: those of the C++ verbs."""

from __future__ import annotations

import argparse
from typing import Any

from penstock import _core
from penstock.core.errors import InvalidArgumentError


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--anon`, `--profile`, `--header` and the others to a verb that is written in Python."""
    for flag, option, takes_none in _core.storage_flags():
        if takes_none:
            parser.add_argument(flag, dest=option, action="store_true")
        elif option == "headers":
            parser.add_argument(flag, dest=option, action="append", default=[])
        else:
            parser.add_argument(flag, dest=option)


def options_of(given: argparse.Namespace) -> dict[str, Any] | None:
    """The `storage_options` of parsed flags; None if there were none."""
    names = [option for _, option, _ in _core.storage_flags()]
    made: dict[str, Any] = {name: getattr(given, name) for name in names if getattr(given, name)}
    headers = {}
    for each in made.pop("headers", []):
        name, colon, value = each.partition(":")
        if not colon or not name:
            raise InvalidArgumentError(f"--header takes 'NAME: VALUE', got '{each}'")
        headers[name] = value.strip()
    if headers:
        made["headers"] = headers
    return made or None
