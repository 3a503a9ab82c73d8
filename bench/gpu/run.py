"""Measures reads into GPU memory, in steps of limited time. Each result is saved as soon as it is measured.

    python -m bench.gpu                       # every step
    python -m bench.gpu --small               # kilobytes: to see that it runs
    python -m bench.gpu bars --arrays benchmark,rounded_zstd

Needs a CUDA driver, Penstock with device code, and NumPy; no network. PyTorch, CuPy, zarr-python, nvCOMP, nvTIFF (by
nvImageCodec), pytest, compute-sanitizer, nsys and ncu are used if they are installed, and listed if they are not.

Results are lines of JSON in the folder of --results, each number with the model's prediction and the limit that follows
from the data. A step runs in a separate process, which is restarted after a row that hangs, crashes or leaves the
device unusable, so that such a row does not end the others. Everything also runs with the fake driver of the tests
(PENSTOCK_CUDA_DRIVER); then numbers are not compared with bars, and not saved without --results.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parent
sys.path.insert(0, str(BENCH))

GB = 1e9
STEP_SECONDS = 440.0  # with the start of the program and the end of a row, less than the limit of tools/test_gpu.sh
ROW_SECONDS = 120.0  # a row without a program of its own that takes longer than this counts as hung
GRACE_SECONDS = 10.0
DEVICE_LOST = 3
REFUSED = 77
# The minimum that every row needs, and the version of nvCOMP, whose code is not ours. The rows check the values.
PROBE = f"""
import sys
import penstock as ps
array = ps.create_array(sys.argv[1] + "/probe.zarr", shape=(16,), dtype="i4", chunks=(16,), codecs=["zstd"])
array[...] = 1
try:
    array.read(device="cuda").synchronize()
except (ps.UnsupportedError, ps.InvalidArgumentError) as error:
    print(*str(error).split())
    sys.exit({REFUSED})
try:
    print(ps.Context(decoder="nvcomp").decoder)
except ps.Error:
    pass  # it is not installed
