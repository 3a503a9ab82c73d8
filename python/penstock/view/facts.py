"""The facts that reprs and `info` show of an array, and sizes in storage if they cost little."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.core.errors import Error

if TYPE_CHECKING:
    from penstock.core.array import Array

_LOCAL = ("file:", "zip:", "memory:")
_COUNTED_OBJECTS = 2000  # objects whose sizes a repr looks up: about ten milliseconds
_COUNTED_CHUNKS = 4096  # chunks that a repr counts, and that one plan covers


def grid_lengths(array: Array) -> tuple[int, ...]:
    """Number of chunks along each dimension."""
    pairs = zip(array.shape, array.chunks, strict=True)
    return tuple(-(-size // max(1, chunk)) for size, chunk in pairs)


def object_count(array: Array) -> int:
    """Number of shards, or of chunks if the array is not sharded."""
    lengths = array.chunks if array.shards is None else array.shards
    return math.prod(-(-size // max(1, length)) for size, length in zip(array.shape, lengths, strict=True))


def stored_bytes_at_hand(array: Array) -> int | None:
    """Bytes of the chunks in storage, if that needs neither a network nor a long search; else None."""
    if not array.uri.startswith(_LOCAL) or object_count(array) > _COUNTED_OBJECTS:
        return None
    if math.prod(grid_lengths(array)) > _COUNTED_CHUNKS:
        return None
    try:
        return stored_bytes(array, most=1)
    except (Error, OSError, NotImplementedError):
        return None


def stored_bytes(array: Array, most: int | None = None) -> int | None:
    """Bytes of the chunks in storage; None if the store does not report the sizes of its objects.

    Parameters
    ----------
    most
        The most plans that are made; None: no limit. One covers a few thousand chunks.
    """
    total = 0
    for number, part in enumerate(_parts(array, whole=most is not None)):
        if most is not None and number >= most:
            return None
        facts = array._plan(part, 0, 0)
        if not facts["complete"] or facts["unknown_sizes"]:
            return None
        total += int(facts["fetched_bytes"])
    return total


def _parts(array: Array, *, whole: bool) -> Iterator[Any]:
    """Boxes that make up the array, of a few thousand chunks each; their edges are those of objects."""
    lengths = array.chunks if array.shards is None else array.shards
    chunks_of_object = math.prod(-(-one // max(1, chunk)) for one, chunk in zip(lengths, array.chunks, strict=True))
    counts = [-(-size // max(1, length)) for size, length in zip(array.shape, lengths, strict=True)]
    if whole or math.prod(counts) * chunks_of_object <= _COUNTED_CHUNKS or not array._is_regular:
        yield ...
        return
    # The last dimensions are taken as a whole while they fit; the one before them is divided, and earlier ones are
    # iterated.
    room = max(1, _COUNTED_CHUNKS // chunks_of_object)
    axis = len(counts)
    while axis > 0 and counts[axis - 1] <= room:
        axis -= 1
        room //= counts[axis]
    if axis == 0:
        yield ...
        return
    cut = axis - 1
    step = max(1, room) * lengths[cut]
    heads = [range(0, array.shape[d], lengths[d]) for d in range(cut)]
    for head in itertools.product(*heads):
        before = tuple(slice(at, at + lengths[d]) for d, at in enumerate(head))
        for at in range(0, array.shape[cut], step):
            yield (*before, slice(at, at + step))
