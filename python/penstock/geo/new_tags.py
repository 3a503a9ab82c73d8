"""Tags of a new TIFF: georeferencing, metadata, nodata and colours.

Source: OGC GeoTIFF 1.1; GDAL's pages on GeoTIFF for the tags 42112 and 42113.
"""

from __future__ import annotations

import math
import re
import struct
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock._core import held_nodata
from penstock.core.errors import InvalidArgumentError, UnsupportedError

Tag = tuple[int, int, int, bytes]
"""Number, type, count, and the values' little-endian bytes."""

_SHORT, _DOUBLE, _ASCII = 3, 12, 2
_USER_DEFINED = 32767
_HIGHEST_CODE = 32766
# What is known without a database of coordinate systems.
_GEOGRAPHIC = frozenset({4258, 4267, 4269, 4326})
_PROJECTED = frozenset({2154, 3035, 3395, 3857, 5070, *range(32601, 32661), *range(32701, 32761)})


def shorts(tag: int, values: Sequence[int]) -> Tag:
    """A tag of unsigned integers of 16 bits."""
    return tag, _SHORT, len(values), struct.pack(f"<{len(values)}H", *values)


def doubles(tag: int, values: Sequence[float]) -> Tag:
    """A tag of floats of 64 bits."""
    return tag, _DOUBLE, len(values), struct.pack(f"<{len(values)}d", *values)


def ascii_text(tag: int, text: str) -> Tag:
    """A tag of text."""
    data = text.encode() + b"\0"
    return tag, _ASCII, len(data), data


def transform_tags(transform: Any, area_or_point: str) -> list[Tag]:
    """`a, b, c, d, e, f` with x = a * column + b * row + c, y = d * column + e * row + f, from the pixels' corners."""
    try:
        numbers = [float(number) for number in transform]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) == 9 and numbers[6:] == [0, 0, 1]:  # affine.Affine
        numbers = numbers[:6]
    if len(numbers) != 6 or not all(map(math.isfinite, numbers)):
        raise InvalidArgumentError(f"transform must be six numbers a, b, c, d, e, f, it is {transform!r}")
    a, b, c, d, e, f = numbers
    if a * e - b * d == 0:
        raise InvalidArgumentError(f"transform maps all pixels to one line: {transform!r}")
    if area_or_point == "Point":  # the file says where the centre of the first pixel is
        c, f = c + (a + b) / 2, f + (d + e) / 2
    if b == d == 0 and a > 0 > e:
        return [doubles(33550, [a, -e, 0]), doubles(33922, [0, 0, 0, c, f, 0])]
    return [doubles(34264, [a, b, 0, c, d, e, 0, f, 0, 0, 0, 0, 0, 0, 0, 1])]


def geo_key_tags(crs: Any, area_or_point: str | None) -> list[Tag]:
    """The GeoTIFF keys of a coordinate system, and whether values are of areas or of points."""
    keys = {} if crs is None else _keys_of(crs)
    # Keys without a system are one that nobody knows to GDAL, and areas are what it takes values for without.
    if area_or_point == "Point" or (keys and area_or_point == "Area"):
        keys[1025] = 2 if area_or_point == "Point" else 1
    if not keys:
        return []
    entries: list[int] = []
    text = ""
    for key in sorted(keys):
        value = keys[key]
        if isinstance(value, int):
            entries += [key, 0, 1, value]
        else:
            data = value.replace("|", "/").encode("ascii", "replace").decode() + "|"
            if len(text) + len(data) > 0xFFFF:
                raise UnsupportedError("the text of this coordinate system is too long for a GeoTIFF")
            entries += [key, 34737, len(data), len(text)]
            text += data
    minor = int(4096 in keys)  # of the standard: GDAL looks for heights in 1.1 alone
    tags = [shorts(34735, [1, 1, minor, len(keys), *entries])]
    return [*tags, ascii_text(34737, text)] if text else tags


def _keys_of(crs: Any) -> dict[int, int | str]:
    codes = _codes_in(crs)
    try:
        import pyproj
    except ImportError:
        return _keys_without_pyproj(crs, codes)
    try:
        found = pyproj.CRS.from_user_input(crs)
    except (pyproj.exceptions.CRSError, TypeError, ValueError) as failure:
        raise InvalidArgumentError(f"crs is no coordinate system: {failure}") from None
    vertical: dict[int, int | str] = {}
    if found.is_compound:
        found, height = found.sub_crs_list
        code = height.to_epsg(min_confidence=100)
        if code is None or code > _HIGHEST_CODE:
            raise UnsupportedError(f"the vertical system '{height.name}' has no EPSG code, which GeoTIFF needs")
        vertical = {4096: code}
    if found.is_bound:
        raise UnsupportedError(f"'{found.name}' has a datum shift of its own, for which GeoTIFF has no key")
    name = found.name or "unknown"
    if not (found.is_projected or found.is_geographic):
        raise UnsupportedError(f"'{name}' is neither projected nor geographic: GeoTIFF has no keys for it")
    code = found.to_epsg(min_confidence=100)
    if code is None or code > _HIGHEST_CODE:
        return _esri_keys(found, name) | vertical
    keys: dict[int, int | str] = {1024: 1, 3072: code} if found.is_projected else {1024: 2, 2048: code}
    return keys | {1026: name} | vertical


