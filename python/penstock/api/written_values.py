"""Facts that are saved with values: names of dimensions, attributes, masks, coordinate systems."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock import _core
from penstock.core.array import Array
from penstock.core.data_types import as_ndarray, is_masked, is_masked_array
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.core.group import Group
from penstock.geo import placed
from penstock.geo.tiff import TiffArray
from penstock.geo.unpacked import UnpackedArray
from penstock.geo.writing import dtype_of

# The dimensions of images, as CF, rioxarray and GDAL name them.
_COLUMNS = frozenset({"x", "longitude", "lon"})
_ROWS = frozenset({"y", "latitude", "lat"})


def check_is_array(data: Any) -> None:
    """Refuse groups and xarray datasets, which hold several arrays."""
    if isinstance(data, Group):
        raise InvalidArgumentError(f"'{data.uri}' is a group, not an array: use penstock.copy")
    if _is_xarray(data, "Dataset"):
        raise UnsupportedError(
            "an xarray Dataset is not an array: use its to_zarr(), or to_netcdf(), or save one variable",
        )


def _is_xarray(data: Any, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.startswith("xarray.") and "core" in base.__module__
        for base in type(data).__mro__
    )


def for_zarr(data: Any, given: dict[str, Any]) -> Any:
    """The values to write; `given` gets attributes, dimension names and the fill value that `data` has.

    `given["fill"]` gets the mask of an array of another format: options of the core, instead of a fill value. The
    caller's arguments are kept. A masked array needs a fill value."""
    check_is_array(data)
    if isinstance(data, Array):
        warn_of_place(data)
        _take_from_array(data, given)
        return data
    if _is_xarray(data, "DataArray"):
        if given["attributes"] is None:
            given["attributes"] = {name: _plain(value) for name, value in data.attrs.items()}
        if given["dimension_names"] is None:
            given["dimension_names"] = [str(name) for name in data.dims]
            if not data.dims and given["zarr_format"] == 2:
                given["attributes"] = {**given["attributes"], "_ARRAY_DIMENSIONS": []}
        _warn_of_coordinates(data, set())
        data = as_ndarray(data)
    if is_masked_array(data):
        if not is_masked(data):
            return data.data
        if given["fill_value"] is None:
            raise InvalidArgumentError("data has masked values: give fill_value, or write data.filled(value)")
        return data.filled(given["fill_value"])
    return data


def _take_from_array(data: Array, given: dict[str, Any]) -> None:
    named = data.format in ("zarr2", "zarr3", "hdf5", "netcdf", "reference")  # those of a TIFF are its tags
    same_type = given["dtype"] is None or given["dtype"] == data.dtype
    nothing_given = all(given[name] is None for name in ("attributes", "dimension_names", "fill_value"))
    if (
        (named or data.format == "tiff")
        and nothing_given
        and same_type
        and data.format != f"zarr{given['zarr_format']}"
    ):
        meaning = _core.meaning_in(data, given["zarr_format"])
        if meaning:
            given["attributes"] = json.loads(meaning.pop("attributes"))
            given["dimension_names"] = meaning.pop("dimension_names")
            given["fill"] = meaning
            return
    if given["attributes"] is None and named:
        given["attributes"] = dict(data.attrs)
    names = data.dimension_names or (None,)
    if given["dimension_names"] is None and (all(names) or (any(names) and given["zarr_format"] == 3)):
        given["dimension_names"] = names
    if given["fill_value"] is None and same_type and data.format in ("zarr2", "zarr3"):
        given["fill_value"] = data.fill_value
        if data.fill_value is None and given["zarr_format"] == 2:
            given["fill"] = {"fill_is_undefined": True}


def warn_of_place(data: Any) -> None:
    """Warn of facts about a TIFF's position and values that Zarr's arrays do not hold."""
    if getattr(data, "format", None) != "tiff":
        return
    if data.has_mask and not data._is_mask:
        warnings.warn(f"the mask of '{data.uri}' is not written to Zarr", UserWarning, stacklevel=3)
    lost = ["the coordinate system and the transform"] if data.crs is not None else []
    if any(each != 1 for each in data.scales) or any(data.offsets):
        lost.append("scale and offset")
    if not data._is_mask and data._held_nodata is not None and not _is_in_tag(data, data._held_nodata):
        lost.append("the nodata value of a sidecar file")
    if lost:
        text = f"{' and '.join(lost)} of a TIFF are not written with an array of Zarr (penstock.convert writes them)"
        warnings.warn(text, UserWarning, stacklevel=3)


