"""`penstock bench SCENARIO`: the benchmark of a source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    runner = Path(__file__).resolve().parents[2] / "bench" / "run.py"
    if not runner.exists():
        print("penstock bench: the scenarios are part of the source repository, not of the package", file=sys.stderr)
        return 1
    return subprocess.run([sys.executable, str(runner), *arguments]).returncode
