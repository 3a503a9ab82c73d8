"""The coordinate systems that GeoTIFF's keys name. Source: OGC GeoTIFF 1.1."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

Keys = Mapping[str | int, Any]
"""The values of GeoTIFF's keys, by name (by number if C++ has no name)."""

_USER_DEFINED = 32767
_ESRI = "ESRI PE String = "

# Parameters that many methods have: PROJ's names, and the keys that hold them, the most likely first.
_Keys = dict[str, tuple[str, ...]]
_FALSE: _Keys = {"x_0": ("ProjFalseEasting", "ProjCenterEasting"), "y_0": ("ProjFalseNorthing", "ProjCenterNorthing")}
_CENTER: _Keys = {
    "lat_0": ("ProjCenterLat", "ProjNatOriginLat", "ProjFalseOriginLat"),
    "lon_0": ("ProjCenterLong", "ProjNatOriginLong", "ProjFalseOriginLong"),
    **_FALSE,
}
_ORIGIN: _Keys = {
    "lat_0": ("ProjNatOriginLat", "ProjCenterLat"),
    "lon_0": ("ProjNatOriginLong", "ProjCenterLong"),
    **_FALSE,
}
_FALSE_ORIGIN: _Keys = {
    "lat_0": ("ProjFalseOriginLat", "ProjNatOriginLat"),
    "lon_0": ("ProjFalseOriginLong", "ProjNatOriginLong"),
    "x_0": ("ProjFalseOriginEasting", "ProjFalseEasting"),
    "y_0": ("ProjFalseOriginNorthing", "ProjFalseNorthing"),
}
_SCALE: _Keys = {"k": ("ProjScaleAtNatOrigin", "ProjScaleAtCenter")}
_PARALLELS: _Keys = {"lat_1": ("ProjStdParallel1",), "lat_2": ("ProjStdParallel2",)}
_OBLIQUE: _Keys = {
    "lat_0": ("ProjCenterLat", "ProjNatOriginLat"),
    "lonc": ("ProjCenterLong", "ProjNatOriginLong"),
    "alpha": ("ProjAzimuthAngle",),
    "gamma": ("ProjRectifiedGridAngle",),
}
_OBLIQUE |= {"k": ("ProjScaleAtCenter", "ProjScaleAtNatOrigin"), **_FALSE}

# Projection methods by number (key `ProjMethod`): PROJ's name, additions to it, and its parameters. Source: OGC
# GeoTIFF 1.1, annex C, and the lists of libgeotiff's "Projections".
_METHODS: dict[int, tuple[str, _Keys]] = {
    1: ("tmerc", {**_ORIGIN, **_SCALE}),
    3: ("omerc +no_uoff", _OBLIQUE),
    7: (
        "merc",
        {
            "lat_ts": ("ProjStdParallel1",),
            "lon_0": ("ProjNatOriginLong", "ProjCenterLong"),
            **_SCALE,
            "x_0": ("ProjFalseEasting",),
            "y_0": ("ProjFalseNorthing",),
        },
    ),
    8: ("lcc", {**_PARALLELS, **_FALSE_ORIGIN}),
    9: ("lcc", {"lat_1": ("ProjNatOriginLat",), **_ORIGIN, "k_0": ("ProjScaleAtNatOrigin",)}),
    10: ("laea", _CENTER),
    11: ("aea", {**_PARALLELS, **_ORIGIN}),
    12: ("aeqd", _CENTER),
    13: ("eqdc", {**_PARALLELS, **_ORIGIN}),
    14: ("stere", {**_CENTER, **_SCALE}),
    15: (
        "stere",
        {
            "lon_0": ("ProjStraightVertPoleLong", "ProjNatOriginLong"),
            **_SCALE,
            "x_0": ("ProjFalseEasting",),
            "y_0": ("ProjFalseNorthing",),
        },
    ),
    16: ("sterea", {**_ORIGIN, **_SCALE}),
    17: ("eqc", {"lat_ts": ("ProjStdParallel1",), **_CENTER}),
    18: ("cass", _ORIGIN),
    19: ("gnom", _CENTER),
    20: (
        "mill",
        {"lon_0": ("ProjCenterLong", "ProjNatOriginLong"), "x_0": ("ProjFalseEasting",), "y_0": ("ProjFalseNorthing",)},
    ),
    21: ("ortho", _CENTER),
    22: ("poly", _ORIGIN),
    23: (
        "robin",
        {"lon_0": ("ProjCenterLong", "ProjNatOriginLong"), "x_0": ("ProjFalseEasting",), "y_0": ("ProjFalseNorthing",)},
    ),
    24: (
        "sinu",
        {"lon_0": ("ProjCenterLong", "ProjNatOriginLong"), "x_0": ("ProjFalseEasting",), "y_0": ("ProjFalseNorthing",)},
    ),
    25: (
        "vandg",
        {"lon_0": ("ProjCenterLong", "ProjNatOriginLong"), "x_0": ("ProjFalseEasting",), "y_0": ("ProjFalseNorthing",)},
    ),
    26: ("nzmg", _ORIGIN),
    27: ("tmerc +axis=wsu", {**_ORIGIN, **_SCALE}),
    28: (
        "cea",
        {
            "lat_ts": ("ProjStdParallel1",),
            "lon_0": ("ProjNatOriginLong", "ProjCenterLong"),
            "x_0": ("ProjFalseEasting",),
            "y_0": ("ProjFalseNorthing",),
        },
    ),
    9815: ("omerc", _OBLIQUE),
}
_POLAR = 15
_RECTIFIED = 90.0  # GDAL's angle of an oblique grid, if the file has none
_METRE, _DEGREE, _GREENWICH = 9001, 9102, 8901
_WRITTEN_DEGREES = (9107, 9108, 9110, 9122)  # degrees: these codes differ in notation only
_ELLIPSOIDAL = (4979, 5030)  # means heights above the ellipsoid, instead of a vertical system


