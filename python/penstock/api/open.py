"""`open` and its relatives."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from penstock import _core
from penstock.api.drivers import open_by_name, open_found, open_references
from penstock.api.request import REFERENCES, Request
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.device import device_number, is_device
from penstock.core.errors import CorruptDataError, Error, InvalidArgumentError, NotFoundError, UnsupportedError
from penstock.core.group import Group
from penstock.core.levels import level_of
from penstock.geo.image_options import NO_OPTIONS, ImageOptions
from penstock.geo.tiff import TiffArray
from penstock.geo.unpacked import UnpackedArray
from penstock.hdf5.file import opened_here
from penstock.target.local import path_here
from penstock.target.place import check_path


@overload
def open(target: Any, path: str | None = ..., *, unpack: Literal[True], **options: Any) -> UnpackedArray: ...
@overload
def open(
    target: Any,
    path: str | None = "",
    *,
    mode: str | None = None,
    context: Context | None = None,
    cache_index: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    use_consolidated: bool | None = None,
    page: int | Sequence[int] = 0,
    level: int | None = None,
    layout: str | None = None,
    bands: Sequence[int] | None = None,
    mask: bool = False,
    ifd: int | None = None,
    unpack: bool = False,
    device: str | None = None,
    **format_options: Any,
) -> Array | Group: ...
def open(
    target: Any,
    path: str | None = "",
    *,
    mode: str | None = None,
    context: Context | None = None,
    cache_index: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    use_consolidated: bool | None = None,
    page: int | Sequence[int] = 0,
    level: int | None = None,
    layout: str | None = None,
    bands: Sequence[int] | None = None,
    mask: bool = False,
    ifd: int | None = None,
    unpack: bool = False,
    device: str | None = None,
    **format_options: Any,
) -> Any:
    """Open an array or a group. The format is read from the data, never guessed from the name alone.

    Parameters
    ----------
    target
        A path or `file:` URI; bytes or a file object of a format that is one file; a dict of keys and bytes; a
        zarr-python store, array or group; a `penstock.Store`, or any object with `get(key)`; an fsspec mapping; an
        obstore store.
    path
        The path within the target, '/'-separated; None: the target itself.
    mode
        None: the array or group must exist; it can be written to if its format and its store allow it. "r": every write
        is refused, through this object and through everything that is reached from it. "r+": it must be writable, or
        opening it is an error. "a": as "r+". `open` creates nothing: see `create_array` and `open_group`.
    context
        Threads, caches and limits; None: the current one.
    cache_index
        Keep shard indexes of a store whose objects have no versions (Python objects, remote stores) from one read to
        the next. Only for data that does not change; by default an index is used for one read only. Files and dicts
        have versions and do not need this option.
    storage_options
        For remote URIs: the options in `docs/guide/remote.md`, or those of fsspec or obstore if one of them opens the
        URI.
    use_consolidated
        For groups: see `open_group`.
    page, level
        For a TIFF: which of its images, and which overview of it (0: the image itself, 1: the largest overview).
        `page=(0, 1)`: the second of the first image's SubIFDs, `(0, 1, 2)` the third of that one's. `level` also opens
        an array of a Zarr group whose attributes name levels (OME-Zarr, GeoZarr); 0 is the finest.
    layout
        For a TIFF: "band" is (band, y, x), whatever the file's order is; "native" is its own order.
    bands
        For a TIFF: which bands, counted from 0, in this order; None: all.
    mask
        For a TIFF: open the image's mask instead of the image. Its values are 0 and 255. It has one band, or one for
        each band if bands have masks of their own.
    ifd
        For a TIFF: a directory by its number in the file, instead of page, level and mask.
    unpack
        For a TIFF: return an `UnpackedArray`, whose reads apply scale and offset and return NaN for missing pixels.
    device
        "cuda" (the current device at the time of the export) or "cuda:0": DLPack exports of the array are in that
        device's memory; it is read and decoded at the export. Opening needs no device memory.
    format_options
        For formats that are one file. HDF5 and NetCDF4: `dataset`. References (kerchunk's, Penstock's manifests):
        `missing="error"` or "fill", and `allow_local`: whether they may name local files (None: only if they are local
        files themselves). Parquet and Arrow: `columns`, `nulls`, `dtype`. Options that a format does not have are
        refused.

    Returns
    -------
    Array or Group
        What was found; a `TiffArray` for an image, an `UnpackedArray` with `unpack`. Array elements are not read.

    Raises
    ------
    NotFoundError
        No array or group of a known format exists there (also FileNotFoundError, KeyError).
    UnsupportedError, CorruptDataError
        The metadata need something that this release does not have, or contradict themselves; the message names the
        member.
    InvalidArgumentError
        An option that is not valid, or that the format does not have.
    ReadOnlyError, PermissionDeniedError
        `mode` is "r+" or "a", and the format or the store cannot be written to.
    StorageError
        The store failed.

    Examples
    --------
    >>> ps.save("run.zarr", temperature=np.full((4, 6), 280.0), pressure=np.ones(4))
    >>> run = ps.open("run.zarr")
    >>> list(run)
    ['pressure', 'temperature']
    >>> run["temperature"][1:3, 0]
    array([280., 280.])

    One array of the tree, which this program only reads:

    >>> t = ps.open("run.zarr", "temperature", mode="r")
    >>> t.shape, t.dtype, t.read_only
    ((4, 6), dtype('float64'), True)

    Second band of a GeoTIFF, from its first overview:

    >>> ps.save("scene.tif", np.zeros((3, 1024, 1024), "u2"), crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6))
    >>> green = ps.open("scene.tif", bands=[1], level=1)
    >>> green.shape, green.res
    ((1, 512, 512), (20.0, 20.0))
    """
    # Small files are opened by the thousand, so unused options must not cost a call here.
    if mode is not None:
        check_mode(mode)
    path = check_path(path)
    is_plain = page == 0 and not (level or mask or unpack) and layout is None and bands is None and ifd is None
    image = NO_OPTIONS if is_plain else ImageOptions(page, level or 0, layout, bands, mask, ifd, unpack)
    context = current_context() if context is None else context
    name = str(target) if type(target) is _PATH else target
    is_here = is_plain and type(name) is str and ":" not in name and not storage_options
    try:
        if is_here and not (cache_index or format_options) and use_consolidated is None:
            node = _open_here(name, path, context)
        else:
            node = _find(
                Request(target, path, context, storage_options, cache_index, use_consolidated, image, format_options)
            )
    except NotFoundError as error:
        if mode != "a":
            raise
        raise NotFoundError(error.message, *error.notes, f"mode='a': {_CREATORS}") from error
    if level is not None and isinstance(node, Group):
        ImageOptions(page, 0, layout, bands, mask, ifd, unpack).check_goes_with(node)
        node = level_of(node, level)
    else:
        image.check_goes_with(node)
    if mode is not None:
        apply_mode(node, "r+" if mode == "a" else mode)
    if unpack:
        if is_device(device):
            raise UnsupportedError("unpacked reads end in host memory: device must be None with unpack=True")
        return UnpackedArray(node)  # type: ignore[arg-type]
    if device is not None and is_device(device):
        _export_to(node, device)
    return node


_PATH = type(pathlib.Path())


def _open_here(target: str, path: str, context: Context) -> Array | Group:
    """Open the node at a local path, without options. TIFFs and HDF5 take one call of the engine."""
    try:
        found = _core.open_local(target, path, context)
    except NotFoundError:
        return _find(Request(target, path, context))  # its error names what is missing
    if isinstance(found, _core.Array):
        return TiffArray(found)
    if isinstance(found, tuple):
        return opened_here(*found, context)
    return open_found(Request(target, path, context), found)


def _find(request: Request) -> Array | Group:
    """Find the node and open it."""
    request = request.normalized()
    if isinstance(request.target, str) and request.target.startswith(REFERENCES):
        return open_references(request)
    try:
        found = request.find()
    except NotFoundError:
        if path_here(request.target) is not None:
            request.refuse_storage_options()
        _check_is_there(request.target)
        node = open_by_name(request)
        if node is None:
            raise
        return node
    return open_found(request, found)


def _export_to(node: Array | Group, device: str) -> None:
    """Make an array export itself by DLPack in a device's memory."""
    if not isinstance(node, Array):
        raise InvalidArgumentError(f"'{node.uri}' is a group: open one of its arrays for a device")
    device_number(device)  # raises if there is no driver or no such device
    node._export_device = device


