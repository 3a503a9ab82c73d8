"""HDF5's element types and attributes for NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.errors import UnsupportedError


def numpy_dtype(stored: Any) -> np.dtype[Any]:
    """NumPy's dtype for a dtype of .zarray or of the items of lists; fields without a name are gaps.

    Items of lists may be arrays: a pair of a dtype and a shape.
    """
    if isinstance(stored, str):
        return np.dtype(stored)
    if isinstance(stored, dict):  # the codec of items of variable length
        kinds = {"vlen-utf8": str, "vlen-bytes": bytes}
        vlen = numpy_dtype(stored["dtype"]) if "dtype" in stored else kinds[stored["id"]]
        return np.dtype("O", metadata={"vlen": vlen})
    if len(stored) == 2 and stored[1] and isinstance(stored[1][0], int):
        return np.dtype((numpy_dtype(stored[0]), tuple(stored[1])))
    parts: dict[str, list[Any]] = {"names": [], "formats": [], "offsets": []}
    at = 0
    for name, inner, *shape in stored:
        one = np.dtype((numpy_dtype(inner), tuple(shape[0]) if shape else ()))
        if name:
            parts["names"].append(name)
            parts["formats"].append(one)
            parts["offsets"].append(at)
        at += one.itemsize
    return np.dtype({**parts, "itemsize": at})  # type: ignore[call-overload,no-any-return]


class NoArrayError(UnsupportedError):
    """Not an array: a dataset without a dataspace (H5S_NULL), or of elements that the format's page refuses."""


def netcdf_value(value: Any) -> Any:
    """Text as str, and one number as a number: netCDF's attributes are lists in the file, but have that meaning."""
    if isinstance(value, np.ndarray) and value.shape == (1,):
        value = value[0]
    if isinstance(value, np.ndarray) and value.dtype.kind in "SO":
        return [netcdf_value(each) for each in value.reshape(-1)] if value.ndim == 1 else value
    return as_text(value) if isinstance(value, str | bytes) else value


def as_text(value: str | bytes) -> str:
    """Text in which U+FFFD replaces bytes that are not UTF-8, as in netCDF4. h5py returns surrogates or bytes there."""
    if isinstance(value, str):
        if value.isascii():
            return value
        value = value.encode("utf-8", "surrogateescape")
    return value.decode("utf-8", "replace")