def _is_in_tag(image: Any, nodata: Any) -> bool:
    """Whether the TIFF itself has the nodata value: copies of its array have that one."""
    fill, held = (str(image.dtype.type(value)) for value in (image.fill_value, nodata))  # NaN equals NaN
    return "GDAL_NODATA" in image.tags and fill == held


def for_tiff(data: Any, options: dict[str, Any], dtype: Any = None) -> tuple[Any, dict[str, str]]:
    """The same for a TIFF: the values, and GDAL's metadata. `options` gets crs, transform, nodata and the meaning of
    bands.
    """
    check_is_array(data)
    if isinstance(data, UnpackedArray):
        return data, _take_from_unpacked(data, options)
    if not isinstance(data, Array):
        return _for_tiff(data, options), {}
    _check_bands(placed.dimension_names_of(data))
    if isinstance(data, TiffArray):
        facts, texts = placed.options_of_image(data)
        if options.get("mask") is None:
            facts["mask"] = placed.mask_of_image(data)
    else:
        facts, texts = placed.options_of(data, placed.group_of(data))
    if dtype is not None or any(options.get(name) for name in ("photometric", "alpha")):
        facts.pop("colormap", None)  # other values or colours are requested
    if dtype is not None or options.get("compress") == "jpeg":
        facts.pop("bits", None)
    if dtype is not None and _core.held_nodata(facts.get("nodata"), dtype_of(dtype)) is None:
        facts.pop("nodata", None)  # no pixel of the new type can have it
    if options.get("crs") is None and facts.get("crs") is not None:
        facts["crs"] = placed.crs_that_tiffs_hold(facts["crs"], data.uri)
    for name, value in facts.items():
        if value is not None and options.get(name) is None:
            options[name] = value
    return data, texts


def _take_from_unpacked(data: UnpackedArray, options: dict[str, Any]) -> dict[str, str]:
    """Position, units and descriptions; missing pixels are NaN."""
    facts, texts = placed.options_of_image(data.packed)
    facts = {name: facts.get(name) for name in ("crs", "transform", "area_or_point", "units", "descriptions")}
    if options.get("crs") is None and facts["crs"] is not None:
        facts["crs"] = placed.crs_that_tiffs_hold(facts["crs"], data.uri)
    for name, value in {**facts, "nodata": data.nodata}.items():
        if value is not None and options.get(name) is None:
            options[name] = value
    return texts


def _for_tiff(data: Any, options: dict[str, Any]) -> Any:
    def add(name: str, value: Any) -> None:
        if value is not None and options.get(name) is None:
            options[name] = value

    if _is_xarray(data, "DataArray"):
        _check_order(data)
        reference = data.coords[_mapping_of(data)].attrs if _mapping_of(data) in data.coords else {}
        add("crs", reference.get("crs_wkt") or reference.get("spatial_ref"))
        add("transform", _transform_of(data, reference))
        for name, value in placed.meaning_of_bands(data.attrs, 1 if data.ndim == 2 else data.shape[0]).items():
            add(name, value)
        if options.get("transform") is not None and data.attrs.get("AREA_OR_POINT") in ("Area", "Point"):
            add("area_or_point", data.attrs["AREA_OR_POINT"])
        values = as_ndarray(data)
        if is_masked_array(values):
            add("nodata", data.attrs.get("_FillValue", data.encoding.get("_FillValue")))
            values = _filled(values, options)
        elif options.get("nodata") is None:
            values, options["nodata"] = _without_nan(values, data)
        used = {_mapping_of(data), "band", *_COLUMNS, *_ROWS}
        _warn_of_coordinates(data, used if options.get("transform") is not None else {_mapping_of(data), "band"})
        return values
    return _filled(data, options) if is_masked_array(data) else data


