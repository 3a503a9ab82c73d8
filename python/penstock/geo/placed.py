"""The position and the meaning of an array of another format, as options of a TIFF.

Source: CF conventions, 5.6 "Grid Mappings" and 8.1 "Packed Data"; GDAL's attributes `spatial_ref` and `GeoTransform`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import struct
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.core import registry
from penstock.core.array import Array
from penstock.core.errors import Error, UnsupportedError
from penstock.core.group import Group
from penstock.geo.new_system import system_of
from penstock.geo.tiff import TiffArray

_MOST_COORDINATES = 1 << 24  # coordinates of one axis, which are read to find the transform
_NOT_WRITTEN = (("gcps", "ground control points"), ("rpcs", "rational polynomials"))
_IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)  # of images without a transform, in their grid mapping
_PACKED = (("scale_factor", 1.0), ("add_offset", 0.0))
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # characters that XML 1.0, GDAL's metadata, does not have
# TIFF's own texts: GDAL's names, and those of `tags`.
_TEXTS = {
    f"TIFFTAG_{name.upper()}": name
    for name in ("DocumentName", "ImageDescription", "Software", "DateTime", "Artist", "HostComputer", "Copyright")
}
# Attributes that are stored separately in a TIFF, or in a Zarr array.
_SPOKEN_FOR = {
    *("_FillValue", "missing_value", "scale_factor", "add_offset", "scales", "offsets", "units", "long_name"),
    *("grid_mapping", "coordinates", "_ARRAY_DIMENSIONS", "AREA_OR_POINT", "DIMENSION_LIST", "CLASS", "NAME"),
}


def group_of(array: Array) -> Group | None:
    """The group that holds an array, if it is known or the array can be opened again."""
    if array._within is not None:
        return array._within  # type: ignore[no-any-return]
    try:
        above = registry.reopen_above(array)
    except (Error, TypeError, OSError):
        return None
    return above if isinstance(above, Group) else None


def transform_of(array: Array) -> tuple[float, ...] | None:
    """The affine transform of an array whose grid mapping, or coordinates, have one."""
    group, names = group_of(array), dimension_names_of(array)
    if group is None or len(names) < 2:
        return None
    return _transform_of(group, names[-2:], array.shape[-2:], _reference_of(group, array.attrs.asdict()))


def options_of(array: Array, group: Group | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Options of `create_array` for a TIFF of the array, and GDAL's metadata.

    Parameters
    ----------
    group
        The group with the array, its grid mapping and its coordinates. None: not known.
    """
    attributes = array.attrs.asdict()
    names = dimension_names_of(array)
    made: dict[str, Any] = {}
    if group is not None and len(names) >= 2:
        reference = _reference_of(group, attributes)
        lost = [what for key, what in _NOT_WRITTEN if reference.get(key)]
        if lost:
            message = f"the {' and '.join(lost)} of '{array.uri}' are not written to TIFFs"
            warnings.warn(message, UserWarning, stacklevel=5)
        made["transform"] = _transform_of(group, names[-2:], array.shape[-2:], reference)
        if lost and made["transform"] in (None, _IDENTITY):
            # The system is that of the points or polynomials, not of the pixels.
            made["transform"] = None
        else:
            made["crs"] = _crs_of(reference)
    made["nodata"] = nodata_of(array, attributes)
    made |= meaning_of_bands(attributes, array.shape[0] if array.ndim == 3 else 1)
    if attributes.get("AREA_OR_POINT") in ("Area", "Point"):
        made["area_or_point"] = attributes["AREA_OR_POINT"]
    texts = {
        name: _CONTROL.sub(" ", str(value))
        for name, value in attributes.items()
        if isinstance(value, str | int | float)
        and name not in _SPOKEN_FOR
        and (name in _TEXTS or not name.startswith(("TIFFTAG_", "_Nc")))
    }
    return {name: value for name, value in made.items() if value is not None}, texts


