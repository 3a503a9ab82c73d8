"""Many files as one array."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.api.npy import open_npy, refuse_options
from penstock.api.open import open
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.errors import (
    ConflictError,
    CorruptDataError,
    InvalidArgumentError,
    UnsupportedError,
)
from penstock.hdf5.shards import open_datasets
from penstock.references.manifest import open_target
from penstock.references.manifest import save_manifest as save_references
from penstock.references.objects import ReferencedArray
from penstock.shards import arrays as _array_shards
from penstock.shards.files import describe_all, file_stamps
from penstock.shards.names import FORMATS, Files, begin_of, names_of, read_named
from penstock.shards.raw import raw_settings
from penstock.shards.readers import JoinedArray, Metadata, Reader, join_arrays, join_parts, join_readers
from penstock.shards.sharded_array import (
    ShardedArray,
    changed_stamps,
    check_axis,
    open_manifest,
    root_of,
    save_manifest,
    sharded,
)
from penstock.tabular.shards import JoinedTables, open_tables
from penstock.target.local import local_file
from penstock.target.sniff import REFERENCES, known_format, known_suffix


def open_shards(
    files: str | os.PathLike[str] | Iterable[Any],
    *,
    axis: int = 0,
    format: str | None = None,
    dtype: npt.DTypeLike | None = None,
    shape: Sequence[int] | None = None,
    row_shape: Sequence[int] | None = None,
    offset: int | None = None,
    order: str | None = None,
    holes: str = "error",
    missing: str = "error",
    allow_local: bool | None = None,
    manifest: str | os.PathLike[str] | None = None,
    metadata: Metadata | None = None,
    reader: Reader | None = None,
    mmap: bool = False,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Open many files as one array, one behind the other along `axis`.

    Parameters
    ----------
    files
        A pattern ("run/shard_*.npy", also a URI of any store), a folder, one file, a list of paths or of open arrays,
        or a manifest that `save_manifest` wrote. Names that a pattern or a folder finds are in the order of the numbers
        in them (`x_9` before `x_10`); a list's order is kept.
    axis
        Along which the files are joined; they may be of different lengths along it, also empty.
    format
        "npy", "raw", "hdf5", "parquet", "arrow", "zarr", "tiff", or None: what the first file is found to be.
        Whatever else `penstock.open` opens is joined too.
    dtype, shape, row_shape, offset, order
        Of raw files: `shape` is that of every file; without it, `row_shape` is that of a file without `axis`, and its
        size says how many rows it has. `offset` is that of the first item in bytes (None: 0), `order` "C" or "F" (None:
        "C"). Without `dtype` a file `<name>.json` beside each file, or one `_meta.json` in their folder, has these
        members; what is given here goes before it. A file of no bytes is an error where no shape says that it has no
        rows.
    holes
        "error": numbers that a sequence of names lacks are an error; "allow": they are not. Steps of any one size are a
        sequence; one that begins with 1 has lost nothing that anybody could know of.
    missing
        Of manifests and references: "error" or "fill", which makes rows of files that are not there the fill value.
    allow_local
        Of manifests and references: whether they may name local files. None: only where they are local files.
    manifest
        A file that keeps what the headers say: used where it is there, is of the same files, asked for in the same way,
        and none of them changed since; written where it is not.
    metadata, reader
        For files of your own: `metadata(path)` gives (rows, trailing shape, dtype), `reader(path, lo, hi)` an array of
        the rows [lo, hi). Both are called from several threads.
    mmap
        Give NumPy views of the mapped files instead of an `Array`: a list with one for each file. Nothing is copied.
    options
        Of HDF5 files `dataset`: a name, or a pattern ("shard_*") of which one file, or each, may have many. Of Parquet
        and Arrow files `columns` (or `column`), `nulls` and `dtype`. Of all others, what `penstock.open` takes: `path`
        of `.npz` files, Zarr groups and references, `page`, `level` and their like of TIFFs.

    Returns
    -------
    Array
        Opening reads each header once, in parallel, and no data.

    Raises
    ------
    InvalidArgumentError
        Holes, duplicates, scalars, files of another dtype or shape: the first five are named.
    CorruptDataError
        Headers that cannot be read, empty and truncated files: the first five are named.
    ConflictError
        Later, by a read: a file changed or vanished since it was opened.
    """
    if holes not in ("error", "allow"):
        raise InvalidArgumentError(f"holes is 'error' or 'allow', not {holes!r}")
    if order not in ("C", "F", None):
        raise InvalidArgumentError(f"order is 'C' or 'F', not {order!r}")
    if missing not in ("error", "fill"):
        raise InvalidArgumentError(f"missing is 'error' or 'fill', not {missing!r}")
    if format is not None and format not in FORMATS:
        raise UnsupportedError(f"format is one of {', '.join(map(repr, FORMATS))} or None, not {format!r}")
    if (metadata is None) != (reader is None):
        raise InvalidArgumentError("metadata and reader go together")
    try:
        axis = operator.index(axis)
    except TypeError:
        raise InvalidArgumentError(f"axis is a whole number, not {axis!r}") from None
    context = current_context() if context is None else context
    given = names_of(files)
    layout = {"dtype": dtype, "shape": shape, "row_shape": row_shape, "offset": offset, "order": order}
    of_all = {"format": format, **layout, "manifest": manifest, "metadata": metadata, **options}

    begin = begin_of(given, storage_options) if isinstance(given, str) else None
    if isinstance(given, str) and begin is not None and _core.is_manifest(begin):
        _refuse_given("a manifest", of_all)
        opened = open_manifest(
            given,
            context=context,
            storage_options=storage_options,
            missing=missing,
            axis=axis,
            allow_local=allow_local,
        )
        return map_shards(opened) if mmap else opened
    if isinstance(given, str) and begin is not None and begin.startswith(REFERENCES):
        _refuse_given("a manifest", of_all)
        saved = _with_axis(open_target(given, "", context, storage_options, missing, allow_local), axis)
        return map_shards(saved) if mmap else saved
    if not isinstance(given, str) and any(not isinstance(each, str) for each in given):
        _refuse_given("open arrays", {**of_all, "storage_options": storage_options or None})
        refuse_options({}, mmap, None, "open arrays")
        _refuse_missing(missing)
        return join_arrays(given, axis, context)

    one_file = isinstance(given, str) and begin is not None
    found = Files([str(given)] if one_file else given, holes == "allow", storage_options, format)
    if reader is not None and metadata is not None:
        _refuse_given("files that a reader reads", {"format": format, **layout})
        refuse_options(options, mmap, manifest, "files that a reader reads")
        _refuse_missing(missing)
        return join_readers(found.paths(), metadata, reader, axis, context)
    kind = found.format() if format is None else format
    if dtype is not None and format is None and kind not in ("raw", "hdf5", "parquet", "arrow"):
        _refuse_known(found.paths()[0])
        kind = "raw"
    if kind not in ("npy", "raw"):
        of_tables = kind in ("parquet", "arrow")
        _refuse_given(f"{kind} files", {**layout, "dtype": None if of_tables else dtype})
        if of_tables:
            options["dtype"] = dtype
        if missing != "error":
            options["missing"] = missing
        if allow_local is not None:
            options["allow_local"] = allow_local
        made = _open_others(kind, found, axis, holes == "allow", manifest, mmap, context, storage_options, options)
        if format in ("zarr", "tiff") and (bad := [part for part in _formats_of(made) if not part.startswith(format)]):
            raise InvalidArgumentError(f"the files are {bad[0]}, not {format}")
        return made
    if options:
        raise InvalidArgumentError(f"{kind} files take no option {next(iter(options))!r}")
    _refuse_missing(missing)
    raw = None
    if kind == "raw":
        raw = raw_settings(found, axis, dtype, shape, row_shape, offset, order)
    else:
        _refuse_given(".npy files", layout)
    known: ShardedArray | JoinedArray | None = None
    if manifest is not None:
        known = _known_manifest(manifest, found, axis, raw, context, storage_options)
    if known is None:
        try:
            known = sharded(_core.open_shards(found.store, context, found.keys, axis, raw), storage_options)
        except UnsupportedError as refused:
            if "another item order" not in refused.message:
                raise
            # Their bytes cannot be one layout: each is an array, and these are joined.
            known = _join_npy(found, axis, context, storage_options)
        if manifest is not None:
            save_manifest(known, manifest, storage_options=storage_options)
    return map_shards(known) if mmap else known