_CREATORS = "open and open_array create nothing: call create_array, create_group or open_group"


def check_mode(mode: str | None) -> None:
    """Refuse modes that `open` and `open_array` do not accept."""
    if mode in ("w", "w-", "x"):
        instead = "create_array(..., overwrite=True)" if mode == "w" else "create_array(...)"
        message = f"mode={mode!r} makes a new array or group, which open does not: call {instead} or "
        raise InvalidArgumentError(f"{message}open_group(..., mode={mode!r})")
    if mode not in (None, "r", "r+", "a"):
        raise InvalidArgumentError(f"mode must be None, 'r', 'r+' or 'a', got {mode!r}")


def apply_mode(found: Array | Group, mode: str) -> None:
    """Make a node that was just opened read-only ("r"), or refuse one that cannot be written to ("r+", "a")."""
    if mode != "r" and isinstance(found, Group):
        found._check_format()
    _core.set_mode(found, mode)


def _check_is_there(target: Any) -> None:
    """Replace the error by "the path does not exist" if that is the whole reason."""
    path = path_here(target)
    if path is None:
        return
    if os.path.isfile(path) and os.path.getsize(path) == 0 and not path.endswith(".zip"):
        raise CorruptDataError(f"'{path}' has no bytes") from None
    if any(letter in path for letter in "*?[") and not os.path.exists(path):
        raise NotFoundError(f"there is no '{path}': open_shards opens many files as one array") from None
    if os.path.isdir(path) and (suffix := _shards_in(path)) is not None:
        text = f"'{path}' is a folder of {suffix} files, which open_shards('{os.path.join(path, '*' + suffix)}') opens"
        raise NotFoundError(text) from None
    if os.path.exists(path):
        return
    hint = _meant_by(path)
    if hint is not None or os.path.isdir(os.path.dirname(os.path.abspath(path))):
        notes = () if hint is None else (f"did you mean '{hint}'?",)
        raise NotFoundError(f"the file or folder '{path}' does not exist", *notes) from None


