"""Groups."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.attributes import Attributes
from penstock.core.data_types import dtype_json, native_dtype
from penstock.core.errors import Error, InvalidArgumentError, NotFoundError, ReadOnlyError

_COMPARED = 10_000  # names of a group that a mistyped one is compared with


def wrap(node: _core.Array | _core.Group) -> Array | Group:
    """Wrap an object of the engine in its public class."""
    if not isinstance(node, _core.Array):
        group: Group = registry.group_class_of(node.format, Group)(node)
        return group
    made: Array = registry.class_of(node.format, Array)(node)
    return made


class Group(_core.Group):
    """An open group. Made by `penstock.open`; iterating gives the names of its children, sorted.

    A `collections.abc.Mapping` of names to arrays and groups: `g.get(name)`, `g.items()` and `in` work as for a dict.

    Examples
    --------
    >>> run = ps.create_group("run.zarr")
    >>> t = run.create_array("surface/t", data=np.full((2, 3), 280.0), chunks=(1, 3))
    >>> run["p"] = np.ones(3)
    >>> list(run), "surface/t" in run, len(run)
    (['p', 'surface'], True, 2)
    >>> run["surface/t"][0]
    array([280., 280., 280.])
    >>> print(run.tree())
    /
    ├── p (3,) float64
    └── surface
        └── t (2, 3) float64
    >>> [path for path, node in run.members(max_depth=None)]
    ['p', 'surface', 'surface/t']
    >>> [name for name, a in run.arrays()], list(run.group_keys())
    (['p'], ['surface'])
    >>> [name for name, g in run.groups()], list(run.array_keys())
    (['surface'], ['p'])
    >>> [type(each).__name__ for each in run.values()] == [type(each).__name__ for _, each in run.items()]
    True
    >>> run.get("q", "none")
    'none'
    >>> del run["p"]
    >>> list(run.keys())
    ['surface']
    """

    _storage_options: dict[str, Any] | None = None  # as of arrays
    _opened_from: registry.OpenedFrom | None = None

    # `uri`, `format`, `read_only` and `keys` are _core's.

    def _check_format(self) -> None:
        """Refuse writes to nodes that are shown as groups but are not groups in storage: HDF5, references."""
        if not self.format.startswith("zarr"):
            message = f"the group '{self.uri}' has format {self.format}, which is read-only"
            raise ReadOnlyError(message)

    @property
    def attrs(self) -> Attributes:
        """The attributes: a mapping whose changes are written at once."""
        return Attributes(self)

    @attrs.setter
    def attrs(self, attributes: Mapping[str, Any]) -> None:
        self.attrs.put(attributes)

    def __getitem__(self, path: str) -> Array | Group:
        """The child with that name or path. Raises `NotFoundError` (a KeyError)."""
        if not isinstance(path, str):
            raise TypeError(f"a group's children have names, not {type(path).__name__}")
        try:
            return self._member(path)
        except NotFoundError as error:
            raise _with_suggestion(self, path, error) from None

    def _member(self, path: str) -> Array | Group:
        child = wrap(self._open(os.fsencode(path)))
        registry.reopen_as(child, self)
        return child

    def __setitem__(self, path: str, data: Any) -> None:
        """Write an array under that name; it replaces a node with the same name."""
        self.create_array(path, data=data, overwrite=True)

    def __delitem__(self, path: str) -> None:
        """Erase the child with that name or path, and everything in it."""
        if not isinstance(path, str):
            raise TypeError(f"a group's children have names, not {type(path).__name__}")
        self._check_format()
        _core.erase(self, os.fsencode(path))

    def create_array(self, name: str, **options: Any) -> Array:
        """Make a new array below this group and open it.

        Parameters
        ----------
        name
            The path of the array below the group; missing groups are created.
        options
            Those of `penstock.create_array`, except `target`, `path`, `name` and `zarr_format`.

        Returns
        -------
        Array

        Raises
        ------
        ReadOnlyError
            The group is read-only, or not Zarr.
        InvalidArgumentError
            A node exists there, or an option is not valid.

        Examples
        --------
        >>> run = ps.create_group("run.zarr")
        >>> run.create_array("t", shape=(365, 10), dtype="f4", chunks=(30, 10)).chunks
        (30, 10)
        """
        self._check_format()
        made: Array = registry.call("create_array", self, name, **options)
        return made

    def create_group(self, name: str, *, attributes: Mapping[str, Any] | None = None, overwrite: bool = False) -> Group:
        """Make a new group below this one and open it.

        Parameters
        ----------
        name
            The path of the group below this one; missing groups are created.
        attributes, overwrite
            As for `penstock.create_group`.

        Returns
        -------
        Group

        Raises
        ------
        ReadOnlyError
            The group is read-only, or not Zarr.
        InvalidArgumentError
            A node exists there, and `overwrite` is false.

        Examples
        --------
        >>> run = ps.create_group("run.zarr")
        >>> run.create_group("ocean", attributes={"depths": 3}).attrs
        {'depths': 3}
        """
        self._check_format()
        made: Group = registry.call("create_group", self, name, attributes=attributes, overwrite=overwrite)
        return made

    def require_group(self, name: str, **options: Any) -> Group:
        """Open the group with that name; it is created if it does not exist.

        Parameters
        ----------
        name
            The path of the group below this one.
        options
            Those of `create_group`, for a new group.

        Returns
        -------
        Group

        Raises
        ------
        InvalidArgumentError
            An array has the name.
        ReadOnlyError
            No node has the name, and the group is read-only.

        Examples
        --------
        >>> run = ps.create_group("run.zarr")
        >>> run.require_group("ocean").uri == run.require_group("ocean").uri
        True
        """
        try:
            node = self[name]
        except NotFoundError:
            return self.create_group(name, **options)
        if not isinstance(node, Group):
            raise InvalidArgumentError(f"'{node.uri}' is an array, not a group")
        return node

    def require_array(
        self,
        name: str,
        *,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: Any = None,
        exact: bool = False,
        **options: Any,
    ) -> Array:
        """Open the array with that name, or create it if it does not exist.

        Parameters
        ----------
        name
            The path of the array below this group.
        shape, dtype
            Of a new array, which an existing one must have; None: float64, of an existing one only.
        exact
            Require the same dtype. False: NumPy must be able to cast that of the existing array to `dtype` safely.
        options
            Those of `create_array`, for a new array.

        Returns
        -------
        Array

        Raises
        ------
        InvalidArgumentError
            A group has the name, or an array with another shape or dtype.
        ReadOnlyError
            No node has the name, and the group is read-only.

        Examples
        --------
        >>> run = ps.create_group("run.zarr")
        >>> run.require_array("t", shape=(365, 10), dtype="f4")[0] = 280
        >>> float(run.require_array("t", shape=(365, 10), dtype="f8")[0, 0])
        280.0
        """
        try:
            node = self[name]
        except NotFoundError:
            return self.create_array(name, shape=shape, dtype=dtype, **options)
        if not isinstance(node, Array):
            raise InvalidArgumentError(f"'{node.uri}' is a group, not an array")
        lengths = (shape,) if isinstance(shape, SupportsIndex) else tuple(shape)
        if node.shape != lengths:
            raise InvalidArgumentError(f"'{node.uri}' has shape {node.shape}, not {lengths}")
        described = dtype_json("float64" if dtype is None else dtype, 3)
        wanted = node.dtype if described in ("string", "bytes") and node._has_items else native_dtype(described)
        if wanted is None or (node.dtype != wanted if exact else not np.can_cast(node.dtype, wanted)):
            raise InvalidArgumentError(f"'{node.uri}' has dtype {node.dtype}, not {wanted or dtype}")
        return node

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str) or not path.strip("/"):
            return False
        try:
            self._member(path)
        except NotFoundError:
            return False
        return True

    def get(self, path: str, default: Any = None) -> Any:
        """Return the child with that name or path; `default` if the group has none."""
        try:
            return self._member(path) if isinstance(path, str) and path.strip("/") else default
        except NotFoundError:
            return default

    def values(self) -> list[Array | Group]:
        """Return the direct children, opened, in the order of `keys`."""
        return [node for _, node in self._children()]

    def items(self) -> list[tuple[str, Array | Group]]:
        """Return (name, child) of each direct child, in the order of `keys`."""
        return list(self._children())

    @property
    def info(self) -> Any:
        """The tree and the attributes as text, which `print` shows: with shapes, types and sizes; for large groups only
        the beginning.

        Members of a remote store without consolidated metadata are not listed.
        """
        return registry.call("group_info", self)

    def _repr_html_(self) -> str:
        """The HTML for notebooks: the tree of `info`, and the attributes."""
        made: str = registry.call("group_html", self)
        return made

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The text of `info` for IPython in a terminal; one line within lists."""
        nested = cycle or len(getattr(printer, "stack", ())) > 1
        printer.text(repr(self) if nested else registry.call("group_text", self))

    def __array__(self, *unused: Any, **unused_too: Any) -> Any:
        """Refused: a group would become an array of its members' names."""
        raise TypeError(f"'{self.uri}' is a group, not an array: take one of its members")

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def members(self, max_depth: int | None = 0) -> Iterator[tuple[str, Array | Group]]:
        """Yield (path, node) of each direct child and of all nodes up to `max_depth` levels below them.

        Parameters
        ----------
        max_depth
            None: all levels. HDF5: if a link leads to a group that contains it, the group's members are not yielded
            again.

        Yields
        ------
        tuple of str and Array or Group
            The path relative to this group, and the open node.
        """
        yield from _members_below(self, max_depth, (_core.group_identity(self),))

    def _children(self) -> Iterator[tuple[str, Array | Group]]:
        """(name, node) of every direct child."""
        for name, made in self._members():
            child = wrap(made)
            registry.reopen_as(child, self)
            yield name, child

    def array_keys(self) -> Iterator[str]:
        """Yield the names of the direct children that are arrays."""
        return (name for name, _ in self.arrays())

    def group_keys(self) -> Iterator[str]:
        """Yield the names of the direct children that are groups."""
        return (name for name, _ in self.groups())

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield (name, array) of the direct children that are arrays."""
        return ((name, node) for name, node in self.members() if isinstance(node, Array))

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Yield (name, group) of the direct children that are groups."""
        return ((name, node) for name, node in self.members() if isinstance(node, Group))

    def tree(self) -> str:
        """Return the hierarchy as text, an array with its shape and dtype.

        A member that cannot be opened has the error in its line. HDF5: a group to which several links lead is shown
        once, and then as `-> path`.
        """
        return "\n".join(["/", *_branches(self, "", "", {})])

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.keys())

    def __repr__(self) -> str:
        return f"<penstock.Group {self.uri!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return registry.reopen, (*registry.location_of(self), "r" if self.read_only else None)

    def __dask_tokenize__(self) -> tuple[str, str]:
        """A new name each time, as of arrays: storage may have changed."""
        return "penstock.Group", uuid.uuid4().hex


