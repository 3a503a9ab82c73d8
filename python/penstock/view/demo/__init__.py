"""`penstock demo`: writes the benchmark array, reads it, compares, and draws the reads."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock._core import bytes_text
from penstock.core.sizes import counted

from . import benchmark_array, ceiling, zarr_python
from .benchmark_array import BenchmarkArray

REPEATS = 5
CEILINGS = {"pread": "pread alone", "decode": "libzstd alone into warm memory", "memcpy": "memcpy"}
OUT, WHOLE = "penstock, out=", "penstock, a[:]"
REAL_DATA = Path(__file__).resolve().parent / "data" / "jacksboro_fault_dem.zarr"

_DESCRIPTION = "Write an array, read it, show where the time goes"
_EPILOG = """\
Writes a sharded Zarr array of up to 3.3 GB (0.6 GB on disk) with zarr-python, if the folder does not have it, reads it
with Penstock and with zarr-python, compares the values, and draws pictures of the reads. Needs zarr-python and
matplotlib: pip install 'penstock[demo]'.

Examples:
  penstock demo
  penstock demo --output /tmp/demo --threads 8"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="the folder for arrays and pictures")
    parser.add_argument("--threads", type=int, default=0, help="for each reader; default: one for each core")
    # For tests: a fraction of the benchmark array.
    parser.add_argument("--scale", type=float, default=1.0, help=argparse.SUPPRESS)


