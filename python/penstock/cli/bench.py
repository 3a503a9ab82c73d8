"""`penstock bench SCENARIO`: the benchmark of a source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(program: Path, arguments: list[str]) -> int:
    """Run `program`, bench/run.py of the checkout."""
    return subprocess.run([sys.executable, str(program), *arguments]).returncode
