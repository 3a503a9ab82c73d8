"""Arrays written as many files."""

from __future__ import annotations

import builtins
import itertools
import json
import math
import operator
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.api.hdf5_writer import import_h5py, new_file
from penstock.api.written_values import for_tiff, for_zarr
from penstock.core.array import Array, Progress
from penstock.core.context import current_context
from penstock.core.data_types import as_ndarray, dtype_json, native_dtype, unmasked
from penstock.core.errors import InvalidArgumentError, UnsupportedError, system_errors
from penstock.core.progress import Shares, callback_of
from penstock.core.writing import as_value
from penstock.geo.tiff_options import TiffOptions
from penstock.geo.writing import mask_bytes, new_tiff
from penstock.hdf5.shards import open_datasets
from penstock.references.objects import ReferencedArray
from penstock.shards.files import complain
from penstock.shards.raw import descr_text
from penstock.shards.readers import JoinedArray
from penstock.shards.sharded_array import root_of
from penstock.tabular.shards import JoinedTables, open_tables
from penstock.tabular.table import import_pyarrow
from penstock.target.local import local_path
from penstock.target.sniff import endings_of, format_by_name

MANIFEST = "penstock.shards"
_CHUNK = 1 << 20


class ShardWriter:
    """Writes shards one after the other: `with ShardWriter("run/shard_{:05d}.npy") as w: w.write(rows)`.

    Several threads may use one writer: their shards are written one after the other.

    A file appears under its name when it is complete. Leaving the `with` block without an exception writes the
    manifest, with the checksum of each file, into the files' folder. Until then the folder has no manifest, or that of
    an earlier run. Shards of an earlier run with the same pattern and higher numbers are removed at the end.

    Parameters
    ----------
    pattern
        The names of the files, with one `{}` for the shard's number. The suffix determines the format: `.npy`, `.npz`,
        `.raw`, `.zarr`, `.h5`, `.parquet`, `.arrow`, `.tif` (of bands, y and x), or another of these formats' (`.dat`,
        `.feather`, ...).
    manifest
        The name of the manifest in the folder of the shards; None: none is written.
    name
        That of the dataset, the column, or the member.
    options
        Those of h5py's `create_dataset` (`compression="gzip"`), of pyarrow's `write_table`, of Arrow's
        `IpcWriteOptions`, of `penstock.save` for TIFF.

    Attributes
    ----------
    pattern, manifest, name
        As given; the pattern as a local path.
    suffix
        The ending of the files, such as ".npy".

    Raises
    ------
    InvalidArgumentError
        The pattern, a name or an option is not valid.
    UnsupportedError
        The suffix is not one of these.

    Examples
    --------
    >>> with ps.ShardWriter("run/step_{:03d}.npy") as w:
    ...     for step in range(4):
    ...         path = w.write(np.full((5, 3), step, "f4"))
    >>> path
    'run/step_003.npy'
    >>> ps.open_shards("run").shape
    (20, 3)
    """

    def __init__(
        self, pattern: str | os.PathLike[str], *, manifest: str | None = MANIFEST, name: str = "x", **options: Any
    ) -> None:
        if not isinstance(pattern, str | os.PathLike) or not isinstance(os.fspath(pattern), str):
            raise InvalidArgumentError(f"a pattern is a str or a path with one {{}}, not {pattern!r}")
        given, kept = os.fsencode(local_path(os.fspath(pattern))), None if manifest is None else os.fsencode(manifest)
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"name must be that of a dataset, a column or a member, got {name!r}")
        made = _core._ShardWriter.make(current_context(), given, kept, True, name)
        self.pattern, self.manifest = os.fsdecode(made.pattern), manifest
        self.suffix = os.fsdecode(made.suffix)
        known = (*_PLAIN, *_ARRAYS, *_WRITERS)
        self._format = format_by_name(f"x{self.suffix}") or ""
        if self._format not in known:
            endings = ", ".join(itertools.chain(*map(endings_of, known)))
            raise UnsupportedError(f"shards are written as {endings}, not as '{self.suffix}'")
        own = self._format in _WRITERS
        if options and not own and self._format != "tiff":
            raise InvalidArgumentError(f"{self.suffix} files take no option {next(iter(options))!r}")
        self._writer = made if own else _core._ShardWriter.make(current_context(), given, kept, False, name)
        self.name, self._options = name, options
        self._lock = threading.Lock()  # the name of a file is that of the next number
        self._paths: list[str] = []  # of the files written so far

    @property
    def paths(self) -> list[str]:
        """Paths of the shards written so far, in their order."""
        return list(self._paths)

    def write(self, values: npt.ArrayLike) -> str:
        """Write the next shard.

        Parameters
        ----------
        values
            The rows: at least one dimension. All shards have the dtype and the shape, except along axis 0, of the first
            one.

        Returns
        -------
        str
            The path of the file.

        Raises
        ------
        InvalidArgumentError
            The shape or the dtype does not fit. Elements are masked: shards store no mask; a TIFF needs `nodata`.
        UnsupportedError
            The format does not have such elements.
        """
        made = as_ndarray(values)
        if self._format != "tiff":  # which has nodata
            made = unmasked(made)
        if made.ndim == 0:
            raise InvalidArgumentError("a shard has at least one dimension")
        self._check_items(made.dtype)
        if self._format in _ARRAYS:
            return self._write_array(made)
        items, descr = _bytes_of(made), self._descr(made.dtype)
        with self._lock:
            if self._format in _PLAIN:
                path = os.fsdecode(self._writer.write(items, descr))
            else:
                path = os.fsdecode(self._writer.next(items, descr))
                self._writer.add(_WRITERS[self._format](path, made, self.name, self._options))
            self._paths.append(path)
        return path

    def _write_array(self, made: npt.NDArray[Any]) -> str:
        options: dict[str, Any] = {"overwrite": True}
        mask = None
        if self._format == "tiff":
            type_, options, mask, data = _tiff_options(made, self._options)
            values = as_value(data, type_, made.shape)
            descr = values.dtype.str
        else:
            values, descr = _zarr_items(made)
        with self._lock:
            items = _bytes_of(values), descr.encode(), options, mask
            path = os.fsdecode(self._writer.write_array(current_context(), *items))
            self._paths.append(path)
        return path

    def _check_items(self, dtype: np.dtype[Any]) -> None:
        if dtype.hasobject:
            raise UnsupportedError(f"items of {dtype} cannot be written without pickling them")
        if not dtype.itemsize:
            raise UnsupportedError(f"items of {dtype} have no bytes to be written")
        if self._format in _PLAIN and dtype.char in "gG":
            raise UnsupportedError(f"{dtype} differs from machine to machine: write it as float64")

    def _descr(self, dtype: np.dtype[Any]) -> bytes:
        headers = self._format in ("npy", "npz") and dtype.names is None  # no names in them except NumPy's own
        return (dtype.str if headers else descr_text(dtype)).encode()

    def _options_of_all(self, source: Any, edges: Sequence[int]) -> dict[str, Any] | None:
        """The options with which the engine cuts `source` and writes the files as `write` does; None: it cannot."""
        dtype = source.dtype
        if self._format not in (*_PLAIN, *_ARRAYS) or not isinstance(dtype, np.dtype):
            return None
        if type(source) is not np.ndarray and not isinstance(source, Array):
            return None  # the values are known after a slice is taken
        self._check_items(dtype)
        if self._format in _PLAIN:
            return {"descr": self._descr(dtype), "arrays_of_rows": {}, "mask": None}
        lengths = {high - low for low, high in itertools.pairwise(edges)}
        if self._format == "zarr":
            empty = np.empty((0, *source.shape[1:]), dtype)
            values, descr = _zarr_items(empty)
            if values.dtype != dtype:  # NumPy converts the values
                return None
            return {"descr": descr.encode(), "arrays_of_rows": {n: {"overwrite": True} for n in lengths}, "mask": None}
        by_rows, mask = {}, None
        for rows in lengths:
            like = np.broadcast_to(np.zeros((), dtype), (rows, *source.shape[1:]))  # without memory for the elements
            type_, by_rows[rows], mask, _ = _tiff_options(like, self._options)
            if type_ != dtype:  # NumPy converts the values
                return None
        return {"descr": dtype.str.encode(), "arrays_of_rows": by_rows, "mask": mask}

    def close(self) -> None:
        """Write the manifest, and remove shards of an earlier run with the same pattern."""
        with self._lock:
            if self._format not in _WRITERS or not self.paths:
                self._writer.close()
                return
            self._writer.sync()
            if self.manifest is not None:
                self._index().save(os.path.join(os.fsdecode(self._writer.folder), self.manifest))
            self._writer.remove_left_over()

    def _index(self) -> Any:
        """The array of the written shards, with its files' checksums."""
        paths = [os.path.abspath(path) for path in self.paths]
        sums = dict(zip(paths, self._writer.checksums, strict=True))
        if self._format == "hdf5":
            return open_datasets(paths, self.name, 0, False, current_context(), None, sums)
        return open_tables(paths, self.name, "error", None, current_context(), sums)

    def __repr__(self) -> str:
        return f"<penstock.ShardWriter {self.pattern!r}, {len(self.paths)} written>"

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()