def _join_npy(found: Files, axis: int, context: Context, storage_options: Mapping[str, Any] | None) -> JoinedArray:
    """`.npy` files that are stored in both item orders."""
    paths = found.paths()
    looks = [partial(open_npy, found.store, key, context, storage_options, {}) for key in found.keys]
    if "://" in paths[0]:
        return join_arrays(describe_all(paths, looks), axis, context)
    paths = [os.path.abspath(path) for path in paths]
    stamps = file_stamps(paths)
    opened = describe_all(paths, looks)
    parts = [
        _array_shards.part_of(array, path, list(stamp or (0, 0)))  # what is gone since is a conflict later
        for array, path, stamp in zip(opened, paths, stamps, strict=True)
    ]
    return join_parts(parts, axis, context)


def _refuse_given(what: str, options: Mapping[str, Any]) -> None:
    """Options beside something that says itself what they would say."""
    named = [name for name, value in options.items() if value is not None]
    if named:
        verb = "says itself what it is" if what.startswith("a ") else "say themselves what they hold"
        raise InvalidArgumentError(f"{what} {verb}: {named[0]}= does not go with it")


def _refuse_known(first: str) -> None:
    """A `dtype` makes files raw, but not such as say themselves what they hold: their headers would become values."""
    local = local_file(first)
    what = known_format(local) if local is not None else known_suffix(first)
    if what is not None:
        text = f"'{first}' is {what}, dtype= is for raw files: say format='raw', or open without it and read(dtype=)"
        raise InvalidArgumentError(text)