# In metres, by names without blanks and punctuation. "Feet" alone are those of the US Survey, as in GDAL.
_CITED = re.compile(r"(?:^|[\n|])[ \t]*L?Units[ \t]*=([^\n|]*)", re.IGNORECASE)
_CITED_SIZES = {
    1.0: ("m", "meter", "meters", "metre", "metres"),
    1000.0: ("km", "kilometer", "kilometers", "kilometre", "kilometres"),
    0.3048: (
        "internationalfeet",
        "internationalfoot",
        "feetinternational",
        "footinternational",
        "feetintl",
        "footintl",
    ),
    1200 / 3937: ("feet", "foot", "ussurveyfeet", "ussurveyfoot", "surveyfeet", "surveyfoot", "feetus", "footus"),
    0.9144: ("yards", "yard"),
}


class _Unit(NamedTuple):
    """For lengths or angles: their number of metres or radians."""

    name: str
    size: float

    def is_near(self, size: float) -> bool:
        return math.isclose(self.size, size, rel_tol=1e-9)


_Found = TypeVar("_Found")


class Kept(Generic[_Found]):
    """The meaning of the keys of the last files; most files of a data set share them. pyproj takes a millisecond for
    it."""

    MOST = 256  # number of files with different keys
    MOST_BYTES = 16384  # number of keys

    def __init__(self) -> None:
        self.by_keys: dict[bytes, _Found] = {}

    def of(self, keys: bytes, find: Callable[[], _Found]) -> _Found:
        """The result of `find` for these keys (in the form of `TiffDetails.geo_keys`), cached."""
        try:
            return self.by_keys[keys]
        except KeyError:
            pass
        found = find()
        if len(keys) <= self.MOST_BYTES:
            if len(self.by_keys) >= self.MOST:
                self.by_keys = {}
            self.by_keys[keys] = found
        return found


CODES = Kept[int | None]()
"""Results of `epsg_of`."""
SYSTEMS = Kept[Any]()
"""Results of `crs_of`."""


def epsg_of(keys: Keys) -> int | None:
    """The code of the projected or geographic system if EPSG has it, in EPSG's unit.

    A system that the file describes by parameters has a code if `crs_of` finds one. Without pyproj, units and
    parameters are unknown: then the code is that of the file.
    """
    code = _code_of(keys)
    if keys.get("GTModelType") != 2 and "ProjectedCRS" not in keys and (text := _esri_of(keys)) is not None:
        # ArcGIS and GDAL name the base system only (4326) and hold the projected system as text.
        return _code_of_text(text)
    if code is None:
        return _code_of_parameters(keys)
    return None if _other_unit(keys, code) is not None else code


