"""Selections beyond ints and slices: `oindex`, `vindex`, `blocks`, fields, and the get methods of zarr-python.

Keys are converted to index arrays here; the engine resolves them once, into a `_Selection` for `_read`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.errors import Error, InvalidArgumentError, OutOfRangeError, OutputError

if TYPE_CHECKING:
    _Base = _core.Array
else:
    _Base = object

Fields = str | list[str] | tuple[str, ...]


def is_mask(item: Any) -> bool:
    """An array (or list) of bools, whatever its shape."""
    if isinstance(item, list):
        return bool(item) and all(isinstance(each, bool | np.bool_) for each in item)
    return _is_array(item) and item.dtype == np.bool_


def is_list(item: Any) -> bool:
    """A list or an array, of any numbers: not a single index."""
    return isinstance(item, list) or (_is_array(item) and item.shape != ())


def _is_array(item: Any) -> bool:
    return hasattr(item, "shape") and hasattr(item, "dtype") and not isinstance(item, np.generic)


def _is_int(item: Any) -> bool:
    if isinstance(item, bool | np.bool_):
        return False
    if _is_array(item):
        return bool(item.shape == () and item.dtype.kind in "iu")
    return isinstance(item, SupportsIndex)


def _refuse(array: _core.Array, why: str) -> Error:
    return OutOfRangeError(why, f"array '{array.uri}'")


def as_index_array(array: _core.Array, item: Any) -> npt.NDArray[np.int64]:
    """Integers of any kind as int64, in C order; without a copy if they are that already."""
    found = np.asarray(item)
    if found.size == 0 and found.dtype.kind == "f":
        found = found.astype(np.int64)  # as NumPy treats an empty list
    if found.dtype.kind not in "iu":
        raise _refuse(array, f"arrays used as indices must be of integer (or boolean) type, this one has {found.dtype}")
    if found.dtype == np.uint64 and found.size and found.max() > np.iinfo(np.int64).max:
        raise _refuse(array, f"index {found.max()} is out of bounds")
    made: npt.NDArray[np.int64] = np.ascontiguousarray(found, dtype=np.int64).reshape(found.shape)
    return made


def as_tuple(key: Any) -> tuple[Any, ...]:
    """The items of a key. Arrays that do not have a dtype of NumPy, such as PyTorch's tensors, become ndarrays."""
    items = key if isinstance(key, tuple) else (key,)
    if any(_is_foreign(item) for item in items):
        return tuple(np.asarray(item) if _is_foreign(item) else item for item in items)
    return items


def _is_foreign(item: Any) -> bool:
    return _is_array(item) and not isinstance(item.dtype, np.dtype)


