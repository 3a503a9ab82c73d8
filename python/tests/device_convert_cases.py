"""The device converts numbers as the host does, bit for bit; on the fake driver.

These run in a separate process.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import penstock as ps
import pytest
from device_support import DeviceArray, FakeCuda, assert_warm, cuda, fake_cuda_library

__all__ = ["cuda", "fake_cuda_library"]

NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NAMES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
PAIRS = [
    (source, target)
    for source, target in itertools.product(NAMES, NAMES[1:])
    if source != target and np.can_cast(np.dtype(source), np.dtype(target), "same_kind")
    # ml_dtypes drops the imaginary part of complex numbers; a device refuses to.
    if not (source.startswith("complex") and target == "bfloat16")
]
BIG = {"name": "bytes", "configuration": {"endian": "big"}}


def edges(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """All values of types of up to two bytes; of wider types, the edges and random values."""
    random = np.random.default_rng(5)
    if dtype.kind == "b":
        return np.arange(4) % 2 == 1
    if dtype.kind == "c":
        parts = edges(np.dtype(f"f{dtype.itemsize // 2}"))
        return (parts[: len(parts) // 2 * 2]).view(dtype)
    if dtype.itemsize <= 2:
        return np.arange(1 << 8 * dtype.itemsize, dtype=np.uint32).astype(f"u{dtype.itemsize}").view(dtype)
    bits = 8 * dtype.itemsize
    near = [(1 << at) + by & (1 << bits) - 1 for at in range(bits) for by in range(-2, 3)]
    found = [np.array([*near, *((1 << bits) - 1 - each for each in near)], f"u{dtype.itemsize}").view(dtype)]
    found.append(random.integers(0, 1 << bits, 3000, f"u{dtype.itemsize}").view(dtype))
    if dtype.kind == "f":
        found.append((random.integers(0, 5000, 2000) * 2.0**-26).astype(dtype))  # subnormal as float16
        found.append((random.random(2000) * 140000 - 70000).astype(dtype))
    return np.concatenate(found)


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.filterwarnings("ignore:.*encountered in cast:RuntimeWarning")
def test_every_number_is_converted_as_on_the_host(cuda: FakeCuda, tmp_path: Path, source: str) -> None:
    values = edges(np.dtype(source))
    made = ps.create_array(str(tmp_path / "x.zarr"), shape=values.shape, dtype=source, chunks=(1000,), codecs=["zstd"])
    made[...] = values
    targets = [target for one, target in PAIRS if one == source]
    assert targets
    for target in targets:
        tensor = made.read(device="cuda", dtype=target)
        assert tensor.dtype == np.dtype(target)
        made_here, expected = tensor.numpy().view("u1"), made.read(dtype=target).view("u1")
        np.testing.assert_array_equal(made_here, expected, err_msg=target)


@pytest.mark.parametrize(
    "codecs", [["zstd"], [BIG, "zstd"], [BIG], [BIG, {"name": "numcodecs.bz2", "configuration": {"level": 1}}]]
)
@pytest.mark.parametrize("target", ["float32", "float16", "bfloat16", "complex64"])
def test_parts_edges_fills_and_byte_orders(cuda: FakeCuda, tmp_path: Path, codecs: list[Any], target: str) -> None:
    values = np.random.default_rng(3).normal(0, 100, (23, 17, 11))
    made = ps.create_array(
        str(tmp_path / "x.zarr"), shape=values.shape, dtype="f8", chunks=(5, 4, 6), codecs=codecs, fill_value=-1 / 3
    )
    made[:, 4:] = values[:, 4:]
    for selection in [np.s_[...], np.s_[3:20, ::3, 5], np.s_[22::-4, 1:16, -1::-2], np.s_[7, 16, 2], np.s_[5:5]]:
        tensor = made.read(selection, device="cuda", dtype=target)
        expected = np.asarray(made.read(selection, dtype=target))
        assert tensor.shape == expected.shape
        assert tensor.numpy().tobytes() == expected.tobytes()


def test_complex_numbers_of_swapped_byte_order(cuda: FakeCuda, tmp_path: Path) -> None:
    values = (np.arange(300) + 1j * np.arange(300)[::-1]).astype("c16").reshape(20, 15)
    made = ps.create_array(str(tmp_path / "x.zarr"), shape=(20, 15), dtype="c16", chunks=(7, 4), codecs=[BIG, "zstd"])
    made[...] = values
    np.testing.assert_array_equal(made.read(device="cuda", dtype="complex64").numpy(), values.astype("c8"))
    np.testing.assert_array_equal(
        made.read(np.s_[::-2, 3], device="cuda", dtype="c8").numpy(), values[::-2, 3].astype("c8")
    )


def test_out_has_the_requested_dtype(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.arange(3000, dtype="i2").reshape(60, 50)
    made = ps.create_array(str(tmp_path / "x.zarr"), shape=(60, 50), dtype="i2", chunks=(7, 50), codecs=["zstd"])
    made[...] = values
    out = DeviceArray(cuda, (60, 50), "f4", (-200, 4))
    mine = cuda.stream()
    made.read(device="cuda", out=out, dtype="float32", stream=mine)
    cuda.synchronize(mine)
    np.testing.assert_array_equal(out.get(), values.astype("f4"))
    with pytest.raises(ps.InvalidArgumentError, match="out has dtype float32"):
        made.read(device="cuda", out=out)
    with pytest.raises(ps.InvalidArgumentError, match="out has dtype float32"):
        made.read(device="cuda", out=out, dtype="f8")


def test_types_that_do_not_convert_are_refused_by_name(cuda: FakeCuda, tmp_path: Path) -> None:
    made = ps.create_array(str(tmp_path / "x.zarr"), shape=(4,), dtype="f4", chunks=(2,))
    with pytest.raises(ps.InvalidArgumentError, match="float32 cannot be cast to int32"):
        made.read(device="cuda", dtype="i4")
    with pytest.raises(ps.UnsupportedError, match="is not converted to float8_e5m2"):
        made.read(device="cuda", dtype=ml_dtypes.float8_e5m2)
    with pytest.raises(ps.InvalidArgumentError, match="byte order"):
        made.read(device="cuda", dtype=">f8")
    times = ps.create_array(str(tmp_path / "t.zarr"), shape=(4,), dtype="M8[s]", chunks=(2,))
    with pytest.raises(ps.UnsupportedError, match="is not converted to"):
        times.read(device="cuda", dtype="M8[ms]")
    assert made.read(device="cuda", dtype="float32").dtype == np.dtype("f4")


def test_a_job_converts_too(cuda: FakeCuda, tmp_path: Path) -> None:
    made = ps.create_array(str(tmp_path / "x.zarr"), shape=(4,), dtype="i4", chunks=(2,), fill_value=7)
    assert made.read_async(device="cuda", dtype="float16").wait().numpy().tolist() == [7, 7, 7, 7]


def test_failed_chunks_have_all_bits_set_in_the_new_type(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 8, (3, 4096)).astype("i4")
    made = ps.create_array(str(tmp_path / "y.zarr"), shape=values.shape, dtype="i4", chunks=(1, 4096), codecs=["zstd"])
    made[...] = values
    file = tmp_path / "y.zarr" / "c" / "1" / "0"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(b ^ 0x5A for b in content[middle : middle + 40])
    file.write_bytes(content)
    tensor = made.read(device="cuda", dtype="complex64")
    with pytest.raises(ps.CorruptDataError, match="c/1/0"):
        tensor.synchronize()
    seen = cuda.peek(tensor._read.address, values.shape, "c8")
    np.testing.assert_array_equal(seen[[0, 2]], values[[0, 2]])
    assert np.isnan(seen[1].real).all()
    assert np.isnan(seen[1].imag).all()


def test_conversions_allocate_nothing(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.arange(1 << 16, dtype="i4")
    made = ps.create_array(str(tmp_path / "x.zarr"), shape=values.shape, dtype="i4", chunks=(4096,), codecs=["zstd"])
    made[...] = values
    expected = made.read(dtype="bfloat16")

    def read() -> None:
        np.testing.assert_array_equal(made.read(device="cuda", dtype="bfloat16").numpy(), expected)

    assert_warm(cuda, read, ["cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuStreamCreate", "legacy stream"])
