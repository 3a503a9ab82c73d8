"""The contents of a TIFF's header about an image, and the additions of its sidecar files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock._core import Georeference, TiffDetails
from penstock.core.errors import InvalidArgumentError, ReadOnlyError
from penstock.geo import crs as _tiff_crs
from penstock.geo.affine import Transform, Window, affine_of

# GDAL's names of compressions that have another name here.
_OTHER_NAMES = {"ccitt_rle": "ccittrle", "ccitt_fax3": "ccittfax3", "ccitt_fax4": "ccittfax4", "jpegxl": "jxl"}


class TiffHeader:
    """The tags of an image, and their meaning. They were read when the image was opened.

    The sidecar files of a local file (`.ovr`, `.msk`, GDAL's `.aux.xml`, world files) are read when a value that they
    can change is first used.

    Properties raise `CorruptDataError`, which names the tag, if a tag has values of a wrong type.
    """

    # The header's array.
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
        """From the page, which has the georeferencing of its overviews and masks."""
        return _Tags(self._details, of_page=True)

    @cached_property
    def _companions(self) -> tuple[tuple[tuple[int, int], ...], bool, list[int]]:
        return self._details.companions()

    @cached_property
    def _meaning(self) -> Georeference:
        return self._details.georeference()

    @cached_property
    def _band_values(self) -> list[dict[str, Any]]:
        """For each of the array's bands its `number` in the file, from 0, and the meaning of its values."""
        return self._meaning.bands()

    def _integer(self, tag: str, absent: int) -> int:
        """The first value of a tag of the image."""
        return self._details.integer(tag, absent)

    @property
    def tags(self) -> dict[str | int, Any]:
        """The tags by name (by number if they have no name here): str, numbers, tuples of numbers, or bytes.

        Offsets and byte counts of tiles are not among them, nor values above 16 MiB.
        """
        return dict(self._image_tags)

    @property
    def compression(self) -> str:
        """`deflate`, `lzw`, ..."""
        return self._details.compression

    @property
    def photometric(self) -> str:
        """`minisblack`, `rgb`, `palette`, ..."""
        return self._details.photometric

    @property
    def interleave(self) -> str:
        """`pixel`, or `band` if each band has tiles of its own."""
        return "band" if self._integer("PlanarConfiguration", 1) == 2 else "pixel"

    @property
    def tiled(self) -> bool:
        """Whether the image has tiles instead of strips."""
        return "TileWidth" in self._image_tags

    @property
    def overviews(self) -> tuple[tuple[int, int], ...]:
        """(height, width) of each overview, the largest first: `level=1` opens the first."""
        return self._companions[0]

    @property
    def has_mask(self) -> bool:
        """Whether the image, or one of its bands, has a mask of its own, which `mask=True` opens."""
        return self._companions[1]

    @property
    def structure(self) -> dict[str, str]:
        """GDAL's text at the beginning of a cloud-optimised file: LAYOUT, BLOCK_ORDER, ..."""
        lines = self._details.structure.split("\n")
        return dict(line.strip().split("=", 1) for line in lines if "=" in line)  # one begins with a space

    # --- values ---

    @property
    def nodata(self) -> int | float | None:
        """The nodata value of the first band, as in the file; None if the file has none."""
        return self._first_nodata

    @cached_property
    def _first_nodata(self) -> int | float | None:
        return self._meaning.first_nodata()

    @property
    def _held_nodata(self) -> int | float | None:
        """The nodata value, if pixels can have it."""
        value: int | float | None = self._band_values[0]["held_nodata"]
        return value

    @property
    def gdal_metadata(self) -> dict[str, str]:
        """GDAL's metadata of the whole image."""
        return self._meaning.metadata()

    @property
    def band_metadata(self) -> tuple[dict[str, str], ...]:
        """GDAL's metadata of each band."""
        return tuple(dict(band["metadata"]) for band in self._band_values)

    @property
    def attrs(self) -> Any:
        """GDAL's metadata and AREA_OR_POINT: a mapping that cannot be changed."""
        area = self.area_or_point
        return MappingProxyType(self.gdal_metadata | ({} if area is None else {"AREA_OR_POINT": area}))

    @attrs.setter
    def attrs(self, attributes: Mapping[str, Any]) -> None:
        raise ReadOnlyError("TIFFs are read-only", f"array '{self.uri}'")

    @property
    def _bands(self) -> list[int]:
        """The file's bands that the array has."""
        return [band["number"] for band in self._band_values]

    @property
    def scales(self) -> tuple[float, ...]:
        """For each band, the factor of its values (1.0 if the file has none)."""
        return tuple(band["scale"] for band in self._band_values)

    @property
    def offsets(self) -> tuple[float, ...]:
        """For each band, the offset that is added to its scaled values."""
        return tuple(band["offset"] for band in self._band_values)

    @property
    def units(self) -> tuple[str | None, ...]:
        """Unit of each band; if the file has none, that of the heights of its coordinate system."""
        height = _tiff_crs.height_unit(self._geo_keys)
        return tuple(band["unit"] or height for band in self._band_values)

    @property
    def descriptions(self) -> tuple[str | None, ...]:
        """Description of each band."""
        return tuple(band["description"] for band in self._band_values)

    @property
    def colormap(self) -> npt.NDArray[np.uint16] | None:
        """Red, green and blue of each value, 0 to 65535, shape (values, 3); None without a palette."""
        colors = self._details.colormap()
        return None if colors is None else np.array(colors, np.uint16).reshape(3, -1).T.copy()

    # --- position ---

    @property
    def area_or_point(self) -> str | None:
        """ "Area" if a pixel's value is that of its area, "Point" if of its centre; None if the file does not specify
        it.
        """
        return self._meaning.area_or_point()

    @cached_property
    def _geo_keys(self) -> dict[str | int, Any]:
        return self._meaning.geo_keys()

    @cached_property
    def _coefficients(self) -> tuple[float, float, float, float, float, float] | None:
        return self._meaning.transform()

    @cached_property
    def transform(self) -> Any:
        """An `affine.Affine`: x = a * column + b * row + c and y = d * column + e * row + f at a pixel's corner.

        A named tuple with the same fields if that package is not installed. It applies to the open level. None without
        a transform, or if pixels have no size. Pixels that are points have been moved by half a pixel. Rows go down for
        either sign of the scale, as in GDAL.
        """
        return None if self._coefficients is None else affine_of(self._coefficients)

    @property
    def res(self) -> tuple[float, float] | None:
        """(width, height) of a pixel in units of the coordinate system, both positive; None without a transform."""
        if self._coefficients is None:
            return None
        a, b, _, d, e, _ = self._coefficients
        return math.hypot(a, d), math.hypot(b, e)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self._height_width[1]

    @property
    def height(self) -> int:
        """Number of rows."""
        return self._height_width[0]

    @property
    def count(self) -> int:
        """Number of bands."""
        names = self.dimension_names or ()
        return self.shape[names.index("band")] if "band" in names else 1

    @property
    def profile(self) -> dict[str, Any]:
        """The arguments of `rasterio.open(path, "w", **profile)` to write such a file; `penstock.save` accepts most of
        them.
        """
        made: dict[str, Any] = {
            "driver": "GTiff",
            "dtype": str(self.dtype),
            "nodata": self.nodata,
            "width": self.width,
            "height": self.height,
            "count": self.count,
            "crs": self.crs,
            "transform": self.transform,
            "blockxsize": self._integer("TileWidth", self.width),
            "blockysize": self._integer("TileLength", self._integer("RowsPerStrip", self.height)),
            "tiled": self.tiled,
            "interleave": self.interleave,
        }
        if self.compression != "none":
            made["compress"] = _OTHER_NAMES.get(self.compression, self.compression)
        return made

    def index(self, x: float, y: float) -> tuple[int, int]:
        """Return (row, column) of the pixel at a position, which may be outside the image."""
        a, b, c, d, e, f = self._needed_transform()
        across, down, scale = x - c, y - f, a * e - b * d  # as in `sample`: exact on most edges of pixels
        return math.floor((a * down - d * across) / scale), math.floor((e * across - b * down) / scale)

    def xy(self, row: float, column: float) -> tuple[float, float]:
        """Return (x, y) of a pixel's centre."""
        x, y = Transform(*self._needed_transform()) * (column + 0.5, row + 0.5)
        return float(x), float(y)

    def window(self, left: float, bottom: float, right: float, top: float) -> Window:
        """Return the pixels within bounds, as rasterio's `window`.

        `a[:, *a.window(...).toslices()]` reads all touched pixels.

        Parameters
        ----------
        left, bottom, right, top
            In the units of the coordinate system. If they increase downwards or decrease to the right in the image,
            also in the order of `bounds`.

        Returns
        -------
        Window
            With fractions of pixels, and `toslices`.

        Raises
        ------
        InvalidArgumentError
            The image has no transform, or its rows and columns are rotated; or the bounds are in a wrong order.
        """
        a, b, c, d, e, f = self._needed_transform()
        if b or d:
            raise InvalidArgumentError("the image is rotated: it has no window of bounds", f"array '{self.uri}'")
        in_order = (left < right or (a < 0 and left != right)) and (bottom < top or (e > 0 and bottom != top))
        if not in_order:
            raise InvalidArgumentError(
                f"bounds must be left < right and bottom < top, got {(left, bottom, right, top)}"
            )
        columns, rows = sorted(((left - c) / a, (right - c) / a)), sorted(((bottom - f) / e, (top - f) / e))
        return Window(columns[0], rows[0], columns[1] - columns[0], rows[1] - rows[0])

    def _needed_transform(self) -> tuple[float, float, float, float, float, float]:
        if self._coefficients is None:
            raise InvalidArgumentError("the image has no transform", f"array '{self.uri}'")
        return self._coefficients

    @property
    def _height_width(self) -> tuple[int, int]:
        names, shape = self.dimension_names or (), self.shape
        return shape[names.index("y")], shape[names.index("x")]

    @property
    def bounds(self) -> tuple[float, float, float, float] | None:
        """(left, bottom, right, top) of all pixels; None without a transform."""
        return self._meaning.bounds()

    def coords(self) -> dict[str, npt.NDArray[np.float64]]:
        """Return `x` and `y` of the pixels' centres: one-dimensional, or of shape (y, x) if the grid is rotated.

        Empty without a transform.
        """
        if self._coefficients is None:
            return {}
        a, b, c, d, e, f = self._coefficients
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
        """Ground control points as (column, row, x, y, z) for the open level.

        Those of a sidecar file, else those of the file if it has no transform. Otherwise empty.
        """
        return self._meaning.gcps()

    @property
    def rpcs(self) -> dict[str, Any] | None:
        """The rational polynomial of the open level, with GDAL's names; None if the file has none."""
        found = self._rpcs
        return None if found is None else {name: list(v) if isinstance(v, list) else v for name, v in found.items()}

    @cached_property
    def _rpcs(self) -> dict[str, Any] | None:
        return self._meaning.rpcs()

    @property
    def epsg(self) -> int | None:
        """The EPSG code of the coordinate system, if the file names one."""
        if self._meaning.sidecar_crs is None:
            return _tiff_crs.CODES.of(self._details.geo_keys, lambda: _tiff_crs.epsg_of(self._geo_keys))
        named = _tiff_crs.named(self._meaning.sidecar_crs)
        code: int | None = named.to_epsg(100) if hasattr(named, "to_epsg") else None
        return code

    @cached_property
    def crs(self) -> Any:
        """The coordinate system: a `pyproj.CRS`, or text (`EPSG:32633`, or WKT) if pyproj is not installed.

        None if the file has none. Also None, with a warning, if it has parameters that are not supported: `geo_keys`
        has them.
        """
        if self._meaning.sidecar_crs is not None:
            return _tiff_crs.named(self._meaning.sidecar_crs)
        found = _tiff_crs.SYSTEMS.of(self._details.geo_keys, lambda: _tiff_crs.crs_of(self._geo_keys))
        if found is None and _tiff_crs.is_described(self._geo_keys):
            method = self._geo_keys.get("ProjMethod")
            which = "" if method is None else f" (projection method {method})"
            warnings.warn(
                f"'{self.uri}' has a coordinate system that is not supported{which}: geo_keys has the keys of the file",
                stacklevel=3,
            )
        return found

    @property
    def geo_keys(self) -> dict[str | int, Any]:
        """The GeoTIFF keys of the file, by name (by number if they have no name here)."""
        return dict(self._geo_keys)

    @property
    def crs_wkt(self) -> str | None:
        """The coordinate system as WKT; needs pyproj unless the file itself has WKT."""
        crs = self.crs
        if crs is None or isinstance(crs, str):
            return None if crs is None or crs.startswith("EPSG:") else crs
        wkt: str = crs.to_wkt()
        return wkt

    @property
    def gcps_crs(self) -> Any:
        """The coordinate system of the ground control points."""
        if self._meaning.has_sidecar_gcps():
            named = self._meaning.sidecar_gcps_crs
            return None if named is None else _tiff_crs.named(named)
        return self.crs if self.gcps else None


class _Tags(Mapping[str | int, Any]):
    """The tags of a directory by name (by number if they have no name here), each decoded at first use."""

    def __init__(self, details: TiffDetails, *, of_page: bool) -> None:
        self._details, self._of_page = details, of_page

    def __getitem__(self, tag: str | int) -> Any:
        found = self._details.tag(tag, self._of_page)
        if found is None:
            raise KeyError(tag)
        return found[1]

    def get(self, tag: str | int, absent: Any = None) -> Any:
        found = self._details.tag(tag, self._of_page)
        return absent if found is None else found[1]

    def __contains__(self, tag: object) -> bool:
        return isinstance(tag, str | int) and self._details.tag(tag, self._of_page) is not None

    def __iter__(self) -> Iterator[str | int]:
        return iter(dict.fromkeys(self._details.tags(self._of_page)))

    def __len__(self) -> int:
        return sum(1 for _ in self)
