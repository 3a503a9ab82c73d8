"""The coordinate systems that GeoTIFF's keys name. Source: OGC GeoTIFF 1.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_USER_DEFINED = 32767
_ESRI = "ESRI PE String = "

# Parameters that many methods have: PROJ's names, and the keys that give them, the likeliest first.
_Keys = dict[str, tuple[int, ...]]
_FALSE: _Keys = {"x_0": (3082, 3090), "y_0": (3083, 3091)}
_CENTER: _Keys = {"lat_0": (3089, 3081, 3085), "lon_0": (3088, 3080, 3084), **_FALSE}
_ORIGIN: _Keys = {"lat_0": (3081, 3089), "lon_0": (3080, 3088), **_FALSE}
_FALSE_ORIGIN: _Keys = {"lat_0": (3085, 3081), "lon_0": (3084, 3080), "x_0": (3086, 3082), "y_0": (3087, 3083)}
_SCALE: _Keys = {"k": (3092, 3093)}
_PARALLELS: _Keys = {"lat_1": (3078,), "lat_2": (3079,)}
_OBLIQUE: _Keys = {"lat_0": (3089, 3081), "lonc": (3088, 3080), "alpha": (3094,), "gamma": (3096,)}
_OBLIQUE |= {"k": (3093, 3092), **_FALSE}

# Projection methods by number (key 3075): PROJ's name, what is added to it, and its parameters.
# Source: OGC GeoTIFF 1.1, annex C, and the lists of libgeotiff's "Projections".
_METHODS: dict[int, tuple[str, _Keys]] = {
    1: ("tmerc", {**_ORIGIN, **_SCALE}),
    3: ("omerc +no_uoff", _OBLIQUE),
    7: ("merc", {"lat_ts": (3078,), "lon_0": (3080, 3088), **_SCALE, "x_0": (3082,), "y_0": (3083,)}),
    8: ("lcc", {**_PARALLELS, **_FALSE_ORIGIN}),
    9: ("lcc", {"lat_1": (3081,), **_ORIGIN, "k_0": (3092,)}),
    10: ("laea", _CENTER),
    11: ("aea", {**_PARALLELS, **_ORIGIN}),
    12: ("aeqd", _CENTER),
    13: ("eqdc", {**_PARALLELS, **_ORIGIN}),
    14: ("stere", {**_CENTER, **_SCALE}),
    15: ("stere", {"lon_0": (3095, 3080), **_SCALE, "x_0": (3082,), "y_0": (3083,)}),
    16: ("sterea", {**_ORIGIN, **_SCALE}),
    17: ("eqc", {"lat_ts": (3078,), **_CENTER}),
    18: ("cass", _ORIGIN),
    19: ("gnom", _CENTER),
    20: ("mill", {"lon_0": (3088, 3080), "x_0": (3082,), "y_0": (3083,)}),
    21: ("ortho", _CENTER),
    22: ("poly", _ORIGIN),
    23: ("robin", {"lon_0": (3088, 3080), "x_0": (3082,), "y_0": (3083,)}),
    24: ("sinu", {"lon_0": (3088, 3080), "x_0": (3082,), "y_0": (3083,)}),
    25: ("vandg", {"lon_0": (3088, 3080), "x_0": (3082,), "y_0": (3083,)}),
    26: ("nzmg", _ORIGIN),
    27: ("tmerc +axis=wsu", {**_ORIGIN, **_SCALE}),
    28: ("cea", {"lat_ts": (3078,), "lon_0": (3080, 3088), "x_0": (3082,), "y_0": (3083,)}),
    9815: ("omerc", _OBLIQUE),
}
_POLAR = 15
_UNITS = {9001: "+units=m", 9002: "+units=ft", 9003: "+units=us-ft", 9036: "+units=km", 9096: "+units=yd"}
_DEGREES = {9101: 57.29577951308232, 9105: 0.9, 9106: 0.9}  # in units of angles, where those are no degrees


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
    """A `pyproj.CRS`, text where pyproj is not installed, or None where the keys name no system that is known here."""
    text = _text_of(keys)
    if text is None:
        return None
    try:
        import pyproj
    except ImportError:
        return None if text.startswith("+proj") else text
    try:
        made = pyproj.CRS.from_user_input(text)
        base = _base_of(keys)
        if base is None or not text.startswith("+proj") or not made.is_projected:
            return made
        return pyproj.crs.ProjectedCRS(
            made.coordinate_operation, _name_of(keys), made.coordinate_system, pyproj.CRS.from_epsg(base)
        )
    except pyproj.exceptions.CRSError:
        return None


def is_described(keys: Mapping[int, Any]) -> bool:
    """The keys say something of a coordinate system, known here or not."""
    return any(key in keys for key in (2048, 2050, 2056, 2057, 3072, 3075))


def _base_of(keys: Mapping[int, Any]) -> int | None:
    """EPSG's code of the geographic system below a projection."""
    code = keys.get(2048)
    return code if isinstance(code, int) and 1024 <= code < _USER_DEFINED else None


