"""Do the kernels stay within their memory and meet at their barriers? compute-sanitizer, one small array per codec."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from bench.gpu.results import LeftOutError, say
from bench.gpu.run import Row, Run

TOOLS = ("memcheck", "racecheck", "synccheck")


def rows(run: Run) -> Iterator[Row]:
    for number, kind in enumerate(TOOLS):
        yield kind, partial(check, run, kind, len(TOOLS) - number)


def check(run: Run, kind: str, tools_left: int) -> None:
    """Run one tool for its share of the remaining time. Its output until then is saved."""
    tool = run.tool("compute-sanitizer")
    folder = run.results.folder / "parity"
    program = [sys.executable, "-m", "bench.gpu.parity", "--quick", "--folder", str(folder)]
    command = [tool, "--tool", kind, "--error-exitcode", "9", *program]
    status, output = run.child(command, run.left() / tools_left, f"clean-{kind}.txt")
    lines = output.splitlines()
    summary = [line for line in lines if "SUMMARY" in line]
    reached = sum("give the host's bytes" in line for line in lines)
    wrong = [line for line in lines if "OTHER BYTES" in line or "FAILED" in line]
    run.results.write("found", status=status, summary=summary, cases=reached, wrong=wrong)
    if status == 124 and not wrong and not any("ERROR" in line and "SUMMARY" not in line for line in lines):
        raise LeftOutError(f"time was up after {reached} cases without a finding")
    if status:
        raise RuntimeError(f"status {status} after {reached} cases: {' '.join(summary + wrong)}; see clean-{kind}.txt")
    say(f"  {kind}: {reached} cases, {' '.join(summary)}")
