"""Chunks decoded kernel by kernel, on the fake driver and by the host forms."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, cuda, fake_cuda_library
from penstock import testing

__all__ = ["cuda", "fake_cuda_library"]

WALK = np.cumsum(np.random.default_rng(5).integers(-9, 10, 50_000)).astype("<i4")
ZSTD: dict[str, Any] = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
SHUFFLE: dict[str, Any] = {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}
CHAINS: list[list[Any]] = [
    [ZSTD],
    ["numcodecs.lz4"],
    [{"name": "numcodecs.zlib", "configuration": {"level": 1}}],
    [SHUFFLE, ZSTD, "crc32c"],
]


def encoded_and_steps(codecs: list[Any]) -> tuple[bytes, list[Any]]:
    return testing.encode(WALK.view("u1"), ["bytes", *codecs]), codecs


@pytest.mark.parametrize("codecs", CHAINS, ids=str)
def test_the_fake_driver_writes_the_hosts_bytes(cuda: FakeCuda, codecs: list[Any]) -> None:
    chunk, steps = encoded_and_steps(codecs)
    expected = testing.decode_on_device(steps, chunk, WALK.nbytes, device="cpu")
    got = testing.decode_on_device(steps, chunk, WALK.nbytes, device="cuda:1")
    assert expected.data == got.data == WALK.tobytes()
    assert got.error is None
    assert testing.first_difference(got, expected) is None
    assert [stage.kernel for stage in got.stages] == [stage.kernel for stage in expected.stages]


def test_zstd_returns_its_intermediates(cuda: FakeCuda) -> None:
    chunk, steps = encoded_and_steps([ZSTD])
    stages = testing.decode_on_device(steps, chunk, WALK.nbytes).stages
    kernels = [stage.kernel for stage in stages]
    assert kernels[:3] == ["penstock_zstd_literals", "penstock_zstd_sequences", "penstock_zstd_execute"]
    first, second, third = (stage.memory for stage in stages[:3])
    unwritten = bytes([0xA5])
    assert set(first["literals"]) != {0xA5}
    assert first["sequences"] == unwritten * len(first["sequences"])
    assert second["sequences"] != first["sequences"]
    assert second["output"] == unwritten * WALK.nbytes
    assert third["output"] == WALK.tobytes()
    assert third["status"] == bytes(4)


def test_the_first_kernel_that_differs_is_named() -> None:
    chunk, steps = encoded_and_steps([ZSTD])
    expected = testing.decode_on_device(steps, chunk, WALK.nbytes, device="cpu")

    def damaged(stage: testing.Stage, name: str, at: int) -> testing.Stage:
        content = bytearray(stage.memory[name])
        content[at] ^= 0xFF
        return dataclasses.replace(stage, memory={**stage.memory, name: bytes(content)})

    literals, sequences, execute, *rest = expected.stages
    wrong = [literals, damaged(sequences, "sequences", 100), damaged(execute, "output", 7), *rest]
    found = testing.first_difference(dataclasses.replace(expected, stages=wrong), expected)
    assert found is not None
    assert (found.kernel, found.memory, found.offset) == ("penstock_zstd_sequences", "sequences", 100)
    assert found.expected == sequences.memory["sequences"][100:132]
    assert found.got[0] == found.expected[0] ^ 0xFF
    assert str(found).startswith("penstock_zstd_sequences wrote other sequences: first at byte 100 of ")


def test_damaged_chunks_return_their_error(cuda: FakeCuda) -> None:
    chunk, steps = encoded_and_steps([ZSTD, "crc32c"])
    bad = chunk[:-1] + bytes([chunk[-1] ^ 1])
    assert "checksum" in str(testing.decode_on_device(steps, bad, WALK.nbytes).error)
    with pytest.raises(ps.CorruptDataError):
        testing.decode_on_device("zstd", b"no frame", 100)


def test_devices_have_the_usual_names(cuda: FakeCuda) -> None:
    chunk, steps = encoded_and_steps([ZSTD])
    for device in ("cuda:x", "gpu"):
        with pytest.raises(ValueError, match="device should be"):
            testing.decode_on_device(steps, chunk, WALK.nbytes, device=device)
    with pytest.raises(ValueError, match="begin with 0"):
        testing.decode_on_device(steps, chunk, WALK.nbytes, device=-1)
    with pytest.raises(ps.InvalidArgumentError, match="no device cuda:9"):
        testing.decode_on_device(steps, chunk, WALK.nbytes, device=9)


def test_device_memory_is_freed(cuda: FakeCuda) -> None:
    chunk, steps = encoded_and_steps([ZSTD])
    before = cuda.driver.penstock_fake_cuda_live_bytes()
    testing.decode_on_device(steps, chunk, WALK.nbytes)
    assert cuda.driver.penstock_fake_cuda_live_bytes() == before


def test_comparisons_include_the_end_of_the_longer_output() -> None:
    assert testing.first_different_byte(b"abc", b"abc") is None
    assert testing.first_different_byte(b"abc", b"abd") == 2
    assert testing.first_different_byte(b"ab", b"abd") == 2
