from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import check_loops


@pytest.mark.parametrize(
    "line",
    [
        "for at in range(0, n, step): out[at : at + step] = x[at : at + step]",
        "for at in range(0, n, step): write(x[..., at : min(n, at + step), :])",
        "for i in range(count): total += x[i * rows : (i + 1) * rows].sum()",
        "for i in range(count):\n    if i:\n        yield slice(i, i + step)",
        "parts = [x[at : at + step] for at in range(0, n, step)]",
        "parts = {at: x[at:end] for at in range(0, n, step)}",
        "done = sum(x[at : at + 4].sum() for at in range(0, n, 4))",
        "for i, at in enumerate(range(0, n, step)): out[i] = x[at : at + step]",
        "for at in range(0, n, step): write(x, at, at + step)",
        "for i, at in enumerate(range(0, n, step)):\n    count = min(step, n - at)\n    write(x, at, count)",
    ],
)
def test_loops_over_slices_are_found(line: str) -> None:
    assert check_loops.block_loops(f"x = 1\n{line}\n") == [2]


@pytest.mark.parametrize(
    "line",
    [
        "for at in range(0, n, step): write(at)",
        "for i in range(n): write(i, i + 1)",
        "for i, at in enumerate(parts): write(at, at + 1)",
        "for d in range(rank): bytes *= math.prod(shape[d + 1 :])",
        "for at in range(0, n, step): x[a:b] = at",
        "for each in parts: out[each : each + 1] = 0",
        "x[at : at + step] = y",
    ],
)
def test_other_loops_are_accepted(line: str) -> None:
    assert check_loops.block_loops(line) == []


def test_files_without_a_reason_and_reasons_without_a_file_are_named(tmp_path: Path) -> None:
    loop = "for at in range(0, n, 2): write(x[at : at + 2])\n"
    (tmp_path / "geo").mkdir()
    (tmp_path / "geo" / "writing.py").write_text(loop)
    (tmp_path / "new.py").write_text("\n" + loop)
    complaints = check_loops.check_package(tmp_path)
    assert complaints[0].startswith("python/penstock/new.py:2: a loop over slices")
    idle = sorted(set(check_loops.ALLOWED) - {"geo/writing.py"})
    assert complaints[1:] == [f"tools/check_loops.py:1: {name} has no such loop: remove it here" for name in idle]


def test_the_package_has_no_findings() -> None:
    package = Path(__file__).resolve().parents[2] / "python" / "penstock"
    assert check_loops.check_package(package) == []
