"""`open_shards`: many files as one array."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy.typing as npt

from penstock import _core
from penstock.api.known_shards import known_manifest, known_references
from penstock.api.map_shards import map_shards
from penstock.api.npy import open_npy, refuse_options
from penstock.api.open import open
from penstock.api.shard_request import RawItems, ShardRequest, TableOptions, refuse_given
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.data_types import torch_as_name
from penstock.core.errors import Error, InvalidArgumentError, UnsupportedError
from penstock.core.group import wrap
from penstock.hdf5.shards import open_datasets
from penstock.references.manifest import open_manifest_bytes
from penstock.references.manifest import save_manifest as save_references
from penstock.references.objects import ReferencedArray
from penstock.shards import arrays as _array_shards
from penstock.shards.files import describe_all, file_stamps
from penstock.shards.names import Files, is_zarr_folder, names_of, object_named
from penstock.shards.readers import JoinedArray, Metadata, Reader, join_arrays, join_parts, join_readers
from penstock.shards.sharded_array import ShardedArray, check_axis, open_saved, save_manifest, sharded
from penstock.tabular.shards import open_tables
from penstock.target.local import local_file
from penstock.target.sniff import is_manifest, known_format, known_suffix


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
    gaps: str = "error",
    missing: str = "error",
    allow_local: bool | None = None,
    manifest: str | os.PathLike[str] | None = None,
    metadata: Metadata | None = None,
    reader: Reader | None = None,
    mmap: bool = False,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
    holes: str | None = None,
    **options: Any,
) -> Any:
    """Open many files as one array, one after the other along `axis`.

    Parameters
    ----------
    files
        A pattern ("run/shard_*.npy", also a URI of any store), a folder, one file, a list of paths or of open arrays,
        or a manifest that `save_manifest` wrote. Names from a pattern or a folder are in the order of the numbers in
        them (`x_9` before `x_10`); a list keeps its order.
    axis
        The axis along which the files are joined; they may have different lengths along it, or be empty.
    format
        "npy", "raw", "hdf5", "parquet", "arrow", "zarr", "tiff", or None: the format of the first file. Other formats
        of `penstock.open` are joined too.
    dtype, shape, row_shape, offset, order
        For raw files: `shape` is that of every file; without it, `row_shape` is that of a file without `axis`, and the
        file's size determines its number of rows. `offset` is that of the first item in bytes (None: 0), `order` "C" or
        "F" (None: "C"). Without `dtype` a file `<name>.json` next to each, or one `_meta.json` in their folder, has
        these members; arguments take precedence. An empty file is an error unless its shape has no rows.
    gaps
        "error": missing numbers in a sequence of names are an error; "allow": they are not. A sequence has equal steps
        of any size. If it begins with 1, a missing 0 is not reported.
    missing
        For manifests and references: "error" or "fill", with which rows of absent files are the fill value.
    allow_local
        For manifests and references: whether they may name local files. None: only if they are local files themselves.
    manifest
        A file with the contents of the headers. It is used if it exists, is of the same files with the same arguments,
        and none of them changed since; otherwise it is written.
    metadata, reader
        For your own file formats: `metadata(path)` returns (rows, trailing shape, dtype), `reader(path, lo, hi)` an
        array of the rows [lo, hi). Both are called from several threads.
    mmap
        Return NumPy views of the mapped files instead of an `Array`: a list with one for each file. Nothing is copied.
    holes
        The former name of `gaps`, which warns.
    context
        Threads, caches and limits; None: the current one.
    storage_options
        For URIs, as for `penstock.open`.
    options
        For HDF5 files `dataset`: a name, or a pattern ("shard_*") that may match many in each file. For Parquet and
        Arrow files `columns` (or `column`), `nulls` and `dtype`. For all others, options of `penstock.open`: `path` for
        `.npz` files, Zarr groups and references, `page`, `level` and others for TIFFs.

    Returns
    -------
    Array
        Opening reads each header once, in parallel, and no data.

    Raises
    ------
    InvalidArgumentError
        Missing numbers, duplicates, scalars, files of another dtype or shape: the first five are named.
    CorruptDataError
        Headers that cannot be read, empty and truncated files: the first five are named.
    ConflictError
        Later, in a read: a file changed or was removed since it was opened.

    Examples
    --------
    >>> for day in range(3):
    ...     np.save(f"day_{day}.npy", np.full((24, 10), day))
    >>> days = ps.open_shards("day_*.npy")
    >>> days.shape
    (72, 10)
    >>> days[23:25, 0]
    array([0, 1])

    Raw files, whose type and shape the caller gives:

    >>> for part in range(2):
    ...     np.arange(6, dtype="<f4").tofile(f"part_{part}.raw")
    >>> ps.open_shards("part_*.raw", dtype="<f4", row_shape=(3,)).shape
    (4, 3)

    With a manifest, later opens read no headers:

    >>> ps.open_shards("day_*.npy", manifest="days.shards").nbytes == days.nbytes
    True
    >>> ps.open_shards("days.shards").shape
    (72, 10)
    """
    if holes is not None:
        warnings.warn("open_shards(holes=) is deprecated: it is named gaps=", DeprecationWarning, stacklevel=2)
        gaps = holes
    items = RawItems(torch_as_name(dtype), shape, row_shape, offset, order)
    request = ShardRequest.of(
        axis, context, format=format, items=items, gaps=gaps, missing=missing, allow_local=allow_local,
        manifest=manifest, metadata=metadata, reader=reader, mmap=mmap, storage_options=storage_options,
        options=options,
    )  # fmt: skip
    given = names_of(files)
    if isinstance(given, str):
        one = object_named(given, storage_options)
        if is_manifest(one):
            return _open_manifest(request, given, one)
        is_one = one is not None or is_zarr_folder(given)
        found = Files([given] if is_one else given, request.allow_gaps, storage_options, format)
    elif any(not isinstance(each, str) for each in given):
        return _join_open_arrays(request, given)
    else:
        found = Files(given, request.allow_gaps, storage_options, format)
    if reader is not None:
        return _open_with_reader(request, found)
    kind = _kind_of(request, found)
    if kind in ("npy", "raw"):
        return _open_items(request, found, kind)
    return _open_tables(request, found, kind) if kind in ("parquet", "arrow") else _open_files(request, found, kind)


def _open_manifest(request: ShardRequest, name: str, found: _core.Found) -> Any:
    refuse_given("a manifest", request.of_manifest())
    context, storage_options, missing = request.context, request.storage_options, request.missing
    saved, local = found.content(), request.allow_local
    opened: Array
    if found.driver == "manifest":
        opened = open_saved(saved, name, context, storage_options, missing, request.axis, local)
    else:
        made = open_manifest_bytes(saved, name, context, missing, storage_options, local)
        if not isinstance(made, Array):
            raise InvalidArgumentError(f"'{name}' is a manifest of a group: penstock.open opens it")
        opened = _with_axis(made, request.axis)
    return map_shards(opened) if request.mmap else opened


def _join_open_arrays(request: ShardRequest, arrays: Any) -> JoinedArray:
    what = "open arrays"
    refuse_given(what, {**request.of_manifest(), "storage_options": request.storage_options or None})
    request.refuse_other(what)
    return join_arrays(arrays, request.axis, request.context)


def _open_with_reader(request: ShardRequest, found: Files) -> JoinedArray:
    what = "files that a reader reads"
    refuse_given(what, {"format": request.format, **vars(request.items)})
    request.refuse_other(what, **request.options)
    assert request.metadata is not None
    assert request.reader is not None
    return join_readers(found.paths(), request.metadata, request.reader, request.axis, request.context)


def _kind_of(request: ShardRequest, found: Files) -> str:
    """The files' format: as given, or that of the first file; raw if a dtype is given."""
    if request.format is not None:
        return request.format
    kind = found.format()
    if request.items.dtype is None or kind in ("raw", "hdf5", "parquet", "arrow"):
        return kind
    first = found.paths()[0]
    local = local_file(first)
    what = known_format(local) if local is not None else known_suffix(first)
    if what is not None:  # its header would be read as values
        text = f"'{first}' is {what}, dtype= is for raw files: give format='raw', or open without it and read(dtype=)"
        raise InvalidArgumentError(text)
    return "raw"


