"""NetCDF classic files as xarray's datasets, as in its engine "scipy"."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray import Variable
from xarray.core import indexing

from penstock.core.array import Array
from penstock.interop.xarray.lazy import LazyArray
from penstock.interop.xarray.zarr import ZarrGroup
from penstock.netcdf.file import NetcdfArray, NetcdfGroup


class NetcdfStore(ZarrGroup):
    """The variables and attributes of a file, before CF decoding, in the order of the file."""

    _group: NetcdfGroup

    def get_attrs(self) -> dict[str, Any]:
        """The attributes, with the types of the file."""
        return self._group.typed_attributes

    def get_encoding(self) -> dict[str, Any]:
        """The unlimited dimension."""
        return {"unlimited_dims": {name for name, _, unlimited in self._group.header["dimensions"] if unlimited}}

    def has_dimension(self, name: str) -> bool:
        """Whether a variable has the dimension."""
        return any(name in (array.dimension_names or ()) for array in self._arrays.values())

    def _variable(self, name: str, array: Array) -> Variable:
        assert isinstance(array, NetcdfArray)
        attributes = array.typed_attributes
        if array.dtype.kind == "S" and isinstance(attributes.get("_FillValue"), str):
            attributes["_FillValue"] = np.bytes_(attributes["_FillValue"].encode())
        encoding = {"source": self._place.target} if isinstance(self._place.target, str) else {}
        dimensions = array.dimension_names or ()
        data = indexing.LazilyIndexedArray(LazyArray(self._place.child(name), array))
        return Variable(dimensions, data, attributes, encoding)
