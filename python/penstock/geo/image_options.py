"""The options that select an image of a TIFF, in the form in which users write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.errors import InvalidArgumentError
from penstock.geo.options import options_of
from penstock.geo.tiff import TiffArray


@dataclass(frozen=True)
class ImageOptions:
    """The options of `open` for TIFFs only; its docstring explains each."""

    page: int | Sequence[int] = 0
    level: int = 0
    layout: str | None = None
    bands: Sequence[int] | None = None
    mask: bool = False
    ifd: int | None = None
    unpack: bool = False

    def __post_init__(self) -> None:
        options_of(self.page, self.level, self.layout, self.bands, self.mask, self.ifd)  # may refuse them

    def for_engine(self) -> dict[str, Any] | None:
        """The options as the engine takes them; None if all of them are the defaults.

        Raises
        ------
        InvalidArgumentError
            A number is negative, or an option has no meaning.
        """
        if self is NO_OPTIONS:
            return None
        return options_of(self.page, self.level, self.layout, self.bands, self.mask, self.ifd)

    def check_goes_with(self, node: Any) -> None:
        """Refuse options that were given for a node that is not an image of a TIFF.

        Raises
        ------
        InvalidArgumentError
            Names the options and the node's format.
        """
        if self is NO_OPTIONS:
            return
        if (self.unpack or self.for_engine() is not None) and not isinstance(node, TiffArray):
            names = "page, level, layout, bands, mask, ifd, unpack are options of TIFFs"
            raise InvalidArgumentError(f"{names}, '{node.uri}' is {node.format}")


NO_OPTIONS = ImageOptions()
