"""Do the kernels stay within their memory and meet at their barriers? compute-sanitizer, one small array per codec."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from bench.gpu.results import LeftOutError, say
from bench.gpu.run import Row, Run

TOOLS = ("memcheck", "racecheck", "synccheck")
# The device without kernels of ours: the tool can find no fault in it.
TRIAL = "from bench.gpu.driver import Driver; Driver().copy_rates(1 << 16, 1)"
TRIAL_SECONDS = 60.0
BANNERS = ("========= COMPUTE-SANITIZER", "=========")


def rows(run: Run) -> Iterator[Row]:
    for number, kind in enumerate(TOOLS):
        yield kind, partial(check, run, kind, len(TOOLS) - number)


def check(run: Run, kind: str, tools_left: int) -> None:
    """Run one tool for its share of the remaining time. Its output until then is saved."""
    tool = run.tool("compute-sanitizer")
    # A status that a call of the driver returns is not a fault of a kernel: Penstock checks each, and queries events
    # that have not ended.
    started = [tool, "--tool", kind, "--report-api-errors", "no", "--error-exitcode", "9"]
    try_tool(run, started)
    folder = run.results.folder / "parity"
    program = [sys.executable, "-m", "bench.gpu.parity", "--quick", "--folder", str(folder)]
    status, output = run.child([*started, *program], run.left() / tools_left, f"clean-{kind}.txt")
    lines = output.splitlines()
    summary = [line for line in lines if "SUMMARY" in line]
    reached = sum("give the host's bytes" in line for line in lines)
    wrong = [line for line in lines if "OTHER BYTES" in line or "FAILED" in line]
    faults = [line for line in lines if line.startswith("=========") and line not in summary and line not in BANNERS]
    run.results.write("found", status=status, summary=summary, cases=reached, wrong=wrong, faults=faults[:20])
    if status and (own := [line for line in lines if "Internal Sanitizer Error" in line]):
        raise LeftOutError(f"compute-sanitizer failed after {reached} cases: {own[0]}")
    if status == 124 and not wrong and not faults:
        raise LeftOutError(f"time was up after {reached} cases without a finding")
    if status:
        said = " ".join(summary + wrong + faults[:1])
        raise RuntimeError(f"status {status} after {reached} cases: {said}; see clean-{kind}.txt")
    say(f"  {kind}: {reached} cases, {' '.join(summary)}")


def try_tool(run: Run, command: list[str]) -> None:
    """Raise LeftOutError if the tool does not work on this machine, as in some sandboxes."""
    trial = [sys.executable, "-c", TRIAL]
    status, output = run.child([*command, *trial], TRIAL_SECONDS, None)
    lines = [line for line in output.splitlines() if line.strip("= ")]
    refusals = [line for line in lines if "Device not supported" in line]
    if not status and not refusals:
        return
    if run.child(trial, TRIAL_SECONDS, None)[0]:
        raise RuntimeError("copies to the device fail without compute-sanitizer, too")
    why = (refusals or lines or [f"status {status}"])[0].replace("=", "").strip()
    raise LeftOutError(f"compute-sanitizer does not work on this machine: {why}")
