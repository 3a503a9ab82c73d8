"""Runs test suites of others with their own code and with Penstock in its place.

    tools/test_peers.py [SUITE[:MODE] ...] [--jobs N] [--table FILE] [-- PYTEST ARGUMENTS]
    tools/test_peers.py --fetch

| suite | mode | what runs |
|---|---|---|
| zarr | pipeline, bypass | zarr-python's tests with `penstock.zarr` as its codec pipeline; without its event loop |
| xarray | pipeline, bypass | xarray's `test_backends.py` with the same |
| xarray | engine | the same tests, what they wrote is opened by `engine="penstock"` |
| rioxarray | engine | rioxarray's integration tests, GeoTIFFs opened by `engine="penstock"` |
| pyfive, h5py | engine | their tests; values, attributes and lists of members come from `penstock.open` |

Each suite first runs with the peer's own code, in the same environment. A test that passes there must pass with
Penstock, unless `tools/peers/reasons.toml` gives the reason. Exit status 1 if one does not, or if a reason matches no
test any more.

zarr-python's and pyfive's tests come from their source distributions, xarray's and h5py's from the installed packages.
For pyfive and h5py the runner also prints how many reads the engine did, and why it did not do others. rioxarray
publishes its tests only in its repository: `--rioxarray FOLDER` names a checkout of the installed version, without
one git clones it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = ROOT / "tools" / "peers"
WORK = ROOT / "build" / "peers"
SUITE_REQUIREMENTS = ROOT / "tools" / "requirements" / "peers-suites.txt"

Outcomes = dict[str, str]  # "class::test" -> passed, failed or skipped


@dataclass(frozen=True)
class Suite:
    """A peer's tests."""

    name: str
    modes: tuple[str, ...]
    folder: Callable[[argparse.Namespace], Path]  # where pytest runs
    tests: tuple[str, ...]  # paths within it
    arguments: tuple[str, ...] = ()
    one_process: bool = False  # its tests write files of one name, or use one port


def unpacked(package: str, sdist: Path | None = None) -> Path:
    """The unpacked source distribution of a package in the version that is installed or pinned."""
    name = f"{package}-{version_of(package)}"
    tree = WORK / name
    if not tree.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        if sdist is None:
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package]
            subprocess.run([*download, "-d", WORK, f"{package}=={version_of(package)}"], check=True)
            sdist = WORK / f"{name}.tar.gz"
        with tarfile.open(sdist) as archive:
            # Python 3.11.2, which Debian 12 has, does not have filters (and ignores this).
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(WORK)
    return tree


def version_of(package: str) -> str:
    """The installed version, or that of the requirements of the suites."""
    try:
        return version(package)
    except PackageNotFoundError:
        for line in SUITE_REQUIREMENTS.read_text().splitlines():
            name, _, pinned = line.partition("==")
            if name == package:
                return pinned
        raise


def zarr_folder(options: argparse.Namespace) -> Path:
    return unpacked("zarr", options.sdist)


def pyfive_folder(options: argparse.Namespace) -> Path:
    return unpacked("pyfive")


def xarray_folder(options: argparse.Namespace) -> Path:
    """The folder that the installed xarray is in: its tests are part of the package."""
    found = find_spec("xarray")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent.parent


def h5py_folder(options: argparse.Namespace) -> Path:
    """The folder that the installed h5py is in: its tests are part of the package."""
    found = find_spec("h5py")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent.parent


def rioxarray_folder(options: argparse.Namespace) -> Path:
    """A checkout of the installed rioxarray's version."""
    if options.rioxarray is not None:
        return Path(options.rioxarray)
    tag = version("rioxarray")
    tree = WORK / f"rioxarray-{tag}"
    if not tree.exists():
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", tag]
        subprocess.run([*clone, "https://github.com/corteva/rioxarray", str(tree)], check=True)
    return tree