def _reference_of(group: Group, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of an array's grid mapping."""
    # Also of the form "crs: x y other: lat lon", whose first system is that of the dimensions.
    mapping = _member(group, str(attributes.get("grid_mapping", "spatial_ref")).split(":")[0].split(" ")[0])
    return {} if mapping is None else mapping.attrs.asdict()


def meaning_of_bands(attributes: Mapping[str, Any], bands: int) -> dict[str, list[Any] | None]:
    """Scales, offsets, units and descriptions of each band, from attributes with the names of CF or of rioxarray."""
    made: dict[str, list[Any] | None] = {}
    for name, many, one in (("scales", "scales", "scale_factor"), ("offsets", "offsets", "add_offset")):
        made[name] = _of_bands(attributes.get(many, attributes.get(one)), bands, float)
    for name, attribute in (("units", "units"), ("descriptions", "long_name")):
        made[name] = _of_bands(attributes.get(attribute), bands, str)
    return made


def options_of_image(image: TiffArray) -> tuple[dict[str, Any], dict[str, str]]:
    """The same for an image of a TIFF."""
    made: dict[str, Any] = {"crs": image.crs, "transform": image.transform}
    made["nodata"] = None if image._is_mask else image._held_nodata
    warn_of_nodata(image, stacklevel=6)
    if image.gcps or image.rpcs:
        what = "ground control points" if image.gcps else "rational polynomials"
        warnings.warn(f"the {what} of '{image.uri}' are not written to TIFFs", UserWarning, stacklevel=5)
        if made["transform"] is None:
            made["crs"] = None
    if image.area_or_point is not None and (made["transform"] is not None or made["crs"] is not None):
        made["area_or_point"] = image.area_or_point
    made |= meaning_of_image(image)
    bits = image._integer("BitsPerSample", 1)
    can_be_narrow = image.dtype.kind == "u" and not image._is_mask  # a mask has 0 and 255
    if can_be_narrow and bits < min(33, 8 * image.dtype.itemsize):
        made["bits"] = bits
    texts = {name: text for name, text in image.gdal_metadata.items() if name != "AREA_OR_POINT"}
    texts |= {name: image.tags[tag] for name, tag in _TEXTS.items() if isinstance(image.tags.get(tag), str)}
    return {name: value for name, value in made.items() if value is not None}, texts


def warn_of_nodata(image: TiffArray, stacklevel: int) -> None:
    """A warning if the bands of an image have nodata values that differ: a copy has that of the first band."""
    values = [] if image._is_mask else [band["held_nodata"] for band in image._band_values]
    if len({str(value) for value in values}) > 1:
        shown = ", ".join(map(str, values[:4])) + (", ..." if len(values) > 4 else "")
        message = f"the bands of '{image.uri}' have other nodata values ({shown}): that of the first is written for all"
        warnings.warn(message, UserWarning, stacklevel=stacklevel)


def meaning_of_image(image: TiffArray) -> dict[str, Any]:
    """The meaning of an image's bands, and their colours, as options."""
    made: dict[str, Any] = {}
    if image._is_mask:
        return made
    has_bands_first = image.dimension_names in (("band", "y", "x"), ("y", "x"))
    if has_bands_first:
        if set(image.scales) != {1.0} or any(image.offsets):
            made |= {"scales": image.scales, "offsets": image.offsets}
        for name in ("units", "descriptions"):
            if any(getattr(image, name)):
                made[name] = getattr(image, name)
    if has_bands_first and not (image._options or {}).get("bands"):
        bands = image.count
        if image.photometric in ("rgb", "ycbcr") and bands >= 3:
            made["photometric"] = "rgb"
        elif image.photometric == "miniswhite":
            made["photometric"] = "miniswhite"
        if bands > 1 and image._meaning.alpha_band() == bands - 1:
            made["alpha"] = True
    if image.colormap is not None and image.count == 1 and image.dtype.kind == "u":
        made["colormap"] = image.colormap
    return made


class _Rows:
    """The only band of a mask, as an array of (rows, columns)."""

    def __init__(self, mask: TiffArray) -> None:
        self._mask, self.shape = mask, mask.shape[-2:]

    def __getitem__(self, rows: slice) -> Any:
        return self._mask[0, rows]


def mask_of_image(image: TiffArray) -> _Rows | None:
    """The image's mask, for `mask=` of a new TIFF. A warning if it is not one of all bands and of the image's size."""
    if not image.has_mask or image._is_mask:
        return None
    mask = image._image(mask=True, native_order=False)
    if mask.shape == (1, *image.shape[-2:]):
        return _Rows(mask)
    warnings.warn(f"the mask of '{image.uri}', of shape {mask.shape}, is not written", UserWarning, stacklevel=5)
    return None


def dimension_names_of(array: Array) -> tuple[str | None, ...]:
    """The names of the dimensions; empty if they are not known."""
    names = array.dimension_names
    return () if names is None or len(names) != array.ndim else tuple(names)


def image_in(group: Group) -> Array | None:
    """The only array of a group that can be an image: numbers with rows and columns, which are not coordinates."""
    found = []
    for name, array in group.arrays():
        names = dimension_names_of(array)
        attributes = array.attrs.asdict()
        if array.dtype.kind not in "iufc" or array.ndim not in (2, 3) or name in names:
            continue
        found.append((array, "grid_mapping" in attributes))
    chosen = [array for array, placed in found if placed] or [array for array, _ in found]
    if len(chosen) != 1:
        return None
    chosen[0]._within = group
    return chosen[0]


def crs_that_tiffs_hold(crs: Any, uri: str) -> Any:
    """The system, or the part of it that GeoTIFF has keys for, or None; a warning if anything is lost."""
    try:
        system_of(crs)
        return crs
    except UnsupportedError as error:
        part = _plainer(crs)
        try:
            system_of(part)
        except UnsupportedError:
            part = None
        whole = "" if part is None else "whole "
        message = f"the {whole}coordinate system of '{uri}' is not written: {error.message}"
        warnings.warn(message, UserWarning, stacklevel=4)
        return part


def _plainer(crs: Any) -> Any:
    """The system without heights, or without a datum shift of its own."""
    import pyproj

    found = pyproj.CRS.from_user_input(crs)
    if found.is_compound:
        return found.sub_crs_list[0].to_wkt()
    return found.source_crs.to_wkt() if found.is_bound and found.source_crs is not None else found.to_wkt()


def nodata_of(array: Array, attributes: Mapping[str, Any]) -> int | float | None:
    """The missing value, by xarray's rules for each format."""
    value = attributes.get("_FillValue", attributes.get("missing_value"))
    if value is None and array.format == "zarr2":
        value = array.fill_value
    value = _single(value)
    if array.dtype.kind == "c":
        return _real_of(value)
    if isinstance(value, str) and array.dtype.kind == "f":
        try:
            value = struct.unpack("<d", base64.b64decode(value, validate=True))[0]
        except (ValueError, struct.error):
            try:
                value = float(value)
            except ValueError:
                return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        whole = plain == plain and plain not in (float("inf"), float("-inf")) and plain == int(plain)
        return int(plain) if whole and limits.min <= plain <= limits.max else None
    return plain


def _real_of(value: Any) -> float | None:
    """The real part of a complex missing value: TIFFs store a real one."""
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(each, str) for each in value):
        try:  # xarray's form in Zarr v3
            real, imaginary = (struct.unpack("<d", base64.b64decode(each, validate=True))[0] for each in value)
        except (ValueError, struct.error):
            return None
        value = complex(real, imaginary)
    if isinstance(value, bool) or not isinstance(value, int | float | complex | np.number):
        return None
    number = complex(value)
    return number.real if number.imag == 0 else None


