"""The effects of the environment: hardware queues, loading of kernels, PTX, and kernels from other files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.gpu import arrays
from bench.gpu.results import say
from bench.gpu.run import GB, Row, Run
from bench.gpu.steps.why import KERNELS

ENVIRONMENTS: dict[str, dict[str, str]] = {
    "as it is": {},
    "32 hardware queues": {"CUDA_DEVICE_MAX_CONNECTIONS": "32"},
    "1 hardware queue": {"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
    "kernels loaded at once": {"CUDA_MODULE_LOADING": "EAGER"},
    "kernels loaded late": {"CUDA_MODULE_LOADING": "LAZY"},
}


def rows(run: Run) -> Iterator[Row]:
    name = "benchmark" if "benchmark" in run.specs else next(iter(run.specs))
    for title, environment in ENVIRONMENTS.items():
        yield title, partial(read, run, name, environment)
    yield "PTX translated by the driver", partial(translated, run)
    kernels = [each for each in run.options.kernels.split(",") if each]
    for array, spec in run.specs.items():
        if not spec.codecs or not kernels or (run.small and array not in KERNELS):
            continue
        for file in ("", *kernels):
            yield f"kernels of {Path(file).name or 'the build'}, {array}", partial(variant, run, array, file)


def once(run: Run, name: str, environment: dict[str, str], *more: str) -> dict[str, float]:
    path = arrays.ensure(run.folder, run.specs[name])
    command = [sys.executable, "-m", "bench.gpu.once", str(path), "--turns", "2" if run.small else "5", *more]
    status, output = run.child(command, run.left(), None, environment)
    if status:
        raise RuntimeError(f"status {status}: {output.strip()[-2000:]}")
    return json.loads(output.strip().splitlines()[-1])


def read(run: Run, name: str, environment: dict[str, str]) -> None:
    found = once(run, name, environment)
    run.results.measured("first read", found["first_s"] * 1e3, "ms", environment=environment, array=name)
    run.results.measured("warm", found["nbytes"] / found["best_s"] / GB, "GB/s", environment=environment, array=name)


def translated(run: Run) -> None:
    """The PTX of the oldest architecture gives the same bytes, also if machine code exists."""
    command = [sys.executable, "-m", "bench.gpu.parity", "--quick", "--folder", str(run.results.folder / "parity-ptx")]
    status, output = run.child(command, run.left(), "parity-ptx.txt", {"CUDA_FORCE_PTX_JIT": "1"})
    if status:
        raise RuntimeError(f"status {status}: see parity-ptx.txt")
    run.results.write("found", cases=len(output.splitlines()))
    say(f"  PTX translated by the driver: {len(output.splitlines())} cases give the host's bytes")


def variant(run: Run, name: str, file: str) -> None:
    """The decoders alone, with kernels from another file."""
    environment = {"PENSTOCK_CUDA_KERNELS": file} if file else {}
    found = once(run, name, environment, "--resident")
    rate = found["nbytes"] / max(found["best_s"], 1e-9) / GB
    run.results.measured("decode alone", rate, "GB/s", kernels_ms=found["kernels_ms"], file=file or None)
