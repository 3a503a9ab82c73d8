"""Which pixels of a TIFF have a value."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.geo.header import nodata_in

if TYPE_CHECKING:
    from penstock.geo.tiff import TiffArray


class Validity:
    """Which pixels of an image have a value, by GDAL's rules: those in the mask; in bands without a mask, those that
    are not nodata; without both, those that the alpha band does not make fully transparent.

    `mask` is to be read beside the image: None, one band for all of the image's, or as many as it has.
    """

    def __init__(self, array: TiffArray) -> None:
        self.mask = mask_of(array)
        self.is_opacity = False  # the mask is an alpha band
        self._alpha: int | None = None  # the array's own alpha band, which is never masked
        is_masked = array._is_masked
        masked = is_masked if any(is_masked) else (self.mask is not None,) * len(is_masked)
        nodata = (None,) * len(masked) if array._is_mask else array._held_nodata_of_bands
        self._nodata = tuple(None if own else each for own, each in zip(masked, nodata, strict=True))
        self._masked = None if self.mask is None or all(masked) else np.array(masked)
        is_nodata = any(each is not None for each in self._nodata)
        if self.mask is None and not is_nodata and (alpha := _masking_alpha_band(array)) is not None:
            self.mask, self.is_opacity = array._image(bands=[alpha]), True
            self._alpha = array._bands.index(alpha) if alpha in array._bands else None
        self.is_partial = self.mask is not None or is_nodata

    def of(self, values: Any, mask: Any, bands: Any) -> Any:
        """Of values and what was read of the mask beside them. None: all are valid.

        `bands`: which band each value is of, in a shape that broadcasts against the values.
        """
        if not self.is_partial:
            return None
        if self.mask is not None and self._masked is None:
            opaque = mask != 0
            return opaque if self._alpha is None else opaque | module_of(values).asarray(bands == self._alpha)
        if self.mask is None and len(set(map(str, self._nodata))) == 1:
            return _differs(values, self._nodata[0])
        asarray = module_of(values).asarray
        valid = True if self._masked is None else (mask != 0) | asarray(~self._masked[bands])
        for band, nodata in enumerate(self._nodata):
            if nodata is not None:
                valid = valid & (_differs(values, nodata) | asarray(bands != band))
        return valid


def alpha_band(array: Any) -> int | None:
    """Return the file's band (from 0) that holds the opacity of the others, or None.

    This is the last band if its colour interpretation is alpha, by GDAL's rule: GDAL's own COLORINTERP item overrides
    ExtraSamples. GDAL's COG driver writes ExtraSamples 2 with the item `Undefined` for a fourth band that is not alpha.
    """
    samples: int = array._integer(277, 1)
    role = array._roles("colorinterp").get(samples - 1)
    if role is not None:
        return samples - 1 if role.lower() == "alpha" else None
    extra = array.tags.get("ExtraSamples", ())
    extra = extra if isinstance(extra, tuple) else (extra,)
    return samples - 1 if 0 < len(extra) < samples and extra[-1] in (1, 2) else None


def _masking_alpha_band(array: TiffArray) -> int | None:
    """Return the alpha band where GDAL derives a mask from it: the last of two or four bands of 8 or 16 bits."""
    if array._is_mask or array._integer(277, 1) not in (2, 4) or array.dtype not in ("uint8", "uint16"):
        return None
    return alpha_band(array)


def _differs(values: Any, nodata: Any) -> Any:
    return values == values if nodata is None or nodata != nodata else values != nodata


def module_of(values: Any) -> Any:
    """NumPy, or CuPy."""
    return sys.modules[type(values).__module__.split(".")[0]]


def mask_of(array: TiffArray) -> Any:
    """What says which pixels are valid (not 0), of all bands at once as one band, or of each: the file's mask, else
    GDAL's item NODATA_VALUES. None where there is neither: then each band's nodata is its own affair.

    Bands without a mask of their own, beside others that have one, get one of those.
    """
    if array._is_mask:
        return None
    is_masked = array._is_masked
    if any(is_masked):
        if array._has_mask_of_all_bands and of_all_bands(made := array._image(mask=True, bands=[])):
            return made
        some = array._bands[is_masked.index(True)]
        bands = [band if own else some for band, own in zip(array._bands, is_masked, strict=True)]
        return array._image(mask=True, bands=bands)
    values = array._nodata_values
    return None if values is None else NodataMask(array, values)


def of_all_bands(mask: Any) -> bool:
    """Whether a mask is to be read as one band, for all of the image's."""
    bands: int = 1 if isinstance(mask, NodataMask) else mask.size // math.prod(mask._height_width)
    return bands == 1


class NodataMask:
    """Leaves out the pixels that have the nodata of each band in all bands."""

    def __init__(self, array: TiffArray, values: tuple[float, ...]) -> None:
        self.bands = [array._image(bands=[band]) for band in range(len(values))]
        self._values = [nodata_in(value, array.dtype) for value in values]
        self.shape = self.bands[0].shape

    def read(self, selection: Any, **how: Any) -> Any:
        """As `Array.read`."""
        return self.read_async(selection, **how).wait()

    def read_async(self, selection: Any, **how: Any) -> _Reading:
        """As `Array.read_async`: all bands are being read when it returns."""
        return _Reading([band.read_async(selection, **how) for band in self.bands], self.valid)

    def valid(self, bands: list[Any]) -> Any:
        """Of the values of each band."""
        return reduce(lambda valid, each: valid | each, map(_differs, bands, self._values))


class _Reading:
    """What is to be made of several reads that are under way."""

    def __init__(self, jobs: list[Any], made_of: Callable[[list[Any]], Any]) -> None:
        self._jobs, self._made_of = jobs, made_of

    def wait(self) -> Any:
        return self._made_of([job.wait() for job in self._jobs])

    def __await__(self) -> Generator[Any, None, Any]:
        values = []
        for job in self._jobs:
            values.append((yield from job.__await__()))
        return self._made_of(values)
