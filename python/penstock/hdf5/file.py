"""HDF5 and NetCDF4 files: h5py reads what the file holds and where, the engine reads and decodes it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
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
    system_errors,
)
from penstock.core.group import Group
from penstock.hdf5.links import Members, find, members_of
from penstock.references.objects import UNPICKLABLE, Object, ReferencedArray, open_described
from penstock.target.without_ranges import content_without_ranges

if TYPE_CHECKING:
    from penstock.hdf5.dimensions import DimensionNames, ScaleNames


def import_h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise UnsupportedError("reading HDF5 and NetCDF4 needs the Python package h5py (pip install h5py)") from error
    return h5py


@dataclass
class Source:
    """A file: how h5py opens it, and where the engine finds its bytes."""

    target: Any  # a path, bytes, or a remote URI
    context: Context
    storage_options: Mapping[str, Any] | None
    uri: str
    _dimensions: tuple[Any, DimensionNames] | None = field(default=None, repr=False, compare=False)
    _scales: tuple[Any, ScaleNames] = field(default_factory=lambda: (None, {}), repr=False, compare=False)
    _content: tuple[bytes | None] | None = field(default=None, repr=False, compare=False)  # None: not looked for yet

    @classmethod
    def of(cls, target: Any, context: Context, storage_options: Mapping[str, Any] | None) -> Source:
        if isinstance(target, bytes | bytearray | memoryview):
            return cls(bytes(target), context, None, "memory:")
        if "://" in target and not os.path.exists(target):
            return cls(target, context, storage_options, target)
        path = os.path.abspath(target)
        return cls(path, context, None, f"file://{path}")

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The h5py file. Closed again at once: nothing of the library stays between reads."""
        h5py = import_h5py()
        stream = self.begin()
        try:
            file = h5py.File(stream, "r")
        except OSError as error:
            if isinstance(stream, str) and not os.path.exists(stream):
                raise NotFoundError(f"there is no file '{stream}'") from error
            if error.errno:  # the system's, not of what is in the file
                with system_errors(f"opening '{self.target}'"):
                    raise
            raise CorruptDataError(f"HDF5 cannot open the file: {error}", f"opening '{self.uri}'") from error
        with file:
            yield file

    def begin(self) -> Any:
        """What h5py opens: a path or a stream."""
        whole = self.content()
        if whole is not None:
            return io.BytesIO(whole)
        if self.is_remote:
            filesystem, path = self._filesystem()
            return filesystem.open(path, "rb")
        return self.target

    def content(self) -> bytes | None:
        """All bytes, where they are in memory: of bytes, and of files of servers that ignore ranges."""
        if isinstance(self.target, bytes):
            return self.target
        if self.is_remote and self._content is None:
            self._content = (content_without_ranges(*self._filesystem(), self.uri),)
        return self._content[0] if self._content is not None else None

    def _filesystem(self) -> tuple[Any, str]:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise UnsupportedError(f"opening '{self.uri}' needs the Python package fsspec") from error
        made: tuple[Any, str] = url_to_fs(self.uri, **dict(self.storage_options or {}))
        return made

    def read_at(self, offset: int, length: int) -> bytes:
        """Bytes of the file."""
        whole = self.content()
        if whole is not None:
            return whole[offset : offset + length]
        if self.is_remote:
            filesystem, path = self._filesystem()
            made: bytes = filesystem.cat_file(path, offset, offset + length)
            return made
        with open(self.target, "rb") as stream:
            stream.seek(offset)
            return stream.read(length)

    def file_object(self) -> Object:
        """The file as the engine reads it, pinned to what it is now."""
        whole = self.content()
        if whole is not None:
            return Object("memory:", data=whole)
        if self.is_remote:
            from penstock.target.place import to_reopen
            from penstock.target.stores import pinned_store, remote_stamp

            filesystem, path = self._filesystem()
            filesystem.invalidate_cache(path)
            stamp = remote_stamp(filesystem, path)
            made = Object(self.uri, pinned_store(filesystem, path, stamp), path.rpartition("/")[2])
            made.storage_options = to_reopen(self.uri, self.storage_options)
            made.remote_stamp = stamp
            return made
        folder, name = os.path.split(self.target)
        status = os.stat(self.target)
        return Object(
            self.target,
            _core.file_store(os.fsencode(folder)),
            name,
            pinned=True,
            path=self.target,
            stamp=(status.st_size, status.st_mtime_ns),
        )

    def holder(self, file: Any, found: Any) -> Source:
        """The file that `found` lies in, of what was found in the open `file`: a link may have led into another."""
        from h5py import h5o

        if h5o.get_info(found.id).fileno == h5o.get_info(file.id).fileno:
            return self
        name = found.file.filename
        if isinstance(self.target, bytes) or self.is_remote or not os.path.isfile(name):
            text = "links into other HDF5 files are followed only in files that are opened by a path"
            raise UnsupportedError(text)
        return Source.of(os.path.abspath(name), self.context, None)

    def dimension_names(self, path: str) -> tuple[str, ...] | None:
        """Of the dataset at `path`: numbers of dimensions without a name depend on all that the file holds."""
        from penstock.hdf5.dimensions import all_dimension_names

        now = self.stamp()
        if self._dimensions is None or self._dimensions[0] != now:
            with self.opened() as file:

                def check(group: Any) -> None:
                    _check_links(self.holder(file, group).file_object(), group)

                self._dimensions = now, all_dimension_names(file, check)
        return self._dimensions[1].of(path)

    def scale_names(self, stamp: tuple[int, ...] | None) -> ScaleNames | None:
        """The cache of scale names for the file's state `stamp`; None if its state is not known."""
        if stamp is None:
            return None
        if self._scales[0] != stamp:
            self._scales = stamp, {}
        return self._scales[1]

    @property
    def is_remote(self) -> bool:
        return bool(self.uri == self.target)

    def stamp(self) -> tuple[int, ...] | None:
        """What changes whenever a local file does."""
        if isinstance(self.target, bytes) or self.is_remote or not os.path.exists(self.target):
            return None
        status = os.stat(self.target)
        return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino

    def reopen(self, path: str) -> tuple[Any, tuple[Any, ...]]:
        target = UNPICKLABLE if isinstance(self.target, bytes) else self.target
        options = dict(self.storage_options) if self.storage_options else None
        return _reopen, (target, path, options)


def _reopen(target: str, path: str, storage_options: Mapping[str, Any] | None) -> Array | Group:
    from penstock.api.open import open

    return open(target, path, storage_options=storage_options)


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
                _check_links(holder.file_object(), found)
                return _open_group(source, found, path, uri)
            from penstock.hdf5.index import describe_dataset

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


def _check_links(file: Object, group: Any) -> None:
    """The library lists the links of a damaged group to its own end, and that of the process."""
    from h5py import h5o

    place = file.place()
    if place is None:
        return
    with suppress(UnsupportedError):
        _core.hdf5_check_group(*place, h5o.get_info(group.id).addr)


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
    from penstock.hdf5.types import attributes_json, attributes_of

    typed = attributes_of(found)
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes_json(typed)}
    store = _core.dict_store({"zarr.json": json.dumps(document).encode()}, None, False)
    made = _core.open_store(store, source.context, b"", False, None)
    assert isinstance(made, _core.Group)
    return Hdf5Group(made, source, path, uri, members_of(found), typed)


__all__ = ["Hdf5Group", "ReferencedArray", "open_node", "open_target"]