def _meant_by(path: str) -> str | None:
    """What a path that does not exist was probably meant to be: a URI, a path of the home folder, the nearest name."""
    if found := re.match(r"(https?|s3|gs):/(?!/)", path):
        return f"{found[1]}://{path[found.end() :]}"
    if path.startswith("~") and os.path.exists(home := os.path.expanduser(path)):
        return home
    folder, name = os.path.split(path.rstrip("/"))
    try:
        with os.scandir(folder or ".") as entries:
            names = [each.name for each in itertools.islice(entries, 10_000) if each.name != name]
    except OSError:
        return None
    nearest = _core.nearest_word(name, names)
    return os.path.join(folder, nearest) if nearest else None


def _shards_in(folder: str) -> str | None:
    """The suffix that files of the folder have in common, if `open_shards` opens such files."""
    with os.scandir(folder) as entries:
        suffixes = {os.path.splitext(each.name)[1].lower() for each in itertools.islice(entries, 1000)}
    formats = ("npy", "hdf5", "parquet", "arrow")
    known = [each for each in suffixes if _core.shard_format_by_name(os.fsencode(f"x{each}")) in formats]
    return known[0] if len(known) == 1 else None


def open_array(target: Any, path: str | None = "", **options: Any) -> Array:
    """Open an array: as `open`, with the same modes, but a group is refused.

    Parameters
    ----------
    target, path
        As for `open`.
    options
        The other parameters of `open`.

    Returns
    -------
    Array

    Raises
    ------
    InvalidArgumentError
        A group is found.
    Error
        As for `open`.

    Examples
    --------
    >>> ps.save("run.zarr", temperature=np.full((4, 6), 280.0))
    >>> ps.open_array("run.zarr", "temperature", mode="r").shape
    (4, 6)
    """
    node = open(target, path, **options)
    if not isinstance(node, Array):
        text = f"'{node.uri}' is a group, not an array"
        with contextlib.suppress(Error):  # stores that do not list
            if names := ", ".join(itertools.islice(node, 20)):
                text += f"; it holds {names}"
        raise InvalidArgumentError(text)
    return node


registry.register(open, open_array)
