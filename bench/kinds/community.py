"""The workloads of the community's benchmarks: a cube of uint16, read as a whole, read chunk by chunk, and copied.

The cube is smooth with some noise, so that zstd compresses it to about a third; all readers get the same data. A round
trip reads the whole array and writes it to a new array with the same chunks.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator

import numpy as np
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import Samples, in_turns, once


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    edge = scenario["edge"]
    chunks, shards = (scenario["chunk"],) * 3, (scenario["shard"],) * 3 if "shard" in scenario else None
    values = cube(edge)
    path = setting.folder / f"{scenario['name']}.zarr"
    shape = (edge,) * 3
    peers = setting.peers(scenario["readers"], path, result)
    writer = next((peer for peer in peers if peer.name == "tensorstore"), peers[0])
    writer.create(path, shape, "uint16", chunks, shards)[:] = values
    unit = shards or chunks
    for work in scenario["work"]:
        contestants: dict[str, Callable[[], float]] = {}
        for peer in peers:
            contestants[peer.name] = WORK[work](peer, path, setting, values, chunks, shards)
        samples = in_turns(contestants, scenario["turns"], warm_up=scenario["warm_up"])
        report(result, f"{work}", samples, values.nbytes, scenario["at_least"])
    result.notes.append(f"chunk by chunk: {edge // unit[0]} x {edge // unit[1]} x {edge // unit[2]} reads")
    shutil.rmtree(path, ignore_errors=True)
    return result


def cube(edge: int) -> np.ndarray:
    """A slow wave along each axis and three bits of noise."""
    wave = (2000 * np.sin(np.arange(edge) / 50)).astype("int16")
    noise = np.random.default_rng(1).integers(0, 8, (edge, edge), dtype="uint16")
    out = np.empty((edge,) * 3, dtype="uint16")
    for z in range(edge):
        np.add(wave[:, None] + wave[None, :] + wave[z] + 10_000, np.roll(noise, z), out=out[z], casting="unsafe")
    return out


def boxes(shape: tuple[int, ...], unit: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    for corner in itertools.product(*(range(0, n, u) for n, u in zip(shape, unit, strict=True))):
        yield tuple(slice(low, low + u) for low, u in zip(corner, unit, strict=True))


def read_all(peer, path, setting, values, chunks, shards) -> Callable[[], float]:
    opened = peer.open(path)
    with peer.active():
        if not np.array_equal(opened[:], values):
            raise ValueError(f"{peer.name} reads wrong values")
    return active(peer, once(lambda: opened[:]))


def chunk_by_chunk(peer, path, setting, values, chunks, shards) -> Callable[[], float]:
    opened = peer.open(path)
    parts = list(boxes(values.shape, shards or chunks))

    def read() -> None:
        for part in parts:
            opened[part]

    return active(peer, once(read))


def round_trip(peer, path, setting, values, chunks, shards) -> Callable[[], float]:
    opened = peer.open(path)
    copy = setting.folder / f"copy-by-{peer.name.replace(' ', '-')}.zarr"

    def copy_all() -> None:
        target = peer.create(copy, values.shape, "uint16", chunks, shards)
        target[:] = opened[:]

    timed = active(peer, once(copy_all))

    def measured() -> float:
        seconds = timed()
        shutil.rmtree(copy, ignore_errors=True)
        return seconds

    return measured


def active(peer, timed: Callable[[], float]) -> Callable[[], float]:
    def measure() -> float:
        with peer.active():
            return timed()

    return measure


WORK = {"read all": read_all, "chunk by chunk": chunk_by_chunk, "round trip": round_trip}


def report(result: Result, work: str, samples: dict[str, Samples], nbytes: int, at_least: float) -> None:
    for name, taken in samples.items():
        result.add(f"{name}, {work}", taken, bytes_out=nbytes)
    others = {name: taken.best for name, taken in samples.items() if name != "penstock"}
    fastest = min(others, key=lambda name: others[name])
    ratio = others[fastest] / samples["penstock"].best
    result.bars.append(Bar(f"{work}: penstock against {fastest}", ratio, at_least, at_least=True, unit="x"))
