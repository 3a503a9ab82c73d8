"""Arrays that are images of TIFF files, and what their headers say."""

from __future__ import annotations

import os
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any
from xml.sax.saxutils import unescape

import numpy as np
import numpy.typing as npt

from penstock import _tiff_crs
from penstock._array import Array, Selection, _how_to_reopen
from penstock._errors import InvalidArgumentError, ReadOnlyError, _make
from penstock._tiff_names import COMPRESSIONS, PHOTOMETRICS, TAG_NAMES

_FORMATS = {
    1: "B",
    3: "H",
    4: "I",
    6: "b",
    7: "B",
    8: "h",
    9: "i",
    11: "f",
    12: "d",
    13: "I",
    16: "Q",
    17: "q",
    18: "Q",
}
_RPC_NAMES = [
    "ERR_BIAS",
    "ERR_RAND",
    "LINE_OFF",
    "SAMP_OFF",
    "LAT_OFF",
    "LONG_OFF",
    "HEIGHT_OFF",
    "LINE_SCALE",
    "SAMP_SCALE",
    "LAT_SCALE",
    "LONG_SCALE",
    "HEIGHT_SCALE",
]
_RPC_LISTS = ("LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF")


def options_of(
    page: int, level: int, layout: str | None, bands: Sequence[int] | None, mask: bool, ifd: int | None
) -> dict[str, Any] | None:
    """The options as the engine takes them; None where all are the defaults."""
    if layout not in (None, "band", "native"):
        raise _make(InvalidArgumentError, f"layout must be 'band' or 'native', it is {layout!r}")
    numbers = [page, level, *(bands if bands is not None else ()), *(() if ifd is None else (ifd,))]
    if any(number < 0 for number in numbers):
        raise _make(InvalidArgumentError, "pages, levels, bands and directories are counted from 0")
    if bands is not None and not len(bands):
        raise _make(InvalidArgumentError, "bands must name at least one band")
    options = {
        "page": page,
        "level": level,
        "mask": bool(mask),
        "native_order": layout == "native",
        "bands": [int(band) for band in bands] if bands is not None else [],
        "ifd": ifd,
    }
    is_default = page == 0 and level == 0 and not mask and layout != "native" and bands is None and ifd is None
    return None if is_default else options