def _single(value: Any) -> Any:
    while isinstance(value, list | tuple | np.ndarray) and len(value) == 1:
        value = value[0]
    return value


def _member(group: Group, name: str) -> Array | None:
    try:
        found = group.get(name)
    except UnsupportedError:
        return None
    return found if isinstance(found, Array) else None


def _crs_of(reference: Mapping[str, Any]) -> Any:
    wkt = reference.get("crs_wkt") or reference.get("spatial_ref")
    if wkt or not reference.get("grid_mapping_name"):
        return wkt
    try:
        import pyproj
    except ImportError:
        return None
    try:
        return pyproj.CRS.from_cf({name: _single(value) for name, value in reference.items()}).to_wkt()
    except (pyproj.exceptions.CRSError, KeyError, TypeError, ValueError):
        return None


def _transform_of(
    group: Group, names: tuple[str | None, ...], shape: tuple[int, ...], reference: Mapping[str, Any]
) -> tuple[float, ...] | None:
    """GDAL's own numbers if the coordinates agree with them or do not exist; otherwise those of the coordinates.

    Files of GDAL whose rows begin in the south have the transform of the flipped image. Rows along x and columns along
    y have a transform, too.
    """
    stated = _stated(reference.get("GeoTransform"))
    is_upright = stated is not None and stated[1] == stated[3] == 0
    steps = (stated[4], stated[0]) if stated is not None and is_upright else (None, None)
    rows, columns = (_line_of(group, *each, reference) for each in zip(names, shape, steps, strict=True))
    if rows is None or columns is None:
        return stated
    if _is_across(group, names[0]) and not _is_across(group, names[1]):
        (x, right), (y, down) = rows, columns
        return 0.0, right, x - right / 2, down, 0.0, y - down / 2
    (y, down), (x, right) = rows, columns
    if stated is not None and is_upright:
        same = np.allclose((stated[0], stated[4]), (right, down), rtol=1e-4)
        first = stated[2] + stated[0] / 2 - x, stated[5] + stated[4] / 2 - y
        if same and abs(first[0]) <= abs(right) / 8 and abs(first[1]) <= abs(down) / 8:
            return stated
    return right, 0.0, x - right / 2, 0.0, down, y - down / 2


