"""A small array inside zarr-python: its batched and its fused pipeline, Penstock's plug-in and Penstock's wrapper.

One chunk and the whole array, read and written, in a memory store and in files, with and without shards.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, repeated
from peers import Source

BATCHED, FUSED, PLUGIN, WRAP = "zarr-python default", "zarr-python fused", "penstock plug-in", "penstock wrap"


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    values = np.random.default_rng(1).random(scenario["shape"])
    chunks = tuple(scenario["chunks"])
    shards = tuple(scenario["shards"]) if "shards" in scenario else None
    one = tuple(slice(0, length) for length in chunks)
    works: dict[str, Callable[[Any], Callable[[], object]]] = {
        "read one chunk": lambda a: lambda: a[one],
        "read all": lambda a: lambda: a[:],
        "write one chunk": lambda a: lambda: a.__setitem__(one, values[one]),
        "write all": lambda a: lambda: a.__setitem__(slice(None), values),
    }
    source: Source = {} if scenario["store"] == "memory" else setting.folder
    peers = setting.peers([BATCHED, FUSED, PLUGIN, WRAP], source, result)
    opened = {}
    for peer in peers:
        with peer.active():
            array = make(setting, peer.name, scenario["store"], values, chunks, shards)
            if peer.name == WRAP:
                import penstock.zarr

                array = penstock.zarr.wrap(array)
            array[:] = values
            if not (np.array_equal(array[:], values) and np.array_equal(array[one], values[one])):
                result.failed = f"{peer.name} reads or writes wrong values"
            opened[peer.name] = array
    for work, bind in works.items():
        contestants = {
            peer.name: settled(peer, repeated(bind(opened[peer.name]), scenario["seconds_per_turn"])) for peer in peers
        }
        samples = in_turns(contestants, scenario["turns"])
        for name, taken in samples.items():
            result.add(f"{name}, {work}", taken)
        bars = [(PLUGIN, BATCHED, scenario["plugin_against_batched"][work]), (WRAP, BATCHED, 10)]
        if FUSED in samples:
            bars.append((PLUGIN, FUSED, 1.2))
        for ours, theirs, limit in bars:
            if ours in samples:
                ratio = samples[theirs].best / samples[ours].best
                result.bars.append(Bar(f"{work}: {ours} against {theirs}", ratio, limit, at_least=True, unit="x"))
    return result


def make(setting: Setting, who: str, store: str, values: np.ndarray, chunks: Any, shards: Any) -> Any:
    import zarr
    from zarr.codecs import ZstdCodec
    from zarr.storage import LocalStore, MemoryStore

    path = setting.folder / f"small-{who.replace(' ', '-')}.zarr"
    shutil.rmtree(path, ignore_errors=True)
    return zarr.create_array(
        store=MemoryStore() if store == "memory" else LocalStore(path),
        shape=values.shape,
        chunks=chunks,
        shards=shards,
        dtype="float64",
        compressors=ZstdCodec(),
        fill_value=0,
    )


def settled(peer: Any, timed: Callable[[], float]) -> Callable[[], float]:
    def measure() -> float:
        with peer.active():
            return timed()

    return measure