class TiffArray(Array):
    """An image of a TIFF file: an `Array` of shape (band, y, x), and what the header says of it.

    Everything here was read when the array was opened; nothing reads from storage but the array itself and `unpacked`.
    """

    _options: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (*_how_to_reopen(self), self._options)

    # --- tags ---

    @cached_property
    def _details(self) -> dict[str, Any]:
        return dict(self._tiff_details or {})

    def _values(self, which: str) -> dict[int, Any]:
        return {
            tag: _value(kind, count, data, self._details["big_endian"])
            for tag, kind, count, data in self._details[which]
            if data is not None
        }

    @cached_property
    def _image_tags(self) -> dict[int, Any]:
        return self._values("tags")

    @cached_property
    def _page_tags(self) -> dict[int, Any]:
        """Of the page, which has the georeferencing of its overviews and masks."""
        return self._values("page_tags") or self._image_tags

    @property
    def tags(self) -> dict[str | int, Any]:
        """The tags by name (by number where they have none here): str, numbers, tuples of numbers, or bytes.

        Offsets and byte counts of tiles are not among them, nor values above 16 MiB.
        """
        return {TAG_NAMES.get(tag, tag): value for tag, value in self._image_tags.items()}

    @property
    def compression(self) -> str:
        """`deflate`, `lzw`, ..."""
        number = _first(self._image_tags.get(259, 1))
        return COMPRESSIONS.get(number, str(number))

    @property
    def photometric(self) -> str:
        """`minisblack`, `rgb`, `palette`, ..."""
        number = _first(self._image_tags.get(262, 0))
        return PHOTOMETRICS.get(number, str(number))

    @property
    def interleave(self) -> str:
        """`pixel`, or `band` where each band has tiles of its own."""
        return "band" if _first(self._image_tags.get(284, 1)) == 2 else "pixel"

    @property
    def tiled(self) -> bool:
        """Tiles, not strips."""
        return 322 in self._image_tags

    @property
    def overviews(self) -> tuple[tuple[int, int], ...]:
        """(height, width) of each overview, the largest first: `level=1` opens the first."""
        shapes: tuple[tuple[int, int], ...] = self._details["overviews"]
        return shapes

    @property
    def has_mask(self) -> bool:
        """The image has a mask of its own, which `mask=True` opens."""
        return bool(self._details["has_mask"])

    @property
    def structure(self) -> dict[str, str]:
        """What GDAL notes at the begin of a cloud-optimised file: LAYOUT, BLOCK_ORDER, ..."""
        lines = self._details["structure"].split("\n")
        return dict(line.split("=", 1) for line in lines if "=" in line)

    # --- values ---

    @property
    def nodata(self) -> int | float | None:
        """What stands for nothing, as the file says it; None where it says nothing."""
        text = str(self._page_tags.get(42113, "")).strip("\0 ")
        if not text:
            return None
        try:
            return int(text) if text.lstrip("+-").isdigit() and self.dtype.kind in "iu" else float(text)
        except ValueError:
            return None

    @cached_property
    def _items(self) -> list[tuple[str, int | None, str, str, str]]:
        """(name, band from 0 or None, role, domain, text) of GDAL's metadata."""
        text = self._page_tags.get(42112)
        if not isinstance(text, str):
            return []
        try:
            root = ElementTree.fromstring(text.rstrip("\0"))
        except (ElementTree.ParseError, ValueError):
            return []
        found = []
        for item in root.iter("Item"):
            sample = item.get("sample", "")
            band = int(sample) if sample.isdigit() else None
            text = unescape(item.text or "", {"&quot;": '"', "&apos;": "'"})  # GDAL escapes twice
            found.append((item.get("name", ""), band, item.get("role", ""), item.get("domain", ""), text))
        return found

    @property
    def gdal_metadata(self) -> dict[str, str]:
        """GDAL's metadata of the whole image."""
        return {name: text for name, band, _, domain, text in self._items if band is None and not domain}

    @property
    def band_metadata(self) -> tuple[dict[str, str], ...]:
        """GDAL's metadata of each band."""
        return tuple(
            {name: text for name, at, role, domain, text in self._items if at == band and not role and not domain}
            for band in self._bands
        )

    @property
    def attrs(self) -> Any:
        """GDAL's metadata and AREA_OR_POINT: a mapping that cannot be changed."""
        area = self.area_or_point
        return MappingProxyType(self.gdal_metadata | ({} if area is None else {"AREA_OR_POINT": area}))

    @attrs.setter
    def attrs(self, attributes: Mapping[str, Any]) -> None:
        raise _make(ReadOnlyError, "TIFFs are only read", f"array '{self.uri}'")

    @property
    def _bands(self) -> list[int]:
        """The file's bands that are the array's."""
        chosen = (self._options or {}).get("bands")
        return list(chosen) if chosen else list(range(_first(self._image_tags.get(277, 1))))

    def _roles(self, role: str) -> dict[int, str]:
        return {band: text for _, band, is_role, _, text in self._items if band is not None and is_role == role}

    def _numbers(self, role: str, absent: float) -> tuple[float, ...]:
        given = self._roles(role)
        return tuple(_float(given.get(band), absent) for band in self._bands)

    @property
    def scales(self) -> tuple[float, ...]:
        """For each band, what its values are multiplied by (1.0 where the file does not say)."""
        return self._numbers("scale", 1.0)

    @property
    def offsets(self) -> tuple[float, ...]:
        """For each band, what is added to its scaled values."""
        return self._numbers("offset", 0.0)

    @property
    def units(self) -> tuple[str | None, ...]:
        """Unit of each band."""
        given = self._roles("unittype")
        return tuple(given.get(band) for band in self._bands)

    @property
    def descriptions(self) -> tuple[str | None, ...]:
        """Description of each band."""
        given = self._roles("description")
        return tuple(given.get(band) for band in self._bands)

    @property
    def colormap(self) -> npt.NDArray[np.uint16] | None:
        """Red, green and blue of each value, 0 to 65535, shape (values, 3); None without a palette."""
        colors = self._image_tags.get(320)
        if colors is None or len(colors) % 3:
            return None
        return np.array(colors, np.uint16).reshape(3, -1).T.copy()

    def unpacked(self, selection: Selection = ..., *, masked: bool = True) -> npt.NDArray[Any]:
        """Read `selection` of the (band, y, x) array with scale and offset applied, as floats.

        `masked` turns nodata into NaN. Floats stay of their width where no band has a scale or an offset; all else
        becomes float64, or float32 where that holds all values of the type.
        """
        values = np.asarray(self.read(selection))
        nodata = self.nodata if masked else None
        scales, offsets = np.array(self.scales), np.array(self.offsets)
        plain = (scales == 1).all() and (offsets == 0).all()
        exact = self.dtype.kind in "iu" and self.dtype.itemsize <= 2 and plain
        kind = self.dtype if self.dtype.kind in "fc" and plain else np.dtype(np.float32 if exact else np.float64)
        made = values.astype(kind)
        if not plain:
            which = np.broadcast_to(np.arange(self.shape[self._band_axis]).reshape(self._band_shape), self.shape)
            picked = which[selection] if selection is not ... else which
            made = made * scales[picked] + offsets[picked]
        if nodata is not None and not np.isnan(nodata):
            made = np.where(values == nodata, np.asarray(np.nan, made.dtype), made)
        return np.asarray(made)

    @property
    def _band_axis(self) -> int:
        names = self.dimension_names or ()
        if "band" not in names:
            raise _make(InvalidArgumentError, "scales and offsets belong to bands: open the file with layout='band'")
        return names.index("band")

    @property
    def _band_shape(self) -> tuple[int, ...]:
        return tuple(-1 if d == self._band_axis else 1 for d in range(self.ndim))

    # --- where it is ---

    @property
    def area_or_point(self) -> str | None:
        """ "Area" where a pixel stands for its area, "Point" where for its centre; None where the file does not say."""
        kind = _tiff_crs.geo_keys(self._page_tags).get(1025)
        return {1: "Area", 2: "Point"}.get(kind) if isinstance(kind, int) else None

    @cached_property
    def transform(self) -> tuple[float, float, float, float, float, float] | None:
        """(a, b, c, d, e, f): x = a * column + b * row + c and y = d * column + e * row + f at a pixel's corner.

        As rasterio and affine have it; of the level that is open. None where the file has none. Pixels that are points
        have been moved by half of one.
        """
        tags = self._page_tags
        matrix, scale, points = tags.get(34264), tags.get(33550), tags.get(33922)
        if matrix is not None and len(matrix) >= 16:
            a, b, c, d, e, f = matrix[0], matrix[1], matrix[3], matrix[4], matrix[5], matrix[7]
        elif scale is not None and len(scale) >= 2 and points is not None and len(points) >= 6:
            a, b, d, e = scale[0], 0.0, 0.0, -scale[1]
            c, f = points[3] - points[0] * a, points[4] - points[1] * e
        else:
            return None
        if self.area_or_point == "Point":
            c, f = c - 0.5 * (a + b), f - 0.5 * (d + e)
        height, width = self._details["page_shape"]
        rows, columns = self._height_width
        across, down = width / columns, height / rows
        return (a * across, b * down, c, d * across, e * down, f)

    @property
    def _height_width(self) -> tuple[int, int]:
        names = self.dimension_names or ()
        return self.shape[names.index("y")], self.shape[names.index("x")]

    @property
    def bounds(self) -> tuple[float, float, float, float] | None:
        """(left, bottom, right, top) of all pixels; None where there is no transform."""
        if self.transform is None:
            return None
        a, b, c, d, e, f = self.transform
        rows, columns = self._height_width
        if b == d == 0:
            return (c, f + e * rows, c + a * columns, f)
        xs = [c, c + a * columns, c + b * rows, c + a * columns + b * rows]
        ys = [f, f + d * columns, f + e * rows, f + d * columns + e * rows]
        return (min(xs), min(ys), max(xs), max(ys))

    def coords(self) -> dict[str, npt.NDArray[np.float64]]:
        """`x` and `y` of the pixels' centres: one-dimensional, or of shape (y, x) where the grid is rotated.

        Empty where there is no transform.
        """
        if self.transform is None:
            return {}
        a, b, c, d, e, f = self.transform
        rows, columns = self._height_width
        across, down = np.arange(columns) + 0.5, np.arange(rows) + 0.5
        if b == d == 0:
            return {"x": np.asarray(a * across + c, np.float64), "y": np.asarray(e * down + f, np.float64)}
        return {
            "x": np.asarray(a * across[None, :] + b * down[:, None] + c, np.float64),
            "y": np.asarray(d * across[None, :] + e * down[:, None] + f, np.float64),
        }

    @property
    def gcps(self) -> list[tuple[float, float, float, float, float]]:
        """Ground control points as (column, row, x, y, z); empty where the file has a transform, or none."""
        points = self._page_tags.get(33922)
        if points is None or 34264 in self._page_tags or (len(points) < 12 and 33550 in self._page_tags):
            return []
        shift = 0.5 if self.area_or_point == "Point" else 0.0
        return [
            (points[i] + shift, points[i + 1] + shift, points[i + 3], points[i + 4], points[i + 5])
            for i in range(0, len(points) - 5, 6)
        ]

    @property
    def rpcs(self) -> dict[str, Any] | None:
        """The rational polynomial of the file, by GDAL's names; None where it has none."""
        numbers = self._page_tags.get(50844)
        if numbers is None or len(numbers) < 92:
            return None
        made: dict[str, Any] = dict(zip(_RPC_NAMES, numbers[:12], strict=True))
        for i, name in enumerate(_RPC_LISTS):
            made[name] = list(numbers[12 + 20 * i : 32 + 20 * i])
        return made

    @property
    def epsg(self) -> int | None:
        """The code of the coordinate system in EPSG's registry, where the file names one."""
        return _tiff_crs.epsg_of(self._page_tags)

    @cached_property
    def crs(self) -> Any:
        """The coordinate system: a `pyproj.CRS`, or text (`EPSG:32633`, or WKT) where pyproj is not installed.

        None where the file has none, or only parameters of a kind that is not understood here.
        """
        return _tiff_crs.crs_of(self._page_tags)

    @property
    def crs_wkt(self) -> str | None:
        """The coordinate system as WKT; needs pyproj, but where the file itself holds WKT."""
        crs = self.crs
        if crs is None or isinstance(crs, str):
            return None if crs is None or crs.startswith("EPSG:") else crs
        wkt: str = crs.to_wkt()
        return wkt

    @property
    def gcps_crs(self) -> Any:
        """The coordinate system of the ground control points."""
        return self.crs if self.gcps else None