SUITES = (
    Suite(
        "zarr",
        ("pipeline", "bypass"),
        zarr_folder,
        ("tests",),
        ("--ignore=tests/test_docs.py", "--ignore=tests/test_store/test_fsspec.py", "--ignore=tests/test_regression"),
    ),
    Suite("xarray", ("pipeline", "bypass", "engine"), xarray_folder, ("xarray/tests/test_backends.py",)),
    Suite(
        "rioxarray",
        ("engine",),
        rioxarray_folder,
        ("test/integration/test_integration__io.py", "test/integration/test_integration_rioxarray.py"),
    ),
    Suite("pyfive", ("engine",), pyfive_folder, ("tests",), one_process=True),
    Suite("h5py", ("engine",), h5py_folder, ("h5py/tests",)),
)

# zarr-python's suite names its pipelines in subclasses: this adds Penstock's.
PIPELINE_SUITE = """
from tests.test_codec_pipeline_suite import CodecPipelineTests


class TestPenstockPipeline(CodecPipelineTests):
    pipeline_path = "penstock.zarr.CodecPipeline"
"""


def requirements() -> Path:
    """A folder with what the suites need beyond the requirements of our tests; it does not go into .venv."""
    site = WORK / "site"
    if not (site / "pytest_asyncio").exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
        subprocess.run([*install, "-r", str(SUITE_REQUIREMENTS)], check=True)
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
    if only is not None:
        chosen_names = WORK / f"{name}-only.txt"
        chosen_names.write_text("\n".join(each.rpartition("::")[2] for each in only))
        environment["PENSTOCK_PEERS_ONLY"] = str(chosen_names)
    paths = [str(PLUGINS), str(WORK), str(requirements()), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    extra = []
    if suite.name == "zarr" and mode != "default":
        environment["ZARR_CODEC_PIPELINE__PATH"] = "penstock.zarr.CodecPipeline"
        (folder / "tests" / "test_penstock_suite.py").write_text(PIPELINE_SUITE)
    elif suite.name == "zarr":
        (folder / "tests" / "test_penstock_suite.py").unlink(missing_ok=True)
    if options.jobs > 1 and not suite.one_process:
        extra += ["-n", str(options.jobs), "--dist", "loadfile" if suite.name == "zarr" else "load"]
    settings = WORK / "pytest.ini"  # the suites' own settings ask for plugins
    settings.write_text("[pytest]\nasyncio_mode = auto\nmarkers =\n    slow_hypothesis\n    gpu\n    flaky\n    mypy\n")
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--timeout=300"]
    command += ["-p", "penstock_peers", "-c", str(settings), "--rootdir", str(folder), "--tb=short"]
    command += ["--hypothesis-seed=0", f"--junitxml={report}", *suite.arguments, *extra]
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


@dataclass
class Reads:
    """What the shims of pyfive and h5py counted: reads by kind, and what the peer read itself, by reason."""

    by_engine: Counter[str]
    left: Counter[str]

    @classmethod
    def of(cls, suite: str, mode: str, extra: bool) -> Reads:
        found = cls(Counter(), Counter())
        for path in (WORK / (f"{suite}-{mode}" + ("-part" if extra else "") + "-counts")).glob("*.json"):
            document = json.loads(path.read_text())
            found.by_engine.update(document["reads"])
            found.left.update(document["left"])
        return found

    def lines(self) -> list[str]:
        if not self.by_engine and not self.left:
            return []
        shown = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_engine.items()))
        left = [f"{count:,} of {reason}" for reason, count in self.left.most_common()]
        return [f"The engine read {shown}. The peer's own code read:", *left]


@dataclass
class Comparison:
    """A mode's outcomes next to the peer's own."""

    suite: str
    mode: str
    default: Counter[str]
    ours: Counter[str]
    explained: dict[str, list[str]]  # reason -> tests
    worse: list[str]
    unused: list[str]  # reasons that match no test that is worse
    reads: Reads

    @property
    def ok(self) -> bool:
        return not self.worse and not self.unused


def compare(
    suite: str, mode: str, default: Outcomes, ours: Outcomes, reasons: dict[str, str], part: bool
) -> Comparison:
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
    reads = Reads.of(suite, mode, part)
    return Comparison(suite, mode, Counter(default.values()), Counter(ours.values()), explained, left, unused, reads)


def reasons_of(suite: str, mode: str) -> dict[str, str]:
    """Pattern of tests' names -> why they may fail, of `tools/peers/reasons.toml`."""
    with (PLUGINS / "reasons.toml").open("rb") as stream:
        document = tomllib.load(stream)
    return {
        pattern: each["why"]
        for each in document.get("reason", [])
        if each["suite"] == suite and mode in each["modes"]
        for pattern in each["tests"]
    }


