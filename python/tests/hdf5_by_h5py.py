"""HDF5 files as h5py sees them: what the engine's driver is compared with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from penstock import _core
from penstock.core.array import Array
from penstock.core.errors import (
    ConflictError,
    CorruptDataError,
    Error,
    NotFoundError,
    UnsupportedError,
)
from penstock.core.group import Group
from penstock.hdf5.dimensions import DimensionNames
from penstock.hdf5.group import Hdf5Group
from penstock.hdf5.index import describe_dataset
from penstock.hdf5.links import Members, find, members_of
from penstock.hdf5.source import Source, check_links, import_h5py
from penstock.hdf5.types import attributes_json, attributes_of
from penstock.references.objects import open_described


def open_by_h5py(source: Source, path: str, open_member: Callable[..., Array | Group]) -> Array | Group:
    """What stands at `path` of the file."""
    h5py = import_h5py()
    path = path.strip("/")
    uri = source.uri + ("/" + quote(path, safe="/", errors="surrogateescape") if path else "")
    before = source.stamp()
    try:
        object_ = source.file_object() if source.is_remote else None  # of what it is before it is looked at
        with source.opened() as file:
            found = find(file, path)
            if found is None:
                raise NotFoundError(f"the file has no '{path}'")
            if isinstance(found, h5py.Datatype):
                raise UnsupportedError(f"'{path}' is a named type, no array")
            holder = source.holder(file, found)
            held = holder.stamp() if holder is not source else before
            if isinstance(found, h5py.Group):
                check_links(holder.file_object(), found)
                return _open_group(source, found, path, uri, open_member)
            scales = source.scale_names(before) if holder is source else None
            described = describe_dataset(found, object_ or holder.file_object(), uri, holder.read_at, scales=scales)
        made = open_described(described, source.context, source.reopen(path))
        if source.stamp() != before or holder.stamp() != held:
            raise ConflictError("the file changed while its index was read")
        return made
    except Error as error:
        raise _noted(error, f"opening '{uri}'") from error.__cause__
    except Exception as error:  # h5py raises anything where a file is damaged
        text = str(error).strip('"')
        raise CorruptDataError(f"HDF5 cannot read the file: {text}", f"opening '{uri}'") from error


def _noted(error: Error, note: str) -> Error:
    if note in error.notes:
        return error
    return type(error)(error.message, *error.notes, note)


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
        """What the group can be opened by."""
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
        return self._source.dimension_names(self._source.named_by_h5py)


def _open_group(
    source: Source, found: Any, path: str, uri: str, open_member: Callable[..., Array | Group]
) -> H5pyGroup:
    typed = attributes_of(found)
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes_json(typed)}
    store = _core.dict_store({"zarr.json": json.dumps(document).encode()}, None, False)
    made = _core.open_store(store, source.context, b"", False, None)
    assert isinstance(made, _core.Group)
    return H5pyGroup(uri, members_of(found), typed, made, source, path, open_member)
