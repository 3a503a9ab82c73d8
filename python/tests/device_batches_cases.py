"""Batches of crops in device memory, against the fake driver: these tests have not run on a GPU.

They run in a separate process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, assert_warm, cuda, fake_cuda_library

__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.arange(60 * 50, dtype="i2").reshape(60, 50)


@pytest.fixture
def arrays(tmp_path: Path) -> list[ps.Array]:
    made = []
    for i, chunks in enumerate([(7, 50), (11, 13)]):
        one = ps.create_array(str(tmp_path / f"{i}.zarr"), shape=VALUES.shape, dtype="i2", chunks=chunks)
        one[...] = VALUES + i
        made.append(one)
    return made


def samples_of(seed: int, count: int) -> list[tuple[int, Any]]:
    random = np.random.default_rng(seed)
    places = zip(
        random.integers(0, 2, count), random.integers(0, 44, count), random.integers(0, 34, count), strict=True
    )
    return [(int(which), np.s_[y : y + 16, x : x + 16]) for which, y, x in places]


@pytest.mark.parametrize("dtype", [None, "float32", "float16", "bfloat16"])
def test_batches_on_the_device_are_those_of_the_host(cuda: FakeCuda, arrays: list[ps.Array], dtype: str | None) -> None:
    cuda.configure(3, delay=20)
    samples = samples_of(1, 21)
    here = list(ps.batches(arrays, samples, batch_size=4, dtype=dtype))
    there = list(ps.batches(arrays, samples, batch_size=4, dtype=dtype, device="cuda:0"))
    assert [each.shape for each in there] == [(4, 16, 16)] * 5 + [(1, 16, 16)]
    for host, device in zip(here, there, strict=True):
        assert (device.device, device.dtype) == ("cuda:0", host.dtype)
        assert device.numpy().tobytes() == host.numpy().tobytes()
    for i, (which, box) in enumerate(samples):
        np.testing.assert_array_equal(here[i // 4].numpy()[i % 4], (VALUES[box] + which).astype(here[0].dtype))
    assert cuda.count("legacy stream") == 0


@pytest.mark.parametrize("axis", [0, 1])
def test_crops_of_joined_arrays_with_other_chunks(cuda: FakeCuda, arrays: list[ps.Array], axis: int) -> None:
    joined = ps.open_shards(arrays, axis=axis)
    values = np.concatenate([VALUES, VALUES + 1], axis)
    random = np.random.default_rng(axis)
    places = [(int(random.integers(0, n - 15)), int(random.integers(0, m - 15))) for n, m in [values.shape] * 30]
    samples = [(i % 2, np.s_[y : y + 16, x : x + 16]) for i, (y, x) in enumerate(places)]
    samples[1] = (1, np.s_[:16, :16])
    both = [joined, arrays[0]]
    samples = [(0 if max(box[0].stop - 60, box[1].stop - 50) > 0 else which, box) for which, box in samples]
    for device in (None, "cuda:0"):
        made = np.concatenate([each.numpy() for each in ps.batches(both, samples, batch_size=7, device=device)])
        for one, (which, box) in zip(made, samples, strict=True):
            np.testing.assert_array_equal(one, (values if which == 0 else VALUES)[box])


def test_the_memory_of_dropped_batches_is_reused(cuda: FakeCuda, arrays: list[ps.Array]) -> None:
    stream = cuda.stream()

    def train() -> None:
        seen = 0
        for batch in ps.batches(arrays, samples_of(3, 20), batch_size=5, dtype="f4", device="cuda", depth=1):
            batch.order(stream)
            seen += 1
        assert seen == 4

    assert_warm(cuda, train, ["cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuEventSynchronize", "legacy stream"])


def test_arrays_of_several_dtypes_are_in_one_batch(cuda: FakeCuda, arrays: list[ps.Array], tmp_path: Path) -> None:
    other = ps.create_array(str(tmp_path / "f.zarr"), shape=VALUES.shape, dtype="f8", chunks=(9, 9), codecs=["gzip"])
    other[...] = VALUES / 8
    all_of_them = {"a": arrays[0], "b": other}
    samples = [("a", np.s_[0:4, 1]), ("b", np.s_[3, 10:14]), ("a", np.s_[59:55:-1, -1])]
    batch = next(ps.batches(all_of_them, samples, batch_size=3, dtype="f4", device="cuda"))
    expected = [VALUES[0:4, 1], VALUES[3, 10:14] / 8, VALUES[59:55:-1, -1]]
    np.testing.assert_array_equal(batch.numpy(), np.array(expected, "f4"))
    with pytest.raises(ps.InvalidArgumentError, match="set the dtype"):
        next(ps.batches(all_of_them, samples, device="cuda"))


def test_failures_are_raised_by_the_batch(cuda: FakeCuda, arrays: list[ps.Array], tmp_path: Path) -> None:
    (tmp_path / "1.zarr" / "c" / "0" / "0").write_bytes(b"too short")
    with pytest.raises(ps.CorruptDataError, match=r"1\.zarr"):
        list(ps.batches(arrays, [(0, np.s_[:4, :4]), (1, np.s_[:4, :4])], device="cuda"))
    with pytest.raises(ps.InvalidArgumentError, match="one shape"):
        list(ps.batches(arrays, [(0, np.s_[:4, :4]), (1, np.s_[:4, :5])], device="cuda"))
    with pytest.raises(ps.UnsupportedError, match="slices and integers"):
        list(ps.batches(arrays, [(0, ps.oindex[[3, 1, 50], :])], device="cuda"))


def test_a_batch_that_failed_on_the_device_is_not_returned_with_check(
    cuda: FakeCuda, arrays: list[ps.Array], tmp_path: Path
) -> None:
    made = ps.create_array(str(tmp_path / "z"), shape=(4, 4096), dtype="f4", chunks=(1, 4096), codecs=["zstd"])
    made[...] = np.random.default_rng(3).integers(0, 8, (4, 4096)).cumsum(axis=1)
    file = tmp_path / "z" / "c" / "2" / "0"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(each ^ 0x5A for each in content[middle : middle + 40])
    file.write_bytes(content)
    samples = [np.s_[i : i + 1] for i in range(4)]
    checked = ps.batches(made, samples, batch_size=1, device="cuda", check=True)
    for i in range(2):
        np.testing.assert_array_equal(next(checked).numpy(), made[i : i + 1][None])
    with pytest.raises(ps.CorruptDataError, match="c/2/0"):
        next(checked)
    assert len(list(ps.batches(made, samples, batch_size=1, device="cuda"))) == 4


def test_a_loop_that_ends_early_leaves_no_read_running(cuda: FakeCuda, arrays: list[ps.Array]) -> None:
    for batch in ps.batches(arrays, samples_of(4, 40), batch_size=4, device="cuda", depth=3):
        np.testing.assert_array_equal(batch.numpy().shape, (4, 16, 16))
        break
