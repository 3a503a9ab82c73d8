"""Transforms and windows with the names of rasterio."""

from __future__ import annotations

from typing import Any, NamedTuple


class Transform(NamedTuple):
    """The nine coefficients of an `affine.Affine`, for use if that package is not installed.

    x = a * column + b * row + c and y = d * column + e * row + f; `transform * (column, row)` is (x, y).
    """

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float
    g: float = 0.0
    h: float = 0.0
    i: float = 1.0

    def __mul__(self, point: Any) -> Any:
        """(x, y) of a (column, row)."""
        column, row = point
        return self.a * column + self.b * row + self.c, self.d * column + self.e * row + self.f

    def __matmul__(self, point: Any) -> Any:
        """As `*`: affine 3 has both."""
        return self * point

    def __invert__(self) -> Transform:
        """The transform from (x, y) to (column, row)."""
        scale = self.a * self.e - self.b * self.d
        a, b, d, e = self.e / scale, -self.b / scale, -self.d / scale, self.a / scale
        return Transform(a, b, -(a * self.c + b * self.f), d, e, -(d * self.c + e * self.f))


class Window(NamedTuple):
    """A rectangle of pixels, with the fields of rasterio's `Window`: offsets and sizes, which may be fractions."""

    col_off: float
    row_off: float
    width: float
    height: float

    def toslices(self) -> tuple[slice, slice]:
        """(rows, columns): the whole pixels that the window touches, none before the first one."""
        made = []
        for start, length in ((self.row_off, self.height), (self.col_off, self.width)):
            low, high = _floor(start), -_floor(-(start + length))
            made.append(slice(max(0, low), max(0, high)))
        return made[0], made[1]


def _floor(value: float) -> int:
    nearest = round(value)  # bounds that are pixels' edges except for rounding
    return nearest if abs(value - nearest) < 1e-6 else int(value // 1)


def affine_of(coefficients: tuple[float, ...]) -> Any:
    """An `affine.Affine`, or a `Transform` if the package is not installed."""
    try:
        from affine import Affine
    except ImportError:
        return Transform(*coefficients)
    return Affine(*coefficients)
