"""What stands beside a TIFF on the local file system: GDAL's `.aux.xml`, world files, and polynomials of scanners.

Source: GDAL's pages on PAM (https://gdal.org/en/stable/user/pam.html) and on world files; frmts/gtiff and
gcore/mdreader for which polynomial goes before which.
"""

from __future__ import annotations

import math
import os
import re
import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from typing import Any

Transform = tuple[float, float, float, float, float, float]
Point = tuple[float, float, float, float, float]
"""Of the ground: column, row, x, y, z."""

_MOST_BYTES = 4 << 20  # of a file beside: larger ones are left alone
_ROLES = {"Description": "description", "UnitType": "unittype", "Scale": "scale", "Offset": "offset"}


@dataclass(frozen=True)
class Beside:
    """What GDAL takes from `x.tif.aux.xml` instead of what the TIFF itself says; bands are counted from 0."""

    crs: str | None = None
    transform: Transform | None = None
    nodata: dict[int, float] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    band_metadata: dict[int, dict[str, str]] = field(default_factory=dict)
    roles: dict[str, dict[int, str]] = field(default_factory=dict)
    gcps: tuple[Point, ...] = ()
    gcps_crs: str | None = None
    # Columns and rows of the points are ESRI's: inches from the lower left corner.
    gcps_in_inches: bool = False


NOTHING = Beside()
_ESRI = "GeodataXform"


def beside(uri: str) -> Beside:
    """Nothing where there is no such file, or none that can be understood; nor for what is no local file."""
    path = _path_of(uri)
    if path is None or not os.access(path + ".aux.xml", os.R_OK):  # of most files, without the cost of an exception
        return NOTHING
    data = _read(path + ".aux.xml")
    if data is None:
        return NOTHING
    try:
        text = data.decode("utf-8-sig")
        if "<!DOCTYPE" in text:  # of entities, which grow
            return NOTHING
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        return NOTHING
    return _parsed(root) if root.tag in ("PAMDataset", _ESRI) else NOTHING


def world_file(uri: str) -> Transform | None:
    """The transform in `x.tfw`, `x.tifw` or `x.wld`, from the pixels' corners."""
    path = _path_of(uri)
    if path is None:
        return None
    stem, ending = os.path.splitext(path)
    names = ["wld"] if len(ending) < 3 else [f"{ending[1]}{ending[-1]}w", f"{ending[1:]}w", "wld"]
    for name in names:
        for each in dict.fromkeys((name.lower(), name.upper())):
            data = _read(f"{stem}.{each}")
            if data is not None:
                numbers = _numbers(data.decode("ascii", "replace").replace(",", ".").split()[:6])
                if numbers is None or len(numbers) < 6:
                    continue
                a, d, b, e, x, y = numbers
                if a * e != b * d:
                    return (a, b, x - 0.5 * (a + b), d, e, y - 0.5 * (d + e))
    return None


_RPC_NUMBERS = {
    "ERR_BIAS": "errBias",
    "ERR_RAND": "errRand",
    "LINE_OFF": "lineOffset",
    "SAMP_OFF": "sampOffset",
    "LAT_OFF": "latOffset",
    "LONG_OFF": "longOffset",
    "HEIGHT_OFF": "heightOffset",
    "LINE_SCALE": "lineScale",
    "SAMP_SCALE": "sampScale",
    "LAT_SCALE": "latScale",
    "LONG_SCALE": "longScale",
    "HEIGHT_SCALE": "heightScale",
}
_RPC_LISTS = {
    "LINE_NUM_COEFF": "lineNumCoef",
    "LINE_DEN_COEFF": "lineDenCoef",
    "SAMP_NUM_COEFF": "sampNumCoef",
    "SAMP_DEN_COEFF": "sampDenCoef",
}
_RPC_TEXTS = ("_RPC.TXT", "_rpc.txt", "_RPC.txt", "_rpc.TXT")


def rational_polynomial(uri: str) -> dict[str, Any] | None:
    """The coefficients in `x.RPB` or `x_RPC.TXT`, by GDAL's names; None where no such file is whole."""
    path = _path_of(uri)
    if path is None:
        return None
    stem = os.path.splitext(path)[0]
    for ending in (".RPB", ".rpb", *_RPC_TEXTS):
        data = _read(stem + ending)
        if data is not None:
            text = data.decode("ascii", "replace")
            return _of_rpb(text) if ending.upper() == ".RPB" else _of_rpc_text(text)
    return None


def _of_rpb(text: str) -> dict[str, Any] | None:
    """Statements `name = value;` and `name = (value, ...);`."""
    found = {name: value.strip(" ()\r\n\t").split(",") for name, value in re.findall(r"\b(\w+)\s*=\s*([^;=]*);", text)}
    return _whole_polynomial(
        {name: found.get(theirs, [])[:1] for name, theirs in _RPC_NUMBERS.items()}
        | {name: found.get(theirs, []) for name, theirs in _RPC_LISTS.items()}
    )


