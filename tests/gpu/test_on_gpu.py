"""Tests that need a GPU: the compiled kernels return the host's bytes, and other libraries accept the tensors.

Skipped, with a message, if the driver finds no device. `make test-gpu` runs it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.gpu import parity
from bench.gpu.driver import Driver


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
    outcomes = [parity.check(case) for case in part(None)]
    assert outcomes or part is parity.nvcomps_checks
    assert not [outcome.line() for outcome in outcomes if not outcome.good]


def test_damaged_chunks_are_errors_and_the_device_stays_usable(tmp_path: Path) -> None:
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
        # The reverse need not hold: libzstd accepts Huffman streams with a wrong end.
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


def test_tiles_overlap_and_stay_correct(tmp_path: Path) -> None:
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


# ---- frames of several blocks, other libraries, streams, threads, exit ----


def large(tmp_path: Path, codecs: Any = ("zstd",), chunk: int = 1 << 18) -> tuple[ps.Array, np.ndarray[Any, Any]]:
    """An array of chunks of 1 MiB: a frame of zstd has several blocks there."""
    expected = np.random.default_rng(9).standard_normal(5 << 18).cumsum().astype("<f4")
    uri = str(tmp_path / "large.zarr")
    array = ps.create_array(uri, shape=expected.shape, dtype="f4", chunks=(chunk,), codecs=list(codecs))
    array[...] = expected
    return ps.open(uri), expected


@pytest.mark.parametrize("codecs", [["zstd"], ["numcodecs.lz4"], ["gzip"], [blosc("zstd", "shuffle")]], ids=str)
def test_frames_of_several_blocks(tmp_path: Path, codecs: Any) -> None:
    array, expected = large(tmp_path, codecs)
    for selection in (np.s_[...], np.s_[1000:900_000:3]):
        got = array.read(selection, device="cuda", check=True).numpy()
        np.testing.assert_array_equal(got, expected[selection])


def test_jax_takes_tensors_without_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # it would take three quarters of the device
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip(f"JAX computes on the {jax.default_backend()} here")
    array, expected = large(tmp_path)
    tensor = array.read(device="cuda")
    taken = jax.dlpack.from_dlpack(tensor)
    assert taken.unsafe_buffer_pointer() == tensor._read.address
    np.testing.assert_array_equal(np.asarray(taken), expected)
    np.testing.assert_array_equal(np.asarray(jax.numpy.flip(taken)), expected[::-1])


def test_a_consumers_own_stream_waits_for_the_values(tmp_path: Path) -> None:
    """A copy to the host on a stream of the consumer, queued right after `order`, sees the values."""
    driver = Driver()
    array, expected = large(tmp_path)
    stream = _core._DeviceStream(0)
    for _ in range(20):
        got = np.zeros_like(expected)
        tensor = array.read(device="cuda")
        tensor.order(stream.handle)
        of = ctypes.c_void_p(got.ctypes.data), ctypes.c_uint64(tensor._read.address), ctypes.c_size_t(got.nbytes)
        driver.call("cuMemcpyDtoHAsync", *of, ctypes.c_void_p(stream.handle))
        driver.call("cuStreamSynchronize", ctypes.c_void_p(stream.handle))
        np.testing.assert_array_equal(got, expected)
    driver.close()


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_a_librarys_own_stream_waits_for_the_values(tmp_path: Path, library: str) -> None:
    module = pytest.importorskip(library)
    array, expected = large(tmp_path)
    stream = module.cuda.Stream() if library == "torch" else module.cuda.Stream(non_blocking=True)
    for _ in range(20):
        with module.cuda.stream(stream) if library == "torch" else stream:
            doubled = module.from_dlpack(array.read(device="cuda")) * 2
        stream.synchronize()
        np.testing.assert_array_equal(doubled.cpu().numpy() if library == "torch" else doubled.get(), expected * 2)


def test_out_is_a_tensor_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    array, expected = large(tmp_path)
    stream = torch.cuda.Stream()
    out = torch.full((len(expected), 2), -1.0, device="cuda")
    with torch.cuda.stream(stream):
        for column in range(2):
            array.read(device="cuda", out=out[:, column], stream=stream)
        total = out.sum(1)
    stream.synchronize()
    np.testing.assert_array_equal(out.cpu().numpy(), np.stack([expected, expected], 1))
    np.testing.assert_array_equal(total.cpu().numpy(), expected + expected)


def test_two_threads_read_at_the_same_time(tmp_path: Path) -> None:
    array, expected = large(tmp_path)

    def work(first: int) -> None:
        for turn in range(20):
            start = (first + turn * 7919) % 200_000
            got = array.read(np.s_[start : start + 600_000], device="cuda", check=True).numpy()
            np.testing.assert_array_equal(got, expected[start : start + 600_000])

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, first) for first in (0, 100_001)]:
            done.result()


LEAVE = """
import sys
import penstock as ps
array = ps.open(sys.argv[1])
kept = [array.read(device="cuda") for _ in range(10)]
print("leaving", flush=True)
{how}
"""


@pytest.mark.parametrize("how", ["", "del kept", "sys.exit(0)"], ids=["end", "dropped", "exit"])
def test_a_program_exits_with_reads_in_progress(tmp_path: Path, how: str) -> None:
    large(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LEAVE.format(how=how), str(tmp_path / "large.zarr")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "leaving\n"), done.stderr
    assert "Traceback" not in done.stderr


# ---- results that leave the device, and reads through other libraries ----


@pytest.mark.parametrize("codecs", [["zstd"], ["numcodecs.lz4"], ["zstd", "crc32c"]], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_host_reads_chunks_that_the_device_encodes(tmp_path: Path, kind: str, codecs: Any) -> None:
    """Shards, chunks of one block and of several, edges that the host encodes."""
    expected = values(kind, "<f4")
    options: dict[str, Any] = {"shape": expected.shape, "dtype": "f4"}
    source = ps.create_array(str(tmp_path / "from.zarr"), chunks=(64, 1024), codecs=["bytes"], **options)
    source[...] = expected
    tensor = source.read(device="cuda")
    for number, (chunks, shards) in enumerate([((97, 101), (291, 404)), ((256, 1024), None)]):
        to = ps.create_array(str(tmp_path / f"{number}.zarr"), chunks=chunks, shards=shards, codecs=codecs, **options)
        to.write(..., tensor, encoder="device")
        assert to[...].tobytes() == expected.tobytes()
        assert to.read(device="cuda", check=True).numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("bypass", "synchronous"), [(None, True), (None, False), (False, True)], ids=["wrapped", "coroutines", "event loop"]
)
def test_zarr_pythons_gpu_mode(tmp_path: Path, bypass: bool | None, synchronous: bool) -> None:
    cupy = pytest.importorskip("cupy")
    zarr = pytest.importorskip("zarr")
    import penstock.zarr

    class Coroutines(zarr.storage.LocalStore):
        _supports_sync_io = False

    _, expected = large(tmp_path)
    path = tmp_path / "large.zarr"
    stream = cupy.cuda.Stream(non_blocking=True)
    with penstock.zarr.enable(device="cuda", strict=True, bypass=bypass):
        opened = zarr.open_array(str(path) if synchronous else Coroutines(path), mode="r")
        for _ in range(10):
            with stream:
                doubled = opened[:] * 2
            stream.synchronize()
            np.testing.assert_array_equal(doubled.get(), expected * 2)


def test_xarrays_engine(tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy")
    xarray = pytest.importorskip("xarray")
    expected = values("walk", "<f4")
    array = ps.create_array(
        str(tmp_path / "x.zarr" / "v"), shape=expected.shape, dtype="f4", chunks=(64, 1024), dimension_names=("y", "x")
    )
    array[...] = expected
    (tmp_path / "x.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    stream = cupy.cuda.Stream(non_blocking=True)
    for _ in range(10):
        opened = xarray.open_dataset(tmp_path / "x.zarr", engine="penstock", cache=False, device="cuda")
        with stream:
            doubled = opened.v.variable._data.get_duck_array() * 2
        stream.synchronize()
        np.testing.assert_array_equal(doubled.get(), expected * 2)


LOAD = """
import sys
import numpy as np
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
import penstock as ps
from penstock.torch import load
mesh = init_device_mesh("cuda", (1,))
array = ps.open(sys.argv[1])
expected = array[...]
stream = torch.cuda.Stream()
for _ in range(10):
    with torch.cuda.stream(stream):
        doubled = load(array, mesh, [Shard(0)]).to_local() * 2
    stream.synchronize()
    np.testing.assert_array_equal(doubled.cpu().numpy(), expected * 2)
torch.distributed.destroy_process_group()
print("equal")
"""


def test_torch_loads_on_its_own_stream(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    large(tmp_path)
    rank = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29541"}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path / "large.zarr")],
        env=os.environ | rank,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stderr
