"""Many Zarr arrays as one: reading them, reading a window of them, and opening thousands of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    {"read": reading, "open": opening}[scenario["what"]](scenario, setting, result)
    return result


def parts_of(scenario: dict, setting: Setting) -> list[str]:
    """The paths of the parts, each with other values. Parts that do not exist are written."""
    rows, columns, chunk = scenario["rows"], scenario["columns"], scenario["chunk_rows"]
    folder = setting.folder / f"joined_{scenario['parts']}_{rows}_{columns}"
    paths = [folder / f"{number:05}.zarr" for number in range(scenario["parts"])]
    context = ps.Context(threads=setting.threads)
    for number, path in enumerate(paths):
        if not path.exists():
            noise = np.random.default_rng(number).integers(-3, 4, (rows, columns))
            values = np.cumsum(noise, axis=1).astype("f4")
            ps.create_array(path, data=values, chunks=(chunk, columns), codecs=["bytes", "zstd"], context=context)
    return [str(path) for path in paths]


def reading(scenario: dict, setting: Setting, result: Result) -> None:
    paths = parts_of(scenario, setting)
    context = ps.Context(threads=setting.threads, chunk_cache=0)
    parts = [ps.open(path, context=context) for path in paths]
    joined = ps.open_shards(paths, context=context)
    out = np.ones(joined.shape, joined.dtype)
    rows = scenario["rows"]

    def one_after_another() -> None:
        for number, part in enumerate(parts):
            part.read(out=out[number * rows : (number + 1) * rows])

    one_after_another()
    if not np.array_equal(joined[...], out):
        result.failed = "the joined array has other values than its parts"
    samples = in_turns(
        {
            "penstock, joined": once(lambda: joined.read(out=out)),
            "penstock, the parts in turn": once(one_after_another),
        },
        scenario["turns"],
    )
    for name, taken in samples.items():
        result.add(name, taken, bytes_out=joined.nbytes)
    ratio = paired(samples["penstock, joined"], samples["penstock, the parts in turn"])
    result.bars.append(Bar("joined against the parts in turn", ratio, scenario["at_least"], True, "x"))
    chunk = scenario["chunk_rows"]
    window = np.s_[rows - 1 : rows + 1, : scenario["columns"] // 2]  # one chunk in each of two parts
    wanted = chunk_bytes(paths[0], rows // chunk - 1) + chunk_bytes(paths[1], 0)
    beyond = joined.plan(window).fetched_bytes - wanted
    result.bars.append(Bar("bytes that a window fetches beyond its chunks", beyond, 0, at_least=False, unit="B"))


def chunk_bytes(path: str, row: int) -> int:
    """The stored size of a chunk."""
    return (Path(path) / "c" / str(row) / "0").stat().st_size


def opening(scenario: dict, setting: Setting, result: Result) -> None:
    paths = parts_of(scenario, setting)
    context = ps.Context(threads=setting.threads)
    joined = ps.open_shards(paths, context=context)
    if not np.array_equal(joined[-scenario["rows"] :], ps.open(paths[-1])[...]):
        result.failed = "the joined array has other values than its last part"
    samples = in_turns(
        {
            "penstock, open_shards": once(lambda: ps.open_shards(paths, context=context)),
            "penstock, a loop of open": once(lambda: [ps.open(path, context=context) for path in paths]),
        },
        scenario["turns"],
    )
    for name, taken in samples.items():
        result.add(name, taken)
    ratio = paired(samples["penstock, open_shards"], samples["penstock, a loop of open"])
    result.bars.append(Bar("open_shards against a loop of open", ratio, scenario["at_least"], True, "x"))
