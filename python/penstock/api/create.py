"""Creates arrays and groups, and changes whole nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.api.create_options import (
    AUTO,
    check_name,
    format_below,
    format_for_new,
)
from penstock.api.new_array import NewArray
from penstock.api.written_values import for_tiff
from penstock.core import device as _device
from penstock.core import registry
from penstock.core.array import Array, Progress
from penstock.core.context import Context, current_context
from penstock.core.data_types import torch_as_name
from penstock.core.errors import InvalidArgumentError
from penstock.core.group import Group, wrap
from penstock.core.progress import Shares, callback_of
from penstock.core.sizes import suggestion
from penstock.geo.tiff_options import TiffOptions
from penstock.geo.writing import create_tiff
from penstock.target.place import check_path, place_of
from penstock.target.reopening import remember


def create_array(
    target: Any,
    path: str | None = "",
    *,
    shape: int | Sequence[int] | None = None,
    dtype: Any = None,
    chunks: Any = AUTO,
    shards: Any = None,
    codecs: Any = AUTO,
    fill_value: Any = None,
    zarr_format: int = 3,
    attributes: Mapping[str, Any] | None = None,
    dimension_names: Iterable[str | None] | None = None,
    overwrite: bool = False,
    durable: bool = False,
    data: npt.ArrayLike | None = None,
    progress: Progress | bool | None = None,
    name: str | None = None,
    filters: Any = AUTO,
    serializer: Any = AUTO,
    compressors: Any = AUTO,
    order: str = "C",
    chunk_key_encoding: Any = None,
    dimension_separator: str | None = None,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **tiff: Any,
) -> Any:
    """Create an array and open it. Missing parent groups are created. Nothing is written until all arguments were
    checked.

    A name with the ending of a TIFF (`scene.tif`) creates a Cloud Optimized GeoTIFF of shape (band, y, x) or (y, x).
    Then a `TiffWriter` is returned, to be written and closed or, with `data`, the written array.

    Parameters
    ----------
    target
        As for `penstock.open`: a path or URI, a dict, a store. The array is at `path` (or `name`) within it.
    path, name
        The path of the array within the target. Both have the same meaning; only one may be given.
    shape, dtype
        As in NumPy; by default those of `data`. In addition to NumPy's types: `str` and `bytes` (of variable length),
        names such as "bfloat16" and "int4", dtypes of PyTorch, JAX and ml_dtypes, Zarr v3 JSON.
    chunks
        Lengths, one for all dimensions or one for each, -1 for a whole dimension; "auto": about 1 MiB. A mapping from
        dimension names or numbers to lengths; dimensions that are not named have one chunk. Text such as "8MiB": the
        largest dimensions are halved until a chunk has at most that size. A list of lengths for a dimension makes a
        rectilinear grid.
    shards
        As `chunks`, with lengths that are multiples of the chunks'; "auto": about 256 MiB; None: each chunk is an
        object. With given chunks, whole dimensions are extended to multiples, and text such as "256MiB" is the most
        bytes of a shard in memory. A list of lengths for a dimension makes a rectilinear grid of shards.
    codecs
        "auto" (zstd; for floats, complex numbers and times Blosc with zstd and a shuffle), or a list of names ("zstd",
        or "zstd:5" with its level), JSON objects or codec objects of zarr or numcodecs; for sharded arrays, those of
        the inner chunks. If no codec turns arrays into bytes, one is added.
    fill_value
        None: zeros, the empty string, NaT.
    zarr_format
        2 or 3.
    attributes
        A mapping that JSON can hold.
    dimension_names
        A name or None for each dimension. In version 2 all or none; they are stored as xarray's attribute.
    overwrite
        Erase an existing array or group, and all below it. A folder without one is never erased.
    durable
        Return when the metadata, the folders above it and `data` are on the storage device; for TIFFs, the file.
    data
        Values to write to the new array; may be in a device's memory.
    progress
        For `data`. True: a line on stderr, or a bar in a notebook. A function, as for `Array.write`: with an open array
        as `data`, reading it and writing are a half each.
    filters, serializer, compressors
        The codecs in parts, as in zarr-python, instead of `codecs`.
    order
        The order of the elements within a chunk. Version 3 has a transpose for "F".
    chunk_key_encoding
        {"name": "default" or "v2", "separator": "/" or "."}, or zarr-python's object for it. {"name": "suffix",
        "configuration": {"suffix": ".tiff", "base_encoding": ...}} ends each key with a suffix.
    dimension_separator
        "/" or "." between the numbers of a chunk's key, as in zarr-python.
    context
        Threads, caches and limits; None: the current one.
    storage_options
        For a remote URI, as for `open`.
    **tiff
        For TIFFs: `tiles`, `bits`, `mask`, `compress`, `level`, `predictor`, `interleave`, `overviews`, `resampling`,
        `nodata`, `crs`, `transform`, `area_or_point`, `bigtiff`, `photometric`, `alpha`, `colormap`, `descriptions`,
        `units`, `scales`, `offsets`: see docs/formats/tiff.md. Of the parameters above TIFFs have `shape`, `dtype`,
        `data`, `attributes` (GDAL's metadata), `overwrite`, `context` and `storage_options`.

    Returns
    -------
    Array or TiffWriter
        The open array; for a TIFF without `data` the writer.

    Raises
    ------
    InvalidArgumentError
        An argument that is not valid, by name; or the node exists. Also a ValueError.
    ReadOnlyError, PermissionDeniedError
        The store cannot be written to.
    UnsupportedError
        The data type, a codec or the store.

    Examples
    --------
    A year of daily maps, filled month by month:

    >>> t = ps.create_array("t2m.zarr", shape=(365, 181, 360), dtype="f4", chunks={"time": 31},
    ...                     dimension_names=("time", "lat", "lon"), attributes={"units": "K"})
    >>> t[0:31] = np.full((31, 181, 360), 280, "f4")
    >>> t.chunks, t.attrs["units"]
    ((31, 181, 360), 'K')

    From values, with small chunks in large shards:

    >>> x = np.arange(1_000_000, dtype="i4").reshape(1000, 1000)
    >>> a = ps.create_array("x.zarr", data=x, chunks=(100, 100), shards=(500, 500), codecs="zstd")
    >>> int(a[999, 999])
    999999

    A Cloud Optimized GeoTIFF, a row of tiles at a time:

    >>> with ps.create_array("dem.tif", shape=(1, 512, 512), dtype="f4", tiles=(256, 256), crs=32633,
    ...                      transform=(10, 0, 5e5, 0, -10, 5e6), nodata=-9999) as w:
    ...     w[:, :256] = np.zeros((1, 256, 512))
    >>> float(ps.open("dem.tif")[0, 300, 0])
    -9999.0
    """
    path = check_path(path)
    if path and name:
        raise InvalidArgumentError("path and name are the same thing: give one of them")
    context = current_context() if context is None else context
    progress = None if data is None else callback_of(progress, "writing")
    at = NewPlace(target, path or name or "", bool(overwrite), bool(durable), context, storage_options, progress)
    new = NewArray(
        shape=shape, dtype=torch_as_name(dtype), chunks=chunks, shards=shards, codecs=codecs, fill_value=fill_value,
        zarr_format=zarr_format, attributes=attributes, dimension_names=dimension_names, filters=filters,
        serializer=serializer, compressors=compressors, order=order, chunk_key_encoding=chunk_key_encoding,
        dimension_separator=dimension_separator,
    )  # fmt: skip
    create: Callable[..., Any] = _CREATORS.get(format_for_new(target, at.path), _create_zarr)
    return create(at, new, tiff, data)


@dataclass(frozen=True)
class NewPlace:
    """Where an array is created, and how an existing node is treated."""

    target: Any
    path: str
    overwrite: bool
    durable: bool
    context: Context
    storage_options: Mapping[str, Any] | None
    progress: Callable[[int, int], Any] | None


def _create_tiff(at: NewPlace, new: NewArray, options: Mapping[str, Any], data: Any) -> Any:
    new.refuse_for_tiff()
    given = dict(options)
    attributes = new.attributes
    if data is not None:
        data, texts = for_tiff(data, given, new.dtype)
        attributes = texts if attributes is None else attributes
    shape = [new.shape] if isinstance(new.shape, int) else new.shape
    return create_tiff(
        at.target, at.path, shape=shape, dtype=new.dtype, data=data, how=TiffOptions.of(given), attributes=attributes,
        overwrite=at.overwrite, durable=at.durable, context=at.context, storage_options=at.storage_options,
        progress=at.progress,
    )  # fmt: skip


def _create_zarr(at: NewPlace, new: NewArray, options: Mapping[str, Any], data: Any) -> Array:
    if options:
        name = next(iter(options))
        hint = suggestion(name, create_array.__kwdefaults__ or ())
        raise TypeError(f"create_array() has no option '{name}' for Zarr arrays{hint}")
    check_name(at.target, at.path, at.storage_options)
    if isinstance(at.target, Group):
        new.zarr_format = format_below(at.target, new.zarr_format)
    new.check()
    progress = at.progress
    if progress is not None and isinstance(data, Array):
        shares, half = Shares(progress, "writing", data.nbytes), data.nbytes // 2
        values = new.take(data, shares.share(half))
        progress = shares.share(data.nbytes - half)
    else:
        values = None if data is None else new.take(data)
    made = _write_zarr(at, new, values, progress)
    if isinstance(at.target, Group):
        registry.reopen_as(made, at.target)
    else:
        remember(made, at.target, at.path, at.storage_options)
    return made


def _write_zarr(at: NewPlace, new: NewArray, values: Any, progress: Callable[[int, int], Any] | None) -> Array:
    """Create the array and write `values` (None: nothing): an ndarray, or an array of a device."""
    options = {**new.for_engine(), "overwrite": at.overwrite, "durable": at.durable}
    place, encoded = at.target, os.fsencode(at.path)
    if not isinstance(at.target, Group):
        place, encoded = place_of(at.target, at.path, at.storage_options, at.context)
    native = new.native
    if isinstance(values, np.ndarray):
        if tuple(options["shape"]) != values.shape:
            np.broadcast_to(values, options["shape"])  # raises before anything is written
        if native is not None and native != values.dtype:
            values = values.astype(native, casting="same_kind")
    fresh = _core.replace(place, encoded) if at.overwrite and values is not None else None
    if fresh is None:
        made = Array(_core.create_array(place, at.context, encoded, options))
        _fill(made, values, native, at, progress)
        return made
    try:  # the old node is kept until all of the new one is written
        draft = Array(_core.create_array(fresh.store, at.context, b"", options))
        _fill(draft, values, native, at, progress)
        fresh.commit()
    finally:
        fresh.discard()
    is_group = isinstance(at.target, Group)
    opened = at.target[at.path] if is_group else wrap(_core.find_node(place, at.context, encoded, b"").open())
    assert isinstance(opened, Array)
    return opened


def _fill(
    made: Array, values: Any, native: np.dtype[Any] | None, at: NewPlace, progress: Callable[[int, int], Any] | None
) -> None:
    if values is None or not made.size:
        return
    on_device = not isinstance(values, np.ndarray)
    if on_device and native is not None and not np.can_cast(_device.described(values)[1], native, "same_kind"):
        values = _device.to_host(values, at.context).astype(native, casting="same_kind")
    made.write(..., values, durable=at.durable, progress=progress)


_CREATORS: dict[str, Callable[..., Any]] = {"tiff": _create_tiff}
"""The function that creates an array of a format other than Zarr."""

registry.register(create_array)
