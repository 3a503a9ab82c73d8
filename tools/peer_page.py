"""The page of `tools/test_peers.py`: outcomes of a suite next to the peer's own, with every difference."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from peer_suites import PLUGINS, SUITES, Suite

Outcomes = dict[str, str]  # "class::test" -> passed, failed or skipped
Times = dict[str, float]  # a benchmark -> median, in seconds

REASONS = PLUGINS / "reasons.toml"


def counts(of: Counter[str]) -> str:
    return f"{of['passed']:,} passed, {of['failed']:,} failed, {of['skipped']:,} skipped"


@dataclass
class Reads:
    """The counts of the plugin: reads by kind, and reads by the peer itself, by reason."""

    by_engine: Counter[str]
    left: Counter[str]

    @classmethod
    def of(cls, folder: Path) -> Reads:
        found = cls(Counter(), Counter())
        for path in folder.glob("*.json"):
            document = json.loads(path.read_text())
            found.by_engine.update(document["reads"])
            found.left.update(document["left"])
        return found

    def lines(self) -> list[str]:
        if not self.by_engine and not self.left:
            return []
        shown = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_engine.items())) or "nothing"
        if not self.left:
            return [f"The engine: {shown}. The peer's own code: nothing."]
        left = [f"{count:,} of {reason}" for reason, count in self.left.most_common()]
        return [f"The engine: {shown}. The peer's own code:", *left]

    def total(self) -> str:
        """For the table: by the engine, of all."""
        ours, all_reads = self.by_engine.total(), self.by_engine.total() + self.left.total()
        return f"{ours:,} of {all_reads:,}" if all_reads else ""


@dataclass
class Comparison:
    """A mode's outcomes next to the peer's own."""

    suite: Suite
    mode: str
    default: Counter[str]
    ours: Counter[str]
    explained: dict[str, list[str]]  # reason -> tests
    worse: list[str]
    unused: list[str]  # reasons that match no test that is worse
    reads: Reads
    times: dict[str, tuple[float, float]] = field(default_factory=dict)  # of the peer and of Penstock

    @property
    def proves_nothing(self) -> bool:
        """Whether no read went through Penstock: then all tests may pass with the peer's own code."""
        return not self.reads.by_engine.total()


def times_of(path: Path) -> Times:
    """Medians of pytest-benchmark's report."""
    if not path.exists():
        return {}
    return {each["name"]: each["stats"]["median"] for each in json.loads(path.read_text())["benchmarks"]}


# The parts of a page, and how their sections begin.
PARTS = {"Every difference": "", "What the engine read": "Reads of ", "Times": "Times of "}


