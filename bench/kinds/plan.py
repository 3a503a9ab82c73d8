"""Opening and planning an array of very many chunks: time and memory must not depend on their number."""

from __future__ import annotations

import json
import shutil

from harness.result import Bar, Result
from harness.setting import Setting

from kinds.memory import probe


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    path = setting.folder / f"{scenario['name']}.zarr"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    (path / "zarr.json").write_text(json.dumps(metadata(scenario["chunks"], scenario["chunk_elements"])))
    if not setting.peers(["penstock"], path, result):
        return result
    found = probe("plan", str(path), timeout=scenario["timeout_s"])
    if "error" in found:
        result.failed = found["error"]
        return result
    row = result.add_row("penstock open")
    row.best_s = row.median_s = found["open_s"]
    row = result.add_row("penstock plan")
    row.best_s = row.median_s = found["plan_s"]
    row.peak_bytes = found["peak_bytes"]
    row.note = found["plan_first_line"].rsplit(": ", 1)[-1]  # without the path
    mib = found["peak_bytes"] / 2**20
    result.bars.append(Bar("memory of opening and planning", mib, scenario["at_most_mib"], False, "MiB"))
    result.bars.append(
        Bar("opening and planning", found["open_s"] + found["plan_s"], scenario["at_most_s"], False, "s")
    )
    return result


def metadata(chunks: int, elements: int) -> dict:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [chunks * elements],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [elements]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
        ],
        "attributes": {},
    }
