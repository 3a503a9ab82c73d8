"""Columns of many Parquet or Arrow IPC files as one array: row groups are its chunks, footers are read once."""

from __future__ import annotations

import bisect
import itertools
import json
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.context import Context, current_context
from penstock.core.errors import (
    ConflictError,
    CorruptDataError,
    Error,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from penstock.references.objects import Described, Joined, Object, ReferencedArray, open_described, pack_table
from penstock.shards.files import complain, describe_all, file_stamps, refuse_others, side_by_side
from penstock.shards.names import write_atomically
from penstock.shards.saved import VERSION, known_files, saved_files
from penstock.tabular.remote import RemoteObject, is_served
from penstock.tabular.table import (
    Batches,
    BatchStore,
    Choice,
    Column,
    ParquetBatches,
    batches_of,
    data_type,
    fill_value,
    import_pyarrow,
    pinned_batches,
    remote_file,
)
from penstock.target.adapters.objects import ObjectAdapter
from penstock.target.locations import CALLERS_OWN, Document
from penstock.target.remote import to_reopen
from penstock.target.stores import remote_stamp

# Open files that are cached, for each array.
_OPEN_FILES = 32
_MOST_LENGTHS = 60000


@dataclass
class Table:
    """The version of a file when its footer was read."""

    path: str
    rows: list[int]  # rows of its row groups
    stamp: tuple[int, int]  # size and modification time
    crc32c: int | None = None
    there: bool = True  # if false, its rows are the fill value
    storage_options: dict[str, Any] | None = None  # if the path is a remote URI
    can_cut: bool = False  # row groups can be read in pieces
    by_engine: bool = False  # the engine reads the file, and `stamp` is its version

    def now(self) -> tuple[int, int] | None:
        """The present `stamp`; None: the file no longer exists."""
        return _version(self.path, self.storage_options) if self.by_engine else _stamp(self.path, self.storage_options)


class ManyBatches(Batches):
    """The row groups of many files, one file after the other. Footers are read again when a file is reopened."""

    def __init__(self, tables: list[Table], opened: Sequence[Batches] = ()) -> None:
        """`opened`: of the first tables."""
        self.tables = tables
        self.rows = [rows for table in tables for rows in table.rows]
        self.there = [table.there for table in tables for _ in table.rows]
        self._first = [0, *itertools.accumulate(len(table.rows) for table in tables)]
        self._open: OrderedDict[int, Batches] = OrderedDict(enumerate(opened[:_OPEN_FILES]))
        self._lock = threading.Lock()

    def name(self, which: int) -> str:
        """The name of a row group in errors."""
        file = bisect.bisect_right(self._first, which) - 1
        return f"row group {which - self._first[file]} of '{self.tables[file].path}'"

    def read(self, which: int, columns: list[str]) -> Any:
        file = bisect.bisect_right(self._first, which) - 1
        table = self.tables[file]
        if table.by_engine:
            batches = self._batches(file)
            if batches.remote is not None:  # the requests expect its version
                batches.remote.forget()
                return batches.read(which - self._first[file], columns)
        check_unchanged(table)
        made = self._batches(file).read(which - self._first[file], columns)
        check_unchanged(table)
        return made

    def can_cut(self, which: int) -> bool:
        return self.tables[bisect.bisect_right(self._first, which) - 1].can_cut

    def read_piece(self, which: int, columns: list[str], number: int, rows: int) -> Any:
        file = bisect.bisect_right(self._first, which) - 1
        table = self.tables[file]
        check_unchanged(table)
        made = self._batches(file).read_piece(which - self._first[file], columns, number, rows)
        check_unchanged(table)
        return made

    def _batches(self, file: int) -> Batches:
        with self._lock:
            found = self._open.get(file)
            if found is not None:
                self._open.move_to_end(file)
                return found
        table = self.tables[file]
        try:
            pinned = pinned_batches(table.path, table.storage_options) if table.by_engine else None
        except NotFoundError:
            raise _changed(table) from None
        made = pinned or batches_of(table.path, table.storage_options)
        if made.rows != table.rows or (made.remote is not None and made.remote.stamp != table.stamp):
            raise _changed(table)
        with self._lock:
            self._open[file] = made
            while len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)
        return made


def _stamp(path: str, storage_options: Mapping[str, Any] | None = None) -> tuple[int, int] | None:
    """Size and modification time; for a remote file two numbers that change with its size and tag. None: it does not
    exist.
    """
    if "://" in path:
        filesystem, place = remote_file(path, storage_options)
        filesystem.invalidate_cache()
        said = remote_stamp(filesystem, place)
        return None if said == "gone" else (len(said or ""), zlib.crc32((said or "").encode()))
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


def _version(path: str, storage_options: Mapping[str, Any] | None) -> tuple[int, int] | None:
    """The version of a file that the engine reads. None: it does not exist."""
    try:
        return RemoteObject(path, storage_options).stamp
    except NotFoundError:
        return None