def main(arguments: list[str] | None = None) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("penstock demo", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=layout)
    add_arguments(parser)
    return run(parser.parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    """The exit status: 0, or 1 if a file is missing or the readers disagree."""
    try:
        import matplotlib
        import zarr
    except ImportError as error:
        print(f"penstock demo needs {error.name}: pip install 'penstock[demo]'", file=sys.stderr)
        return 1
    del matplotlib, zarr
    threads = options.threads or len(os.sched_getaffinity(0))
    return Demo(options.output, threads, options.scale, say).run()


def say(line: str = "") -> None:
    print(line, flush=True)


class Demo:
    """The demo's steps, in order; every picture is written to `output`."""

    def __init__(self, output: Path, threads: int, scale: float, say: Callable[..., None]) -> None:
        self.output = output
        self.threads = threads
        self.say = say
        self.array, reason = benchmark_array.choose(output, scale)
        if reason:
            say(f"The benchmark array is smaller here: {reason}")
        self.agreed = True
        self.rates: dict[str, float] = {}  # best decoded bytes per second of each reader
        self.ceilings: dict[str, float] = {}  # best bytes per second
        self.left_out: dict[str, str] = {}  # reader: why
        self.limits: ceiling.Ceiling | None = None
        self.profile: Any = None  # of the median read into memory

    def run(self) -> int:
        self.output.mkdir(parents=True, exist_ok=True)
        with ps.Context(threads=self.threads):
            return self.steps()

    def steps(self) -> int:
        self.array.ensure(self.say)
        self.say()
        with contextlib.ExitStack() as stack:
            program = ceiling.find()
            if program is None:
                self.say("Ceilings are not measured: penstock_ceiling is not built (`make build` builds it)")
            else:
                limits = ceiling.Ceiling(program, self.array.encoded_chunks(), self.threads)
                self.limits = stack.enter_context(limits)
            self.say(f"Reading: every reader and every ceiling of this machine once per turn, {REPEATS + 1} turns ...")
            self.say()
            self.read()
        self.print_stages()
        self.print_rates()
        self.draw()
        self.real_data()
        self.say()
        if not self.agreed:
            self.say("FAILED: the readers do not agree")
            return 1
        self.say(f"All readers agree with what was written. Pictures: {self.output}/*.png")
        return 0

    def read(self) -> None:
        """Each reader and each ceiling once per turn, so that a slow minute of the machine affects all of them.

        The first turn does not count: it checks the values of all readers.
        """
        array = ps.open_array(str(self.array.path))
        out = np.ones(self.array.elements, dtype=np.float32)
        profiles = []

        def into_memory() -> Any:
            with ps.profile() as profile:
                array.read(out=out, threads=self.threads)
            profiles.append(profile)
            return out

        readers = {OUT: into_memory, WHOLE: lambda: array[:], **self.zarr_readers()}
        best = dict.fromkeys(readers, float("inf"))
        for turn in range(REPEATS + 1):
            limits = {what: self.limits.measure(what) for what in CEILINGS} if self.limits else {}
            for name, read in readers.items():
                begin = time.perf_counter()
                values = read()
                seconds = time.perf_counter() - begin
                if turn == 0:
                    self.check(name, values)
                else:
                    best[name] = min(best[name], seconds)
                del values
            for what, measured in limits.items():
                profiles[-1].ceilings[what] = measured.raw if what == "pread" else measured.effective
                self.ceilings[what] = max(self.ceilings.get(what, 0), profiles[-1].ceilings[what])
        self.rates = {name: self.array.nbytes / seconds for name, seconds in best.items()}
        self.profile = sorted(profiles[1:], key=slowness)[REPEATS // 2]

    def zarr_readers(self) -> dict[str, Callable[[], Any]]:
        import zarr

        readers = {}
        for pipeline, path in zarr_python.PIPELINES.items():
            name = f"zarr-python, {pipeline} pipeline"
            reason = zarr_python.missing(pipeline)
            if reason:
                self.left_out[name] = reason
                continue
            with zarr_python.configured(path, self.threads):
                array = zarr.open_array(str(self.array.path), mode="r")
            readers[name] = zarr_reader(array, path, self.threads)
        return readers

    def print_stages(self) -> None:
        self.profile.save(self.output / "profile.html")
        turn = f"the median of {REPEATS} turns" + (", against ceilings of the same turn" if self.ceilings else "")
        self.say(f"Read {bytes_text(self.array.nbytes)} into given memory, {counted(self.threads, 'thread')}; {turn}:")
        self.say()
        self.say(self.profile.table())
        if not any(stage["what"] == "scatter" and stage["bytes_out"] for stage in self.profile.report["stages"]):
            self.say("Nothing to scatter: every chunk was decoded straight into the result")
        if self.ceilings:
            limits = [f"{name} {self.profile.ceilings[what] / 1e9:.2f} GB/s" for what, name in CEILINGS.items()]
            self.say("Ceilings, same chunks and threads: " + ", ".join(limits))
        self.say()

    def print_rates(self) -> None:
        threads = counted(self.threads, "thread")
        self.say(f"Read {bytes_text(self.array.nbytes)}, {threads}, best of {REPEATS} after a first read:")
        self.say()
        for name, rate in self.rates.items():
            self.say(f"  {name:<30}{self.array.nbytes / rate * 1e3:>9.0f} ms {rate / 1e9:>8.2f} GB/s")
        for name, reason in self.left_out.items():
            self.say(f"  {name:<30} skipped: {reason}")

    def check(self, name: str, values: np.ndarray[Any, Any]) -> None:
        if not self.array.matches(values):
            self.agreed = False
            self.say(f"WRONG VALUES from {name}")

    # Pictures.

    def draw(self) -> None:
        from . import charts

        shards = f"{self.array.shards} × {self.array.chunks_per_shard} zstd chunks in shards"
        machine = (
            f"{bytes_text(self.array.nbytes)} of float32, {shards}; {counted(self.threads, 'thread')}; {processor()}"
        )
        total = self.array.nbytes / (self.profile.report["wall_ns"] / 1e9) / 1e9
        charts.timeline(
            self.output / "timeline.png", self.profile.report, f"What Penstock's workers did: {total:.2f} GB/s", machine
        )
        labels = {OUT: "Penstock, into given memory", WHOLE: "Penstock, a[:]"}
        rows = [charts.Bar(labels.get(name, name), rate / 1e9, name in labels) for name, rate in self.rates.items()]
        limit = self.ceilings["decode"] / 1e9 if "decode" in self.ceilings else None
        charts.peers(self.output / "peers.png", rows, limit, "Reading the benchmark array", machine)

    def real_data(self) -> None:
        from . import charts

        array = ps.open_array(str(REAL_DATA))
        heights = array[...]
        import zarr

        if not np.array_equal(heights, zarr.open_array(str(REAL_DATA), mode="r")[...]):
            self.agreed = False
            self.say(f"WRONG VALUES in {REAL_DATA.name}")
        about = dict(array.attrs)
        shape = " × ".join(str(length) for length in array.shape)
        shards = array.shards or array.shape
        about["footnote"] = (
            f"{shape} {heights.dtype}, shards of {shards[0]} × {shards[1]}, chunks of "
            f"{array.chunks[0]} × {array.chunks[1]} (lines). Data: {about['source']}."
        )
        charts.elevation(self.output / "real_data.png", heights, about, array.chunks)
        self.say()
        self.say(f"Real data: {about['title']}, {shape} {heights.dtype}, {heights.min()} to {heights.max()} m")


def slowness(profile: Any) -> float:
    """A read's time as a multiple of libzstd's own in the same turn; unchanged if no ceiling is known."""
    return float(profile.ceilings.get("decode", 1.0) * profile.report["wall_ns"])


def zarr_reader(array: Any, pipeline_path: str, threads: int) -> Callable[[], Any]:
    def read() -> Any:
        with zarr_python.configured(pipeline_path, threads):
            return array[:]

    return read


def processor() -> str:
    """The processor's name and the number of its cores that this process may use."""
    name = "unknown processor"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {counted(len(os.sched_getaffinity(0)), 'core')}"


__all__ = ["BenchmarkArray", "Demo", "add_arguments", "main", "run"]
