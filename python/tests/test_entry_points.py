"""No call of `penstock._core` ends the process, whatever its arguments are.

`programs/entry_points.py` finds every function, class, method and property by introspection and calls it with valid
arguments, some of which are replaced by hostile ones. Four seeds with two rounds each make about 6,000 calls;
PENSTOCK_ENTRY_POINT_SEEDS sets another number of seeds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "entry_points.py"
SEEDS = range(int(os.environ.get("PENSTOCK_ENTRY_POINT_SEEDS", "4")))


@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_arguments_raise_and_never_abort(seed: int, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), str(seed), "2", str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    last = (tmp_path / "call").read_text()
    assert ran.returncode == 0, f"seed {seed} ended with {ran.returncode} in: {last}\n{ran.stderr[-4000:]}"
    assert int(ran.stdout.split()[-1]) > 1000