def stamps_now(tables: Sequence[Table]) -> list[tuple[int, int] | None]:
    """The present stamp of each table, queried in parallel."""
    if any("://" in each.path for each in tables):
        return side_by_side(Table.now, tables)
    return file_stamps([each.path for each in tables])


def _changed(table: Table) -> Error:
    how = "was removed" if table.now() is None else "has changed"
    return ConflictError(f"'{table.path}' {how} since the array was opened")


def check_unchanged(table: Table) -> None:
    """Raise `ConflictError` if the file has changed since its footer was read."""
    if table.now() != table.stamp:
        raise _changed(table)


class ManyBatchStore(BatchStore):
    """Row groups of many files, as requested by the engine."""

    def get(self, key: str) -> memoryview | None:
        batches = self.batches
        assert isinstance(batches, ManyBatches)
        try:
            return super().get(key)
        except Error as error:
            raise type(error)(
                error.message, *error.notes, batches.name(int(key.partition(":")[0]))
            ) from error.__cause__


class JoinedTables(ReferencedArray):
    """An array of many tables: its pickle has all facts about them."""

    tables: list[Table]
    choice: Choice

    def _shard_lengths(self) -> tuple[int, list[int]] | None:
        return (0, [sum(table.rows) for table in self.tables]) if self.shape else None

    def changed(self) -> bool:
        """Whether one of the files no longer exists, or changed since its footer was read."""
        return stamps_now(self.tables) != [each.stamp for each in self.tables]

    def document(self, folder: str | None) -> dict[str, Any]:
        """The entry in a manifest in `folder`; None: absolute paths."""
        choice = self.choice
        files = [[each.rows, list(each.stamp), each.crc32c] for each in self.tables]
        return {
            "penstock_manifest": VERSION,
            "kind": "tables",
            "columns": [[each.name, each.dtype.str, list(each.shape)] for each in choice.columns],
            "joined": choice.joined,
            "dtype": choice.dtype.str,
            "nulls": _saved_null(choice),
            "shards": saved_files({"kind": "tables", "files": [each.path for each in self.tables]}, folder),
            "tables": files,
            "can_cut": [each.can_cut for each in self.tables],
            "by_engine": [each.by_engine for each in self.tables],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the manifest, atomically."""
        name = os.path.abspath(os.fspath(path))
        try:
            text = json.dumps(self.document(os.path.dirname(name)))
        except TypeError as error:
            raise UnsupportedError(f"nulls={self.choice.nulls!r} cannot be written into a manifest") from error
        write_atomically(name, [text.encode() + b"\n"])

    def __reduce__(self) -> tuple[Any, ...]:
        if any("://" in each.path and to_reopen(each.path, each.storage_options) is None for each in self.tables):
            raise TypeError(f"cannot pickle or copy {self!r}: its URIs cannot be opened again, or have a password")
        return _again, (self.tables, self.choice)


def _saved_null(choice: Choice) -> Any:
    """The value of nulls in a manifest. Times are numbers in the unit of the dtype, which NaT has, too."""
    nulls = choice.nulls
    if nulls is not None and choice.dtype.kind in "mM":
        return int(np.asarray(nulls).astype(choice.dtype).view(np.int64))
    return nulls.item() if isinstance(nulls, np.generic) else nulls


def open_tables(
    files: Sequence[str],
    columns: str | Sequence[str] | None,
    nulls: Any,
    dtype: npt.DTypeLike | None,
    context: Context,
    checksums: Mapping[str, int] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> JoinedTables:
    """The chosen columns of all files, one file after the other."""
    pa = import_pyarrow()

    def look(path: str, keep: bool) -> tuple[Table, Choice, Batches | None]:
        options = dict(storage_options or {}) if "://" in path else None
        try:
            batches = pinned_batches(path, options)
            before = _stamp(path, options) if batches is None or batches.remote is None else batches.remote.stamp
            if batches is None:
                batches = batches_of(path, options)
            choice = Choice.of(batches.schema, columns, nulls, dtype)
        except (OSError, EOFError, pa.ArrowException, KeyError, ValueError) as error:
            if isinstance(error, Error):
                raise
            raise CorruptDataError(f"pyarrow cannot read the file: {error}") from error
        if before is None or (batches.remote is None and _stamp(path, options) != before):
            raise ConflictError("the file changed while its footer was read")
        sum_ = (checksums or {}).get(path)
        can_cut = isinstance(batches, ParquetBatches)
        table = Table(path, list(batches.rows), before, sum_, storage_options=options, can_cut=can_cut)
        table.by_engine = batches.remote is not None
        return table, choice, batches if keep else None

    paths = [path if "://" in path else os.path.abspath(path) for path in files]
    found = describe_all(paths, [partial(look, path, n < _OPEN_FILES) for n, path in enumerate(paths)])
    choices = [choice for _, choice, _ in found]
    shapes = [(sum(table.rows), *choice.trailing) for table, choice, _ in found]
    types = [
        " ".join(str(each.dtype) for each in choice.columns) if dtype is None else str(choice.dtype)
        for choice in choices
    ]
    refuse_others(paths, shapes, types, 0)
    names = [[each.name for each in choice.columns] for choice in choices]  # in any order: files are read by names
    others = [f"'{paths[i]}' has {', '.join(names[i])}" for i in range(len(names)) if set(names[i]) != set(names[0])]
    if others:
        what = f"{len(others)} of {len(names)} files have other columns than '{paths[0]}', which has"
        raise InvalidArgumentError(complain(f"{what} {', '.join(names[0])}", others))
    opened = [batches for _, _, batches in found if batches is not None]
    return _opened([table for table, _, _ in found], choices[0], context, opened)


def _opened(tables: list[Table], choice: Choice, context: Context, opened: Sequence[Batches] = ()) -> JoinedTables:
    batches = ManyBatches(tables, opened)
    store = ManyBatchStore(batches, choice)
    used = store.cells()
    rows = np.array([cell.rows for cell in used], np.uint64)
    trailing = choice.trailing
    longest = int(np.max(rows)) if len(rows) else 1
    lengths = [int(each) for each in np.unique(rows)]
    if len(lengths) > _MOST_LENGTHS:
        raise UnsupportedError(f"row groups of {len(lengths)} different lengths are more than this release reads")
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [int(rows.sum()), *trailing],
        "data_type": data_type(choice.dtype),
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [longest, *(max(1, n) for n in trailing)]},
        },
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": fill_value(choice.dtype),
        "attributes": {"columns": [each.name for each in choice.columns]} if choice.joined else {},
    }
    first, last = tables[0].path, os.path.basename(tables[-1].path)
    first = first if "://" in first else f"file://{first}"
    uri = first if len(tables) == 1 else f"{first} ... {last}"
    adapter = _core.object_store(ObjectAdapter(store), uri, False)
    cells = len(rows) if 0 not in trailing else 0
    listed = np.array([n for n, cell in enumerate(used[:cells]) if batches.there[cell.group]], np.uint64)
    objects = [Object(used[n].name(batches.name(used[n].group)), adapter, used[n].key) for n in listed]
    shorter = [each for each in lengths if each != longest]
    variants: list[tuple[list[int], tuple[int, ...] | None]] = [([], (each, *trailing)) for each in shorter]
    chains = np.where(rows == longest, 0, np.searchsorted(np.array(shorter, np.uint64), rows) + 1)[listed]
    zeros = np.zeros(len(listed), np.uint64)
    numbers = np.arange(len(listed), dtype=np.uint64)
    table = pack_table(cells, zeros, zeros, numbers=listed, objects=numbers, chains=chains)
    edges = np.concatenate([np.zeros(1, np.uint64), np.cumsum(rows)]) if cells else np.zeros(0, np.uint64)
    described = Described({"zarr.json": document}, table, objects, "arrow", uri, variants)
    described.joined = Joined(0, edges, rows, {"kind": "tables", "files": [each.path for each in tables]})
    made = JoinedTables(open_described(described, context, (_again, ())), described, (_again, ()))
    made.tables, made.choice = tables, choice
    return made


def _again(tables: list[Table], choice: Choice) -> JoinedTables:
    return _opened(tables, choice, current_context())


def open_saved(
    document: dict[str, Any],
    path: str,
    context: Context,
    missing: str = "error",
    storage_options: Mapping[str, Any] | None = None,
    trusted: Document = CALLERS_OWN,
) -> JoinedTables:
    """The array of a manifest of `JoinedTables.save`. No footer is read; "fill" looks up the files."""
    try:
        folder = os.path.dirname(os.path.abspath(path))
        files = known_files(document["shards"], folder)["files"]
        for file in files:
            trusted.check(file)
        columns = tuple(Column(str(n), np.dtype(d), tuple(int(k) for k in s)) for n, d, s in document["columns"])
        choice = Choice(columns, bool(document["joined"]), np.dtype(document["dtype"]), document["nulls"])
        tables = [
            Table(file, [int(n) for n in rows], (int(stamp[0]), int(stamp[1])), None if sum_ is None else int(sum_))
            for file, (rows, stamp, sum_) in zip(files, document["tables"], strict=True)
        ]
        if not columns or not tables or any(n < 0 for table in tables for n in table.rows):
            raise ValueError("no columns, or no files")
        others = [False] * len(tables)  # of earlier releases
        facts = document.get("can_cut", others), document.get("by_engine", others)
        for table, can_cut, by_engine in zip(tables, *facts, strict=True):
            table.can_cut, table.by_engine = bool(can_cut), bool(by_engine)
            table.storage_options = dict(storage_options or {}) if "://" in table.path else None
            if table.by_engine and not is_served(table.path, table.storage_options):
                why = "the engine compares its version with the manifest's, and does not have these storage options"
                raise InvalidArgumentError(f"'{table.path}': {why}")
        if missing == "fill":
            for table, now in zip(tables, stamps_now(tables), strict=True):
                table.there = now is not None
        return _opened(tables, choice, context)
    except Error:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise CorruptDataError(f"the manifest '{path}' is damaged: {error!r}") from error
