"""Parquet and Arrow IPC files: chosen columns as one array, row groups (or record batches) as its chunks."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.convert import as_dtype
from penstock.core.errors import (
    ConflictError,
    CorruptDataError,
    Error,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageError,
    UnsupportedError,
)
from penstock.core.sizes import counted
from penstock.references.objects import Described, Object, pack_table
from penstock.tabular.arrow_messages import batches_of_stream, is_big_endian, rows_of_file
from penstock.tabular.remote import RemoteObject, is_served
from penstock.target.adapters.objects import ObjectAdapter
from penstock.target.store import Store
from penstock.target.without_ranges import content_without_ranges


def import_pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise UnsupportedError("reading Parquet and Arrow needs the Python package pyarrow") from error
    return pyarrow


@dataclass(frozen=True)
class Column:
    """A column in NumPy's form: items of `dtype`, each a block of `shape` of them."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def column_of(field: Any) -> Column:
    """The form of a column's type. Raises `UnsupportedError` by name."""
    pa = import_pyarrow()
    kind, shape = field.type, []
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    while pa.types.is_fixed_size_list(kind):
        shape.append(kind.list_size)
        kind = kind.value_type
    types = pa.types
    plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if plain or types.is_duration(kind):
        return Column(field.name, np.dtype(kind.to_pandas_dtype()), tuple(shape))
    if types.is_timestamp(kind):
        return Column(field.name, np.dtype(f"M8[{kind.unit}]"), tuple(shape))
    if types.is_date32(kind):
        return Column(field.name, np.dtype("M8[D]"), tuple(shape))
    if types.is_date64(kind):
        return Column(field.name, np.dtype("M8[ms]"), tuple(shape))
    if types.is_fixed_size_binary(kind):
        return Column(field.name, np.dtype(f"V{kind.byte_width}"), tuple(shape))
    raise UnsupportedError(f"column '{field.name}' is {field.type}: columns of this type are not readable")


class Batches:
    """Row groups or record batches of a file: the number of rows of each, and its columns when they are requested."""

    schema: Any
    rows: list[int]
    remote: RemoteObject | None = None  # the version of a file that all reads expect

    def read(self, which: int, columns: list[str]) -> Any:
        """A table (or batch) of these columns, in this order."""
        raise NotImplementedError

    def can_cut(self, which: int) -> bool:
        """Whether `read_piece` reads less than the whole."""
        return False

    def read_piece(self, which: int, columns: list[str], number: int, rows: int) -> Any:
        """As `read`, for `rows` rows from `number * rows` on, fewer at the end."""
        return self.read(which, columns).slice(number * rows, rows)


# A row group whose rows have more bytes is decoded piece by piece, so that memory does not depend on its length.
_MOST_BYTES = 16 << 20
_PIECE_BYTES = 2 << 20
_MOST_KEPT = 16  # pieces of a row group that were skipped on the way to another
_MOST_CURSORS = 2


class _Readers:
    """Readers, each of which serves one call at a time: idle ones are reused, the first of them is `opened`."""

    def __init__(self, make: Callable[[list[str]], Any], opened: Any = None) -> None:
        self._open_reader = make
        self._idle: list[tuple[list[str], Any]] = [] if opened is None else [([], opened)]

    def call(self, columns: list[str], read: Callable[[Any], Any]) -> Any:
        try:
            made_for, reader = self._idle.pop()
        except IndexError:
            made_for, reader = columns, self._open_reader(columns)
        if made_for != columns:
            reader = self._open_reader(columns)
        found = read(reader)
        self._idle.append((columns, reader))
        return found


@dataclass
class _Cursor:
    """The state of decoding a row group."""

    columns: list[str]
    rows: int
    batches: Iterator[Any]
    next: int = 0
    kept: dict[int, Any] = field(default_factory=dict)


