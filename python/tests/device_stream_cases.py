"""Tiles that are read ahead into device memory, against the fake driver: these tests have not run on a GPU.

They run in a separate process, because a process looks up the driver only once.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, cuda, fake_cuda_library, slow_device

__all__ = ["cuda", "fake_cuda_library"]

SHAPE, CHUNKS = (250, 144), (64, 64)  # 4 by 3 tiles; those at both edges are smaller
VALUES = np.random.default_rng(1).integers(0, 8, SHAPE).astype("f4").cumsum(axis=1)


def made(folder: Path, codecs: list[Any]) -> ps.Array:
    array = ps.create_array(str(folder / "t.zarr"), shape=SHAPE, dtype="f4", chunks=CHUNKS, codecs=codecs)
    array[...] = VALUES
    return array


def damage(folder: Path, chunk: str) -> None:
    """Flips bits in the middle of a chunk, which reading the frame header does not detect."""
    file = folder / "t.zarr" / "c" / chunk
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(each ^ 0x5A for each in content[middle : middle + 40])
    file.write_bytes(content)


class Callers:
    """Stands for the caller's kernels: copies each tile to the host when the stream reaches it."""

    def __init__(self, cuda: FakeCuda) -> None:
        self.seen = np.full(SHAPE, -1, "f4")
        self.ran = 0
        self._kept: list[Any] = []
        self._driver = cuda.driver

    def queue(self, tile: Any) -> None:
        address, shape, box = tile.data._read.address, tile.data.shape, tile.box

        def work(_: object) -> None:
            memory = (ctypes.c_float * (shape[0] * shape[1])).from_address(address)
            self.seen[box] = np.frombuffer(memory, "f4").reshape(shape)
            self.ran += 1

        kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(work)
        self._kept.append(kernel)
        assert self._driver.penstock_fake_cuda_enqueue(ctypes.c_void_p(tile.stream), kernel, None) == 0


@pytest.mark.parametrize("codecs", [[], ["zstd"]], ids=["raw", "zstd"])
@pytest.mark.parametrize("depth", [0, 1, 2, 5])
@pytest.mark.parametrize("seed", [2])
def test_each_tile_is_complete_when_the_callers_work_starts(
    cuda: FakeCuda, tmp_path: Path, codecs: list[Any], depth: int, seed: int
) -> None:
    array = made(tmp_path, codecs)
    assert len(ps.stream(array, tile="chunk")) >= 2 * (depth + 1)
    cuda.configure(seed, lazy=True)
    callers, addresses, used = Callers(cuda), set(), set()
    with slow_device(cuda), ps.stream(array, tile="chunk", device="cuda", depth=depth) as tiles:
        for tile in tiles:
            assert tile.data.shape == VALUES[tile.box].shape
            callers.queue(tile)
            addresses.add(tile.data._read.address)
            used.add(tile.stream)
        for each in used:
            cuda.synchronize(each)
    assert callers.ran == len(tiles)
    np.testing.assert_array_equal(callers.seen, VALUES)
    assert len(addresses) == len(used) == depth + 1
    assert cuda.count("legacy stream") == 0


@pytest.mark.parametrize("axis", [0, 1])
def test_shards_of_unequal_lengths_are_tiles(cuda: FakeCuda, tmp_path: Path, axis: int) -> None:
    edges = [0, 30, 30, 100, 101, SHAPE[axis]]
    for i, part in enumerate(np.split(VALUES, edges[1:-1], axis)):
        np.save(tmp_path / f"s_{i}.npy", np.ascontiguousarray(part))
    array = ps.open_shards(tmp_path / "s_*.npy", axis=axis)
    callers, used = Callers(cuda), set()
    with ps.stream(array, tile="shard", device="cuda", depth=1) as tiles:
        assert len(tiles) == 4  # one of them has no rows
        lengths = []
        for tile in tiles:
            lengths.append(tile.data.shape[axis])
            callers.queue(tile)
            used.add(tile.stream)
        for each in used:
            cuda.synchronize(each)
    assert lengths == [30, 70, 1, SHAPE[axis] - 101]
    np.testing.assert_array_equal(callers.seen, VALUES)


