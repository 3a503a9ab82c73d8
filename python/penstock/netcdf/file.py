"""Groups and arrays of NetCDF classic files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import InvalidArgumentError
from penstock.core.group import Group, wrap
from penstock.target.place import place_of


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


def open_target(
    target: Any,
    path: str,
    context: Context,
    storage_options: Mapping[str, Any] | None = None,
    dataset: str | None = None,
) -> Array | Group:
    """The file that `target` is (a path, a URI or bytes), or its variable `path`, or `dataset`, as in HDF5 files."""
    if dataset is not None:
        if path:
            raise InvalidArgumentError(f"path={path!r} and dataset={dataset!r} both name a variable: give one of them")
        path = dataset
    if isinstance(target, bytes | bytearray | memoryview):
        store, key = _core.dict_store({"bytes.nc": bytes(target)}), b"bytes.nc"
    else:
        store, key = place_of(target, "", storage_options, context)
    inner = b"/".join(part for part in (key, os.fsencode(path.strip("/"))) if part)
    return wrap(_core.open_store(store, context, inner, False, None, None))


def _typed(values: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, kind in types.items():
        if kind == "|S1":
            out[name] = values[name]
        else:
            dtype = np.dtype(kind).newbyteorder("=")
            out[name] = np.array(values[name], dtype) if isinstance(values[name], list) else dtype.type(values[name])
    return out
