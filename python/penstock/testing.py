"""Codecs on their own: encode and decode one chunk, without an array or a store.

For tests of data and of other programs, and to examine a chunk that cannot be read:

>>> from penstock import testing
>>> chunk = testing.encode(items, [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}])
>>> testing.decode(chunk, [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}], "<i4", items.shape)
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core

__all__ = [
    "Decoded",
    "Difference",
    "Stage",
    "codec_names",
    "decode",
    "decode_on_device",
    "decode_on_host",
    "describe",
    "encode",
    "first_difference",
    "first_different_byte",
]

Codecs = Sequence[Mapping[str, Any] | str]


def decode(
    encoded: bytes | bytearray | memoryview,
    codecs: Codecs,
    dtype: npt.DTypeLike,
    shape: Sequence[int],
) -> npt.NDArray[Any]:
    """Decode a chunk of this element type and shape.

    `codecs` in the order of encoding: as in Zarr v3 metadata (`{"name": ..., "configuration": ...}`), or as filters and
    compressor in v2 (`{"id": ..., ...}`). `dtype` is the array's: a numpy.dtype, its type string, or a v3 name
    (`"int4"`). With v2 codecs its byte order is that of the stored items.

    Raises CorruptDataError if the bytes contradict the codecs, UnsupportedError for codecs and settings by name.
    """
    data, native = _core.decode_chain(json.dumps(list(codecs)), _type_name(dtype), list(shape), bytes(encoded))
    return np.frombuffer(data, native).reshape(shape)


def encode(items: npt.ArrayLike, codecs: Codecs, dtype: npt.DTypeLike | None = None) -> bytes:
    """Encode an array as one chunk; `dtype` is the array's if `items` have another one."""
    array = np.asarray(items)
    name = _type_name(array.dtype if dtype is None else dtype)
    native = np.asarray(array, order="C")
    if native.dtype.byteorder not in "=|":
        native = native.astype(native.dtype.newbyteorder("="))
    return _core.encode_chain(json.dumps(list(codecs)), name, list(array.shape), native.tobytes())


def describe(codecs: Codecs, dtype: npt.DTypeLike, shape: Sequence[int]) -> str:
    """Codecs and settings, readable: `bytes(little) | zlib(level=1)`."""
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
    "gzip", "deflate", "lzw" as TIFF has it and "tiff_packbits" (numcodecs' and Zarr's packbits are different ones,
    which the host decodes); "shuffle", "bitshuffle" and "byte_swap" (`elementsize=`); "hdf5.bitshuffle"
    (`elementsize=`, `blocksize=`, `compression=`); "delta" (`dtype=`, `astype=`); "crc32c"; "reverse_bits";
    "tiff_predictor" (`predictor=`, `rows=`, `width=`, `samples=`, `elementsize=`, `endian=`). Returns exactly
    `decoded_bytes` bytes.

    Raises CorruptDataError if the bytes are damaged or decode to another size, UnsupportedError for other codecs and
    for input that the GPU leaves to the host (dictionaries, more than 128 MiB of zstd, Blosc of very small blocks).
    """
    return _core.decode_on_host(_codecs_json(codec, settings), bytes(encoded), decoded_bytes)


@dataclasses.dataclass(frozen=True)
class Stage:
    """The state after one kernel of a decode, before the next one.

    `memory` has the bytes that kernels write, by name: "output" (the decoded chunk), "status" (four bytes, 0 unless an
    error was found), "intermediates" (between the steps of a chain) and, for zstd, "literals" (of all blocks),
    "sequences" (eight bytes each), "block_results" and "frame_starts". Bytes that no kernel has written yet are 0xA5.
    """

    kernel: str
    memory: dict[str, bytes]


@dataclasses.dataclass(frozen=True)
class Decoded:
    """A chunk that was decoded kernel by kernel: `data`, the state after each kernel, and the error (None if there is
    none).
    """

    data: bytes
    stages: list[Stage]
    error: str | None


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first kernel after which two decodes of a chunk differ, and the first byte that differs."""

    kernel: str
    memory: str
    offset: int
    size: int
    got: bytes
    expected: bytes

    def __str__(self) -> str:
        return (
            f"{self.kernel} wrote other {self.memory}: first at byte {self.offset} of {self.size}, "
            f"{self.got.hex(' ', 4)} and not {self.expected.hex(' ', 4)}"
        )


