"""An open array for xarray's lazy indexing."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from penstock.api.open import open
from penstock.core.array import Array
from penstock.core.errors import InvalidArgumentError
from penstock.core.group import Group
from penstock.core.indexing import oindex, vindex
from penstock.geo.masks import NodataMask, module_of


def settled_target(target: Any) -> Any:
    """Full paths of local files, as in xarray's own engine: for `~`, and other processes' working folders."""
    name = os.fspath(target) if isinstance(target, os.PathLike) else target
    if not isinstance(name, str) or re.match("[A-Za-z][A-Za-z0-9+.-]*:", name):
        return target
    return os.path.abspath(os.path.expanduser(name))


@dataclass(frozen=True)
class Place:
    """The arguments of `penstock.open`: another process opens the array with them.

    `opened` is different for each opening, and so is the pickle of a lazy array, by which Dask names its values:
    storage may have changed in between.
    """

    target: Any
    path: str
    options: dict[str, Any] = field(default_factory=dict)
    opened: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False, repr=False, kw_only=True)

    def open(self) -> Any:
        """The array or group."""
        if isinstance(self.target, Array):
            return self.target
        if isinstance(self.target, Group):
            return self.target[self.path] if self.path else self.target
        return open(self.target, self.path, mode="r", **self.options)

    def child(self, name: str) -> Place:
        """The location of a node below a group; its metadata are read from storage."""
        options = {key: value for key, value in self.options.items() if key != "use_consolidated"}
        return Place(self.target, f"{self.path}/{name}" if self.path else name, options)


@dataclass(frozen=True)
class Decoding:
    """The result of CF's conventions for stored numbers, in xarray's order and type, on the values' own device."""

    missing: tuple[Any, ...]
    scale: Any = None
    offset: Any = None

    def apply(self, values: Any, dtype: np.dtype[Any]) -> Any:
        """Missing values become NaN, the others are multiplied by the scale, and the offset is added."""
        made = values if values.dtype == dtype else values.astype(dtype)
        for each in self.missing:
            if each == each:
                made = module_of(made).where(made != dtype.type(each), made, dtype.type(np.nan))
        if self.scale is not None:
            made = made * dtype.type(self.scale)
        return made if self.offset is None else made + dtype.type(self.offset)


class LazyArray(BackendArray):
    """An array that is read when its values are needed: for all kinds of xarray's keys in one read, of the selected
    elements only.

    Reading is thread-safe and takes no lock. Pickles as its location: it is opened again when it is unpickled.
    """

    def __init__(
        self,
        place: Place,
        array: Array,
        dtype: np.dtype[Any] | None = None,
        device: str | None = None,
        decoding: Decoding | None = None,
    ) -> None:
        self.place, self.device, self.decoding, self._array = place, device, decoding, array
        self.shape = array.shape
        self.dtype = array.dtype if dtype is None else dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support, selection = kind_of(key)

        def get(items: Any) -> Any:
            return self._decoded(read(self._array, selection(self._array, items), self.device))

        return indexing.explicit_indexing_adapter(settled(key, self.shape), self.shape, support, get)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """As `[]`, on the engine's threads; for `load_async`."""
        support, selection = kind_of(key)

        async def get(items: Any) -> Any:
            return self._decoded(await read_async(self._array, selection(self._array, items), self.device))

        return await indexing.async_explicit_indexing_adapter(settled(key, self.shape), self.shape, support, get)

    def _decoded(self, values: Any) -> Any:
        return values if self.decoding is None else self.decoding.apply(values, self.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._array!r})"

    def __getstate__(self) -> tuple[Any, ...]:
        return self.place, self.dtype, self.device, self.decoding

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        place, dtype, *rest = state
        array = place.open()
        if not isinstance(array, Array):
            raise InvalidArgumentError(f"'{array.uri}' was an array when it was pickled, it is a group now")
        self.__init__(place, array, dtype, *rest)  # type: ignore[misc]


def read(array: Array | NodataMask, selection: Any, device: str | None) -> Any:
    """Return values on the host, or CuPy's in device memory: when all is queued on the device, ordered on CuPy's
    current stream.

    A chunk that fails on the device later is raised by the next read, or by `synchronize` of the context.
    """
    if device is None:
        return array.read(selection)
    if isinstance(array, NodataMask):
        return array.valid([read(band, selection, device) for band in array.bands])
    import cupy

    return cupy.from_dlpack(array.read(selection, device=device))


def start(array: Array | NodataMask, selection: Any, device: str | None) -> Callable[[], Any]:
    """Begin `read`; calling the result returns the values."""
    if device is None:
        return array.read_async(selection).wait
    values = read(array, selection, device)
    return lambda: values


async def read_async(array: Array | NodataMask, selection: Any, device: str | None) -> Any:
    """As `read`, on the engine's threads."""
    if device is None:
        return await array.read_async(selection)
    if isinstance(array, NodataMask):
        return array.valid([await read_async(band, selection, device) for band in array.bands])
    import cupy

    return cupy.from_dlpack(await array.read_async(selection, device=device))


Selection = Callable[[Array, tuple[Any, ...]], Any]


def _basic(array: Array, items: tuple[Any, ...]) -> Any:
    return (*items, ...)  # with the Ellipsis one element is an array without dimensions, not a scalar


def _outer(array: Array, items: tuple[Any, ...]) -> Any:
    return oindex[items]


def as_points(array: Array, items: tuple[Any, ...]) -> Any:
    return vindex[items]


def settled(key: indexing.ExplicitIndexer, shape: tuple[int, ...]) -> indexing.ExplicitIndexer:
    """The key with every empty slice as `:0`: xarray does not accept empty slices with a negative step."""
    if not any(isinstance(item, slice) for item in key.tuple):
        return key
    return type(key)(
        tuple(
            slice(0, 0) if isinstance(item, slice) and not range(size)[item] else item
            for item, size in zip(key.tuple, shape, strict=True)
        )
    )


def kind_of(key: indexing.ExplicitIndexer) -> tuple[indexing.IndexingSupport, Selection]:
    """The selection for the engine, and how much of a key it covers."""
    if isinstance(key, indexing.BasicIndexer):
        return indexing.IndexingSupport.VECTORIZED, _basic
    if isinstance(key, indexing.OuterIndexer):
        return indexing.IndexingSupport.VECTORIZED, _outer
    if any(isinstance(item, slice) for item in key.tuple):
        return indexing.IndexingSupport.OUTER, _outer  # points in some dimensions: xarray picks them from their box
    return indexing.IndexingSupport.VECTORIZED, as_points
