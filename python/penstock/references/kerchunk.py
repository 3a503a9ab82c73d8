"""References that name byte ranges of other files as the chunks of Zarr arrays: kerchunk's, as JSON or Parquet.

The engine parses them. This module adds what only Python has: dicts, fsspec's names of options, and stores of fsspec.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import InvalidArgumentError
from penstock.core.group import Group
from penstock.references.objects import UNPICKLABLE, ReferencedArray
from penstock.target.locations import Document
from penstock.target.place import place_of_folder

_Place = tuple[_core.Store, bytes]


@dataclass(frozen=True)
class Where:
    """The location of references, and how the files that they name are opened."""

    base: str  # the folder of the references: a local path or a URL
    context: Context
    target_options: Mapping[str, Any] | None = None  # the options with which they were opened
    remote_options: Mapping[str, Any] | None = None  # the options for the files that they name
    protocol: str | None = None  # for names without a scheme, as fsspec's `remote_protocol`

    def store_of(self, folder: str) -> _Place | None:
        """The store of a folder at a URL; None: the engine's own."""
        return place_of_folder(folder, self._options_of(folder), self.context)

    def _options_of(self, url: str) -> Mapping[str, Any] | None:
        """The options of the references also apply to files on the same server; they are not sent to any other
        server."""
        same = url.split("/", 3)[:3] == self.base.split("/", 3)[:3]
        return self.target_options if self.remote_options is None and same else self.remote_options


@dataclass(frozen=True)
class Source:
    """The data that another process needs to open references."""

    target: Any
    storage_options: Mapping[str, Any] | None
    missing: str
    allow_local: bool | None
    path: str = ""

    def at(self, path: str) -> Source:
        """The same for a node below this one."""
        return replace(self, path="/".join(part for part in f"{self.path}/{path}".split("/") if part))

    def wrap(self, node: _core.Array | _core.Group) -> Array | Group:
        """Wrap a node of the engine in its public class."""
        if isinstance(node, _core.Group):
            return ReferenceGroup(node, self)
        arguments = (self.target, self.storage_options, self.path, self.missing, self.allow_local)
        return ReferencedArray(node, None, (_reopen, arguments))


class ReferenceGroup(Group):
    """A group of references. Read-only."""

    def __init__(self, made: _core.Group, source: Source) -> None:
        super().__init__(made)
        self._source = source

    def _member(self, path: str) -> Array | Group:
        return self._source.at(path).wrap(self._open(os.fsencode(path)))

    def _children(self) -> Iterator[tuple[str, Array | Group]]:
        return ((name, self._source.at(name).wrap(made)) for name, made in self._members())

    def __reduce__(self) -> tuple[Any, ...]:
        source = self._source
        if source.target is UNPICKLABLE:
            raise registry.not_reopened(self, "references")
        return _reopen, (source.target, source.storage_options, source.path, source.missing, source.allow_local)


def open_dict(
    references: Mapping[str, Any],
    path: str,
    context: Context,
    missing: str,
    allow_local: bool | None,
    remote_options: Mapping[str, Any] | None,
    protocol: str | None,
) -> Array | Group:
    """The node at `path` of references in a dict."""
    where = Where(os.getcwd(), context, None, remote_options, protocol)
    source = Source(UNPICKLABLE, None, missing, allow_local).at(path)
    return _open(_text_of(references), "reference:", where, Document.of("", allow_local), source)


def open_found(
    found: _core.Found,
    name: str | None,
    again: tuple[str, Mapping[str, Any]] | None,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    missing: str,
    allow_local: bool | None,
) -> Array | Group:
    """The node of references that were found.

    Parameters
    ----------
    name
        Absolute path or URI of the document, or of the folder of Parquet files; None: only this process has it.
    again
        Target and storage options by which another process opens it.
    """
    options = dict(storage_options or {})
    remote, protocol = options.pop("remote_options", None), options.pop("remote_protocol", None)
    if name is None:  # in a store: not a local path
        uri = document = found.uri if "://" in found.uri else f"store://{found.uri}"
    else:
        uri, document = name if "://" in name else f"file://{name}", name
    content: bytes | tuple[_core.Store, bytes, bytes]
    zmetadata = found.zmetadata
    if zmetadata is None:
        content, base = found.content(), _folder_of(document)
    else:
        content, base = (found.store, found.key, zmetadata), document.rstrip("/")
    target, again_options = (UNPICKLABLE, None) if again is None else (again[0], again[1] or None)
    source = Source(target, again_options, missing, allow_local).at(os.fsdecode(found.inner))
    where = Where(base, context, options or None, remote, protocol)
    return _open(content, uri, where, Document.of(document, allow_local), source)


def _text_of(references: Mapping[str, Any]) -> bytes:
    """A document of references in a dict, as JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, bytes | bytearray | memoryview):
            raise TypeError("bytes are written as 'base64:...' in references")
        if isinstance(value, Mapping):
            return dict(value)
        return operator.index(value)  # NumPy's integers

    try:
        return json.dumps(dict(references), default=plain).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"the dict is not a document of references: {error}") from error


def _open(
    found: bytes | tuple[_core.Store, bytes, bytes],
    uri: str,
    where: Where,
    document: Document,
    source: Source,
) -> Array | Group:
    """The node of references: a JSON document, or the store, folder and metadata of those in Parquet."""
    node = _core.open_references(
        where.context,
        found,
        os.fsencode(source.path),
        uri=os.fsencode(uri),
        base=os.fsencode(where.base),
        document=os.fsencode(document.uri),
        allow_local=document.allow_local,
        default_scheme=where.protocol or "",
        missing_is_fill=source.missing == "fill",
        find_folder=where.store_of,
    )
    return source.wrap(node)


def _folder_of(name: str) -> str:
    """The folder of a path or a URL."""
    if "://" not in name:
        return os.path.dirname(name)
    scheme, _, rest = name.rstrip("/").partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('/')[0]}"


def _reopen(
    target: str,
    storage_options: Mapping[str, Any] | None,
    path: str,
    missing: str,
    allow_local: bool | None = None,
) -> Array | Group:
    options = {"storage_options": storage_options, "missing": missing, "allow_local": allow_local}
    node: Array | Group = registry.call("open", target, path, **options)
    return node
