"""Attributes of HDF5 files with the types of the files: NumPy's scalars and arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.hdf5.types import netcdf_value, numpy_dtype


def typed_attributes(values: Mapping[str, Any], typed: Sequence[tuple[str, str, bytes]]) -> dict[str, Any]:
    """The attributes with their types, from plain values and the engine's additional facts.

    Text is str, and one number is a number: netCDF's attributes are lists in the file, but have that meaning.
    """
    out = dict(values)
    for name, form, items in typed:
        out[name] = netcdf_value(_typed(out[name], json.loads(form), items))
    return out


def _typed(value: Any, form: dict[str, Any], items: bytes) -> Any:
    shape = tuple(form["shape"])
    if "lists" in form:
        dtype = numpy_dtype(form["lists"])
        if shape in ((), (1,)):
            return _numbers(value, dtype)
        if len(shape) == 1:
            return [np.atleast_1d(_numbers(each, dtype)) for each in value]
        return _objects(value, shape, dtype)
    if "texts" in form:
        return _objects(value, shape, None)
    if "numbers" in form:
        return np.array(value, numpy_dtype(form["numbers"])).reshape(shape)[()]
    dtype = numpy_dtype(form["dtype"])
    return np.frombuffer(items, dtype).reshape(shape).copy()[()]


def _objects(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any] | None) -> Any:
    """An array of objects from nested lists."""
    out = np.empty(shape, object)
    for at in np.ndindex(shape):
        each = value
        for index in at:
            each = each[index]
        out[at] = each if dtype is None else _numbers(each, dtype)
    return out


def _numbers(value: Any, dtype: np.dtype[Any]) -> Any:
    """An array of the items of a list, or a scalar. Complex numbers are pairs in JSON, and one of them is an array."""
    if dtype.kind == "c":
        parts = np.array(value, f"{dtype.byteorder}f{dtype.itemsize // 2}")
        return parts.reshape(-1).view(dtype)
    return np.array(value, dtype) if isinstance(value, list) else dtype.type(value)