class ParquetBatches(Batches):
    def __init__(self, source: Any) -> None:
        import pyarrow.parquet as pq

        self._source = source
        self._lock = threading.Lock()
        self._locks: dict[int, threading.Lock] = {}
        self._cursors: OrderedDict[int, _Cursor] = OrderedDict()
        opened = source()
        # Arrow's threads fetch ahead if storage is slow. A local file returns short row groups sooner without them.
        ahead = isinstance(opened, import_pyarrow().PythonFile)
        file = pq.ParquetFile(opened, pre_buffer=ahead)
        self._metadata = file.metadata
        self._readers = _Readers(lambda _: pq.ParquetFile(source(), metadata=file.metadata, pre_buffer=ahead), file)
        self.schema = file.schema_arrow
        self.rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]

    def read(self, which: int, columns: list[str]) -> Any:
        def read(file: Any) -> Any:
            return file.read_row_group(which, columns=columns, use_threads=False)

        return self._readers.call([], read).select(columns)  # a reader of all columns

    def can_cut(self, which: int) -> bool:
        return True

    def read_piece(self, which: int, columns: list[str], number: int, rows: int) -> Any:
        with self._lock:
            lock = self._locks.setdefault(which, threading.Lock())
        with lock:  # pages are decoded in their order
            with self._lock:
                cursor = self._cursors.pop(which, None)
            if cursor is None or (cursor.columns, cursor.rows) != (columns, rows):
                cursor = self._begin(which, columns, rows)
            if number < cursor.next and number not in cursor.kept:
                cursor = self._begin(which, columns, rows)
            while number >= cursor.next:
                if number - cursor.next <= _MOST_KEPT:  # another thread is about to request it
                    cursor.kept = {n: each for n, each in cursor.kept.items() if cursor.next - n < _MOST_KEPT}
                    cursor.kept[cursor.next] = self._next(cursor, which)
                else:
                    self._next(cursor, which)
                cursor.next += 1
            found = cursor.kept.pop(number)
            if cursor.kept or cursor.next * rows < self.rows[which]:
                with self._lock:
                    self._cursors[which] = cursor
                    while len(self._cursors) > _MOST_CURSORS:
                        self._cursors.popitem(last=False)
            return found.select(columns)

    def _begin(self, which: int, columns: list[str], rows: int) -> _Cursor:
        import pyarrow.parquet as pq

        file = pq.ParquetFile(self._source(), metadata=self._metadata, buffer_size=1 << 20, pre_buffer=False)
        batches = file.iter_batches(batch_size=rows, row_groups=[which], columns=columns, use_threads=False)
        return _Cursor(columns, rows, iter(batches))

    def _next(self, cursor: _Cursor, which: int) -> Any:
        wanted = min(cursor.rows, self.rows[which] - cursor.next * cursor.rows)
        made = next(cursor.batches, None)
        if made is None or len(made) != wanted:
            raise CorruptDataError(
                f"row group {which} has {counted(0 if made is None else len(made), 'row')} of {wanted}"
            )
        return made


class ArrowFileBatches(Batches):
    def __init__(self, source: Any) -> None:
        import pyarrow.ipc as ipc

        self._source = source
        self._readers = _Readers(self._open)
        opened = source()
        file = ipc.open_file(opened)
        self.schema = file.schema
        self.rows = rows_of_file(opened)
        if len(self.rows) != file.num_record_batches:
            raise CorruptDataError(
                f"{counted(len(self.rows), 'batch', 'batches')} in a footer of {file.num_record_batches}"
            )

    def _open(self, columns: list[str]) -> Any:
        import pyarrow.ipc as ipc

        fields = sorted(self.schema.get_field_index(name) for name in columns)
        options = ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return ipc.open_file(self._source(), options=options)

    def read(self, which: int, columns: list[str]) -> Any:
        return self._readers.call(columns, lambda file: file.get_batch(which)).select(columns)


class ArrowStreamBatches(Batches):
    """A stream has no table of contents: its messages are read once to find the beginning of its batches."""

    def __init__(self, source: Any) -> None:
        import pyarrow.ipc as ipc

        self._source = source
        stream = source()
        schema = ipc.read_message(stream)
        self.schema = ipc.read_schema(schema)
        self._swapped = schema.serialize() if is_big_endian(schema.metadata.to_pybytes()) else None
        found = batches_of_stream(stream)
        self.rows, self._places = [rows for _, rows in found], [place for place, _ in found]

    def read(self, which: int, columns: list[str]) -> Any:
        import pyarrow.ipc as ipc

        stream = self._source()
        stream.seek(self._places[which])
        message = ipc.read_message(stream)
        if self._swapped is None:
            return ipc.read_record_batch(message, self.schema).select(columns)
        # Only pyarrow's reader of whole streams changes the byte order: it gets a stream of this batch only.
        alone = b"".join([self._swapped, message.serialize()])
        return ipc.open_stream(alone).read_next_batch().select(columns)


