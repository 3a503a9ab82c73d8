"""Codecs by themselves: encode and decode one chunk, without an array or a store.

For tests of data and of other programs, and to look into a chunk that does not read:

>>> from penstock import testing
>>> chunk = testing.encode(items, [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}])
>>> testing.decode(chunk, [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}], "<i4", items.shape)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core

__all__ = ["codec_names", "decode", "decode_on_host", "describe", "encode"]

Codecs = Sequence[Mapping[str, Any] | str]


def decode(
    encoded: bytes | bytearray | memoryview,
    codecs: Codecs,
    dtype: npt.DTypeLike,
    shape: Sequence[int],
) -> npt.NDArray[Any]:
    """Decode a chunk of this element type and shape.

    `codecs` in the order of encoding: as Zarr v3 metadata has them (`{"name": ..., "configuration": ...}`), or as v2
    has filters and compressor (`{"id": ..., ...}`). `dtype` is the array's: a numpy.dtype, its type string, or a v3
    name (`"int4"`). With v2 codecs its byte order is that of the stored items.

    Raises CorruptDataError where the bytes contradict the codecs, UnsupportedError for codecs and settings by name.
    """
    data, native = _core.decode_chain(json.dumps(list(codecs)), _type_name(dtype), list(shape), bytes(encoded))
    return np.frombuffer(data, native).reshape(shape)


def encode(items: npt.ArrayLike, codecs: Codecs, dtype: npt.DTypeLike | None = None) -> bytes:
    """Encode an array as one chunk; `dtype` is the array's where `items` are given in another one."""
    array = np.asarray(items)
    name = _type_name(array.dtype if dtype is None else dtype)
    native = np.asarray(array, order="C")
    if native.dtype.byteorder not in "=|":
        native = native.astype(native.dtype.newbyteorder("="))
    return _core.encode_chain(json.dumps(list(codecs)), name, list(array.shape), native.tobytes())


def describe(codecs: Codecs, dtype: npt.DTypeLike, shape: Sequence[int]) -> str:
    """Codecs and settings for people: `bytes(little) | zlib(level=1)`."""
    return _core.describe_chain(json.dumps(list(codecs)), _type_name(dtype), list(shape))


def codec_names() -> list[str]:
    """All codecs that need no Python, sorted."""
    return _core.codec_names()


def decode_on_host(
    codec: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
    encoded: bytes | bytearray | memoryview,
    decoded_bytes: int,
    **settings: Any,
) -> bytes:
    """Decode one chunk with the code of the GPU's decoders, run on the host: for tests, not for speed.

    `codec` is a name with its settings as keywords, a codec of Zarr's or numcodecs' metadata (`{"name": ...,
    "configuration": {...}}`, `{"id": ...}`), or a list of these in encoding order. Names: "zstd", "lz4" (frames, or
    four bytes of size and a block, as numcodecs writes it), "lz4_frame", "lz4_block", "snappy", "blosc", "zlib",
    "gzip", "deflate", "lzw" as TIFF has it and "tiff_packbits" (numcodecs' and Zarr's packbits are others, which the
    host decodes); "shuffle", "bitshuffle" and "byte_swap"
    (`elementsize=`); "hdf5.bitshuffle" (`elementsize=`, `blocksize=`, `compression=`); "delta" (`dtype=`, `astype=`);
    "crc32c"; "reverse_bits"; "tiff_predictor" (`predictor=`, `rows=`, `width=`, `samples=`, `elementsize=`,
    `endian=`). Returns exactly `decoded_bytes` bytes.

    Raises CorruptDataError where the bytes are damaged or decode to another size, UnsupportedError for other codecs and
    for what the GPU leaves to the host (dictionaries, more than 128 MiB of zstd, Blosc of very small blocks).
    """
    if settings:
        if not isinstance(codec, str):
            raise TypeError("settings go with a codec's name; a codec of metadata has its own")
        codec = {"name": codec, "configuration": settings}
    given = codec if isinstance(codec, str | Mapping) else list(codec)
    return _core.decode_on_host(json.dumps(given), bytes(encoded), decoded_bytes)


def _type_name(dtype: npt.DTypeLike) -> str:
    if isinstance(dtype, str) and dtype[:1] in "<>|=":
        return dtype
    try:
        made = np.dtype(dtype)
    except TypeError:
        if isinstance(dtype, str):
            return dtype  # a name that only Zarr knows, such as "int4"
        raise
    # Types of ml_dtypes have names, but no type strings.
    return made.name if made.isbuiltin == 2 else made.str