def _float(text: str | None, absent: float) -> float:
    try:
        return absent if text is None else float(text)
    except ValueError:
        return absent


def _first(value: Any) -> int:
    return int(value[0] if isinstance(value, tuple) else value)


def _value(kind: int, count: int, data: bytes, big_endian: bool) -> Any:
    """A tag's value: text, bytes (type 7), one number, or a tuple of numbers."""
    if kind == 2:
        return data.split(b"\0")[0].decode("utf-8", "replace") if count else ""
    if kind == 7:
        return data
    order = ">" if big_endian else "<"
    if kind in (5, 10):
        parts = struct.unpack(f"{order}{2 * count}{'I' if kind == 5 else 'i'}", data)
        numbers: tuple[Any, ...] = tuple(
            parts[i] / parts[i + 1] if parts[i + 1] else float("nan") for i in range(0, len(parts), 2)
        )
    else:
        numbers = struct.unpack(f"{order}{count}{_FORMATS[kind]}", data)
    return numbers[0] if count == 1 else numbers


def _reopen(uri: str, storage_options: dict[str, Any] | None, options: Mapping[str, Any] | None) -> Any:
    from penstock._open import open

    if options is None:
        return open(uri, storage_options=storage_options)
    given = dict(options)
    given["layout"] = "native" if given.pop("native_order") else None
    given["bands"] = given["bands"] or None
    return open(uri, storage_options=storage_options, **given)


def is_tiff(data: bytes | bytearray | memoryview) -> bool:
    """Whether the first bytes are a TIFF's."""
    return bytes(memoryview(data)[:4]) in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def bytes_of_file(target: Any) -> bytes | str | None:
    """The path of an open file of this machine, or all bytes of another file object."""
    name = getattr(target, "name", None)
    if isinstance(name, str | os.PathLike) and os.path.isfile(name):
        return os.fspath(name)
    if hasattr(target, "getvalue"):
        return bytes(target.getvalue())
    target.seek(0)
    return bytes(target.read())