def _code_of_parameters(keys: Keys) -> int | None:
    try:
        import pyproj
    except ImportError:
        return None
    try:
        made = _horizontal(keys)
    except pyproj.exceptions.CRSError:
        return None
    code: int | None = None if made is None else made.to_epsg()
    return code


def _code_of_text(text: str) -> int | None:
    """Return the code of WKT, or None if pyproj is not installed or finds none."""
    made = named(text)
    code: int | None = made.to_epsg() if hasattr(made, "to_epsg") else None
    return code


def crs_of(keys: Keys) -> Any:
    """A `pyproj.CRS`, text if pyproj is not installed, or None if the keys do not name a supported system."""
    try:
        import pyproj
    except ImportError:
        text, code, height = _esri_of(keys), _code_of(keys), _code(keys, "Vertical")
        return text if text is not None or code is None else f"EPSG:{code}" + ("" if height is None else f"+{height}")
    try:
        made = _horizontal(keys)
    except pyproj.exceptions.CRSError:
        return None
    try:
        if made is not None and _is_ellipsoidal(_code(keys, "Vertical")):
            return made.to_3d()
        vertical = None if made is None else _vertical(keys)
    except pyproj.exceptions.CRSError:  # codes that EPSG has withdrawn
        return made
    if vertical is None:
        return made
    return pyproj.crs.CompoundCRS(f"{made.name} + {vertical.name}", [made, vertical])


def named(text: str) -> Any:
    """A `pyproj.CRS` of a code or WKT; the text itself if pyproj is not installed, None if it has no meaning."""
    try:
        import pyproj
    except ImportError:
        return text
    try:
        return pyproj.CRS.from_user_input(text)
    except pyproj.exceptions.CRSError:
        return None


def _horizontal(keys: Keys) -> Any:
    import pyproj

    text, code = _esri_of(keys), _code_of(keys)
    if text is not None:
        return pyproj.CRS.from_user_input(text)
    if code is not None:
        unit = _other_unit(keys, code)
        named = pyproj.CRS.from_epsg(code)
        return named if unit is None else _in_unit(named, unit)
    base, projection = _base_of(keys), _code(keys, "Projection")
    if keys.get("GTModelType") == 2 and base is not None:
        made = base
    elif keys.get("GTModelType") == 1 and projection is not None:
        if base is None:
            text = _proj_of({**keys, "GTModelType": 2}, False)
            if text is None:
                return None
            base = pyproj.CRS.from_user_input(text)
        operation = pyproj.crs.CoordinateOperation.from_epsg(projection)  # type: ignore[attr-defined]
        if operation.type_name != "Conversion":
            return None
        made = pyproj.crs.ProjectedCRS(operation, _name_of(keys), None, base)
    else:
        text = _proj_of(keys, base is not None)
        if text is None:
            return None
        made = pyproj.CRS.from_user_input(text)
        if base is not None:
            made = pyproj.crs.ProjectedCRS(made.coordinate_operation, _name_of(keys), made.coordinate_system, base)
    unit = _length_of(keys) if made.is_projected else _angle_of(keys)
    if made.is_projected and projection is None:
        unit = _cited_unit(keys) or unit  # of the coordinates only, as in GDAL: parameters keep their own
    if unit is not None and not unit.is_near(made.axis_info[0].unit_conversion_factor):
        made = _in_unit(made, unit)
    made = _with_named_datum(made, keys)
    shift = keys.get("GeogTOWGS84")
    if not isinstance(shift, tuple) or len(shift) not in (3, 7):
        return made
    to_wgs84 = pyproj.crs.coordinate_operation.ToWGS84Transformation(made.geodetic_crs, *shift)
    return pyproj.crs.BoundCRS(made, "WGS 84", to_wgs84)


def _is_ellipsoidal(code: int | None) -> bool:
    """Whether the code of heights is that of a geographic system of three dimensions, as GDAL writes it."""
    import pyproj

    if code is None or code in _ELLIPSOIDAL:
        return code is not None
    system = pyproj.CRS.from_epsg(code)
    return bool(system.is_geographic) and len(system.axis_info) == 3