def _esri_keys(found: Any, name: str) -> dict[int, int | str]:
    """A system without a code: its WKT as ESRI writes it, in the citation, as GDAL's flavour ESRI_PE has it."""
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
    return {1024: _USER_DEFINED, 1026: name, 3072: _USER_DEFINED, 3073: "ESRI PE String = " + wkt}


def _is_same(one: Any, other: Any) -> bool:
    """PROJ finds names that differ where the parameters do not, and parameters (the two of an ellipsoid) that say the
    same."""
    return bool(one.to_dict() == other.to_dict() or one.equals(other, ignore_axis_order=True))


def _codes_in(crs: Any) -> tuple[int, ...] | None:
    if isinstance(crs, int | np.integer) and not isinstance(crs, bool):
        return (int(crs),)
    match = re.fullmatch(r"(?i)epsg:(\d+)", crs.strip()) if isinstance(crs, str) else None
    return (int(match[1]),) if match else None


def _keys_without_pyproj(crs: Any, codes: tuple[int, ...] | None) -> dict[int, int | str]:
    if codes is None and hasattr(crs, "to_epsg"):
        code = crs.to_epsg()
        codes = None if code is None else (int(code),)
    if codes is not None and codes[0] in _GEOGRAPHIC:
        return {1024: 2, 2048: codes[0]}
    if codes is not None and codes[0] in _PROJECTED:
        return {1024: 1, 3072: codes[0]}
    raise UnsupportedError(f"pyproj, which knows what {crs!r} is, is not installed")


def metadata_tag(attributes: Mapping[str, Any], bands: Sequence[Mapping[str, str]]) -> list[Tag]:
    """GDAL's metadata: items of the image, and of each band by role (`scale`, `offset`, `unittype`, `description`).

    Values are escaped twice, because GDAL reads (and writes) them so.
    """
    from xml.sax.saxutils import quoteattr  # imports urllib.request, which readers do without

    if not isinstance(attributes, Mapping):
        raise InvalidArgumentError(f"attributes must be a mapping, not {type(attributes).__name__}")
    lines = [f"  <Item name={quoteattr(str(name))}>{_twice(str(value))}</Item>" for name, value in attributes.items()]
    for number, roles in enumerate(bands):
        for role, value in roles.items():
            lines.append(f'  <Item name="{role.upper()}" sample="{number}" role="{role}">{_twice(value)}</Item>')
    if not lines:
        return []
    text = "\n".join(["<GDALMetadata>", *lines, "</GDALMetadata>"]) + "\n"
    if "\0" in text:
        raise InvalidArgumentError("metadata cannot hold the character 0")
    return [ascii_text(42112, text)]


def _twice(text: str) -> str:
    from xml.sax.saxutils import escape

    return escape(escape(text, {'"': "&quot;"}))


def nodata_of(nodata: Any, dtype: np.dtype[Any]) -> tuple[bytes, list[Tag]]:
    """One item, and the tag: GDAL's number in words."""
    if nodata is None:
        return b"", []
    try:
        number = held_nodata(nodata if dtype.kind in "iu" else float(nodata), dtype)
    except (TypeError, ValueError):
        number = None
    if number is None:
        raise InvalidArgumentError(f"nodata {nodata!r} is no value of {dtype}")
    item = np.array(number, dtype)
    text = str(number) if dtype.kind in "iu" else repr(float(item.real))
    return item.tobytes(), [ascii_text(42113, text)]


def colormap_tag(colormap: npt.ArrayLike, bits: int) -> Tag:
    """Red, green and blue, 0 to 65535, of each value: shape (values, 3)."""
    colors = np.asarray(colormap)
    values = 1 << min(max(int(bits), 1), 16)
    if colors.ndim != 2 or colors.shape[1] != 3 or len(colors) > values or colors.dtype.kind not in "iu":
        raise InvalidArgumentError(f"colormap must be integers of shape (at most {values}, 3), it is {colors.shape}")
    if colors.size and (colors.min() < 0 or colors.max() > 65535):
        raise InvalidArgumentError("colours of a colormap are 0 to 65535")
    table = np.zeros((values, 3), "<u2")
    table[: len(colors)] = colors
    return 320, _SHORT, 3 * values, table.T.tobytes()
