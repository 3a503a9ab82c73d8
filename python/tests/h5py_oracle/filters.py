"""HDF5's filters, as codecs that this library decodes."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import UnsupportedError

_BLOSC = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")


class _Filters:
    """One converter for each filter, from (its parameters, item size) to a codec, or None if decoding does nothing."""

    @staticmethod
    def deflate(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "zlib", "level": min(values[0], 9) if values else 6}

    @staticmethod
    def shuffle(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "hdf5.shuffle", "elementsize": values[0] if values else item}

    @staticmethod
    def fletcher32(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "fletcher32"}

    @staticmethod
    def szip(values: tuple[int, ...], item: int) -> dict[str, Any]:
        if len(values) < 4:
            raise UnsupportedError(f"HDF5 filter szip has {len(values)} parameters, needs 4")
        mask, block, bits, line = values[:4]
        return {"id": "hdf5.szip", "options": mask, "block": block, "bits": bits, "scanline": line}

    @staticmethod
    def nbit(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "hdf5.nbit", "parameters": list(values)}

    @staticmethod
    def scaleoffset(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "hdf5.scaleoffset", "parameters": list(values)}

    @staticmethod
    def bzip2(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "bz2", "level": values[0] if values and 1 <= values[0] <= 9 else 9}

    @staticmethod
    def lzf(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "hdf5.lzf"}

    @staticmethod
    def blosc(values: tuple[int, ...], item: int) -> dict[str, Any]:
        size = values[2] if len(values) > 2 and 0 < values[2] < 256 else 1
        shuffle = values[5] if len(values) > 5 and values[5] in (0, 1, 2) else 1
        code = values[6] if len(values) > 6 else 0
        name = _BLOSC[code] if code < len(_BLOSC) else "blosclz"
        # A frame's own header has its settings; these are for display and for encoding.
        return {"id": "blosc", "cname": name, "clevel": 5, "shuffle": shuffle, "blocksize": 0, "typesize": size}

    @staticmethod
    def lz4(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "hdf5.lz4"}

    @staticmethod
    def bitshuffle(values: tuple[int, ...], item: int) -> dict[str, Any]:
        size = values[2] if len(values) > 2 and values[2] else item
        block = values[3] if len(values) > 3 else 0
        kind = values[4] if len(values) > 4 else 0
        if kind not in (0, 2, 3):
            raise UnsupportedError(f"HDF5 filter bitshuffle with compression {kind} is not readable")
        names = {0: "none", 2: "lz4", 3: "zstd"}
        return {"id": "hdf5.bitshuffle", "elementsize": size, "blocksize": block, "compression": names[kind]}

    @staticmethod
    def blosc2(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "hdf5.blosc2"}

    @staticmethod
    def zfp(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "hdf5.zfp", "parameters": list(values)}

    @staticmethod
    def zstd(values: tuple[int, ...], item: int) -> dict[str, Any]:
        return {"id": "zstd"}

    @staticmethod
    def nothing(values: tuple[int, ...], item: int) -> None:
        """Filters that round numbers before compression: the stored numbers are the rounded ones."""
        return None


# Filters by the numbers that the HDF Group registers.
_KNOWN = {
    1: _Filters.deflate,
    2: _Filters.shuffle,
    3: _Filters.fletcher32,
    4: _Filters.szip,
    5: _Filters.nbit,
    6: _Filters.scaleoffset,
    307: _Filters.bzip2,
    32000: _Filters.lzf,
    32001: _Filters.blosc,
    32004: _Filters.lz4,
    32008: _Filters.bitshuffle,
    32013: _Filters.zfp,
    32026: _Filters.blosc2,
    32015: _Filters.zstd,
    32022: _Filters.nothing,
    32023: _Filters.nothing,
}


def codec_of(number: int, values: tuple[int, ...], item: int, name: bytes) -> dict[str, Any] | None:
    """The codec of a filter, or None if decoding does nothing. Raises `UnsupportedError` with the filter's name."""
    known = _KNOWN.get(number)
    if known is None:
        shown = name.decode("utf-8", "replace").partition(";")[0].strip() or "without a name"
        raise UnsupportedError(f"HDF5 filter {number} ({shown}) is not readable")
    made: dict[str, Any] | None = known(values, item)
    return made
