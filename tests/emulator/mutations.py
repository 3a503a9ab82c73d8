"""Inserts faults into the kernels, one at a time, and reports the findings by which the emulator's tests detect them.

    tests/emulator/mutations.py [--program TEST_EMULATOR] [--jobs N] [--reach TESTS] [ONLY...]

Faults: a barrier of the device code is omitted; a collective lacks a lane in its mask; a funnel shift or byte
permutation has its operands swapped. Nothing is compiled: the emulator applies the fault. ONLY chooses faults by a part
of their name ("lz_output.h", "swap"), --reach the tests whose barriers are omitted: all take an hour of a processor.
Exit status 1: a fault was not found; it is either a gap of the tests or a barrier that is not needed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "tests" / "emulator" / "test_emulator"
DECODERS = ROOT / "src" / "cuda" / "decode"
EVERYTHING = "-Emulator.*"  # its own tests have findings
# The tests that reach a file, those of seconds first.
TESTS = {
    "deflate_code.h": ("DeviceInflate.Verif*:DeviceInflate.*Several*", "DeviceInflate.*:DeviceBlosc.*"),
    "inflate.h": ("DeviceInflate.Verif*:DeviceInflate.*Several*", "DeviceInflate.*:DeviceBlosc.*"),
    "lz_formats.h": (
        "DeviceLz4.Accepts*:DevicePackBits.*:DeviceLz4Frame.*Several*",
        "DeviceLz4*:DeviceBlosc.*:DevicePack*",
    ),
    "lz_parse.h": ("LzParse.Decodes*:DeviceLz4.Accepts*", "LzParse.*:DeviceLz4*:DeviceBlosc.*:DevicePack*"),
    "lz_found.h": ("DeviceInflate.Verif*:DeviceLzw.Ignores*", "DeviceInflate.*:DeviceLzw.*"),
    "lzw.h": ("DeviceLzw.Ignores*", "DeviceLzw.*"),
    "lz_output.h": (
        "DeviceZstd.*ManyChunks*:DeviceLz4.Accepts*:DeviceZstd.*Benchmark*:DeviceLzw.Ignores*:DeviceZstd.*RepeatedByte",
        "DeviceZstd.*AnyNumber*",
        "DeviceZstd.*EveryLevel*",
        EVERYTHING,
    ),
    "lz_append_batch.h": (
        "DeviceZstd.*ManyChunks*:DeviceLz4.Accepts*:DeviceZstd.*Benchmark*:DeviceLzw.Ignores*",
        "DeviceZstd.*EveryLevel*",
        EVERYTHING,
    ),
    "zstd_checksum.h": ("DeviceZstd.RefusesAWrong*", "DeviceZstd.*"),
    "zstd_execute.h": ("DeviceZstd.*ManyChunks*:DeviceZstd.*Benchmark*", "DeviceZstd.*"),
    "zstd_literals.h": ("DeviceZstd.*ManyChunks*", "DeviceZstd.*"),
    "zstd_sequences.h": ("DeviceZstd.*ManyChunks*", "DeviceZstd.*"),
}
ENCODERS = ("match_search.h", "bit_writer.h", "huffman_encode.h", "zstd_encode.h", "zstd_encode_block.h")
TESTS["append_crc32c.h"] = ("Emulated.*EncodePlan*",)
TESTS |= dict.fromkeys((*ENCODERS, "lz4_encode.h", "zstd_encode_sequences.h"), ("Emulated.*Encoder*",))
OTHERS = (
    "DeviceWave.*:DeviceZstd.*ManyChunks*:DeviceZstd.RefusesA*:DeviceLz4.Accepts*:DeviceLz4Frame.*Several*:"
    "DeviceInflate.Verif*:DeviceLzw.Ignores*:DeviceTransforms.*:DeviceBlosc.*EverySize:Emulated.Library*",
    EVERYTHING,
)
MOST_SECONDS = 1200
FOUND = 3  # exit status at the first finding; 1: wrong bytes


@dataclass(frozen=True)
class Fault:
    """One fault: its name, and its value of PENSTOCK_EMULATOR_MUTATION."""

    name: str
    words: str


def places(program: Path, offsets: Iterable[int]) -> dict[str, list[int]]:
    """Barriers by the line of the kernels that has them: the innermost one outside of the warp's own header."""
    found: dict[str, list[int]] = {}
    for offset in offsets:
        # One byte before, so that the call is found and not the line after it.
        command = ["addr2line", "-ie", str(program), hex(offset - 1)]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        names = [re.sub(r" \(.*", "", Path(line).name) for line in lines]
        place = next(name for name in names if not name.startswith(("cuda_names.h", "warp.h", "warp_group.h")))
        found.setdefault(place, []).append(offset)
    return found


