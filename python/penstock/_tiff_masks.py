"""Which pixels of a TIFF have a value."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from penstock._tiff_header import nodata_in

if TYPE_CHECKING:
    from penstock._tiff import TiffArray


def mask_of(array: TiffArray) -> Any:
    """What says of all bands at once which pixels are valid (not 0), to be read as one band: the file's mask, else
    GDAL's item NODATA_VALUES. None where there is neither: then each band's nodata is its own affair.
    """
    if array._is_mask:
        return None
    if array.has_mask:
        return array._image(mask=True, bands=[])
    values = array._nodata_values
    return None if values is None else _NodataMask(array, values)


class _NodataMask:
    """Leaves out the pixels that have the nodata of each band in all bands."""

    def __init__(self, array: TiffArray, values: tuple[float, ...]) -> None:
        self._bands = [array._image(bands=[band]) for band in range(len(values))]
        self._values = [nodata_in(value, array.dtype) for value in values]
        self.shape = self._bands[0].shape

    def read(self, selection: Any, **how: Any) -> Any:
        """As `Array.read`."""
        return self._valid([band.read(selection, **how) for band in self._bands])

    async def read_async(self, selection: Any, **how: Any) -> Any:
        """As `Array.read_async`."""
        return self._valid([await band.read_async(selection, **how) for band in self._bands])

    def _valid(self, bands: list[Any]) -> Any:
        differs = [
            values == values if nodata is None else values != nodata
            for values, nodata in zip(bands, self._values, strict=True)
        ]
        return reduce(lambda valid, each: valid | each, differs)
