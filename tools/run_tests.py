"""Runs every test of the project, stage by stage, and ends with one line: N passed, N failed, N skipped.

A stage that fails does not stop the others. While the tests of one stage run, the build of the next one uses the idle
processors. Cases are counted from the runners' reports (GoogleTest's JSON, ctest's and pytest's JUnit files); a stage
without a report of its own counts as one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "test-reports"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
BUILDS = 9  # GB of disk space for all builds
SHARED_MEMORY = Path("/dev/shm")  # a file system in memory, on Linux
FILES = 6  # GB, for the files that all Python tests leave
ASAN = "detect_stack_use_after_return=1:strict_string_checks=1"
UBSAN = "print_stacktrace=1"
ALL_CASES = bool(os.environ.get("PENSTOCK_ALL_CASES"))  # `make test-long`
FUZZ_SECONDS = "1"  # per target, for some forty targets, after all seeds; `make fuzz` is the search
SANITIZED = (  # Python tests that pass every kind of argument and buffer to the module
    *("casts", "codec_numcodecs", "create", "dtypes", "entry_points", "file_targets", "registered_codecs"),
    *("joined_shards", "read_options", "selections", "sources", "strings", "strings_write", "tensor"),
    *("tiff_damaged_tags", "tiff_writing_hostile", "window", "zarr_plugin", "zarr_plugin_wrap", "zip"),
)


class Ahead:
    """Builds one target after the other until it is interrupted, on idle processors: tests sleep, wait for servers and
    for the disk, and the last of them run alone. How much it completes does not matter: each stage builds what is
    missing, and reports what fails."""

    # Linux' policy for that: any other thread that wakes takes the processor at once.
    PREFIX = ("chrt", "--idle", "0", "nice", "-n", "19")

    def __init__(self, builds: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = not shutil.which(self.PREFIX[0])
        self.thread = threading.Thread(target=self.run, args=(builds,))
        self.thread.start()

    def run(self, builds: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        for configure, build in builds:
            for command in (configure, build):
                with self.lock:
                    if self.stopped:
                        return
                    self.process = subprocess.Popen(
                        (*self.PREFIX, *command),
                        cwd=ROOT,
                        env=inherited(),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                    )
                if self.process.wait():
                    return

    def stop(self) -> None:
        """Interrupts it: ninja then removes incomplete outputs."""
        with self.lock:
            self.stopped = True
            if self.process and self.process.poll() is None:
                self.process.send_signal(signal.SIGINT)
        self.thread.join()


class Stages:
    """The stages in the order in which they run; each returns its counts."""

    def __init__(self, jobs: int, names: Sequence[str]) -> None:
        self.jobs = str(jobs)
        python = ("-DPENSTOCK_PYTHON=ON", f"-DPython_EXECUTABLE={sys.executable}")
        # For each stage with a build: the preset's options, its folder and the targets.
        self.builds: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
            "unit": (("ci", *python), "build/release", ("all",) if ALL_CASES else ("product", "release_tests")),
            "asan": (("asan", *python), "build/asan", ("all",)),
            "tsan": (("tsan",), "build/tsan", ("threaded_tests",)),
        }
        self.builds = {name: build for name, build in self.builds.items() if name in names}
        self.ahead: Ahead | None = None
        self.checked: subprocess.Popen[bytes] | None = None
        # Downloads the tests of other projects for the stage `python` while the library is built: minutes of waiting.
        fetch = (sys.executable, "tools/test_peers.py", "--fetch")
        self.fetched = subprocess.Popen(fetch, cwd=ROOT) if "python" in names else None

    def start_lint(self) -> None:
        """Starts `make check`: it uses one processor for a minute, in which the library is built."""
        check = ("make", "-s", "--no-print-directory", "check")
        with (REPORTS / "lint.txt").open("w") as report:
            self.checked = subprocess.Popen(check, cwd=ROOT, env=inherited(), stdout=report, stderr=subprocess.STDOUT)

    def lint(self) -> Counter[str]:
        """Format, lint, types and layers: `make check`."""
        assert self.checked, "start_lint() comes first"
        status = self.checked.wait()
        print((REPORTS / "lint.txt").read_text(), end="", flush=True)
        return one(status)

    def unit(self) -> Counter[str]:
        """The library as users get it, warnings as errors; gates, the emulator, vectorised code, the install test."""
        # The other C++ tests run under AddressSanitizer; `make test-long` runs them here, too.
        return self.build("unit") or self.ctest("release", "unit", *(() if ALL_CASES else ("-L", "release")))

    def python(self) -> Counter[str]:
        """The Python tests with the module that `unit` built."""
        if self.fetched:
            self.fetched.wait()  # it has reported failed downloads; tests that need them are skipped
        report = REPORTS / "python.xml"
        with files_in_memory() as environment:
            status = run(*self.pytest(report), **environment)
        return count_junit(report, status)

    def asan(self) -> Counter[str]:
        """The C++ tests under AddressSanitizer and UBSan, each fuzz target for seconds, and some Python tests."""
        return (
            self.build("asan")
            or self.ctest("asan", "asan", PENSTOCK_FUZZ_SECONDS=FUZZ_SECONDS, ASAN_OPTIONS=ASAN, UBSAN_OPTIONS=UBSAN)
            + self.python_asan()
        )

    def python_asan(self) -> Counter[str]:
        """Some of the Python tests, without leak detection: Python frees little when it ends."""
        report = REPORTS / "python-asan.xml"
        runtime = output("clang++", f"-print-file-name=libclang_rt.asan-{platform.machine()}.so")
        status = run(
            *self.pytest(report),
            *(f"python/tests/test_{name}.py" for name in SANITIZED),
            PENSTOCK_CORE=str(next((ROOT / "build" / "asan" / "python").glob("_core*.so"))),
            PYTHONPATH=str(ROOT / "python" / "tests" / "support" / "other_core"),
            LD_PRELOAD=f"{runtime} {output('clang++', '-print-file-name=libstdc++.so.6')}",
            ASAN_OPTIONS=f"{ASAN}:detect_leaks=0:allocator_may_return_null=1",
            UBSAN_OPTIONS=UBSAN,
        )
        return count_junit(report, status)

    def tsan(self) -> Counter[str]:
        """The threaded C++ tests under ThreadSanitizer."""
        return self.build("tsan") or self.ctest(
            "tsan", "tsan", "-L", "threaded", prefix=without_randomised_addresses(), TSAN_OPTIONS="halt_on_error=1"
        )

    def pytest(self, report: Path) -> tuple[str, ...]:
        """Runs the tests of a file in one process; files start in the order that conftest.py defines."""
        how = ("-n", self.jobs, "--dist", "loadfile", "--no-loadscope-reorder", f"--junitxml={report}")
        return (sys.executable, "-m", "pytest", *how)

    def build(self, stage: str) -> Counter[str] | None:
        """Builds what a stage needs. A failed build counts as one failure, a successful one is not counted."""
        self.stop_ahead()
        configure, build = self.commands(stage)
        ok = not run(*configure) and not run(*build)
        del self.builds[stage]
        self.ahead = Ahead([self.commands(name) for name in self.builds])
        return None if ok else Counter({FAILED: 1})

    def commands(self, stage: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The commands that configure and build; ninja is called directly because it can be interrupted."""
        options, folder, targets = self.builds[stage]
        return ("cmake", "--preset", *options), ("ninja", "-C", folder, "-j", self.jobs, *targets)

    def stop_ahead(self) -> None:
        if self.ahead:
            self.ahead.stop()
        self.ahead = None

    def ctest(
        self, folder: str, name: str, *options: str, prefix: tuple[str, ...] = (), **environment: str
    ) -> Counter[str]:
        report, cases = REPORTS / f"{name}.xml", REPORTS / f"{name}-gtest"
        command = ("ctest", "--test-dir", f"build/{folder}", "--output-on-failure", "-j", self.jobs)
        status = run(
            *prefix, *command, "--output-junit", str(report), *options, GTEST_OUTPUT=f"json:{cases}/", **environment
        )
        return count_ctest(report, cases, status)


