"""Runs test suites and benchmarks of others with their own code and with Penstock in its place.

    tools/test_peers.py [SUITE[:MODE] ...] [--jobs N] [--table FILE] [-- PYTEST ARGUMENTS]
    tools/test_peers.py --fetch

| suite | mode | what runs |
|---|---|---|
| zarr | pipeline, bypass | zarr-python's tests with `penstock.zarr` as its codec pipeline; without its event loop |
| zarr_benchmarks | pipeline, bypass | zarr-python's benchmarks (`tests/benchmarks`) with the same |
| xarray | pipeline, bypass | xarray's `test_backends.py` and `test_backends_datatree.py` with the same |
| xarray | engine | the same tests, what they wrote is opened by `engine="penstock"` |
| dataset_io | engine | xarray's benchmarks of reading files, opened by `engine="penstock"` |
| rioxarray | engine | rioxarray's integration tests, GeoTIFFs opened by `engine="penstock"` |
| pyfive, h5py | engine | their tests; values, attributes and lists of members come from `penstock.open` |
| virtualizarr, kerchunk, icechunk | engine | their tests, datasets opened by `engine="penstock"` |
| virtualizarr, kerchunk, icechunk | pipeline | their tests with `penstock.zarr` as zarr-python's codec pipeline |
| gdal | engine | the checksums that GDAL's tests expect of GeoTIFFs, of what `penstock.open` reads |
| conformance | engine | zarr-conformance-tests with `penstock read` |

Each suite first runs with the peer's own code, in the same environment. A test that passes there must pass with
Penstock, unless `tools/peers/reasons.toml` gives the reason. Each run prints how many reads the engine did, and why it
did not do others. Exit status 1 if a test is worse without a reason, if a reason matches no test any more, or if the
engine read nothing.

The tests of zarr-python, pyfive and VirtualiZarr, and xarray's benchmarks come from their source
distributions, xarray's and h5py's tests from the installed packages. The others are published only in repositories
(rioxarray, kerchunk, icechunk, gdal, zarr-conformance-tests): `--checkout NAME=FOLDER` names a checkout, without one
git clones it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from peer_page import REASONS, Comparison, Outcomes, Reads, Times, counts, page, times_of
from peer_suites import PLUGINS, REQUIREMENTS, SUITES, WORK, Suite, zarr_folder

# zarr-python's suite names its pipelines in subclasses: this adds Penstock's.
PIPELINE_SUITE = """
from tests.test_codec_pipeline_suite import CodecPipelineTests


class TestPenstockPipeline(CodecPipelineTests):
    pipeline_path = "penstock.zarr.CodecPipeline"
