"""The options of new TIFFs, in the form in which users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy.typing as npt

from penstock.core.sizes import suggestion


@dataclass(frozen=True)
class TiffOptions:
    """The options of `create_array` for TIFFs only; docs/formats/tiff.md explains each."""

    tiles: int | Sequence[int] = 512
    bits: int | None = None
    mask: Any = None
    compress: str | None = "deflate"
    level: int | None = None
    predictor: int | str | None = "auto"
    interleave: str = "pixel"
    overviews: str | Sequence[int] | None = "auto"
    resampling: str = "auto"
    nodata: float | None = None
    crs: Any = None
    transform: Any = None
    area_or_point: str | None = None
    bigtiff: bool | str = "auto"
    photometric: str = "auto"
    alpha: bool = False
    colormap: npt.ArrayLike | None = None
    descriptions: Sequence[str | None] | None = None
    units: Sequence[str | None] | None = None
    scales: Sequence[float] | None = None
    offsets: Sequence[float] | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TiffOptions:
        """The options by their names.

        Raises
        ------
        TypeError
            Names an option that TIFFs do not have.
        """
        known = {each.name for each in fields(cls)}
        for name in options:
            if name not in known:
                raise TypeError(f"create_array() has no option '{name}' for TIFFs{suggestion(name, known)}")
        return cls(**options)