Mapping.register(Group)


def _with_suggestion(group: Group, path: str, error: NotFoundError) -> NotFoundError:
    """The error, with the name closest to the missing one; members of a remote group are not listed for it."""
    if not (group.uri.startswith(("file:", "zip:", "memory:")) or getattr(group, "consolidated", False)):
        return error
    parent, _, name = path.strip("/").rpartition("/")
    try:
        node = group._member(parent) if parent else group
        names = list(node.keys()) if isinstance(node, Group) else []
    except NotFoundError:
        return _with_suggestion(group, parent, error)
    except (Error, OSError):
        return error
    like = _core.nearest_word(name, names[:_COMPARED])
    where = f"{parent}/{like}" if parent else like
    return type(error)(error.message, *error.notes, f"did you mean '{where}'?") if like else error


def _members_below(group: Group, max_depth: int | None, above: tuple[str, ...]) -> Iterator[tuple[str, Array | Group]]:
    """As `Group.members`; `above` are the identities of the group and of those that contain it."""
    for name, node in group._children():
        yield name, node
        if not isinstance(node, Group) or not (max_depth is None or max_depth > 0):
            continue
        identity = _core.group_identity(node)
        if identity and identity in above:
            continue
        deeper = None if max_depth is None else max_depth - 1
        for path, below in _members_below(node, deeper, (*above, identity)):
            yield f"{name}/{path}", below


