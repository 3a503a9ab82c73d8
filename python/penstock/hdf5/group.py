"""Groups of HDF5 files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.errors import ConflictError, InvalidArgumentError, NotFoundError
from penstock.core.group import Group
from penstock.hdf5.dimensions import DimensionNames
from penstock.hdf5.regions import read_region, split_region
from penstock.hdf5.rows import read_rows
from penstock.hdf5.source import Source
from penstock.hdf5.typed import typed_attributes
from penstock.hdf5.types import NoArrayError
from penstock.references.objects import UNPICKLABLE
from penstock.shards.stamps import Stamps


@dataclass(frozen=True)
class Members:
    """Names of a group's members, in the order of the file."""

    shown: list[str]  # datasets and groups
    stand_ins: list[str]  # netCDF's marks for dimensions without a variable


class Hdf5Group(Group):
    """A group of an HDF5 file: datasets and groups, opened when they are accessed. Read-only."""

    def __init__(
        self,
        made: _core.Group,
        source: Source,
        path: str,
        open_member: Callable[[Source, str, tuple[_core.Group, str] | None], Array | Group],
    ) -> None:
        super().__init__(made)
        self._source, self._path, self._open_member = source, path, open_member

    @property
    def typed_attributes(self) -> dict[str, Any]:
        """The attributes with the types of the file (NumPy scalars and arrays)."""
        return typed_attributes(self.attrs.asdict(), _core.hdf5_group_values(self))

    @functools.cached_property
    def _names(self) -> Members:
        """The members at the time when the group was opened; if the file has changed, at the time of their first
        use."""
        try:
            shown, stand_ins = _core.hdf5_members(self)
        except ConflictError:
            if self._source.is_remote:
                raise
            now = self._open_member(self._source, self._path, None)
            if not isinstance(now, Hdf5Group):
                raise
            return now._names
        return Members([_text(each) for each in shown], [_text(each) for each in stand_ins])

    def keys(self) -> list[str]:
        """Names of the direct children, sorted."""
        return sorted(self._names.shown)

    @property
    def names_in_file_order(self) -> list[str]:
        """Names of the direct children in the order of the file: the order of creation if the file has it, else
        sorted."""
        return list(self._names.shown)

    @property
    def hidden_scales(self) -> list[str]:
        """Names of netCDF's dimensions without a variable."""
        return list(self._names.stand_ins)

    def __getitem__(self, path: Any) -> Any:
        """The child with that name or path. For a dataset whose members are its children, a selection returns its
        elements as a structured array: text is `str`, lists are arrays, references are paths."""
        if isinstance(path, str) or not _core.hdf5_is_compound(self):
            return super().__getitem__(path)
        return read_rows(self, path)

    def region(self, text: str) -> npt.NDArray[Any]:
        """Read the elements that a region reference names.

        Parameters
        ----------
        text
            The text of the reference: an element of a dataset, or an attribute (`/data[0:4, 2:9]`). Its path begins at
            the root of the file.

        Returns
        -------
        numpy.ndarray
            One box with its dimensions. The elements of several boxes, and points, are in one row.

        Raises
        ------
        InvalidArgumentError
            The text is not that of a region.
        """
        path, region = split_region(text)
        node = self._open_member(self._source, path.strip("/"), None)
        if not isinstance(node, Array):
            raise InvalidArgumentError(f"'{path}' is a group, so it has no regions", f"in '{self.uri}'")
        return read_region(node, region)

    def _member(self, path: str) -> Array | Group:
        # An opening of a local file reads its current state; that of a remote file uses the metadata that the group has
        # fetched.
        path = path.strip("/")
        above = (self, path) if self._source.is_remote else None
        return self._open_member(self._source, f"{self._path}/{path}".strip("/"), above)

    def _children(self) -> Iterator[tuple[str, Array | Group]]:
        return ((name, self[name]) for name in self.keys())

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """(name, array) of the direct children that are arrays. Skips datasets that are not readable as arrays."""
        return ((name, node) for name, node in self._nodes() if isinstance(node, Array))

    def groups(self) -> Iterator[tuple[str, Group]]:
        """(name, group) of the direct children that are groups. Skips datasets that are not readable as arrays."""
        return ((name, node) for name, node in self._nodes() if isinstance(node, Group))

    def _nodes(self) -> Iterator[tuple[str, Array | Group]]:
        for name in self.keys():
            try:
                node = self[name]
            except NoArrayError:
                continue
            yield name, node

    def dimension_names(self, name: str) -> tuple[str, ...]:
        """A name for each dimension of a direct child: if the file has none, the one that netCDF would use."""
        home = self._path if self._elsewhere is None else self._elsewhere
        made = self._dimension_names().of(f"{home}/{name}".strip("/"))
        if made is None:
            node = self[name]  # opening a damaged dataset reports its own error
            if isinstance(node, Array):  # reached through a link into another file
                return self._names_of(node)
            raise NotFoundError(f"the group has no dataset '{name}'", f"in '{self.uri}'")
        return made

    def _dimension_names(self) -> DimensionNames:
        if self._elsewhere is not None:
            return self._own_dimension_names
        return self._source.dimension_names(lambda: _named_by_engine(self))

    def _stamps(self) -> Stamps:
        return Stamps(self._source.storage_options, self._source.stamps)

    @property
    def _elsewhere(self) -> str | None:
        """The path in the file that the group is in, if a link led there."""
        store, key, _ = self._source.place()
        found = _core.hdf5_path_elsewhere(self, store, key)
        return None if found is None else _text(found)

    @functools.cached_property
    def _own_dimension_names(self) -> DimensionNames:
        return _named_by_engine(self)

    def _names_of(self, linked: Array) -> tuple[str, ...]:
        """For a dataset in another file: dimensions without a name are numbered after those of this file, by length."""
        first = self._dimension_names().next_number
        names = list(linked.dimension_names or [None] * linked.ndim)
        for d, length in enumerate(linked.shape):
            if names[d] is None:
                key = length, sum(other == length for other in linked.shape[:d])  # not twice in one dataset
                names[d] = f"phony_dim_{first + self._numbers.setdefault(key, len(self._numbers))}"
        return tuple(str(name) for name in names)

    @functools.cached_property
    def _numbers(self) -> dict[tuple[int, int], int]:
        return {}

    def __repr__(self) -> str:
        return f"<penstock.Group {self.uri!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        function, arguments = self._source.reopen(self._path)
        if UNPICKLABLE in arguments:
            raise registry.not_reopened(self, "groups")
        return function, arguments


def _named_by_engine(group: Group) -> DimensionNames:
    names, links = _core.hdf5_dimension_names(group)
    return DimensionNames(
        {_text(path): each for path, each in names.items()},
        {_text(path): _text(first) for path, first in links.items()},
    )


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