def _bytes_of(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same memory as items of bytes; the engine gets their dtype separately."""
    return np.asarray(values).view(f"V{values.dtype.itemsize}")


def _zarr_items(made: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str]:
    """Values in native byte order, and their data type as JSON or as NumPy's type string."""
    given: dict[str, Any] = {"attributes": None, "dimension_names": None, "fill_value": None, "dtype": None}
    values = np.asarray(for_zarr(made, {**given, "zarr_format": 3}))
    described = dtype_json(values.dtype, 3)
    native = native_dtype(described)
    if native is not None and native != values.dtype:
        values = values.astype(native, casting="same_kind")
    return values, described if isinstance(described, str) else json.dumps(described)


def _tiff_options(made: npt.NDArray[Any], options: dict[str, Any]) -> tuple[Any, dict[str, Any], Any, Any]:
    """The type, the options of the engine, the mask and the values of a new TIFF."""
    if made.ndim != 3 or not made.size:
        raise UnsupportedError(f"TIFF shards are (band, y, x) with at least one pixel, not {made.shape}")
    given: dict[str, Any] = {"overwrite": True, **options}
    of_file: dict[str, Any] = {name: bool(given.pop(name)) for name in ("overwrite", "durable") if name in given}
    attributes, dtype = given.pop("attributes", None), given.pop("dtype", None)
    data, _ = for_tiff(made, given)
    try:
        how = TiffOptions.of(given)
    except TypeError as error:
        raise InvalidArgumentError(f"TIFF does not take {options}: {error}") from error
    request = new_tiff(made.shape, made.dtype if dtype is None else dtype, how, attributes)
    masked = how.mask is not None and not isinstance(how.mask, bool)
    mask = mask_bytes(how.mask, made.shape[1:]) if masked else None
    return request["type"], {**of_file, "tiff": request["tiff"]}, mask, np.asarray(data)


def _write_with(path: str, write: Callable[[str], None]) -> int:
    """Have another library write a draft, and rename it; returns its checksum."""
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with system_errors(f"writing '{path}'"):
            write(draft)
            total = _core.checksum_of_file(os.fsencode(draft), sync=current_context().sync != "none")
            os.replace(draft, path)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)
    return total


