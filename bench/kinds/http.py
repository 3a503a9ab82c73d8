"""Opens a sharded array over HTTP and reads from it, cold each time, from a server that answers late.

The time depends on the number of consecutive round trips, so times are also shown in round trips.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import arrays
from harness.range_server import serving
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    shape, latency = scenario["shape"], scenario["latency_ms"] / 1e3
    path = arrays.write(setting.folder, scenario["name"], shape, scenario["chunks"], scenario["shards"])
    expected = arrays.values(shape)
    with serving(path.parent, latency) as root:
        url = f"{root}/{path.name}"
        readers = {}
        for name, (needs, opened) in READERS.items():
            if missing := [module for module in needs if not importlib.util.find_spec(module)]:
                result.left_out[name] = f"not installed: {', '.join(missing)}"
            else:
                readers[name] = opened
        for part, bounds in scenario["reads"].items():
            pick = tuple(slice(low, high) for low, high in bounds)
            contestants: dict[str, Callable[[], float]] = {}
            for name, opened in readers.items():
                if not np.array_equal(opened(url, setting.threads)(pick), expected[pick]):
                    result.failed = f"{name} reads wrong values"
                contestants[name] = once(lambda opened=opened, pick=pick: opened(url, setting.threads)(pick))
            samples = in_turns(contestants, scenario["turns"])
            size = expected[pick].nbytes
            for name, taken in samples.items():
                note = f"{taken.best / latency:.2f} round trips"
                result.add(f"{name}, {part}", taken, bytes_out=size, note=note)
            ours = samples["penstock"]
            most = scenario["round_trips"].get(part)
            if most is not None:
                text = f"opening and reading {part}, in round trips"
                result.bars.append(Bar(text, ours.best / latency, most, at_least=False))
            others = {name: taken for name, taken in samples.items() if name != "penstock"}
            if others:
                fastest = min(others, key=lambda name: others[name].best)
                text = f"{part}: penstock against {fastest}"
                ratio = others[fastest].best / ours.best
                result.bars.append(Bar(text, ratio, scenario["at_least_of_peers"], at_least=True, unit="x"))
    return result


Read = Callable[[Any], np.ndarray]


def penstock(url: str, threads: int) -> Read:
    import penstock as ps

    with ps.Context(threads=threads):
        array = ps.open(url)
    return lambda pick: array[pick]


def zarr_with_obstore(url: str, threads: int) -> Read:
    import obstore
    import zarr
    from zarr.storage import ObjectStore

    store = obstore.store.HTTPStore.from_url(url, client_options={"allow_http": True})
    array = zarr.open_array(ObjectStore(store, read_only=True), mode="r")
    return lambda pick: np.asarray(array[pick])


def zarr_with_fsspec(url: str, threads: int) -> Read:
    import zarr

    array = zarr.open_array(url, mode="r", storage_options={"skip_instance_cache": True})
    return lambda pick: np.asarray(array[pick])


def tensorstore(url: str, threads: int) -> Read:
    import tensorstore as ts

    context = ts.Context({"data_copy_concurrency": {"limit": threads}})
    spec = {"driver": "zarr3", "kvstore": {"driver": "http", "base_url": f"{url}/"}}
    array = ts.open(spec, context=context, read=True).result()
    return lambda pick: array[pick].read().result()


READERS: dict[str, tuple[tuple[str, ...], Callable[[str, int], Read]]] = {
    "penstock": (("penstock",), penstock),
    "zarr-python and obstore": (("zarr", "obstore"), zarr_with_obstore),
    "zarr-python and fsspec": (("zarr", "fsspec", "aiohttp"), zarr_with_fsspec),
    "tensorstore": (("tensorstore",), tensorstore),
}
