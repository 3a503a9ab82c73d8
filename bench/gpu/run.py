"""Measures reads into GPU memory: parity and compute-sanitizer first, then ceilings, arrays, implementations, decoders.

    python -m bench.gpu                       # everything, about ten minutes with the arrays to be made
    python -m bench.gpu --small               # kilobytes: to see that it runs
    python -m bench.gpu --steps parity,sanitizer,ceilings

Needs a CUDA driver, Penstock with device code, and NumPy; no network. CuPy or PyTorch compute where they are installed,
zarr-python is compared with where it is, nvCOMP and nvTIFF (by nvImageCodec) where their wheels are; what is missing is
named. Results are written after
every step to bench/results/gpu/, with the timeline of a read beside them. Against the fake driver of the tests
(PENSTOCK_CUDA_DRIVER) everything runs too; nothing is judged then, and nothing is kept unless --results says where.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parent
sys.path.insert(0, str(BENCH))

STEPS = ("parity", "sanitizer", "ceilings", "arrays", "implementations", "decoders", "tiff", "latency")
TOOLS = ("memcheck", "racecheck", "synccheck")
SANITIZER_SECONDS = 240.0
GB = 1e9


class Run:
    """One run: what it knows, what it found, and where that goes."""

    def __init__(self, options: argparse.Namespace, driver: Any, folder: Path) -> None:
        from bench.gpu import arrays

        self.options, self.driver, self.folder = options, driver, folder
        self.specs = arrays.specs(options.small)
        self.found: dict[str, Any] = {}
        self.failed: dict[str, str] = {}
        self.missing: list[str] = []
        self.bars: list[dict[str, Any]] = []
        self.pictures: list[Path] = []

    @property
    def turns(self) -> int:
        return 1 if self.options.small else 5

    def context(self, decoder: str | None = None) -> Any:
        import penstock as ps

        return ps.Context(threads=self.options.threads, decoder=decoder)

    def open(self, name: str, decoder: str | None = None) -> tuple[Any, Any]:
        """An array, written where it is not there yet, and the context of its reads."""
        import penstock as ps

        from bench.gpu import arrays

        path = arrays.ensure(self.folder, self.specs[name])
        context = self.context(decoder)
        return ps.open(str(path), context=context), context

    def bar(self, name: str, value: float | None, bar: float, unit: str, at_least: bool = True) -> None:
        """Holds a number against its bar, where there is hardware and an array of full size."""
        judged = value is not None and not self.driver.simulated and not self.options.small
        met = None if not judged or value is None else (value >= bar if at_least else value <= bar)
        self.bars.append({"name": name, "value": value, "bar": bar, "at_least": at_least, "unit": unit, "met": met})

    # ---- the steps ----

    def parity(self) -> None:
        from bench.gpu import parity

        with tempfile.TemporaryDirectory() as folder:
            self.found["parity"] = {"reads_compared": parity.compare(Path(folder))}
        say(f"  {self.found['parity']['reads_compared']} reads give the host's bytes")

    def sanitizer(self) -> None:
        tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        if self.driver.simulated or tool is None:
            why = "there is no hardware" if self.driver.simulated else "it is not installed"
            self.missing.append(f"compute-sanitizer: {why}")
            return
        self.found["sanitizer"] = {}
        for kind in TOOLS:
            command = [tool, "--tool", kind, "--error-exitcode", "9", sys.executable, "-m", "bench.gpu.parity"]
            status, output = run_within(command, SANITIZER_SECONDS)
            summary = [line for line in output.splitlines() if "SUMMARY" in line]
            self.found["sanitizer"][kind] = {"status": status, "summary": summary}
            say(f"  {kind}: status {status} {' '.join(summary)}")
            if status:
                self.failed[f"sanitizer {kind}"] = output[-2000:]

    def ceilings(self) -> None:
        from bench.gpu import arrays, measure

        size = 1 << 20 if self.options.small else 256 << 20
        rates = self.driver.copy_rates(size, 2 if self.options.small else 8)
        path = arrays.ensure(self.folder, self.specs["benchmark"])
        rates["pread"] = measure.pread_rate(arrays.files(path), self.options.threads)
        self.found["ceilings"] = rates
        for name, rate in rates.items():
            say(f"  {name:<14}{rate / GB:9.2f} GB/s")

    def arrays(self) -> None:
        from bench.gpu import arrays, implementations, measure

        self.found["arrays"] = {}
        for name, spec in self.specs.items():
            array, context = self.open(name)
            path = arrays.path_of(self.folder, spec)
            check(array, spec)
            read = implementations.penstock_read(array)
            warm = measure.best_of(self.turns, read)
            dropped = measure.best_of(1, read, lambda path=path: arrays.drop_page_cache(path))
            profile = measure.profiled(context, read)
            profile.ceilings = self.profile_ceilings()
            row = {
                "title": spec.title,
                "nbytes": spec.nbytes,
                "stored_bytes": sum(arrays.sizes(path).values()),
                "warm": warm,
                "dropped_page_cache": dropped,
                "warm_bytes_per_s": spec.nbytes / warm["best_s"],
                "stages": measure.stages(profile.report),
                "table": profile.table().splitlines(),
            }
            self.found["arrays"][name] = row
            say(
                f"  {spec.title}: warm {rate(spec.nbytes, warm)}, dropped page cache {rate(spec.nbytes, dropped)}, "
                f"a kernel runs {row['stages']['kernel_share']:.0%} of the time"
            )
            if name == "benchmark":
                say("    " + "\n    ".join(row["table"]))
                self.draw(profile, spec.title)
                self.bar("storage to decoded device memory", row["warm_bytes_per_s"] / GB, 100, "GB/s")
                copies = row["stages"]["transfer"]["bytes_per_s_while_decoding"]
                limit = self.found.get("ceilings", {}).get("to_device")
                self.bar("copies of the PCIe rate", copies / limit if copies and limit else None, 0.9, "x")
        if "benchmark" in self.found["arrays"] and "benchmark_raw" in self.found["arrays"]:
            slower = (
                self.found["arrays"]["benchmark_raw"]["warm"]["best_s"]
                / self.found["arrays"]["benchmark"]["warm"]["best_s"]
            )
            self.found["uncompressed_takes"] = slower
            say(f"  uncompressed takes {slower:.2f} times as long (published: about 2)")

    def implementations(self) -> None:
        from bench.gpu import arrays, compute, implementations, measure

        spec = self.specs["benchmark"]
        path = arrays.ensure(self.folder, spec)
        threads = self.options.threads
        library, missing = compute.choose(self.driver.simulated)
        self.missing += missing
        array, _ = self.open("benchmark")
        makers: dict[str, Callable[[bool], Callable[[], float]]] = {
            "zarr-python, NumPy": lambda dots: implementations.zarr_numpy(path, spec, threads, dots),
            "zarr-python, CuPy": lambda dots: implementations.zarr_cupy(path, spec, dots),
            "Penstock": lambda dots: implementations.penstock_stream(array, library if dots else None),
        }
        rows: dict[str, Any] = {"compute": library.name, "dots": compute.DOTS, "shards": spec.shards}
        for name, make in makers.items():
            rows[name] = {}
            for dots in (False, True):
                what = "with compute" if dots else "load"
                try:
                    turns = 1 if name != "Penstock" else self.turns
                    rows[name][what] = measure.best_of(turns, make(dots))
                    say(f"  {name}, {what}: {rate(spec.nbytes, rows[name][what])}")
                except implementations.Unavailable as why:
                    rows[name] = {"missing": str(why)}
                    self.missing.append(f"{name}: {why}")
                    break
        reads = [implementations.penstock_by_shard(array, spec) for _ in range(self.turns + 1)][1:]
        rows["caller_us_a_shard"] = min(each[1] for each in reads) * 1e6
        say(f"  the caller's own time: {rows['caller_us_a_shard']:.0f} µs a shard (published: 60 to 2,400)")
        load, both = rows["Penstock"]["load"]["best_s"], rows["Penstock"]["with compute"]["best_s"]
        alone = self.compute_alone(array, spec, library)
        rows["compute_alone_s"] = alone
        longest, other = max(load, alone), min(load, alone)
        self.bar(
            "compute overlapped, of what it may take", both / (1.1 * (longest + other / spec.shards)), 1, "x", False
        )
        self.found["implementations"] = rows

    def compute_alone(self, array: Any, spec: Any, library: Any) -> float:
        """Seconds of the dot products of all shards, with the values already there."""
        import numpy as np
        import penstock as ps

        from bench.gpu import measure

        tensor = array.read(np.s_[spec.shard(0)], device="cuda").synchronize()
        stream = ps._core._DeviceStream(0)

        def run() -> float:
            def work() -> None:
                for _ in range(spec.shards):
                    library.queue(tensor, stream.handle)
                library.finish()

            return measure.timed(work)

        return measure.best_of(1, run)["best_s"]

    def decoders(self) -> None:
        """Ours and nvCOMP on the same streams: the time in which a decode stream is busy."""
        import penstock as ps

        from bench.gpu import implementations, measure

        try:
            nvcomp = self.context("nvcomp").decoder
        except ps.Error as error:
            nvcomp = None
            self.missing.append(f"nvCOMP: {error}".splitlines()[0])
        rows: dict[str, Any] = {"nvcomp": nvcomp}
        for name in ("benchmark", "walk_zstd", "packed_zstd", "walk_blosc", "walk_lz4", "walk_zlib"):
            spec = self.specs[name]
            rows[name] = {}
            for decoder in (None, "nvcomp") if nvcomp else (None,):
                array, context = self.open(name, decoder)
                check(array, spec)
                read = implementations.penstock_read(array)
                best = None
                for _ in range(self.turns):
                    seconds = measure.stages(measure.profiled(context, read).report)["decode"]["s"]
                    best = seconds if best is None else min(best, seconds)
                rows[name][decoder or "penstock"] = {
                    "decode_s": best,
                    "bytes_per_s": spec.nbytes / best if best else None,
                }
            ours, theirs = rows[name]["penstock"]["decode_s"], rows[name].get("nvcomp", {}).get("decode_s")
            ratio = theirs / ours if ours and theirs else None
            rows[name]["of_nvcomp"] = ratio
            say(f"  {spec.title}: ours {ours * 1e3:.3f} ms" + (f", nvCOMP {theirs * 1e3:.3f} ms" if theirs else ""))
            if name in ("benchmark", "walk_lz4", "walk_zlib"):
                self.bar(f"our decoder against nvCOMP, {spec.title}", ratio, 1, "x")
        self.found["decoders"] = rows

    def tiff(self) -> None:
        """Whole images, from the page cache until the device is done: ours and nvTIFF on the same files."""
        import numpy as np
        import penstock as ps

        from bench.gpu import implementations, measure

        side = 256 if self.options.small else 8192
        values = np.random.default_rng(5).integers(0, 9, (3, side, side)).cumsum(-1)
        self.found["tiff"] = {}
        for dtype, compress, predictor in (("u1", "deflate", None), ("u1", "lzw", 2), ("u1", "deflate", 2)):
            name = f"{compress}, predictor {predictor or 1}"
            path = self.folder / f"image-{compress}-{predictor or 1}.tif"
            ps.save(path, values.astype(dtype), compress=compress, predictor=predictor, tiles=256, overviews=None)
            opened = ps.open(path, layout="native", context=self.context())
            wanted = opened[...]
            np.testing.assert_array_equal(opened.read(device="cuda").numpy(), wanted)
            row = {"penstock": measure.best_of(self.turns, implementations.penstock_read(opened))}
            said = rate(wanted.nbytes, row["penstock"])
            try:
                row["nvtiff"] = measure.best_of(
                    self.turns, implementations.nvtiff(path, wanted, self.driver.synchronize)
                )
                row["of_nvtiff"] = row["nvtiff"]["best_s"] / row["penstock"]["best_s"]
                said += f"; nvTIFF: {rate(wanted.nbytes, row['nvtiff'])}"
            except implementations.Unavailable as why:
                self.missing.append(f"nvTIFF, {name}: {why}")
            self.found["tiff"][name] = row
            say(f"  TIFF of {wanted.nbytes >> 20} MiB, {name}: {said}")

    def latency(self) -> None:
        """Ten chunks of 8 KiB from the page cache until the device is done."""
        import numpy as np
        import penstock as ps

        from bench.gpu import measure

        self.found["latency"] = {}
        values = np.arange(10 * 2048, dtype="f4")
        for name, codecs in (("raw", []), ("lz4", ["numcodecs.lz4"])):
            uri = str(self.folder / f"latency-{name}.zarr")
            shutil.rmtree(uri, ignore_errors=True)
            made = ps.create_array(uri, shape=values.shape, dtype="f4", chunks=(2048,), codecs=codecs)
            made[...] = values
            opened = ps.open(uri, context=self.context())
            np.testing.assert_array_equal(opened.read(device="cuda").numpy(), values)
            best = measure.best_of(
                3 if self.options.small else 200,
                lambda opened=opened: measure.timed(lambda: opened.read(device="cuda").synchronize()),
            )
            self.found["latency"][name] = best
            say(f"  {name}: best {best['best_s'] * 1e6:.0f} µs, median {best['median_s'] * 1e6:.0f} µs")
            self.bar(f"ten chunks of 8 KiB, {name}", best["median_s"] * 1e6, 150, "µs", at_least=False)

    # ---- what becomes of it ----

    def profile_ceilings(self) -> dict[str, float]:
        rates = self.found.get("ceilings", {})
        known = {"pread": "pread", "transfer": "to_device", "memcpy": "device_memory"}
        return {row: rates[name] for row, name in known.items() if name in rates}

    def draw(self, profile: Any, title: str) -> None:
        """The timeline of a read: HTML always, PNG where matplotlib is installed."""
        target = self.target().with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        html = target.with_name(target.name + "-timeline.html")
        profile.save(html)
        self.pictures = [html]
        try:
            from penstock.demo import charts
        except ImportError as error:
            self.missing.append(f"the timeline as PNG: {error}")
            return
        png = target.with_name(target.name + "-timeline.png")
        try:
            charts.timeline(png, profile.report, f"Reading {title}", self.driver.name())
            self.pictures.append(png)
        except ValueError as error:
            self.missing.append(f"the timeline as PNG: {error}")

    def target(self) -> Path:
        from harness import machine

        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        device = "-".join(self.driver.name().lower().split())
        return Path(self.options.results) / f"{device}-{machine.commit()}-{today}.json"

    def write(self) -> Path:
        from harness import machine

        document = {
            "machine": machine.describe(),
            "device": self.driver.describe(),
            "commit": machine.commit(),
            "threads": self.options.threads,
            "small": self.options.small,
            "judged": not self.driver.simulated and not self.options.small,
            "found": self.found,
            "bars": self.bars,
            "missing": self.missing,
            "failed": self.failed,
        }
        target = self.target()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(document, indent=1) + "\n")
        return target


def check(array: Any, spec: Any) -> None:
    """The first and the last shard, read to the device, are what was written."""
    import numpy as np

    for number in {0, spec.shards - 1}:
        got = array.read(np.s_[spec.shard(number)], device="cuda").numpy()
        if not np.array_equal(got, spec.expected(number)):
            raise AssertionError(f"{spec.title}: shard {number} has other values on the device")


def run_within(command: list[str], seconds: float) -> tuple[int, str]:
    """A program's status and what it said. One that takes longer is ended with all that it has started: status 124."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return 124, f"{output}\nnot done after {seconds:g} s"


