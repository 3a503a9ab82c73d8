"""Codecs on their own: encode and decode one chunk, without an array or a store.

For tests of data and of other programs, and to examine a chunk that cannot be read.

Examples
--------
>>> from penstock import testing
>>> items = np.arange(12, dtype="i4")
>>> codecs = [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}]
>>> chunk = testing.encode(items, codecs)
>>> np.array_equal(testing.decode(chunk, codecs, "<i4", items.shape), items)
True
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

    Parameters
    ----------
    encoded
        The chunk's bytes.
    codecs
        In the order of encoding: as in Zarr v3 metadata (`{"name": ..., "configuration": ...}`), or as filters and
        compressor in v2 (`{"id": ..., ...}`).
    dtype
        That of the array: a numpy.dtype, its type string, or a v3 name (`"int4"`). With v2 codecs its byte order is
        that of the stored items.
    shape
        Of the chunk, in elements.

    Returns
    -------
    numpy.ndarray
        Read-only, in the machine's byte order.

    Raises
    ------
    CorruptDataError
        The bytes contradict the codecs.
    UnsupportedError
        Codecs and settings, by name.

    Examples
    --------
    >>> from penstock import testing
    >>> import zlib
    >>> testing.decode(zlib.compress(bytes([1, 0, 2, 0])), [{"id": "zlib"}], "<i2", (2,))
    array([1, 2], dtype=int16)
    """
    data, native = _core.decode_chain(json.dumps(list(codecs)), _type_name(dtype), list(shape), bytes(encoded))
    return np.frombuffer(data, native).reshape(shape)


def encode(items: npt.ArrayLike, codecs: Codecs, dtype: npt.DTypeLike | None = None) -> bytes:
    """Encode an array as one chunk.

    Parameters
    ----------
    items
        The chunk's elements, of any strides and byte order.
    codecs
        As for `decode`.
    dtype
        The array's data type, if `items` have another one.

    Returns
    -------
    bytes
        The chunk.

    Raises
    ------
    UnsupportedError
        Codecs and settings, by name.

    Examples
    --------
    >>> from penstock import testing
    >>> testing.encode(np.array([1, 2], "i2"), [{"name": "bytes", "configuration": {"endian": "little"}}]).hex()
    '01000200'
    """
    array = np.asarray(items)
    name = _type_name(array.dtype if dtype is None else dtype)
    native = np.asarray(array, order="C")
    if native.dtype.byteorder not in "=|":
        native = native.astype(native.dtype.newbyteorder("="))
    return _core.encode_chain(json.dumps(list(codecs)), name, list(array.shape), native.tobytes())


def describe(codecs: Codecs, dtype: npt.DTypeLike, shape: Sequence[int]) -> str:
    """Return codecs and settings as readable text.

    Parameters
    ----------
    codecs, dtype, shape
        As for `decode`.

    Returns
    -------
    str
        Such as `bytes(little) | zlib(level=1)`.

    Examples
    --------
    >>> from penstock import testing
    >>> testing.describe([{"id": "zlib", "level": 1}], "<i2", (4,))
    'bytes(little) | zlib(level=1)'
    """
    return _core.describe_chain(json.dumps(list(codecs)), _type_name(dtype), list(shape))


def codec_names() -> list[str]:
    """Return the names of all codecs that need no Python, sorted.

    Examples
    --------
    >>> from penstock import testing
    >>> {"blosc", "gzip", "zstd"} <= set(testing.codec_names())
    True
    """
    return _core.codec_names()


