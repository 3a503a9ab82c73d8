"""The sources of verbs that are written in Python, and their flags for remote storage: those of the C++ verbs."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

from penstock import _core
from penstock.api.open import open
from penstock.api.request import unused_option_of
from penstock.api.shards import open_shards
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import Error, InvalidArgumentError, NotFoundError
from penstock.core.group import Group
from penstock.target.sniff import format_by_name

Node = TypeVar("Node")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--anon`, `--profile`, `--header` and the others to a verb that is written in Python."""
    group = parser.add_argument_group("remote storage")
    for flag, option, takes_none, what in _core.storage_flags():
        text = what[0].lower() + what[1:]
        if takes_none:
            group.add_argument(flag, dest=option, action="store_true", help=text)
        elif option == "headers":
            group.add_argument(flag, dest=option, action="append", default=[], metavar="HEADER", help=text)
        else:
            group.add_argument(flag, dest=option, metavar=flag.rpartition("-")[2].upper(), help=text)
    group.add_argument("--allow-local", action="store_true", help="references may name files on this machine")


def options_of(given: argparse.Namespace) -> dict[str, Any]:
    """The options of `penstock.open` that parsed flags select; empty if there were none."""
    names = [option for _, option, *_ in _core.storage_flags()]
    made: dict[str, Any] = {name: getattr(given, name) for name in names if getattr(given, name)}
    headers = {}
    for each in made.pop("headers", []):
        name, colon, value = each.partition(":")
        if not colon or not name:
            raise InvalidArgumentError(f"--header takes 'NAME: VALUE', got '{each}'")
        headers[name] = value.strip()
    if headers:
        made["headers"] = headers
    options: dict[str, Any] = {"storage_options": made} if made else {}
    return options | {"allow_local": True} if given.allow_local else options


def open_source(uri: str, options: dict[str, Any], context: Context | None = None) -> Array | Group:
    """Open what a URI names, with `options_of` the flags. A pattern, or a folder of files, is one array.

    Flags that the target does not have are ignored, as by the verbs of C++: scripts can give the same ones to all.
    """
    return with_used_options(lambda used: _open_with(uri, used, context), options)


def with_used_options(opening: Callable[[dict[str, Any]], Node], options: dict[str, Any]) -> Node:
    """What `opening` returns for those of the options that the target has."""
    left = dict(options)
    while True:
        try:
            return opening(left)
        except Error as error:
            name = unused_option_of(error)
            if name is None or name not in left:
                raise
            del left[name]


def _open_with(uri: str, options: dict[str, Any], context: Context | None) -> Array | Group:
    try:
        made: Array | Group = open(uri, mode="r", context=context, **options)
        return made
    except NotFoundError:
        if not _core.is_shard_pattern(os.fsencode(uri)):
            with contextlib.suppress(NotFoundError, InvalidArgumentError):
                if os.path.isdir(uri):
                    return _one_array(uri, options, context)
            raise
    return _one_array(uri, options, context)


def _one_array(files: str, options: dict[str, Any], context: Context | None) -> Array:
    pattern, member = _split_at_member(files)
    if "://" not in pattern or pattern.startswith("file:"):
        options = {name: value for name, value in options.items() if name != "storage_options"}
    made: Array = open_shards(pattern, context=context, **options, **member)
    return made


def _split_at_member(files: str) -> tuple[str, dict[str, Any]]:
    """A pattern, and the option of `open_shards` for the path that follows it: 'x_*.h5/group/t2m'."""
    parts = files.split("/")
    for at, part in enumerate(parts[:-1], 1):
        pattern, format = "/".join(parts[:at]), format_by_name(part)
        if format in ("hdf5", "npz", "zarr") and _core.is_shard_pattern(os.fsencode(pattern)):
            return pattern, {"dataset" if format == "hdf5" else "path": "/".join(parts[at:])}
    return files, {}
