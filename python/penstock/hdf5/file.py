"""HDF5 and NetCDF4 files. The engine opens them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import UnsupportedError
from penstock.core.group import Group
from penstock.hdf5.group import Hdf5Group
from penstock.hdf5.source import Source
from penstock.hdf5.typed import typed_attributes
from penstock.hdf5.types import NoArrayError, numpy_dtype
from penstock.references.objects import ReferencedArray
from penstock.shards.stamps import Stamps


def typed_of(array: Array) -> dict[str, Any]:
    """The attributes with the types of the (first) HDF5 file that an array is in (NumPy scalars and arrays)."""
    plain: dict[str, Any] = array.attrs.asdict()
    return typed_attributes(plain, _core.hdf5_array_values(array)) if _core.has_hdf5_facts(array) else plain


def storage_of(array: Array) -> dict[str, Any]:
    """How the dataset is stored in the (first) file: `chunks`, `filters`, `maxshape`, `dtype`.

    `filters` has the parameters of each by the name that netCDF4-python or h5py uses, or by number if neither has one.
    Empty for arrays of other formats.
    """
    if not _core.has_hdf5_facts(array):
        return {}
    stored = json.loads(_core.hdf5_storage(array))
    return {
        "chunks": None if stored["chunks"] is None else tuple(stored["chunks"]),
        "maxshape": tuple(stored["maxshape"]),
        "filters": {name: tuple(values) for name, values in stored["filters"]},
        "dtype": _stored_dtype(stored),
    }


def is_compound(group: Group) -> bool:
    """Whether a group is a dataset of compounds whose members are opened one by one."""
    return _core.hdf5_is_compound(group)


class TypedArray(ReferencedArray):
    """An array of references with the facts of its HDF5 file. Read-only."""

    @property
    def typed_attributes(self) -> dict[str, Any]:
        """The attributes with the types of the (first) file (NumPy scalars and arrays)."""
        return typed_of(self)

    @property
    def storage(self) -> dict[str, Any]:
        """How the dataset is stored in the (first) file; {} for arrays of other formats."""
        return storage_of(self)


class Hdf5Array(TypedArray):
    """A dataset of an HDF5 file. Read-only."""

    # Datasets are opened by the thousand, and few callers need to know where they are.
    def __init__(self, made: _core.Array, place: Callable[[], tuple[Source, str]]) -> None:
        _core.Array.__init__(self, made)
        self._place = place

    def _stamps(self) -> Stamps:
        source = self._place()[0]
        return Stamps(source.storage_options, source.stamps)

    def _opened_again_by(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        source, path = self._place()
        return source.reopen(path)


def _stored_dtype(stored: Mapping[str, Any]) -> np.dtype[Any]:
    if "reference" in stored:
        dtype: np.dtype[Any] = np.dtype("O", metadata={"vlen": str, "reference": True})
    elif "text" in stored:
        dtype = np.dtype("O", metadata={"vlen": str if stored["text"] == "utf-8" else bytes})
    elif "list" in stored:
        dtype = np.dtype("O", metadata={"vlen": numpy_dtype(stored["list"])})
    else:
        dtype = np.dtype("<u2") if stored["dtype"] == "bfloat16" else numpy_dtype(stored["dtype"])
    if "enum" in stored:
        dtype = np.dtype(dtype.str, metadata={"enum": dict(stored["enum"]), "enum_name": stored["enum_name"]})
    return np.dtype((dtype, tuple(stored["shape"]))) if stored["shape"] else dtype


def open_node(
    source: Source,
    path: str,
    above: tuple[_core.Group, str] | None = None,
    *,
    found: _core.Found | None = None,
) -> Array | Group:
    """The dataset or group at `path` of the file.

    Parameters
    ----------
    above
        A group and the path from it, so that the metadata that it has read is reused.
    found
        The file with that path; its first bytes are read.
    """
    path = path.strip("/")
    store, key, size = source.place()
    inner = path.encode("utf-8", "surrogateescape")
    try:
        if above is not None:
            made = above[0]._open(above[1].encode("utf-8", "surrogateescape"))
        elif found is not None:
            made = found.open_hdf5(size, source.uri.startswith(("http:", "https:")))
        else:
            needs_ranges = source.uri.startswith(("http:", "https:"))
            made = _core.open_hdf5(store, source.context, key, inner, size, needs_ranges)
    except UnsupportedError as error:
        if _core.hdf5_is_no_array(store, key, inner):
            raise NoArrayError(error.message, *error.notes) from None
        if not source.without_ranges():
            raise
        return open_node(source, path)
    return wrapped(made, source, path)


def opened_here(made: _core.Array | _core.Group, found: _core.Found, context: Context) -> Array | Group:
    """A node of a local file that the engine has opened, in its public class."""
    if isinstance(made, _core.Array):
        return Hdf5Array(made, lambda: (Source.of_found(found, context), os.fsdecode(found.inner)))
    return Hdf5Group(made, Source.of_found(found, context), os.fsdecode(found.inner), open_node)


def wrapped(made: _core.Array | _core.Group, source: Source, path: str) -> Array | Group:
    """A node of a file in its public class."""
    if isinstance(made, _core.Array):
        return Hdf5Array(made, lambda: (source, path))
    return Hdf5Group(made, source, path, open_node)
