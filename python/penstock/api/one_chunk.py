"""`encode` and `decode`: codecs on their own, for one chunk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import testing
from penstock.api.create import create_array
from penstock.core.array import Array
from penstock.core.data_types import dtype_json, named_codec, torch_as_name, unmasked
from penstock.core.errors import InvalidArgumentError

Codecs = str | Mapping[str, Any] | Sequence[Any] | Any


def encode(codec: Codecs, x: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> bytes:
    """Encode an array as one chunk.

    Parameters
    ----------
    codec
        A name ("zstd", or "zstd:5" with its level), a codec of Zarr's or numcodecs' metadata (`{"name": ...,
        "configuration": {...}}`, `{"id": ...}`), a codec object of zarr-python or numcodecs, or a list of these in the
        order of encoding, such as `a.codecs`.
    x
        The chunk's elements; any strides and byte order.
    dtype
        The array's data type, if `x` has another one or it is a Zarr name such as "int4", or "string" or "bytes" of any
        length; None: that of `x`.

    Returns
    -------
    bytes
        The chunk, as in the store of an array with these codecs.

    Raises
    ------
    UnsupportedError
        The codec or setting is not supported, by name.
    InvalidArgumentError
        A codec's setting is not valid, or a chunk of text has no elements.

    Examples
    --------
    >>> x = np.zeros((64, 64), "f4")
    >>> chunk = ps.encode("zstd:5", x)
    >>> len(chunk) < x.nbytes // 100
    True

    The codecs of an array that exists:

    >>> a = ps.create_array({}, data=x, chunks=(64, 64))
    >>> np.array_equal(ps.decode(a.codecs, ps.encode(a.codecs, x), a.dtype, a.chunks), x)
    True
    >>> ps.decode("zstd", ps.encode("zstd", ["a", "text"], "string"), "string", 2).tolist()
    ['a', 'text']
    """
    x, dtype = unmasked(x), torch_as_name(dtype)
    if _is_of_any_length(x.dtype if dtype is None and isinstance(x, np.ndarray) else dtype):
        items = x if isinstance(x, np.ndarray) else np.asarray(x, object)  # fixed lengths would lose NULs at the end
        store, array = _array_of_any_length(codec, items.dtype if dtype is None else dtype, items.shape)
        array.write(..., items, write_empty_chunks=True)
        return bytes(store[_key(items.ndim)])
    items = np.asarray(x)
    return testing.encode(items, _chain(codec, items.dtype if dtype is None else dtype, items.shape), dtype)


def decode(
    codec: Codecs, b: bytes | bytearray | memoryview, dtype: npt.DTypeLike, shape: Sequence[int] | int
) -> npt.NDArray[Any]:
    """Decode one chunk: the reverse of `encode`.

    Parameters
    ----------
    codec
        As for `encode`.
    b
        The chunk's bytes.
    dtype, shape
        Of the chunk.

    Returns
    -------
    numpy.ndarray
        The elements, of that type and shape, in memory of their own.

    Raises
    ------
    CorruptDataError
        The bytes contradict codecs, type or shape.
    UnsupportedError
        The codec or setting is not supported, by name.

    Examples
    --------
    Examine a chunk without its array: the file of a store, for example.

    >>> a = ps.create_array("x.zarr", data=np.arange(8, dtype="i2"), chunks=(4,), codecs="zstd")
    >>> with open("x.zarr/c/1", "rb") as file:
    ...     ps.decode("zstd", file.read(), "i2", (4,))
    array([4, 5, 6, 7], dtype=int16)
    """
    lengths, dtype = tuple(shape) if isinstance(shape, Sequence) else (shape,), torch_as_name(dtype)
    if _is_of_any_length(dtype):
        store, array = _array_of_any_length(codec, dtype, lengths)
        store[_key(len(lengths))] = bytes(b)
        return np.asarray(array[...])
    return testing.decode(b, _chain(codec, dtype, lengths), dtype, lengths)


def _is_of_any_length(dtype: Any) -> bool:
    """Whether elements are text or bytes whose lengths are stored with them."""
    return dtype is not None and dtype_json(dtype, 3) in ("string", "bytes")


def _key(rank: int) -> str:
    return "/".join(["c", *("0" * rank)])


def _array_of_any_length(codec: Codecs, dtype: Any, shape: Sequence[int]) -> tuple[dict[str, bytes], Array]:
    """An array of one chunk, and its store: such elements are encoded and decoded with an array only."""
    if 0 in shape:
        raise InvalidArgumentError(f"a chunk of text has at least one element, got the shape {tuple(shape)}")
    store: dict[str, bytes] = {}
    chunk = tuple(shape)
    return store, create_array(store, shape=chunk, dtype=dtype, chunks=chunk, codecs=_codecs(codec))


def _codecs(codec: Codecs) -> list[dict[str, Any]]:
    if isinstance(codec, str | Mapping) or not isinstance(codec, Sequence):
        codec = [codec]
    return [_one(each) for each in codec]


def _chain(codec: Codecs, dtype: Any, shape: Sequence[int]) -> list[dict[str, Any]]:
    """The codecs in the form of metadata, as `create_array` completes them."""
    made = _codecs(codec)
    if any("id" in each or each.get("name") == "sharding_indexed" for each in made):
        return made
    chunk = tuple(max(1, length) for length in shape)
    array: Array = create_array({}, shape=chunk, dtype=dtype, chunks=chunk, codecs=made)
    return array.codecs


def _one(codec: Any) -> dict[str, Any]:
    if isinstance(codec, str):
        return named_codec(codec)
    if hasattr(codec, "to_dict"):
        made: dict[str, Any] = json.loads(json.dumps(codec.to_dict()))
        return made
    if hasattr(codec, "get_config"):
        return dict(codec.get_config())
    if not isinstance(codec, Mapping):
        raise InvalidArgumentError(f"codec must be a name, metadata or a codec object, got {codec!r}")
    return dict(codec)


__all__ = ["decode", "encode"]
