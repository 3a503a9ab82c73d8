"""References that name byte ranges of other files as the chunks of Zarr arrays: kerchunk's, as JSON or Parquet."""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import CorruptDataError, Error, InvalidArgumentError, NotFoundError, UnsupportedError
from penstock.core.group import Group
from penstock.references.manifest import is_saved, open_saved
from penstock.references.objects import UNPICKLABLE, Described, Object, open_described, pack_table
from penstock.references.templates import expand
from penstock.target.local import local_path
from penstock.target.locations import CALLERS_OWN, Document
from penstock.target.place import place_of
from penstock.target.stores import remote_store

_MOST_PROBED = 10_000  # files of references of one array that are asked for without a listing
_MOST_ROWS = 1_000_000  # of one such file
_MOST_PARQUET_BYTES = 1 << 27  # of one such file, decompressed
_MOST_LOCATION = 1 << 16  # characters
_DOCUMENTS = (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
Reference = tuple[str | bytes, int, int]  # a URL or the bytes themselves, offset, length (0: all)


@dataclass(frozen=True)
class Where:
    """Where references stand, and with that what they mean by names without a scheme."""

    base: str  # the folder of the references: a path of this machine or a URL
    target_options: Mapping[str, Any] | None = None  # by which they were opened
    remote_options: Mapping[str, Any] | None = None  # by which what they name is opened
    protocol: str | None = None  # of names without a scheme, as fsspec's `remote_protocol`
    document: Document = CALLERS_OWN  # which decides what it may name

    @property
    def is_remote(self) -> bool:
        return "://" in self.base

    def url_of(self, name: str) -> str:
        """The resolved location of `name`: a URL, or an absolute local path. Raises where it may not be named."""
        if self.protocol is not None and self.protocol in ("file", "local") and "://" not in name and "::" not in name:
            return os.path.abspath(name)  # as the caller's `remote_protocol` says
        return self.document.check(self._resolved(name), name)

    def _resolved(self, name: str) -> str:
        if "://" in name:
            return name
        if self.protocol is not None:
            return os.path.abspath(name) if self.protocol in ("file", "local") else f"{self.protocol}://{name}"
        if not self.is_remote:
            return os.path.join(self.base, name)
        if name.startswith("/"):
            return name
        scheme, _, folder = self.base.partition("://")
        return f"{scheme}://{posixpath.normpath(posixpath.join(folder, name))}"

    def options_of(self, url: str) -> Mapping[str, Any] | None:
        """Those of the references themselves serve what lies beside them; nobody else is shown them."""
        beside = url.split("/", 3)[:3] == self.base.split("/", 3)[:3]
        return self.target_options if self.remote_options is None and beside else self.remote_options


class ReferenceSet:
    """Metadata documents by key, and for each array a way to its chunks' references."""

    def __init__(self, documents: dict[str, bytes], where: Where) -> None:
        self.documents, self.where = documents, where
        self._stores: dict[str, _core.Store] = {}

    def chunks(self, path: str, grid: tuple[int, ...], keys: _Keys) -> Iterator[tuple[int, Reference]]:
        """(cell, reference) of an array's chunks, in any order."""
        raise NotImplementedError

    def object_of(self, source: str | bytes, number: int) -> Object:
        """The object that a reference's URL (or inline bytes) is."""
        if isinstance(source, bytes):
            return Object(f"inline/{number}", data=source)
        source = self.where.url_of(source)
        scheme, separator, rest = source.partition("://")
        if "::" in source or (separator and scheme != "file"):
            folder, _, name = source.rpartition("/")
            store = self._stores.get(folder)
            if store is None:
                self.where.document.check(folder, source)
                made = remote_store(folder, self.where.options_of(source))
                if made is None:
                    raise UnsupportedError(f"references to '{source}' are not readable")
                store = self._stores[folder] = made
            return Object(source, store, name)
        path = os.path.normpath(unquote(rest) if separator else source)
        folder, name = os.path.split(path)
        store = self._stores.setdefault(folder, _core.file_store(os.fsencode(folder)))
        return Object(source, store, name, path=path)


class _Keys:
    """How an array's chunks are spelled as keys."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.prefix, self.separator = "", "."
        self.rank = len(document["shape"])
        if document.get("zarr_format") == 2:
            self.separator = document.get("dimension_separator") or "."
            return
        encoding = document.get("chunk_key_encoding", {"name": "default"})
        name = encoding if isinstance(encoding, str) else encoding.get("name", "default")
        settings = {} if isinstance(encoding, str) else encoding.get("configuration") or {}
        if name not in ("default", "v2"):
            raise UnsupportedError(f"chunk keys of kind {name!r} in references are not readable")
        self.prefix = "c" if name == "default" else ""
        self.separator = settings.get("separator", "/" if name == "default" else ".")

    def place(self, key: str) -> tuple[int, ...] | None:
        """The chunk that `key` (below the array) names; None where it names none."""
        if self.prefix:
            if not key.startswith(self.prefix):
                return None
            key = key[1:]
            if self.rank == 0:
                return () if not key else None
            if not key.startswith(self.separator):
                return None
            key = key[1:]
        elif self.rank == 0:
            return () if key == "0" else None
        parts = key.split(self.separator)
        if len(parts) != self.rank or not all(part.isascii() and part.isdigit() for part in parts):
            return None
        return tuple(int(part) for part in parts)


class JsonReferences(ReferenceSet):
    """All references in one JSON document."""

    def __init__(self, refs: Mapping[str, Any], where: Where) -> None:
        documents: dict[str, bytes] = {}
        self._chunks: dict[str, list[tuple[str, Any]]] = {}
        for key, value in refs.items():
            if key.rpartition("/")[2] in _DOCUMENTS:
                documents[key] = _inline(value, key)
                continue
            self._chunks.setdefault(key.partition("/")[0], []).append((key, value))
        super().__init__(documents, where)

    def chunks(self, path: str, grid: tuple[int, ...], keys: _Keys) -> Iterator[tuple[int, Reference]]:
        start = f"{path}/" if path else ""
        strides = _strides(grid)
        listed = [self._chunks.get(path.partition("/")[0], [])] if path else list(self._chunks.values())
        for key, value in itertools.chain(*listed):
            if not key.startswith(start):
                continue
            place = keys.place(key[len(start) :])
            if place is None or any(i >= n for i, n in zip(place, grid, strict=True)):
                continue
            yield sum(i * s for i, s in zip(place, strides, strict=True)), _reference(value, key)


class ParquetReferences(ReferenceSet):
    """References in Parquet files: of each array, rows in the order of its chunks, so many a file."""

    def __init__(self, where: Where) -> None:
        self._store, self._inner = place_of(where.base, "", where.target_options)
        text = self._get(".zmetadata")
        if text is None:
            raise NotFoundError(f"there are no references at '{where.base}'")
        content = json.loads(text)
        documents = {key: json.dumps(value).encode() for key, value in content["metadata"].items()}
        size = content["record_size"]
        if not isinstance(size, int):
            raise CorruptDataError(f"references have a 'record_size' of {size!r:.80}")
        self.record_size = size
        if self.record_size < 1:
            raise CorruptDataError(f"references have a 'record_size' of {self.record_size}")
        super().__init__(documents, where)

    def _get(self, name: str) -> bytes | None:
        return self._store.get("/".join(part for part in (os.fsdecode(self._inner), name) if part))

    def chunks(self, path: str, grid: tuple[int, ...], keys: _Keys) -> Iterator[tuple[int, Reference]]:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise UnsupportedError("references in Parquet need the Python package pyarrow") from error
        cells = math.prod(grid)
        for record in self._records(path, -(-cells // self.record_size)):
            key = posixpath.join(path, f"refs.{record}.parq")
            saved = self._get(key)
            if saved is None:
                continue  # no chunk of this record was written
            columns = _columns(pq.ParquetFile(pa.BufferReader(saved), read_dictionary=["path"]), key, self.record_size)
            first = record * self.record_size
            for row, name, offset, size, raw in columns:
                if first + row >= cells:
                    break
                if raw is not None:
                    yield first + row, (raw if isinstance(raw, bytes) else raw.encode(), 0, 0)
                elif name:
                    # Relative paths are relative to the file that names them.
                    plain = "://" not in name and not os.path.isabs(name) and self.where.protocol is None
                    place = posixpath.join(path, name) if plain else name
                    yield first + row, (place, int(offset or 0), int(size or 0))

    def _records(self, path: str, count: int) -> Iterable[int]:
        """The numbers of the files that may be there: all of `count`, or those that a listing finds."""
        if count <= _MOST_PROBED:
            return range(count)
        prefix = "/".join(part for part in (os.fsdecode(self._inner), path, "refs.") if part)
        try:
            names = self._store.list(prefix.removesuffix("refs."), True)
        except Error as error:
            text = f"references in up to {count} files at '{self.where.base}', which cannot be listed, are not readable"
            raise UnsupportedError(text) from error
        numbers = (name.rpartition("/")[2].removeprefix("refs.").removesuffix(".parq") for name in names)
        found = {int(each) for each in numbers if each.isascii() and each.isdigit() and len(each) < 20}
        return sorted(each for each in found if each < count)


def _columns(
    file: Any, key: str, most_rows: int
) -> Iterator[tuple[int, str | None, int | None, int | None, str | bytes | None]]:
    """(row, path, offset, size, raw) of the rows of a Parquet file that say something."""
    import pyarrow.compute as pc

    facts = file.metadata
    groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
    size = sum(group.column(c).total_uncompressed_size for group in groups for c in range(facts.num_columns))
    if facts.num_rows > most_rows:
        raise CorruptDataError(f"'{key}' has {facts.num_rows} rows, 'record_size' is {most_rows}")
    if facts.num_rows > _MOST_ROWS or size > _MOST_PARQUET_BYTES:
        text = f"'{key}' has {facts.num_rows} rows of {size} bytes, at most {_MOST_ROWS} and {_MOST_PARQUET_BYTES}"
        raise UnsupportedError(f"{text} are readable")
    table = file.read()
    said = [pc.is_valid(table.column(name)) for name in ("path", "raw") if name in table.column_names]
    if not said:
        return
    rows = pc.indices_nonzero(said[0] if len(said) == 1 else pc.or_(said[0], said[1]))
    table = table.take(rows).combine_chunks()

    def column(name: str) -> list[Any]:
        return table.column(name).to_pylist() if name in table.column_names else [None] * table.num_rows

    paths: list[str | None] = [None] * table.num_rows
    if "path" in table.column_names:
        paths = []
        for chunk in table.column("path").chunks:
            if not hasattr(chunk, "dictionary"):  # a column of nulls
                paths += chunk.to_pylist()
                continue
            known = chunk.dictionary.to_pylist()  # each text once
            if any(each is not None and len(each) > _MOST_LOCATION for each in known):
                raise UnsupportedError(f"'{key}' names a location of more than {_MOST_LOCATION} characters")
            paths += [None if i is None else known[i] for i in chunk.indices.to_pylist()]
    yield from zip(rows.to_pylist(), paths, column("offset"), column("size"), column("raw"), strict=True)


def _strides(grid: tuple[int, ...]) -> list[int]:
    out = [1] * len(grid)
    for d in range(len(grid) - 2, -1, -1):
        out[d] = out[d + 1] * grid[d + 1]
    return out


def _inline(value: Any, key: str) -> bytes:
    if isinstance(value, dict):
        return json.dumps(value).encode()
    if isinstance(value, str):
        if value.startswith("base64:"):
            try:
                return base64.b64decode(value[7:], validate=True)
            except ValueError as error:
                raise CorruptDataError(f"the reference '{key}' is no base64: {error}") from error
        return value.encode()
    raise UnsupportedError(f"the reference '{key}' is no text: metadata in other files is not readable")


def _reference(value: Any, key: str) -> Reference:
    if isinstance(value, str | dict):
        return _inline(value, key), 0, 0
    if isinstance(value, list) and value and isinstance(value[0], str):
        numbers = value[1:]
        whole = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 63 for n in numbers)
        if len(numbers) in (0, 2) and whole:
            if len(numbers) == 2 and numbers[1] == 0:
                raise CorruptDataError(f"the reference '{key}' names no bytes")
            return value[0], *(numbers or (0, 0))
    raise CorruptDataError(f"the reference '{key}' is {value!r:.80}, needs text, [url] or [url, offset, length]")


def load(
    target: str,
    storage_options: Mapping[str, Any] | None,
    remote_options: Mapping[str, Any] | None = None,
    protocol: str | None = None,
    allow_local: bool | None = None,
) -> ReferenceSet | bytes:
    """The references in a file or folder, also at a URL; the bytes of a manifest of ours that is there."""
    target = local_path(target)
    remote = "://" in target
    document = Document.of(target, allow_local)
    if not remote and os.path.isdir(target):
        return ParquetReferences(Where(os.path.abspath(target), None, remote_options, protocol, document))
    if remote:
        folder, name = _parted(target)
        text = _remote_text(target, folder, name, storage_options)
        if text is None:
            return ParquetReferences(Where(target.rstrip("/"), storage_options, remote_options, protocol, document))
        if is_saved(text):
            return text
    else:
        with open(target, "rb") as stream:
            text = stream.read()
        folder = os.path.dirname(os.path.abspath(target))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"'{target}' is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise CorruptDataError(f"'{target}' is no JSON object")
    return JsonReferences(expand(content), Where(folder, storage_options, remote_options, protocol, document))


def _parted(url: str) -> tuple[str, str]:
    """The folder of a URL, and the name in it."""
    scheme, _, rest = url.rstrip("/").partition("://")
    folder, _, name = rest.partition("?")[0].rpartition("/")
    return f"{scheme}://{folder}", name


def _remote_text(url: str, folder: str, name: str, storage_options: Mapping[str, Any] | None) -> bytes | None:
    """The bytes of an object, or None where there is none."""
    if "?" in url or "::" in url or "%" in url:  # which fsspec understands
        import fsspec

        with fsspec.open(url, "rb", **dict(storage_options or {})) as stream:
            made: bytes = stream.read()
            return made
    store, inner = place_of(folder, "", storage_options)
    return store.get("/".join(part for part in (os.fsdecode(inner), name) if part))


def is_folder_of_references(url: str, storage_options: Mapping[str, Any] | None) -> bool:
    """Whether references saved as Parquet are at a URL."""
    options = {k: v for k, v in (storage_options or {}).items() if k not in ("remote_options", "remote_protocol")}
    store, inner = place_of(url.rstrip("/"), "", options)
    text = store.get("/".join(part for part in (os.fsdecode(inner), ".zmetadata") if part))
    return text is not None and b'"record_size"' in text


def open_target(
    target: Any,
    path: str,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    missing: str = "error",
    allow_local: bool | None = None,
) -> Array | Group:
    """An array or a group of references. `reference://` is fsspec's way to say it: the file stands in `fo`."""
    if missing not in ("error", "fill"):
        raise InvalidArgumentError(f"missing must be 'error' or 'fill', it is {missing!r}")
    if not isinstance(target, str):
        text = "references are not opened from bytes: use 'reference://' with storage_options={'fo': json.loads(...)}"
        raise UnsupportedError(text)
    options = dict(storage_options or {})
    remote, protocol = options.pop("remote_options", None), options.pop("remote_protocol", None)
    if target.startswith("reference://"):
        inner = target[len("reference://") :].strip("/")
        path = "/".join(part for part in (inner, path) if part)
        fo = options.pop("fo", None)
        if fo is None:
            raise InvalidArgumentError("reference:// needs storage_options={'fo': file or dict}")
        if isinstance(fo, Mapping):
            refs: Any = JsonReferences(
                expand(dict(fo)), Where(os.getcwd(), None, remote, protocol, Document.of("", allow_local))
            )
            return Opened(refs, "reference:", context, missing, (UNPICKLABLE,)).node(path)
        target = fo
        options = dict(options.pop("target_options", None) or {})
    loaded = load(target, options, remote, protocol, allow_local)
    if isinstance(loaded, bytes):
        if path:
            raise InvalidArgumentError(f"a manifest is one array, it has no '{path}'")
        return open_saved(loaded, target, context, missing, storage_options, allow_local)
    uri = target if "://" in target else f"file://{os.path.abspath(target)}"
    return Opened(loaded, uri, context, missing, (target, storage_options), allow_local).node(path)


class Opened:
    """An open set of references."""

    def __init__(
        self,
        refs: ReferenceSet,
        uri: str,
        context: Context,
        missing: str,
        reopen: tuple[Any, ...],
        allow_local: bool | None = None,
    ) -> None:
        self.refs, self.uri, self.context, self.missing, self.reopen = refs, uri, context, missing, reopen
        self.allow_local = allow_local
        self.store = _core.dict_store(dict(refs.documents), None, False)

    def node(self, path: str) -> Array | Group:
        """What stands at `path`."""
        path = "/".join(part for part in path.split("/") if part)
        uri = f"{self.uri}/{path}" if path else self.uri
        try:
            found = _core.open_store(self.store, self.context, path.encode(), False, False)
        except NotFoundError as error:
            raise NotFoundError(f"the references have no array or group at '{uri}'") from error
        if isinstance(found, _core.Group):
            return ReferenceGroup(found, self, path, uri)
        return self._array(found, path, uri)

    def _array(self, found: _core.Array, path: str, uri: str) -> Array:
        start = f"{path}/" if path else ""
        names = ("zarr.json",) if found.format == "zarr3" else (".zarray", ".zattrs")
        documents = {
            name: json.loads(self.refs.documents[start + name]) for name in names if start + name in self.refs.documents
        }
        main = documents.get("zarr.json") or documents[".zarray"]
        grid = tuple(-(-n // c) for n, c in zip(found.shape, found.chunks, strict=True))
        if found.shards is not None:
            raise UnsupportedError("references to shards are not readable", f"opening '{uri}'")
        described = Described(documents, b"", [], "reference", uri, missing=self.missing)
        _collect(self.refs, self.refs.chunks(path, grid, _Keys(main)), math.prod(grid), described)
        return open_described(described, self.context, (_reopen, (*self.reopen, path, self.missing, self.allow_local)))


def _collect(refs: ReferenceSet, chunks: Iterator[tuple[int, Reference]], cells: int, described: Described) -> None:
    """Makes the table and the list of objects of an array's references."""
    numbers: list[int] = []
    offsets: list[int] = []
    lengths: list[int] = []
    objects: list[int] = []
    known: dict[str | bytes, int] = {}
    for cell, (source, offset, length) in chunks:
        which = known.get(source)
        if which is None:
            which = known[source] = len(described.objects)
            described.objects.append(refs.object_of(source, which))
        numbers.append(cell)
        offsets.append(offset)
        lengths.append(len(source) if isinstance(source, bytes) else length)
        objects.append(which)
    at = np.argsort(np.array(numbers, np.uint64), kind="stable")
    columns = [np.array(each, np.uint64)[at] for each in (numbers, offsets, lengths, objects)]
    if len(at) > 1 and (columns[0][1:] == columns[0][:-1]).any():
        raise CorruptDataError("references name a chunk twice", f"opening '{described.uri}'")
    described.table = pack_table(cells, columns[1], columns[2], numbers=columns[0], objects=columns[3])


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


class ReferenceGroup(Group):
    """A group of references. Read-only."""

    def __init__(self, made: _core.Group, opened: Opened, path: str, uri: str) -> None:
        super().__init__(made)
        self._opened, self._path, self._uri = opened, path, uri

    @property
    def uri(self) -> str:
        """What the group can be opened by."""
        return self._uri

    @property
    def format(self) -> str:
        """`reference`"""
        return "reference"

    def __getitem__(self, path: str) -> Array | Group:
        if not isinstance(path, str):
            raise TypeError(f"a group's children have names, not {type(path).__name__}")
        return self._opened.node(f"{self._path}/{path}")

    def _children(self) -> Iterator[tuple[str, Array | Group]]:
        return ((name, self[name]) for name in self.keys())

    def __reduce__(self) -> tuple[Any, ...]:
        if UNPICKLABLE in self._opened.reopen:
            raise TypeError(f"cannot pickle {self!r}: only references opened by path can be opened again elsewhere")
        return _reopen, (*self._opened.reopen, self._path, self._opened.missing, self._opened.allow_local)
