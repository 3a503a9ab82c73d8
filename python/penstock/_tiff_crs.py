"""The coordinate systems that GeoTIFF's keys name. Source: OGC GeoTIFF 1.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_USER_DEFINED = 32767
_ESRI = "ESRI PE String = "

# Projection methods by number: PROJ's name, and its parameters by key.
_METHODS: dict[int, tuple[str, dict[str, tuple[int, ...]]]] = {
    1: ("tmerc", {"lat_0": (3081,), "lon_0": (3080,), "k": (3092,), "x_0": (3082,), "y_0": (3083,)}),
    7: ("merc", {"lat_ts": (3078,), "lon_0": (3080,), "k": (3092,), "x_0": (3082,), "y_0": (3083,)}),
    8: (
        "lcc",
        {
            "lat_1": (3078,),
            "lat_2": (3079,),
            "lat_0": (3085, 3081),
            "lon_0": (3084, 3080),
            "x_0": (3086, 3082),
            "y_0": (3087, 3083),
        },
    ),
    9: ("lcc", {"lat_1": (3081,), "lat_0": (3081,), "lon_0": (3080,), "k_0": (3092,), "x_0": (3082,), "y_0": (3083,)}),
    10: ("laea", {"lat_0": (3089, 3081), "lon_0": (3088, 3080), "x_0": (3082,), "y_0": (3083,)}),
    11: (
        "aea",
        {"lat_1": (3078,), "lat_2": (3079,), "lat_0": (3081,), "lon_0": (3080,), "x_0": (3082,), "y_0": (3083,)},
    ),
    12: ("aeqd", {"lat_0": (3089, 3081), "lon_0": (3088, 3080), "x_0": (3082,), "y_0": (3083,)}),
    24: ("sinu", {"lon_0": (3088, 3080), "x_0": (3082,), "y_0": (3083,)}),
}


def geo_keys(directory: tuple[int, ...], doubles: tuple[float, ...], text: str) -> dict[int, Any]:
    """The GeoTIFF keys by number: int, float, tuple of floats or str; from the three tags that hold them."""
    if len(directory) < 4:
        return {}
    keys: dict[int, Any] = {}
    for i in range(4, min(len(directory) - 3, 4 + 4 * directory[3]), 4):
        key, where, count, at = directory[i : i + 4]
        if where == 0:
            keys[key] = at
        elif where == 34736 and count and at + count <= len(doubles):
            keys[key] = doubles[at] if count == 1 else doubles[at : at + count]
        elif where == 34737:
            keys[key] = text[at : at + count].rstrip("|\0")
        elif where == 34735 and count and at + count <= len(directory):
            keys[key] = directory[at]
    return keys


def epsg_of(keys: Mapping[int, Any]) -> int | None:
    """The code of the projected or geographic system, where it is one of EPSG's."""
    for key in (3072, 2048):
        code = keys.get(key)
        if isinstance(code, int) and 1024 <= code < _USER_DEFINED:
            return code
        if code is not None:
            return None
    return None


def crs_of(keys: Mapping[int, Any]) -> Any:
    """A `pyproj.CRS`, text where pyproj is not installed, or None where the keys name no system."""
    text = _text_of(keys)
    if text is None:
        return None
    try:
        import pyproj
    except ImportError:
        return None if text.startswith("+proj") else text
    try:
        return pyproj.CRS.from_user_input(text)
    except pyproj.exceptions.CRSError:
        return None


def _text_of(keys: Mapping[int, Any]) -> str | None:
    for key in (1026, 3073, 2049):
        text = keys.get(key)
        if isinstance(text, str) and text.startswith(_ESRI):
            return text[len(_ESRI) :]
    code = epsg_of(keys)
    if code is not None:
        vertical = keys.get(4096)
        if isinstance(vertical, int) and 1024 <= vertical < _USER_DEFINED:
            return f"EPSG:{code}+{vertical}"
        return f"EPSG:{code}"
    return _proj_of(keys)


def _proj_of(keys: Mapping[int, Any]) -> str | None:
    """A system that the file describes by parameters, as a PROJ string."""
    ellipsoid = _ellipsoid_of(keys)
    if keys.get(1024) == 2 and ellipsoid is not None:
        return f"+proj=longlat {ellipsoid} +no_defs +type=crs"
    method = _METHODS.get(keys.get(3075, 0))
    if keys.get(1024) != 1 or method is None or ellipsoid is None:
        return None
    name, parameters = method
    parts = [f"+proj={name}"]
    for parameter, candidates in parameters.items():
        value = next((keys[key] for key in candidates if isinstance(keys.get(key), float)), None)
        if value is not None:
            parts.append(f"+{parameter}={value!r}")
    unit = {9001: "+units=m", 9002: "+units=ft", 9003: "+units=us-ft"}.get(keys.get(3076, 9001))
    if unit is None:
        return None
    return " ".join([*parts, ellipsoid, unit, "+no_defs", "+type=crs"])


def _ellipsoid_of(keys: Mapping[int, Any]) -> str | None:
    datum = {4326: "+datum=WGS84", 4269: "+datum=NAD83", 4267: "+datum=NAD27"}.get(keys.get(2048, 0))
    if datum is None:
        datum = {6326: "+datum=WGS84", 6269: "+datum=NAD83", 6267: "+datum=NAD27"}.get(keys.get(2050, 0))
    if datum is not None:
        return datum
    major, minor, inverse = keys.get(2057), keys.get(2058), keys.get(2059)
    if isinstance(major, float) and isinstance(inverse, float):
        return f"+a={major!r} +rf={inverse!r}" if inverse else f"+a={major!r} +b={major!r}"
    if isinstance(major, float) and isinstance(minor, float):
        return f"+a={major!r} +b={minor!r}"
    return {7030: "+ellps=WGS84", 7019: "+ellps=GRS80", 7008: "+ellps=clrk66", 7004: "+ellps=bessel"}.get(
        keys.get(2056, 0)
    )