def run(*command: str, **environment: str) -> int:
    """Runs a command in the project's folder, with the same output streams."""
    sys.stdout.flush()
    return subprocess.run(command, cwd=ROOT, env={**inherited(), **environment}).returncode


def inherited() -> dict[str, str]:
    """Our environment, except that Python may cache what it compiles: tests start some thousand interpreters, and each
    would compile the package again (0.2 s), and each worker of pytest the tests."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextlib.contextmanager
def files_in_memory() -> Iterator[dict[str, str]]:
    """An environment whose temporary files are in memory, if there is room.

    The Python tests write some ten thousand objects, and each waits for the disk. The files of the C++ tests, of the
    Python tests under AddressSanitizer and of `make test-long` are on the disk.
    """
    if ALL_CASES or not has_room(SHARED_MEMORY):
        yield {}
        return
    prefix = "penstock-tests-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=SHARED_MEMORY, ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o1777)  # as /tmp: some tests continue as another user
        yield {"TMPDIR": folder}


def has_room(folder: Path) -> bool:
    """Whether a file system in memory has room for the tests' files, and the machine twice as much memory. Tests load
    libraries that they compile, which a container's file system may forbid."""
    try:
        about, memory = os.statvfs(folder), Path("/proc/meminfo").read_text()
    except OSError:
        return False
    available = int(memory.partition("MemAvailable:")[2].split()[0]) * 1024
    free = about.f_bavail * about.f_frsize
    return not about.f_flag & os.ST_NOEXEC and free >= FILES * 10**9 and available >= 2 * FILES * 10**9


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def without_randomised_addresses() -> tuple[str, ...]:
    """clang 14's ThreadSanitizer does not start if the kernel randomises more than 28 bits of an address."""
    try:
        bits = int(Path("/proc/sys/vm/mmap_rnd_bits").read_text())
    except OSError:
        return ()
    return ("setarch", platform.machine(), "-R") if bits > 28 else ()


