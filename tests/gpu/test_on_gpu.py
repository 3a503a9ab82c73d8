"""What only a GPU can show: the compiled kernels give the host's bytes, and other libraries take the tensors.

Skipped, and says so, where the driver finds no device. `make test-gpu` runs it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.gpu import parity


def blosc(cname: str, shuffle: str) -> dict[str, Any]:
    settings = {"cname": cname, "clevel": 5, "shuffle": shuffle, "typesize": 4, "blocksize": 0}
    return {"name": "blosc", "configuration": settings}


CODECS: list[Any] = [
    [],
    ["zstd"],
    [{"name": "zstd", "configuration": {"level": 9, "checksum": True}}],
    ["gzip"],
    ["numcodecs.zlib"],
    ["numcodecs.lz4"],
    [blosc("zstd", "shuffle")],
    [blosc("lz4", "bitshuffle")],
    ["zstd", "crc32c"],
    ["numcodecs.bz2"],
]
KINDS = ["ramp", "walk", "noise", "steps"]


@pytest.fixture(scope="session", autouse=True)
def device() -> int:
    if os.environ.get("PENSTOCK_CUDA_DRIVER"):
        pytest.skip("PENSTOCK_CUDA_DRIVER is set: these tests are for the machine's own driver")
    try:
        return _core._device_count()
    except ps.UnsupportedError as error:
        pytest.skip(f"no GPU: {error}")


def values(kind: str, dtype: str) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(7)
    size = 1 << 20
    made = {
        "ramp": np.arange(size, dtype="f8"),
        "walk": random.standard_normal(size).cumsum(),
        "noise": random.standard_normal(size) * 1000,
        "steps": np.repeat(random.integers(0, 9, size // 64), 64).astype("f8"),
    }[kind]
    return made.astype(dtype).reshape(1024, 1024)


@pytest.mark.parametrize("codecs", CODECS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_device_gives_the_hosts_bytes(tmp_path: Path, kind: str, codecs: Any) -> None:
    for dtype in ("<f4", ">i2", "u1", "c8"):
        expected = values(kind, dtype)
        uri = str(tmp_path / f"{dtype[1:]}.zarr")
        array = ps.create_array(
            uri, shape=expected.shape, dtype=dtype, chunks=(97, 101), shards=(291, 404), codecs=codecs, fill_value=3
        )
        array[:1000] = expected[:1000]
        for selection in (np.s_[...], np.s_[::3, 5:900:7], np.s_[::-1, 1023], np.s_[990:, :]):
            device = array.read(selection, device="cuda", check=True).numpy()
            assert device.tobytes() == np.ascontiguousarray(array[selection]).tobytes()


@pytest.mark.parametrize("part", parity.PARTS, ids=lambda part: part.__name__)
def test_every_kernel_that_a_read_can_launch(tmp_path: Path, part: Any) -> None:
    assert part(tmp_path, None) > 0 or part is parity.nvcomps_checks


def test_damaged_chunks_are_errors_and_the_device_lives_on(tmp_path: Path) -> None:
    expected = values("walk", "<f4")
    array = ps.create_array(
        str(tmp_path / "x.zarr"), shape=expected.shape, dtype="f4", chunks=(64, 1024), codecs=["zstd"]
    )
    array[...] = expected
    file = tmp_path / "x.zarr" / "c" / "3" / "0"
    good = file.read_bytes()
    random = np.random.default_rng(3)
    refused = 0
    for _ in range(200):
        bad = bytearray(good)
        for at in random.integers(0, len(bad), 8):
            bad[at] ^= int(random.integers(1, 256))
        file.write_bytes(bad)
        try:
            device = array.read(np.s_[130:300], device="cuda", check=True).numpy()
        except ps.CorruptDataError:
            refused += 1
            continue
        # The other way round it need not be: libzstd takes Huffman streams that end where they should not.
        assert device.tobytes() == array[130:300].tobytes()
    assert refused > 0
    file.write_bytes(good)
    np.testing.assert_array_equal(array.read(device="cuda").numpy(), expected)


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_other_libraries_take_tensors_without_a_copy(tmp_path: Path, library: str) -> None:
    module = pytest.importorskip(library)
    expected = values("ramp", "<f4")
    array = ps.create_array(
        str(tmp_path / "x.zarr"), shape=expected.shape, dtype="f4", chunks=(64, 1024), codecs=["zstd"]
    )
    array[...] = expected
    tensor = array.read(device="cuda")
    taken = module.from_dlpack(tensor)
    seen = taken.get() if library == "cupy" else taken.cpu().numpy()
    np.testing.assert_array_equal(seen, expected)
    address = taken.data.ptr if library == "cupy" else taken.data_ptr()
    assert address == tensor._read.address


def test_tiles_overlap_and_stay_right(tmp_path: Path) -> None:
    expected = values("steps", "<f4")
    array = ps.create_array(
        str(tmp_path / "x.zarr"),
        shape=expected.shape,
        dtype="f4",
        chunks=(16, 1024),
        shards=(128, 1024),
        codecs=["zstd"],
    )
    array[...] = expected
    with ps.stream(array, tile="shard", device="cuda", depth=2) as tiles:
        for tile in tiles:
            np.testing.assert_array_equal(tile.data.numpy(), expected[tile.box])
