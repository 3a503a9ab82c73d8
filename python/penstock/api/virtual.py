"""`open_virtual`: many files as one group."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock import _core
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.errors import InvalidArgumentError, NotFoundError
from penstock.core.group import Group
from penstock.hdf5.file import TypedArray
from penstock.references.objects import UNPICKLABLE
from penstock.shards.names import Files, is_node, is_wild, names_of
from penstock.shards.stamps import PinnedFiles, Stamps
from penstock.target.place import place_of

_ORDERS = {None: "given", "values": "values", False: "unchecked"}
_Reopen = tuple[Callable[..., Any], tuple[Any, ...]]


class VirtualArray(TypedArray):
    """A variable of many files. Read-only."""

    def __init__(self, made: _core.Array, reopen: _Reopen, stamps: Stamps) -> None:
        super().__init__(made, None, reopen)
        self._find_stamps = stamps

    def _stamps(self) -> Stamps:
        return self._find_stamps


class VirtualGroup(Group):
    """Variables of many files, from `open_virtual` and manifests of groups. Read-only."""

    def __init__(
        self, made: _core.Group, reopen: _Reopen, stamps: Stamps, first: Callable[[], Any] | None = None
    ) -> None:
        super().__init__(made)
        self._reopen, self._find_stamps, self._open_first = reopen, stamps, first

    def _wrap(self, name: str, made: _core.Array | _core.Group) -> Array | Group:
        assert isinstance(made, _core.Array)
        return VirtualArray(made, (_member, (self._reopen, name)), self._find_stamps)

    def _stamps(self) -> Stamps:
        return self._find_stamps

    def __getitem__(self, path: str) -> Array | Group:
        if not isinstance(path, str):
            raise TypeError(f"a group's children have names, not {type(path).__name__}")
        return self._wrap(path, self._open(os.fsencode(path)))

    def _children(self) -> Iterator[tuple[str, Array | Group]]:
        return ((name, self._wrap(name, made)) for name, made in self._members())

    def first_file(self) -> Any:
        """The group of the first file, opened on its own; None for a manifest."""
        return None if self._open_first is None else self._open_first()

    def __reduce__(self) -> tuple[Any, ...]:
        function, arguments = self._reopen
        if UNPICKLABLE in arguments:
            raise registry.not_reopened(self, "groups")
        return function, arguments


def open_virtual(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    concat: str,
    group: str = "",
    sort: str | bool | None = None,
    missing: str = "error",
    attributes: str = "meaning",
    compare: str = "shape",
    variables: str | Sequence[str] | None = None,
    drop_variables: str | Sequence[str] | None = None,
    store: Any = None,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Open many files as one group of variables that are joined along a dimension.

    Each variable that has the dimension `concat` is joined from all files; other variables are taken from the first
    file. Metadata are read once, in parallel. The only values that are read are those of the coordinate, the
    one-dimensional variable named `concat`, which is kept in memory.

    Parameters
    ----------
    files
        A pattern ("run/*.nc", also a URI), a folder, one file, or a list of paths or URIs in one place: HDF5, NetCDF
        (4 and classic), Zarr, references. Files that are one array (TIFF, `.npy`) have the variable `data`.
    concat
        The name of the dimension. Files may have different lengths along it.
    group
        The group in each file.
    sort
        None: lists keep their order, files of patterns are sorted by the numbers in their names; values of the
        coordinate that are not in order are an error. "values": by the first value of the coordinate. False: as None,
        without a check of the values.
    missing
        "error" or "fill": variables that a file does not have are the fill value there.
    attributes
        "meaning": attributes that change the meaning of stored values (scale_factor, add_offset, _FillValue, units,
        calendar, ...) must be the same in all files; "all": every attribute. Those of the first file are shown. A
        coordinate of times with another reference date is converted to the units of the first file, if its numbers
        allow that.
    compare
        For variables without `concat`: "shape" (and dtype) or "values" must be the same in all files.
    variables, drop_variables
        Open only these; omit these.
    store
        A store object; `files` are a pattern or keys in it.
    context
        Threads and limits; None: the current one.
    storage_options
        As for `penstock.open`.

    Returns
    -------
    Group
        Read-only. `save_manifest` can save it if all files store the variables in the same way.

    Raises
    ------
    InvalidArgumentError
        Files that do not fit together: the message names the variable and two files.
    ConflictError
        In a read: a file changed since it was opened.
    NotFoundError
        Nothing matches the pattern, a file has no known format, or no file has one of `variables`.

    Examples
    --------
    >>> for month in range(3):
    ...     g = ps.create_group(f"m{month}.zarr")
    ...     t = ps.create_array(g, "t", data=np.full((30, 4), 280.0), dimension_names=("time", "x"))
    ...     days = ps.create_array(g, "time", data=np.arange(30) + 30 * month, dimension_names=("time",))
    >>> year = ps.open_virtual("m*.zarr", concat="time")
    >>> year["t"].shape
    (90, 4)
    >>> year["time"][[0, 30, 60]]
    array([ 0, 30, 60])
    """
    if not concat or not isinstance(concat, str):
        raise InvalidArgumentError(f"concat must be the name of a dimension, got {concat!r}")
    if sort not in _ORDERS or sort is True or (sort == 0 and sort is not False):
        raise InvalidArgumentError(f"sort must be None, 'values' or False, got {sort!r}")
    for name, value, allowed in (
        ("missing", missing, ("error", "fill")),
        ("attributes", attributes, ("meaning", "all")),
        ("compare", compare, ("shape", "values")),
    ):
        if value not in allowed:
            raise InvalidArgumentError(f"{name} must be {allowed[0]!r} or {allowed[1]!r}, got {value!r}")
    wanted = [variables] if isinstance(variables, str) else list(variables or ())
    dropped = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
    where = current_context() if context is None else context
    given = names_of(files)
    first: Callable[[], Any] | None = None
    if store is not None:
        from_, keys = _keys_in(store, given, storage_options)
        pinned = PinnedFiles.of_store(store, from_, keys)
    else:
        found = _files(given, storage_options)
        from_, keys = found.store, found.keys
        path = found.paths(1)[0]
        first = _First(path, group, storage_options, where)
        pinned = PinnedFiles.of_paths(path, from_, keys, storage_options)
    made = _core.open_virtual(
        from_ if pinned is None else pinned.store, where, keys, concat, os.fsencode(group.strip("/")), _ORDERS[sort],
        missing == "fill", attributes == "all", compare == "values", wanted, dropped,
    )  # fmt: skip
    stamps = Stamps(storage_options, None if pinned is None else pinned.stamps)
    if pinned is not None:
        pinned.compare()
    options = {
        "concat": concat, "group": group, "sort": sort, "missing": missing, "attributes": attributes,
        "compare": compare, "variables": wanted, "drop_variables": dropped, "storage_options": storage_options,
    }  # fmt: skip
    again: Any = UNPICKLABLE
    if store is None:
        again = _absolute(given)
    opened = VirtualGroup(made, (_open_again, (again, options)), stamps, first)
    if absent := set(wanted) - set(dropped) - set(opened):
        raise NotFoundError(f"no file has the variable '{min(absent)}'", f"opening '{opened.uri}'")
    return opened