def _refuse_missing(missing: str) -> None:
    if missing != "error":
        raise InvalidArgumentError(
            "missing='fill' is for manifests and references: of other files nobody knows how long those are that are "
            "not there",
        )


def _with_axis(made: Array, axis: int) -> Array:
    """The array of a manifest, where `axis` is that of its files (or 0, the default)."""
    joined = made._described.joined if isinstance(made, ReferencedArray) else None
    known = 0 if joined is None else joined.axis
    if isinstance(made, JoinedArray):
        known = made._joined_along
    check_axis(axis, known, len(made.shape), made.uri)
    return made


def _open_others(
    kind: str,
    found: Files,
    axis: int,
    allow_holes: bool,
    manifest: str | os.PathLike[str] | None,
    mmap: bool,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> Array:
    """Files of the other formats."""
    paths = found.paths()
    if kind not in ("hdf5", "parquet", "arrow"):
        refuse_options({}, mmap, manifest, "files of this format")

        looks = [partial(open, path, context=context, storage_options=storage_options, **options) for path in paths]
        return join_arrays(describe_all(paths, looks), axis, context)
    wanted: dict[str, Any] = dict(options)
    if kind == "hdf5":
        arguments: tuple[Any, ...] = (wanted.pop("dataset", None),)
    else:
        if "column" in wanted and "columns" in wanted:
            raise InvalidArgumentError("column and columns are the same option")
        columns = wanted.pop("column", wanted.pop("columns", None))
        arguments = (columns, wanted.pop("nulls", "error"), wanted.pop("dtype", None))
    refuse_options(wanted, mmap, None, f"{kind} files")
    paths = [path if "://" in path else os.path.abspath(path) for path in paths]
    if (
        manifest is not None
        and (saved := _known_references(manifest, kind, paths, arguments, axis, context, storage_options)) is not None
    ):
        return saved
    made: Array
    if kind == "hdf5":
        made = open_datasets(paths, arguments[0], axis, allow_holes, context, storage_options)
    else:
        if axis != 0:
            raise InvalidArgumentError(f"tables are joined along their rows: axis is 0, not {axis}")
        columns, nulls, wanted_dtype = arguments
        made = open_tables(paths, columns, nulls, wanted_dtype, context, None, storage_options)
    if manifest is not None:
        save_references(made, manifest, storage_options=storage_options)
    return made


def _known_references(
    path: str | os.PathLike[str],
    kind: str,
    files: list[str],
    arguments: tuple[Any, ...],
    axis: int,
    context: Context,
    storage_options: Mapping[str, Any] | None,
) -> Array | None:
    """The array of the manifest at `path`, if it is of these files."""

    if not (begin_of(os.fspath(path), storage_options) or b"").startswith(REFERENCES):
        _check_cache(path, storage_options)
        return None
    try:
        made = open_target(os.fspath(path), "", context, storage_options, expected=frozenset(files))
    except (ConflictError, CorruptDataError):  # written anew
        return None
    if isinstance(made, JoinedTables) and made.changed():
        return None
    joined = made._described.joined if isinstance(made, ReferencedArray) else None
    if joined is None or joined.shards.get("files") != files:
        return None
    if isinstance(made, JoinedTables):
        columns, nulls, dtype = arguments
        choice = made.choice
        names = [each.name for each in choice.columns]
        same = names == ([columns] if isinstance(columns, str) else list(columns or names))
        same = same and choice.joined != isinstance(columns, str) and (dtype is None or np.dtype(dtype) == choice.dtype)
        same = same and (choice.nulls is None if isinstance(nulls, str) else choice.nulls == nulls)
        return made if same and kind != "hdf5" else None
    same = joined.shards.get("dataset") == arguments[0] and joined.shards.get("axis") == axis
    return made if same and kind == "hdf5" else None


def _formats_of(array: Any) -> list[str]:
    return [part.format for part in array._parts] if isinstance(array, JoinedArray) else []


def _check_cache(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> None:
    """A file that is no manifest is not written over."""
    name = os.fspath(path)
    begin = begin_of(name, storage_options)
    is_manifest = begin is not None and (_core.is_manifest(begin) or begin.startswith(REFERENCES))
    if os.path.isdir(name) or (begin and not is_manifest):
        raise InvalidArgumentError(f"manifest='{name}' is there and is none: it is not written over")


def _known_manifest(
    path: str | os.PathLike[str],
    found: Files,
    axis: int,
    raw: Mapping[str, Any] | None,
    context: Context,
    storage_options: Mapping[str, Any] | None,
) -> ShardedArray | JoinedArray | None:
    """The array of the manifest at `path`, if it is of these files as they are now, asked for in this way."""
    name = os.fspath(path)
    begin = begin_of(name, storage_options) or b""
    if begin.startswith(REFERENCES) and raw is None:
        return _known_arrays(name, found, axis, context)
    if not _core.is_manifest(begin):
        _check_cache(name, storage_options)
        return None
    saved = read_named(name, storage_options)
    try:
        made = _core.open_manifest(found.store, context, saved)
    except (CorruptDataError, UnsupportedError):  # written anew
        return None
    files = _core.shard_files(made)
    if [each[0] for each in files] != found.keys or (made.format == "raw") != (raw is not None):
        return None
    rank = len(made.shape)
    if not -rank <= axis < rank or _core.shard_axis(made) != axis % rank:
        return None
    if raw is not None and not _is_as_asked(made, files, axis % rank, raw):
        return None
    changed = _core.shards_changed(made) or changed_stamps(saved, made, None, storage_options, False)
    return None if changed else sharded(made, storage_options)


def _known_arrays(manifest: str, found: Files, axis: int, context: Context) -> JoinedArray | None:
    """The same of files in both item orders."""

    try:
        made = open_target(manifest, "", context, None)
    except (ConflictError, CorruptDataError, UnsupportedError):
        return None
    if not isinstance(made, JoinedArray):
        return None
    parts = _array_shards.saved_parts(made)
    if parts is None or {part.format for part in parts} != {"npy"}:
        return None
    paths = [os.path.abspath(path) for path in found.paths()]
    if [part.path for part in parts] != paths or axis not in (made._joined_along, made._joined_along - made.ndim):
        return None
    stamps = [None if stamp is None else list(stamp) for stamp in file_stamps(paths)]
    return made if stamps == [part.stamp for part in parts] else None


def _is_as_asked(made: _core.Array, files: list[Any], axis: int, raw: Mapping[str, Any]) -> bool:
    """Whether raw files were understood as `raw` says."""
    descr, fortran = _core.shard_items(made)
    if _items(descr) != _items(raw["dtype"]) or (fortran != raw["fortran_order"] and len(made.shape) > 1):
        return False
    row = [*made.shape[:axis], *made.shape[axis + 1 :]]
    wanted = raw["row_shape"] or []
    rows = raw["rows"] or [None] * len(files)
    if raw["shape"] is not None:
        if len(raw["shape"]) != len(made.shape):
            return False
        wanted = [*raw["shape"][:axis], *raw["shape"][axis + 1 :]]
        rows = [raw["shape"][axis]] * len(files)
    return row == wanted and all(
        offset == raw["offset"] and n in (None, length) for (_, length, offset, _), n in zip(files, rows, strict=True)
    )


def _items(descr: str) -> Any:
    return json.loads(descr) if descr.startswith("[") else descr


def map_shards(array: Any) -> list[npt.NDArray[Any]]:
    """Read-only NumPy views of the files of an array of `.npy` or raw files of this machine: nothing is copied."""
    if isinstance(array, JoinedArray) and (parts := _array_shards.saved_parts(array)) is not None:
        return [view for part in parts for view in map_shards(part.array())]
    files = _core.shard_files(array)
    if not files or not array.uri.startswith("file:"):
        raise UnsupportedError(f"'{array.uri}' is of no .npy or raw files of this machine: they cannot be mapped")
    # The items as they are stored: maps cannot be turned or swapped.
    codecs = {each["name"]: each.get("configuration", {}) for each in array.codecs}
    endian = codecs["bytes"].get("endian", "little")
    if not isinstance(endian, str):
        raise UnsupportedError(f"'{array.uri}' mixes byte orders within its items: it cannot be mapped")
    stored = array.dtype.newbyteorder("<" if endian == "little" else ">")
    layout: Literal["C", "F"] = "F" if "transpose" in codecs else "C"
    axis = _core.shard_axis(array)
    root = root_of(array)[len("file://") :]
    out: list[npt.NDArray[Any]] = []
    for key, length, offset, _ in files:
        shape = (*array.shape[:axis], length, *array.shape[axis + 1 :]) if array.shape else ()
        if 0 in shape:
            out.append(np.empty(shape, stored))
            continue
        mapped = np.memmap(os.path.join(root, os.fsdecode(key)), stored, "r", offset, shape, layout)
        out.append(mapped.view(np.ndarray))
    return out
