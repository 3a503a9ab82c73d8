"""`penstock bench SCENARIO`: the benchmark of a source checkout."""

from __future__ import annotations

import subprocess
import sys

from penstock.__main__ import SCENARIOS


def main(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, str(SCENARIOS), *arguments]).returncode
