"""A new Zarr array, in the form of users' arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.api.create_options import (
    AUTO,
    check_format,
    check_text,
    chunks_of,
    codecs_of,
    keys_of,
    lengths_of,
    makes_objects,
    shards_of,
)
from penstock.api.written_values import check_objects, for_zarr
from penstock.core import device as _device
from penstock.core.array import Array, Progress
from penstock.core.attributes import to_json
from penstock.core.chunking import plain_lengths
from penstock.core.data_types import as_ndarray, dtype_json, fill_options, native_dtype, unmasked
from penstock.core.errors import InvalidArgumentError
from penstock.hdf5.grown import storage_of

_TIFFS_OWN = {
    "chunks": ": tiles=",
    "codecs": ": compress= and predictor=",
    "compressors": ": compress=",
    "fill_value": ": nodata=",
    "order": ": interleave=",
}


@dataclass
class NewArray:
    """The arguments of `create_array`; its docstring explains each."""

    shape: Any
    dtype: Any
    chunks: Any
    shards: Any
    codecs: Any
    fill_value: Any
    zarr_format: int
    attributes: Mapping[str, Any] | None
    dimension_names: Iterable[str | None] | None
    filters: Any
    serializer: Any
    compressors: Any
    order: str
    chunk_key_encoding: Any
    dimension_separator: str | None
    fill: dict[str, Any] = field(default_factory=dict)
    """The fill value in the engine's form, if the data have one; else empty."""

    def refuse_for_tiff(self) -> None:
        """Refuse given options that TIFFs do not have."""
        automatic = dict.fromkeys(("chunks", "codecs", "filters", "serializer", "compressors"), AUTO)
        defaults: dict[str, Any] = {**automatic, "zarr_format": 3, "order": "C"}
        names = ("chunks", "shards", "codecs", "fill_value", "zarr_format", "dimension_names", "filters", "serializer")
        for name in (*names, "compressors", "order", "chunk_key_encoding", "dimension_separator"):
            value, default = getattr(self, name), defaults.get(name)
            if value is not None if default is None else value != default:
                instead = _TIFFS_OWN.get(name, "")
                raise InvalidArgumentError(f"'{name}' is an option of Zarr arrays, not of TIFFs{instead}")

    def check(self) -> None:
        """Refuse arguments that are wrong for any data."""
        check_format(self.zarr_format)
        check_text(self.order, "order")
        check_text(self.dimension_separator, "dimension_separator")
        if self.dimension_names is not None:
            self.dimension_names = list(self.dimension_names)
        for each in self.dimension_names or ():
            check_text(each, "a dimension name")

    def take(self, data: Any, progress: Progress | None = None) -> Any:
        """Take missing arguments from `data`: shape, dtype, attributes, dimension names and the fill value.

        `progress` is that of reading `data`, if it is an open array.

        Returns
        -------
        The values: an ndarray, or `data` itself if it is in the memory of a device.
        """
        values: Any = data
        if not _device.is_device_value(data):
            names = ("attributes", "dimension_names", "fill_value", "dtype", "zarr_format")
            brought = {name: getattr(self, name) for name in names}
            taken = for_zarr(data, brought)
            is_open = progress is not None and isinstance(taken, Array)
            values = unmasked(as_ndarray(taken.read(progress=progress) if is_open else taken))
            if self.dtype is None and _is_ascii_text(taken):
                values, taken = _text_of(values), None
            check_objects(values)
            self.attributes, self.dimension_names = brought["attributes"], brought["dimension_names"]
            self.fill_value, self.fill = brought["fill_value"], brought.get("fill", self.fill)
            shape, dtype = values.shape, "bytes" if _are_bytes(values, taken) else values.dtype
        else:
            shape, dtype = _device.described(data)
        self.shape = shape if self.shape is None else self.shape
        self.dtype = dtype if self.dtype is None else self.dtype
        return values

    @property
    def native(self) -> np.dtype[Any] | None:
        """The dtype of the array's elements in memory; None if NumPy has none."""
        return native_dtype(dtype_json(self.dtype, self.zarr_format))

    def for_engine(self) -> dict[str, Any]:
        """All of it in the form for the engine."""
        if self.shape is None or self.dtype is None:
            raise InvalidArgumentError("shape and dtype are needed where no data is given")
        lengths = lengths_of(self.shape, "shape")
        described, native = dtype_json(self.dtype, self.zarr_format), self.native
        codecs = codecs_of(self.codecs, self.filters, self.serializer, self.compressors, self.zarr_format)
        if described in ("string", "bytes") and makes_objects(codecs):
            described = "|O"
        names = None if self.dimension_names is None else list(self.dimension_names)
        item_bytes = 0 if native is None or native.hasobject or native.kind == "T" else native.itemsize
        chunks = plain_lengths(self.chunks, "chunks", lengths, names, item_bytes)
        shards = plain_lengths(self.shards, "shards", lengths, names, item_bytes, chunks)
        return {
            "shape": lengths,
            "dtype": json.dumps(described),
            "zarr_format": self.zarr_format,
            "attributes": None if self.attributes is None else to_json(dict(self.attributes)),
            "dimension_names": names,
            "order": self.order,
            **chunks_of(chunks, len(lengths)),
            **shards_of(shards, len(lengths)),
            **(self.fill or fill_options(self.fill_value, described)),
            **codecs,
            **keys_of(self.chunk_key_encoding, self.dimension_separator),
        }


def _is_ascii_text(taken: Any) -> bool:
    """Whether elements are text of HDF5 of variable length, whose character set is ASCII."""
    stored = storage_of(taken).get("dtype") if isinstance(taken, Array) else None
    return stored is not None and (stored.base.metadata or {}).get("vlen") is bytes


def _text_of(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bytes as text if all of it is UTF-8, as xarray shows it and `penstock.copy` stores it."""
    out = np.empty(values.shape, object)
    try:
        for at, each in np.ndenumerate(values):
            out[at] = each.decode()
    except UnicodeDecodeError:
        return values
    return out


def _are_bytes(values: np.ndarray[Any, Any], taken: Any) -> bool:
    """Whether objects, which are all text or all bytes, are bytes; `taken`: the array that they were read from."""
    if values.dtype.kind != "O":
        return False
    if values.size:
        return isinstance(values.flat[0], bytes)
    codecs = taken.codecs if isinstance(taken, Array) else []
    return any("vlen-bytes" in (codec.get("name"), codec.get("id")) for codec in codecs)