def barriers(program: Path, reach: str) -> list[Fault]:
    """A fault for each line with a barrier that the tests `reach` meet."""
    with tempfile.NamedTemporaryFile() as met:
        environment = {**os.environ, "PENSTOCK_EMULATOR_MUTATION": "", "PENSTOCK_EMULATOR_BARRIERS": met.name}
        command = [str(program), f"--gtest_filter={reach}"]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        offsets = [int(line, 16) for line in Path(met.name).read_text().split()]
    by_line = sorted(
        places(program, offsets).items(), key=lambda item: (item[0].split(":")[0], int(item[0].split(":")[1]))
    )
    return [Fault(f"barrier {line}", "barrier " + " ".join(map(hex, at))) for line, at in by_line]


def lines_with(file: str, pattern: str) -> list[int]:
    text = (DECODERS / file).read_text().splitlines()
    return [number for number, line in enumerate(text, 1) if re.search(pattern, line)]


def arithmetic() -> list[Fault]:
    """Faults in the intrinsics: one for each line that has some."""
    faults = [
        Fault(f"swap {path.name}:{line}", f"swap {line}")
        for path in sorted(DECODERS.glob("*.h"))
        for line in lines_with(path.name, r"__funnelshift_|__byte_perm")
    ]
    masked = [
        Fault(f"mask {path}:{line} bit {bit}", f"mask {line} {bit}")
        for path in ("warp.h", "warp_group.h", "lz_window.h", "zstd_execute.h")
        for line in lines_with(path, r"__(ballot|shfl|shfl_up|syncwarp)(_sync)?\(")
        for bit in (0, 13, 31)
    ]
    faults += masked
    words = [fault.words for fault in faults]  # the emulator receives a line without its file
    if shared := sorted({each for each in words if words.count(each) > 1}):
        raise SystemExit(f"lines of two files have the same number, and are one fault: {', '.join(shared)}")
    return faults


def outcome(program: Path, fault: Fault) -> str:
    """The finding that detects the fault; empty: none does."""
    file = fault.name.split()[1].split(":")[0] if fault.words.startswith("barrier") else ""
    for tests in TESTS.get(file, OTHERS):
        environment = {**os.environ, "PENSTOCK_EMULATOR_MUTATION": fault.words}
        # A limit of the processor's time: a slow run on a busy machine must not count as a finding.
        limited = [
            "sh",
            "-c",
            f'ulimit -S -t {MOST_SECONDS} && exec "$0" "$@"',
            str(program),
            f"--gtest_filter={tests}",
        ]
        done = subprocess.run(limited, env=environment, capture_output=True, text=True)
        if -done.returncode == signal.SIGXCPU:
            return "it never ends"
        if done.returncode == FOUND:
            return done.stderr.split("FINDING ", 1)[-1].splitlines()[0]
        if done.returncode < 0:
            return f"signal {-done.returncode}"
        if done.returncode != 0:
            failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout)
            return f"wrong result of {failed.group(1) if failed else 'a test'}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--reach", default=EVERYTHING)
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    faults = [
        fault
        for fault in [*arithmetic(), *barriers(options.program, options.reach)]
        if not options.only or any(word in fault.name for word in options.only)
    ]
    missed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for fault, found in zip(faults, pool.map(lambda each: outcome(options.program, each), faults), strict=True):
            print(f"| {fault.name} | {found or 'NOT FOUND'} |", flush=True)
            missed += not found
    print(f"{len(faults)} faults, {missed} not found")
    return 1 if missed or not faults else 0


if __name__ == "__main__":
    sys.exit(main())
