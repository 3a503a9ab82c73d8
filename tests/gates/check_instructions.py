"""Counts the instructions of one warm small read under callgrind and compares them with a budget.

check_instructions.py PROGRAM STORE BUDGET: runs PROGRAM with two numbers of reads; the difference is the
cost of reads, without start-up. Exits 77 (skipped) if valgrind is not installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FEW, MANY = 200, 1200


def instructions(program: str, store: str, reads: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={Path(folder) / 'out'}",
                program,
                str(reads),
                store,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise SystemExit(f"{program} failed under callgrind:\n{done.stderr}")
    return int(found[1])


def main() -> None:
    program, store, budget = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        raise SystemExit(77)
    each = (instructions(program, store, MANY) - instructions(program, store, FEW)) / (MANY - FEW)
    print(f"{each:.0f} instructions a warm read from {store}, budget {budget}")
    raise SystemExit(each > budget)


if __name__ == "__main__":
    main()