def without_parity(error: Exception) -> str:
    """What a failure of the comparison means: other bytes, or that nothing could be compared, and why."""
    from bench.gpu.parity import DifferenceError

    if isinstance(error, DifferenceError):
        return f"the device gives other bytes ({error})"
    why = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
    return f"the device could not be compared with the host ({why})"


def rate(nbytes: int, taken: dict[str, float]) -> str:
    return f"{taken['best_s'] * 1e3:.2f} ms, {nbytes / taken['best_s'] / GB:.2f} GB/s"


def say(line: str) -> None:
    print(line, flush=True)


def show(bars: list[dict[str, Any]]) -> None:
    for each in bars:
        value = "-" if each["value"] is None else f"{each['value']:.2f}"
        sign = "at least" if each["at_least"] else "at most"
        verdict = {True: "met", False: "MISSED", None: "not judged"}[each["met"]]
        say(f"{verdict:<11}{each['name']}: {value} {each['unit']} ({sign} {each['bar']:g})")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default=",".join(STEPS), help=f"of {', '.join(STEPS)}")
    parser.add_argument("--small", action="store_true", help="kilobytes, one turn each; nothing is judged")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--folder", type=Path, help="where arrays are kept; default: build/bench, or for --small nowhere"
    )
    parser.add_argument("--results", type=Path, help="where results go; default: bench/results/gpu")
    options = parser.parse_args(arguments)
    steps = options.steps.split(",")
    if unknown := set(steps) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")

    from bench.gpu.driver import Driver, NoDriverError

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
        if driver.simulated:
            say("NO HARDWARE: this is the fake driver of the tests. Times say nothing, and nothing is judged.")
        about = driver.describe()
        say(
            f"{about['name']}, {about['memory_bytes'] / 2**30:.0f} GiB, driver {about['driver']}, "
            f"{options.threads} threads"
        )
        run = Run(options, driver, folder)
        for name in steps:
            say(name)
            try:
                getattr(run, name)()
            except Exception as error:
                traceback.print_exc()
                run.failed[name] = f"{type(error).__name__}: {error}"
                if name == "parity":
                    say(f"{without_parity(error)}: nothing is measured")
                    run.write()
                    return 1
            written = run.write()
        show(run.bars)
        for each in run.missing:
            say(f"left out    {each}")
        for name, why in run.failed.items():
            say(f"FAILED      {name}: {why.splitlines()[-1]}")
        if driver.simulated:
            say("NO HARDWARE: every number above is of a simulated device.")
        if keep:
            say(f"Wrote {written}" + "".join(f" and {each.name}" for each in run.pictures))
        return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
