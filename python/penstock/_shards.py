"""Many files as one array."""

from __future__ import annotations

import builtins
import glob
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock._array import Array
from penstock._context import Context, current_context
from penstock._errors import InvalidArgumentError, NotFoundError, UnsupportedError, _make
from penstock._place import place_of
from penstock._shard_files import describe_all
from penstock._shard_readers import JoinedArray, Metadata, Reader, join_arrays, join_readers

NPY_MAGIC = b"\x93NUMPY"
_WILD = "*?["
_CONTIGUOUS = {".npy": "npy", ".raw": "raw", ".bin": "raw", ".dat": "raw"}
# What `format=` may say: .npy and raw files are the engine's, the others have a way of their own.
_FORMATS = ("npy", "raw", "hdf5", "parquet", "arrow", "zarr", "tiff")
_KINDS = {"HDF5": "hdf5", "Parquet or Arrow": "parquet"}
_REMOTE_HDF5 = (".h5", ".hdf5", ".nc", ".nc4", ".he5")
_FOLDER_FORMATS = (".npy", ".zarr", ".h5", ".hdf5", ".nc", ".tif", ".tiff", ".parquet", ".arrow", ".raw", ".bin")


class ShardedArray(Array):
    """An array of `.npy` or raw files: pickled with all that is known of them, so that nobody reads a header again."""

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.uri.startswith("file:"):
            return super().__reduce__()
        return _unpickle, (_root_of(self), _core.save_manifest(self, b"", False, []))


def _root_of(array: _core.Array) -> str:
    """The folder that the keys of `array`'s files stand below."""
    first = os.fsdecode(_core.shard_files(array)[0][0])
    uri: str = array.uri.split(" ... ")[0]
    return uri[: -len(first)] if uri.endswith(first) else uri


def _unpickle(root: str, manifest: bytes) -> ShardedArray:
    return _from_manifest(root, manifest, current_context(), None)


def _from_manifest(
    root: str, manifest: bytes, context: Context, storage_options: Mapping[str, Any] | None
) -> ShardedArray:
    store, inner = place_of(root, "", storage_options)
    if inner:
        raise _make(InvalidArgumentError, f"the files of a manifest stand in a folder, not in {root!r}")
    return ShardedArray(_core.open_manifest(store, context, manifest))