def first_of(files: Any, storage_options: Mapping[str, Any] | None) -> str:
    """The first of the files that `open_virtual` opens: a path or URI."""
    return _files(names_of(files), storage_options).paths(1)[0]


def _files(given: str | list[Any], storage_options: Mapping[str, Any] | None) -> Files:
    """The files of a pattern, a folder or a list; a name may also be that of one file or Zarr folder."""
    if isinstance(given, str) and is_node(given, storage_options):
        given = [given]
    return Files(given, True, storage_options)


class _First:
    """Opens the first file by itself."""

    def __init__(self, path: str, group: str, storage_options: Mapping[str, Any] | None, context: Context) -> None:
        self._path, self._group, self._options, self._context = path, group, storage_options, context

    def __call__(self) -> Any:
        where = {"storage_options": self._options, "context": self._context, "mode": "r"}
        return registry.call("open", self._path, self._group.strip("/"), **where)


def _keys_in(store: Any, given: Any, storage_options: Mapping[str, Any] | None) -> tuple[_core.Store, list[bytes]]:
    from_, inner = place_of(store, "", storage_options)
    prefix = inner + b"/" if inner else b""
    if isinstance(given, str):
        if is_wild(given):
            return from_, _core.find_shards(from_, prefix + os.fsencode(given), True)
        given = [given]
    return from_, [prefix + os.fsencode(each) for each in given]


def _absolute(given: Any) -> Any:
    if isinstance(given, str):
        return given if "://" in given else os.path.abspath(given)
    return [each if "://" in each else os.path.abspath(each) for each in given]


def _open_again(files: Any, options: dict[str, Any]) -> Group:
    return open_virtual(files, **options)


def _member(reopen: _Reopen, name: str) -> Any:
    function, arguments = reopen
    return function(*arguments)[name]
