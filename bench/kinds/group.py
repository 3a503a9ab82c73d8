"""Opens a group of many arrays by its consolidated metadata, and every array in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once


def run(scenario: dict, setting: Setting) -> Result:
    import penstock as ps
    import zarr

    result = Result(scenario["name"], scenario["title"])
    path = setting.folder / "group.zarr"
    if not (path / "zarr.json").exists():
        write(path, scenario["arrays"])
    names = [f"a{i:04}" for i in range(scenario["arrays"])]

    def ours() -> int:
        group = ps.open_group(str(path))
        return sum(group[name].shape[0] for name in names)

    def theirs() -> int:
        group = zarr.open_group(str(path), mode="r", use_consolidated=True)
        return sum(group[name].shape[0] for name in names)

    if ours() != theirs():
        result.failed = "penstock sees other shapes"
    contestants: dict[str, Callable[[], float]] = {
        "penstock": once(ours),
        "zarr-python": once(theirs),
        "penstock, open only": once(lambda: ps.open_group(str(path))),
        "zarr-python, open only": once(lambda: zarr.open_group(str(path), mode="r", use_consolidated=True)),
    }
    samples = in_turns(contestants, scenario["turns"])
    for name, taken in samples.items():
        result.add(name, taken)
    for suffix in ("", ", open only"):
        ratio = samples["zarr-python" + suffix].best / samples["penstock" + suffix].best
        text = f"penstock against zarr-python{suffix}"
        result.bars.append(Bar(text, ratio, scenario["at_least"], at_least=True, unit="x"))
    return result


def write(path: Path, arrays: int) -> None:
    import zarr

    shutil.rmtree(path, ignore_errors=True)
    group = zarr.create_group(str(path))
    for i in range(arrays):
        group.create_array(f"a{i:04}", shape=(i + 1, 10), chunks=(10, 10), dtype="float32", attributes={"i": i})
    zarr.consolidate_metadata(str(path))