def _of_rpc_text(text: str) -> dict[str, Any] | None:
    """Lines `NAME: value unit`; of coefficients one each, `NAME_1` to `NAME_20`."""
    found = dict(re.findall(r"^[ \t]*(\w+)[ \t]*:[ \t]*(\S+)", text, re.MULTILINE))
    return _whole_polynomial(
        {name: [found[name]] if name in found else [] for name in _RPC_NUMBERS}
        | {name: [found.get(f"{name}_{i}", "") for i in range(1, 21)] for name in _RPC_LISTS}
    )


def _whole_polynomial(texts: dict[str, list[str]]) -> dict[str, Any] | None:
    """The errors alone may be missing."""
    made: dict[str, Any] = {}
    for name, listed in texts.items():
        if not listed and name.startswith("ERR_"):
            continue
        numbers = _numbers(listed)
        if numbers is None or len(numbers) != (20 if name in _RPC_LISTS else 1):
            return None
        made[name] = numbers if name in _RPC_LISTS else numbers[0]
    return made


def _path_of(uri: str) -> str | None:
    return uri.removeprefix("file://") if uri.startswith("file:///") else None


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= _MOST_BYTES else None


def _parsed(root: ElementTree.Element) -> Beside:
    place = _numbers((root.findtext("GeoTransform") or "").split(","))
    transform = None
    if place is not None and len(place) == 6:
        c, a, b, f, d, e = place
        transform = (a, b, c, d, e, f)
    roles: dict[str, dict[int, str]] = {role: {} for role in _ROLES.values()}
    band_metadata: dict[int, dict[str, str]] = {}
    nodata: dict[int, float] = {}
    for band in root.findall("PAMRasterBand"):
        number = band.get("band", "")
        if not (number.isdecimal() and len(number) < 9):
            continue
        at = int(number) - 1
        band_metadata[at] = _metadata(band)
        for name, role in _ROLES.items():
            text = band.findtext(name)
            if text:
                roles[role][at] = text
        element = band.find("NoDataValue")
        value = None if element is None else _nodata(element)
        if value is not None:
            nodata[at] = value
    crs = (root.findtext("SRS") or "").strip() or None
    points = root.find("GCPList")
    gcps, gcps_crs, in_inches = (() if points is None else _gcps(points)), None, False
    if points is not None:
        gcps_crs = points.get("Projection") or None
    esri = root if root.tag == _ESRI else root.find(f"Metadata[@domain='xml:ESRI']/{_ESRI}")
    if esri is not None:
        named, of_esri = (esri.findtext("SpatialReference/WKT") or "").strip() or None, _esri_gcps(esri)
        crs = named or crs
        if of_esri:
            gcps, gcps_crs, in_inches = of_esri, named, True
            crs = None if transform is None else crs  # it is theirs then
        elif transform is None:
            transform = _esri_transform(esri)
    return Beside(
        crs, transform, nodata, _metadata(root), band_metadata, roles, gcps, gcps_crs if gcps else None, in_inches
    )


def _gcps(points: ElementTree.Element) -> tuple[Point, ...]:
    """Of GDAL's list those that are whole."""
    found = []
    for each in points.findall("GCP"):
        numbers = _numbers([each.get(name, "") for name in ("Pixel", "Line", "X", "Y")] + [each.get("Z", "0")])
        if numbers is not None:
            column, row, x, y, z = numbers
            found.append((column, row, x, y, z))
    return tuple(found)


def _doubles(element: ElementTree.Element, name: str) -> list[float]:
    return _numbers([each.text or "" for each in element.findall(f"{name}/Double")]) or []


def _esri_gcps(esri: ElementTree.Element) -> tuple[Point, ...]:
    source, target = _doubles(esri, "SourceGCPs"), _doubles(esri, "TargetGCPs")
    if len(source) != len(target) or len(source) % 2:
        return ()
    return tuple((source[i], source[i + 1], target[i], target[i + 1], 0.0) for i in range(0, len(source), 2))


def _esri_transform(esri: ElementTree.Element) -> Transform | None:
    """Of a polynomial of the first order in columns and rows up, counted from the first pixel's centre."""
    of_x, of_y = _doubles(esri, "CoeffX"), _doubles(esri, "CoeffY")
    if (esri.findtext("PolynomialOrder") or "").strip() != "1" or len(of_x) != 3 or len(of_y) != 3:
        return None
    (c, a, b), (f, d, e) = of_x, of_y
    return (a, -b, c - 0.5 * a + 0.5 * b, d, -e, f - 0.5 * d + 0.5 * e)


def _metadata(element: ElementTree.Element) -> dict[str, str]:
    """Of the domain without a name."""
    return {
        item.get("key", ""): item.text or ""
        for metadata in element.findall("Metadata")
        if not metadata.get("domain")
        for item in metadata.findall("MDI")
    }


def _nodata(element: ElementTree.Element) -> float | None:
    try:
        return float(struct.unpack("<d", bytes.fromhex(element.get("le_hex_equiv", "")))[0])
    except (ValueError, struct.error):
        numbers = _numbers([element.text or ""], finite=False)
        return numbers[0] if numbers else None


def _numbers(texts: list[str], finite: bool = True) -> list[float] | None:
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return None
    return numbers if not finite or all(map(math.isfinite, numbers)) else None
