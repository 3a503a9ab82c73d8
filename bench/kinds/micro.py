"""A Google Benchmark program: compares two of its benchmarks, by the best of their repetitions."""

from __future__ import annotations

import json
import subprocess

from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import Samples

NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    program = setting.build / f"bench_{scenario['program']}"
    if not program.exists():
        result.left_out[scenario["program"]] = (
            f"{program.name} is not built (needs Google Benchmark; `make bench` builds it)"
        )
        return result
    done = subprocess.run(
        [
            program,
            f"--benchmark_repetitions={scenario['repetitions']}",
            "--benchmark_enable_random_interleaving=true",
            f"--benchmark_min_time={scenario['min_time_s']}",
            "--benchmark_format=json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        result.failed = done.stderr.strip() or f"exit status {done.returncode}"
        return result
    samples: dict[str, Samples] = {}
    for run_ in json.loads(done.stdout)["benchmarks"]:
        if run_["run_type"] == "iteration":
            if run_.get("error_occurred"):
                result.failed = run_["error_message"]
                return result
            seconds = run_["real_time"] * NANOSECONDS[run_["time_unit"]] / 1e9
            samples.setdefault(run_["run_name"].split("/")[0], Samples()).seconds.append(seconds)
    for name, taken in samples.items():
        result.add(name, taken)
    for bar in scenario["bars"]:
        beyond = (samples[bar["reader"]].best - samples[bar["beyond"]].best) * 1e6
        result.bars.append(Bar(f"{bar['reader']} beyond {bar['beyond']}", beyond, bar["at_most_us"], False, "us"))
    return result
