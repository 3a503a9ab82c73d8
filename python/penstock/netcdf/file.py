"""Groups and arrays of NetCDF classic files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.group import Group


class NetcdfArray(Array):
    """A variable of a NetCDF classic file. Read-only."""

    @property
    def typed_attributes(self) -> dict[str, Any]:
        """The attributes with the types of the file (NumPy scalars and arrays)."""
        return _typed(self.attrs.asdict(), json.loads(_core.netcdf_types(self)))


class NetcdfGroup(Group):
    """A NetCDF classic file, whose members are its variables. Read-only."""

    @property
    def typed_attributes(self) -> dict[str, Any]:
        """The attributes with the types of the file (NumPy scalars and arrays)."""
        header = self.header
        return _typed(header["attributes"], header["attribute_types"])

    @property
    def header(self) -> dict[str, Any]:
        """The contents of the header, in the order of the file.

        `version`: 1, 2 or 5. `dimensions`: for each its name, length, and whether it is unlimited. `variables`: names,
        stored dtypes, dimensions, attributes, the offset of each in the file, and its bytes (of one record).
        """
        made: dict[str, Any] = json.loads(_core.netcdf_header(self))
        return made


registry.register_class("netcdf", NetcdfArray)
registry.register_group_class("netcdf", NetcdfGroup)


def _typed(values: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, kind in types.items():
        if kind == "|S1":
            out[name] = values[name]
        else:
            dtype = np.dtype(kind).newbyteorder("=")
            out[name] = np.array(values[name], dtype) if isinstance(values[name], list) else dtype.type(values[name])
    return out