def _vertical(keys: Keys) -> Any:
    """The vertical system: from a code, or from a datum's code, a name and a unit. None if the file has none."""
    import pyproj

    code, datum, name = _code(keys, "Vertical"), _code(keys, "VerticalDatum"), keys.get("VerticalCitation")
    if code is not None:
        made = pyproj.CRS.from_epsg(code)
        return made if made.is_vertical else None
    unit = _unit("linear", keys.get("VerticalUnits", _METRE), None)
    if unit is None or not (
        "Vertical" in keys or "VerticalDatum" in keys or ("VerticalUnits" in keys and isinstance(name, str))
    ):
        return None
    frame: dict[str, Any] = {"type": "VerticalReferenceFrame", "name": "unknown"}
    if datum is not None:
        frame = pyproj.crs.Datum.from_epsg(datum).to_json_dict()  # type: ignore[attr-defined]
        if frame["type"] != "VerticalReferenceFrame":
            return None
    axis: dict[str, Any] = {"name": "Gravity-related height", "abbreviation": "H", "direction": "up"}
    axis["unit"] = {"type": "LinearUnit", "name": unit.name, "conversion_factor": unit.size}
    system = {"subtype": "vertical", "axis": [axis]}
    name = name if isinstance(name, str) and name else "unknown"
    return pyproj.CRS.from_json_dict({"type": "VerticalCRS", "name": name, "datum": frame, "coordinate_system": system})


def _base_of(keys: Keys) -> Any:
    """The geographic system below a projection, or the system itself, if it or its datum has a code; else None."""
    import pyproj

    code, datum = _code(keys, "GeodeticCRS"), _code(keys, "GeodeticDatum")
    if code is not None:
        return pyproj.CRS.from_epsg(code)
    if datum is None or keys.get("PrimeMeridian", _GREENWICH) != _GREENWICH or keys.get("PrimeMeridianLongitude"):
        return None
    try:
        return pyproj.crs.GeographicCRS(_geographic_name_of(keys), f"urn:ogc:def:datum:EPSG::{datum}")
    except pyproj.exceptions.CRSError:
        return None


def _in_unit(crs: Any, unit: _Unit) -> Any:
    """The same system, its coordinates in another unit. False eastings and northings keep their length."""
    made = crs.to_json_dict()
    made.pop("id", None)
    kind = "LinearUnit" if crs.is_projected else "AngularUnit"
    for axis in made["coordinate_system"]["axis"]:
        axis["unit"] = {"type": kind, "name": unit.name, "conversion_factor": unit.size}
    return type(crs).from_json_dict(made)


_UNKNOWN_DATUM = re.compile(r"Unknown based on (.*)")
_CITED_DATUM = re.compile(r"\|[ \t]*Datum[ \t]*=[ \t]*([^|]*[^| \t])")


def _with_named_datum(crs: Any, keys: Keys) -> Any:
    """The same system with a name for a datum that has only an ellipsoid: the cited name, or that it is not specified.

    PROJ takes a datum that is called unknown for every datum with this ellipsoid: `to_epsg` returned Jamaica's system
    (EPSG:3450) for UTM zone 18N on the ellipsoid of WGS 84.
    """
    made = crs.to_json_dict()
    base = made.get("base_crs", made)
    unknown = _UNKNOWN_DATUM.fullmatch(base.get("datum", {}).get("name", ""))
    if unknown is None:
        return crs
    cited = _CITED_DATUM.search(str(keys.get("GeodeticCitation", "")))
    base["datum"]["name"] = cited[1] if cited else f"Not specified (based on {unknown[1]})"
    return type(crs).from_json_dict(made)


def height_unit(keys: Keys) -> str | None:
    """The unit of heights above a reference other than an ellipsoid. It is the unit of the values if the file does not
    name one.

    None without pyproj, which has the units' names.
    """
    code = _code(keys, "Vertical")
    if not is_described(keys) or code in _ELLIPSOIDAL or not (code or "VerticalUnits" in keys):
        return None
    try:
        import pyproj
    except ImportError:
        return None
    unit = _unit("linear", keys.get("VerticalUnits"), None)
    if code is None:
        return None if unit is None else unit.name
    try:
        vertical = pyproj.CRS.from_epsg(code)
    except pyproj.exceptions.CRSError:
        return None
    return vertical.axis_info[0].unit_name if vertical.is_vertical else None