def _write_hdf5(path: str, made: npt.NDArray[Any], name: str, options: dict[str, Any]) -> int:
    import_h5py()

    def write(draft: str) -> None:
        with new_file(draft) as file:
            try:
                file.create_dataset(name, data=made, **_hdf5_options(made, options)).flush()
            except (TypeError, ValueError) as error:
                if options:
                    raise InvalidArgumentError(f"h5py does not take {options}: {error}") from error
                raise UnsupportedError(f"HDF5 has no items of {made.dtype}: {error}") from error

    return _write_with(path, write)


def _hdf5_options(made: npt.NDArray[Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options of h5py for one shard: equal chunks in all shards, but no longer than this one."""
    if not options or not made.size:  # a shard without rows cannot be chunked or compressed
        return {}
    chunks = options.get("chunks")
    if not isinstance(chunks, tuple):
        row = made.dtype.itemsize * math.prod(made.shape[1:])
        chunks = (max(1, _CHUNK // max(1, row)), *made.shape[1:])
    return {**options, "chunks": tuple(min(c, n) for c, n in zip(chunks, made.shape, strict=True))}


def _arrow_table(made: npt.NDArray[Any], name: str) -> Any:
    pa = import_pyarrow()
    items = np.ascontiguousarray(made.astype(made.dtype.newbyteorder("="), copy=False)).reshape(-1)
    try:
        if made.dtype.kind not in "biufmM":
            raise TypeError(f"no type of a column for {made.dtype}")
        column = pa.array(items)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise UnsupportedError(f"tables have no items of {made.dtype}: {error}") from error
    for length in reversed(made.shape[1:]):
        if length == 0:
            raise UnsupportedError(f"tables have no rows of shape {made.shape[1:]}")
        column = pa.FixedSizeListArray.from_arrays(column, length)
    return pa.table({name: column})


@contextmanager
def _refusing(options: dict[str, Any]) -> Iterator[None]:
    """pyarrow's error about options"""
    try:
        yield
    except (TypeError, ValueError, import_pyarrow().ArrowException) as error:
        if not options:
            raise
        raise InvalidArgumentError(f"pyarrow does not take {options}: {error}") from error


def _write_parquet(path: str, made: npt.NDArray[Any], name: str, options: dict[str, Any]) -> int:
    table = _arrow_table(made, name)
    import pyarrow.parquet as pq

    def write(draft: str) -> None:
        with _refusing(options):
            pq.write_table(table, draft, **options)

    return _write_with(path, write)


def _write_arrow(path: str, made: npt.NDArray[Any], name: str, options: dict[str, Any]) -> int:
    table = _arrow_table(made, name)
    import pyarrow.ipc as ipc

    def write(draft: str) -> None:
        with _refusing(options):
            how = ipc.IpcWriteOptions(**options)
        with builtins.open(draft, "wb") as file, ipc.new_file(file, table.schema, options=how) as writer:
            writer.write_table(table)

    return _write_with(path, write)


_PLAIN = ("npy", "raw", "npz")
_ARRAYS = ("zarr", "tiff")
_WRITERS: dict[str, Callable[[str, npt.NDArray[Any], str, dict[str, Any]], int]] = {
    "hdf5": _write_hdf5,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}


def _count(name: str, value: Any) -> int | None:
    try:
        made = None if value is None else operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{name} must be a whole number, got {value!r}") from None
    if made is not None and made < 1:
        raise InvalidArgumentError(f"{name} must be at least 1, got {made}")
    if made is not None and made >= 2**64 and name == "shards":
        raise InvalidArgumentError(f"shards must be less than 2**64, got {made}")
    return None if made is None else min(made, 2**64 - 1)  # as many rows as the engine counts are one shard


def _paths_of(values: Any) -> Iterator[str]:
    """The local files and folders that an array is read from."""
    if values is None:
        return
    if isinstance(values, JoinedArray):
        for part in values._parts:
            array = getattr(part, "_array", None)
            yield from _paths_of(part.name if array is None else array)
    elif isinstance(values, JoinedTables):
        yield from (table.path for table in values.tables)
    elif isinstance(values, ReferencedArray) and values.format != "arrow":
        yield from (os.fsdecode(each) for each in _core.referenced_files(values))
    elif isinstance(values, str):
        yield local_path(values.removeprefix("zip://"))  # of members: below their archive
    elif isinstance(values, _core.Array) and (files := _core.shard_files(values)):
        root = local_path(root_of(values).removeprefix("zip://"))
        yield from (os.path.join(root, os.fsdecode(each[0])) for each in files)
    else:
        yield from _paths_of(getattr(values, "uri", None))


def _refuse_to_write_over(source: Any, writer: ShardWriter, count: int) -> None:
    """Each shard is written before the next one is read: a shard that replaces a file of the source would destroy rows
    that are still to be read.
    """
    there = {os.path.realpath(path) for path in _paths_of(source) if "://" not in path}
    if not there:
        return
    above = {folder for path in there for folder in _and_above(path)}  # of Zarr, whose shards are folders
    names = writer._writer
    changed = [os.fsdecode(each) for each in (*map(names.path, range(count)), *names.left_over(count))]
    met = [path for path in changed if os.path.realpath(path) in above]
    if met:
        text = complain(f"{len(met)} of the array's own files would be replaced or removed", [f"'{p}'" for p in met])
        raise InvalidArgumentError(f"{text}; write under other names, or read the array first")


def _and_above(path: str) -> Iterator[str]:
    while path not in ("", "/"):
        yield path
        path = os.path.dirname(path)


def save_shards(
    values: Any,
    pattern: str | os.PathLike[str],
    *,
    rows: int | None = None,
    shards: int | None = None,
    manifest: str | None = MANIFEST,
    name: str = "x",
    progress: Progress | bool | None = None,
    **options: Any,
) -> list[str]:
    """Write an array (also a `penstock.Array`, a shard at a time) as many files, cut along its first axis.

    Parameters
    ----------
    values
        NumPy's, Penstock's, or any argument of `numpy.asarray`; at least one dimension.
    pattern
        The files' names, with one `{}` for the number: "run/shard_{:05d}.npy". The suffix determines the format. Files
        of an earlier run with names of this pattern are replaced, and removed if there are fewer shards now. If
        `values` is read from such files, nothing is written.
    rows, shards
        Rows of each shard except the last; or the number of shards, of lengths as equal as possible. One of the two.
    manifest, name, options
        As `ShardWriter`.
    progress
        True: a line on stderr, or a bar in a notebook. A function: called with (bytes done, bytes in all) after each
        file, and while the rows of an open array are read, which is half of the work. Returning False stops
        (`CancelledError`); no manifest is written then.

    Returns
    -------
    list of str
        The paths of the files, in order.

    Raises
    ------
    InvalidArgumentError
        `rows`, `shards` or an option is not valid, the array is read from files that would be replaced, or there would
        be more than 2^24 files.
    UnsupportedError
        The format does not have such elements.

    Examples
    --------
    >>> x = np.arange(20.0).reshape(10, 2)
    >>> ps.save_shards(x, "run/part_{}.npy", rows=4)
    ['run/part_0.npy', 'run/part_1.npy', 'run/part_2.npy']
    >>> ps.open_shards("run/part_*.npy").shape
    (10, 2)
    """
    source = values if hasattr(values, "shape") and hasattr(values, "dtype") else np.asanyarray(values)
    if not source.shape:
        raise InvalidArgumentError("an array without dimensions has no rows")
    count = _count("rows", rows), _count("shards", shards)
    edges = _core.shard_edges(source.shape[0], *count)
    with ShardWriter(pattern, manifest=manifest, name=name, **options) as writer:
        if writer._format != "tiff" or options.get("nodata") is None:
            source = unmasked(source)  # before the first file is written
        _refuse_to_write_over(source, writer, len(edges) - 1)
        is_open = isinstance(source, Array)
        row_bytes = source.dtype.itemsize * math.prod(source.shape[1:])
        if (how := writer._options_of_all(source, edges)) is not None:
            how |= {"manifest": None if manifest is None else os.fsencode(manifest), "name": name}
            how |= {"rows": count[0], "shards": count[1], "bytes": row_bytes * source.shape[0]}
            items = source._opened() if is_open else _bytes_of(source)
            report = callback_of(progress, "writing")
            made = _core.save_shards(items, current_context(), os.fsencode(writer.pattern), how, report)
            return [os.fsdecode(path) for path in made]
        shares = Shares(progress, "writing", row_bytes * source.shape[0])
        for low, high in itertools.pairwise(edges):
            size, which = row_bytes * (high - low), slice(low, high)
            of_read = size // 2 if is_open else 0
            writer.write(source.read(which, progress=shares.share(of_read)) if is_open else source[which])
            shares.add(size - of_read)
    return writer.paths
