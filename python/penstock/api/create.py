"""New arrays and groups, and what changes whole nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.api.create_options import (
    AUTO,
    check_format,
    check_name,
    check_text,
    chunks_of,
    codecs_of,
    keys_of,
    lengths_of,
    shards_of,
)
from penstock.api.written_values import check_objects, for_tiff, for_zarr
from penstock.core import device as _device
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.attributes import to_json
from penstock.core.chunking import plain_lengths
from penstock.core.context import Context, current_context
from penstock.core.data_types import dtype_json, fill_options, native_dtype
from penstock.core.errors import InvalidArgumentError
from penstock.core.group import Group, wrap
from penstock.geo.writing import create_tiff, is_tiff_name
from penstock.target import remote as _remote
from penstock.target.place import check_path, place_of

_TIFFS_OWN = {
    "chunks": ": tiles=",
    "codecs": ": compress= and predictor=",
    "compressors": ": compress=",
    "fill_value": ": nodata=",
    "order": ": interleave=",
}


def create_array(
    target: Any,
    path: str = "",
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
    """Make a new array and open it. Groups that miss on the way to it are made; nothing is written before all is right.

    A name that ends as a TIFF's (`scene.tif`) makes a Cloud Optimized GeoTIFF of shape (band, y, x) or (y, x). What is
    returned is a `TiffWriter` then, to be written and closed; with `data`, the array, written and open.

    Parameters
    ----------
    target
        What `penstock.open` takes: a path or URI, a dict, a store. Inside of it `path` (or `name`).
    shape, dtype
        As NumPy's; `data` gives them where they are left out. Beside NumPy's types: `str` and `bytes` (of variable
        length), names such as "bfloat16" and "int4", Zarr v3 JSON.
    chunks
        Lengths, one for all dimensions or one for each, -1 for a whole dimension; "auto": about 1 MiB. A mapping from
        dimension names or numbers to lengths; dimensions that it does not name have one chunk. Text such as "8MiB":
        the largest dimensions are halved until a chunk has at most that size. A list of lengths for a dimension makes
        a rectilinear grid.
    shards
        Lengths, multiples of the chunks'; "auto": about 256 MiB; None: each chunk is an object. A list of lengths for
        a dimension makes a rectilinear grid of shards.
    codecs
        "auto" (zstd, with a shuffle for floats and times), or a list of names, JSON objects or codec objects of zarr or
        numcodecs; within shards where there are any. The codec that makes bytes of arrays is put in where it misses.
        `filters`, `serializer` and `compressors` say the same in parts, as in zarr-python.
    fill_value
        None: zeros, the empty string, NaT.
    order
        Of the elements within a chunk. Version 3 has a transpose for "F".
    chunk_key_encoding
        {"name": "default" or "v2", "separator": "/" or "."}, or what zarr-python has for it. {"name": "suffix",
        "configuration": {"suffix": ".tiff", "base_encoding": ...}} ends each key with a suffix.
    overwrite
        Erase the array or group that stands there, and all below it. A folder without one is never erased.
    durable
        Return when the device has the metadata, and the folders that lead to it; of TIFFs, the file. `data` likewise.
    data
        Written to the new array; may lie in a device's memory.
    storage_options
        Of a remote URI, as for `open`.
    **tiff
        Of TIFFs: `tiles`, `bits`, `mask`, `compress`, `level`, `predictor`, `interleave`, `overviews`, `resampling`,
        `nodata`, `crs`, `transform`, `area_or_point`, `bigtiff`, `photometric`, `alpha`, `colormap`, `descriptions`,
        `units`, `scales`, `offsets`: see docs/formats/tiff.md. Of the above they have `shape`, `dtype`,
        `data`, `attributes` (GDAL's metadata), `overwrite`, `context` and `storage_options`.

    Raises
    ------
    InvalidArgumentError
        A member makes no sense (named), or something stands there already. Also a ValueError.
    """
    check_path(path)
    if path and name:
        raise InvalidArgumentError("path and name are the same thing: give one of them")
    if is_tiff_name(target, path or name or ""):
        no_tiffs = {
            "chunks": chunks != AUTO,
            "shards": shards is not None,
            "codecs": codecs != AUTO,
            "fill_value": fill_value is not None,
            "zarr_format": zarr_format != 3,
            "dimension_names": dimension_names is not None,
            "filters": filters != AUTO,
            "serializer": serializer != AUTO,
            "compressors": compressors != AUTO,
            "order": order != "C",
            "chunk_key_encoding": chunk_key_encoding is not None,
            "dimension_separator": dimension_separator is not None,
        }
        for option, given in no_tiffs.items():
            if given:
                raise InvalidArgumentError(
                    f"'{option}' is an option of Zarr arrays, not of TIFFs{_TIFFS_OWN.get(option, '')}",
                )
        if data is not None:
            data = for_tiff(data, tiff)
        return create_tiff(
            target,
            path or name or "",
            shape=[shape] if isinstance(shape, int) else shape,
            dtype=dtype,
            data=data,
            attributes=attributes,
            overwrite=overwrite,
            durable=durable,
            context=context,
            storage_options=storage_options,
            **_known(tiff),
        )
    if tiff:
        raise TypeError(f"create_array() has no option '{next(iter(tiff))}' for Zarr arrays")
    check_name(target, path or name or "", storage_options)
    if isinstance(target, Group):
        zarr_format = 2 if target.format == "zarr2" else 3
    check_format(zarr_format)
    check_text(order, "order")
    check_text(dimension_separator, "dimension_separator")
    dimension_names = None if dimension_names is None else list(dimension_names)
    for each in dimension_names or ():
        check_text(each, "a dimension name")
    fill: dict[str, Any] = {}
    there = data is not None and _device.is_device_value(data)
    if data is not None and not there:
        brought: dict[str, Any] = {
            "attributes": attributes,
            "dimension_names": dimension_names,
            "fill_value": fill_value,
            "dtype": dtype,
            "zarr_format": zarr_format,
        }
        data = for_zarr(data, brought)
        attributes, dimension_names = brought["attributes"], brought["dimension_names"]
        fill_value, fill = brought["fill_value"], brought.get("fill", fill)
    values = None if data is None or there else np.asarray(data)
    if values is not None:
        check_objects(values)
    if data is not None:
        data_shape, data_dtype = _device.described(data) if values is None else (values.shape, values.dtype)
        shape = data_shape if shape is None else shape
        dtype = data_dtype if dtype is None else dtype
    if shape is None or dtype is None:
        raise InvalidArgumentError("shape and dtype are needed where no data is given")
    lengths = lengths_of(shape, "shape")
    described = dtype_json(dtype, zarr_format)
    dimension_names = None if dimension_names is None else list(dimension_names)
    native = native_dtype(described)
    item_bytes = 0 if native is None or native.hasobject or native.kind == "T" else native.itemsize
    chunks = plain_lengths(chunks, "chunks", lengths, dimension_names, item_bytes)
    shards = plain_lengths(shards, "shards", lengths, dimension_names, item_bytes)
    options: dict[str, Any] = {
        "shape": lengths,
        "dtype": json.dumps(described),
        "zarr_format": zarr_format,
        "overwrite": bool(overwrite),
        "durable": bool(durable),
        "attributes": None if attributes is None else to_json(dict(attributes)),
        "dimension_names": dimension_names,
        "order": order,
        **chunks_of(chunks, len(lengths)),
        **shards_of(shards, len(lengths)),
        **(fill or fill_options(fill_value, described)),
        **codecs_of(codecs, filters, serializer, compressors, zarr_format),
        **keys_of(chunk_key_encoding, dimension_separator),
    }
    context = current_context() if context is None else context
    inner = path or name or ""
    encoded = os.fsencode(inner)
    place: Any = target
    if isinstance(target, Group):
        reopen_by = target._storage_options
    else:
        place, encoded = place_of(target, inner, storage_options, context)
        reopen_by = _remote.to_reopen(target, storage_options)
    if values is not None and tuple(lengths) != values.shape:
        np.broadcast_to(values, lengths)  # refused before anything is written
    if values is not None and native is not None and native != values.dtype:
        values = values.astype(native, casting="same_kind")
    fresh = _core.replace(place, encoded) if overwrite and data is not None else None
    if fresh is None:
        made = Array(_core.create_array(place, context, encoded, options))
        _fill(made, data, values, native, context, durable)
    else:  # the old node stays until all of the new one is written
        try:
            draft = Array(_core.create_array(fresh.store, context, b"", options))
            _fill(draft, data, values, native, context, durable)
            fresh.commit()
        finally:
            fresh.discard()
        opened = (
            target[inner]
            if isinstance(target, Group)
            else wrap(_core.open_store(place, context, encoded, False, None, None))
        )
        assert isinstance(opened, Array)
        made = opened
    made._storage_options = reopen_by
    return made


def _fill(
    made: Any,
    data: Any,
    values: npt.NDArray[Any] | None,
    native: np.dtype[Any] | None,
    context: Context,
    durable: bool,
) -> None:
    if data is None or not made.size:
        return
    if values is None:
        if native is None or np.can_cast(_device.described(data)[1], native, "same_kind"):
            made.write(..., data, durable=durable)
            return
        values = _device.to_host(data, context).astype(native, casting="same_kind")
    made.write(..., values, durable=durable)


def _known(options: dict[str, Any]) -> dict[str, Any]:
    known = set(create_tiff.__kwdefaults__ or {}) - {"shape", "dtype", "data", "context", "durable"}
    for option in options:
        if option not in known:
            raise TypeError(f"create_array() has no option '{option}' for TIFFs")
    return options


registry.register(create_array)
