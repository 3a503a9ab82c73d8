"""Which pixels of a TIFF have a value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock._core import validity_of
from penstock.core.errors import InvalidArgumentError
from penstock.geo.options import FIRST_IMAGE

if TYPE_CHECKING:
    from penstock.geo.tiff import TiffArray


class Validity:
    """Which pixels of an image have a value, by GDAL's rules: those in the mask; in bands without a mask, those that
    are not nodata; without both, those that the alpha band does not make fully transparent.

    `mask` must be read with the image: None, one band for all of the image's bands (`is_of_all_bands`), or as many as
    it has.
    """

    def __init__(self, array: TiffArray) -> None:
        found = validity_of(array, array._meaning)
        self.mask: Any = None
        if found["mask"] is not None:
            bands = {"bands": [array._meaning.alpha_band()]} if found["is_alpha"] else {"mask": True}
            self.mask = array._wrapped(found["mask"], {**FIRST_IMAGE, **(array._options or {}), **bands})
        elif found["nodata_of_pixels"]:
            self.mask = NodataMask(array, found["nodata_of_pixels"])
        self.is_opacity: bool = found["is_alpha"]  # the mask is an alpha band
        self.is_of_all_bands: bool = found["mask"] is None or found["mask_is_of_all_bands"]
        self._alpha: int | None = found["alpha_band"]  # the array's own alpha band, which is never masked
        self._nodata = tuple(found["nodata"])
        masked = found["masked"]
        is_partly = self.mask is not None and not self.is_opacity and not all(masked)
        self._masked = np.array(masked) if is_partly else None
        self.is_partial: bool = found["is_partial"]

    def of(self, values: Any, mask: Any, bands: Any) -> Any:
        """Which values are valid, from the values and the mask's values. None: all are valid.

        `bands`: the band of each value, in a shape that broadcasts against the values.
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


def fill_item(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An array of rank 0 with a fill value; integers must have its value."""
    made = np.empty((), dtype)
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            made[...] = value
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"fill_value {value!r} is not a value of {dtype}") from error
    if dtype.kind in "iu" and made != value:
        raise InvalidArgumentError(f"fill_value {value!r} is not a value of {dtype}")
    return made


def alpha_band(array: Any) -> int | None:
    """Return the file's band (from 0) that holds the opacity of the others, or None."""
    band: int | None = array._meaning.alpha_band()
    return band


def _differs(values: Any, nodata: Any) -> Any:
    return values == values if nodata is None or nodata != nodata else values != nodata


def module_of(values: Any) -> Any:
    """NumPy, or CuPy."""
    return sys.modules[type(values).__module__.split(".")[0]]


class NodataMask:
    """Marks pixels as missing that have the nodata value of each band in all bands."""

    def __init__(self, array: TiffArray, values: Sequence[float | None]) -> None:
        self.bands = [array._image(bands=[band]) for band in range(len(values))]
        self._values = values
        self.shape = self.bands[0].shape

    def read(self, selection: Any, **how: Any) -> Any:
        """As `Array.read`."""
        return self.read_async(selection, **how).wait()

    def read_async(self, selection: Any, **how: Any) -> _Reading:
        """As `Array.read_async`: the reads of all bands have started when it returns."""
        return _Reading([band.read_async(selection, **how) for band in self.bands], self.valid)

    def valid(self, bands: list[Any]) -> Any:
        """Which pixels are valid, from the values of each band."""
        return reduce(lambda valid, each: valid | each, map(_differs, bands, self._values))


class _Reading:
    """The result of several running reads."""

    def __init__(self, jobs: list[Any], made_of: Callable[[list[Any]], Any]) -> None:
        self._jobs, self._made_of = jobs, made_of

    def wait(self) -> Any:
        return self._made_of([job.wait() for job in self._jobs])

    def __await__(self) -> Generator[Any, None, Any]:
        values = []
        for job in self._jobs:
            values.append((yield from job.__await__()))
        return self._made_of(values)
