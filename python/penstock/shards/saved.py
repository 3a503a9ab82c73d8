"""Arrays of references over many files, and how manifests name those files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Self

from penstock import _core
from penstock.core import registry
from penstock.core.context import Context, current_context
from penstock.references.objects import Described, ReferencedArray, open_described
from penstock.shards.names import write_named
from penstock.target.local import local_path

VERSION = 1
"""The version of manifests that are JSON documents."""


def save_references(
    array: ReferencedArray, path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> None:
    """Save the locations of the chunks of an array of references: a JSON document, followed by the table.

    Local files next to the manifest are named relative to it, with their size and modification time. Opening the
    manifest fails if a file has changed by then.
    """
    name = local_path(os.fspath(path))
    if "://" in name:
        return write_named(name, [references_bytes(array, None)], storage_options)
    name = os.path.abspath(name)
    write_named(name, [references_bytes(array, os.path.dirname(name))])


def references_bytes(array: ReferencedArray, folder: str | None) -> bytes:
    """Return that manifest as bytes. `folder` is its folder; None names files by their absolute paths."""
    joined = array._joined
    shards = "" if joined is None else json.dumps(saved_files(joined.shards, folder))
    return _core.save_references(array, b"" if folder is None else os.fsencode(folder), shards, array._stamps())


def saved_files(shards: dict[str, Any], folder: str | None) -> dict[str, Any]:
    """Return the description of joined files with their names relative to a manifest's folder."""
    if "files" not in shards:
        return shards
    return {**shards, "files": [relative_to(path, folder) for path in shards["files"]]}


def known_files(saved: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return the argument of `saved_files`."""
    if "files" not in saved:
        return saved
    base = os.fsencode(folder)
    return {**saved, "files": [os.fsdecode(_core.named_location(base, os.fsencode(path))) for path in saved["files"]]}


def relative_to(path: str, folder: str | None) -> str:
    """Return the name of a file in a manifest: relative if the file is in the manifest's folder or below."""
    if folder is None or "://" in path:
        return path
    below = os.path.relpath(path, folder)
    return os.path.abspath(path) if below.startswith("..") else below


class JoinedReferences(ReferencedArray):
    """An array of many files that one index covers. Its pickle holds the index, so no file is searched again."""

    @classmethod
    def of(cls, made: _core.Array, described: Described) -> Self:
        return cls(made, described, (_unpickle, ()))

    @classmethod
    def open(cls, described: Described, context: Context | None) -> Self:
        return cls.of(open_described(described, context, (_unpickle, ())), described)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the manifest, atomically."""
        save_references(self, path)

    def __reduce__(self) -> tuple[Any, ...]:
        assert self._described is not None
        elsewhere = [each for each in self._described.objects if each.data is None and each.path is None]
        if any(each.storage_options is None for each in elsewhere):
            raise TypeError(f"cannot pickle or copy {self!r}: only arrays of files and remote URIs can be opened again")
        options = elsewhere[0].storage_options if elsewhere else None
        return _unpickle, (references_bytes(self, None), self._described.missing, options)


def _unpickle(saved: bytes, missing: str = "error", storage_options: dict[str, Any] | None = None) -> Any:
    return registry.call("open_manifest_bytes", saved, "", current_context(), missing, storage_options)