def decode_on_device(
    codec: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
    encoded: bytes | bytearray | memoryview,
    decoded_bytes: int,
    *,
    device: str | int = "cuda",
    **settings: Any,
) -> Decoded:
    """Decode one chunk on a GPU, kernel by kernel, and return the bytes of each kernel, in order to find a wrong one.

    `codec` and its settings are those of `decode_on_host`. `device` is "cuda", "cuda:1" or a device's number; "cpu"
    runs the kernels' host forms in the same way, without a GPU. Waits for the device after each kernel, so its time is
    not that of a decode. A chunk that the kernels find damaged is returned with its `error`.

    Raises CorruptDataError if the chunk's headers are damaged, UnsupportedError for other codecs, for input that the
    GPU leaves to the host, and if there is no GPU.

    >>> got = decode_on_device("zstd", chunk, n)
    >>> print(first_difference(got, decode_on_device("zstd", chunk, n, device="cpu")))
    """
    wave = _core._ResidentWave(
        _codecs_json(codec, settings), [bytes(encoded)], [decoded_bytes], _device_number(device), False
    )
    stages = []
    for number, kernel in enumerate(wave.kernels):
        wave.run(number)
        status = wave.statuses()[0].to_bytes(4, "little")
        stages.append(Stage(kernel, {**wave.workspace(), "output": wave.output(0), "status": status}))
    (last,) = wave.statuses()
    return Decoded(wave.output(0), stages, _core._describe_status(last) if last else None)


def first_difference(got: Decoded, expected: Decoded) -> Difference | None:
    """The first kernel after which `got` differs from `expected`, a decode of the same chunk; None: they are equal."""
    for mine, theirs in zip(got.stages, expected.stages, strict=True):
        for name, wanted in theirs.memory.items():
            offset = first_different_byte(mine.memory[name], wanted)
            if offset is not None:
                shown = slice(offset, offset + 32)
                return Difference(mine.kernel, name, offset, len(wanted), mine.memory[name][shown], wanted[shown])
    return None


def first_different_byte(got: bytes, expected: bytes) -> int | None:
    """The position at which two byte strings first differ, including the end of the shorter one; None: they are
    equal.
    """
    if got == expected:
        return None
    size = min(len(got), len(expected))
    unequal = np.frombuffer(got, "u1", size) != np.frombuffer(expected, "u1", size)
    return int(unequal.argmax()) if unequal.any() else size


def _device_number(device: str | int) -> int:
    if isinstance(device, int):
        if device < 0:
            raise ValueError(f"device numbers begin with 0, got {device}")
        return device
    if device == "cpu":
        return -1
    name, _, number = device.partition(":")
    if name != "cuda" or (number and not number.isdecimal()):
        raise ValueError(f"device should be 'cpu', 'cuda' or 'cuda:0', got {device!r}")
    return int(number or 0)


def _codecs_json(codec: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]], settings: dict[str, Any]) -> str:
    if settings:
        if not isinstance(codec, str):
            raise TypeError("settings go with a codec's name; a codec of metadata has its own")
        codec = {"name": codec, "configuration": settings}
    return json.dumps(codec if isinstance(codec, str | Mapping) else list(codec))


def _type_name(dtype: npt.DTypeLike) -> str:
    if isinstance(dtype, str) and dtype[:1] in "<>|=":
        return dtype
    try:
        made = np.dtype(dtype)
    except TypeError:
        if isinstance(dtype, str):
            return dtype  # a name that only Zarr has, such as "int4"
        raise
    # Types of ml_dtypes have names, but no type strings.
    return made.name if made.isbuiltin == 2 else made.str
