"""The design note of the emulator names the lines that have barriers now."""

from __future__ import annotations

import re
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
