"""Runs zarr-python's own behavioural tests with its default pipeline and with Penstock's, and compares.

    tools/test_zarr_python.py [--modes pipeline,bypass] [--sdist FILE] [-- PYTEST ARGUMENTS]
    tools/test_zarr_python.py --fetch

The tests come from the source distribution of the zarr-python that is installed; `--sdist` names one that is at hand,
otherwise pip downloads it. Fails where a test that passes with zarr-python's default pipeline does not pass here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "zarr-python"

TESTS = [
    "tests/test_array.py",
    "tests/test_indexing.py",
    "tests/test_codecs",
    "tests/test_codec_pipeline.py",
    "tests/test_codec_pipeline_suite.py",
    "tests/test_v2.py",
    "tests/test_properties.py",
]

# What is not about arrays but about the insides of zarr-python's own code; by a part of the name.
INTERNAL = {
    "test_sharding_partial_shard_read__index_chunk_slice_fails": "replaces a private function of zarr-python's codec",
    "test_bulk_decode_engagement_and_correctness": "counts calls of a private function of zarr-python's codec",
    "test_shard_write_num_gets": "counts calls of `get`; the store's `get_sync` is called here",
    "test_encoded_subchunk_write_order[morton]": "where a shard's chunks lie: in the order of the index here",
}

# zarr-python's suite names its pipelines in subclasses: this adds Penstock's.
SUITE = """
from tests.test_codec_pipeline_suite import CodecPipelineTests


class TestPenstockPipeline(CodecPipelineTests):
    pipeline_path = "penstock.zarr.CodecPipeline"
"""

# Loaded with -p: makes the pipeline known, and chooses what `mode` says.
PLUGIN = """
import os

import pytest

import penstock.zarr

MODE = os.environ["PENSTOCK_ZARR_MODE"]


if MODE == "bypass":
    penstock.zarr.enable(bypass=True)


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"penstock.zarr.stats(): {penstock.zarr.stats()}")
"""


def unpack(sdist: Path | None) -> Path:
    """The source tree of the installed zarr-python."""
    name = f"zarr-{version('zarr')}"
    tree = WORK / name
    if not tree.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        if sdist is None:
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "zarr"]
            subprocess.run([*download, "-d", WORK, f"zarr=={version('zarr')}"], check=True)
            sdist = WORK / f"{name}.tar.gz"
        with tarfile.open(sdist) as archive:
            # Python 3.11.2, which Debian 12 has, knows no filters (and ignores this).
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(WORK)
    return tree


def fetch(sdist: Path | None) -> int:
    """Have the tests at hand, or say that they are not."""
    try:
        unpack(sdist)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"zarr-python's own tests are not at hand, and are left out: {error}")
    return 0


def requirements() -> Path:
    """A folder with what zarr-python's tests need beyond ours; it does not go into .venv."""
    site = WORK / "site"
    if not (site / "pytest_asyncio").exists():
        pinned = ROOT / "tools" / "requirements" / "zarr-python.txt"
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
        subprocess.run([*install, "-r", str(pinned)], check=True)
    return site


def outcomes(report: Path) -> dict[str, str]:
    """What a report says of each test."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return found


def run(tree: Path, mode: str, tests: list[str], extra: list[str]) -> dict[str, str]:
    """The outcome of each test: passed, failed, skipped or xfailed."""
    report = WORK / f"{mode}.xml"
    report.unlink(missing_ok=True)
    (WORK / "penstock_zarr_mode.py").write_text(PLUGIN)
    # As an installed package would: processes that tests start find the pipeline by its entry point.
    metadata = WORK / "penstock_zarr_mode-0.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock_zarr_mode\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("[zarr.codec_pipeline]\npenstock = penstock.zarr:CodecPipeline\n")
    environment = dict(os.environ, PENSTOCK_ZARR_MODE=mode)
    paths = [str(WORK), str(requirements()), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    if mode != "default":
        environment["ZARR_CODEC_PIPELINE__PATH"] = "penstock.zarr.CodecPipeline"
        (tree / "tests" / "test_penstock_suite.py").write_text(SUITE)
        if "tests/test_codec_pipeline_suite.py" in tests:
            tests = [*tests, "tests/test_penstock_suite.py"]
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--timeout=300"]
    command += ["-p", "penstock_zarr_mode"]
    command += ["-o", "addopts=", "-o", "filterwarnings=", "--tb=short", "--hypothesis-seed=0", f"--junitxml={report}"]
    with (WORK / f"{mode}.log").open("w") as log:
        subprocess.run([*command, *tests, *extra], cwd=tree, env=environment, stdout=log, stderr=subprocess.STDOUT)
    if not report.exists():
        raise SystemExit(f"pytest made no report: see {WORK / f'{mode}.log'}")
    return outcomes(report)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", default="pipeline,bypass", help="of: pipeline, bypass")
    parser.add_argument("--sdist", type=Path)
    parser.add_argument("--reuse-default", action="store_true", help="take zarr-python's own results from the last run")
    parser.add_argument("--tests", nargs="*", default=TESTS)
    parser.add_argument("extra", nargs="*", help="arguments for pytest")
    parser.add_argument(
        "--fetch", action="store_true", help="only get the tests, which the Python stage runs a part of"
    )
    options = parser.parse_args()

    if options.fetch:
        return fetch(options.sdist)
    tree = unpack(options.sdist)
    kept = WORK / "default.xml"
    reuse = options.reuse_default and kept.exists()
    default = outcomes(kept) if reuse else run(tree, "default", options.tests, options.extra)
    counts = {kind: sum(value == kind for value in default.values()) for kind in ("passed", "failed", "skipped")}
    print(f"default: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    bad = 0
    for mode in options.modes.split(","):
        ours = run(tree, mode, options.tests, options.extra)
        counts = {kind: sum(value == kind for value in ours.values()) for kind in ("passed", "failed", "skipped")}
        print(f"{mode}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
        worse = [
            name for name, outcome in ours.items() if outcome != "passed" and default.get(name, "passed") == "passed"
        ]
        if not reuse:
            worse += [name for name in default if name not in ours]
        internal = [name for name in worse if any(part in name for part in INTERNAL)]
        worse = [name for name in worse if name not in internal]
        for part, why in INTERNAL.items():
            number = sum(part in name for name in internal)
            if number:
                print(f"  {number} left out, {part}: {why}")
        for name in sorted(worse):
            print(f"  {ours.get(name, 'gone')}: {name}")
        bad += len(worse)
    print("no test is worse" if bad == 0 else f"{bad} tests are worse: see {WORK}/*.log")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
