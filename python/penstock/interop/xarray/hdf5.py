"""HDF5 and NetCDF4 groups as xarray's datasets, as in its engines "h5netcdf" and "netcdf4"."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray import Variable
from xarray.core import indexing

from penstock.core.array import Array
from penstock.hdf5.group import Hdf5Group
from penstock.interop.xarray.lazy import LazyArray
from penstock.interop.xarray.zarr import ZarrGroup
from penstock.references.objects import ReferencedArray

_FILTERS = {"zlib": 1, "szip": 4, "zstd": 32015, "bzip2": 307, "blosc": 32001, "shuffle": 2, "fletcher32": 3}
_DEFLATE, _LZF = 1, 32000


class TextArray(LazyArray):
    """Text of variable length, as objects of type str."""

    def _decoded(self, values: Any) -> Any:
        made = np.asarray(values, object)
        flat = [each.decode("utf-8", "surrogateescape") if isinstance(each, bytes) else each for each in made.flat]
        out = np.empty(len(flat), object)
        out[:] = flat
        return out.reshape(made.shape)


class Hdf5Store(ZarrGroup):
    """The variables and attributes of one group, before CF decoding, in the order of the file."""

    _group: Hdf5Group

    def get_attrs(self) -> dict[str, Any]:
        """The attributes, with the types of the file."""
        return self._group.typed_attributes

    def get_encoding(self) -> dict[str, Any]:
        """The unlimited dimensions that this group defines."""
        own = {*self._group.names_in_file_order, *self._group.hidden_scales}
        found = set()
        for name, array in self._arrays.items():
            limits = _storage(array).get("maxshape") or ()
            dimensions = self._described(name, array)[0]
            found |= {dim for dim, most in zip(dimensions, limits, strict=False) if most is None and dim in own}
        return {"unlimited_dims": found}

    def _variable(self, name: str, array: Array) -> Variable:
        dimensions, attributes = self._described(name, array)
        storage = _storage(array)
        encoding = _encoding(storage, dimensions, array)
        is_text = array.dtype.kind in "TO"
        if is_text:
            encoding["dtype"] = str
        elif array.dtype.kind == "S" and "_FillValue" in attributes:
            value = attributes["_FillValue"]
            attributes["_FillValue"] = np.bytes_(value.encode() if isinstance(value, str) else value)
        if isinstance(self._place.target, str):
            encoding["source"] = self._place.target
        place = self._place.child(name)
        text = np.dtype("O", metadata={"element_type": str})  # xarray's mark for text
        lazy = TextArray(place, array, text) if is_text else LazyArray(place, array)
        return Variable(dimensions, indexing.LazilyIndexedArray(lazy), attributes, encoding)


def _storage(array: Array) -> dict[str, Any]:
    return array.storage if isinstance(array, ReferencedArray) else {}


def _encoding(storage: dict[str, Any], dimensions: tuple[str, ...], array: Array) -> dict[str, Any]:
    """How a variable is stored, with netCDF4-python's names: `to_netcdf` stores a copy in the same way, `to_zarr`
    ignores them.
    """
    filters = dict(storage.get("filters") or ())
    chunks = storage.get("chunks")
    encoding: dict[str, Any] = {"dtype": storage.get("dtype", array.dtype)}
    encoding["contiguous"] = chunks is None
    encoding["chunksizes"] = chunks
    if chunks is not None:
        encoding["preferred_chunks"] = dict(zip(dimensions, array.chunks, strict=True))
    encoding.update({name: number in filters for name, number in _FILTERS.items()})
    encoding["complevel"] = filters[_DEFLATE][0] if filters.get(_DEFLATE) else 0
    if _LZF in filters:
        encoding.update(compression="lzf", compression_opts=None)
    encoding["original_shape"] = array.shape
    return encoding