def expand(array: _core.Array, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Write an Ellipsis out as slices."""
    dots = [at for at, item in enumerate(key) if item is ...]
    if len(dots) > 1:
        raise _refuse(array, "an index can only have a single ellipsis ('...')")
    rank = len(array.shape)
    if dots:
        at = dots[0]
        key = key[:at] + (slice(None),) * (rank - len(key) + 1) + key[at + 1 :]
    if len(key) > rank:
        raise _refuse(array, f"too many indices for array: array is {rank}-dimensional, but {len(key)} were indexed")
    return key


def _is_open_mesh(key: tuple[Any, ...], rank: int) -> bool:
    """True for a result of `numpy.ix_`: an index array for each dimension, long in that dimension only."""
    return len(key) == rank > 1 and all(
        isinstance(item, np.ndarray) and item.ndim == rank and item.size == item.shape[axis]
        for axis, item in enumerate(key)
    )


def orthogonal(array: _core.Array, key: Any) -> _core._Selection:
    """The selection of `oindex[key]`: each item is an int, a slice, a one-dimensional list of positions or of bools."""
    items: list[Any] = []
    key = as_tuple(key)
    if _is_open_mesh(key, len(array.shape)):
        key = tuple(np.ravel(item) for item in key)
    for axis, item in enumerate(expand(array, key)):
        if isinstance(item, slice) or _is_int(item):
            items.append(item)
        elif is_mask(item):
            mask = np.asarray(item)
            if mask.ndim != 1:
                raise _refuse(array, "boolean arrays of an orthogonal selection are one-dimensional")
            if mask.size != array.shape[axis]:
                raise _refuse(
                    array,
                    f"boolean index did not match indexed array along axis {axis}; size of axis is "
                    f"{array.shape[axis]} but size of corresponding boolean axis is {mask.size}",
                )
            items.append(as_index_array(array, np.flatnonzero(mask)))
        elif is_list(item):
            positions = as_index_array(array, item)
            if positions.ndim != 1:
                raise _refuse(array, "index arrays of an orthogonal selection are one-dimensional")
            items.append(positions)
        else:
            raise _refuse(
                array,
                "an orthogonal selection has ints, slices, lists of ints and lists of bools, one for each dimension: "
                f"found {_shown(item)}",
            )
    return array._orthogonal(tuple(items))


def coordinates(array: _core.Array, key: Any) -> _core._Selection:
    """The selection of `vindex[key]`: one int or list of ints for each dimension, broadcast against each other."""
    items = as_tuple(key)
    if (
        len(items) != len(array.shape)
        or not items
        or not all(_is_int(i) or (is_list(i) and not is_mask(i)) for i in items)
    ):
        raise _refuse(
            array,
            "a coordinate selection has one int or list of ints for each dimension, a mask selection is one boolean "
            f"array of the array's shape {array.shape}: found {_shown(key)}",
        )
    lists = [as_index_array(array, item) for item in items]
    try:
        shape = np.broadcast_shapes(*(each.shape for each in lists))
    except ValueError as error:
        raise InvalidArgumentError(f"coordinates of unequal shapes: {error}", f"array '{array.uri}'") from None
    shape = shape or (1,)  # as in zarr-python: only ints are one point
    lists = [each if each.shape == shape else np.ascontiguousarray(np.broadcast_to(each, shape)) for each in lists]
    return array._points(tuple(lists), shape)


def masked(array: _core.Array, key: Any) -> _core._Selection:
    """The selection of a boolean array with the array's shape, in C order."""
    items = as_tuple(key)
    found = np.asarray(items[0]) if len(items) == 1 else None
    if found is None or found.dtype != np.bool_ or found.shape != array.shape:
        raise _refuse(
            array, f"a mask selection is one boolean array of the array's shape {array.shape}: found {_shown(key)}"
        )
    return array._of_mask(np.ascontiguousarray(found).reshape(found.shape))


def vectorized(array: _core.Array, key: Any) -> _core._Selection:
    """`vindex[key]`: a mask or coordinates."""
    items = as_tuple(key)
    if len(items) == 1 and (
        is_mask(items[0]) or (isinstance(items[0], list) and np.asarray(items[0]).dtype == np.bool_)
    ):
        return masked(array, key)
    return coordinates(array, key)


def blocks(array: _core.Array, key: Any) -> _core._Selection:
    """The selection of `blocks[key]`: ints and slices of step 1, in units of chunks, or of shards if there are any."""
    return array._blocks(expand(array, as_tuple(key)))


def fancy(array: _core.Array, key: Any) -> _core._Selection:
    """The selection of `a[key]` if `key` contains lists or arrays.

    As zarr-python: lists (and ints) for all dimensions are coordinates, and a mask of the array's shape is a mask; a
    list among slices, and lists of which some are masks, are orthogonal. Only one list may be among slices: NumPy
    combines several, which `oindex` and `vindex` distinguish.
    """
    rank = len(array.shape)
    items = as_tuple(key)
    if len(items) == 1 and is_mask(items[0]) and np.ndim(items[0]) == rank:
        return masked(array, items)
    lists = [item for item in items if is_list(item)]
    if not lists:
        raise _refuse(
            array,
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and lists or arrays of integers and "
            f"bools (see oindex and vindex) are valid indices: found {_shown(key)}",
        )
    if len(items) == rank and all(_is_int(item) or (is_list(item) and not is_mask(item)) for item in items):
        return coordinates(array, key)
    if len(lists) == 1 or len(lists) == len(items) == rank:
        if any(item is None for item in items):
            raise _refuse(array, "None (numpy.newaxis) cannot be combined with lists: see oindex and vindex")
        return orthogonal(array, key)
    raise _refuse(array, "several lists among slices mean one thing to oindex and another to vindex: use one of them")


def split_fields(key: Any) -> tuple[Fields | None, Any]:
    """Split names of fields from a key; the rest is the selection. None: there are no names."""
    if isinstance(key, str):
        return key, ()
    if not isinstance(key, tuple):
        return None, key
    fields = [item for item in key if isinstance(item, str)]
    if not fields:
        return None, key
    rest = tuple(item for item in key if not isinstance(item, str))
    return fields[0] if len(fields) == 1 else fields, rest[0] if len(rest) == 1 else rest


def check_fields(array: _core.Array, fields: Fields | None) -> np.dtype[Any] | None:
    """The dtype of some fields of the array; None for the whole item."""
    if fields is None or (not isinstance(fields, str) and not fields):
        return None
    dtype = array.dtype
    if dtype.names is None:
        raise _refuse(array, f"fields {fields!r} of an array of {dtype}: it has no fields")
    names = [fields] if isinstance(fields, str) else list(fields)
    for name in names:
        if name not in dtype.names:
            raise _refuse(array, f"no field {name!r}, there are {', '.join(dtype.names)}")
    return dtype[fields] if isinstance(fields, str) else np.dtype([(name, dtype[name]) for name in names])


def take_fields(values: Any, fields: Fields | None, dtype: np.dtype[Any] | None) -> Any:
    """Some fields of the items, as an array of their own, so that the rest can be freed."""
    if dtype is None:
        return values
    if isinstance(fields, str):
        taken = values[fields]
        return np.ascontiguousarray(taken).reshape(taken.shape) if isinstance(taken, np.ndarray) else taken
    assert fields is not None
    made = np.empty(np.shape(values), dtype)
    for name in fields:
        made[name] = values[name]
    return made


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 80 else text[:77] + "..."


class Key:
    """A selection without an array: the result of `penstock.oindex[...]` and similar, for `Array.read`."""

    def __init__(self, kind: str, key: Any) -> None:
        self._kind, self._key = kind, key

    def __repr__(self) -> str:
        return f"penstock.{self._kind}[{_shown(self._key)}]"

    def select(self, array: _core.Array) -> _core._Selection:
        return _KINDS[self._kind](array, self._key)


_KINDS = {"oindex": orthogonal, "vindex": vectorized, "blocks": blocks}


class KeyMaker:
    """Makes selections for `Array.read`, `read_async`, `write` and `plan`."""

    _kind: str

    def __getitem__(self, key: Any) -> Key:
        return Key(self._kind, key)

    def __repr__(self) -> str:
        return f"penstock.{self._kind}"


class OrthogonalKeys(KeyMaker):
    """Orthogonal selections: `a.read(ps.oindex[[3, 1, 7], :, mask])` reads every combination of the items' positions.

    Items are ints (which drop their dimension), slices, lists or arrays of positions in any order, also repeated, and
    lists or arrays of bools as long as the dimension.

    Examples
    --------
    >>> a = ps.create_array({}, data=np.arange(24).reshape(4, 6), chunks=(2, 3))
    >>> a.read(ps.oindex[[0, 3], [5, 1]])
    array([[ 5,  1],
           [23, 19]])
    >>> a.plan(ps.oindex[[0, 3], :]).chunks_touched
    4
    """

    _kind = "oindex"


class PointKeys(KeyMaker):
    """Points: `a.read(ps.vindex[rows, columns])` reads one element for each pair; the lists broadcast.

    Also a boolean mask of the array's shape: `a.read(ps.vindex[mask])`.

    Examples
    --------
    >>> a = ps.create_array({}, data=np.arange(24).reshape(4, 6), chunks=(2, 3))
    >>> a.read(ps.vindex[[0, 3], [5, 1]])                # points (0, 5) and (3, 1)
    array([ 5, 19])
    >>> a.write(ps.vindex[a[...] > 20], 0)
    """

    _kind = "vindex"


class BlockKeys(KeyMaker):
    """Whole chunks, or shards if the array is sharded: `a.read(ps.blocks[2, 0])`, `a.read(ps.blocks[1:3])`.

    Items are ints and slices of step 1, in the grid of chunks.

    Examples
    --------
    >>> a = ps.create_array({}, data=np.arange(24).reshape(4, 6), chunks=(2, 3))
    >>> a.read(ps.blocks[1, 0])
    array([[12, 13, 14],
           [18, 19, 20]])
    >>> a.plan(ps.blocks[1]).chunks_touched
    2
    """

    _kind = "blocks"


oindex = OrthogonalKeys()
"""Orthogonal selections: `a.read(ps.oindex[[3, 1, 7], :, mask])` reads every combination of the items' positions.

Items are ints (which drop their dimension), slices, lists or arrays of positions in any order, also repeated, and lists
or arrays of bools as long as the dimension.

Examples
--------
>>> a = ps.create_array({}, data=np.arange(24).reshape(4, 6), chunks=(2, 3))
>>> a.read(ps.oindex[[0, 3], [5, 1]])
array([[ 5,  1],
       [23, 19]])
>>> a.plan(ps.oindex[[0, 3], :]).chunks_touched
4
"""
vindex = PointKeys()
"""Points: `a.read(ps.vindex[rows, columns])` reads one element for each pair; the lists broadcast.

Also a boolean mask of the array's shape: `a.read(ps.vindex[mask])`.

Examples
--------
>>> a = ps.create_array({}, data=np.arange(24).reshape(4, 6), chunks=(2, 3))
>>> a.read(ps.vindex[[0, 3], [5, 1]])                # points (0, 5) and (3, 1)
array([ 5, 19])
>>> a.write(ps.vindex[a[...] > 20], 0)
"""
block_index = BlockKeys()
"""Whole chunks, or shards if the array is sharded: `a.read(ps.blocks[2, 0])`, `a.read(ps.blocks[1:3])`.

Items are ints and slices of step 1, in the grid of chunks.

Examples
--------
>>> a = ps.create_array({}, data=np.arange(24).reshape(4, 6), chunks=(2, 3))
>>> a.read(ps.blocks[1, 0])
array([[12, 13, 14],
       [18, 19, 20]])
>>> a.plan(ps.blocks[1]).chunks_touched
2
"""


class _Index:
    """`a.oindex`, `a.vindex` and `a.blocks`."""

    __slots__ = ("_array", "_kind")

    def __init__(self, array: Reads, kind: str) -> None:
        self._array, self._kind = array, kind

    def __getitem__(self, key: Any) -> Any:
        fields, rest = split_fields(key)
        array = self._array
        return array._get(_KINDS[self._kind](array, rest), None, fields)

    def __setitem__(self, key: Any, value: Any) -> None:
        fields, rest = split_fields(key)
        array = self._array
        array._set(_KINDS[self._kind](array, rest), value, fields)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{self._array!r}.{self._kind}"


def copy_out(out: Any, made: Any) -> None:
    """Copy values to `out`, if they cannot be read into it directly."""
    if np.shape(out) != np.shape(made):
        raise OutputError(f"out has shape {np.shape(out)}, the selection {np.shape(made)}")
    np.copyto(out, made, casting="same_kind")


class Reads(_Base):
    """The part of `Array` that reads selections which C++ leaves to Python."""

    __slots__ = ()

    @property
    def oindex(self) -> _Index:
        """Orthogonal indexing: `a.oindex[[3, 1, 7], :, mask]` selects every combination of the items' positions.

        Items are ints (which drop their dimension), slices, lists or arrays of positions in any order, also repeated,
        and lists or arrays of bools as long as the dimension.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(24).reshape(4, 6), chunks=(2, 3))
        >>> a.oindex[[3, 0], [5, 1]]
        array([[23, 19],
               [ 5,  1]])
        >>> a.oindex[a[:, 0] > 6, 2] = 0
        """
        return _Index(self, "oindex")

    @property
    def vindex(self) -> _Index:
        """Points: `a.vindex[rows, columns]` selects one element for each pair; the lists broadcast.

        Also a boolean mask of the array's shape: `a.vindex[mask]`.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(24).reshape(4, 6), chunks=(2, 3))
        >>> a.vindex[[3, 0], [5, 1]]
        array([23,  1])
        >>> a.vindex[a[...] > 20]
        array([21, 22, 23])
        """
        return _Index(self, "vindex")

    @property
    def blocks(self) -> _Index:
        """Whole chunks (or shards, if the array is sharded): `a.blocks[2, 0]`, `a.blocks[1:3]`.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(24).reshape(4, 6), chunks=(2, 3))
        >>> a.blocks[1, 0]
        array([[12, 13, 14],
               [18, 19, 20]])
        >>> a.blocks[0].shape
        (2, 6)
        """
        return _Index(self, "blocks")

    def get_basic_selection(
        self, selection: Any = ..., *, out: Any = None, fields: Fields | None = None, prototype: Any = None
    ) -> Any:
        """Read ints, slices, Ellipsis and None. As in zarr-python.

        `prototype` is not used: results are NumPy's.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(6).reshape(2, 3))
        >>> a.get_basic_selection(np.s_[1, ::2])
        array([3, 5])
        """
        made = self._get(selection, out, fields)
        return made[()] if out is None and isinstance(made, np.ndarray) and not made.shape else made

    def get_orthogonal_selection(
        self, selection: Any, *, out: Any = None, fields: Fields | None = None, prototype: Any = None
    ) -> Any:
        """Read as `oindex[selection]`, into `out` if it is given. As in zarr-python.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(6).reshape(2, 3))
        >>> a.get_orthogonal_selection((slice(None), [2, 0]))
        array([[2, 0],
               [5, 3]])
        """
        return self._get(orthogonal(self, selection), out, fields)

    def get_coordinate_selection(
        self, selection: Any, *, out: Any = None, fields: Fields | None = None, prototype: Any = None
    ) -> Any:
        """Read single elements: one list of positions for each dimension. As in zarr-python.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(6).reshape(2, 3))
        >>> a.get_coordinate_selection(([0, 1], [2, 0]))
        array([2, 3])
        """
        return self._get(coordinates(self, selection), out, fields)

    def get_mask_selection(
        self, mask: Any, *, out: Any = None, fields: Fields | None = None, prototype: Any = None
    ) -> Any:
        """Read the elements at which a boolean array of the array's shape is true, in C order. As in zarr-python.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(6).reshape(2, 3))
        >>> a.get_mask_selection(a[...] % 2 == 1)
        array([1, 3, 5])
        """
        return self._get(masked(self, mask), out, fields)

    def get_block_selection(
        self, selection: Any, *, out: Any = None, fields: Fields | None = None, prototype: Any = None
    ) -> Any:
        """Read whole chunks (or shards, if the array is sharded). As in zarr-python.

        Examples
        --------
        >>> a = ps.create_array({}, data=np.arange(16).reshape(4, 4), chunks=(2, 2))
        >>> a.get_block_selection((1, 0))
        array([[ 8,  9],
               [12, 13]])
        """
        return self._get(blocks(self, selection), out, fields)

    def _get(self, selection: Any, out: Any, fields: Fields | None) -> Any:
        dtype = check_fields(self, fields)
        if out is None:
            return take_fields(self._read(selection, 0, None), fields, dtype)
        if dtype is None:
            return self.read(selection, out=out)  # type: ignore[attr-defined]
        made = take_fields(self._read(selection, 0, None), fields, dtype)
        copy_out(out, made)
        return out

    def _prepare(self, key: Any) -> tuple[Any, Fields | None]:
        """A key of any kind in the form for `_read`, and the fields in it."""
        if isinstance(key, _core._Selection | slice | int) or key is ...:
            return key, None
        if isinstance(key, Key):
            return key.select(self), None
        fields, rest = split_fields(key)
        has_lists = any(is_list(item) or is_mask(item) for item in as_tuple(rest))  # a mask of a scalar is not a list
        return (fancy(self, rest) if has_lists else rest), fields

    def _read_fancy(self, key: Any, threads: int, progress: Any) -> Any:
        # Called by `_read` for keys that are not a basic index.
        selection, fields = self._prepare(key)
        if selection is key and not isinstance(key, _core._Selection):
            fancy(self, key)  # raises the error of an invalid key
        dtype = check_fields(self, fields)
        return take_fields(self._read(selection, threads, progress), fields, dtype)