def _is_across(group: Group, name: str | None) -> bool:
    """Whether a dimension is x or the longitude. Source: CF conventions, 4.2 and appendix F."""
    line = None if name is None else _member(group, name)
    attributes = {} if line is None else line.attrs.asdict()
    return (
        name in ("x", "lon", "longitude")
        or attributes.get("axis") == "X"
        or str(attributes.get("standard_name")).startswith(("longitude", "grid_longitude", "projection_x_"))
        or str(attributes.get("units")).startswith(("degrees_east", "degree_east", "degrees_E", "degree_E"))
    )


def _stated(text: Any) -> tuple[float, ...] | None:
    """Attribute `GeoTransform`, in GDAL's order."""
    try:
        c, a, b, f, d, e = (float(part) for part in str(text).split())
    except ValueError:
        return None
    return a, b, c, d, e, f


def _line_of(
    group: Group, name: str | None, length: int, stated_step: float | None, reference: Mapping[str, Any]
) -> tuple[float, float] | None:
    """The first coordinate of a dimension, and the step, in the units of the system; None if steps differ. A single
    coordinate has the stated step.
    """
    line = None if name is None else _member(group, name)
    if line is None or line.shape != (length,) or line.dtype.kind not in "iuf" or not 1 <= length <= _MOST_COORDINATES:
        return None
    attributes = line.attrs.asdict()
    try:
        scale, offset = (float(_single(attributes.get(key, less))) for key, less in _PACKED)
        factor = _factor_of(str(attributes.get("units", "")), reference)
    except (KeyError, TypeError, ValueError):
        return None
    values = line[...]
    exact = (values.astype("f8") * scale + offset) * factor
    if length == 1:
        return None if not stated_step else (float(exact[0]), stated_step)
    step = (exact[-1] - exact[0]) / (length - 1)
    # Coordinates of 32 bits are rounded, each by half of its last bit.
    rounding = np.finfo(values.dtype).eps * np.abs(exact).max() if values.dtype.kind == "f" else 0
    if not step or not np.allclose(np.diff(exact), step, rtol=1e-5, atol=rounding):
        return None
    return float(exact[0]), float(step)


def _factor_of(units: str, reference: Mapping[str, Any]) -> float:
    """The factor from a coordinate's units to those of its system, which CF leaves to readers: metres, except for
    degrees.

    Angles of a geostationary satellite are multiplied by its height. Source: CF conventions, appendix F; GDAL's
    netCDF driver.
    """
    if units in ("km", "kilometer", "kilometre", "kilometers", "kilometres"):
        return 1000.0
    if units in ("rad", "radian", "radians") and reference.get("grid_mapping_name") == "geostationary":
        return float(_single(reference["perspective_point_height"]))
    return 1.0


def _of_bands(value: Any, bands: int, kind: type) -> list[Any] | None:
    """One value for each band, from one for all or a list."""
    if value is None:
        return None
    single = _single(value)
    if isinstance(single, str) and single.startswith("["):  # a list with missing ones is JSON in HDF5's attributes
        with contextlib.suppress(ValueError):
            single = json.loads(single)
    values = list(single) if isinstance(single, list | tuple | np.ndarray) else [single] * bands
    if len(values) != bands:
        return None
    try:
        return [None if each is None else kind(each) for each in values]
    except (TypeError, ValueError):
        return None