def counts(of: Counter[str]) -> str:
    return f"{of['passed']:,} passed, {of['failed']:,} failed, {of['skipped']:,} skipped"


def kept(page: str, suites: set[str]) -> tuple[list[str], list[str]]:
    """Rows of the table, and sections, of an earlier page that are of other suites than `suites`."""
    rows, sections = [], []
    section: list[str] | None = None
    for line in page.splitlines():
        named = re.match(r"### (\w+), \w+$", line)
        reads = re.match(r"### Reads of (\w+)'s tests$", line)
        row = re.match(r"\| (\w+) [\w.]+ \|", line)
        if line.startswith("#"):
            found = named or reads
            section = [] if found is not None and found[1] not in suites else None
            if section is not None:
                sections.append(section)
        if section is not None:
            section.append(line)
        elif row is not None and row[1] not in suites:
            rows.append(line)
    return rows, ["\n".join(each).rstrip() for each in sections]


def table(found: list[Comparison], earlier: str) -> str:
    """The page for users: counts, and every difference with its reason. Keeps what `earlier` has of other suites."""
    rows, sections = kept(earlier, {each.suite for each in found})
    for each in found:
        named = f"{each.suite} {version_of(each.suite)}"
        number = sum(map(len, each.explained.values()))
        rows.append(
            f"| {named} | {each.mode} | {counts(each.default)} | {counts(each.ours)} | {number} | {len(each.worse)} |"
        )
        if each.reads.lines():
            first, *left = each.reads.lines()
            sections.append("\n".join([f"### Reads of {each.suite}'s tests", "", first, "", *(f"- {x}" for x in left)]))
        if not each.explained:
            continue
        lines = [f"### {each.suite}, {each.mode}", "", "| tests | reason |", "|---|---|"]
        for why, tests in each.explained.items():
            names = sorted({test.rpartition("::")[2].partition("[")[0] for test in tests})
            shown = ", ".join(f"`{name}`" for name in names)
            lines.append(f"| {len(tests)}: {shown} | {why} |")
        sections.append("\n".join(lines))
    head = [
        "# The test suites of others",
        "",
        "`make test-peers` runs the tests of zarr-python, xarray, rioxarray, pyfive and h5py twice in one environment:",
        "with the peer's own code, and with Penstock in its place. This page is what `--table docs/peers.md` in `ARGS`",
        "wrote; a run of some suites keeps what it has of the others. `make test` runs a part: zarr-python's tests of",
        "codec pipelines, and xarray's tests of one Zarr store.",
        "",
        "| suite | mode | with the peer's own code | with Penstock | worse, with a reason below | worse, without |",
        "|---|---|---|---|---|---|",
    ]
    order = [suite.name for suite in SUITES]
    rows.sort(key=lambda row: order.index(row.split()[1]))
    return "\n".join([*head, *rows, "", "## Every difference", "", "\n\n".join(sections)]) + "\n"


def fetch(options: argparse.Namespace) -> int:
    """Downloads zarr-python's tests, or says why they are not available."""
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
    parser.add_argument("--rioxarray", type=Path, help="a checkout of rioxarray; git clones it otherwise")
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
        reasons = reasons_of(suite.name, mode)
        made = compare(suite.name, mode, defaults[suite.name], ours, reasons, bool(options.extra))
        found.append(made)
        print(f"{suite.name}, {mode}: {counts(made.ours)}")
        for line in made.reads.lines():
            print(f"  {line}")
        for why, tests in made.explained.items():
            print(f"  {len(tests)} worse: {why}")
        for name in made.worse:
            print(f"  worse without a reason, {name}")
        for pattern in made.unused if not options.extra else ():
            print(f"  reason of no test: {pattern}")
        sys.stdout.flush()
    if options.table is not None:
        earlier = options.table.read_text() if options.table.exists() else ""
        options.table.write_text(table(found, earlier))
    bad = sum(len(each.worse) + (0 if options.extra else len(each.unused)) for each in found)
    print("no test is worse without a reason" if bad == 0 else f"{bad} findings: see {WORK}/*.log")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