def _name_of(keys: Mapping[int, Any]) -> str:
    name = keys.get(1026) or keys.get(3073)
    return name if isinstance(name, str) and name else "unknown"


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
    ellipsoid = _ellipsoid_of(keys) or ("+ellps=GRS80" if _base_of(keys) is not None else None)
    if keys.get(1024) == 2 and ellipsoid is not None:
        return f"+proj=longlat {ellipsoid} {_meridian_of(keys)}+no_defs +type=crs"
    method, unit = keys.get(3075), _unit_of(keys)
    found = _METHODS.get(method) if isinstance(method, int) else None
    if keys.get(1024) != 1 or found is None or ellipsoid is None or unit is None:
        return None
    name, parameters = found
    parts = [f"+proj={name}", *(_poles_of(keys) if method == _POLAR else ())]
    factor = _DEGREES.get(keys.get(2054, 9102), 1.0)
    for parameter, candidates in parameters.items():
        value = next((keys[key] for key in candidates if isinstance(keys.get(key), float)), None)
        if value is not None and parameter in ("x_0", "y_0"):
            parts.append(f"+{parameter}={value * unit[1]!r}")  # PROJ's are in metres
        elif value is not None:
            is_angle = parameter not in ("k", "k_0")
            parts.append(f"+{parameter}={value * factor if is_angle else value!r}")
    meridian = _meridian_of(keys) if _base_of(keys) is None else ""
    return " ".join([*parts, ellipsoid, unit[0], f"{meridian}+no_defs", "+type=crs"])


def _poles_of(keys: Mapping[int, Any]) -> list[str]:
    """The latitude of the origin says which pole it is, and where the scale is true unless it is the pole itself."""
    latitude = next((keys[key] for key in (3081, 3089, 3078) if isinstance(keys.get(key), float)), 90.0)
    latitude *= _DEGREES.get(keys.get(2054, 9102), 1.0)
    pole = -90.0 if latitude < 0 else 90.0
    return [f"+lat_0={pole!r}", *([] if latitude == pole else [f"+lat_ts={latitude!r}"])]


def _unit_of(keys: Mapping[int, Any]) -> tuple[str, float] | None:
    """PROJ's unit of length, and its metres."""
    code = keys.get(3076, 9001)
    size = keys.get(3077)
    if code == _USER_DEFINED and isinstance(size, float) and size > 0:
        return f"+to_meter={size!r}", size
    metres = {9001: 1.0, 9002: 0.3048, 9003: 1200 / 3937, 9036: 1000.0, 9096: 0.9144}
    return (_UNITS[code], metres[code]) if isinstance(code, int) and code in _UNITS else None


def _meridian_of(keys: Mapping[int, Any]) -> str:
    longitude = keys.get(2061)
    return f"+pm={longitude!r} " if isinstance(longitude, float) and longitude else ""


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
