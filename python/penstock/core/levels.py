"""Levels of an image that a Zarr group holds: OME-Zarr's and GeoZarr's multiscales."""

from __future__ import annotations

from penstock import _core
from penstock.core.array import Array
from penstock.core.errors import InvalidArgumentError, NotFoundError
from penstock.core.group import Group
from penstock.core.sizes import counted


def level_of(group: Group, number: int) -> Array:
    """Level `number` of the image that the attributes of `group` name; 0 is the finest.

    Raises
    ------
    NotFoundError
        The attributes name no levels, or fewer.
    CorruptDataError
        They do not follow OME-Zarr or GeoZarr.
    """
    if number < 0:
        raise InvalidArgumentError(f"level must not be negative, got {number}")
    levels = _core._levels_of(group)
    if number >= len(levels):
        raise NotFoundError(
            f"level {number}: the group's attributes name {counted(len(levels), 'level')}", f"group '{group.uri}'"
        )
    found = group[levels[number][0]]
    if isinstance(found, Array):
        return found
    inside = [member for _, member in found.members() if isinstance(member, Array)]
    if len(inside) != 1:
        raise InvalidArgumentError(
            f"level {number} is a group of {counted(len(inside), 'array')}: open one of them by its path",
            f"group '{found.uri}'",
        )
    return inside[0]


def levels_with_place(group: Group) -> tuple[list[Array], tuple[float, ...] | None]:
    """All levels, the finest first, and the affine transform of the first one, if the attributes have it."""
    named = _core._levels_of(group)
    if not named:
        raise NotFoundError("the group's attributes name no levels", f"group '{group.uri}'")
    _, scale, translation = named[0]
    transform = None
    if len(scale) >= 2:
        dy, dx = scale[-2:]
        y, x = translation[-2:] if len(translation) >= 2 else (0.0, 0.0)
        # Coordinates are those of the centre of a pixel.
        transform = (dx, 0.0, x - dx / 2, 0.0, dy, y - dy / 2)
    return [level_of(group, number) for number in range(len(named))], transform
