"""Runs the benchmark's scenarios, prints them with their bars, and saves the results.

All libraries are measured in turns within one run, on the same processors, with the same number of threads; ratios are
reproducible even if absolute numbers of a shared machine are not.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
sys.path.insert(0, str(BENCH))

ORDER = (
    "benchmark_array_out",
    "benchmark_array_loop",
    "peers_whole",
    "one_chunk_memory",
    "one_chunk_cpp",
    "one_chunk_file_sharded",
    "one_chunk_file_unsharded",
    "two_chunks",
    "random_reads",
    "memory",
    "plan_1e9",
    "write_benchmark_array",
    "replace_benchmark_array",
    "http_write_bytes",
    "http_write_zstd",
    "overwrite_one_chunk",
    "select_points",
    "select_step",
    "select_rows",
    "select_mask",
    "cast_read",
    "loader",
    "http_loader",
    "rechunk",
    "appender",
    "write_async",
    "disk_cache",
    "open_group",
    "zarr_wrap_one_chunk",
    "zarr_plugin_whole",
    "zarr_small_memory",
    "zarr_small_memory_sharded",
    "zarr_small_file",
    "zarr_small_file_sharded",
    "community_512",
    "community_32",
    "community_32_in_512",
)


def scenarios(quick: bool = False) -> dict[str, dict]:
    """All scenario files, those with a known position first."""
    found = {path.stem: json.loads(path.read_text()) for path in (BENCH / "scenarios").glob("*.json")}
    names = [name for name in ORDER if name in found] + sorted(set(found) - set(ORDER))
    return {name: {**found[name], **(found[name]["quick"] if quick else {})} for name in names}


def main() -> int:
    known = scenarios()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of: {', '.join(known)}; all by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small arrays, few turns; nothing is written to results/")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench", help="where arrays are kept")
    build = ROOT / "build" / "release" / "bench"
    parser.add_argument("--build", type=Path, default=build, help="where the micro benchmarks were built")
    parser.add_argument("--results", type=Path, default=BENCH / "results")
    parser.add_argument("--no-results", action="store_true", help="print only")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - set(known):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")

    # Before any peer starts its threads: no contestant gets more processors than threads.
    processors = sorted(os.sched_getaffinity(0))[: options.threads]
    os.sched_setaffinity(0, processors)
    if len(processors) < options.threads:
        print(f"note: {options.threads} threads on {len(processors)} processors")

    from harness import machine
    from harness.result import Result, as_text
    from harness.setting import Setting
    from penstock.view.demo import ceiling

    program = ceiling.find()
    if program is None:
        print("penstock_ceiling is not built: `make bench` builds it", file=sys.stderr)
        return 1
    setting = Setting(options.folder, options.threads, program, options.build, lambda line: print(line, flush=True))
    now = datetime.datetime.now(datetime.UTC)
    path, others = None, []
    if not options.quick and not options.no_results:
        options.results.mkdir(parents=True, exist_ok=True)
        path = options.results / f"{machine.slug()}-{machine.commit()}-{now.date().isoformat()}.json"
        if options.scenarios and path.exists():  # a part of the run is repeated, or done now
            others = json.loads(path.read_text())["results"]
    results: list[Result] = []

    def keep() -> None:
        """Write the results so far, so that an interrupted run keeps them."""
        if path is None:
            return
        fresh = {result.scenario for result in results}
        document = {
            "machine": machine.describe(),
            "commit": machine.commit(),
            "date": now.isoformat(timespec="seconds"),
            "threads": options.threads,
            "results": [r for r in others if r["scenario"] not in fresh] + [result.as_json() for result in results],
        }
        path.write_text(json.dumps(document, indent=1) + "\n")

    for name, scenario in scenarios(options.quick).items():
        if options.scenarios and name not in options.scenarios:
            continue
        try:
            result = importlib.import_module(f"kinds.{scenario['kind']}").run(scenario, setting)
        except Exception as error:
            traceback.print_exc()
            result = Result(name, scenario["title"], failed=f"{type(error).__name__}: {error}".splitlines()[0])
        results.append(result)
        keep()
        print(as_text(result) + "\n", flush=True)

    bars = [bar for result in results for bar in result.bars]
    failed = [result.scenario for result in results if result.failed]
    print(f"{sum(bar.passed for bar in bars)} of {len(bars)} bars met; {len(failed)} scenarios failed")
    if path is not None:
        print(f"Wrote {path}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
