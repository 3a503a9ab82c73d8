"""The coordinate systems of new TIFFs, named by pyproj.

Finding the code of a description, and writing WKT, takes PROJ's database. The keys are made in C++.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np

from penstock._core import epsg_system
from penstock.core.errors import InvalidArgumentError, UnsupportedError

System = tuple[int | None, bool, int | None, str, str]
"""EPSG code, whether it is of a geographic system, EPSG code of the heights, name, ESRI's WKT if there is no code."""

_HIGHEST_CODE = 32766


def system_of(crs: Any) -> System:
    """The system for a code, WKT, or anything that pyproj accepts.

    Raises
    ------
    InvalidArgumentError
        pyproj does not accept it.
    UnsupportedError
        GeoTIFF has no keys for it.
    """
    try:
        import pyproj
    except ImportError:
        return _system_without_pyproj(crs)
    try:
        found = pyproj.CRS.from_user_input(crs)
    except (pyproj.exceptions.CRSError, TypeError, ValueError) as failure:
        raise InvalidArgumentError(f"crs is not a coordinate system: {failure}") from None
    vertical = None
    if found.is_compound:
        found, height = found.sub_crs_list
        vertical = height.to_epsg(min_confidence=100)
        if vertical is None or vertical > _HIGHEST_CODE:
            raise UnsupportedError(f"the vertical system '{height.name}' has no EPSG code, which GeoTIFF needs")
    if found.is_bound:
        raise UnsupportedError(f"'{found.name}' has a datum shift of its own, for which GeoTIFF has no key")
    name = found.name or "unknown"
    if not (found.is_projected or found.is_geographic):
        raise UnsupportedError(f"'{name}' is neither projected nor geographic: GeoTIFF has no keys for it")
    code = found.to_epsg(min_confidence=100)
    if code is None or code > _HIGHEST_CODE:
        return None, False, vertical, name, _esri_wkt(found, name)
    return code, not found.is_projected, vertical, name, ""


def _esri_wkt(found: Any, name: str) -> str:
    """The WKT of a system without a code in ESRI's dialect, equal to what GDAL writes for ESRI_PE."""
    import pyproj

    wkt = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dicts of PROJ leave out names, which do not matter here
        try:
            wkt = found.to_wkt("WKT1_ESRI")
            if wkt and not _is_same(pyproj.CRS.from_wkt(wkt), found):
                wkt = None
        except pyproj.exceptions.CRSError:
            wkt = None
    if not wkt:
        raise UnsupportedError(f"'{name}' has no EPSG code, and no WKT of the kind that GeoTIFFs hold")
    return str(wkt)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two systems have the same parameters. PROJ also compares names and an ellipsoid's redundant
    parameters."""
    return bool(one.to_dict() == other.to_dict() or one.equals(other, ignore_axis_order=True))


def _system_without_pyproj(crs: Any) -> System:
    code = _code_in(crs)
    if code is None and hasattr(crs, "to_epsg"):
        code = crs.to_epsg()
    try:
        return epsg_system(int(code or 0))
    except (UnsupportedError, TypeError):
        raise UnsupportedError(f"pyproj, which is needed for {crs!r}, is not installed") from None


def _code_in(crs: Any) -> int | None:
    if isinstance(crs, int | np.integer) and not isinstance(crs, bool):
        return int(crs)
    match = re.fullmatch(r"(?i)epsg:(\d+)", crs.strip()) if isinstance(crs, str) else None
    return int(match[1]) if match else None
