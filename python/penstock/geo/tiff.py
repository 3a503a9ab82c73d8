"""Arrays that are images of TIFF files."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core import registry
from penstock.core.array import Array, Selection
from penstock.core.errors import InvalidArgumentError, OutOfRangeError
from penstock.geo.header import TiffHeader
from penstock.geo.masks import fill_item
from penstock.geo.options import FIRST_IMAGE
from penstock.geo.unpacked import unpack

_SAMPLES_OF_A_READ = 1 << 20  # each needs 24 bytes for its position


class TiffArray(TiffHeader, Array):
    """An image of a TIFF file: an `Array` of shape (band, y, x). Made by `penstock.open`.

    Its properties are the contents of the header, which was read when the array was opened. Sidecar files are looked up
    at first use.

    Examples
    --------
    >>> x = np.arange(3 * 64 * 64, dtype="u2").reshape(3, 64, 64)
    >>> ps.save("scene.tif", x, crs=32633, transform=(10, 0, 500000, 0, -10, 5000000), nodata=0)
    >>> a = ps.open("scene.tif")
    >>> a.shape, a.dimension_names, a.epsg, a.nodata
    ((3, 64, 64), ('band', 'y', 'x'), 32633, 0)
    >>> a.bounds, a.res
    ((500000.0, 4999360.0, 500640.0, 5000000.0), (10.0, 10.0))
    >>> a.index(500015.0, 4999995.0), a.xy(0, 1)         # from a position to (row, column), and back
    ((0, 1), (500015.0, 4999995.0))
    >>> a[:, *a.window(500000, 4999900, 500200, 5000000).toslices()].shape
    (3, 10, 20)
    >>> a.coords()["x"][:2]
    array([500005., 500015.])
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (*registry.location_of(self), self._options)

    def _image(self, **changed: Any) -> TiffArray:
        """Another image of the same file, from the same store and with the same context, opened once.

        `level`, `mask`, `bands`: as in `open`; the default is this image's.
        """
        options = {**FIRST_IMAGE, **(self._options or {}), **changed}
        options["bands"] = list(options["bands"] or ())
        name = tuple(tuple(each) if isinstance(each, list) else each for each in options.values())
        kept: dict[Any, TiffArray] = self.__dict__.setdefault("_images", {})
        if name not in kept:
            kept[name] = self._wrapped(self._tiff_image(options), options)
        return kept[name]

    def _wrapped(self, image: Any, options: dict[str, Any]) -> TiffArray:
        made = TiffArray(image)
        made._options = options
        registry.reopen_as(made, self)
        return made

    def read(self, selection: Selection = ..., *arguments: Any, **options: Any) -> Any:
        """Read a selection of the image, as `Array.read`, whose parameters these are.

        Indices count from 0: `read(1)` is the second band. The first such call gives a warning.

        Parameters
        ----------
        selection
            Of (band, y, x), as for `[]`.
        arguments, options
            The other parameters of `Array.read`.

        Returns
        -------
        numpy.ndarray, Tensor or out
            As for `Array.read`.

        Raises
        ------
        Error
            As for `Array.read`.

        Examples
        --------
        >>> ps.save("scene.tif", np.ones((3, 64, 64), "u2"))
        >>> ps.open("scene.tif").read(np.s_[0, :16, :16], dtype="f4").shape
        (16, 16)
        """
        is_number = isinstance(selection, int | np.integer) and not isinstance(selection, bool | np.bool_)
        if is_number and self.dimension_names is not None and self.dimension_names[0] == "band":
            _warn_of_band()
        return super().read(selection, *arguments, **options)

    def band(self, number: int, **options: Any) -> Any:
        """Read one band, counted from 1 as in GDAL, rasterio and the file's own tags.

        Parameters
        ----------
        number
            From 1 to the number of bands.
        options
            Those of `Array.read`.

        Returns
        -------
        numpy.ndarray
            Of shape (y, x).

        Raises
        ------
        OutOfRangeError
            The image does not have the band.

        Examples
        --------
        >>> ps.save("scene.tif", np.stack([np.full((64, 64), band, "u2") for band in (1, 2, 3)]))
        >>> int(ps.open("scene.tif").band(2)[0, 0])
        2
        """
        number, axis = operator.index(number), self._band_axis
        if not 1 <= number <= self.shape[axis]:
            raise OutOfRangeError(
                f"band {number} is out of range: bands are counted from 1 to {self.shape[axis]}",
                self.uri,
            )
        return super().read((slice(None),) * axis + (number - 1,), **options)

    def sample(self, xy: Any, *, fill_value: Any = None) -> npt.NDArray[Any]:
        """Read the pixels at positions.

        Parameters
        ----------
        xy
            (x, y) pairs in units of the coordinate system: a sequence, or an array of shape (positions, 2).
        fill_value
            For positions outside the image; None: nodata, or 0 if the image has none.

        Returns
        -------
        numpy.ndarray
            Of shape (positions, bands), in the image's dtype.

        Raises
        ------
        InvalidArgumentError
            The image has no transform, `xy` are not pairs, or the image's integers do not have the value `fill_value`.

        Examples
        --------
        Values at two stations, the second of which is outside of the image:

        >>> x = np.arange(2 * 64 * 64, dtype="i2").reshape(2, 64, 64)
        >>> ps.save("scene.tif", x, crs=32633, transform=(10, 0, 500000, 0, -10, 4600000), nodata=-1)
        >>> ps.open("scene.tif").sample([(500015.0, 4599985.0), (400000.0, 4599985.0)])
        array([[  65, 4161],
               [  -1,   -1]], dtype=int16)
        """
        places = np.asarray(list(xy) if not isinstance(xy, np.ndarray) else xy, np.float64)
        if places.size and (places.ndim not in (1, 2) or places.shape[-1] != 2):
            raise InvalidArgumentError(f"xy must be (x, y) pairs, shape (positions, 2), got shape {places.shape}")
        places = places.reshape(-1, 2)
        a, b, c, d, e, f = self._needed_transform()
        scale = a * e - b * d
        across, down = places[:, 0] - c, places[:, 1] - f
        with np.errstate(invalid="ignore"):
            columns = np.floor((e * across - b * down) / scale)
            rows = np.floor((a * down - d * across) / scale)
            inside = (rows >= 0) & (rows < self.height) & (columns >= 0) & (columns < self.width)
        if fill_value is None:
            fill_value = 0 if self._held_nodata is None else self._held_nodata
        made = np.full((len(places), self.count), fill_item(fill_value, self.dtype), self.dtype)
        at = rows[inside].astype(np.int64), columns[inside].astype(np.int64)
        names = self.dimension_names or ()
        if len(at[0]):
            groups = -(-self.count * len(at[0]) // _SAMPLES_OF_A_READ)
            for bands in np.array_split(np.arange(self.count), min(self.count, groups)):
                lists = {"y": at[0][:, None], "x": at[1][:, None], "band": bands[None, :]}
                values = self.vindex[tuple(lists[str(name)] for name in names)]
                made[np.ix_(np.flatnonzero(inside), bands)] = values
        return made

    def unpacked(self, selection: Selection = ..., *, masked: bool = True) -> npt.NDArray[Any]:
        """Read `selection` of the (band, y, x) array as floats with scale and offset applied: see `UnpackedArray`.

        Parameters
        ----------
        selection
            As for `[]`.
        masked
            Missing pixels are NaN.

        Returns
        -------
        numpy.ndarray
            float32 or float64; complex for complex images.

        Raises
        ------
        InvalidArgumentError
            The file was not opened with layout="band".

        Examples
        --------
        >>> x = np.array([[[0, 300], [310, 320]]], "u2")
        >>> ps.save("t.tif", x, nodata=0, scales=[0.5], offsets=[100.0])
        >>> ps.open("t.tif").unpacked(0)
        array([[ nan, 250.],
               [255., 260.]])
        """
        return unpack(self, selection, masked)

    @property
    def _band_axis(self) -> int:
        names = self.dimension_names or ()
        if "band" not in names:
            raise InvalidArgumentError("scales and offsets belong to bands: open the file with layout='band'")
        return names.index("band")

    @property
    def _is_mask(self) -> bool:
        return bool((self._options or {}).get("mask"))


registry.register_class("tiff", TiffArray)


@functools.cache
def _warn_of_band() -> None:
    """Warn once in a process: users of rasterio mean the first band by `read(1)`."""
    warnings.warn(
        "read(n) of an image counts from 0, as all indices do: read(1) is its second band. band(n) counts from 1, as "
        "rasterio's read(n) does; a[n] does not warn",
        UserWarning,
        stacklevel=3,
    )


def _reopen(uri: Any, storage_options: dict[str, Any] | None, options: Mapping[str, Any] | None) -> Any:
    if options is None:
        return registry.reopen(uri, storage_options)
    given = dict(options)
    given["layout"] = "native" if given.pop("native_order") else None
    given["bands"] = given["bands"] or None
    given["page"] = (given["page"], *given.pop("sub_ifds"))
    return registry.reopen(uri, storage_options, **given)
