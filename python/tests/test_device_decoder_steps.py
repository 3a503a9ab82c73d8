"""Filters and chains of the GPU's decoders on the host, against what numcodecs, NumPy and tifffile write."""

from __future__ import annotations

import zlib
from typing import Any

import numcodecs
import numpy as np
import numpy.typing as npt
import penstock as ps
import pytest
from penstock.testing import decode_on_host, encode

WALK = np.cumsum(np.random.default_rng(5).integers(-9, 10, 4099))


@pytest.mark.parametrize("size", [1, 2, 4, 8, 12])
def test_shuffled_elements(size: int) -> None:
    data = (WALK.astype("<i8").tobytes() * 2)[: 4001 * size]
    shuffled = bytes(numcodecs.Shuffle(size).encode(data))
    assert decode_on_host("shuffle", shuffled, len(data), elementsize=size) == data
    assert decode_on_host({"id": "shuffle", "elementsize": size}, shuffled, len(data)) == data
    packed = zlib.compress(shuffled)
    chain: list[Any] = [{"name": "numcodecs.shuffle", "configuration": {"elementsize": size}}, "zlib"]
    assert decode_on_host(chain, packed, len(data)) == data


def test_packbits_of_tiff_and_of_numcodecs_have_separate_names() -> None:
    assert decode_on_host("tiff_packbits", b"\xfe\x07\x01ab", 5) == b"\7\7\7ab"
    packed = bytes(numcodecs.PackBits().encode(np.array([True, False, True])))
    others: list[Any] = ["packbits", {"id": "packbits"}, {"name": "numcodecs.packbits"}, {"name": "packbits"}]
    for other in others:
        with pytest.raises(ps.UnsupportedError, match="tiff_packbits"):
            decode_on_host(other, packed, 3)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_shuffled_bits(size: int) -> None:
    data = WALK.astype("<i8").tobytes()[: 4000 * size]
    bits = np.unpackbits(np.frombuffer(data, "u1").reshape(-1, size), axis=1, bitorder="little")
    planes = np.packbits(bits.T, axis=1, bitorder="little").tobytes()
    assert decode_on_host("bitshuffle", planes, len(data), elementsize=size) == data


@pytest.mark.parametrize(
    ("dtype", "astype"), [("<i4", "<i4"), ("<i8", "<i2"), (">u2", ">u2"), ("<u1", "<u1"), ("<i8", ">i4")]
)
def test_differences(dtype: str, astype: str) -> None:
    values = (WALK % 251 if dtype == "<u1" else np.abs(WALK)).astype(dtype)
    filtered = numcodecs.Delta(dtype, astype)
    encoded = np.asarray(filtered.encode(values)).tobytes()
    wanted = np.asarray(filtered.decode(np.frombuffer(encoded, astype))).tobytes()
    assert decode_on_host("delta", encoded, len(wanted), dtype=dtype, astype=astype) == wanted


def test_a_checksum_after_a_compressor() -> None:
    data = WALK.astype("<i4").tobytes()
    encoded = bytes(numcodecs.Zstd(1).encode(data))
    sealed = encode(np.frombuffer(encoded, "u1"), ["bytes", "crc32c"])
    assert decode_on_host(["zstd", "crc32c"], sealed, len(data)) == data
    assert decode_on_host("crc32c", sealed, len(encoded)) == encoded
    with pytest.raises(ps.CorruptDataError):
        decode_on_host(["zstd", "crc32c"], sealed[:-1] + bytes([sealed[-1] ^ 1]), len(data))


def predicted(image: npt.NDArray[Any], predictor: int) -> bytes:
    if predictor == 1:
        return image.tobytes()
    rows, width, samples = image.shape
    if predictor == 2:
        numbers = image.astype(image.dtype.newbyteorder("=")).view(f"u{image.itemsize}").copy()
        numbers[:, 1:] -= numbers[:, :-1].copy()
        return numbers.astype(f"{image.dtype.byteorder}u{image.itemsize}").tobytes()
    planes = image.astype(image.dtype.newbyteorder(">")).view("u1").reshape(rows, width * samples, image.itemsize)
    laid = planes.transpose(0, 2, 1).reshape(rows, -1)
    out = laid.copy()
    out[:, samples:] -= laid[:, :-samples]
    return out.tobytes()


PREDICTED = [(dtype, predictor) for dtype in ("<u1", "<u2", ">u2", "<i4", "<f4", "<f8") for predictor in (1, 2)]


@pytest.mark.parametrize(("dtype", "predictor"), [*PREDICTED, ("<f4", 3), ("<f8", 3), (">f4", 3)])
@pytest.mark.parametrize("samples", [1, 3])
def test_predictors_of_tiff(dtype: str, predictor: int, samples: int) -> None:
    kind = np.dtype(dtype)
    image = WALK[: 20 * 33 * samples].reshape(20, 33, samples).astype(kind)
    if kind.byteorder == "|":
        image = image.astype("u1")
    settings = {
        "predictor": predictor,
        "rows": 20,
        "width": 33,
        "samples": samples,
        "elementsize": kind.itemsize,
        "endian": "big" if dtype[0] == ">" else "little",
    }
    encoded = predicted(image, predictor)
    wanted = image.astype(kind.newbyteorder("=")).tobytes()
    assert decode_on_host("tiff_predictor", encoded, len(wanted), **settings) == wanted
    chain: list[Any] = [{"name": "tiff_predictor", "configuration": settings}, "zlib"]
    assert decode_on_host(chain, zlib.compress(encoded), len(wanted)) == wanted


def test_invalid_settings_are_named() -> None:
    with pytest.raises(ps.InvalidArgumentError, match="elementsize"):
        decode_on_host("bitshuffle", b"", 0)
    with pytest.raises(ps.UnsupportedError, match="integers"):
        decode_on_host("delta", b"", 0, dtype="<f4")
    with pytest.raises(ps.UnsupportedError, match="bz2"):
        decode_on_host(["bz2"], b"", 0)
    with pytest.raises(TypeError):
        decode_on_host({"name": "zstd"}, b"", 0, level=3)
    with pytest.raises(ps.Error):
        decode_on_host("tiff_predictor", bytes(8), 8, predictor=2, rows=1 << 32, width=1, elementsize=8)


def test_zstd_of_very_small_blocks_is_decoded() -> None:
    block = b"\x08\x00\x00" + b"a"  # a raw block of one byte
    content = 8192
    frame = b"\x28\xb5\x2f\xfd\xa0" + content.to_bytes(4, "little") + block * (content - 1) + b"\x09\x00\x00b"
    assert decode_on_host("zstd", frame, content) == b"a" * (content - 1) + b"b"
    with pytest.raises(ps.CorruptDataError):
        decode_on_host("zstd", frame[:-4], content)


def test_steps_that_are_left_to_the_host_are_reported() -> None:
    large = b"\x28\xb5\x2f\xfd\xa0" + (1 << 28).to_bytes(4, "little")
    with pytest.raises(ps.UnsupportedError, match="128 MiB") as caught:
        decode_on_host("zstd", large, 1 << 28)
    assert "on the host" in str(caught.value)
