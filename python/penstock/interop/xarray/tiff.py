"""GeoTIFF as xarray's datasets: as in rioxarray's engine, or plain."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from penstock import _core
from penstock.core.array import Array
from penstock.core.context import current_context
from penstock.core.errors import Error, InvalidArgumentError, NotFoundError, UnsupportedError
from penstock.core.group import Group
from penstock.geo.image_attributes import attributes_of, grid_mapping_of, image_attributes, other_sign
from penstock.geo.masks import Validity, module_of
from penstock.geo.tiff import TiffArray
from penstock.interop.xarray.lazy import Place, Selection, as_points, kind_of, read, read_async, settled, start
from penstock.target.file_objects import fsspec_place, in_memory, is_file
from penstock.target.place import place_of
from penstock.target.sniff import driver_by_name, driver_of_bytes, format_by_name

_ZIPPED = ".zarr.zip"


def is_zarr_name(name: str) -> bool:
    """Whether a name, without its query, is that of a Zarr node."""
    return name.lower().rstrip("/").endswith(_ZIPPED) or format_by_name(name) == "zarr"


def is_one_file(target: Any) -> bool:
    """Whether the target itself is a TIFF, not a store that may hold one; without a request to remote storage."""
    if isinstance(target, str) and "://" in target.removeprefix("file://"):
        return driver_by_name(target) == "tiff"
    known = isinstance(target, str | os.PathLike) or in_memory(target) or is_file(target)
    return known and is_tiff(target)


def is_tiff(target: Any, path: str = "", storage_options: dict[str, Any] | None = None) -> bool:
    """Whether a target is a TIFF: by its name, if that has the ending of a TIFF; otherwise by its first bytes, which
    the registry of formats recognises."""
    if isinstance(target, Array | Group):
        return isinstance(target, TiffArray)
    if in_memory(target) or is_file(target):
        return driver_of_bytes(target) == "tiff"
    if isinstance(target, str | os.PathLike):
        name = os.fsdecode(target)
        if name.startswith("reference:"):  # its storage options are not those of a store
            return False
        if not path and driver_by_name(name) == "tiff":
            return True
        local = name.removeprefix("file://")
        if "://" not in local:
            whole = os.path.join(local, path) if path else local
            if not os.path.isfile(whole):
                return False
            with open(whole, "rb") as file:
                return driver_of_bytes(file) == "tiff"
        if not path and is_zarr_name(name.split("?")[0]):
            return False
    elif not path and fsspec_place(target) is None:
        return False
    of_store = not isinstance(target, str | os.PathLike)
    try:
        store, inner = place_of(target, path, storage_options)
        found = _core.object_at(store, current_context(), inner)
        return found is not None and found.driver == "tiff"
    except (NotFoundError, UnsupportedError):
        return False
    except Error as error:  # opening it as an image reports the reason
        return not (of_store or isinstance(error, InvalidArgumentError))


_MOST_COORDINATES = 1 << 27  # of one axis


class RasterArray(BackendArray):
    """An image that is read, and decoded, when its values are needed.

    `masked`: missing pixels (those that the file's mask excludes; else nodata or transparent ones) are NaN. `scaled`:
    scale and offset of each band are applied, and integers have the sign of `_Unsigned`. `device`: the memory for the
    values; None: host memory. `by_band`: bands are variables of their own.
    """

    def __init__(self, place: Place, masked: bool, scaled: bool, device: str | None, by_band: bool = False) -> None:
        self.place, self.masked, self.scaled, self.device, self.by_band = place, masked, scaled, device, by_band
        self.array: Any = place.open()
        self._sign = other_sign(self.array, 0 if by_band else None) if scaled else None
        self._validity = Validity(self.array) if masked else None
        self._mask: Any = None if self._validity is None else self._validity.mask
        self.shape = self.array.shape
        self.dtype = _promoted(self.array.dtype) if masked else self.array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support, selection = kind_of(key)

        def get(items: tuple[Any, ...]) -> Any:
            mask = None if self._mask is None else start(self._mask, self._of_mask(items, selection), self.device)
            values = read(self.array, selection(self.array, items), self.device)
            return self._decoded(values, None if mask is None else mask(), items)

        return indexing.explicit_indexing_adapter(settled(key, self.shape), self.shape, support, get)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """As `[]`, on the engine's threads; for `load_async`."""
        support, selection = kind_of(key)

        async def get(items: tuple[Any, ...]) -> Any:
            values = read_async(self.array, selection(self.array, items), self.device)
            if self._mask is None:
                return self._decoded(await values, None, items)
            mask = read_async(self._mask, self._of_mask(items, selection), self.device)
            return self._decoded(*await asyncio.gather(values, mask), items)

        return await indexing.async_explicit_indexing_adapter(settled(key, self.shape), self.shape, support, get)

    def _of_mask(self, items: tuple[Any, ...], selection: Selection) -> Any:
        """The same pixels of the mask, which has one band or as many as the image."""
        if self._validity is not None and not self._validity.is_of_all_bands:
            return selection(self._mask, items)
        is_list = isinstance(items[0], np.ndarray) and selection is as_points
        return selection(self._mask, (np.zeros_like(items[0]) if is_list else 0, *items[1:]))

    def _decoded(self, values: Any, mask: Any, items: tuple[Any, ...]) -> Any:
        if not (self.masked or self.scaled):
            return values
        numbers = values if self._sign is None else values.view(self._sign)
        made = numbers.astype(self.dtype, copy=self.device is not None)  # values in host memory are this read's own
        bands = self._bands(items, values.ndim)
        valid = None if self._validity is None else self._validity.of(values, mask, bands)
        if valid is not None:
            made = _blanked(made, valid)
        return self._scale(made, bands) if self.scaled else made

    def _bands(self, items: tuple[Any, ...], rank: int) -> Any:
        """The band of each value, in a shape that broadcasts against the values."""
        bands = np.arange(self.shape[0])[items[0]]
        is_point = isinstance(items[0], np.ndarray) and items[0].ndim == rank
        if bands.ndim == 0 or (
            is_point and any(isinstance(i, np.ndarray) and i.shape == bands.shape for i in items[1:])
        ):
            return bands
        return bands.reshape(bands.shape + (1,) * (rank - bands.ndim))

    def _scale(self, values: Any, bands: Any) -> Any:
        """Apply scale and offset in place, unless they change nothing."""
        asarray = module_of(values).asarray
        if set(self.array.scales) != {1}:
            values *= asarray(np.asarray(self.array.scales, self.dtype)[bands])
        if set(self.array.offsets) != {0}:
            values += asarray(np.asarray(self.array.offsets, self.dtype)[bands])
        return values

    def __getstate__(self) -> tuple[Any, ...]:
        return self.place, self.masked, self.scaled, self.device, self.by_band

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]


