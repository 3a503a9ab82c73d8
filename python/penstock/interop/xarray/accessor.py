"""`.penstock` of a DataArray: the engine's array of a lazy variable, and reads of its selected values."""

from __future__ import annotations

from typing import Any

import xarray as xr
from xarray.core import indexing

from penstock.core.array import Array
from penstock.core.errors import InvalidArgumentError
from penstock.core.plan import Plan
from penstock.interop.xarray.hdf5 import GrownArray
from penstock.interop.xarray.lazy import LazyArray, kind_of, settled
from penstock.interop.xarray.tiff import RasterArray


@xr.register_dataarray_accessor("penstock")  # type: ignore[no-untyped-call]
class PenstockAccessor:
    """The reads of `xarray.open_dataset(..., engine="penstock")` for a variable that is not loaded yet.

    Examples
    --------
    >>> import xarray as xr
    >>> run = ps.create_group("run.zarr")
    >>> t = ps.create_array(run, "t", data=np.full((30, 40), 280.0), chunks=(10, 40), dimension_names=("time", "x"))
    >>> ds = xr.open_dataset("run.zarr", engine="penstock")
    >>> part = ds["t"].isel(time=slice(0, 5), x=3)      # nothing is read
    >>> part.penstock.array.chunks
    (10, 40)
    >>> part.penstock.plan().requests
    1
    >>> part.penstock.read(dtype="f4")
    array([280., 280., 280., 280., 280.], dtype=float32)
    """

    def __init__(self, data: xr.DataArray) -> None:
        self._data = data

    @property
    def array(self) -> Array:
        """The open array that stores the whole variable: its chunks, codecs, attributes and stored values.

        Raises
        ------
        InvalidArgumentError
            The values are in memory, belong to Dask or another engine, or are computed from several arrays.
        """
        return self._source()[0]

    def plan(self) -> Plan:
        """Return the plan of reading the selected values: requests, bytes fetched and decoded, advice. Nothing is read.

        Returns
        -------
        Plan

        Raises
        ------
        InvalidArgumentError
            As for `array`.
        """
        return self._source()[0].plan(self._selection())

    def read(self, **options: Any) -> Any:
        """Read the selected stored values, without decoding by CF's conventions; of images without masks and scales.

        `read(device="cuda")` returns a tensor in device memory.

        Parameters
        ----------
        options
            Those of `Array.read`, except `selection`.

        Returns
        -------
        numpy.ndarray, Tensor or out
            As for `Array.read`.

        Raises
        ------
        InvalidArgumentError
            As for `array`.
        Error
            As for `Array.read`.
        """
        return self._source()[0].read(self._selection(), **options)

    def _selection(self) -> Any:
        array, key = self._source()
        whole = indexing.BasicIndexer((slice(None),) * len(array.shape))
        key = settled(whole if key is None else key, array.shape)
        _, selection = kind_of(key)  # xarray has converted slices next to points into points
        return selection(array, key.tuple)

    def _source(self) -> tuple[Array, indexing.ExplicitIndexer | None]:
        """The array, and the one key with which xarray selects; None: it selects nothing."""
        name = f"'{self._data.name}'"
        key: indexing.ExplicitIndexer | None = None
        layer: Any = self._data.variable._data
        while not isinstance(layer, LazyArray | RasterArray):
            if isinstance(layer, GrownArray):
                raise InvalidArgumentError(f"{name} is longer than its stored array: the rest is the fill value")
            if _selects(layer):
                if key is not None:
                    raise InvalidArgumentError(f"the values of {name} are selected twice: load them in between")
                key = layer.key
            layer = getattr(layer, "array", None)
            if layer is None:
                text = f"the values of {name} are not Penstock's: they are in memory, of Dask or of another engine"
                raise InvalidArgumentError(text)
        array = layer.array if isinstance(layer, RasterArray) else layer._array
        if not isinstance(array, Array):
            raise InvalidArgumentError(f"the values of {name} are computed from those of several arrays")
        if key is not None and len(key.tuple) != len(array.shape):
            raise InvalidArgumentError(f"{name} has other dimensions than the array that stores it")
        return array, key


def _selects(layer: Any) -> bool:
    """Whether it is one of xarray's selecting layers, and does not select everything."""
    if not isinstance(layer, indexing.LazilyIndexedArray | indexing.LazilyVectorizedIndexedArray):
        return False
    return not all(
        isinstance(item, slice) and item.indices(size) == (0, size, 1)
        for item, size in zip(layer.key.tuple, layer.array.shape, strict=True)
    )