def one(status: int) -> Counter[str]:
    return Counter({FAILED if status else PASSED: 1})


def count_junit(report: Path, status: int) -> Counter[str]:
    """Counts a JUnit file's cases; a runner that failed without a failed case counts as one failure."""
    counts = Counter(outcome(case) for case in cases_of(report))
    if status and not counts[FAILED]:
        counts[FAILED] = 1
    return counts


def cases_of(report: Path) -> list[ET.Element]:
    """The cases of a JUnit file; none if the file is incomplete."""
    try:
        return list(ET.parse(report).getroot().iter("testcase"))
    except (FileNotFoundError, ET.ParseError):
        return []


def outcome(case: ET.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return FAILED
    return SKIPPED if case.find("skipped") is not None else PASSED


def count_ctest(report: Path, cases: Path, status: int) -> Counter[str]:
    """Counts GoogleTest's cases if an executable reported them, and otherwise ctest's own entries."""
    counts: Counter[str] = Counter()
    for entry in cases_of(report):
        whole = outcome(entry)
        detail = cases / f"{entry.get('name')}.json"
        inner = count_gtest(detail) if detail.exists() else Counter({whole: 1})
        if whole == FAILED and not inner[FAILED]:
            inner[FAILED] = 1  # every case passed and the process still failed: a leak, or a crash at exit
        counts += inner
    if status and not counts[FAILED]:
        counts[FAILED] = 1
    return counts


def count_gtest(report: Path) -> Counter[str]:
    try:
        suites = json.loads(report.read_text())["testsuites"]
    except ValueError:  # the process died while it wrote the file
        return Counter({FAILED: 1})
    cases = [case for suite in suites for case in suite["testsuite"]]
    return Counter(
        FAILED if case.get("failures") else SKIPPED if case.get("result") == "SKIPPED" else PASSED for case in cases
    )


def main() -> int:
    names = ["unit", "lint", "python", "asan", "tsan"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("stages", nargs="*", help=f"of {' '.join(names)}; all when none is given")
    options = parser.parse_args()
    if unknown := set(options.stages) - set(names):
        parser.error(f"no such stage: {', '.join(sorted(unknown))}")

    if REPORTS.exists():
        for old in sorted(REPORTS.rglob("*"), reverse=True):
            old.rmdir() if old.is_dir() else old.unlink()
    REPORTS.mkdir(parents=True, exist_ok=True)

    if (free := shutil.disk_usage(ROOT).free / 1e9) < BUILDS and not (ROOT / "build" / "tsan").exists():
        print(f"Little space: the builds take about {BUILDS} GB, and {free:.1f} GB are free", flush=True)

    stages = Stages(options.jobs, options.stages or names)
    if not options.stages or "lint" in options.stages:
        stages.start_lint()
    total: Counter[str] = Counter()
    lines = []
    for name in names:
        if options.stages and name not in options.stages:
            continue
        stage: Callable[[], Counter[str]] = getattr(stages, name)
        print(f"\n=== {name}: {stage.__doc__}", flush=True)
        start = time.monotonic()
        try:
            counts = stage()
        except BaseException:
            stages.stop_ahead()
            raise
        total += counts
        lines.append(f"{name:<8}{time.monotonic() - start:7.0f} s   {summary(counts)}")
    stages.stop_ahead()
    print("\n" + "\n".join(lines) + "\n\n" + summary(total), flush=True)
    return 1 if total[FAILED] or not total[PASSED] else 0


def summary(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[kind]} {kind}" for kind in (PASSED, FAILED, SKIPPED))


if __name__ == "__main__":
    sys.exit(main())
