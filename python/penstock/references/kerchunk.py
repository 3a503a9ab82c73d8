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
from penstock.core.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from penstock.core.group import Group
from penstock.references.manifest import is_saved, open_saved
from penstock.references.objects import UNPICKLABLE, ReferencedArray
from penstock.target.local import local_path
from penstock.target.locations import Document
from penstock.target.place import place_of
from penstock.target.stores import remote_store

_Place = tuple[_core.Store, bytes]
_ZMETADATA = ".zmetadata"


@dataclass(frozen=True)
class Where:
    """The location of references, and how the files that they name are opened."""

    base: str  # the folder of the references: a local path or a URL
    target_options: Mapping[str, Any] | None = None  # the options with which they were opened
    remote_options: Mapping[str, Any] | None = None  # the options for the files that they name
    protocol: str | None = None  # for names without a scheme, as fsspec's `remote_protocol`

    def store_of(self, folder: str) -> _Place | None:
        """The store of a folder at a URL; None: the engine's own."""
        made = remote_store(folder, self._options_of(folder))
        return None if made is None else (made, b"")

    def _options_of(self, url: str) -> Mapping[str, Any] | None:
        """The options of the references also serve files on the same server; no other server receives them."""
        same = url.split("/", 3)[:3] == self.base.split("/", 3)[:3]
        return self.target_options if self.remote_options is None and same else self.remote_options


@dataclass(frozen=True)
class Source:
    """What another process needs to open references."""

    target: Any
    storage_options: Mapping[str, Any] | None
    missing: str
    allow_local: bool | None
    path: str = ""

    def at(self, path: str) -> Source:
        """The same for a node below this one."""
        return replace(self, path="/".join(part for part in f"{self.path}/{path}".split("/") if part))

    def wrap(self, node: _core.Array | _core.Group) -> Array | Group:
        """Wraps a node of the engine in its public class."""
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
            raise TypeError(f"cannot pickle {self!r}: only references opened by path can be opened again elsewhere")
        return _reopen, (source.target, source.storage_options, source.path, source.missing, source.allow_local)


def open_target(
    target: Any,
    path: str,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    missing: str = "error",
    allow_local: bool | None = None,
) -> Array | Group:
    """An array or a group of references. `reference://` is fsspec's form: the file is named by `fo`."""
    if missing not in ("error", "fill"):
        raise InvalidArgumentError(f"missing must be 'error' or 'fill', it is {missing!r}")
    if not isinstance(target, str):
        text = "references are not opened from bytes: use 'reference://' with storage_options={'fo': json.loads(...)}"
        raise UnsupportedError(text)
    options = dict(storage_options or {})
    remote, protocol = options.pop("remote_options", None), options.pop("remote_protocol", None)
    again = target
    if target.startswith("reference://"):
        again = "reference://"
        inner = target[len("reference://") :].strip("/")
        path = "/".join(part for part in (inner, path) if part)
        fo = options.pop("fo", None)
        if fo is None:
            raise InvalidArgumentError("reference:// needs storage_options={'fo': file or dict}")
        if isinstance(fo, Mapping):
            where = Where(os.getcwd(), None, remote, protocol)
            source = Source(UNPICKLABLE, None, missing, allow_local).at(path)
            return _open(_text_of(fo), "reference:", where, Document.of("", allow_local), source, context)
        target = fo
        options = dict(options.pop("target_options", None) or {})
    found, where = _load(local_path(target), options, remote, protocol)
    if isinstance(found, bytes) and is_saved(found):
        if path:
            raise InvalidArgumentError(f"a manifest is one array, it has no '{path}'")
        return open_saved(found, target, context, missing, storage_options, allow_local)
    source = Source(again, storage_options, missing, allow_local).at(path)
    name = local_path(target)
    uri = target if "://" in target else f"file://{os.path.abspath(target)}"
    return _open(found, uri, where, Document.of(name, allow_local), source, context)


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
    context: Context,
) -> Array | Group:
    """The node of references: a JSON document, or the store, folder and metadata of those in Parquet."""
    node = _core.open_references(
        context,
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


def _load(
    target: str,
    storage_options: Mapping[str, Any] | None,
    remote_options: Mapping[str, Any] | None,
    protocol: str | None,
) -> tuple[bytes | tuple[_core.Store, bytes, bytes], Where]:
    """The bytes of a file, or the arguments that open a folder of Parquet references; both also at a URL."""
    if "://" not in target:
        if os.path.isdir(target):
            folder = os.path.abspath(target)
            return _parquet(folder, None), Where(folder, None, remote_options, protocol)
        with open(target, "rb") as stream:
            text: bytes | None = stream.read()
        assert text is not None
        return text, Where(os.path.dirname(os.path.abspath(target)), storage_options, remote_options, protocol)
    folder, name = _parted(target)
    text = _remote_text(target, folder, name, storage_options)
    if text is not None:
        return text, Where(folder, storage_options, remote_options, protocol)
    folder = target.rstrip("/")
    return _parquet(folder, storage_options), Where(folder, storage_options, remote_options, protocol)


def _parquet(folder: str, storage_options: Mapping[str, Any] | None) -> tuple[_core.Store, bytes, bytes]:
    store, inner = place_of(folder, "", storage_options)
    text = store.get(_below(inner, _ZMETADATA))
    if text is None:
        raise NotFoundError(f"there are no references at '{folder}'")
    return store, inner, text


def _below(inner: bytes, name: str) -> str:
    return "/".join(part for part in (os.fsdecode(inner), name) if part)


def _parted(url: str) -> tuple[str, str]:
    """The folder of a URL, and the name in it."""
    scheme, _, rest = url.rstrip("/").partition("://")
    folder, _, name = rest.partition("?")[0].rpartition("/")
    return f"{scheme}://{folder}", name


def _remote_text(url: str, folder: str, name: str, storage_options: Mapping[str, Any] | None) -> bytes | None:
    """The bytes of an object, or None if it does not exist."""
    if "?" in url or "::" in url or "%" in url:  # which fsspec supports
        import fsspec

        with fsspec.open(url, "rb", **dict(storage_options or {})) as stream:
            made: bytes = stream.read()
            return made
    store, inner = place_of(folder, "", storage_options)
    return store.get(_below(inner, name))


def is_folder_of_references(url: str, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether references saved as Parquet are at a URL."""
    options = {k: v for k, v in (storage_options or {}).items() if k not in ("remote_options", "remote_protocol")}
    store, inner = place_of(url.rstrip("/"), "", options)
    text = store.get(_below(inner, _ZMETADATA))
    return text is not None and b'"record_size"' in text


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
