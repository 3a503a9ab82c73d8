"""Manifests: an array's metadata and the location of its chunks, saved so that later opens need no search."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.errors import ConflictError, CorruptDataError, InvalidArgumentError, UnsupportedError
from penstock.core.group import Group
from penstock.netcdf.file import NetcdfArray
from penstock.references.objects import Described, Joined, Object, ReferencedArray
from penstock.shards import arrays as _array_shards
from penstock.shards.files import side_by_side
from penstock.shards.names import read_named, write_named
from penstock.shards.readers import JoinedArray
from penstock.shards.saved import VERSION, JoinedReferences, known_files, save_references
from penstock.shards.sharded_array import ShardedArray
from penstock.shards.sharded_array import save_manifest as save_files
from penstock.tabular.shards import JoinedTables
from penstock.tabular.shards import open_saved as open_tables
from penstock.target.local import local_path
from penstock.target.locations import Document
from penstock.target.place import place_of, place_of_folder
from penstock.target.remote import serves, to_reopen
from penstock.target.stores import pinned_store, remote_stamp

_GROUP = "group"
_NONE = np.zeros(0, np.uint64)  # the engine has the edges


def _document(saved: bytes, path: str) -> dict[str, Any]:
    """The document of a manifest, which is its first line."""
    line = saved.partition(b"\n")[0]
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"the manifest '{path}' is damaged: {error}") from error
    if not isinstance(document, dict):
        raise CorruptDataError(f"the manifest '{path}' is not JSON object")
    if document.get("penstock_manifest") != VERSION:
        version = document.get("penstock_manifest")
        raise UnsupportedError(f"a manifest of version {version!r} is not readable: '{path}'")
    return document


def open_target(
    path: str,
    inner: str,
    context: Context,
    storage_options: Any,
    missing: str = "error",
    allow_local: bool | None = None,
    expected: Collection[str] = (),
) -> Array | Group:
    """The node of a manifest of references, or its member `inner`.

    `expected`: local files that it may name, at any location.
    """
    if not isinstance(path, str):
        raise UnsupportedError("a manifest is not opened from bytes: open it by its path")
    saved = read_named(path, storage_options)
    found = open_manifest_bytes(saved, path, context, missing, storage_options, allow_local, expected)
    if not inner:
        return found
    if isinstance(found, Array):
        raise InvalidArgumentError(f"the manifest is one array, it has no path '{inner}'", f"opening '{path}'")
    return found[inner]


def open_manifest_bytes(
    saved: bytes,
    path: str,
    context: Context,
    missing: str,
    storage_options: Mapping[str, Any] | None = None,
    allow_local: bool | None = None,
    expected: Collection[str] = (),
) -> Array | Group:
    """The array or group of a manifest that was read from `path`; empty: no path, all names are absolute."""
    document = _document(saved, path)
    trusted = Document.of(path, allow_local, expected)
    if missing not in ("error", "fill"):
        raise InvalidArgumentError(f"missing must be 'error' or 'fill', got {missing!r}")
    if document.get("kind") == "tables":
        return open_tables(document, path, context, missing, storage_options, trusted)
    folder = _folder_of(path)
    place: dict[str, Any] = {
        "folder": os.fsencode(folder),
        "document": os.fsencode(path),
        "allow_local": allow_local,
        "expected": [os.fsencode(each) for each in expected],
        "missing_is_fill": missing == "fill",
    }
    if document.get("kind") == _array_shards.KIND:
        return _array_shards.open_saved(context, saved, document.get("axis", 0), **place)
    if document.get("kind") not in ("references", _GROUP):
        raise UnsupportedError(f"a manifest of {document.get('kind')!r} is not opened by its path alone")
    remote = _RemoteObjects(missing, storage_options, context)
    made = _core.open_saved_references(context, saved, **place, find_objects=remote.find)
    options = dict(storage_options) if storage_options else None
    name = path if "://" in path else os.path.abspath(path)
    if isinstance(made, _core.Group):
        return ManifestGroup(made, (name, missing, options, allow_local))
    if "joined" in document and "shards" in document:
        try:
            joined = Joined(int(document["joined"]["axis"]), _NONE, _NONE, known_files(document["shards"], folder))
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptDataError(f"the manifest '{path}' is damaged: {error!r}") from error
        described = Described({}, b"", remote.objects(), made.format, made.uri, missing=missing, joined=joined)
        return JoinedReferences.of(made, described)
    return ReferencedArray(made, None, (_reopen, (name, missing, options, allow_local)))


def _folder_of(path: str) -> str:
    """The folder or URL that names in the manifest at `path` are relative to; "": names are absolute."""
    if "://" not in path:
        return os.path.dirname(os.path.abspath(path)) if path else ""
    return "" if "::" in path else path.partition("?")[0].rpartition("/")[0]


class _RemoteObjects:
    """Finds the remote objects of a manifest, pinned to its versions of them.

    The engine pins objects that its own stores serve, without a request. Those of other libraries are compared with
    their stamps now, and at each read.
    """

    def __init__(self, missing: str, storage_options: Mapping[str, Any] | None, context: Context) -> None:
        self.missing, self.storage_options, self._context = missing, storage_options, context
        self._folders: dict[str, tuple[_core.Store, bytes] | None] = {}
        self._found: dict[tuple[str, str], tuple[_core.Store, bytes]] = {}  # stores that read only that version
        self._urls: list[str] = []

    def objects(self) -> list[Object]:
        """The data that another process needs to find them."""
        return [Object(url, storage_options=to_reopen(url, self.storage_options)) for url in self._urls]

    def find(self, wanted: list[tuple[str, str, bool]]) -> list[tuple[_core.Store, bytes] | None]:
        """The store and key of each URL, in parallel; None: the engine's own.

        `wanted`: for each object its URL, its stamp ("": any version), and whether its HTTP version is known.
        """
        self._urls = [url for url, _, _ in wanted]
        pins = [
            "" if is_versioned and serves(url, self.storage_options) else stamp for url, stamp, is_versioned in wanted
        ]
        places = list(zip(self._urls, pins, strict=True))
        if sum(bool(stamp) and (url, stamp) not in self._found for url, stamp in places) > 1:
            return side_by_side(self._one, places)
        return [self._one(each) for each in places]

    def _one(self, wanted: tuple[str, str]) -> tuple[_core.Store, bytes] | None:
        url, stamp = wanted
        pinned = self._found.get(wanted) or (self._pinned(url, stamp) if stamp else None)
        if pinned is not None:
            self._found[wanted] = pinned
            return pinned
        if "?" in url:
            return place_of(url, "", self.storage_options, self._context)
        folder, _, name = url.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = place_of_folder(folder, self.storage_options, self._context)
        found = self._folders[folder]
        if found is None:
            return None
        store, prefix = found
        return store, b"/".join(part for part in (prefix, os.fsencode(name)) if part)

    def _pinned(self, url: str, stamp: str) -> tuple[_core.Store, bytes] | None:
        """The location of the object if it has the stamp; None if its version is not known or it may be missing."""
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            return None
        filesystem, path = url_to_fs(url, **dict(self.storage_options or {}))
        now = remote_stamp(filesystem, path)
        if now == stamp:
            return pinned_store(filesystem, path, now), os.fsencode(path.rpartition("/")[2])
        if now is not None and not (now == "gone" and self.missing == "fill"):
            raise ConflictError(f"'{url}' changed since the manifest was saved: save it again")
        return None


class ManifestGroup(Group):
    """A group of a manifest. Read-only; its arrays are opened when they are used."""

    def __init__(self, made: _core.Group, arguments: tuple[Any, ...], inner: str = "") -> None:
        super().__init__(made)
        self._arguments, self._inner = arguments, inner

    def _wrap(self, path: str, made: _core.Array | _core.Group) -> Array | Group:
        inner = f"{self._inner}/{path}".strip("/")
        if isinstance(made, _core.Group):
            return ManifestGroup(made, self._arguments, inner)
        return ReferencedArray(made, None, (_reopen_member, (self._arguments, inner)))

    def __getitem__(self, path: str) -> Array | Group:
        if not isinstance(path, str):
            raise TypeError(f"a group's children have names, not {type(path).__name__}")
        return self._wrap(path, self._open(os.fsencode(path)))

    def _children(self) -> Iterator[tuple[str, Array | Group]]:
        return ((name, self._wrap(name, made)) for name, made in self._members())

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen_member, (self._arguments, self._inner)


def _reopen_member(arguments: tuple[Any, ...], inner: str) -> Any:
    made: Any = _reopen(*arguments)
    return made[inner] if inner else made


def _reopen(
    path: str,
    missing: str,
    storage_options: dict[str, Any] | None = None,
    allow_local: bool | None = None,
) -> Array | Group:
    return open_target(path, "", current_context(), storage_options, missing, allow_local)


def save_manifest(
    array: Array | Group, path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Save the metadata of `array` and the locations of its chunks. `penstock.open(path)` reads it.

    For a group (from `open_virtual`, from an HDF5 file, of references): those of all arrays in it and in groups below.
    Datasets of HDF5 that are not readable are omitted; a warning names them.

    Accepts arrays of HDF5 and NetCDF files, of references, and of many files (Zarr arrays and TIFFs only if they are
    local). `penstock.open_shards(path)` reads their manifests too. The manifest of `.npy` and raw files is JSON
    if the name ends with ".json". Opening the manifest fails if a file has changed (for `.npy`, raw, Parquet and Arrow
    files: reading them fails); so does a later read of a file that changes afterwards.

    Parameters
    ----------
    array
        An open array or group of files that are read in place.
    path
        A path, or a URI of a store that can be written to. Manifests of Parquet, Arrow and mixed-order `.npy` files,
        and of many Zarr arrays or TIFFs, can only be saved to a local path.
    storage_options
        For a URI, as for `penstock.open`.

    Raises
    ------
    InvalidArgumentError
        The array's chunks are not in files that a manifest can name: it is Zarr, or in memory.
    UnsupportedError
        Such a manifest cannot be saved to that place.
    ConflictError
        A file changed since it was opened.

    Examples
    --------
    >>> for day in range(3):
    ...     np.save(f"day_{day}.npy", np.full((24, 10), day))
    >>> ps.save_manifest(ps.open_shards("day_*.npy"), "days.json")
    >>> ps.open("days.json").shape             # no file of a day is opened
    (72, 10)
    """
    if isinstance(array, Group):
        name = local_path(os.fspath(path))
        folder = "" if "://" in name else os.path.dirname(os.path.abspath(name))
        stamps = getattr(array, "_stamps", lambda: None)()  # of groups that are opened from files
        saved, left_out = _core.save_group_references(array, os.fsencode(folder), stamps)
        if left_out:
            named = "; ".join(f"'{path}' ({why})" for path, why in left_out)
            warnings.warn(f"not in the manifest of '{array.uri}': {named}", stacklevel=2)
        return write_named(name, [saved], storage_options)
    if isinstance(array, JoinedTables):
        if "://" in local_path(os.fspath(path)):
            raise UnsupportedError(f"manifests of tables are files of this machine, not '{os.fspath(path)}'")
        return array.save(path)
    if isinstance(array, ShardedArray | JoinedArray):
        return save_files(array, path, storage_options=storage_options)
    if isinstance(array, NetcdfArray):
        name = local_path(os.fspath(path))
        folder = "" if "://" in name else os.path.dirname(os.path.abspath(name))
        return write_named(name, [_core.save_references(array, os.fsencode(folder), "", None)], storage_options)
    if not isinstance(array, ReferencedArray):
        raise InvalidArgumentError(f"'{array.uri}' is {array.format}: a manifest is one of references")
    save_references(array, path, storage_options)


registry.register(open_manifest_bytes)
