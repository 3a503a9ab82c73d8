"""Chunk and shard lengths as users write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock import _core
from penstock.core.errors import InvalidArgumentError
from penstock.core.sizes import parse_bytes


def plain_lengths(
    value: Any,
    name: str,
    shape: Sequence[int],
    dimension_names: Sequence[str | None] | None,
    item_bytes: int,
    chunks: Any = None,
) -> Any:
    """`value` with Dask's and xarray's spellings replaced by lengths.

    Parameters
    ----------
    value
        A mapping of dimension names (or numbers) to lengths: dimensions that it does not name have one chunk. -1 or
        None for a length: the whole dimension. Text such as "8MiB": chunks of about that size. Everything else is
        returned unchanged.
    item_bytes
        Bytes of one element, for a size in bytes; 0 if elements differ in size.
    chunks
        For shards: the lengths of the chunks. Whole dimensions and sizes in bytes become multiples of them.
    """
    value = as_list(value)
    chunks = _lengths_of(chunks, len(shape))
    whole = [max(1, length) for length in shape]
    if chunks is not None:
        whole = [-(-length // chunk) * chunk for length, chunk in zip(whole, chunks, strict=True)]
    if isinstance(value, str):
        if value == "auto":
            return value
        target_bytes = parse_bytes(value, name)
        if chunks is not None and item_bytes != 0:
            return _shard_of_size(target_bytes // item_bytes, chunks, whole)
        return _core.chunks_of_size(name.encode(), max(1, target_bytes), shape, item_bytes)
    if isinstance(value, Mapping):
        if {"shape", "index_location"} & value.keys() - set(dimension_names or ()):  # shards as zarr-python has them
            return value
        return _named(value, name, whole, dimension_names)
    if _is_whole(value):
        return whole
    if isinstance(value, Sequence) and len(value) == len(shape):
        return [length if _is_whole(part) else part for part, length in zip(value, whole, strict=True)]
    return value


def rule_text(value: Any, name: str) -> str:
    """`value` as the text that the engine resolves for each array: C++'s `chunk_lengths`.

    Takes what `plain_lengths` takes, except negative numbers of dimensions.
    """
    value = as_list(value)
    if isinstance(value, str):
        return f"{parse_bytes(value, name)}B"
    if isinstance(value, Mapping):
        return json.dumps({str(key): -1 if length is None else _plain(length, name) for key, length in value.items()})
    if hasattr(value, "__index__"):
        return str(_plain(value, name)) if _is_whole(value) else json.dumps([_plain(value, name)])
    try:
        return json.dumps([-1 if length is None else _plain(length, name) for length in value])
    except TypeError as error:
        raise InvalidArgumentError(f"{name} must be lengths, a size or a mapping, got {value!r}") from error


def as_list(value: Any) -> Any:
    """NumPy's arrays as lists, other values unchanged: arrays have the methods of one number."""
    return value.tolist() if hasattr(value, "tolist") and hasattr(value, "shape") else value


def _plain(length: Any, name: str) -> int:
    if not hasattr(length, "__index__") or isinstance(length, bool) or not (length > 0 or length == -1):
        raise InvalidArgumentError(f"{name} must be positive lengths, or -1 for a whole dimension, got {length!r}")
    return int(length.__index__())


def _is_whole(value: Any) -> bool:
    value = as_list(value)
    return hasattr(value, "__index__") and not isinstance(value, bool) and value.__index__() == -1


def _lengths_of(chunks: Any, rank: int) -> list[int] | None:
    """Chunks of equal lengths as a list of ints; None for all others."""
    chunks = as_list(chunks)
    parts = [chunks] * rank if hasattr(chunks, "__index__") else chunks
    if isinstance(parts, str) or not isinstance(parts, Sequence) or len(parts) != rank:
        return None
    parts = [as_list(part) for part in parts]
    if not all(hasattr(part, "__index__") and not isinstance(part, bool) and part.__index__() > 0 for part in parts):
        return None
    return [int(part.__index__()) for part in parts]


def _named(
    given: Mapping[Any, Any], name: str, whole: Sequence[int], dimension_names: Sequence[str | None] | None
) -> list[Any]:
    names = list(dimension_names or ())
    made: list[Any] = list(whole)
    for key, length in given.items():
        if key in names:
            axis = names.index(key)
        elif hasattr(key, "__index__") and -len(whole) <= key.__index__() < len(whole):
            axis = key.__index__() % len(whole)
        else:
            known = ", ".join(map(repr, names)) if names else f"numbers below {len(whole)}, or give dimension_names"
            raise InvalidArgumentError(f"{name}: there is no dimension {key!r}; dimensions are {known}")
        if length is not None and not _is_whole(length):
            made[axis] = length
    return made


def _shard_of_size(most: int, chunks: Sequence[int], whole: Sequence[int]) -> list[int]:
    """Multiples of the chunks with at most `most` elements, at least one chunk; the last dimensions are extended first,
    so that a shard is as nearly contiguous as possible."""
    made = list(chunks)
    for axis in reversed(range(len(made))):
        made[axis] *= max(1, min(whole[axis] // chunks[axis], most // _product(made)))
    return made


def _product(lengths: Sequence[int]) -> int:
    made = 1
    for length in lengths:
        made *= length
    return made