def _promoted(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that has NaN for missing values, as xarray promotes."""
    if dtype.kind in "fc":
        return dtype
    return np.dtype("f4" if dtype.itemsize <= 2 else "f8")


def open_raster(
    target: Any,
    path: str = "",
    *,
    options: dict[str, Any],
    source: Any,
    convention: str,
    drop_variables: str | Iterable[str] | None,
    mask_and_scale: bool | None,
    masked: bool,
    parse_coordinates: bool | None,
    default_name: str,
    band_as_variable: bool,
    device: str | None,
) -> xarray.Dataset:
    """One image of a TIFF file as a dataset of one variable (or, `band_as_variable`, one for each band).

    `source`: the target as the caller gave it.
    """
    if convention not in ("rioxarray", "plain"):
        raise InvalidArgumentError(f"convention must be 'rioxarray' or 'plain', got {convention!r}")
    if default_name is None:
        raise InvalidArgumentError("default_name is the name of a dataset's variable: it cannot be None")
    plain = convention == "plain"
    scaled = not plain if mask_and_scale is None else mask_and_scale
    if isinstance(target, TiffArray) and (options or target._options):
        message = "an image that is open is shown as it is: open its file to have other pages, levels, bands or layouts"
        raise InvalidArgumentError(message, f"array '{target.uri}'")
    place = Place(target, path, options)
    data = RasterArray(place, masked or scaled, scaled, device, band_as_variable)
    array = data.array
    if device is not None:
        array.read(np.s_[:0, :0, :0], device=device)  # reports missing packages at once
    coordinates = _coordinates(array, parse_coordinates is not False)
    how = (array, data.masked, scaled, data.dtype)
    attributes, encoding = ({}, {}) if band_as_variable else attributes_of(*how)
    shared = {"source": _source(source, array), "grid_mapping": "spatial_ref"}
    encoding |= {**shared, "preferred_chunks": dict(zip(("band", "y", "x"), array.chunks, strict=True))}
    bands = np.arange(array.shape[0], dtype="u1") if plain else np.arange(1, array.shape[0] + 1)
    variable = xarray.Variable(("band", "y", "x"), indexing.LazilyIndexedArray(data), attributes, encoding)
    mapping = xarray.Variable((), 0, grid_mapping_of(array))
    name = "raster" if plain else default_name
    # Coordinates first: they determine the order of the dimensions, (band, x, y) as in rioxarray.
    made = xarray.Dataset(coords={"band": ("band", bands), **coordinates, "spatial_ref": mapping}).assign(
        {name: variable}
    )
    if band_as_variable:
        made = _split(made[name], [attributes_of(*how, band) for band in range(len(bands))])
        made.attrs = image_attributes(array)
        for each in made.data_vars.values():
            each.encoding |= {**shared, "preferred_chunks": dict(zip(("y", "x"), array.chunks[1:], strict=True))}
    return made if drop_variables is None else made.drop_vars(drop_variables)


def _coordinates(array: Any, wanted: bool) -> dict[str, Any]:
    """Centres of pixels, computed as in rioxarray, to the last bit: from the first pixel's centre on."""
    if not wanted or array.gcps or array.rpcs:
        return {}
    a, b, c, d, e, f = array._coefficients or (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    c, f = a * 0.5 + b * 0.5 + c, d * 0.5 + e * 0.5 + f
    size = array.shape[1:]
    if b == d == 0:
        if max(size) > _MOST_COORDINATES:  # xarray's indexes hold them in memory: a damaged header could exhaust it
            message = f"x and y of {size[0]} x {size[1]} pixels are not made: parse_coordinates=False goes without them"
            raise UnsupportedError(message, f"array '{array.uri}'")
        return {"x": np.arange(size[1]) * a + c, "y": np.arange(size[0]) * e + f}
    return {
        name: xarray.Variable(("y", "x"), indexing.LazilyIndexedArray(_Centres(size, terms)))
        for name, terms in (("xc", (a, b, c)), ("yc", (d, e, f)))
    }


def _blanked(values: Any, valid: Any) -> Any:
    """NaN for invalid pixels; in place on the host."""
    nothing, module = values.dtype.type(np.nan), module_of(values)
    if module is not np:
        return module.where(valid, values, nothing)
    np.copyto(values, nothing, where=~valid)
    return values


class _Centres(BackendArray):
    """One coordinate of the centres of a rotated grid's pixels, computed when it is needed."""

    dtype = np.dtype("f8")

    def __init__(self, size: tuple[int, int], terms: tuple[float, float, float]) -> None:
        self.shape, self.terms = size, terms

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.OUTER_1VECTOR
        return indexing.explicit_indexing_adapter(settled(key, self.shape), self.shape, support, self._at)

    def _at(self, items: tuple[Any, ...]) -> Any:
        by_column, by_row, origin = self.terms
        rows, columns = (np.arange(size)[item] for size, item in zip(self.shape, items, strict=True))
        if np.ndim(rows) and np.ndim(columns):
            rows = rows[:, None]
        return columns * by_column + rows * by_row + origin


def _split(variable: xarray.DataArray, of_bands: list[tuple[dict[str, Any], dict[str, Any]]]) -> xarray.Dataset:
    """A variable for each band, `band_1`, `band_2`, ..., with the attributes and encodings of bands."""
    made = {}
    for i, (attributes, encoding) in enumerate(of_bands):
        made[f"band_{i + 1}"] = variable.isel(band=i, drop=True).assign_attrs(attributes)
        made[f"band_{i + 1}"].encoding = encoding
    return xarray.Dataset(made)


def _source(target: Any, array: Any) -> str:
    if isinstance(target, str | os.PathLike):
        return os.fsdecode(target)
    return str(array.uri)


def device_of(device: str | None, device_id: Any) -> str | None:
    """`device="cuda:1"`, or `device_id=1` and `device_id=None` (the current device) with the names of CUDA's
    libraries.
    """
    if device_id is not UNSET:
        if device is not None:
            raise InvalidArgumentError("device and device_id have the same meaning: give one of them")
        return "cuda" if device_id is None else f"cuda:{int(device_id)}"
    if device in (None, "cpu"):
        return None
    if not isinstance(device, str) or not device.startswith("cuda"):
        raise UnsupportedError(f"device must be cpu, cuda or cuda:N, got {device!r}")
    return device


UNSET: Any = type("Unset", (), {"__repr__": lambda self: "<unset>"})()
