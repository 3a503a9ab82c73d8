"""Clang's thread-safety analysis finds members that are used without their mutex."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLANG = shutil.which("clang++")
FLAGS = ["-std=c++20", "-fsyntax-only", "-DFMT_SHARED", "-DPENSTOCK_BUILDING", "-Wthread-safety", "-Werror"]

LOCK = "  const mutex_lock lock(mutex_);\n"
# For each file, by name: a text in it, its replacement in a mutant, and the member that the analysis names there. (The
# unchanged files compile without a complaint in both sanitizers' builds.)
MUTANTS = {
    "src/cuda/device_engine.cc": {
        "waves without the lock": (
            f"{LOCK}  if (broken_) return false;\n  waves_.trim();",
            "  waves_.trim();",
            "waves_",
        ),
        "the slots of reads without the lock": (
            "  if (read_slot* const zero = slots_.take_zero()) return zero;",
            "  const mutex_unlock open(mutex_);\n  if (read_slot* const zero = slots_.take_zero()) return zero;",
            "slots_",
        ),
        "a failure of a read without the lock": (
            f"{LOCK}  const auto& failure = slots_.of(slot).failure;",
            "  const auto& failure = slots_.of(slot).failure;",
            "slots_",
        ),
        "the end of a read without the lock": (
            f"{LOCK}  release_starts(*slot);",
            "  release_starts(*slot);",
            "release_starts",
        ),
        "the events before a read's first write without the lock": (
            f"{LOCK}  auto taken = before.ok()",
            "  auto taken = before.ok()",
            "take_slot",
        ),
    },
    "src/cuda/device_staging.cc": {
        "the streams of a read after the lock is released": (
            "    const mutex_unlock unlocked(mutex_);\n",
            "    const mutex_unlock unlocked(mutex_);\n    slots_.of(read).waited = 0;\n",
            "slots_",
        ),
    },
    "src/cuda/device_read.cc": {
        "a read that marks its slot as queued": (
            "  slot_->likely_cells = job_->total_cells();",
            "  slot_->state_.queued = true;",
            "state_",
        ),
    },
    "src/api/device_tensor.cc": {
        "a tensor's release without the lock": (
            f"{LOCK}  if (released_) return error",
            "  if (released_) return error",
            "released_",
        ),
        "a function that needs the lock": (
            f"{LOCK}  PENSTOCK_TRY(order_on(stream));",
            "  PENSTOCK_TRY(order_on(stream));",
            "order_on",
        ),
    },
}
ERROR = re.compile(r"mutant\.cc:(\d+):\d+: error: (.*)")


@pytest.mark.skipif(CLANG is None, reason="clang++ is not installed")
@pytest.mark.parametrize("file", MUTANTS)
def test_a_member_is_used_with_its_mutex(tmp_path: Path, file: str) -> None:
    """All mutants of a file are compiled at once: the analysis reports each with the line of its text."""
    source = (ROOT / file).read_text()
    for text, mutant, _ in MUTANTS[file].values():
        assert text in source, f"{file} has changed: mend this test"
        source = source.replace(text, mutant, 1)
    copy = tmp_path / "mutant.cc"
    copy.write_text(source)
    command = [CLANG, *FLAGS, f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    errors = [(int(line), said) for line, said in ERROR.findall(done.stderr)]
    places = {}
    for name, (_, mutant, member) in MUTANTS[file].items():
        at = source.index(mutant)
        lines = range(source.count("\n", 0, at) + 1, source.count("\n", 0, at + len(mutant)) + 2)
        places[name] = [
            said
            for line, said in errors
            if line in lines and f"'{member}'" in said and ("-Wthread-safety" in said or "is a private member" in said)
        ]
    assert all(places.values()), (places, done.stderr)
