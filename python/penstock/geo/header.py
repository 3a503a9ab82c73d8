"""What the header of a TIFF says of an image."""

from __future__ import annotations

import math
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock._core import TiffDetails
from penstock.core.errors import CorruptDataError, ReadOnlyError
from penstock.geo import crs as _tiff_crs
from penstock.geo.names import COMPRESSIONS, GEO_KEY_NAMES, PHOTOMETRICS, TAG_NAMES
from penstock.geo.sidecars import NOTHING, Beside, Point, beside, rational_polynomial, world_file

_INTEGERS = frozenset((1, 3, 4, 6, 8, 9, 13, 16, 17, 18))
_REALS = frozenset((5, 10, 11, 12))
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
# What Microsoft's C runtime wrote until 2015, with zeros behind it where more digits were asked for.
_DIALECT = re.compile(r"(-?)1\.#(INF|QNAN|SNAN|IND)")
_RPC_LISTS = ("LINE_NUM_COEFF", "LINE_DEN_COEFF", "SAMP_NUM_COEFF", "SAMP_DEN_COEFF")


class TiffHeader:
    """The tags of an image, and what they mean. Everything was read when the image was opened.

    Beside a local file `.ovr`, `.msk`, GDAL's `.aux.xml` and world files are looked for when they are first asked for.

    Properties raise `CorruptDataError`, which names the tag, where a tag is of a kind that it cannot be.
    """

    # Of the array that this is the header of.
    uri: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    dimension_names: tuple[str | None, ...] | None
    _tiff_details: TiffDetails | None
    _options: dict[str, Any] | None = None

    # --- tags ---

    @cached_property
    def _details(self) -> TiffDetails:
        assert self._tiff_details is not None
        return self._tiff_details

    @property
    def _image_tags(self) -> _Tags:
        return _Tags(self._details, of_page=False)

    @property
    def _page_tags(self) -> _Tags:
        """Of the page, which has the georeferencing of its overviews and masks."""
        return _Tags(self._details, of_page=True)

    @cached_property
    def _companions(self) -> tuple[tuple[tuple[int, int], ...], bool, list[int]]:
        return self._details.companions()

    def _integer(self, tag: int, absent: int) -> int:
        """The first value of a tag of the image."""
        found = self._image_tags.get(tag, absent)
        first = found[0] if isinstance(found, tuple) and found else found
        return first if isinstance(first, int) else self._refuse(tag, "an integer", found)

    def _numbers(self, tag: int, whole: bool = False) -> tuple[Any, ...] | None:
        """All values of a tag of the page; None where there is no such tag."""
        found = self._details.tag(tag, True)
        if found is None:
            return None
        kind, value = found
        if kind in _INTEGERS or (not whole and kind in _REALS):
            return value if isinstance(value, tuple) else (value,)
        self._refuse(tag, "integers" if whole else "numbers", value)
        return None

    def _refuse(self, tag: int, wanted: str, found: Any) -> Any:
        shown = repr(found)
        message = f"tag {tag} ({TAG_NAMES.get(tag, 'of no name')}) is not {wanted} but {shown[:60]}"
        raise CorruptDataError(message, f"array '{self.uri}'")

    @property
    def tags(self) -> dict[str | int, Any]:
        """The tags by name (by number where they have none here): str, numbers, tuples of numbers, or bytes.

        Offsets and byte counts of tiles are not among them, nor values above 16 MiB.
        """
        return {TAG_NAMES.get(tag, tag): value for tag, value in self._image_tags.items()}

    @property
    def compression(self) -> str:
        """`deflate`, `lzw`, ..."""
        number = self._integer(259, 1)
        return COMPRESSIONS.get(number, str(number))

    @property
    def photometric(self) -> str:
        """`minisblack`, `rgb`, `palette`, ..."""
        number = self._integer(262, 0)
        return PHOTOMETRICS.get(number, str(number))

    @property
    def interleave(self) -> str:
        """`pixel`, or `band` where each band has tiles of its own."""
        return "band" if self._integer(284, 1) == 2 else "pixel"

    @property
    def tiled(self) -> bool:
        """Tiles, not strips."""
        return 322 in self._image_tags

    @property
    def overviews(self) -> tuple[tuple[int, int], ...]:
        """(height, width) of each overview, the largest first: `level=1` opens the first."""
        return self._companions[0]

    @property
    def has_mask(self) -> bool:
        """The image, or one of its bands, has a mask of its own, which `mask=True` opens."""
        return self._companions[1]

    @property
    def _is_masked(self) -> tuple[bool, ...]:
        """Of each of the array's bands whether it has a mask of its own."""
        masked = self._companions[2]
        return tuple(self.has_mask and (not masked or band in masked) for band in self._bands)

    @property
    def _has_mask_of_all_bands(self) -> bool:
        """Of all of the file's."""
        return self.has_mask and not self._companions[2]

    @property
    def structure(self) -> dict[str, str]:
        """What GDAL notes at the begin of a cloud-optimised file: LAYOUT, BLOCK_ORDER, ..."""
        lines = self._details.structure.split("\n")
        return dict(line.strip().split("=", 1) for line in lines if "=" in line)  # one begins with a space

    # --- values ---

    @property
    def nodata(self) -> int | float | None:
        """What stands for nothing in the first of the bands, as the file says it; None where it says nothing."""
        chosen = (self._options or {}).get("bands")
        return self._nodata_of(chosen[0] if chosen else 0)

    def _nodata_of(self, band: int) -> int | float | None:
        value = self._beside.nodata.get(band)
        if value is None:
            found = self._details.tag(42113, True)
            value = _nodata_of_text("" if found is None else str(found[1]).strip("\0 "), self.dtype)
        elif self.dtype.kind in "iu" and value.is_integer():
            value = int(value)
        if value is None or self.dtype not in ("float32", "complex64"):
            return value
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value))  # the value that pixels can hold, as in GDAL
        return value if math.isinf(rounded) else rounded

    @property
    def _held_nodata(self) -> int | float | None:
        """What stands for nothing, where the type has such a value."""
        held: int | float | None = nodata_in(self.nodata, self.dtype)
        return held

    @property
    def _held_nodata_of_bands(self) -> tuple[int | float | None, ...]:
        if not self._beside.nodata:
            return (self._held_nodata,) * len(self._bands)
        return tuple(nodata_in(self._nodata_of(band), self.dtype) for band in self._bands)

    @property
    def _nodata_values(self) -> tuple[float, ...] | None:
        """GDAL's item NODATA_VALUES: a pixel with these values in all of the file's bands stands for nothing."""
        values = tuple(_float(text, 0.0) for text in self.gdal_metadata.get("NODATA_VALUES", "").split())
        return values if len(values) == self._integer(277, 1) else None

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
            band = int(sample) if sample.isdecimal() and len(sample) < 9 else None
            text = _unescape(item.text or "")  # GDAL escapes twice
            found.append((item.get("name", ""), band, item.get("role", ""), item.get("domain", ""), text))
        return found

    @property
    def gdal_metadata(self) -> dict[str, str]:
        """GDAL's metadata of the whole image."""
        own = {name: text for name, band, _, domain, text in self._items if band is None and not domain}
        return own | self._beside.metadata

    @property
    def band_metadata(self) -> tuple[dict[str, str], ...]:
        """GDAL's metadata of each band."""
        return tuple(
            {name: text for name, at, role, domain, text in self._items if at == band and not role and not domain}
            | self._beside.band_metadata.get(band, {})
            for band in self._bands
        )

    @property
    def attrs(self) -> Any:
        """GDAL's metadata and AREA_OR_POINT: a mapping that cannot be changed."""
        area = self.area_or_point
        return MappingProxyType(self.gdal_metadata | ({} if area is None else {"AREA_OR_POINT": area}))

    @attrs.setter
    def attrs(self, attributes: Mapping[str, Any]) -> None:
        raise ReadOnlyError("TIFFs are only read", f"array '{self.uri}'")

    @property
    def _bands(self) -> list[int]:
        """The file's bands that are the array's."""
        chosen = (self._options or {}).get("bands")
        names = self.dimension_names or ()
        return list(chosen) if chosen else list(range(self.shape[names.index("band")] if "band" in names else 1))

    def _roles(self, role: str) -> dict[int, str]:
        own = {band: text for _, band, is_role, _, text in self._items if band is not None and is_role == role}
        return own | self._beside.roles.get(role, {})

    def _of_bands(self, role: str, absent: float) -> tuple[float, ...]:
        given = self._roles(role)
        return tuple(_float(given.get(band), absent) for band in self._bands)

    @property
    def scales(self) -> tuple[float, ...]:
        """For each band, what its values are multiplied by (1.0 where the file does not say)."""
        return self._of_bands("scale", 1.0)

    @property
    def offsets(self) -> tuple[float, ...]:
        """For each band, what is added to its scaled values."""
        return self._of_bands("offset", 0.0)

    @property
    def units(self) -> tuple[str | None, ...]:
        """Unit of each band; where the file does not say, that of the heights of its coordinate system."""
        given, height = self._roles("unittype"), _tiff_crs.height_unit(self._geo_keys)
        return tuple(given.get(band) or height for band in self._bands)

    @property
    def descriptions(self) -> tuple[str | None, ...]:
        """Description of each band."""
        given = self._roles("description")
        return tuple(given.get(band) for band in self._bands)

    @property
    def colormap(self) -> npt.NDArray[np.uint16] | None:
        """Red, green and blue of each value, 0 to 65535, shape (values, 3); None without a palette."""
        colors = self._image_tags.get(320)
        if colors is None or not isinstance(colors, tuple) or len(colors) % 3:
            return None
        if not all(isinstance(each, int) and 0 <= each <= 65535 for each in colors):
            self._refuse(320, "integers of 16 bits", colors)
        return np.array(colors, np.uint16).reshape(3, -1).T.copy()

    # --- where it is ---

    @property
    def area_or_point(self) -> str | None:
        """ "Area" where a pixel stands for its area, "Point" where for its centre; None where the file does not say."""
        kind = {"1": "Area", "2": "Point"}.get(str(self._geo_keys.get(1025)))
        said = self._beside.metadata.get("AREA_OR_POINT")
        return said if said in ("Area", "Point") else kind

    @property
    def _is_of_points(self) -> bool:
        """The places in the file's own tags are those of pixels' centres."""
        return bool(self._geo_keys.get(1025) == 2)

    @cached_property
    def _beside(self) -> Beside:
        return beside(self.uri) if self._is_first_page else NOTHING

    @property
    def _is_first_page(self) -> bool:
        """Which files beside are about."""
        options = self._options
        return options is None or not (options["page"] or options["sub_ifds"] or options["ifd"] is not None)

    @cached_property
    def _geo_keys(self) -> dict[int, Any]:
        keys = self._details.geo_keys()
        if keys is None:  # one of these is of a kind that it cannot be
            self._numbers(34735, whole=True)
            self._numbers(34736)
            return self._refuse(34737, "text", self._page_tags.get(34737))  # type: ignore[no-any-return]
        return keys

    @cached_property
    def transform(self) -> tuple[float, float, float, float, float, float] | None:
        """(a, b, c, d, e, f): x = a * column + b * row + c and y = d * column + e * row + f at a pixel's corner.

        As rasterio and affine have it; of the level that is open. None where there is none, or pixels of no size.
        Pixels that are points have been moved by half of one. Rows go down whatever the sign of the scale, as in GDAL.
        """
        scale, points = self._numbers(33550), self._numbers(33922)
        is_placed = False
        if self._beside.transform is not None:
            a, b, c, d, e, f = self._beside.transform
        elif scale is not None and len(scale) >= 2 and scale[0] and scale[1]:  # which GDAL prefers to a matrix
            a, b, d, e = scale[0], 0.0, 0.0, -abs(scale[1])
            is_placed = points is not None and len(points) >= 6
            i, j, _, x, y = (points or ())[:5] if is_placed else (0.0,) * 5
            c, f = x - i * a, y - j * e
        elif (matrix := self._numbers(34264)) is not None and len(matrix) >= 16:
            a, b, c, d, e, f = matrix[0], matrix[1], matrix[3], matrix[4], matrix[5], matrix[7]
            is_placed = True
        else:
            world = world_file(self.uri) if self._is_first_page else None
            if world is None:
                return None
            a, b, c, d, e, f = world
        if self._is_of_points and is_placed:
            c, f = c - 0.5 * (a + b), f - 0.5 * (d + e)
        down, across = self._page_pixels
        return (a * across, b * down, c, d * across, e * down, f)

    @property
    def _page_pixels(self) -> tuple[float, float]:
        """How many rows and columns of the page a pixel of this level has."""
        if self._options is None:  # the page itself
            return 1.0, 1.0
        height, width = self._details.page_shape
        rows, columns = self._height_width
        return height / rows, width / columns

    @property
    def _height_width(self) -> tuple[int, int]:
        names, shape = self.dimension_names or (), self.shape
        return shape[names.index("y")], shape[names.index("x")]

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
        """Ground control points as (column, row, x, y, z), of the level that is open.

        Those beside the file; its own, where it has no transform. Else empty.
        """
        down, across = self._page_pixels
        beside = self._gcps_beside
        if beside:
            return [(column / across, row / down, x, y, z) for column, row, x, y, z in beside]
        points = self._numbers(33922)
        if points is None or self.transform is not None:
            return []
        shift = 0.5 if self._is_of_points else 0.0
        return [
            ((points[i] + shift) / across, (points[i + 1] + shift) / down, *points[i + 3 : i + 6])
            for i in range(0, len(points) - 5, 6)
        ]

    @property
    def _gcps_beside(self) -> tuple[Point, ...]:
        """In pixels of the page. Without a resolution in inches ESRI's are no places in the file."""
        found = self._beside.gcps
        if not self._beside.gcps_in_inches:
            return found
        across, down = self._numbers(282), self._numbers(283)
        if across is None or down is None or self._page_tags.get(296) != 2:
            return ()
        rows = self._details.page_shape[0]
        return tuple((column * across[0], rows - row * down[0], x, y, z) for column, row, x, y, z in found)

    @property
    def rpcs(self) -> dict[str, Any] | None:
        """The rational polynomial of the level that is open, by GDAL's names; None where the file has none."""
        found = self._rpcs_beside or self._own_rpcs
        if found is None:
            return None
        made = dict(found)
        for axis, pixels in zip(("LINE", "SAMP"), self._page_pixels, strict=True):
            if pixels == 1:
                continue
            made[f"{axis}_OFF"] = (made[f"{axis}_OFF"] + 0.5) / pixels - 0.5  # counted from the first pixel's centre
            made[f"{axis}_SCALE"] /= pixels
        return made

    @cached_property
    def _rpcs_beside(self) -> dict[str, Any] | None:
        return rational_polynomial(self.uri) if self._is_first_page else None

    @property
    def _own_rpcs(self) -> dict[str, Any] | None:
        numbers = self._numbers(50844)
        if numbers is None or len(numbers) < 92:
            return None
        made: dict[str, Any] = dict(zip(_RPC_NAMES, numbers[:12], strict=True))
        for i, name in enumerate(_RPC_LISTS):
            made[name] = list(numbers[12 + 20 * i : 32 + 20 * i])
        return made

    @property
    def epsg(self) -> int | None:
        """The code of the coordinate system in EPSG's registry, where the file names one."""
        if self._beside.crs is None:
            return _tiff_crs.epsg_of(self._geo_keys)
        named = _tiff_crs.named(self._beside.crs)
        code: int | None = named.to_epsg(100) if hasattr(named, "to_epsg") else None
        return code

    @cached_property
    def crs(self) -> Any:
        """The coordinate system: a `pyproj.CRS`, or text (`EPSG:32633`, or WKT) where pyproj is not installed.

        None where the file has none; also, with a warning, where it has parameters of a kind that is not understood
        here: `geo_keys` has them.
        """
        if self._beside.crs is not None:
            return _tiff_crs.named(self._beside.crs)
        found = _tiff_crs.crs_of(self._geo_keys)
        if found is None and _tiff_crs.is_described(self._geo_keys):
            method = self._geo_keys.get(3075)
            which = "" if method is None else f" (projection method {method})"
            warnings.warn(
                f"'{self.uri}' has a coordinate system that is not understood here{which}: "
                "geo_keys has what the file says",
                stacklevel=3,
            )
        return found

    @property
    def geo_keys(self) -> dict[str | int, Any]:
        """The GeoTIFF keys as they stand in the file, by name (by number where they have none here)."""
        return {GEO_KEY_NAMES.get(key, key): value for key, value in self._geo_keys.items()}

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
        if self._gcps_beside:
            return None if self._beside.gcps_crs is None else _tiff_crs.named(self._beside.gcps_crs)
        return self.crs if self.gcps else None