def _open_items(request: ShardRequest, found: Files, kind: str) -> Any:
    """`.npy` and raw files."""
    if request.options:
        raise InvalidArgumentError(f"{kind} files take no option {next(iter(request.options))!r}")
    request.refuse_missing()
    if kind == "npy":
        refuse_given(".npy files", vars(request.items))
    raw = request.items.settings(found, request.axis) if kind == "raw" else None
    axis, context, storage_options = request.axis, request.context, request.storage_options
    opened: ShardedArray | JoinedArray | None = None
    if request.manifest is not None:
        opened = known_manifest(request.manifest, found, axis, raw, context, storage_options)
    if opened is None:
        try:
            opened = sharded(_core.open_shards(found.store, context, found.keys, axis, raw), storage_options)
        except UnsupportedError:
            opened = _join_npy(found, axis, context, storage_options) if kind == "npy" else None
            if opened is None:
                raise
        if request.manifest is not None:
            save_manifest(opened, request.manifest, storage_options=storage_options)
    return map_shards(opened) if request.mmap else opened


def _join_npy(
    found: Files, axis: int, context: Context, storage_options: Mapping[str, Any] | None
) -> JoinedArray | None:
    """Join `.npy` files of both item orders, which one layout cannot describe; None for other files."""
    paths = found.paths()
    local = "://" not in paths[0]
    paths = [os.path.abspath(path) for path in paths] if local else paths
    stamps = file_stamps(paths) if local else []
    looks = [partial(open_npy, found.store, key, context, storage_options, {}) for key in found.keys]
    try:
        opened = describe_all(paths, looks)
    except Error:
        return None
    if len({_core.shard_items(array)[1] for array in opened}) == 1:
        return None
    if not local:
        return join_arrays(opened, axis, context)
    parts = [
        _array_shards.part_of(array, path, list(stamp or (0, 0)))  # a file that no longer exists is a conflict later
        for array, path, stamp in zip(opened, paths, stamps, strict=True)
    ]
    return join_parts(parts, axis, context)


