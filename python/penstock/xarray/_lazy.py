"""An open array as xarray's lazy indexing takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from penstock._array import Array
from penstock._errors import InvalidArgumentError, _make
from penstock._open import open


@dataclass(frozen=True)
class Place:
    """What `penstock.open` was called with: an array is opened by it again in another process."""

    target: Any
    path: str
    options: dict[str, Any] = field(default_factory=dict)

    def open(self) -> Any:
        """The array or group."""
        return open(self.target, self.path, **self.options)

    def child(self, name: str) -> Place:
        """The place of what lies below a group; its metadata are read from storage itself."""
        options = {key: value for key, value in self.options.items() if key != "use_consolidated"}
        return Place(self.target, f"{self.path}/{name}" if self.path else name, options)


class LazyArray(BackendArray):
    """An array that is read when its values are asked for: all five kinds of xarray's keys at once, and no more.

    Reading is thread-safe and takes no lock. Pickles as its place: it is opened again where it is unpickled.
    """

    def __init__(self, place: Place, array: Array, dtype: np.dtype[Any] | None = None) -> None:
        self.place, self._array = place, array
        self.shape = array.shape
        self.dtype = array.dtype if dtype is None else dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support, selection = kind_of(key)
        return indexing.explicit_indexing_adapter(
            key, self.shape, support, lambda items: self._array.read(selection(self._array, items))
        )

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """As `[]`, on the engine's threads; for `load_async`."""
        support, selection = kind_of(key)

        async def read(items: Any) -> Any:
            return await self._array.read_async(selection(self._array, items))

        return await indexing.async_explicit_indexing_adapter(key, self.shape, support, read)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._array!r})"

    def __getstate__(self) -> tuple[Place, np.dtype[Any]]:
        return self.place, self.dtype

    def __setstate__(self, state: tuple[Place, np.dtype[Any]]) -> None:
        place, dtype = state
        array = place.open()
        if not isinstance(array, Array):
            raise _make(InvalidArgumentError, f"'{array.uri}' was an array when it was pickled, it is a group now")
        self.__init__(place, array, dtype)  # type: ignore[misc]


Selection = Callable[[Array, tuple[Any, ...]], Any]


def _basic(array: Array, items: tuple[Any, ...]) -> Any:
    return (*items, ...)  # the Ellipsis makes one element an array without dimensions, and not a scalar


def _outer(array: Array, items: tuple[Any, ...]) -> Any:
    from penstock import oindex

    return oindex[items]


def as_points(array: Array, items: tuple[Any, ...]) -> Any:
    from penstock import vindex

    return vindex[items]


def kind_of(key: indexing.ExplicitIndexer) -> tuple[indexing.IndexingSupport, Selection]:
    """How much of a key the engine takes as it is, and what the selection is that it takes."""
    if isinstance(key, indexing.BasicIndexer):
        return indexing.IndexingSupport.VECTORIZED, _basic
    if isinstance(key, indexing.OuterIndexer):
        return indexing.IndexingSupport.VECTORIZED, _outer
    if any(isinstance(item, slice) for item in key.tuple):
        return indexing.IndexingSupport.OUTER, _outer  # points in some dimensions: xarray picks them from their box
    return indexing.IndexingSupport.VECTORIZED, as_points
