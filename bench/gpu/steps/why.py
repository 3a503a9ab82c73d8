"""Why is it as fast as it is? Reports for Nsight Systems (with NVTX ranges) and Nsight Compute."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.gpu import arrays
from bench.gpu.results import LeftOutError, say
from bench.gpu.run import Row, Run

# For Nsight Compute, and with --small for kernels from other files: an array for each codec.
KERNELS = ("benchmark", "rounded_zstd", "rounded_lz4", "rounded_zlib", "field_blosc")
# What the tools write on machines where they cannot profile: counters need a permission, and some sandboxes lack more.
REFUSALS = (
    "ERR_NVGPUCTRPERM",
    "Failed to initialize the profiler",
    "LibraryNotLoaded",
    "not supported on device",
    "driver is not compatible",
)


def rows(run: Run) -> Iterator[Row]:
    chosen = [name for name in KERNELS if name in run.specs]
    reports = [("nsys", name) for name in chosen[:1]] + [("ncu", name) for name in chosen]
    for number, (tool, name) in enumerate(reports):
        yield f"{tool} of {name}", partial(profile, run, tool, name, len(reports) - number)


def profile(run: Run, tool: str, name: str, reports_left: int) -> None:
    """nsys records whole reads; ncu the kernels of one shard's wave, which it repeats for each group of counters."""
    program = run.tool(tool)
    path = arrays.ensure(run.folder, run.specs[name])
    report = run.results.folder / f"{tool}-{name}"
    if tool == "nsys":
        options = ["profile", "--trace=cuda,nvtx,osrt", "--sample=none", "--force-overwrite=true", "-o", str(report)]
        more = ["--turns", "3"]
    else:
        options = [
            "--set",
            "full",
            "--nvtx",
            "--kernel-name",
            "regex:penstock_",
            "--launch-count",
            "8",
            "--clock-control",  # by default, ncu locks the device's clocks, for all programs
            "none",
            "-f",
            "-o",
            str(report),
        ]
        more = ["--turns", "1", "--resident"]
    command = [program, *options, sys.executable, "-m", "bench.gpu.once", str(path), *more]
    status, output = run.child(command, run.left() / reports_left, f"{tool}-{name}.txt")
    saved = [each.name for each in sorted(Path(report.parent).glob(f"{report.name}.*")) if each.suffix != ".txt"]
    run.results.write("found", status=status, saved=saved)
    refused = [line for line in output.splitlines() if any(each in line for each in REFUSALS)]
    if refused and (status or not saved):
        raise LeftOutError(f"{tool} does not work on this machine: {refused[0].replace('=', '').strip()}")
    if saved and all(each.endswith(".qdstrm") for each in saved):
        raise LeftOutError(f"{tool} cannot make a report of {', '.join(saved)} on this machine")
    if status or not saved:
        raise RuntimeError(f"status {status}, saved {saved}: see {tool}-{name}.txt")
    say(f"  {tool} of {name}: {', '.join(saved)}")