def kept(page: str, replaced: set[tuple[str, str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Rows of the table, and sections by part, of an earlier page, without those of the runs `replaced`."""
    known = {suite.name for suite in SUITES}
    rows: list[str] = []
    sections: dict[str, list[list[str]]] = {part: [] for part in PARTS}
    section: list[str] | None = None
    for line in page.splitlines():
        heading = re.match(r"### (Reads of |Times of |)(\w+), (\w+)$", line)
        row = re.match(r"\| (\w+) [^|]*\| (\w+) \|", line)
        if line.startswith("#"):
            section = None
            if heading is not None and (heading[2], heading[3]) not in replaced:
                part = next(part for part, begin in PARTS.items() if begin == heading[1])
                section = []
                sections[part].append(section)
        if section is not None:
            section.append(line)
        elif row is not None and row[1] in known and (row[1], row[2]) not in replaced:
            rows.append(line)
    return rows, {part: ["\n".join(each).rstrip() for each in found] for part, found in sections.items()}


def order_of(line: str) -> tuple[int, int]:
    """Suites and modes in the order of `SUITES`; of a row or of a section."""
    found = re.match(r"\| (\w+) [^|]*\| (\w+) \|", line) or re.match(r"### (?:Reads of |Times of |)(\w+), (\w+)", line)
    assert found is not None
    names = [suite.name for suite in SUITES]
    at = names.index(found[1])
    return at, SUITES[at].modes.index(found[2])


def differences(each: Comparison) -> str:
    lines = [f"### {each.suite.name}, {each.mode}", "", "| tests | reason |", "|---|---|"]
    for why, tests in each.explained.items():
        names = sorted({test.rpartition("::")[2].partition("[")[0] for test in tests})
        shown = ", ".join(f"`{name}`" for name in names)
        lines.append(f"| {len(tests)}: {shown} | {why} |")
    return "\n".join(lines)


def reads(each: Comparison) -> str:
    first, *left = each.reads.lines()
    lines = [f"### Reads of {each.suite.name}, {each.mode}", "", first]
    return "\n".join([*lines, *([""] if left else []), *(f"- {line}" for line in left)])


def times(each: Comparison) -> str:
    lines = [f"### Times of {each.suite.name}, {each.mode}", ""]
    lines += ["| benchmark | the peer, ms | Penstock, ms | ratio |", "|---|---|---|---|"]
    for name, (theirs, ours) in sorted(each.times.items()):
        shown = name.replace("|", "\\|")
        lines.append(f"| `{shown}` | {theirs * 1e3:,.2f} | {ours * 1e3:,.2f} | {theirs / ours:.2f} |")
    return "\n".join(lines)


HEAD = """\
# The test suites of others

`make test-peers` runs tests and benchmarks that other projects wrote, twice in one environment: with the peer's own
code, and with Penstock in its place. `--table docs/peers.md` in `ARGS` writes this page; a run of some suites
keeps the results of the others. `make test` runs a part: zarr-python's tests of codec pipelines, and xarray's tests of
one Zarr store.

| mode | what is replaced |
|---|---|
| pipeline | zarr-python's codec pipeline, by `penstock.zarr` |
| bypass | the same, without zarr-python's event loop |
| engine | the reader: an engine of xarray, rioxarray, pyfive, h5py, GDAL, the program of the conformance tests |

"Reads" counts the reads and writes of the engine in the process of a test, among all that the suite requested. The
peer's own code does the rest; the reasons are below. A run of a whole suite in which the engine reads nothing fails.

The tests of zarr-python, pyfive and VirtualiZarr, and the benchmarks, come from source distributions on PyPI, those of
xarray and h5py from the installed packages. Those of rioxarray, kerchunk, Icechunk, GDAL and zarr-conformance-tests are
published only in repositories: git clones them, or `--checkout NAME=FOLDER` names a copy.
""".splitlines()


def without_rows(rows: list[str]) -> list[str]:
    """Suites and modes that the runner has and the page does not, such as `zarr (bypass)`."""
    present = {(found[1], found[2]) for row in rows if (found := re.match(r"\| (\w+) [^|]*\| (\w+) \|", row))}
    absent = [(each.name, [mode for mode in each.modes if (each.name, mode) not in present]) for each in SUITES]
    return [f"{name} ({', '.join(modes)})" for name, modes in absent if modes]


def remarks(rows: list[str]) -> list[str]:
    """The missing parts of the table, as text."""
    found = []
    if any(row.rstrip().endswith("|  |") for row in rows):
        found.append("An empty last column: the run is older than the counts of reads.")
    if absent := without_rows(rows):
        found.append(f"No whole run is recorded yet of: {', '.join(absent)}.")
    return found


def page(found: list[Comparison], earlier: str) -> str:
    """The page for users. Keeps the results of other suites and modes in `earlier`."""
    rows, sections = kept(earlier, {(each.suite.name, each.mode) for each in found})
    for each in found:
        number = sum(map(len, each.explained.values()))
        rows.append(
            f"| {each.suite.label()} | {each.mode} | {counts(each.default)} | {counts(each.ours)} "
            f"| {number} | {len(each.worse)} | {each.reads.total()} |"
        )
        if each.explained:
            sections["Every difference"].append(differences(each))
        if each.reads.lines():
            sections["What the engine read"].append(reads(each))
        if each.times:
            sections["Times"].append(times(each))
    lines = [
        *HEAD,
        "",
        "| suite | mode | with the peer's own code | with Penstock | worse, with a reason | worse, without | reads |",
        "|---|---|---|---|---|---|---|",
        *sorted(rows, key=order_of),
    ]
    for remark in remarks(rows):
        lines += ["", remark]
    for part, texts in sections.items():
        if texts:
            lines += ["", f"## {part}", ""]
            if part == "Times":
                lines += ["Medians of pytest-benchmark, one run, nothing else on the machine's two cores.", ""]
            lines += ["\n\n".join(sorted(texts, key=order_of))]
    return "\n".join(lines) + "\n"
