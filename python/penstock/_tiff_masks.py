"""Which pixels of a TIFF have a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import reduce
from typing import TYPE_CHECKING, Any

from penstock._tiff_header import nodata_in

if TYPE_CHECKING:
    from penstock._tiff import TiffArray


def mask_of(array: TiffArray) -> Any:
    """What says which pixels are valid (not 0), of all bands at once as one band, or of each: the file's mask, else
    GDAL's item NODATA_VALUES. None where there is neither: then each band's nodata is its own affair.
    """
    if array._is_mask:
        return None
    if array.has_mask:
        made = array._image(mask=True, bands=[])
        return made if of_all_bands(made) else array._image(mask=True)
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
        differs = [
            values == values if nodata is None else values != nodata
            for values, nodata in zip(bands, self._values, strict=True)
        ]
        return reduce(lambda valid, each: valid | each, differs)


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
