"""New arrays and groups, and what changes whole nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import device as _device
from penstock.core.array import Array
from penstock.core.attributes import to_json
from penstock.core.chunking import plain_lengths
from penstock.core.context import Context, current_context
from penstock.core.data_types import codec_json, dtype_json, fill_options, native_dtype
from penstock.core.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from penstock.geo.writing import create_tiff, is_tiff_name
from penstock.target import remote as _remote
from penstock.target.place import check_path, local_path, place_of

if TYPE_CHECKING:
    from penstock.core.group import Group

AUTO = "auto"
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
    from penstock.api.written_values import check_objects, for_tiff, for_zarr
    from penstock.core.group import Group, wrap

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
    _check_name(target, path or name or "", storage_options)
    if isinstance(target, Group):
        zarr_format = 2 if target.format == "zarr2" else 3
    _check_format(zarr_format)
    _check_text(order, "order")
    _check_text(dimension_separator, "dimension_separator")
    dimension_names = None if dimension_names is None else list(dimension_names)
    for each in dimension_names or ():
        _check_text(each, "a dimension name")
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
    lengths = _lengths(shape, "shape")
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
        **_chunks(chunks, len(lengths)),
        **_shards(shards, len(lengths)),
        **(fill or fill_options(fill_value, described)),
        **_codecs(codecs, filters, serializer, compressors, zarr_format),
        **_keys(chunk_key_encoding, dimension_separator),
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


def _check_name(target: Any, path: str, storage_options: Any = None) -> None:
    """Refuse a name that ends as the files of another format do, and options of a path of this machine."""
    if isinstance(target, str | os.PathLike) and not path:
        _core.check_new_name(os.fsencode(target))
    if storage_options and isinstance(target, os.PathLike):
        raise UnsupportedError(f"storage_options are for remote URIs, not for '{os.fsdecode(target)}'")


def _check_format(zarr_format: Any) -> None:
    if isinstance(zarr_format, bool) or not isinstance(zarr_format, int) or zarr_format not in (2, 3):
        raise InvalidArgumentError(f"zarr_format must be 2 or 3, it is {zarr_format!r}")


def _check_text(value: Any, name: str) -> None:
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a str, it is {value!r}")


def _known(options: dict[str, Any]) -> dict[str, Any]:
    known = set(create_tiff.__kwdefaults__ or {}) - {"shape", "dtype", "data", "context", "durable"}
    for option in options:
        if option not in known:
            raise TypeError(f"create_array() has no option '{option}' for TIFFs")
    return options


def create_group(
    target: Any,
    path: str = "",
    *,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: int = 3,
    overwrite: bool = False,
    durable: bool = False,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Make a new group and open it; as `create_array`."""
    from penstock.core.group import Group

    _check_name(target, path, storage_options)
    _check_format(zarr_format)
    context = current_context() if context is None else context
    text = None if attributes is None else to_json(dict(attributes))
    if isinstance(target, Group):
        child = Group(_core.create_group(target, context, os.fsencode(path), zarr_format, overwrite, text, durable))
        child._storage_options = target._storage_options
        return child
    store, inside = place_of(target, path, storage_options, context)
    group = Group(_core.create_group(store, context, inside, zarr_format, overwrite, text, durable))
    group._storage_options = _remote.to_reopen(target, storage_options)
    return group


