"""The division of an array into one part for each processor."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex

from penstock.core.errors import InvalidArgumentError
from penstock.core.sizes import counted


def tiles(
    shape: Sequence[int], processors: SupportsIndex, axis: SupportsIndex = 0, over_decompose: SupportsIndex = 1
) -> list[tuple[slice, ...]]:
    """Divide an array along one axis into one tile for each processor, in order.

    Each tile has ceil(n / (processors * over_decompose)) of the axis's n positions; the last one has the rest. With
    fewer positions than processors there are fewer tiles, but at least one, which is empty if the axis is. All
    integrations use this division.

    Parameters
    ----------
    shape
        Of the array; at least one dimension.
    processors
        At least 1.
    axis
        The axis that is divided; negative: from the end.
    over_decompose
        Tiles for each processor, at least 1: with several, processors that finish early have more to do.

    Returns
    -------
    list of tuples of slices
        The tiles cover the whole array without overlap. Tile i begins at i times the length of tile 0.

    Raises
    ------
    InvalidArgumentError
        The shape has no dimensions, the axis is out of range, or a number is less than 1.

    Examples
    --------
    >>> [rows for rows, columns in ps.tiles((10, 4), 3)]
    [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    >>> a = ps.create_array({}, data=np.arange(40.0).reshape(10, 4), chunks=(2, 4))
    >>> a[ps.tiles(a.shape, 3)[2]].shape                        # of the third of three processes
    (2, 4)
    """
    lengths = [operator.index(length) for length in shape]
    count, axis, each = operator.index(processors), operator.index(axis), operator.index(over_decompose)
    if not lengths:
        raise InvalidArgumentError("an array without dimensions has no tiles")
    if min(lengths) < 0:
        raise InvalidArgumentError(f"no array has the shape {tuple(lengths)}")
    if not -len(lengths) <= axis < len(lengths):
        raise InvalidArgumentError(
            f"axis {axis} is out of range for an array with {counted(len(lengths), 'dimension')}"
        )
    if count < 1 or each < 1:
        raise InvalidArgumentError(f"processors and over_decompose are at least 1, not {count} and {each}")
    axis %= len(lengths)
    total = lengths[axis]
    rows = max(1, -(-total // (count * each)))
    whole = tuple(slice(0, length) for length in lengths)
    starts = range(0, max(1, total), rows)
    return [(*whole[:axis], slice(at, min(at + rows, total)), *whole[axis + 1 :]) for at in starts]