def open_shards(
    files: str | os.PathLike[str] | Sequence[Any],
    *,
    axis: int = 0,
    format: str | None = None,
    dtype: npt.DTypeLike | None = None,
    shape: Sequence[int] | None = None,
    row_shape: Sequence[int] | None = None,
    offset: int = 0,
    order: str = "C",
    holes: str = "error",
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
        A pattern ("run/shard_*.npy", also a URI of any store), a folder, a list of paths or of open arrays, or a
        manifest that `save_manifest` wrote. Names that a pattern or a folder finds are in the order of the numbers in
        them (`x_9` before `x_10`); a list's order is kept.
    axis
        Along which the files are joined; they may be of different lengths along it, also empty.
    format
        "npy", "raw", "hdf5", "parquet", "arrow", "zarr", "tiff", or None: what the first file is found to be.
        Whatever else `penstock.open` opens is joined too.
    dtype, shape, row_shape, offset, order
        Of raw files: `shape` is that of every file; without it, `row_shape` is that of a file without `axis`, and its
        size says how many rows it has. `offset` is that of the first item in bytes, `order` "C" or "F". Without `dtype`
        a file `<name>.json` beside each file, or one `_meta.json` in their folder, has these members.
    holes
        "error": numbers that a sequence of names lacks are an error; "allow": they are not.
    manifest
        A file that keeps what the headers say: read where it is there (and the files are those of `files`), written
        where it is not. A file that changed since then is an error when it is read.
    metadata, reader
        For files of your own: `metadata(path)` gives (rows, trailing shape, dtype), `reader(path, lo, hi)` an array of
        the rows [lo, hi). Both are called from several threads.
    mmap
        Give NumPy views of the mapped files instead of an `Array`: a list with one for each file. Nothing is copied.
    options
        Of HDF5 files `dataset`: a name, or a pattern ("shard_*") of which one file, or each, may have many. Of Parquet
        and Arrow files `columns` (or `column`), `nulls` and `dtype`. Of all others, what `penstock.open` takes.

    Returns
    -------
    Array
        Opening reads each header once, in parallel, and no data.

    Raises
    ------
    InvalidArgumentError
        Holes, duplicates, scalars, files of another dtype, order or shape: the first five are named.
    CorruptDataError
        Headers that cannot be read, empty and truncated files: the first five are named.
    ConflictError
        Later, by a read: a file changed or vanished since it was opened.
    """
    if holes not in ("error", "allow"):
        raise _make(InvalidArgumentError, f"holes is 'error' or 'allow', not {holes!r}")
    if order not in ("C", "F"):
        raise _make(InvalidArgumentError, f"order is 'C' or 'F', not {order!r}")
    if (metadata is None) != (reader is None):
        raise _make(InvalidArgumentError, "metadata and reader go together")
    context = current_context() if context is None else context

    if isinstance(files, str | os.PathLike) and (saved := _saved_manifest(files)) is not None:
        opened = open_manifest(files, context=context, saved=saved, storage_options=storage_options)
        return map_shards(opened) if mmap else opened
    if isinstance(files, str | os.PathLike) and _is_manifest_of_references(os.fspath(files)):
        from penstock._manifest import open_target

        _refuse_options(options, mmap, None, "a manifest")
        return open_target(os.fspath(files), "", context, storage_options)
    if not isinstance(files, str | os.PathLike) and any(not isinstance(each, str | os.PathLike) for each in files):
        return join_arrays(list(files), axis, context)

    found = _Files(files, holes == "allow", storage_options)
    if reader is not None and metadata is not None:
        _refuse_options(options, mmap, manifest, "files that a reader reads")
        return join_readers(found.paths(), metadata, reader, axis, context)
    if format is not None and format not in _FORMATS:
        raise _make(UnsupportedError, f"format is one of {', '.join(map(repr, _FORMATS))} or None, not {format!r}")
    kind = found.format() if format is None else format
    if dtype is not None and format is None and kind not in ("hdf5", "parquet"):
        kind = "raw"
    if kind not in ("npy", "raw"):
        others = {"shape": shape, "row_shape": row_shape, "dtype": None if kind in ("parquet", "arrow") else dtype}
        named = [name for name, value in others.items() if value is not None]
        if named or offset:
            raise _make(InvalidArgumentError, f"{kind} files say themselves what they hold: no {[*named, 'offset'][0]}")
        if kind in ("parquet", "arrow"):
            options["dtype"] = dtype
        made = _open_others(kind, found, axis, holes == "allow", manifest, mmap, context, storage_options, options)
        if format in ("zarr", "tiff") and (bad := [part for part in _formats_of(made) if not part.startswith(format)]):
            raise _make(InvalidArgumentError, f"the files are {bad[0]}, not {format}")
        return made
    if options:
        raise _make(InvalidArgumentError, f"{kind} files take no option {next(iter(options))!r}")
    raw = None
    if kind == "raw":
        raw = raw_settings(found, dtype, shape, row_shape, offset, order)
    elif any(given is not None for given in (dtype, shape, row_shape)) or offset:
        raise _make(InvalidArgumentError, ".npy files say themselves what they hold: no dtype, shape or offset")
    if manifest is not None:
        known = _known_manifest(manifest, found)
        if known is not None:
            opened = ShardedArray(_core.open_manifest(found.store, context, known))
            return map_shards(opened) if mmap else opened
    opened = ShardedArray(_core.open_shards(found.store, context, found.keys, axis, raw))
    if manifest is not None:
        save_manifest(opened, manifest)
    return map_shards(opened) if mmap else opened


def _open_others(
    kind: str,
    found: _Files,
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
        _refuse_options({}, mmap, manifest, "files of this format")
        from penstock._open import open

        looks = [partial(open, path, context=context, storage_options=storage_options, **options) for path in paths]
        return join_arrays(describe_all(paths, looks), axis, context)
    wanted: dict[str, Any] = dict(options)
    if kind == "hdf5":
        arguments: tuple[Any, ...] = (wanted.pop("dataset", None),)
    else:
        if "column" in wanted and "columns" in wanted:
            raise _make(InvalidArgumentError, "column and columns are the same option")
        columns = wanted.pop("column", wanted.pop("columns", None))
        arguments = (columns, wanted.pop("nulls", "error"), wanted.pop("dtype", None))
    _refuse_options(wanted, mmap, None, f"{kind} files")
    paths = [path.removeprefix("file://") for path in paths]
    paths = [path if "://" in path else os.path.abspath(path) for path in paths]
    if (
        manifest is not None
        and (saved := _known_references(manifest, kind, paths, arguments, axis, context)) is not None
    ):
        return saved
    made: Array
    if kind == "hdf5":
        from penstock._hdf5_shards import open_datasets

        made = open_datasets(paths, arguments[0], axis, allow_holes, context, storage_options)
    else:
        from penstock._tabular_shards import open_tables

        if any("://" in path for path in paths):
            raise _make(UnsupportedError, "Parquet and Arrow files are read from this machine's files only")
        if axis != 0:
            raise _make(InvalidArgumentError, f"tables are joined along their rows: axis is 0, not {axis}")
        columns, nulls, wanted_dtype = arguments
        made = open_tables(paths, columns, nulls, wanted_dtype, context)
    if manifest is not None:
        from penstock._manifest import save_manifest as save

        save(made, manifest)
    return made


def _known_references(
    path: str | os.PathLike[str], kind: str, files: list[str], arguments: tuple[Any, ...], axis: int, context: Context
) -> Array | None:
    """The array of the manifest at `path`, if it is of these files."""
    from penstock._manifest import open_target
    from penstock._references import ReferencedArray
    from penstock._tabular_shards import JoinedTables

    if not _is_manifest_of_references(os.fspath(path)):
        return None
    made = open_target(os.fspath(path), "", context, None)
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


def _is_manifest_of_references(path: str) -> bool:
    if any(letter in path for letter in _WILD) or "://" in path or not os.path.isfile(path):
        return False
    with builtins.open(path, "rb") as file:
        return file.read(20).startswith(b'{"penstock_manifest"')


def _refuse_options(options: Mapping[str, Any], mmap: bool, manifest: Any, what: str) -> None:
    """Options that would do nothing."""
    if options:
        raise _make(InvalidArgumentError, f"{what} take no option {next(iter(options))!r}")
    if mmap:
        raise _make(UnsupportedError, f"{what} cannot be mapped: mmap=True is for .npy and raw files")
    if manifest is not None:
        raise _make(
            UnsupportedError, f"{what} have no manifest of their own: they are .npy, raw, HDF5, Parquet or Arrow"
        )


def _formats_of(array: Any) -> list[str]:
    return [part.format for part in array._parts[1][0]] if isinstance(array, JoinedArray) else []


def _saved_manifest(path: str | os.PathLike[str]) -> bytes | None:
    """The bytes of a file of this machine that is a manifest."""
    name = os.fspath(path)
    if any(letter in name for letter in _WILD) or "://" in name or not os.path.isfile(name):
        return None
    with builtins.open(name, "rb") as file:
        begin = file.read(64)
        return begin + file.read() if _core.is_manifest(begin) else None


def _known_manifest(path: str | os.PathLike[str], found: _Files) -> bytes | None:
    """The manifest at `path`, if it is of these files."""
    try:
        saved = _saved_manifest(path)
    except OSError:
        return None
    if saved is None:
        return None
    opened = _core.open_manifest(found.store, current_context(), saved)
    return saved if [each[0] for each in _core.shard_files(opened)] == found.keys else None


class _Files:
    """The files that somebody named: a store and keys within it."""

    def __init__(self, files: Any, allow_holes: bool, storage_options: Mapping[str, Any] | None) -> None:
        if isinstance(files, str | os.PathLike) and not os.path.isfile(os.fspath(files).removeprefix("file://")):
            self._find(os.fspath(files), allow_holes, storage_options)
        else:
            one = isinstance(files, str | os.PathLike)
            self._take([os.fspath(each) for each in ([files] if one else files)], storage_options)

    def _find(self, pattern: str, allow_holes: bool, storage_options: Mapping[str, Any] | None) -> None:
        wild = min((at for letter in _WILD if (at := pattern.find(letter)) >= 0), default=-1)
        if wild < 0:
            self._open(pattern, storage_options)
            pattern = self._folder_pattern(pattern)
        else:
            base, slash, pattern = pattern[:wild].rpartition("/")[0], "/" in pattern[:wild], pattern
            pattern = pattern[len(base) + 1 :] if slash else pattern
            self._open(base or ("/" if slash else "."), storage_options)
        prefix = f"{os.fsdecode(self.inner)}/" if self.inner else ""
        # What stands before the pattern is a name as it is.
        self.keys = _core.find_shards(self.store, os.fsencode(glob.escape(prefix) + pattern), allow_holes)

    def _open(self, base: str, storage_options: Mapping[str, Any] | None) -> None:
        self.base = base
        self.store, self.inner = place_of(base, "", storage_options)

    def _folder_pattern(self, folder: str) -> str:
        prefix = f"{os.fsdecode(self.inner)}/" if self.inner else ""
        names = [name.rstrip("/") for name in self.store.list(prefix, True)]
        for suffix in _FOLDER_FORMATS:
            if any(name.endswith(suffix) for name in names):
                return f"*{suffix}"
        raise _make(NotFoundError, f"no files of a known kind ({', '.join(_FOLDER_FORMATS)}) in '{folder}'")

    def _take(self, paths: list[str], storage_options: Mapping[str, Any] | None) -> None:
        if not paths:
            raise _make(InvalidArgumentError, "there are no files to open")
        if all("://" not in path for path in paths):
            paths = [os.path.abspath(path) for path in paths]
            base = os.path.commonpath([os.path.dirname(path) for path in paths])
        else:
            base = os.path.commonpath([path.rpartition("/")[0] for path in paths]).replace(":/", "://", 1)
        self._open(base, storage_options)
        prefix = self.inner + b"/" if self.inner else b""
        start = len(base.rstrip("/")) + 1
        self.keys = [prefix + os.fsencode(path[start:]) for path in paths]

    def paths(self) -> list[str]:
        """As `open` takes them."""
        skip = len(self.inner) + 1 if self.inner else 0
        base = self.base.rstrip("/") if self.base != "." else ""
        names = [os.fsdecode(key[skip:]) for key in self.keys]
        return [f"{base}/{name}" if base or self.base == "/" else name for name in names]

    def format(self) -> str:
        """What the first file is: its bytes decide, and its name where they cannot."""
        suffixes = {os.path.splitext(os.fsdecode(key))[1].lower() for key in self.keys}
        first = self.paths()[0]
        suffix = os.path.splitext(first)[1].lower()
        known = _CONTIGUOUS.get(suffix)
        if known is not None:
            return known
        if "://" in first and not first.startswith("file:"):
            return "hdf5" if suffixes <= set(_REMOTE_HDF5) else "other"
        if len(suffixes) > 1:
            return "other"
        from penstock._single_file import kind_of, local_file

        local = local_file(first)
        kind = None if local is None else kind_of(local)
        if kind is None and suffix in (*_REMOTE_HDF5, ".parquet"):
            return "parquet" if suffix == ".parquet" else "hdf5"  # its error is the better one
        return _KINDS.get(kind or "", "other")


def raw_settings(found: _Files, dtype: Any, shape: Any, row_shape: Any, offset: int, order: str) -> dict[str, Any]:
    """What the engine has to know of raw files: as given, or as a JSON file beside them says."""
    if dtype is None:
        beside = _sidecar(found)
        if beside is None:
            first = os.fsdecode(found.keys[0])
            raise _make(
                InvalidArgumentError,
                f"'{first}' is raw bytes: give dtype=, or write them into '{first}.json' or '_meta.json' beside it",
            )
        dtype = beside.get("dtype")
        shape = beside.get("shape", shape)
        row_shape = beside.get("row_shape", beside.get("trailing_shape", row_shape))
        offset = beside.get("offset", offset)
        order = beside.get("order", order)
        if not isinstance(dtype, str | list) or order not in ("C", "F") or not isinstance(offset, int) or offset < 0:
            raise _make(InvalidArgumentError, f"the sidecar of raw files has no dtype, order and offset: {beside}")
    return {
        "dtype": descr_text(dtype),
        "shape": None if shape is None else _lengths("shape", shape),
        "row_shape": None if row_shape is None else _lengths("row_shape", row_shape),
        "offset": offset,
        "fortran_order": order == "F",
    }


def _lengths(name: str, value: Any) -> list[int]:
    lengths = [value] if isinstance(value, int) else list(value)
    if not all(isinstance(each, int) and each >= 0 for each in lengths):
        raise _make(InvalidArgumentError, f"{name} is {value!r}, not lengths")
    return lengths


def _sidecar(found: _Files) -> dict[str, Any] | None:
    first = os.fsdecode(found.keys[0])
    folder = first.rpartition("/")[0]
    for key in (
        f"{first}.json",
        f"{os.path.splitext(first)[0]}.json",
        f"{folder}/_meta.json" if folder else "_meta.json",
    ):
        text = found.store.get(key)
        if text is not None:
            try:
                members = json.loads(text)
            except ValueError as failure:
                raise _make(InvalidArgumentError, f"'{key}' is no JSON: {failure}") from None
            if isinstance(members, dict):
                return members
    return None


def descr_text(dtype: Any) -> str:
    """NumPy's type string, or JSON of its list of fields."""
    if isinstance(dtype, list) and all(isinstance(each, list) for each in dtype):
        return json.dumps(dtype)
    made = np.dtype(dtype)
    if made.names is not None:
        return json.dumps(made.descr)
    return str(made.name if made.kind == "V" and made.type is not np.void else made.str)


def save_manifest(array: Any, path: str | os.PathLike[str], *, checksums: Sequence[int] = ()) -> None:
    """Write what is known of an array's files, for later opens and other processes: `open_shards(path)`.

    A name that ends with ".json" gets JSON, every other one a shorter binary form. The file is replaced at once.
    Times and sizes stand for the files' contents: `open_shards` trusts them, and a read of a file that has others
    fails. Where the manifest stands in the files' folder, or above, both can be moved together.
    """
    root = _root_of(array) if _core.shard_files(array) else array.uri
    name = os.path.abspath(os.fspath(path))
    kept = root
    if root.startswith("file://"):
        folder = os.path.abspath(root[len("file://") :])
        below = os.path.relpath(folder, os.path.dirname(name))
        kept = below if not below.startswith("..") else folder
    text = _core.save_manifest(array, os.fsencode(kept), name.endswith(".json"), list(checksums))
    write_atomically(name, [text])


def open_manifest(
    path: str | os.PathLike[str],
    *,
    context: Context | None = None,
    saved: bytes | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> ShardedArray:
    """Open the files of a manifest; no header is read."""
    if saved is None:
        saved = Path(path).read_bytes()
    root = os.fsdecode(_core.manifest_root(saved))
    if "://" not in root:
        root = os.path.join(os.path.dirname(os.path.abspath(os.fspath(path))), root)
    return _from_manifest(root, saved, current_context() if context is None else context, storage_options)


def write_atomically(path: str, parts: Iterable[Any]) -> None:
    """Replace a file by `parts`, at once."""
    draft = f"{path}.{os.getpid()}.tmp"
    try:
        with builtins.open(draft, "wb") as file:
            for part in parts:
                file.write(part)
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def map_shards(array: Any) -> list[npt.NDArray[Any]]:
    """Read-only NumPy views of the files of an array of `.npy` or raw files of this machine: nothing is copied."""
    files = _core.shard_files(array)
    if not files or not array.uri.startswith("file:"):
        raise _make(
            UnsupportedError, f"'{array.uri}' is of no .npy or raw files of this machine: they cannot be mapped"
        )
    # The items as they are stored: maps cannot be turned or swapped.
    codecs = {each["name"]: each.get("configuration", {}) for each in array.codecs}
    endian = codecs["bytes"].get("endian", "little")
    if not isinstance(endian, str):
        raise _make(UnsupportedError, f"'{array.uri}' mixes byte orders within its items: it cannot be mapped")
    stored = array.dtype.newbyteorder("<" if endian == "little" else ">")
    layout: Literal["C", "F"] = "F" if "transpose" in codecs else "C"
    axis = _core.shard_axis(array)
    root = _root_of(array)[len("file://") :]
    out: list[npt.NDArray[Any]] = []
    for key, length, offset, _ in files:
        shape = (*array.shape[:axis], length, *array.shape[axis + 1 :]) if array.shape else ()
        if 0 in shape:
            out.append(np.empty(shape, stored))
            continue
        mapped = np.memmap(os.path.join(root, os.fsdecode(key)), stored, "r", offset, shape, layout)
        out.append(mapped.view(np.ndarray))
    return out


def open_single(
    target: Any, path: str, context: Context, storage_options: Mapping[str, Any] | None
) -> ShardedArray | None:
    """A `.npy` file, a member of an `.npz` file, or a manifest; None where `target` is something else."""
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    name = path or target
    if not isinstance(name, str) or (not isinstance(target, str) and not path.endswith(".npy")):
        return None
    if not isinstance(target, str):
        store, inner = place_of(target, path, storage_options)
        return ShardedArray(_core.open_contiguous(store, context, inner, None))
    if target.endswith(".npz") and "://" not in target:
        return _open_member(target, path, context)
    if path:
        if not path.endswith(".npy"):
            return None
        store, inner = place_of(target, path, storage_options)
        return ShardedArray(_core.open_contiguous(store, context, inner, None))
    if "://" in target and not target.startswith("file://"):
        if not target.endswith(".npy"):
            return None
    else:
        if not os.path.isfile(local := target.removeprefix("file://")):
            return None
        with builtins.open(local, "rb") as file:
            begin = file.read(64)
        if _core.is_manifest(begin):
            return open_manifest(local, context=context)
        if not begin.startswith(NPY_MAGIC) and not local.endswith(".npy"):
            return None
    folder, slash, key = target.rpartition("/")
    store, inner = place_of(folder or ("/" if slash else "."), "", storage_options)
    return ShardedArray(
        _core.open_contiguous(store, context, b"/".join(each for each in (inner, os.fsencode(key)) if each), None)
    )


def _open_member(archive: str, name: str, context: Context) -> ShardedArray:
    store = _core.zip_store(os.fsencode(os.path.abspath(archive)))
    members = [key for key in store.list("", False) if key.endswith(".npy")]
    if not name:
        if len(members) != 1:
            names = ", ".join(repr(each.removesuffix(".npy")) for each in members[:20])
            raise _make(InvalidArgumentError, f"'{archive}' holds {len(members)} arrays: give path= one of {names}")
        name = members[0]
    key = name if name in members else f"{name}.npy"
    return ShardedArray(_core.open_contiguous(store, context, os.fsencode(key), None))
