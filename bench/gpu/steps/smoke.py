"""Does it run, and are the bytes right? Every codec and content, then tests/gpu."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from functools import partial

from bench.gpu import parity
from bench.gpu.results import LeftOutError, say
from bench.gpu.run import ROOT, Row, Run


def rows(run: Run) -> Iterator[Row]:
    yield "libraries", partial(libraries, run)
    chosen = run.options.codecs.split(",")
    for case in parity.cases():
        if any(part in case.codec for part in chosen):
            yield f"parity of {case.codec}, {case.content}", partial(compare, run, case)
    yield "tests/gpu", partial(tests, run)


def libraries(run: Run) -> None:
    """Which optional libraries are installed: rows that need others are skipped."""
    found = {name: importlib.util.find_spec(name) is not None for name in ("torch", "cupy", "jax", "zarr", "pytest")}
    found["nvcomp"] = run.nvcomp() is not None
    run.results.write("found", libraries=found)
    say(f"  here: {', '.join(name for name, here in found.items() if here) or 'none'}")
    say(f"  not here: {', '.join(name for name, here in found.items() if not here) or 'none'}")


def compare(run: Run, case: parity.Case) -> None:
    outcome = parity.check(case, run.results.folder / "parity")
    if outcome.good:
        run.results.write("found", **outcome.fields())
        say(f"  {outcome.line()}")
    else:
        run.results.failed(outcome.line(), **outcome.fields())


def tests(run: Run) -> None:
    if run.driver.simulated:
        raise LeftOutError("there is no hardware, and these tests are for the machine's own driver")
    if importlib.util.find_spec("pytest") is None:
        raise LeftOutError("pytest is not installed")
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider", str(ROOT / "tests" / "gpu")]
    status, output = run.child(command, run.left(), "tests-gpu.txt")
    summary = output.strip().splitlines()[-1] if output.strip() else ""
    if status == 124 and not {"F", "E"} & set(output):
        raise LeftOutError(f"time was up after {output.count('.')} tests without a failure")
    if status:
        raise RuntimeError(f"status {status}: {summary}")
    run.results.write("found", summary=summary)
    say(f"  tests/gpu: {summary}")
