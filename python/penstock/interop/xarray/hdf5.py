"""HDF5 and NetCDF4 groups as xarray's datasets, as its engines "h5netcdf" and "netcdf4" show them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from xarray import Variable
from xarray.backends import BackendArray
from xarray.core import indexing

from penstock.core.array import Array
from penstock.hdf5.group import Hdf5Group
from penstock.hdf5.grown import shape_in_netcdf, storage_of, unlimited_lengths
from penstock.interop.xarray.lazy import LazyArray, settled
from penstock.interop.xarray.zarr import ZarrGroup

_FILTERS = ("zlib", "szip", "zstd", "bzip2", "blosc", "shuffle", "fletcher32")
_WITH_LEVEL = ("zlib", "zstd", "bzip2")
_SZIP_ENTROPY_CODING = 4  # H5_SZIP_EC_OPTION_MASK; otherwise nearest neighbour


class TextArray(LazyArray):
    """Text of variable length, as objects of type str."""

    def _decoded(self, values: Any) -> Any:
        made = np.asarray(values, object)
        flat = [each.decode("utf-8", "surrogateescape") if isinstance(each, bytes) else each for each in made.flat]
        out = np.empty(len(flat), object)
        out[:] = flat
        return out.reshape(made.shape)


class GrownArray(BackendArray):
    """A variable that has fewer elements than its unlimited dimensions: netCDF shows the fill value after them."""

    def __init__(self, of: LazyArray, shape: tuple[int, ...], fill_value: Any) -> None:
        self.of, self.shape, self.dtype, self.fill_value = of, shape, of.dtype, fill_value

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        def get(items: tuple[Any, ...]) -> Any:
            found, filled = self._split(items)
            values = None if 0 in map(_length, found) else self.of[indexing.OuterIndexer(found)]
            return self._placed(items, filled, values)

        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(settled(key, self.shape), self.shape, support, get)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """As `[]`, on the engine's threads; for `load_async`."""

        async def get(items: tuple[Any, ...]) -> Any:
            found, filled = self._split(items)
            values = None
            if 0 not in map(_length, found):
                values = await self.of.async_getitem(indexing.OuterIndexer(found))
            return self._placed(items, filled, values)

        support = indexing.IndexingSupport.OUTER
        return await indexing.async_explicit_indexing_adapter(settled(key, self.shape), self.shape, support, get)

    def _split(self, items: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any]]:
        """For each dimension, the selected positions that are stored, and their positions in the result."""
        found, filled = [], []
        for item, length, stored in zip(items, self.shape, self.of.shape, strict=True):
            wanted = np.atleast_1d(np.arange(length)[item])
            inside = np.flatnonzero(wanted < stored)
            found.append(wanted[inside])
            filled.append(inside)
        return tuple(found), filled

    def _placed(self, items: tuple[Any, ...], filled: list[Any], values: Any) -> Any:
        lengths = [np.atleast_1d(np.arange(length)[item]).size for item, length in zip(items, self.shape, strict=True)]
        out = np.full(lengths, self.fill_value, self.dtype)
        if values is not None:
            out[np.ix_(*filled)] = values
        return out[tuple(0 if isinstance(item, int | np.integer) else slice(None) for item in items)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.of!r}, {self.shape})"


def _length(positions: Any) -> int:
    return len(positions)


class Hdf5Store(ZarrGroup):
    """The variables and attributes of one group, before CF decoding, in the order of the file."""

    _group: Hdf5Group

    def get_attrs(self) -> dict[str, Any]:
        """The attributes, with the types of the file."""
        return _as_in_netcdf(self._group.typed_attributes)

    def _described(self, name: str, array: Array) -> tuple[tuple[str, ...], dict[str, Any]]:
        names, attributes = super()._described(name, array)
        return names, _as_in_netcdf(attributes)

    def get_encoding(self) -> dict[str, Any]:
        """The unlimited dimensions that this group defines."""
        own = {*self._group.names_in_file_order, *self._group.hidden_scales}
        found = set()
        for name, array in self._arrays.items():
            limits = storage_of(array).get("maxshape") or ()
            dimensions = self._described(name, array)[0]
            found |= {dim for dim, most in zip(dimensions, limits, strict=False) if most is None and dim in own}
        return {"unlimited_dims": found}

    @functools.cached_property
    def _lengths(self) -> dict[str, int]:
        """The lengths of the unlimited dimensions: for each, that of the longest variable."""
        return unlimited_lengths((self._described(name, array)[0], array) for name, array in self._arrays.items())

    def _variable(self, name: str, array: Array) -> Variable:
        dimensions, attributes = self._described(name, array)
        storage = storage_of(array)
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
        shape = shape_in_netcdf(dimensions, array, self._lengths)
        if shape == array.shape:
            return Variable(dimensions, indexing.LazilyIndexedArray(lazy), attributes, encoding)
        encoding["original_shape"] = shape
        fill = "" if is_text else np.zeros((), array.dtype)[()] if array.fill_value is None else array.fill_value
        return Variable(dimensions, indexing.LazilyIndexedArray(GrownArray(lazy, shape, fill)), attributes, encoding)


def _as_in_netcdf(attributes: dict[str, Any]) -> dict[str, Any]:
    """Without names that netCDF's libraries reserve. A null value is an array without elements, as in these libraries:
    xarray writes no None."""
    shown = {name: value for name, value in attributes.items() if name not in ("CLASS", "NAME")}
    return {name: np.empty(0) if value is None else value for name, value in shown.items()}


def _encoding(storage: dict[str, Any], dimensions: tuple[str, ...], array: Array) -> dict[str, Any]:
    """How a variable is stored, by the names of netCDF4-python and h5netcdf: `to_netcdf` stores copies in the same
    way, `to_zarr` ignores them."""
    filters = dict(storage.get("filters") or ())
    chunks = storage.get("chunks")
    # The axes of an array type are dimensions.
    encoding: dict[str, Any] = {"dtype": storage.get("dtype", array.dtype).base}
    encoding["contiguous"] = chunks is None
    encoding["chunksizes"] = chunks
    if chunks is not None:
        encoding["preferred_chunks"] = dict(zip(dimensions, array.chunks, strict=True))
    encoding.update({name: name in filters for name in _FILTERS})
    encoding["complevel"] = next((filters[name][0] for name in _WITH_LEVEL if filters.get(name)), 0)
    if "lzf" in filters:
        encoding.update(compression="lzf", compression_opts=None)
    if len(szip := filters.get("szip", ())) > 1:
        way = "ec" if szip[0] & _SZIP_ENTROPY_CODING else "nn"
        encoding.update(compression="szip", compression_opts=(way, szip[1]))
    encoding["original_shape"] = array.shape
    return encoding
