"""The texts of region references: `/data[0:4, 2:9]`, `/data[(0, 1), (2, 3)]`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.array import Array
from penstock.core.errors import InvalidArgumentError

_TEXT = re.compile(r"(?P<path>.*?)(?P<boxes>\[[\d:, ().]*\](?: \+ \[[\d:, ]*\])*)", re.DOTALL)
_POINT = re.compile(r"\(([\d, ]+)\)")


def split_region(text: str) -> tuple[str, str]:
    """The path of the dataset and the region in it, `[0:4] + [6:8]`."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise InvalidArgumentError(f"{text!r} is not a region: '/data[0:4, 2:9]' is one")
    return found["path"], found["boxes"]


def read_region(array: Array, region: str) -> npt.NDArray[Any]:
    """The elements of a region. One box keeps its dimensions; those of several boxes, and points, are in one row."""
    inside = region[1:-1]
    if inside == "...":
        return np.asarray(array[...])
    if not inside:
        return np.asarray(array[(slice(0, 0),) * array.ndim]).reshape(-1)
    points = [tuple(map(int, each.split(","))) for each in _POINT.findall(inside)]
    if points:
        return np.asarray(array.vindex[tuple(np.array(points).T)])
    boxes = [_slices(each) for each in inside.split("] + [")]
    if len(boxes) == 1:
        return np.asarray(array[boxes[0]])
    return np.concatenate([np.asarray(array[each]).reshape(-1) for each in boxes])


def _slices(box: str) -> tuple[slice, ...]:
    return tuple(slice(*map(int, each.split(":"))) for each in box.split(", "))