"""


def site_of(suite: Suite) -> Path:
    """A folder with what a suite needs beyond the requirements of our tests; it does not go into .venv."""
    wanted = REQUIREMENTS / suite.requirements
    site = WORK / f"site-{wanted.stem}"
    stamp = site / wanted.name
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(site)]
        subprocess.run([*install, "-r", str(wanted)], check=True)
        shutil.copy(wanted, stamp)
    return site


def announce_pipeline() -> None:
    """Makes the pipeline known to processes that tests start, as the entry point of an installed package does."""
    metadata = WORK / "penstock_peers-0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock_peers\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("[zarr.codec_pipeline]\npenstock = penstock.zarr:CodecPipeline\n")


def run(suite: Suite, mode: str, options: argparse.Namespace, only: list[str] | None = None) -> Outcomes:
    """Runs a suite in a mode ("default": the peer's own code) and returns the outcome of each test, or of `only`."""
    folder = suite.folder(options)
    announce_pipeline()
    name = f"{suite.name}-{mode}" + ("-part" if options.extra else "")
    report = WORK / f"{name}.xml"
    report.unlink(missing_ok=True)
    counts_folder = WORK / f"{name}-counts"
    shutil.rmtree(counts_folder, ignore_errors=True)
    counts_folder.mkdir(parents=True)
    environment = dict(os.environ, PENSTOCK_PEERS_SUITE=suite.name, PENSTOCK_PEERS_MODE=mode)
    environment["PENSTOCK_PEERS_COUNTS"] = str(counts_folder)
    environment["PATH"] = os.pathsep.join([str(site_of(suite) / "bin"), environment["PATH"]])  # pyfive's `p5dump`
    if only is not None:
        chosen_names = WORK / f"{name}-only.txt"
        chosen_names.write_text("\n".join(each.rpartition("::")[2] for each in only))
        environment["PENSTOCK_PEERS_ONLY"] = str(chosen_names)
    paths = [str(PLUGINS), str(WORK), str(site_of(suite)), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    extra = []
    if suite.name.startswith("zarr") and mode != "default":
        environment["ZARR_CODEC_PIPELINE__PATH"] = "penstock.zarr.CodecPipeline"
    if suite.name == "zarr" and mode != "default":
        (folder / "tests" / "test_penstock_suite.py").write_text(PIPELINE_SUITE)
    elif suite.name == "zarr":
        (folder / "tests" / "test_penstock_suite.py").unlink(missing_ok=True)
    if suite.name == "icechunk":
        environment["ICECHUNK_XARRAY_BACKENDS_TESTS"] = "1"
    if suite.times:
        medians = WORK / f"{name}-times.json"
        medians.unlink(missing_ok=True)
        extra += [f"--benchmark-json={medians}"]
    if options.jobs > 1 and not suite.one_process:
        extra += ["-n", str(options.jobs), "--dist", "loadfile" if suite.name == "zarr" else "load"]
    settings = WORK / "pytest.ini"  # the suites' own settings ask for plugins
    settings.write_text("[pytest]\nasyncio_mode = auto\nmarkers =\n    slow_hypothesis\n    gpu\n    flaky\n    mypy\n")
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--timeout=900"]
    command += ["-p", "penstock_peers", "-c", str(settings), "--rootdir", str(folder), "--tb=short"]
    command += ["--hypothesis-seed=0", f"--junitxml={report}", *suite.arguments, *extra]
    command += ["--continue-on-collection-errors"]  # a module whose imports fail is one failed test
    with (WORK / f"{name}.log").open("w") as log:
        subprocess.run(
            [*command, *suite.tests, *options.extra], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    if not report.exists():
        raise SystemExit(f"pytest made no report: see {log.name}")
    return outcomes(report)


def outcomes(report: Path) -> Outcomes:
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return found


def compare(suite: Suite, mode: str, default: Outcomes, ours: Outcomes, part: bool) -> Comparison:
    reasons = reasons_of(suite.name, mode)
    worse = [name for name, outcome in default.items() if outcome == "passed" and ours.get(name) != "passed"]
    # Tests that only run with Penstock have nothing to be compared with: they must pass.
    worse += [name for name, outcome in ours.items() if name not in default and outcome == "failed"]
    explained: dict[str, list[str]] = {}
    left = []
    for name in sorted(worse):
        why = next((why for pattern, why in reasons.items() if re.search(pattern, name)), None)
        if why is None:
            left.append(f"{ours.get(name, 'gone')}: {name}")
        else:
            explained.setdefault(why, []).append(name)
    unused = [pattern for pattern in reasons if not any(re.search(pattern, name) for name in worse)]
    suffix = "-part" if part else ""
    reads = Reads.of(WORK / f"{suite.name}-{mode}{suffix}-counts")
    theirs, measured = (times(suite, each, suffix) for each in ("default", mode))
    both = {name: (theirs[name], measured[name]) for name in theirs.keys() & measured.keys()}
    default_counts, our_counts = Counter(default.values()), Counter(ours.values())
    return Comparison(suite, mode, default_counts, our_counts, explained, left, unused, reads, both)


def times(suite: Suite, mode: str, suffix: str) -> Times:
    return times_of(WORK / f"{suite.name}-{mode}{suffix}-times.json")


def reasons_of(suite: str, mode: str) -> dict[str, str]:
    """Pattern of tests' names -> why they may fail, of `tools/peers/reasons.toml`."""
    with REASONS.open("rb") as stream:
        document = tomllib.load(stream)
    return {
        pattern: each["why"]
        for each in document.get("reason", [])
        if each["suite"] == suite and mode in each["modes"]
        for pattern in each["tests"]
    }


def fetch(options: argparse.Namespace) -> int:
    """Downloads zarr-python's tests, or reports why they are not available."""
    try:
        zarr_folder(options)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"zarr-python's own tests are not available and will be skipped: {error}")
    return 0


def chosen(names: list[str]) -> list[tuple[Suite, str]]:
    """The suites and modes of the command line; all of them without any."""
    known = [(suite, mode) for suite in SUITES for mode in suite.modes]
    if not names:
        return known
    found = [
        (suite, mode) for name in names for suite, mode in known if name in (suite.name, f"{suite.name}:{mode}", mode)
    ]
    if len(found) < len(names):
        raise SystemExit(f"known are {', '.join(f'{suite.name}:{mode}' for suite, mode in known)}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sdist", type=Path, help="zarr-python's source distribution; pip downloads it otherwise")
    parser.add_argument(
        "--checkout", action="append", default=[], metavar="NAME=FOLDER",
        help="a checkout of rioxarray, kerchunk, icechunk, gdal or zarr-conformance-tests; git clones it otherwise",
    )  # fmt: skip
    parser.add_argument("--reuse-default", action="store_true", help="take the peers' own results from the last run")
    parser.add_argument(
        "--default-last",
        action="store_true",
        help="the peer's own code runs last, and only what did not pass with Penstock: for a part, in one mode",
    )
    parser.add_argument("--table", type=Path, help="write the page of differences there")
    parser.add_argument("--fetch", action="store_true", help="only download what the Python stage runs a part of")
    arguments = sys.argv[1:]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:at])
    options.extra = arguments[at + 1 :]
    if options.fetch:
        return fetch(options)
    if options.table is not None and (options.extra or options.default_last):
        parser.error("--table is for whole suites: not with --default-last or arguments for pytest")

    defaults: dict[str, Outcomes] = {}
    found = []
    for suite, mode in chosen(options.suites):
        if options.default_last:
            ours = run(suite, mode, options)
            left = [name for name, outcome in ours.items() if outcome != "passed"]
            defaults[suite.name] = run(suite, "default", options, left) if left else {}
            print(f"{suite.name}, {len(left)} that did not pass, by its own code:", end=" ")
            print(counts(Counter(defaults[suite.name].values())), flush=True)
        elif suite.name not in defaults:
            last = WORK / f"{suite.name}-default.xml"
            reuse = options.reuse_default and not options.extra and last.exists()
            try:
                defaults[suite.name] = outcomes(last) if reuse else run(suite, "default", options)
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"SKIPPED {suite.name}: its tests are not available: {error}")
                continue
            print(f"{suite.name}, its own code: {counts(Counter(defaults[suite.name].values()))}", flush=True)
        if not options.default_last:
            ours = run(suite, mode, options)
        made = compare(suite, mode, defaults[suite.name], ours, bool(options.extra))
        found.append(made)
        print(f"{suite.name}, {mode}: {counts(made.ours)}")
        for line in made.reads.lines():
            print(f"  {line}")
        for benchmark, (theirs, our) in sorted(made.times.items()):
            print(f"  {theirs / our:6.2f} x of {theirs * 1e3:10.2f} ms: {benchmark}")
        for why, tests in made.explained.items():
            print(f"  {len(tests)} worse: {why}")
        for name in made.worse:
            print(f"  worse without a reason, {name}")
        for pattern in made.unused if not options.extra else ():
            print(f"  reason of no test: {pattern}")
        if made.proves_nothing:
            print("  no read went through Penstock")
        sys.stdout.flush()
    if options.table is not None:
        earlier = options.table.read_text() if options.table.exists() else ""
        options.table.write_text(page(found, earlier))
    bad = sum(len(each.worse) for each in found)
    if not options.extra:
        bad += sum(len(each.unused) + each.proves_nothing for each in found)
    print("no test is worse without a reason" if bad == 0 else f"{bad} findings: see {WORK}/*.log")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