def decode_on_host(
    codec: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
    encoded: bytes | bytearray | memoryview,
    decoded_bytes: int,
    **settings: Any,
) -> bytes:
    """Decode one chunk with the code of the GPU's decoders, run on the host: for tests, not for speed.

    Parameters
    ----------
    codec
        A name with its settings as keywords, a codec of Zarr's or numcodecs' metadata (`{"name": ...,
        "configuration": {...}}`, `{"id": ...}`), or a list of these in encoding order. Names: "zstd", "lz4" (frames, or
        four bytes of size and a block, as numcodecs writes it), "lz4_frame", "lz4_block", "snappy", "blosc", "zlib",
        "gzip", "deflate", "lzw" as TIFF has it and "tiff_packbits" (numcodecs' and Zarr's packbits are different ones,
        which the host decodes); "shuffle", "bitshuffle" and "byte_swap" (`elementsize=`); "hdf5.bitshuffle"
        (`elementsize=`, `blocksize=`, `compression=`); "delta" (`dtype=`, `astype=`); "crc32c"; "reverse_bits";
        "tiff_predictor" (`predictor=`, `rows=`, `width=`, `samples=`, `elementsize=`, `endian=`).
    encoded
        The chunk's bytes.
    decoded_bytes
        The size of the decoded chunk.
    settings
        Of a codec that is given by its name.

    Returns
    -------
    bytes
        Exactly `decoded_bytes` bytes.

    Raises
    ------
    CorruptDataError
        The bytes are damaged, or decode to another size.
    UnsupportedError
        Other codecs, and input that the GPU leaves to the host (dictionaries, more than 128 MiB of zstd, Blosc of very
        small blocks).

    Examples
    --------
    >>> from penstock import testing
    >>> import zlib
    >>> testing.decode_on_host("zlib", zlib.compress(b"twelve bytes"), 12)
    b'twelve bytes'
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

    Waits for the device after each kernel, so its time is not that of a decode.

    Parameters
    ----------
    codec, encoded, decoded_bytes, settings
        As for `decode_on_host`.
    device
        "cuda", "cuda:1" or a device's number; "cpu" runs the kernels' host forms in the same way, without a GPU.

    Returns
    -------
    Decoded
        With its `error` if the kernels find the chunk damaged.

    Raises
    ------
    CorruptDataError
        The chunk's headers are damaged.
    UnsupportedError
        Other codecs, input that the GPU leaves to the host, or a machine without a GPU.

    Examples
    --------
    >>> from penstock import testing
    >>> chunk = ps.encode("zstd", np.zeros(1000, "f4"))
    >>> got = testing.decode_on_device("zstd", chunk, 4000, device="cpu")          # without `device`: the GPU
    >>> testing.first_difference(got, testing.decode_on_device("zstd", chunk, 4000, device="cpu")) is None
    True
    >>> got.data == bytes(4000), len(got.stages) > 0
    (True, True)
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
    """Return the first kernel after which `got` differs from `expected`, a decode of the same chunk.

    Returns
    -------
    Difference or None
        None: they are equal.

    Examples
    --------
    >>> import dataclasses
    >>> from penstock import testing
    >>> chunk = ps.encode("zstd", np.zeros(1000, "f4"))
    >>> good = testing.decode_on_device("zstd", chunk, 4000, device="cpu")
    >>> last = good.stages[-1]
    >>> bad = dataclasses.replace(last, memory={**last.memory, "output": b"x" + last.memory["output"][1:]})
    >>> print(testing.first_difference(dataclasses.replace(good, stages=[*good.stages[:-1], bad]), good))
    penstock_zstd_execute wrote other output: first at byte 0 of 4000, 78000000 ...
    """
    for mine, theirs in zip(got.stages, expected.stages, strict=True):
        for name, wanted in theirs.memory.items():
            offset = first_different_byte(mine.memory[name], wanted)
            if offset is not None:
                shown = slice(offset, offset + 32)
                return Difference(mine.kernel, name, offset, len(wanted), mine.memory[name][shown], wanted[shown])
    return None


def first_different_byte(got: bytes, expected: bytes) -> int | None:
    """Return the position at which two byte strings first differ, including the end of the shorter one; None: they are
    equal.

    Examples
    --------
    >>> from penstock import testing
    >>> testing.first_different_byte(b"abcd", b"abXd"), testing.first_different_byte(b"ab", b"ab")
    (2, None)
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
            raise TypeError("keyword settings are for a codec that is given by its name")
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
