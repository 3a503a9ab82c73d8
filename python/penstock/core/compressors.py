"""Which codecs of a chain are its compressors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Codecs that turn elements into bytes, in Zarr v3: codecs after them in the chain encode bytes to bytes.
_MAKE_BYTES = frozenset(
    {"bytes", "endian", "packbits", "zfp", "zfpy", "pcodec", "json2", "msgpack2", "pickle", "optional"}
)
# Filters of elements in the lists of Zarr v2 and HDF5, which have no codec that turns elements into bytes.
_FILTERS = frozenset(
    {"delta", "fixedscaleoffset", "quantize", "bitround", "astype", "categorize", "packbits"}
    | {"hdf5.shuffle", "hdf5.bitshuffle", "shuffle", "bitshuffle", "hdf5.scaleoffset", "hdf5.nbit"}
)


def compressors_of(codecs: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The codecs of a chain, as in the metadata, that encode bytes to bytes."""
    for place, codec in enumerate(codecs):
        name = _name(codec)
        if name == "sharding_indexed":
            return compressors_of(codec.get("configuration", {}).get("codecs", ()))
        if "name" in codec and (name in _MAKE_BYTES or name.startswith("vlen-")):
            return tuple(codecs[place + 1 :])
    return tuple(codec for codec in codecs if _name(codec) not in _FILTERS and not _name(codec).startswith("vlen-"))


def _name(codec: dict[str, Any]) -> str:
    return str(codec.get("name", codec.get("id", ""))).removeprefix("numcodecs.")