def _nodata_of_text(text: str, dtype: np.dtype[Any]) -> int | float | None:
    """The number in the tag GDAL_NODATA; None if it has none."""
    if not text:
        return None
    if dialect := _DIALECT.match(text):
        return float(dialect[1] + "inf" if dialect[2] == "INF" else "nan")
    try:
        return int(text) if text.lstrip("+-").isdigit() and dtype.kind in "iu" else float(text)
    except ValueError:
        return None


def nodata_in(nodata: Any, dtype: np.dtype[Any]) -> Any:
    """`nodata`, an int where `dtype` has integers; None where it has no such value: then no pixel is nodata."""
    if nodata is None or dtype.kind not in "iufc":
        return nodata
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        is_held = limits.min <= nodata <= limits.max and int(nodata) == nodata
        return int(nodata) if is_held else None
    with np.errstate(over="ignore"):
        grew = np.isinf(np.array(nodata).astype(dtype)) and not np.isinf(nodata)
    return None if grew else nodata


_ABSENT = object()


class _Tags(Mapping[int, Any]):
    """The tags of a directory by number, each decoded when it is asked for."""

    def __init__(self, details: TiffDetails, *, of_page: bool) -> None:
        self._details, self._of_page = details, of_page

    def __getitem__(self, tag: int) -> Any:
        found = self._details.tag(tag, self._of_page)
        if found is None:
            raise KeyError(tag)
        return found[1]

    def get(self, tag: int, absent: Any = None) -> Any:
        found = self._details.tag(tag, self._of_page)
        return absent if found is None else found[1]

    def __contains__(self, tag: object) -> bool:
        return isinstance(tag, int) and self._details.tag(tag, self._of_page) is not None

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys(self._details.tags(self._of_page)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _float(text: str | None, absent: float) -> float:
    try:
        return absent if text is None else float(text)
    except ValueError:
        return absent


def _unescape(text: str) -> str:
    """The five entities of XML. (`xml.sax.saxutils`, which has this, takes 50 ms to import.)"""
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        text = text.replace(entity, character)
    return text