def consolidate_metadata(
    target: Any,
    path: str = "",
    *,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Copy the metadata of all nodes of a tree into the group at its root and open it with that copy.

    Opening the tree then takes one request. The copy is not kept up to date: consolidate again after changes.
    """
    from penstock.core.group import Group

    context = current_context() if context is None else context
    store, inside = place_of(target, path, storage_options, context)
    return Group(_core.consolidate_metadata(store, context, inside))


def save(target: Any, data: npt.ArrayLike | None = None, /, path: str = "", **arrays: Any) -> None:
    """Write one array, or several below a group: `save(uri, x)`, `save(uri, a=x, b=y)`. Replaces what stands there.

    The old array or group stays until all of the new one is written (files, dicts). The name's suffix chooses the
    format: `.npy` is a NumPy file; `save("scene.tif", x, crs=32633, transform=...)` writes a Cloud Optimized GeoTIFF,
    with the options of `create_array`; names of formats that are not written here (`.nc`, `.h5`) are refused; all
    others are Zarr. A group is copied, as by `copy`. Arrays bring their attributes, dimension names and fill value,
    and xarray's DataArrays their attributes and dimension names, but not their coordinates (a warning names them).
    """
    from penstock.api.written_values import check_is_array
    from penstock.core.group import Group

    if is_tiff_name(target, path):
        if data is None:
            raise InvalidArgumentError("a TIFF holds one array: save(name, x)")
        create_array(target, path, data=data, **{"overwrite": True, **arrays})
        return
    if (data is None) == (not arrays):
        raise InvalidArgumentError("give one array, or arrays by name")
    if data is not None:
        if isinstance(data, Group):
            from penstock.api.copy import copy

            copy(data, target, path, overwrite=True)
        elif not path and _is_npy_name(target):
            _save_npy(target, data)
        else:
            create_array(target, path, data=data, overwrite=True)
        return
    _check_name(target, path)
    for values in arrays.values():
        check_is_array(values)
    place, inside = target, os.fsencode(path)
    if not isinstance(target, Group):
        place, inside = place_of(target, path, None, current_context())
    fresh = _core.replace(place, inside)
    if fresh is None:
        _save_members(create_group(target, path, overwrite=True), arrays)
        return
    try:
        zarr_format = 2 if isinstance(target, Group) and target.format == "zarr2" else 3
        _save_members(create_group(fresh.store, zarr_format=zarr_format), arrays)
        fresh.commit()
    finally:
        fresh.discard()


def _save_members(group: Group, arrays: Mapping[str, Any]) -> None:
    for name, values in arrays.items():
        create_array(group, name, data=values)


def _is_npy_name(target: Any) -> bool:
    return isinstance(target, str | os.PathLike) and os.fsdecode(target).lower().endswith(".npy")


def _save_npy(target: Any, data: Any) -> None:
    from penstock.api.shard_writer import write_npy
    from penstock.api.written_values import check_is_array

    check_is_array(data)
    path = local_path(os.fsdecode(target))
    if "://" in path:
        raise UnsupportedError(f".npy files are written to this machine, not to '{path}'")
    if os.path.isdir(path):
        raise InvalidArgumentError(f"'{path}' is a folder")
    if isinstance(data, np.ma.MaskedArray) and np.ma.is_masked(data):
        raise InvalidArgumentError("a .npy file has no mask: write data.filled(value)")
    values = np.asarray(_device.to_host(data, current_context()) if _device.is_device_value(data) else data)
    if values.dtype.hasobject:
        raise UnsupportedError(f"items of {values.dtype} cannot be written without pickling them")
    write_npy(path, values)


def load(target: Any, path: str = "", **options: Any) -> Any:
    """Read everything: an array as ndarray, a group as a dict of its children's values by name.

    The options (`storage_options`, ...) are those of `open`.
    """
    from penstock.api.open import open

    return _values(open(target, path, **options))


def _values(node: Any) -> Any:
    if isinstance(node, Array):
        return node[...]
    return {name: _values(child) for name, child in node.members()}


def open_group(
    target: Any,
    path: str = "",
    *,
    mode: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: int = 3,
    use_consolidated: bool | None = None,
    context: Context | None = None,
    **options: Any,
) -> Group:
    """Open a group, or create one.

    Parameters
    ----------
    mode
        None: the group must exist; it can be written to if its store allows it. "r": it must exist, and every write is
        refused, through the group and through everything that is reached from it. "r+": it must exist and be
        writable. "a": as "r+", and it is created if it does not exist. "w": it is created, and an array or group that
        exists there is erased. "w-" or "x": it is created, and nothing may exist there.
    use_consolidated
        None: the copy of all metadata in the group is used where there is one; what it lacks is looked for in storage.
        True: there must be one, and nothing else counts. False: storage alone. After a write through an open group its
        copy is not used any more, whatever was asked for.
    """
    from penstock.api.open import open
    from penstock.core.group import Group

    if mode not in (None, "r", "r+", "a", "w", "w-", "x"):
        raise InvalidArgumentError(f"mode must be None, 'r', 'r+', 'a', 'w' or 'w-', got {mode!r}")
    if mode in (None, "r", "r+", "a"):
        try:
            found = "r+" if mode == "a" else mode
            node = open(target, path, mode=found, context=context, use_consolidated=use_consolidated, **options)
        except NotFoundError:
            if mode != "a" or use_consolidated:
                raise
        else:
            if not isinstance(node, Group):
                raise InvalidArgumentError(f"'{node.uri}' is an array, not a group")
            return node
    return create_group(
        target,
        path,
        attributes=attributes,
        zarr_format=zarr_format,
        overwrite=mode == "w",
        context=context,
        storage_options=options.get("storage_options"),
    )


def _lengths(value: Any, name: str) -> list[int]:
    try:
        return [int(value.__index__())] if hasattr(value, "__index__") else [_whole(each) for each in value]
    except (TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{name} must be an int or ints, it is {value!r}") from error


def _whole(value: Any) -> int:
    number = int(value.__index__())
    if number < 0:
        raise InvalidArgumentError(f"lengths cannot be negative: {number}")
    return number


def _chunks(chunks: Any, rank: int) -> dict[str, Any]:
    if chunks is None or chunks is True or (isinstance(chunks, str) and chunks == AUTO):
        return {}
    if hasattr(chunks, "__index__"):
        return {"chunks": [_whole(chunks)] * rank}
    parts = list(chunks)
    if all(hasattr(part, "__index__") for part in parts):
        return {"chunks": [_whole(part) for part in parts]}
    lengths, longest = _edge_lists(parts)
    return {"chunk_lengths": lengths, "chunks": longest}


def _edge_lists(parts: Sequence[Any]) -> tuple[list[list[int]], list[int]]:
    """The lengths of each dimension, empty where one number says them all, and the longest of each."""
    lengths = [[] if hasattr(part, "__index__") else _edges(part) for part in parts]
    longest = [max(each, default=1) if each else _whole(part) for each, part in zip(lengths, parts, strict=True)]
    return lengths, longest


def _edges(part: Any) -> list[int]:
    """The lengths of one dimension's chunks; a pair within it is a length and how often it comes."""
    out: list[int] = []
    for each in part:
        if hasattr(each, "__index__"):
            out.append(_whole(each))
        else:
            length, count = each
            out.extend([_whole(length)] * _whole(count))
    if not out:
        raise InvalidArgumentError("a list of lengths of a dimension is empty")
    return out


def _shards(shards: Any, rank: int) -> dict[str, Any]:
    if shards is None or (isinstance(shards, str) and shards == AUTO):
        return {"shards": shards}
    if isinstance(shards, Mapping):
        return _shards_of_zarr(shards, rank)
    if hasattr(shards, "__index__"):
        return {"shards": [_whole(shards)] * rank}
    parts = list(shards)
    if all(hasattr(part, "__index__") for part in parts):
        return {"shards": [_whole(part) for part in parts]}
    lengths, longest = _edge_lists(parts)
    return {"shard_lengths": lengths, "shards": longest}


def _shards_of_zarr(shards: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """zarr-python's `{"shape": ..., "index_location": "start"|"end"}`."""
    where = shards.get("index_location", "end")
    if "shape" not in shards or set(shards) - {"shape", "index_location"} or where not in ("start", "end"):
        form = '{"shape": lengths, "index_location": "start" or "end"}'
        raise InvalidArgumentError(f"shards as a mapping are {form}, not {dict(shards)!r}")
    return {**_shards(shards["shape"], rank), "shard_index_first": where == "start"}


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def _as_list(value: Any, zarr_format: int) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str | Mapping) or hasattr(value, "to_dict") or hasattr(value, "get_config"):
        value = [value]
    return [codec_json(codec, zarr_format) for codec in value]


def _codecs(codecs: Any, filters: Any, serializer: Any, compressors: Any, zarr_format: int) -> dict[str, Any]:
    in_parts = not (_is_auto(filters) and _is_auto(serializer) and _is_auto(compressors))
    if in_parts and not _is_auto(codecs):
        raise InvalidArgumentError("give codecs, or filters, serializer and compressors")
    if zarr_format == 2:
        return {"codecs": _v2_codecs(codecs, filters, compressors)}
    if not in_parts:
        return {} if _is_auto(codecs) else {"codecs": json.dumps(_as_list(codecs, 3))}
    chain = [] if _is_auto(filters) else _as_list(filters, 3)
    chain += [] if _is_auto(serializer) else _as_list(serializer, 3)
    chain += [codec_json("zstd", 3)] if _is_auto(compressors) else _as_list(compressors, 3)
    return {"codecs": json.dumps([_with_settings(codec) for codec in chain])}


def _with_settings(codec: dict[str, Any]) -> dict[str, Any]:
    if codec == {"name": "zstd"}:
        return {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
    return codec


def _v2_codecs(codecs: Any, filters: Any, compressors: Any) -> str | None:
    chosen: dict[str, Any] = {}
    if not _is_auto(codecs):
        listed = _as_list(codecs, 2)
        chosen = {"filters": listed[:-1] or None, "compressor": listed[-1] if listed else None}
    if not _is_auto(filters):
        chosen["filters"] = _as_list(filters, 2) or None
    if not _is_auto(compressors):
        listed = _as_list(compressors, 2)
        if len(listed) > 1:
            raise InvalidArgumentError(f"compressors: zarr_format 2 has one, {len(listed)} are given")
        chosen["compressor"] = listed[0] if listed else None
    return json.dumps(chosen) if chosen else None


def _keys(encoding: Any, separator: str | None) -> dict[str, Any]:
    if encoding is None:
        return {} if separator is None else {"separator": separator}
    if hasattr(encoding, "to_dict"):
        encoding = encoding.to_dict()
    if isinstance(encoding, str):
        encoding = {"name": encoding}
    if not isinstance(encoding, Mapping):
        raise InvalidArgumentError(f"chunk_key_encoding must be a mapping or a name, it is {encoding!r}")
    name = encoding.get("name")
    settings = encoding.get("configuration") or encoding
    if name == "suffix":
        if not isinstance(settings.get("suffix"), str):
            raise InvalidArgumentError("chunk_key_encoding 'suffix' needs a suffix, a string")
        base = _keys(settings.get("base_encoding", settings.get("base-encoding")), separator)
        return {**base, "key_suffix": base.get("key_suffix", "") + settings["suffix"]}
    if name not in ("default", "v2"):
        raise InvalidArgumentError(f"chunk_key_encoding must be 'default', 'v2' or 'suffix', it is {name!r}")
    return {"v2_keys": name == "v2", "separator": settings.get("separator", separator)}