def test_a_buffer_is_not_overwritten_before_the_callers_work(cuda: FakeCuda, tmp_path: Path) -> None:
    array = made(tmp_path, [])
    cuda.configure(7, lazy=True)
    callers = Callers(cuda)
    with ps.stream(array, tile="chunk", device="cuda", depth=0) as tiles:
        callers.queue(next(tiles))
        second = next(tiles)  # uses the same memory, after the queued work
        assert callers.ran == 0
        cuda.synchronize(second.stream)
        assert callers.ran == 1
        np.testing.assert_array_equal(callers.seen[:64, :64], VALUES[:64, :64])
        np.testing.assert_array_equal(cuda.peek(second.data._read.address, (64, 64), "f4"), VALUES[second.box])


def test_memory_in_use_is_not_given_to_another_tile(cuda: FakeCuda, tmp_path: Path) -> None:
    with ps.Context() as context:
        array = ps.open(made(tmp_path, []).uri, context=context)
        earlier = array.read(np.s_[:64, :64], device="cuda")
        mine = cuda.stream()
        earlier.order(mine)
        cuda.synchronize(mine)
        cuda.configure(3, lazy=True)
        ran = []
        kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ran.append(ctypes.string_at(address, 16384)))
        address = earlier._read.address
        assert cuda.driver.penstock_fake_cuda_enqueue(ctypes.c_void_p(mine), kernel, None) == 0
        del earlier
        with ps.stream(array, tile="chunk", device="cuda", depth=0) as tiles:
            next(tiles)
            tile = next(tiles)
            assert tile.data._read.address == address  # memory that was returned to the pool is reused
            cuda.synchronize(tile.stream)
        assert ran == [VALUES[:64, :64].tobytes()]


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("chunk", ["0/0", "1/1", "3/2"])
def test_a_tile_that_fails_on_the_device_is_always_reported(
    cuda: FakeCuda, tmp_path: Path, depth: int, chunk: str
) -> None:
    array = made(tmp_path, ["zstd"])
    damage(tmp_path, chunk)
    cuda.configure(5, lazy=True)
    with (
        slow_device(cuda),
        pytest.raises(ps.CorruptDataError, match=f"c/{chunk}") as caught,
        ps.stream(array, tile="chunk", device="cuda", depth=depth) as tiles,
    ):
        for _ in tiles:
            pass
    assert f"tile ({chunk.replace('/', ', ')}) of the stream" in caught.value.notes
    assert next(tiles, None) is None


def test_a_tile_that_is_known_to_have_failed_is_not_returned(cuda: FakeCuda, tmp_path: Path) -> None:
    array = made(tmp_path, ["zstd"])
    damage(tmp_path, "0/1")
    with ps.stream(array, tile="chunk", device="cuda", depth=2) as tiles:
        first = next(tiles)
        assert first.index == (0, 0)
        deadline = time.monotonic() + 20
        while tiles._tiles.complete < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        with pytest.raises(ps.CorruptDataError, match="c/0/1"):
            next(tiles)


@pytest.mark.parametrize("chunk", [(0, 1), (3, 2)])
def test_a_stream_that_checks_returns_no_failed_tile(cuda: FakeCuda, tmp_path: Path, chunk: tuple[int, int]) -> None:
    array = made(tmp_path, ["zstd"])
    damage(tmp_path, f"{chunk[0]}/{chunk[1]}")
    cuda.configure(5, lazy=True)
    good = [each for each in np.ndindex(4, 3) if each < chunk]
    with slow_device(cuda), ps.stream(array, tile="chunk", device="cuda", depth=2, check=True) as tiles:
        assert [next(tiles).index for _ in good] == good
        with pytest.raises(ps.CorruptDataError, match=f"c/{chunk[0]}/{chunk[1]}") as caught:
            next(tiles)
    assert f"tile {chunk} of the stream" in caught.value.notes


def test_the_loop_is_at_most_two_rounds_of_buffers_ahead_of_the_device(cuda: FakeCuda, tmp_path: Path) -> None:
    array = made(tmp_path, [])
    cuda.configure(9, lazy=True)
    with slow_device(cuda), ps.stream(array, tile="chunk", device="cuda", depth=1) as tiles:
        ahead = []
        for tile in tiles:
            ahead.append(tile.data)
            assert sum(not each.done for each in ahead) <= 4
    assert len(ahead) == 12
