"""Points, steps, lists of rows, masks: compared with other libraries, and with libzstd alone on the touched chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import arrays
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired

# Each reader's form of a selection of the kind; None if it does not have one.
SPELLING: dict[str, dict[str, Callable[[Any, Any], Any]]] = {
    "points": {"zarr": lambda a, s: a.vindex[s], "tensorstore": lambda a, s: a.vindex[s]},
    "step": {"zarr": lambda a, s: a[s], "tensorstore": lambda a, s: a[s]},
    "rows": {"zarr": lambda a, s: a.oindex[s], "tensorstore": lambda a, s: a.oindex[s]},
    "mask": {"zarr": lambda a, s: a.vindex[s], "tensorstore": lambda a, s: a.vindex[s]},
}


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    shape, chunks = scenario["shape"], scenario["chunks"]
    path = arrays.write(setting.folder, "selections", shape, chunks, scenario.get("shards"))
    values = arrays.values(shape)
    which = selection_of(scenario, shape)
    expected = values[which]
    per_shard = math.prod(scenario["shards"]) // math.prod(chunks) if scenario.get("shards") else None
    encoded = arrays.encoded_chunks(path, math.prod(chunks) * 4, per_shard)
    touched = [encoded[i] for i in touched_chunks(which, shape, chunks)]
    contestants: dict[str, Callable[[], float]] = {}
    with setting.ceiling(touched) as ceiling:
        contestants["ceiling decode"] = lambda: ceiling.measure("decode").seconds
        for peer in setting.peers(scenario["readers"], path, result):
            opened = peer.open(path)
            spell = SPELLING[scenario["selection"]]["tensorstore" if peer.name == "tensorstore" else "zarr"]
            target = opened.raw if peer.name == "tensorstore" else opened
            read = reading(peer, spell, target, which)
            with peer.active():
                if not np.array_equal(read(), expected):
                    result.failed = f"{peer.name} reads wrong values"
            contestants[peer.name] = timed(peer, read)
        samples = in_turns(contestants, scenario["turns"])
    result.ceilings["decode_s"] = samples["ceiling decode"].best
    for name, taken in samples.items():
        if not name.startswith("ceiling "):
            row = result.add(name, taken, bytes_out=expected.nbytes)
            row.fraction_of_ceiling = paired(taken, samples["ceiling decode"])
    ours = samples["penstock"]
    others = {name: taken for name, taken in samples.items() if name not in ("penstock", "ceiling decode")}
    fastest = min(others, key=lambda name: others[name].best)
    ratio, fraction = others[fastest].best / ours.best, paired(ours, samples["ceiling decode"])
    # One of the two bars is enough; the one that is nearer to its bar (or further above it) is shown.
    of_peers, of_ceiling = scenario["at_least_of_peers"], scenario["at_least_of_ceiling"]
    if ratio / of_peers >= fraction / of_ceiling:
        result.bars.append(Bar(f"penstock against {fastest}, best runs", ratio, of_peers, True, "x"))
    else:
        text = "penstock against libzstd alone on the chunks touched, median of turns"
        result.bars.append(Bar(text, fraction, of_ceiling, True, "x"))
    return result


def selection_of(scenario: dict, shape: list[int]) -> Any:
    random = np.random.default_rng(scenario.get("seed", 1))
    kind = scenario["selection"]
    if kind == "points":
        return tuple(random.integers(0, length, scenario["points"]) for length in shape)
    if kind == "step":
        return (slice(None, None, scenario["step"]), *[slice(None)] * (len(shape) - 1))
    if kind == "rows":
        return (np.sort(random.choice(shape[0], scenario["rows"], replace=False)), *[slice(None)] * (len(shape) - 1))
    return random.random(shape) < scenario["density"]


def touched_chunks(which: Any, shape: list[int], chunks: list[int]) -> list[int]:
    grid = [-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True)]
    if isinstance(which, np.ndarray):
        which = np.nonzero(which)
    if all(isinstance(part, np.ndarray) for part in which):
        cells = [part // chunk for part, chunk in zip(which, chunks, strict=True)]
        return sorted(set(np.ravel_multi_index(cells, grid).tolist()))
    first = np.arange(shape[0])[which[0]] // chunks[0]
    others = math.prod(grid[1:])
    return [int(row) * others + i for row in np.unique(first) for i in range(others)]


def reading(peer: Any, spell: Callable[[Any, Any], Any], opened: Any, which: Any) -> Callable[[], Any]:
    if peer.name == "tensorstore":
        return lambda: spell(opened, which).read().result()
    return lambda: spell(opened, which)


def timed(peer: Any, read: Callable[[], Any]) -> Callable[[], float]:
    clocked = once(read)

    def measure() -> float:
        with peer.active():
            return clocked()

    return measure
