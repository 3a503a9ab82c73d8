"""Batches of `ps.loader` in device memory, against the fake driver: these tests have not run on a GPU.

They run in a separate process.
"""

from __future__ import annotations

import pickle
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, assert_warm, cuda, fake_cuda_library, slow_device

__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.arange(60 * 50, dtype="i2").reshape(60, 50)


def array(values: np.ndarray[Any, Any] = VALUES, chunks: tuple[int, ...] = (7, 50), **options: Any) -> ps.Array:
    return ps.create_array({}, data=values, chunks=chunks, dimension_names=("y", "x")[: values.ndim], **options)


def parts_of(batch: Any) -> list[ps.Tensor]:
    """The tensors of a batch of any form."""
    if isinstance(batch, dict):
        batch = tuple(batch.values())
    return [each for part in batch for each in parts_of(part)] if isinstance(batch, tuple) else [batch]


@pytest.mark.parametrize("seed", range(12))
def test_batches_on_the_device_are_those_of_the_host(cuda: FakeCuda, seed: int) -> None:
    cuda.configure(seed + 1, lazy=seed % 2 == 0, delay=20 * (seed % 3))
    draw = random.Random(seed)
    arrays: Any = {"a": array(chunks=(11, 13)), "b": array(VALUES[:, ::-1] / 8, (9, 50))}
    if seed % 3 == 0:
        arrays = arrays["a"]
    options: dict[str, Any] = {
        "crop": {"y": draw.choice([None, 5, 16]), "x": draw.randint(1, 30)},
        "pad": draw.choice([None, {"y": 3, "x": (0, 4)}]),
        "mask": draw.random() < 0.5,
        "batch_size": draw.randint(1, 9),
        "dtype": draw.choice([None, "float32", "bfloat16"]),
        "seed": seed,
        "depth": draw.randint(0, 3),
    }
    here, there = ps.loader(arrays, **options), ps.loader(arrays, **options, device="cuda:0")
    batches = 0
    for host, device in zip(here, there, strict=True):
        for one, other in zip(parts_of(host), parts_of(device), strict=True):
            assert (other.device, other.dtype, other.shape) == ("cuda:0", one.dtype, one.shape)
            assert other.numpy().tobytes() == one.numpy().tobytes()
        assert there.state_dict() == here.state_dict()
        batches += 1
    assert batches == len(here) == len(there)
    assert here.counts()["chunks_read"] == there.counts()["chunks_read"]
    assert cuda.count("legacy stream") == 0


def test_a_state_is_the_same_for_both_memories(cuda: FakeCuda) -> None:
    here, there = ps.loader(array(), batch_size=7), ps.loader(array(), batch_size=7, device="cuda")
    begun = iter(there)
    for _ in range(3):
        next(begun)
    here.load_state_dict(there.state_dict())
    again = pickle.loads(pickle.dumps(here.state_dict()))
    there.load_state_dict(again)
    rest = [batch.numpy().tobytes() for batch in here]
    assert len(rest) == 6
    assert [batch.numpy().tobytes() for batch in there] == rest


def test_a_warm_loader_allocates_no_memory(cuda: FakeCuda) -> None:
    stream = cuda.stream()
    loader = ps.loader(array(), batch_size=8, device="cuda", mask=True, pad={0: 4}, crop={0: 4})

    def train() -> None:
        for values, valid in loader:
            values.order(stream)
            valid.order(stream)

    calls = ["cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemFreeHost", "cuMemHostRegister", "cuEventCreate"]
    assert_warm(cuda, train, [*calls, "cuEventSynchronize", "cuStreamSynchronize", "legacy stream"])


def test_batches_are_ready_while_the_step_runs(cuda: FakeCuda) -> None:
    # The host does not wait for the device: neither for the copies nor for the step.
    stream = cuda.stream()
    cuda.configure(lazy=True)
    loader = ps.loader(array(), batch_size=6, device="cuda", depth=2, shuffle=False)
    cuda.reset()
    held = []
    for batch in loader:
        batch.order(stream)
        held.append(batch)
    waits = ("cuEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize")
    assert {each: cuda.count(each) for each in waits} == dict.fromkeys(waits, 0)
    assert len(held) == 10
    cuda.synchronize(stream)
    for i, batch in enumerate(held):
        found = cuda.peek(batch._read.address, batch.shape, batch.dtype)
        np.testing.assert_array_equal(found, VALUES[6 * i : 6 * i + 6])


