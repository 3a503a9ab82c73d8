"""Elements that chunks have beyond the edge of an array: writes keep or replace them as zarr-python does."""

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
    """`work` with zarr-python's own code, or by one of ours; it wraps the array that it opened."""
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


LAYOUTS: dict[str, dict[str, Any]] = {
    "shards": {"chunks": (2, 3), "shards": (6, 6)},
    "whole shards": {"chunks": (6, 6), "shards": (6, 6)},
    "chunks": {"chunks": (6, 6)},
    "transposed shards": {"chunks": (3, 2), "shards": (6, 6), "filters": [TransposeCodec(order=(1, 0))]},
}


def steps(draw: random.Random) -> list[tuple[str, Any]]:
    """Resizes, and writes of basic, orthogonal and coordinate selections, for an array of at most 12 x 12."""
    shape, made = (12, 12), []
    for _ in range(draw.randint(3, 9)):
        kind = draw.choice(["resize", "all", "box", "box", "rows", "points", "scalar"])
        ends = [sorted(draw.choices(range(n + 1), k=2)) for n in shape]
        if kind == "resize":
            shape = (draw.randint(1, 12), draw.randint(1, 12))
            made.append((kind, shape))
        elif kind == "box" and all(a < b for a, b in ends):
            made.append((kind, tuple(slice(a, b) for a, b in ends)))
        elif kind == "rows":
            made.append((kind, sorted(draw.sample(range(shape[0]), draw.randint(1, shape[0])))))
        elif kind == "points":
            made.append((kind, tuple([draw.randrange(n) for _ in range(4)] for n in shape)))
        elif kind in ("all", "scalar"):
            made.append((kind, None))
    return made


def contents(store: Any, layout: dict[str, Any], made: list[tuple[str, Any]], ours: Callable[[Any], Any]) -> list[Any]:
    array = ours(zarr.create_array(store, shape=(12, 12), dtype="i4", fill_value=-1, **layout))
    array[...] = np.arange(144).reshape(12, 12)
    seen = []
    for i, (kind, which) in enumerate(made):
        value = 1000 * (i + 1)
        if kind == "resize":
            array.resize(which)
        elif kind == "box":
            array[which] = value + np.arange(np.empty(array.shape, "u1")[which].size).reshape(
                np.empty(array.shape, "u1")[which].shape
            )
        elif kind == "rows":
            array.oindex[which, :] = value + np.arange(len(which) * array.shape[1]).reshape(len(which), -1)
        elif kind == "points":
            array.vindex[which] = value
        elif kind == "all":
            array[...] = value + np.arange(array.size).reshape(array.shape)
        else:
            array[...] = value
        seen.append(array[...])
    array.resize((12, 12))
    return [*seen, array[...]]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(examples(6)))
def test_any_resizes_and_writes_leave_the_values_of_zarr_python(
    seed: int, way: str, layout: str, tmp_path: Any
) -> None:
    draw = random.Random(seed)
    made, kind = steps(draw), draw.choice([*STORES][:3])
    want = run_by("own", lambda ours: contents(STORES[kind](tmp_path / "own"), LAYOUTS[layout], made, ours))
    got = run_by(way, lambda ours: contents(STORES[kind](tmp_path / "ours"), LAYOUTS[layout], made, ours))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=f"{made}")