def _filled(values: np.ma.MaskedArray[Any, Any], options: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """The values with the option `nodata` in place of masked ones."""
    if not is_masked(values):
        return values.data
    if options.get("nodata") is None:
        raise InvalidArgumentError("data has masked values: give nodata, or write data.filled(value)")
    try:
        return values.filled(options["nodata"])
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(f"nodata {options['nodata']!r} is not a value of {values.dtype}") from None


def _mapping_of(data: Any) -> str:
    return str(data.attrs.get("grid_mapping", data.encoding.get("grid_mapping", "spatial_ref")))


def _check_order(data: Any) -> None:
    """Refuse rows and columns that are not the last two dimensions, in this order."""
    names = [str(name) for name in data.dims]
    if any(name in _COLUMNS for name in names[:-1]) or any(name in _ROWS for name in (*names[:-2], *names[-1:])):
        raise InvalidArgumentError(
            f"the dimensions are ({', '.join(names)}), a TIFF has (band, y, x): use the DataArray's transpose"
        )


def _check_bands(names: tuple[str | None, ...]) -> None:
    """Refuse rows or columns as bands, as in layout="native"."""
    if any(name in _COLUMNS or name in _ROWS for name in names[:-2]):
        shown = ", ".join(map(str, names))
        raise InvalidArgumentError(f"the dimensions are ({shown}), a TIFF has (band, y, x): transpose the values")


def _without_nan(values: Any, data: Any) -> tuple[Any, Any]:
    """The values, and the nodata value. NaN in values that xarray decoded are those that have it in the file."""
    stated = data.attrs.get("_FillValue")
    encoded = data.encoding.get("_FillValue") if stated is None else None
    if encoded is None or values.dtype.kind != "f" or np.isnan(encoded):
        return values, stated if encoded is None else encoded
    with np.errstate(over="ignore"):
        held = values.dtype.type(encoded)
    if np.isinf(held) and not np.isinf(encoded):
        return values, float("nan")
    if (values == held).any():  # a valid value: the encoding's is one of packed values
        return values, float("nan")
    return np.where(np.isnan(values), held, values), encoded


def _transform_of(data: Any, reference: Any) -> tuple[float, ...] | None:
    """From evenly spaced coordinates; the grid mapping's `GeoTransform`, in GDAL's order, if they agree with it or do
    not exist: xarray's selections change the coordinates only.
    """
    text = reference.get("GeoTransform")
    stated = None
    if text is not None:
        c, a, b, f, d, e = (float(part) for part in str(text).split())
        stated = a, b, c, d, e, f
    coordinates = dict(data.coords)  # whose own `get` makes some for dimensions without any
    rows, columns = (coordinates.get(name) for name in data.dims[-2:])
    if rows is None or columns is None:
        return stated
    is_upright = stated is not None and stated[1] == stated[3] == 0
    y = _line_of(rows, stated[4] if stated is not None and is_upright else None)
    x = _line_of(columns, stated[0] if stated is not None and is_upright else None)
    if y is None or x is None:
        return None
    made = x[1], 0.0, x[0] - x[1] / 2, 0.0, y[1], y[0] - y[1] / 2
    if stated is not None and is_upright:
        is_same = np.allclose((stated[0], stated[4]), (made[0], made[4]), rtol=1e-4, atol=0)
        shift = abs(stated[2] - made[2]) / abs(made[0]), abs(stated[5] - made[5]) / abs(made[4])
        if is_same and max(shift) <= 1 / 8:
            return stated
    return made


def _line_of(line: Any, stated_step: float | None) -> tuple[float, float] | None:
    """The first coordinate and the step; None if steps differ. A single coordinate has the stated step."""
    values = np.asarray(line.values)
    if values.ndim != 1 or values.dtype.kind not in "iuf" or not values.size:
        return None
    exact = values.astype("f8")
    if values.size == 1:
        return None if not stated_step else (float(exact[0]), stated_step)
    step = (exact[-1] - exact[0]) / (values.size - 1)
    # Coordinates of 32 bits are rounded, each by half of its last bit.
    rounding = np.finfo(values.dtype).eps * np.abs(exact).max() if values.dtype.kind == "f" else 0
    if not step or not np.allclose(np.diff(exact), step, rtol=1e-5, atol=rounding):
        return None
    return float(exact[0]), float(step)


def _warn_of_coordinates(data: Any, used: set[str]) -> None:
    lost = sorted(str(name) for name in data.coords if str(name) not in used)
    if lost:
        warnings.warn(
            f"coordinates are not written with an array: {', '.join(lost)} (xarray's to_zarr writes them)",
            UserWarning,
            stacklevel=4,
        )


def _plain(value: Any) -> Any:
    if not isinstance(value, np.generic | np.ndarray) or value.dtype.kind in "mM":  # times are refused later
        return value
    return value.tolist()


def check_objects(values: np.ndarray[Any, Any], dtype: Any = None) -> None:
    """Refuse arrays of Python objects other than text, or bytes: other objects would become text."""
    if values.dtype.kind != "O":
        return
    kinds = {type(value) for value in values.flat}
    if all(issubclass(kind, str) for kind in kinds) or all(issubclass(kind, bytes) for kind in kinds):
        return
    wrong = next(value for value in values.flat if not isinstance(value, str)) if str in kinds else values.flat[0]
    raise InvalidArgumentError(
        f"an array of objects must be all str, or all bytes, to be written; it has {type(wrong).__name__} too"
        if len(kinds) > 1
        else f"an array of objects of {type(wrong).__name__} cannot be written: give it a dtype",
    )