def test_memory_is_not_overwritten_before_the_step_that_uses_it(cuda: FakeCuda) -> None:
    # The consumer copies each batch on its own stream, drops it, and checks the copies at the end.
    stream = cuda.stream()
    with slow_device(cuda):
        cuda.configure(5, lazy=True)
        loader = ps.loader(array(), batch_size=5, device="cuda", depth=1, shuffle=False)
        copies = []
        for batch in loader:
            batch.order(stream)
            copies.append(batch._read.copy(stream))
            batch.release(stream)
            del batch
    cuda.synchronize(stream)
    assert len(copies) == 12
    for i, copy in enumerate(copies):
        found = cuda.peek(copy.address, (5, 50), "i2")
        np.testing.assert_array_equal(found, VALUES[5 * i : 5 * i + 5])


def test_a_tensor_reports_when_its_copy_is_complete(cuda: FakeCuda) -> None:
    cuda.configure(lazy=True)
    batch = next(iter(ps.loader(array(), batch_size=4, device="cuda", shuffle=False)))
    assert not batch.done
    assert batch.synchronize() is batch
    assert batch.done
    np.testing.assert_array_equal(batch.numpy(), VALUES[:4])


def test_batches_are_exported_in_the_order_of_the_consumers_stream(cuda: FakeCuda) -> None:
    cuda.configure(lazy=True)
    stream = cuda.stream()
    batch = next(iter(ps.loader(array(), batch_size=4, device="cuda:0", shuffle=False)))
    assert batch.__dlpack_device__() == (2, 0)
    capsule = batch.__dlpack__(stream=stream, max_version=(1, 1))
    address, shape, _, _, device = ps._core._dlpack_view(capsule)
    assert (shape, device) == ((4, 50), (2, 0))
    cuda.synchronize(stream)
    np.testing.assert_array_equal(cuda.peek(address, shape, "i2"), VALUES[:4])
    assert batch.__cuda_array_interface__["shape"] == (4, 50)


def test_batches_may_be_larger_than_the_pinned_memory(cuda: FakeCuda) -> None:
    with ps.Context(page_locked=1 << 12) as small:
        a = ps.create_array({}, data=VALUES, chunks=(7, 50), context=small)
        found = [each.numpy() for each in ps.loader(a, batch_size=50, device="cuda", shuffle=False)]
    np.testing.assert_array_equal(np.concatenate(found), VALUES)


def test_failures_of_storage_are_raised_by_the_iteration(cuda: FakeCuda, tmp_path: Path) -> None:
    a = ps.create_array(tmp_path / "a.zarr", data=VALUES, chunks=(7, 50), codecs="gzip")
    (tmp_path / "a.zarr" / "c" / "3" / "0").write_bytes(b"too short")
    loader = ps.loader(a, batch_size=7, device="cuda", shuffle=False)
    begun = iter(loader)
    for _ in range(3):
        next(begun)
    with pytest.raises(ps.CorruptDataError, match="c/3/0"):
        next(begun)


def test_failures_of_the_device_are_raised(cuda: FakeCuda) -> None:
    context = ps.Context()
    a = ps.create_array({}, data=VALUES, chunks=(7, 50), context=context)
    out_of_memory = 2
    loader = ps.loader(a, batch_size=60, device="cuda", shuffle=False)
    cuda.fail("cuMemAlloc", out_of_memory)
    with pytest.raises(ps.Error, match="device memory"):
        next(iter(loader))
    cuda.fail("cuMemAlloc", 0)
    np.testing.assert_array_equal(next(iter(loader)).numpy(), VALUES)


def test_iterations_can_be_abandoned_at_any_point(cuda: FakeCuda) -> None:
    loader = ps.loader(array(), batch_size=3, device="cuda", depth=3)
    with slow_device(cuda):
        cuda.configure(9, lazy=True)
        for count in (0, 1, 5, 19):
            loader.set_epoch(0)
            begun = iter(loader)
            for _ in range(count):
                next(begun)
            time.sleep(0.002 * (count % 3))
        del begun, loader