def _branches(group: Group, indent: str, path: str, known: dict[str, str]) -> Iterator[str]:
    """The lines of a group's members; `known` has the paths of the groups that were shown, by their identity."""
    known.setdefault(_core.group_identity(group), path or "/")
    try:
        members = _members_or_errors(group)
    except (Error, OSError) as error:
        yield f"{indent}└── {_reason(error)}"
        return
    for i, (name, node) in enumerate(members):
        last = i == len(members) - 1
        label, shown = _core.printable(name), None
        if isinstance(node, Array):
            label += f" {node.shape} {node.dtype}"
        elif not isinstance(node, Group):
            label += f"  {_reason(node)}"
        elif identity := _core.group_identity(node):
            shown = known.get(identity)
            label += f" -> {_core.printable(shown)}" if shown else ""
        yield f"{indent}{'└── ' if last else '├── '}{label}"
        if isinstance(node, Group) and shown is None:
            yield from _branches(node, indent + ("    " if last else "│   "), f"{path}/{name}", known)


def _members_or_errors(group: Group) -> list[tuple[str, Array | Group | Exception]]:
    """The direct children; errors in place of those that cannot be opened."""
    try:
        return list(group.members())  # all at once, which takes fewer round trips
    except (Error, OSError):
        made: list[tuple[str, Array | Group | Exception]] = []
        for name in group.keys():  # noqa: SIM118
            try:
                made.append((name, group._member(name)))
            except (Error, OSError) as error:
                made.append((name, error))
        return made


def _reason(error: Exception) -> str:
    text = f"{error.code}: {error.message}" if isinstance(error, Error) else str(error)
    return _core.printable(text)
