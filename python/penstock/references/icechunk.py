"""References as virtual chunks of Icechunk, written by its own library."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any
from urllib.parse import quote

import numpy as np

from penstock import _core
from penstock.core import registry
from penstock.core.errors import UnsupportedError
from penstock.core.group import Group

_AS_THEY_ARE = ("gzip", "crc32c")
_NUMCODECS = ("shuffle", "zlib", "bz2", "lz4", "lzma", "blosc", "fletcher32", "crc32", "adler32", "zstd")
_ROWS = 100_000  # references that are passed to Icechunk at once


def is_icechunk(target: Any) -> bool:
    """Whether `target` is a session or a store of Icechunk."""
    return type(target).__module__.partition(".")[0] == "icechunk"


def save_in_icechunk(group: Group, target: Any) -> None:
    """Write the arrays of a group of references into a session of Icechunk, or its store.

    Arrays with elements or codecs that virtual chunks cannot have (text, times, structures) are omitted; a warning
    names them.
    """
    from icechunk import VirtualChunkSpec

    store = getattr(target, "store", target)
    documents, arrays, not_expressed = _core.exported_references(group)
    texts = {key.decode(): json.loads(text) for key, text in documents.items()}
    planned = []  # everything is checked before the first write
    omitted = [f"'{name}' ({why})" for name, why in not_expressed]
    for path, grid, array in arrays:
        name = path.decode()
        try:
            objects = _core.exported_objects(array)
            in_memory = any(data is not None for _, data in objects)  # the values are copied
            element = texts[f"{name}/.zarray"]["dtype"]
            if not in_memory and (not isinstance(element, str) or element[1] not in "biufc"):
                omitted.append(f"'{name}' (elements of {element!r} are not exported to Icechunk)")
                continue
        except UnsupportedError as error:
            raise UnsupportedError(error.message, *error.notes, f"exporting '{name}'") from None
        try:
            codecs: Any = "auto" if in_memory else _codecs(texts[f"{name}/.zarray"])
        except UnsupportedError as error:
            omitted.append(f"'{name}' ({error.message})")
            continue
        planned.append((name, grid, array, objects, in_memory, codecs))
    if arrays and not planned:
        raise UnsupportedError("no array can be exported to Icechunk", *omitted)
    if omitted:
        warnings.warn(f"not exported from '{group.uri}': {'; '.join(omitted)}", stacklevel=3)
    for key in texts:
        name, _, kind = key.rpartition("/")
        if kind == ".zgroup":
            attributes = texts[f"{name}/.zattrs" if name else ".zattrs"]
            registry.call("create_group", store, name, attributes=attributes)
    for name, grid, array, objects, in_memory, codecs in planned:
        made = registry.call(
            "create_array", store, name, shape=array.shape, dtype=array.dtype, chunks=array.chunks,
            codecs=codecs, fill_value=_fill_of(texts[f"{name}/.zarray"]),
            dimension_names=array.dimension_names, attributes=_attributes_of(array, texts[f"{name}/.zattrs"]),
        )  # fmt: skip
        if in_memory:
            made[...] = array[...]
            continue
        locations = [_url(os.fsdecode(location)) for location, _ in objects]
        cells = int(np.prod(grid, dtype=np.uint64)) if grid else 1
        for begin in range(0, cells, _ROWS):
            rows = [np.frombuffer(each, np.uint64) for each in _core.exported_rows(array, begin, begin + _ROWS)]
            indices = np.stack(np.unravel_index(rows[0].astype(np.int64), grid), 1) if grid else np.zeros((1, 0), int)
            if np.any(rows[3] == 0):
                raise UnsupportedError("references to whole objects have no length", f"exporting '{name}'")
            specs = [
                VirtualChunkSpec(index, locations[which], offset, length)
                for index, which, offset, length in zip(
                    indices.tolist(), rows[1].tolist(), rows[2].tolist(), rows[3].tolist(), strict=True
                )
            ]
            failed = store.set_virtual_refs(name, specs, validate_containers=True)
            if failed:
                raise UnsupportedError(
                    f"Icechunk's repository has no virtual chunk container for '{locations[0]}'", f"exporting '{name}'"
                )


def _url(location: str) -> str:
    return location if "://" in location else "file://" + quote(location)


def _fill_of(zarray: dict[str, Any]) -> Any:
    fill = zarray.get("fill_value")
    return {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}.get(fill, fill) if isinstance(fill, str) else fill


def _attributes_of(array: _core.Array, given: dict[str, Any]) -> dict[str, Any]:
    """The attributes in the form of Zarr 3, in which `_FillValue` of a float is text. Icechunk refuses NaN in JSON, so
    that and infinities are the text that Zarr has for them."""
    meaning = _core.meaning_in(array, 3)
    made = json.loads(meaning["attributes"]) if meaning else given
    return {name: _as_text(value) for name, value in made.items()}


def _as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _codecs(zarray: dict[str, Any]) -> list[dict[str, Any]]:
    """The codecs of Zarr 3 that decode the encodings of Zarr 2."""
    kind: str = zarray["dtype"]
    made: list[dict[str, Any]] = []
    if zarray.get("order") == "F":
        made.append({"name": "transpose", "configuration": {"order": list(range(len(zarray["shape"])))[::-1]}})
    endian = {"configuration": {"endian": "big" if kind[0] == ">" else "little"}} if kind[0] != "|" else {}
    made.append({"name": "bytes", **endian})
    for codec in [*(zarray.get("filters") or []), *([zarray["compressor"]] if zarray.get("compressor") else [])]:
        name, configuration = codec["id"], {key: value for key, value in codec.items() if key != "id"}
        if name in _NUMCODECS:
            made.append({"name": f"numcodecs.{name}", "configuration": configuration})
        elif name in _AS_THEY_ARE:
            made.append({"name": name, "configuration": configuration})
        else:
            raise UnsupportedError(f"the codec {name!r} has no counterpart in Zarr 3")
    return made
