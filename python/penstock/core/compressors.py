"""Which codecs of a chain are its compressors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock import _core

# Codecs that turn elements into bytes and are not in the engine's table: those of a chain itself, and numcodecs' own.
_MAKE_BYTES = frozenset({"bytes", "endian", "pcodec", "json2", "msgpack2", "pickle", "optional"})
# Filters of elements in the lists of Zarr v2 and HDF5 that are codecs of bytes in the engine's table, or not in it.
_FILTERS = frozenset(
    {"categorize", "packbits"}
    | {"hdf5.shuffle", "hdf5.bitshuffle", "shuffle", "bitshuffle", "hdf5.scaleoffset", "hdf5.nbit"}
)
_WITH_CHAINS = frozenset({"sharding_indexed", "n5_default"})


def compressors_of(codecs: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The codecs of a chain, as in the metadata, that encode bytes to bytes."""
    for place, codec in enumerate(codecs):
        if _name(codec) in _WITH_CHAINS:
            return compressors_of(codec.get("configuration", {}).get("codecs", ()))
        if "name" in codec and (_name(codec) in _MAKE_BYTES or _place(codec) == "array_to_bytes"):
            return tuple(codecs[place + 1 :])
    return tuple(codec for codec in codecs if not _is_filter(codec))


def _is_filter(codec: dict[str, Any]) -> bool:
    return _name(codec) in _FILTERS or _name(codec).startswith("vlen-") or _place(codec) == "array"


def _place(codec: dict[str, Any]) -> str | None:
    return _core.codec_place(str(codec.get("name", codec.get("id", ""))).encode(errors="replace"))


def _name(codec: dict[str, Any]) -> str:
    return str(codec.get("name", codec.get("id", ""))).removeprefix("numcodecs.")