"""
Row = tuple[str, Callable[[], None]]


class Run:
    """The shared state of all steps' rows: options, the driver, arrays, results, and the remaining time."""

    def __init__(self, options: argparse.Namespace, driver: Any, folder: Path, results: Any) -> None:
        from bench.gpu import arrays

        self.options, self.driver, self.folder, self.results = options, driver, folder, results
        self.small = options.small
        every = arrays.specs(options.small)
        self.specs = {name: every[name] for name in options.arrays.split(",")} if options.arrays else every
        self.ends = 0.0
        self.without_nvcomp: str | None = None
        self._nvcomp: str | None = None

    @property
    def turns(self) -> int:
        return 1 if self.small else 5

    def left(self) -> float:
        """Seconds until this step ends; at least one."""
        return max(self.ends - time.monotonic(), 1.0)

    def context(self, decoder: str | None = None) -> Any:
        import penstock as ps

        return ps.Context(threads=self.options.threads, decoder=decoder)

    def nvcomp(self) -> str | None:
        """`nvcomp 6.0.0`, or None with the reason in `without_nvcomp`."""
        import penstock as ps

        if self._nvcomp is None and self.without_nvcomp is None:
            try:
                self._nvcomp = self.context("nvcomp").decoder
            except ps.Error as error:
                self.without_nvcomp = str(error).splitlines()[0]
        return self._nvcomp

    def open(self, name: str) -> tuple[Any, Any]:
        """An array, written if it does not exist, and the context of its reads."""
        import penstock as ps

        from bench.gpu import arrays

        path = arrays.ensure(self.folder, self.specs[name])
        context = self.context()
        return ps.open(str(path), context=context), context

    def tool(self, name: str) -> str:
        """The path of one of NVIDIA's tools. The folder in PENSTOCK_GPU_TOOLS is searched first."""
        from bench.gpu.results import LeftOutError

        own = os.environ.get("PENSTOCK_GPU_TOOLS")
        found = shutil.which(name, path=own) if own else None
        if found is None and self.driver.simulated:
            raise LeftOutError(f"{name}: there is no hardware")
        found = found or shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
        if found is None:
            raise LeftOutError(f"{name}: it is not installed")
        return found

    def child(
        self, command: list[str], seconds: float, save: str | None, environment: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Run a program and return its status and output. The output is written to the file `save` while it runs."""

        def started(group: int) -> None:
            self.results.write("child", command=command, seconds=seconds, group=group)

        if save is None:
            with tempfile.NamedTemporaryFile() as file:
                return run_within(command, seconds, Path(file.name), environment, started)
        return run_within(command, seconds, self.results.folder / save, environment, started)

    def draw(self, profile: Any, title: str) -> None:
        """The timeline of a read: as HTML, and as PNG if matplotlib is installed."""
        html = self.results.path.with_name(self.results.path.stem + "-timeline.html")
        profile.save(html)
        try:
            from penstock.view.demo import charts

            charts.timeline(html.with_suffix(".png"), profile.report, f"Reading {title}", self.driver.name())
        except Exception as error:  # of any version of matplotlib
            self.results.left_out(f"the timeline as PNG: {error}")


def run_within(
    command: list[str],
    seconds: float,
    output: Path,
    environment: dict[str, str] | None = None,
    started: Callable[[int], None] = lambda group: None,
) -> tuple[int, str]:
    """Run a program with its output in a file; returns its status and the output. A program that takes too long is
    ended with all of its child processes: status 124. `started` is called with the number of its process group."""
    with output.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | (environment or {}),
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        started(process.pid)
        try:
            status = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            end_group(process.pid)
            process.wait()
            status = 124
    return status, output.read_text(errors="replace")


def run_rows(run: Run, step: str, after: str) -> int:
    """Run a step's rows, those after `after`, until its time is up. A row that fails does not end the others; rows
    that did not begin are named. Exit status 0, or DEVICE_LOST: the device no longer works in this process."""
    from bench.gpu.results import LeftOutError
    from bench.gpu.steps import STEPS

    results = run.results
    results.step = step
    run.ends = time.monotonic() + run.options.seconds
    rows = STEPS[step](run)
    for row, work in rows:
        if after:
            after = "" if row == after else after
            continue
        results.row = row
        if time.monotonic() >= run.ends:
            results.left_out("the step's time was over")
            continue
        results.write("begun")
        begin = time.monotonic()
        failed = False
        try:
            work()
        except LeftOutError as why:
            results.left_out(str(why))
        except Exception as error:
            failed = True
            results.failed(f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
        results.write("done", seconds=round(time.monotonic() - begin, 3))
        if failed and not run.driver.works():
            return DEVICE_LOST
    return 0


def guard_step(results: Any, arguments: list[str], seconds: float, row_seconds: float) -> None:
    """Run a step in a separate process, and again after the row in which that process crashed or hung."""
    from bench.gpu.results import say

    ends, after = time.time() + seconds, ""
    say(results.step)
    while True:
        command = [sys.executable, "-m", "bench.gpu", results.step, "--worker", str(results.path), "--after", after]
        left = max(ends - time.time(), 0.0)
        seen, late = results.size(), ""
        process = subprocess.Popen([*command, *arguments, "--seconds", str(left)], cwd=ROOT, start_new_session=True)
        try:
            while (status := process.poll()) is None and not late:
                time.sleep(0.05)
                until = results.under_way(seen, row_seconds).until
                if time.time() > (until or ends):
                    late = "it took longer than a row may" if until else ""
                if time.time() > ends + GRACE_SECONDS:
                    late = "the step's time was over"
        finally:
            if process.poll() is None:
                for group in (process.pid, results.under_way(seen, row_seconds).child):
                    end_group(group)
                process.wait()
        reached = results.under_way(seen, row_seconds)
        results.row = reached.row
        if not reached.done or status not in (0, DEVICE_LOST, None):
            results.failed(late or f"the process ended with status {status}")
        if status == 0 or not reached.row:
            return
        after = reached.row


def end_group(group: int) -> None:
    """End a process that was started as the first of a group, and all processes of the group."""
    if group:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def describe(run: Run) -> None:
    """Record what runs on which machine, before anything is measured."""
    from harness import machine

    from bench.gpu import facts
    from bench.gpu.results import say

    device = facts.of_driver(run.driver)
    run.results.write(
        "run",
        commit=machine.commit(),
        machine=machine.describe(),
        threads=run.options.threads,
        small=run.small,
        judged=run.results.judged,
        libraries=facts.of_libraries(),
        environment={name: value for name, value in os.environ.items() if name.startswith(("PENSTOCK_", "CUDA_"))},
    )
    run.results.write("fact", device=device)
    say(
        f"{device['name']}, {device['memory_bytes'] / 2**30:.0f} GiB ({(device['free_bytes'] or 0) / 2**30:.0f} free), "
        f"CUDA {device['cuda']} of the driver, {run.options.threads} threads"
    )
    say(f"  {len(device['devices'])} of them: {', '.join(device['devices'])}; the first one is measured")
    say("  " + ", ".join(f"{name} {device[name]}" for name in facts.ATTRIBUTES))
    try:
        now = facts.of_nvml()
        run.results.write("fact", idle=now)
        say("  " + ", ".join(f"{name} {value}" for name, value in now.items()))
    except OSError as error:
        run.results.left_out(f"clocks and PCIe link: {error}")


def probe() -> tuple[str, str | None]:
    """The reason why no row can run, such as a wheel without device code (empty if reads are not refused), and nvCOMP's
    version (None: it is not used).

    A separate process determines them: the device is left to the rows, and a crash does not end the run.
    """
    with tempfile.TemporaryDirectory() as folder:
        status, output = run_within([sys.executable, "-c", PROBE, folder], ROW_SECONDS, Path(folder) / "output")
    last = output.strip().rpartition("\n")[2]
    return last if status == REFUSED else "", last if last.startswith("nvcomp ") else None


def target(options: argparse.Namespace, driver: Any) -> Path:
    from harness import machine

    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    device = "-".join(driver.name().lower().split())
    return Path(options.results) / f"{device}-{machine.commit()}-{today}.jsonl"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    from bench.gpu import arrays
    from bench.gpu.steps import STEPS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", help=f"of {', '.join(STEPS)}; default: all, in this order")
    parser.add_argument("--arrays", default="", help=f"of {', '.join(arrays.specs(False))}; default: all")
    parser.add_argument("--codecs", default="", help="parts of the names of codecs that `smoke` compares; default: all")
    parser.add_argument("--small", action="store_true", help="kilobytes, one turn each; nothing is judged")
    parser.add_argument("--seconds", type=float, default=STEP_SECONDS, help="most that a step takes")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--kernels", default="", help="fatbins that `switches` compares with the build's kernels")
    parser.add_argument("--folder", type=Path, help="arrays; default: build/bench, with --small a temporary folder")
    parser.add_argument("--results", type=Path, help="where results go; default: bench/results/gpu")
    parser.add_argument("--row-seconds", type=float, default=ROW_SECONDS, help="most that a row takes")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)  # for a step's process: its file of results
    parser.add_argument("--after", default="", help=argparse.SUPPRESS)  # for that process: the last row that began
    options = parser.parse_args(arguments)
    # Relative paths would not work, because rows run in another folder.
    options.kernels = ",".join(str(Path(each).resolve()) for each in options.kernels.split(",") if each)
    options.steps = options.steps or list(STEPS)
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    if unknown := set(filter(None, options.arrays.split(","))) - set(arrays.specs(False)):
        parser.error(f"no such array: {', '.join(sorted(unknown))}")
    return options


def worker(options: argparse.Namespace) -> int:
    """One step's rows in this process, which `guard_step` has started."""
    from bench.gpu.driver import Driver
    from bench.gpu.results import Results

    driver = Driver()
    results = Results(options.worker, judged=not (driver.simulated or options.small))
    return run_rows(Run(options, driver, options.folder, results), options.steps[0], options.after)


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: no row failed. 1: some did. 2: there is no device."""
    from bench.gpu.driver import Driver, NoDriverError
    from bench.gpu.results import Results, say

    options = parse(arguments)
    if options.worker:
        return worker(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that child processes are ended
    try:
        driver = Driver()
    except NoDriverError as error:
        say(f"No GPU here: {error}. Nothing was measured.")
        return 2
    keep = options.results is not None or not (driver.simulated or options.small)
    with tempfile.TemporaryDirectory() as scratch:
        if options.results is None:
            options.results = BENCH / "results" / "gpu" if keep else Path(scratch) / "results"
        folder = options.folder or (Path(scratch) / "arrays" if options.small else ROOT / "build" / "bench")
        results = Results(target(options, driver).resolve(), judged=not (driver.simulated or options.small))
        if driver.simulated:
            say("NO HARDWARE: this is the fake driver of the tests. Times say nothing, and nothing is judged.")
        describe(Run(options, driver, folder, results))
        driver.close()
        why, nvcomp = probe()
        results.write("fact", nvcomp=nvcomp)
        if why:
            results.failed(why)
            say(f"Nothing can be read to the device: {why}. No row was begun.")
            return 1
        passed_on = ["--folder", str(folder.resolve()), "--threads", str(options.threads), "--arrays", options.arrays]
        passed_on += ["--codecs", options.codecs]
        passed_on += ["--kernels", options.kernels, *(["--small"] if options.small else [])]
        for name in options.steps:
            results.step, results.row = name, ""
            guard_step(results, passed_on, options.seconds, options.row_seconds)
        lines = results.written()
        failed = [line for line in lines if line["kind"] == "failed"]
        numbers, left_out = (sum(line["kind"] == kind for line in lines) for kind in ("measured", "left_out"))
        say(f"{numbers} numbers, {len(failed)} rows failed, {left_out} left out")
        for each in failed:
            say(f"FAILED      {each['step']}, {each['row']}: {each['why'].partition(chr(10))[0]}")
        if driver.simulated:
            say("NO HARDWARE: every number above is of a simulated device.")
        if keep:
            say(f"Wrote {results.path}")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
