"""Runs libFuzzer targets.

As a test:  fuzz.py TARGET SEEDS          a few seconds (PENSTOCK_FUZZ_SECONDS, 5) from the seeds alone, with the same
            random numbers each time: a change does not fail for unrelated reasons
By hand:    fuzz.py --build DIR --seconds N [NAME...]   builds the targets and runs all, or those named, from the
            seeds, from the inputs that earlier runs by hand have found, and from the corpus next to the checkout
            (PENSTOCK_CORPUS, ../shared/corpus), if that has a folder of the target's name: `tiff`
            fuzz.py --build DIR --runs N [NAME...]      the same with a number of inputs for each target, for as long
            as they take; with --seconds the run ends at whichever limit is reached first
NAME may be a pattern: 'fuzz_hdf5_*'. At the end of a run by hand there is a table of libFuzzer's own figures.

An input that crashes is saved as <build>/fuzz/<what>/crash-*. Add it to the seeds under a descriptive name, and every
build replays it from then on.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus"))


def work_folder(target: Path) -> Path:
    """<build>/tests/fuzz/fuzz_<what> keeps its findings in <build>/fuzz/<what>."""
    return target.parents[2] / "fuzz" / target.name.removeprefix("fuzz_")


@dataclass
class Outcome:
    """The exit status of a target, and libFuzzer's figures (`stat::peak_rss_mb` and others) without their prefix."""

    status: int
    figures: dict[str, str] = field(default_factory=dict)


def fuzz(target: Path, seeds: list[Path], corpus: Path, limits: list[str]) -> Outcome:
    """Runs one target until one of `limits` (libFuzzer's options) is reached.

    The target reads all folders and adds to `corpus`.
    """
    what = target.name.removeprefix("fuzz_")
    work = work_folder(target)
    for folder in (work, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    dictionary = ROOT / "tests" / "fuzz" / f"{what}.dict"
    command: list[str | Path] = [target, corpus, *(each for each in seeds if each.is_dir())]
    command += [f"-dict={dictionary}"] if dictionary.exists() else []
    # An input of less than 1 MB may take one second and 256 MiB: waits and hostile allocations are findings, too. The
    # sanitizer makes code some five times slower, and keeps freed memory for a while.
    command += [*limits, "-max_len=1000000", "-timeout=5"]
    # In targets that link the whole library, choosing inputs by the entropy of their features takes half of the time.
    command += ["-entropic=0"]
    command += ["-rss_limit_mb=1024", "-malloc_limit_mb=256"]
    command += [f"-artifact_prefix={work}/", "-print_final_stats=1", "-verbosity=0"]
    environment = {"ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=64", **os.environ}
    outcome = Outcome(0)
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, errors="replace") as running:
        assert running.stderr is not None
        for line in running.stderr:
            sys.stderr.write(line)
            if line.startswith("stat::"):
                name, _, value = line.removeprefix("stat::").partition(":")
                outcome.figures[name] = value.strip()
    outcome.status = running.returncode
    return outcome


def table(names: list[str], outcomes: list[Outcome]) -> str:
    columns = {
        "inputs": "number_of_executed_units",
        "a second": "average_exec_per_sec",
        "slowest, s": "slowest_unit_time_sec",
        "MB": "peak_rss_mb",
    }
    rows = [["target", *columns]]
    for name, outcome in zip(names, outcomes, strict=True):
        rows.append([name, *(outcome.figures.get(each, "-") for each in columns.values())])
    return "\n".join(f"{row[0]:24}" + "".join(f"{each:>12}" for each in row[1:]) for row in rows)


def limits_of(seconds: int | None, runs: int | None) -> list[str]:
    """The options that end a run: after a number of seconds, a number of inputs, or whichever is reached first."""
    if seconds is None and runs is None:
        seconds = int(os.environ.get("PENSTOCK_FUZZ_SECONDS", "5"))
    limits = [] if seconds is None else [f"-max_total_time={seconds}"]
    return limits if runs is None else [*limits, f"-runs={runs}"]


def positive(text: str) -> int:
    """A number of seconds or inputs. For libFuzzer, 0 seconds and -1 inputs mean no limit."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, help="build folder, configured with PENSTOCK_LIBFUZZER")
    parser.add_argument("--seconds", type=positive, help="for each target (PENSTOCK_FUZZ_SECONDS or 5 without --runs)")
    parser.add_argument("--runs", type=positive, help="inputs for each target")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    limits = limits_of(options.seconds, options.runs)
    if options.build is None:
        target, seeds = map(Path, options.names)
        with tempfile.TemporaryDirectory() as corpus:
            return fuzz(target.absolute(), [seeds], Path(corpus), [*limits, "-seed=1"]).status

    known = sorted(path.stem for path in (ROOT / "tests" / "fuzz").glob("fuzz_*.cc"))
    for each in options.names:
        if not fnmatch.filter(known, each):
            parser.error(f"no target '{each}'; the targets: {', '.join(known)}")
    names = [name for name in known if not options.names or any(fnmatch.fnmatch(name, each) for each in options.names)]
    build = ["cmake", "--build", options.build, "-j", str(options.jobs), "--target", "fuzz_targets"]
    subprocess.run(build, check=True)
    targets = [options.build.resolve() / "tests" / "fuzz" / name for name in names]

    def search(target: Path) -> Outcome:
        what = target.name.removeprefix("fuzz_")
        seeds = [ROOT / "tests" / "data" / "fuzz" / what, CORPUS / what]
        return fuzz(target, seeds, work_folder(target) / "corpus", limits)

    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(search, targets))
    failed = [name for name, outcome in zip(names, outcomes, strict=True) if outcome.status]
    print(table(names, outcomes))
    print(
        f"{len(names) - len(failed)} targets without a finding" + (f"; findings: {', '.join(failed)}" if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