@dataclass(frozen=True)
class Cell:
    """A row group, or if `piece` is not 0 its rows from `number * piece` on."""

    group: int
    rows: int
    number: int = 0
    piece: int = 0

    @property
    def key(self) -> str:
        return f"{self.group}:{self.rows}:{self.number}:{self.piece}"

    @classmethod
    def of(cls, key: str) -> Cell:
        return cls(*(int(part) for part in key.split(":")))

    def name(self, of_group: str) -> str:
        return f"{of_group}, part {self.number}" if self.piece else of_group


def version_of(path: str) -> str | None:
    """The identity of a file, which differs if it has changed. None: it does not exist."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_ino}"


class BatchStore(Store):
    """Decodes a batch when the engine requests it; a key is a `Cell`'s. Several threads may read in parallel."""

    def __init__(self, batches: Batches, choice: Choice) -> None:
        self.batches, self.choice = batches, choice
        self.columns, self.joined = choice.columns, choice.joined
        self.dtype, self.nulls = choice.dtype, choice.nulls
        self.path: str | None = None
        self.opened: str | None = None  # the version of the file that `batches` describes

    def version(self, key: str) -> str | None:
        return "bytes" if self.path is None else version_of(self.path)

    def get_range(self, key: str, start: int, length: int) -> bytes | memoryview | None:
        return b"" if length == 0 else super().get_range(key, start, length)

    def get(self, key: str) -> memoryview | None:
        cell = Cell.of(key)
        which = cell.group
        pa = import_pyarrow()
        names = [column.name for column in self.columns]
        try:
            if cell.piece:
                table = self.batches.read_piece(which, names, cell.number, cell.piece)
            else:
                table = self.batches.read(which, names)
            made = self._values([table.column(i) for i in range(len(self.columns))], which, cell.rows)
        except Error:
            raise
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowException) as error:
            now = self.version(key)
            if now is None:
                return None
            if self.opened is not None and now != self.opened:
                raise ConflictError(f"'{self.path}' has changed since the array was opened") from error
            raise CorruptDataError(f"row group {which}: {error}") from error
        return made.reshape(-1).view(np.uint8).data if made.size else memoryview(b"")

    def cells(self) -> list[Cell]:
        """The unit of decoding: row groups, or pieces of long ones. Each has at least one row."""
        choice = self.choice
        row = max(1, choice.dtype.itemsize * int(np.prod(choice.trailing)))
        piece = max(1, _PIECE_BYTES // row)
        out: list[Cell] = []
        for which, rows in enumerate(self.batches.rows):
            if rows * row <= _MOST_BYTES or not self.batches.can_cut(which):
                out += [Cell(which, rows)] if rows else []
            else:
                begins = range(0, rows, piece)
                out += [Cell(which, min(piece, rows - begin), n, piece) for n, begin in enumerate(begins)]
        return out

    def _values(self, columns: list[Any], which: int, rows: int) -> npt.NDArray[Any]:
        """The columns next to each other; one that needs no conversion is a view of Arrow's memory."""
        for column in columns:
            if len(column) != rows:
                raise CorruptDataError(
                    f"row group {which} has {counted(len(column), 'row')}, the file's metadata has {rows}"
                )
        chunks = [column.chunks if hasattr(column, "chunks") else [column] for column in columns]
        if not self.joined and len(chunks[0]) == 1:
            return np.ascontiguousarray(self._one(chunks[0][0], self.columns[0], which).astype(self.dtype, copy=False))
        made = np.empty((rows, len(columns), *self.columns[0].shape), self.dtype)
        for i, (of, pieces) in enumerate(zip(self.columns, chunks, strict=True)):
            end = 0
            for piece in pieces:
                begin, end = end, end + len(piece)
                made[begin:end, i] = self._one(piece, of, which)
        return made

    def _one(self, array: Any, of: Column, which: int) -> npt.NDArray[Any]:
        """The items of a chunk: of its own type, which can differ in other files, or cast if it has nulls."""
        pa = import_pyarrow()
        if pa.types.is_dictionary(array.type):
            array.validate(full=True)  # its indices come from the file
            array = array.dictionary_decode()
        missing: list[npt.NDArray[np.bool_]] = []  # of lists, outermost first
        rows = len(array)
        count = rows
        for size in of.shape:
            self._check_nulls(array, of, which)
            missing.append(np.asarray(array.is_null()) if array.null_count else np.zeros(0, bool))
            start = array.offset * size
            array = array.values.slice(start, count * size)
            count *= size
        self._check_nulls(array, of, which)
        nulls = np.asarray(array.is_null()) if array.null_count else np.zeros(0, bool)
        flat = _flat(array, column_of(pa.field(of.name, array.type)).dtype)
        if len(nulls) or any(len(each) for each in missing):
            flat = flat.astype(self.dtype)
            if len(nulls):
                flat[nulls] = self.nulls
            shape: tuple[int, ...] = (rows,)
            for size, each in zip(of.shape, missing, strict=True):
                if len(each):
                    flat.reshape((int(np.prod(shape)), -1))[each] = self.nulls
                shape = (*shape, size)
        return flat.reshape((rows, *of.shape))

    def _check_nulls(self, array: Any, of: Column, which: int) -> None:
        if array.null_count and self.nulls is None:
            nulls = counted(array.null_count, "null")
            text = f"column '{of.name}' has {nulls} in row group {which}; nulls= replaces them"
            raise InvalidArgumentError(text)


def _flat(array: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The items of a plain array, with any values at its nulls; a view of Arrow's memory if possible."""
    pa = import_pyarrow()
    if pa.types.is_boolean(array.type):
        bits = np.frombuffer(array.buffers()[1], np.uint8) if len(array) else np.zeros(0, np.uint8)
        start = array.offset
        return np.unpackbits(bits, bitorder="little")[start : start + len(array)].astype(bool)
    if not len(array):
        return np.zeros(0, dtype)
    stored = np.dtype("<i4") if pa.types.is_date32(array.type) else dtype
    items = np.frombuffer(array.buffers()[1], np.uint8, count=(array.offset + len(array)) * stored.itemsize)
    found = items.view(stored)[array.offset :]
    return found if stored == dtype else found.astype("<i8").view(dtype)


def remote_file(uri: str, storage_options: Mapping[str, Any] | None) -> tuple[Any, str]:
    """The fsspec file system of a URI, and the path within it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise UnsupportedError(f"opening '{uri}' needs the Python package fsspec") from error
    made: tuple[Any, str] = url_to_fs(uri, **dict(storage_options or {}))
    return made


def pinned_batches(target: str, storage_options: Mapping[str, Any] | None) -> Batches | None:
    """The row groups of one version of a file on a web server; None for other places, for servers without versions, and
    for those whose files only fsspec reads: they ignore ranges, refuse HEAD, or have versions in some responses only.
    """
    if not is_served(target, storage_options):
        return None
    pa = import_pyarrow()
    try:
        opened = RemoteObject(target, storage_options)
        if not opened.is_pinned:
            return None
        made = _kind_of(opened.open().read(8))(lambda: pa.PythonFile(opened.open(), mode="r"))
    except (ConflictError, PermissionDeniedError, StorageError, UnsupportedError):
        return None
    made.remote = opened
    return made


def _kind_of(head: bytes) -> Callable[[Callable[[], Any]], Batches]:
    kinds: dict[str | None, type[Any]] = {"parquet": ParquetBatches, "arrow file": ArrowFileBatches}
    return kinds.get(_core.table_kind(head), ArrowStreamBatches)


def batches_of(target: Any, storage_options: Mapping[str, Any] | None = None) -> Batches:
    """The row groups of a file (also at a URI of fsspec), or of its bytes."""
    pa = import_pyarrow()
    if isinstance(target, bytes):
        head = target[:8]

        def source() -> Any:
            return pa.BufferReader(target)
    elif "://" in target:
        filesystem, place = remote_file(target, storage_options)
        whole = content_without_ranges(filesystem, place, target)
        if whole is not None:
            return batches_of(whole)
        head = filesystem.cat_file(place, 0, 8)

        def source() -> Any:
            return pa.PythonFile(filesystem.open(place, "rb"), mode="r")
    else:
        with open(target, "rb", buffering=0) as stream:
            head = stream.read(8)

        def source() -> Any:
            return pa.OSFile(target)

    return _kind_of(head)(source)


def _chosen(schema: Any, columns: str | Sequence[str] | None) -> list[Column]:
    names = [columns] if isinstance(columns, str) else list(schema.names if columns is None else columns)
    if not names:
        raise InvalidArgumentError("no columns are chosen")
    out = []
    for name in names:
        found = schema.get_all_field_indices(name)
        if not found:
            raise NotFoundError(f"the file has no column '{name}'; it has {', '.join(schema.names[:20])}")
        if len(found) > 1:
            raise UnsupportedError(f"the file has {len(found)} columns named '{name}'")
        out.append(column_of(schema.field(found[0])))
    for each in out[1:]:
        if each.shape != out[0].shape:
            raise InvalidArgumentError(f"columns '{out[0].name}' and '{each.name}' have items of different shapes")
    return out


def _dtype_of(columns: list[Column], dtype: npt.DTypeLike | None) -> np.dtype[Any]:
    if dtype is None:
        for each in columns[1:]:
            if each.dtype != columns[0].dtype:
                text = f"columns '{columns[0].name}' ({columns[0].dtype}) and '{each.name}' ({each.dtype}) differ"
                raise InvalidArgumentError(f"{text}; dtype= converts them")
        return columns[0].dtype
    wanted = as_dtype(dtype)
    for each in columns:
        if not np.can_cast(each.dtype, wanted, "same_kind"):
            raise InvalidArgumentError(f"column '{each.name}' is {each.dtype}, it does not become {wanted}")
    return wanted


def data_type(dtype: np.dtype[Any]) -> Any:
    """A type with its name in zarr.json."""
    if dtype.kind in "mM":
        unit, count = np.datetime_data(dtype)
        name = "numpy.datetime64" if dtype.kind == "M" else "numpy.timedelta64"
        return {"name": name, "configuration": {"unit": unit, "scale_factor": count}}
    return f"r{8 * dtype.itemsize}" if dtype.kind == "V" else dtype.name


def fill_value(dtype: np.dtype[Any]) -> Any:
    """Zero, as in zarr.json."""
    return [0] * dtype.itemsize if dtype.kind == "V" else False if dtype.kind == "b" else 0


def _null_value(nulls: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(nulls, str) and nulls == "error":
        return None
    try:
        given = np.asarray(nulls)
        value = given.astype(
            dtype, casting="unsafe" if dtype.kind in "iu" and given.dtype.kind in "iu" else "same_kind"
        )
        if dtype.kind not in "iub" or int(value) == int(given):
            return value[()]
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidArgumentError(f"nulls={nulls!r} is not a {dtype}")


@dataclass(frozen=True)
class Choice:
    """The selected part of a table, as one array."""

    columns: tuple[Column, ...]
    joined: bool  # columns are a dimension of their own
    dtype: np.dtype[Any]
    nulls: Any  # the value of nulls; None: an error

    @classmethod
    def of(cls, schema: Any, columns: str | Sequence[str] | None, nulls: Any, dtype: npt.DTypeLike | None) -> Choice:
        chosen = _chosen(schema, columns)
        wanted = _dtype_of(chosen, dtype)
        if nulls is None:
            raise InvalidArgumentError("nulls must be 'error' or a replacement value")
        null = _null_value(nulls, wanted) if dtype is not None else _null_value(nulls, chosen[0].dtype)
        if null is not None and dtype is not None:
            null = nulls
        return cls(tuple(chosen), not isinstance(columns, str), wanted, null)

    @property
    def trailing(self) -> tuple[int, ...]:
        """The shape of a row."""
        return ((len(self.columns),) if self.joined else ()) + self.columns[0].shape


def describe(store: BatchStore, uri: str) -> Described:
    trailing = store.choice.trailing
    used = store.cells()
    rows = [cell.rows for cell in used]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [sum(rows), *trailing],
        "data_type": data_type(store.dtype),
        "chunk_grid": {
            "name": "rectilinear",
            "configuration": {"kind": "inline", "chunk_shapes": [_run_lengths(rows), *([max(1, n)] for n in trailing)]},
        },
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": fill_value(store.dtype),
        "attributes": {},
    }
    if not rows:
        shape = [1, *(max(1, n) for n in trailing)]
        document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": shape}}
    if store.joined:
        document["attributes"] = {"columns": [column.name for column in store.columns]}
    adapter = _core.object_store(ObjectAdapter(store), uri, False)
    cells = len(rows) if 0 not in trailing else 0
    objects = [
        Object(cell.name(f"row group {cell.group}"), adapter, cell.key, pinned=n == 0)
        for n, cell in enumerate(used[:cells])
    ]
    table = pack_table(cells, [0] * cells, [0] * cells, objects=list(range(cells))) if cells else pack_table(0, [], [])
    return Described({"zarr.json": document}, table, objects, "arrow", uri)


def _run_lengths(rows: list[int]) -> list[Any]:
    out: list[list[int]] = []
    for each in rows:
        if out and out[-1][0] == each:
            out[-1][1] += 1
        else:
            out.append([each, 1])
    return [each if each[1] > 1 else each[0] for each in out]