def is_described(keys: Keys) -> bool:
    """Whether the keys describe a coordinate system, supported here or not."""
    return any(
        key in keys
        for key in ("GeodeticCRS", "GeodeticDatum", "Ellipsoid", "EllipsoidSemiMajorAxis", "ProjectedCRS", "ProjMethod")
    )


def _code(keys: Keys, key: str) -> int | None:
    """The value of a key, if it is an EPSG code."""
    code = keys.get(key)
    return code if isinstance(code, int) and 1024 <= code < _USER_DEFINED else None


def _code_of(keys: Keys) -> int | None:
    """The code of the system, with any unit."""
    return _code(keys, "ProjectedCRS" if "ProjectedCRS" in keys else "GeodeticCRS")


def _other_unit(keys: Keys, code: int) -> _Unit | None:
    """The unit of a projected system in the file, if it is not the code's own."""
    if "ProjectedCRS" not in keys or "ProjLinearUnits" not in keys:
        return None
    try:
        return _unit_apart(code, keys["ProjLinearUnits"], keys.get("ProjLinearUnitSize"))
    except ImportError:
        return None


@functools.lru_cache(64)
def _unit_apart(code: int, unit: Any, size: Any) -> _Unit | None:
    own, given = _size_of_unit(code), _unit("linear", unit, size)
    return None if own is None or given is None or given.is_near(own) else given


def _size_of_unit(code: int) -> float | None:
    import pyproj

    try:
        size: float = pyproj.CRS.from_epsg(code).axis_info[0].unit_conversion_factor
    except (pyproj.exceptions.CRSError, IndexError):
        return None
    return size


def _name_of(keys: Keys) -> str:
    name = keys.get("GTCitation") or keys.get("ProjectedCitation")
    return name if isinstance(name, str) and name else "unknown"


def _geographic_name_of(keys: Keys) -> str:
    """The citation, or the text of GDAL and ArcGIS in it: "GCS Name = ...|Datum = ...|..."."""
    text = keys.get("GeodeticCitation")
    if not isinstance(text, str):
        return "unknown"
    first = text.split("|")[0]
    return first.removeprefix("GCS Name = ") or "unknown"


def _esri_of(keys: Keys) -> str | None:
    """WKT that the file holds."""
    for key in ("GTCitation", "ProjectedCitation", "GeodeticCitation"):
        text = keys.get(key)
        if isinstance(text, str) and text.startswith(_ESRI):
            return text[len(_ESRI) :]
    return None


def _proj_of(keys: Keys, has_base: bool) -> str | None:
    """A system that the file describes by parameters, as a PROJ string in degrees or metres.

    With `has_base` only the projection is used: the ellipsoid and the meridian are those of the base.
    """
    ellipsoid = "+ellps=GRS80" if has_base else _ellipsoid_of(keys)
    meridian, angle = "" if has_base else _meridian_of(keys), _angle_of(keys)
    if meridian is None or angle is None:
        return None
    if keys.get("GTModelType") == 2 and ellipsoid is not None:
        return f"+proj=longlat {ellipsoid} {meridian}+no_defs +type=crs"
    method, unit = keys.get("ProjMethod"), _length_of(keys)
    found = _METHODS.get(method) if isinstance(method, int) else None
    if keys.get("GTModelType") != 1 or found is None or ellipsoid is None or unit is None:
        return None
    name, parameters = found
    parts = [f"+proj={name}", *(_poles_of(keys, angle) if method == _POLAR else ())]
    for parameter, candidates in parameters.items():
        value = next((keys[key] for key in candidates if isinstance(keys.get(key), float)), None)
        if value is None and parameter == "gamma":
            parts.append(f"+gamma={_RECTIFIED!r}")
        elif value is not None and parameter in ("x_0", "y_0"):
            parts.append(f"+{parameter}={value * unit.size!r}")
        elif value is not None:
            is_angle = parameter not in ("k", "k_0")
            parts.append(f"+{parameter}={_degrees(value, angle) if is_angle else value!r}")
    return " ".join([*parts, ellipsoid, f"+units=m {meridian}+no_defs", "+type=crs"])


