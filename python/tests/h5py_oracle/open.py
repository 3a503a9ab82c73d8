"""Nodes of local HDF5 files, opened by h5py."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import h5py
from penstock import _core
from penstock.core.array import Array
from penstock.core.group import Group
from penstock.hdf5.dimensions import DimensionNames
from penstock.hdf5.group import Hdf5Group, Members
from penstock.hdf5.source import Source
from penstock.references.objects import Object, ReferencedArray, open_described

from h5py_oracle.dimensions import all_dimension_names
from h5py_oracle.index import Seen, describe_dataset
from h5py_oracle.links import find, members_of
from h5py_oracle.types import attributes_json, attributes_of


class H5pyArray(ReferencedArray):
    """A dataset that h5py has described."""

    def __init__(self, made: _core.Array, seen: Seen, source: Source, path: str) -> None:
        super().__init__(made, seen, source.reopen(path))
        self._seen = seen

    @property
    def typed_attributes(self) -> dict[str, Any]:
        """The attributes with the types of the file (NumPy scalars and arrays)."""
        return dict(self._seen.typed_attributes)

    @property
    def storage(self) -> dict[str, Any]:
        """How the dataset is stored."""
        return dict(self._seen.storage)


class H5pyGroup(Hdf5Group):
    """A group that h5py has listed."""

    def __init__(self, uri: str, names: Members, typed: dict[str, Any], *of_group: Any) -> None:
        super().__init__(*of_group)
        self._uri, self._listed, self._typed = uri, names, typed

    @property
    def _names(self) -> Members:
        return self._listed

    @property
    def _elsewhere(self) -> None:
        return None

    @property
    def uri(self) -> str:
        """The arguments that open the group again."""
        return self._uri

    @property
    def format(self) -> str:
        """`hdf5`"""
        return "hdf5"

    @property
    def typed_attributes(self) -> dict[str, Any]:
        """The attributes with the types of the file (NumPy scalars and arrays)."""
        return dict(self._typed)

    def _dimension_names(self) -> DimensionNames:
        with h5py.File(self._source.target, "r") as file:
            return all_dimension_names(file, lambda group: None)


def open_by_h5py(source: Source, path: str, open_member: Callable[..., Array | Group]) -> Array | Group:
    """The node at `path` of a local file. Raises LookupError if it does not exist."""
    path = path.strip("/")
    uri = source.uri + ("/" + quote(path, safe="/", errors="surrogateescape") if path else "")
    with h5py.File(source.target, "r") as file:
        found = find(file, path)
        if found is None:
            raise LookupError(path)
        if isinstance(found, h5py.Group):
            return _open_group(source, found, path, uri, open_member)
        seen = describe_dataset(found, object_of(source.target), uri, _reader(source.target))
    made = open_described(seen, source.context, source.reopen(path))
    return H5pyArray(made, seen, source, path)


def object_of(path: str) -> Object:
    """A local file as references name it."""
    folder, name = os.path.split(path)
    return Object(path, _core.file_store(os.fsencode(folder)), name, pinned=True, path=path)


def _reader(path: str) -> Callable[[int, int], bytes]:
    def read_at(offset: int, length: int) -> bytes:
        with open(path, "rb") as stream:
            stream.seek(offset)
            return stream.read(length)

    return read_at


def _open_group(
    source: Source, found: Any, path: str, uri: str, open_member: Callable[..., Array | Group]
) -> H5pyGroup:
    typed = attributes_of(found)
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes_json(typed)}
    store = _core.dict_store({"zarr.json": json.dumps(document).encode()}, None, False)
    made = _core.find_node(store, source.context, b"", b"").open()
    assert isinstance(made, _core.Group)
    return H5pyGroup(uri, members_of(found), typed, made, source, path, open_member)
