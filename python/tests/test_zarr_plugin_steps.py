"""Sequences of resizes, appends and writes leave the values and the objects that zarr-python leaves."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import penstock.zarr as pz
import pytest
import zarr
from conftest import examples
from zarr.codecs import TransposeCodec
from zarr.storage import LocalStore, MemoryStore, WrapperStore

fused = pytest.importorskip("zarr.core.codec_pipeline", reason="needs zarr-python 3")
if not hasattr(fused, "FusedCodecPipeline"):
    pytest.skip("needs the synchronous pipeline of zarr-python 3.4", allow_module_level=True)

from zarr.testing.store import LatencyStore  # noqa: E402

STORES: dict[str, Callable[[Any], Any]] = {
    "local": LocalStore,
    "memory": lambda _: MemoryStore(),
    "sync": lambda _: WrapperStore(MemoryStore()),
    "waiting": lambda _: LatencyStore(MemoryStore(), get_latency=0.006, set_latency=0.0),
}
WAYS = ("pipeline", "bypass", "wrap")


def run_by(way: str, work: Callable[[Callable[[Any], Any]], Any]) -> Any:
    """`work` with zarr-python's own code, or by one of ours; it passes the array that it opened to its argument."""
    if way == "wrap":
        return work(pz.wrap)
    if way == "own":
        return work(lambda array: array)
    pz.enable(bypass=way == "bypass")
    try:
        return work(lambda array: array)
    finally:
        pz.disable()


@pytest.mark.parametrize("chunk", [1, 2, 4])
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("way", ["own", *WAYS])
def test_a_shard_keeps_what_a_smaller_shape_hides(way: str, kind: str, chunk: int, tmp_path: Any) -> None:
    def work(ours: Callable[[Any], Any]) -> None:
        store = STORES[kind](tmp_path)
        array = ours(zarr.create_array(store, shape=(4,), chunks=(chunk,), shards=(4,), dtype="i2", fill_value=0))
        array[:] = [1, 2, 3, 4]
        array.resize((2,))
        array[:] = [9, 9]
        array.resize((4,))
        np.testing.assert_array_equal(array[:], [9, 9, 3, 4])

    run_by(way, work)


class Steps:
    """Random steps on one array. Two objects of one seed do the same, whatever writes them.

    Lists have each index once: which of several values remains is undefined in zarr-python.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        draw = self.draw
        shape = tuple(draw.randint(1, 9) for _ in range(draw.randint(1, 3)))
        chunks = tuple(draw.randint(1, 4) for _ in shape)
        self.dtype = np.dtype(draw.choice(["i4", "f8", "u1", "?", ">i4", "M8[s]", "c8", "S3", "U2"]))
        self.options: dict[str, Any] = {"shape": shape, "chunks": chunks, "dtype": self.dtype}
        self.options["config"] = {"write_empty_chunks": draw.random() < 0.3}
        if self.dtype.kind in "iuf":
            self.options["fill_value"] = draw.randint(0, 1)
        if draw.random() < 0.2:
            self.options |= {"zarr_format": 2, "order": draw.choice("CF")}
        else:
            self.options["shards"] = draw.choice([None, tuple(n * draw.randint(1, 3) for n in chunks)])
            if draw.random() < 0.2:
                self.options["filters"] = [TransposeCodec(order=tuple(reversed(range(len(shape)))))]
        self.count = 0

    def values(self, shape: tuple[int, ...]) -> Any:
        """Values that no other step writes, or zeros."""
        self.count += 1
        size = int(np.prod(shape, dtype=int))
        numbers = np.arange(size) * 7 + self.count * 13 + 1
        if self.draw.random() < 0.25:
            numbers *= 0
        if self.dtype.kind in "SU":
            return np.array([str(n % 97) for n in numbers]).astype(self.dtype).reshape(shape)
        return (numbers % 120).astype("i8").astype(self.dtype).reshape(shape)

    def part(self, length: int) -> Any:
        draw = self.draw
        if draw.random() < 0.2:
            return draw.randrange(length)
        start, stop = sorted((draw.randint(0, length), draw.randint(0, length)))
        return slice(start, stop, draw.choice([1, 1, 2, 3, None]))

    def rows(self, length: int) -> list[int]:
        return sorted(self.draw.sample(range(length), self.draw.randint(1, min(4, length))))

    def take(self, array: Any) -> None:
        """One step."""
        draw, shape = self.draw, array.shape
        kind = draw.choice(["all", "basic", "basic", "orthogonal", "points", "mask", "block", "append", "resize"])
        if kind == "all":
            array[...] = self.values(draw.choice([shape, ()]))
        elif kind == "basic":
            key = tuple(map(self.part, shape))
            array[key] = self.values(draw.choice([np.empty(shape, "u1")[key].shape, ()]))
        elif kind == "orthogonal":
            key = tuple(draw.choice([self.rows, self.part])(n) for n in shape)
            array.oindex[key] = self.values(array.oindex[key].shape)
        elif kind == "points":
            many = draw.randint(1, min(shape))
            array.vindex[tuple(draw.sample(range(n), many) for n in shape)] = self.values((many,))
        elif kind == "mask":
            mask = np.array(draw.choices([True, False], k=int(np.prod(shape)))).reshape(shape)
            array.set_mask_selection(mask, self.values((int(mask.sum()),)))
        elif kind == "block":
            key = tuple(draw.choice([slice(None), draw.randrange(n)]) for n in array.cdata_shape)
            array.set_block_selection(key, self.values(array.get_block_selection(key).shape))
        elif kind == "append":
            axis = draw.randrange(len(shape))
            array.append(self.values((*shape[:axis], draw.randint(1, 3), *shape[axis + 1 :])), axis=axis)
        else:
            array.resize(tuple(draw.randint(1, 10) for _ in shape))


def outcome(seed: int, ours: Callable[[Any], Any]) -> tuple[list[Any], list[str]]:
    """The values after each step and those that were hidden by the last shape, and the keys of the store."""
    steps, store = Steps(seed), MemoryStore()
    array = ours(zarr.create_array(store, **steps.options))
    seen: list[Any] = []
    for _ in range(8):
        try:
            steps.take(array)
        except Exception as error:
            seen.append(type(error))
        seen.append(array[...])
    array.resize(tuple(30 for _ in array.shape))
    return [*seen, array[...]], sorted(store._store_dict)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(examples(40)))
def test_any_steps_leave_what_zarr_python_leaves(seed: int, way: str) -> None:
    want, keys = run_by("own", lambda ours: outcome(seed, ours))
    got, our_keys = run_by(way, lambda ours: outcome(seed, ours))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=str(Steps(seed).options))
    assert our_keys == keys
