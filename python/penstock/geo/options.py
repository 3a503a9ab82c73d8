"""The options that select an image of a TIFF, in the engine's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.core.errors import InvalidArgumentError

FIRST_IMAGE: dict[str, Any] = {
    "page": 0,
    "sub_ifds": [],
    "level": 0,
    "mask": False,
    "native_order": False,
    "bands": [],
    "ifd": None,
}


def options_of(
    page: int | Sequence[int],
    level: int,
    layout: str | None,
    bands: Sequence[int] | None,
    mask: bool,
    ifd: int | None,
) -> dict[str, Any] | None:
    """The options in the engine's form; None if all are the defaults."""
    if layout is None and bands is None and ifd is None and page == 0 and level == 0 and not mask:
        return None
    if layout not in (None, "band", "native"):
        raise InvalidArgumentError(f"layout must be 'band' or 'native', got {layout!r}")
    pages = list(page) if isinstance(page, Sequence) else [page]
    numbers = [*pages, level, *(bands if bands is not None else ()), *(() if ifd is None else (ifd,))]
    if any(number < 0 for number in numbers):
        raise InvalidArgumentError("pages, levels, bands and directories are counted from 0")
    if bands is not None and not len(bands):
        raise InvalidArgumentError("bands must name at least one band")
    if not pages or (ifd is not None and len(pages) > 1):
        raise InvalidArgumentError(f"page must be a number, or one and those of SubIFDs, got {page!r}")
    options = {
        "page": pages[0],
        "sub_ifds": [int(number) for number in pages[1:]],
        "level": level,
        "mask": bool(mask),
        "native_order": layout == "native",
        "bands": [int(band) for band in bands] if bands is not None else [],
        "ifd": ifd,
    }
    return None if options == FIRST_IMAGE else options
