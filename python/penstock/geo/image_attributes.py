"""Attributes, encoding and grid mapping of a GeoTIFF's variable, by rioxarray's conventions.

Names and forms: GDAL's metadata model (https://gdal.org/en/stable/drivers/raster/gtiff.html#metadata) and rioxarray's
CF convention (https://corteva.github.io/rioxarray/stable/getting_started/crs_management.html).
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

# Tags that GDAL shows in the metadata of an image.
_TEXT_TAGS = {
    "DocumentName": "TIFFTAG_DOCUMENTNAME",
    "ImageDescription": "TIFFTAG_IMAGEDESCRIPTION",
    "Software": "TIFFTAG_SOFTWARE",
    "DateTime": "TIFFTAG_DATETIME",
    "Artist": "TIFFTAG_ARTIST",
    "HostComputer": "TIFFTAG_HOSTCOMPUTER",
    "Copyright": "TIFFTAG_COPYRIGHT",
}
_RESOLUTION_UNITS = {1: "1 (unitless)", 2: "2 (pixels/inch)", 3: "3 (pixels/cm)"}
_RPC_NAMES = (
    "height_off height_scale lat_off lat_scale line_den_coeff line_num_coeff line_off line_scale long_off long_scale "
    "samp_den_coeff samp_num_coeff samp_off samp_scale err_bias err_rand"
)
# Keys that readers expect elsewhere.
_HIDDEN = ("_FillValue", "missing_value", "fill_value", "nodata", "nodatavals", "is_tiled", "res")


def attributes_of(
    array: Any, masked: bool, scaled: bool, dtype: np.dtype[Any], band: int | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes and encoding: conventions that were applied to the values are encoding, others are attributes.

    For one band without the image's attributes, or for all (with the first one's metadata).
    """
    texts = {**(_image_metadata(array) if band is None else {}), **array.band_metadata[band or 0]}
    attributes: dict[str, Any] = {key: _parsed(value) for key, value in texts.items() if key not in _HIDDEN}
    encoding: dict[str, Any] = {"rasterio_dtype": _gdals_type(array)}
    if masked:
        encoding["dtype"] = str(array.dtype)
    of_mask, of_scale = encoding if masked else attributes, encoding if scaled else attributes
    if array._held_nodata is not None:
        of_mask["_FillValue"] = dtype.type(array._held_nodata)
    bands = slice(None) if band is None else slice(band, band + 1)
    if scaled and "_Unsigned" in attributes:
        encoding["_Unsigned"] = attributes.pop("_Unsigned")
        sign = other_sign(array, band)
        if sign is not None and "_FillValue" in encoding:
            encoding["_FillValue"] = array.dtype.type(array._held_nodata).view(sign)
    scales, offsets, descriptions, units = (
        each[bands] for each in (array.scales, array.offsets, array.descriptions, array.units)
    )
    for one, many, name in ((scales, "scales", "scale_factor"), (offsets, "offsets", "add_offset")):
        if len(set(one)) > 1:
            of_scale[many] = one
            warnings.warn(f"bands differ in their {many}: there is no attribute {name!r}, see {many!r}", stacklevel=2)
        else:
            of_scale[name] = one[0]
    if any(descriptions):
        attributes["long_name"] = descriptions[0] if len(set(descriptions)) == 1 else descriptions
    if any(units):
        attributes["units"] = units[0] if len(units) == 1 else units
    return attributes, encoding


def other_sign(array: Any, band: int | None = None) -> np.dtype[Any] | None:
    """The type with the other sign, if the attribute `_Unsigned` of netCDF's conventions requires it; else None. The
    attribute is the image's or, if bands are variables, the band's.
    """
    said = {**(array.gdal_metadata if band is None else {}), **array.band_metadata[band or 0]}.get("_Unsigned")
    if said is None or array.dtype.kind != {"true": "i"}.get(said, "u"):
        return None
    return np.dtype(f"{'u' if said == 'true' else 'i'}{array.dtype.itemsize}")


