"""Peak memory beyond the result, with each reader in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from harness.result import Bar, Result
from harness.setting import Setting
from penstock.view.demo import benchmark_array

PROBE = Path(__file__).resolve().parents[1] / "probe.py"


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    array, reason = benchmark_array.choose(setting.folder, scenario["shards"] / benchmark_array.SHARDS, copies=2.2)
    if reason:
        result.notes.append(reason)
    array.ensure(setting.say)
    for peer in setting.peers(scenario["readers"], array.path, result):
        way = "out" if peer.name == "penstock" else "index"
        found = probe("read", peer.name, way, str(setting.threads), str(array.path), timeout=scenario["timeout_s"])
        who = f"{peer.name} out=" if way == "out" else peer.name
        if "error" in found:
            result.left_out[who] = found["error"]
            continue
        row = result.add_row(who)
        row.peak_bytes = found["peak_bytes"]
        if peer.name == "penstock":
            mib = found["peak_bytes"] / 2**20
            result.bars.append(Bar("Penstock's peak beyond the result", mib, scenario["at_most_mib"], False, "MiB"))
    return result


def probe(*arguments: str, timeout: float) -> dict:
    try:
        done = subprocess.run(
            [sys.executable, str(PROBE), *arguments], capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {timeout:g} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return {"error": last}
    return json.loads(done.stdout.splitlines()[-1])
