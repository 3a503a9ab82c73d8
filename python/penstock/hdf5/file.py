"""HDF5 and NetCDF4 files: h5py reads what the file holds and where, the engine reads and decodes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import (
    ConflictError,
    CorruptDataError,
    Error,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from penstock.core.group import Group
from penstock.hdf5.index import describe_dataset
from penstock.hdf5.links import Members, find, members_of
from penstock.hdf5.source import Source, check_links, import_h5py
from penstock.hdf5.types import attributes_json, attributes_of
from penstock.references.objects import UNPICKLABLE, ReferencedArray, open_described


def open_target(
    target: Any,
    path: str,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    dataset: str | None = None,
) -> Array | Group:
    """What stands at `path` (or `dataset`, which must be one) of an HDF5 file."""
    return open_source(Source.of(target, context, storage_options), path, dataset)


def open_source(source: Source, path: str, dataset: str | None = None) -> Array | Group:
    """As `open_target`, of a file that is known."""
    where = "/".join(part for part in (path, dataset or "") if part)
    node = open_node(source, where)
    if dataset is not None and not isinstance(node, Array):
        raise InvalidArgumentError(f"'{dataset}' is a group of the file, not a dataset", f"in '{source.uri}'")
    return node


def open_node(source: Source, path: str) -> Array | Group:
    """What stands at `path` of the file."""
    h5py = import_h5py()
    path = path.strip("/")
    uri = source.uri + ("/" + quote(path, safe="/ ", errors="surrogateescape") if path else "")
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
                return _open_group(source, found, path, uri)
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


class Hdf5Group(Group):
    """A group of an HDF5 file: datasets and groups, opened when they are asked for. Read-only."""

    def __init__(self, made: _core.Group, source: Source, path: str, uri: str, names: Members, typed: dict[str, Any]):
        super().__init__(made)
        self._source, self._path, self._uri = source, path, uri
        self._names, self._typed = names, typed

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

    def keys(self) -> list[str]:
        """Names of the direct children, sorted."""
        return sorted(self._names.shown)

    @property
    def names_in_file_order(self) -> list[str]:
        """Names of the direct children in the order of the file: of creation where it has that, else sorted."""
        return list(self._names.shown)

    @property
    def hidden_scales(self) -> list[str]:
        """Names of netCDF's dimensions without a variable."""
        return list(self._names.stand_ins)

    def __getitem__(self, path: str) -> Array | Group:
        if not isinstance(path, str):
            raise TypeError(f"a group's children have names, not {type(path).__name__}")
        return open_node(self._source, f"{self._path}/{path.strip('/')}")

    def _children(self) -> Iterator[tuple[str, Array | Group]]:
        return ((name, self[name]) for name in self.keys())

    def dimension_names(self, name: str) -> tuple[str, ...]:
        """A name for each dimension of a direct child: where the file has none, the one that netCDF would give it."""
        made = self._source.dimension_names(f"{self._path}/{name}".strip("/"))
        if made is None:
            self[name]  # a damaged dataset has an error of its own
            raise NotFoundError(f"the group has no dataset '{name}'", f"in '{self.uri}'")
        return made

    def __repr__(self) -> str:
        return f"<penstock.Group {self.uri!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        function, arguments = self._source.reopen(self._path)
        if UNPICKLABLE in arguments:
            raise TypeError(f"cannot pickle {self!r}: only groups opened by path can be opened again elsewhere")
        return function, arguments


def _open_group(source: Source, found: Any, path: str, uri: str) -> Hdf5Group:
    typed = attributes_of(found)
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes_json(typed)}
    store = _core.dict_store({"zarr.json": json.dumps(document).encode()}, None, False)
    made = _core.open_store(store, source.context, b"", False, None)
    assert isinstance(made, _core.Group)
    return Hdf5Group(made, source, path, uri, members_of(found), typed)


__all__ = ["Hdf5Group", "ReferencedArray", "open_node", "open_target"]