def _open_tables(request: ShardRequest, found: Files, kind: str) -> Array:
    """Parquet and Arrow files."""
    refuse_given(f"{kind} files", {**vars(request.items), "dtype": None})
    options = _options_of(request)
    tables = TableOptions.taken_from(options, request.items.dtype)
    refuse_options(options, request.mmap, None, f"{kind} files")
    paths, arguments = _paths_of(found), (tables.columns, tables.nulls, tables.dtype)
    if (known := _known(request, kind, paths, arguments)) is not None:
        return known
    if request.axis != 0:
        raise InvalidArgumentError(f"tables are joined along their rows: axis is 0, not {request.axis}")
    return _saved(request, open_tables(paths, *arguments, request.context, None, request.storage_options))


def _open_files(request: ShardRequest, found: Files, kind: str) -> Array:
    """HDF5 files, and files that `open` opens one by one."""
    refuse_given(f"{kind} files", vars(request.items))
    options = _options_of(request)
    context, storage_options = request.context, request.storage_options
    if kind == "hdf5":
        dataset = options.pop("dataset", None)
        refuse_options(options, request.mmap, None, "hdf5 files")
        paths = _paths_of(found)
        if (known := _known(request, kind, paths, (dataset,))) is not None:
            return known
        return _saved(
            request, open_datasets(paths, dataset, request.axis, request.allow_gaps, context, storage_options)
        )
    refuse_options({}, request.mmap, request.manifest, "files of this format")
    paths = found.paths()
    plain = kind in ("zarr", "other") and not options and not storage_options and os.path.isdir(paths[0])
    opened: Sequence[Any] | None = _zarr_arrays(paths, context) if plain else None
    if opened is None:  # also if one cannot be opened: all failures are named
        looks = [partial(open, path, context=context, storage_options=storage_options, **options) for path in paths]
        opened = describe_all(paths, looks)
    made = join_arrays(list(opened), request.axis, context)
    wrong = [part.format for part in made._parts if not part.format.startswith(request.format or "")]
    if request.format in ("zarr", "tiff") and wrong:
        raise InvalidArgumentError(f"the files are {wrong[0]}, not {request.format}")
    return made


def _zarr_arrays(paths: list[str], context: Context) -> list[Any] | None:
    """Open local Zarr arrays by the engine, which has threads for it; None if one of them is of another format."""
    if any("://" in path for path in paths):
        return None
    found = _core.open_zarr_arrays(context, [os.fsencode(path) for path in paths])
    return None if found is None else [wrap(each) for each in found]


def _options_of(request: ShardRequest) -> dict[str, Any]:
    """The options for `open`, with those of references that are not the defaults."""
    missing = {} if request.missing == "error" else {"missing": request.missing}
    local = {} if request.allow_local is None else {"allow_local": request.allow_local}
    return {**request.options, **missing, **local}


def _paths_of(found: Files) -> list[str]:
    return [path if "://" in path else os.path.abspath(path) for path in found.paths()]


def _known(request: ShardRequest, kind: str, paths: list[str], arguments: tuple[Any, ...]) -> Array | None:
    """The manifest's array, if the manifest was made from these files with these arguments; else None."""
    if request.manifest is None:
        return None
    return known_references(
        request.manifest, kind, paths, arguments, request.axis, request.context, request.storage_options
    )


def _saved(request: ShardRequest, made: Array) -> Array:
    """The array, after its manifest is written if one was requested."""
    if request.manifest is not None:
        save_references(made, request.manifest, storage_options=request.storage_options)
    return made


def _with_axis(made: Array, axis: int) -> Array:
    """The array of a manifest, if `axis` is that of its files (or 0, the default)."""
    joined = made._joined if isinstance(made, ReferencedArray) else None
    known = 0 if joined is None else joined.axis
    if isinstance(made, JoinedArray):
        known = made._joined_along
    check_axis(axis, known, len(made.shape), made.uri)
    return made