def _poles_of(keys: Keys, angle: _Unit) -> list[str]:
    """The latitude of the origin selects the pole, and is the latitude of true scale unless it is the pole itself."""
    latitude = next(
        (
            keys[key]
            for key in ("ProjNatOriginLat", "ProjCenterLat", "ProjStdParallel1")
            if isinstance(keys.get(key), float)
        ),
        90.0,
    )
    latitude = _degrees(latitude, angle)
    pole = -90.0 if latitude < 0 else 90.0
    return [f"+lat_0={pole!r}", *([] if latitude == pole else [f"+lat_ts={latitude!r}"])]


def _length_of(keys: Keys) -> _Unit | None:
    return _unit("linear", keys.get("ProjLinearUnits", _METRE), keys.get("ProjLinearUnitSize"))


def _cited_unit(keys: Keys) -> _Unit | None:
    """The unit of length that ERDAS and ArcGIS write into a citation: "Units = feet", "...|LUnits = Foot"."""
    for key in ("GTCitation", "ProjectedCitation"):
        text = keys.get(key)
        found = _CITED.search(text) if isinstance(text, str) else None
        if found is not None:
            name = re.sub(r"[\W_]", "", found[1]).lower()
            size = next((size for size, names in _CITED_SIZES.items() if name in names), None)
            return None if size is None else _Unit(found[1].strip(), size)
    return None


def _angle_of(keys: Keys) -> _Unit | None:
    return _unit("angular", keys.get("GeogAngularUnits", _DEGREE), keys.get("GeogAngularUnitSize"))


def _unit(category: str, code: Any, size: Any) -> _Unit | None:
    """From a code of EPSG's, or the file's own size; None if it has neither."""
    if code == _USER_DEFINED:
        return _Unit("unknown", size) if isinstance(size, float) and 0 < size < math.inf else None
    if code == _DEGREE or code in _WRITTEN_DEGREES:
        return _Unit("degree", math.radians(1))
    return _units(category).get(code)


@functools.cache
def _units(category: str) -> dict[int, _Unit]:
    from pyproj.database import get_units_map

    known = get_units_map("EPSG", category, allow_deprecated=True).values()
    return {int(unit.code): _Unit(unit.name, unit.conv_factor) for unit in known}


def _degrees(value: float, unit: _Unit) -> float:
    return value if unit.name == "degree" else math.degrees(value * unit.size)


def _meridian_of(keys: Keys) -> str | None:
    """From a code of EPSG's, or the file's own; None if it has neither."""
    code, longitude, angle = (
        keys.get("PrimeMeridian", _USER_DEFINED),
        keys.get("PrimeMeridianLongitude"),
        _angle_of(keys),
    )
    if code == _USER_DEFINED and isinstance(longitude, float) and longitude and angle is not None:
        return f"+pm={_degrees(longitude, angle)!r} "
    if code in (_GREENWICH, _USER_DEFINED):
        return ""
    from pyproj.crs import PrimeMeridian  # type: ignore[attr-defined]
    from pyproj.exceptions import CRSError

    try:
        named = PrimeMeridian.from_epsg(code)
    except CRSError:
        return None
    return f"+pm={math.degrees(named.longitude * float(named.unit_conversion_factor))!r} "


def _ellipsoid_of(keys: Keys) -> str | None:
    """The file's own, or from a code of EPSG's."""
    major, minor, inverse = (
        keys.get("EllipsoidSemiMajorAxis"),
        keys.get("EllipsoidSemiMinorAxis"),
        keys.get("EllipsoidInvFlattening"),
    )
    if isinstance(major, float) and isinstance(inverse, float):
        return f"+a={major!r} +rf={inverse!r}" if inverse else f"+a={major!r} +b={major!r}"
    if isinstance(major, float) and isinstance(minor, float):
        return f"+a={major!r} +b={minor!r}"
    code = _code(keys, "Ellipsoid")
    if code is None:
        return None
    from pyproj.crs import Ellipsoid  # type: ignore[attr-defined]
    from pyproj.exceptions import CRSError

    try:
        named = Ellipsoid.from_epsg(code)
    except CRSError:
        return None
    flattening = f"+rf={named.inverse_flattening!r}" if named.inverse_flattening else f"+b={named.semi_minor_metre!r}"
    return f"+a={named.semi_major_metre!r} {flattening}"
