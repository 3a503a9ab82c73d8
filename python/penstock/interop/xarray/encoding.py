"""Codecs as zarr-python's objects, which xarray stores in `encoding` in order to write an array in the same way."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

from penstock.core.array import Array


@functools.cache
def _has_zarr() -> bool:
    return importlib.util.find_spec("zarr") is not None


def codecs_of(array: Array) -> dict[str, Any]:
    """`compressors`, `filters` and, in v3, `serializer`. Empty without zarr-python, which `to_zarr` needs anyway."""
    if not _has_zarr():
        return {}
    try:
        return _v3(_inner(array.codecs)) if array.format == "zarr3" else _v2(array.codecs)
    except (KeyError, ValueError, TypeError, ImportError, StopIteration):
        return {}  # a codec that zarr-python does not have: it writes with its own defaults


# Ids of numcodecs' filters: the last codec of a v2 array is its compressor unless it is one of these.
_FILTERS = (
    "adler32 astype base64 bitround categorize crc32 crc32c delta fixedscaleoffset fletcher32 jenkins_lookup3 json2 "
    "msgpack2 packbits pickle quantize shuffle vlen-array vlen-bytes vlen-utf8"
)


def _v2(codecs: list[dict[str, Any]]) -> dict[str, Any]:
    from numcodecs import get_codec

    compressed = bool(codecs) and codecs[-1].get("id") not in _FILTERS.split()
    made = tuple(get_codec(codec) for codec in codecs)
    return {"compressors": made[-1:] if compressed else (), "filters": made[:-1] if compressed else made}


def _v3(codecs: list[dict[str, Any]]) -> dict[str, Any]:
    from zarr.abc.codec import ArrayBytesCodec
    from zarr.registry import get_codec_class

    made = [get_codec_class(codec["name"]).from_dict(codec) for codec in codecs]
    at = next(i for i, codec in enumerate(made) if isinstance(codec, ArrayBytesCodec))
    return {"compressors": tuple(made[at + 1 :]), "filters": tuple(made[:at]), "serializer": made[at]}


def _inner(codecs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The codecs of the chunks themselves, inside of (nested) shards."""
    if len(codecs) == 1 and codecs[0]["name"] == "sharding_indexed":
        return _inner(codecs[0]["configuration"]["codecs"])
    return codecs
