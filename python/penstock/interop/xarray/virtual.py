"""Groups of many files as xarray's datasets: as `open_mfdataset` with minimal `data_vars` and `coords`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from xarray import Variable
from xarray.core import indexing

from penstock.api.virtual import VirtualGroup, open_virtual
from penstock.core.array import Array
from penstock.core.errors import InvalidArgumentError, NotFoundError
from penstock.core.group import Group
from penstock.interop.xarray.lazy import LazyArray, Place
from penstock.interop.xarray.zarr import ZarrGroup


@dataclass(frozen=True)
class VirtualPlace(Place):
    """The arguments of `penstock.open_virtual`."""

    how: dict[str, Any] = field(default_factory=dict)

    def open(self) -> Any:
        """The group, or the variable `path`."""
        made = open_virtual(self.target, **self.how)
        return made[self.path] if self.path else made

    def child(self, name: str) -> Place:
        """The location of a variable."""
        return VirtualPlace(self.target, name, self.options, self.how)


class VirtualStore(ZarrGroup):
    """The variables and attributes of many files: values of all, everything else from the first one."""

    _group: VirtualGroup

    def __init__(
        self,
        place: Place,
        group: VirtualGroup,
        fill_value_is_mask: bool | None,
        dropped: str | Iterable[str] | None,
        store_of: Callable[[Place, Group, bool | None, Any], ZarrGroup],
    ) -> None:
        self._place, self._group = place, group
        left_out = {dropped} if isinstance(dropped, str) else set(dropped or ())
        first = group.first_file()
        self._first = None
        if isinstance(first, Group):
            self._first = store_of(Place(first, ""), first, fill_value_is_mask, left_out)
        self._masks = bool(fill_value_is_mask)
        arrays = {name: array for name, array in group.arrays() if name not in left_out}
        order = list(self._first._arrays) if self._first is not None else []
        self._arrays = {name: arrays[name] for name in [*order, *sorted(set(arrays) - set(order))] if name in arrays}

    def get_attrs(self) -> dict[str, Any]:
        """The attributes of the first file."""
        return self._first.get_attrs() if self._first is not None else super().get_attrs()

    def get_encoding(self) -> dict[str, Any]:
        """The unlimited dimensions of the first file."""
        if self._first is None:
            return {}
        made: dict[str, Any] = self._first.get_encoding()  # type: ignore[no-untyped-call]
        return made

    def _variable(self, name: str, array: Array) -> Variable:
        if self._first is None or name not in self._first._arrays:
            names = array.dimension_names or ()
            if None in names or len(names) != len(array.shape):
                raise NotFoundError(f"array '{array.uri}' has no name for each of its dimensions")
            attributes = array.typed_attributes if hasattr(array, "typed_attributes") else array.attrs.asdict()
            lazy = LazyArray(self._place.child(name), array)
            return Variable(names, indexing.LazilyIndexedArray(lazy), attributes)
        made = self._first._variable(name, self._first._arrays[name])
        of_first = getattr(made._data, "array", None)
        if not isinstance(of_first, LazyArray):
            raise InvalidArgumentError(f"'{name}' of the first file is not read as an array")
        lazy = type(of_first)(self._place.child(name), array, of_first.dtype)
        encoding = dict(made.encoding)
        if array.shape != of_first.shape and "preferred_chunks" not in encoding:  # chunks={}: not all files in one
            lengths = [max(1, length) for length in array.chunks]
            encoding["preferred_chunks"] = dict(zip(made.dims, lengths, strict=True))
        return Variable(made.dims, indexing.LazilyIndexedArray(lazy), made.attrs, encoding)
