"""The design note of the emulator names the lines that have barriers now, and existing tests find the faults."""

from __future__ import annotations

import fnmatch
import itertools
import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTE = ROOT / "docs" / "design" / "0022-emulator.md"
BARRIER = re.compile(r"\b(sync|each|each_warp|once|converge)\(")


def test_each_line_of_the_table_of_barriers_has_one() -> None:
    sources = {file.name: file.read_text().splitlines() for file in (ROOT / "src" / "cuda").rglob("*.h")}
    rows = re.findall(r"^\| `(\w+\.h):(\d+)` \|", NOTE.read_text(), re.MULTILINE)
    assert len(rows) > 50
    wrong = [f"{file}:{line}" for file, line in rows if not BARRIER.search(sources[file][int(line) - 1])]
    assert not wrong, "other lines have these barriers now; `tests/emulator/mutations.py` lists them"


def test_the_filters_that_find_faults_match_tests() -> None:
    found = runpy.run_path(str(ROOT / "tests" / "emulator" / "mutations.py"))
    sources = [*(ROOT / "src/cuda/decode").glob("*_test.cc"), *(ROOT / "tests/emulator").glob("*_test.cc")]
    tests = [
        f"{suite}.{name}"
        for file in sources
        for suite, name in re.findall(r"(?m)^TEST(?:_F|_P)?\((\w+), (\w+)\)", file.read_text())
    ]
    runs = [*itertools.chain(*found["TESTS"].values()), *found["OTHERS"]]
    filters = {each for run in runs for each in run.split(":")}
    without = [each for each in sorted(filters) if not fnmatch.filter(tests, each.removeprefix("-"))]
    assert not without, "a fault that no test is run for is reported as not found"