def image_attributes(array: Any) -> dict[str, Any]:
    """For the image as a whole."""
    return {key: _parsed(value) for key, value in _image_metadata(array).items()}


def _gdals_type(array: Any) -> str:
    """The type by rasterio's names, which include one for complex numbers of two int16."""
    is_complex_int = array.tags.get("SampleFormat") in (5, (5,) * array._integer("SamplesPerPixel", 1))
    return "complex_int16" if is_complex_int and array._integer("BitsPerSample", 1) == 32 else str(array.dtype)


def _image_metadata(array: Any) -> dict[str, str]:
    tags = array._page_tags
    made = dict(array.gdal_metadata)
    for tag, name in _TEXT_TAGS.items():
        if isinstance(tags.get(tag), str):
            made[name] = tags[tag]
    for tag, name in (("MinSampleValue", "TIFFTAG_MINSAMPLEVALUE"), ("MaxSampleValue", "TIFFTAG_MAXSAMPLEVALUE")):
        values = set(np.atleast_1d(tags.get(tag, ())).tolist())
        if len(values) == 1:
            made[name] = str(values.pop())
    for tag, name in (("XResolution", "TIFFTAG_XRESOLUTION"), ("YResolution", "TIFFTAG_YRESOLUTION")):
        if isinstance(tags.get(tag), int | float):
            made[name] = f"{np.nan_to_num(np.float32(tags[tag])):.8g}"  # libtiff's is a float of 32 bits
    if "XResolution" in tags or "YResolution" in tags or "ResolutionUnit" in tags:
        unit = tags.get("ResolutionUnit")
        if isinstance(unit, int) and unit in _RESOLUTION_UNITS:
            made["TIFFTAG_RESOLUTIONUNIT"] = _RESOLUTION_UNITS[unit]
    if "GTRasterType" in array._geo_keys:
        made["AREA_OR_POINT"] = array.area_or_point or "Area"
    return made


def _parsed(text: str) -> Any:
    """A number if the text is one, an array if it is `{1,2,3}`."""
    if text.startswith("{") and text.endswith("}"):
        try:
            return np.array([float(each) for each in text[1:-1].split(",")])
        except ValueError:
            return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def grid_mapping_of(array: Any) -> dict[str, Any]:
    """Attributes of `spatial_ref`: the coordinate system as CF and as WKT, GDAL's transform, control points, RPCs."""
    made: dict[str, Any] = {}
    rpcs = array.rpcs
    crs = array.crs if rpcs is None else _wgs84(array.crs)
    if crs is not None:
        wkt = _wkt(crs)
        if not isinstance(crs, str):
            made.update(type(crs).from_user_input(wkt).to_cf())
        made["crs_wkt"] = made["spatial_ref"] = wkt
    a, b, c, d, e, f = array._coefficients or (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    made["GeoTransform"] = " ".join(map(str, (c, a, b, f, d, e)))
    if array.gcps:
        features = [_feature(number, point) for number, point in enumerate(array.gcps, 1)]
        made["gcps"] = json.dumps({"type": "FeatureCollection", "features": features})
    if rpcs is not None:
        made["rpcs"] = json.dumps({name: rpcs.get(name.upper()) for name in _RPC_NAMES.split()})
    return made


def _feature(number: int, point: tuple[float, ...]) -> dict[str, Any]:
    """A control point as GeoJSON."""
    column, row, *place = point
    properties = {"id": str(number), "info": "", "row": row, "col": column}
    return {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": place}}


def _wgs84(crs: Any) -> Any:
    """The output of rational polynomials: longitude and latitude."""
    try:
        from pyproj import CRS
    except ImportError:
        return crs
    return CRS.from_epsg(4326)


def _wkt(crs: Any) -> str:
    """As GDAL writes it: WKT 1, or WKT 2 for systems that WKT 1 cannot describe."""
    if isinstance(crs, str):
        return crs
    from pyproj.exceptions import CRSError

    try:
        # GDAL names all axes, pyproj only those in the usual order.
        return str(crs.to_wkt("WKT1_GDAL", output_axis_rule=True))
    except CRSError:
        return str(crs.to_wkt())
