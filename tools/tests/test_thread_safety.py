"""Clang's thread-safety analysis finds members that are used without the mutex which guards them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLANG = shutil.which("clang++")
FLAGS = ["-std=c++20", "-fsyntax-only", "-DFMT_SHARED", "-DPENSTOCK_BUILDING", "-Wthread-safety", "-Werror"]

LOCK = "  const mutex_lock lock(mutex_);\n"
# The file, a text of it, what a mutant has there, and the member that the analysis names (none: it has no complaint).
CASES = {
    "the engine as it is": ("src/cuda/device_engine.cc", "", "", None),
    "waves without the lock": (
        "src/cuda/device_engine.cc",
        f"{LOCK}  if (broken_) return false;\n  waves_.trim();",
        "  waves_.trim();",
        "waves_",
    ),
    "the slots of reads without the lock": (
        "src/cuda/device_engine.cc",
        "  if (read_slot* const zero = slots_.take_zero()) return zero;",
        "  const mutex_unlock open(mutex_);\n  if (read_slot* const zero = slots_.take_zero()) return zero;",
        "slots_",
    ),
    "the part that brings parcels to the device as it is": ("src/cuda/device_staging.cc", "", "", None),
    "the part that queues waves as it is": ("src/cuda/device_launch.cc", "", "", None),
    "a failure of a read without the lock": (
        "src/cuda/device_engine.cc",
        f"{LOCK}  const auto& failure = slots_.of(slot).failure;",
        "  const auto& failure = slots_.of(slot).failure;",
        "slots_",
    ),
    "the end of a read without the lock": (
        "src/cuda/device_engine.cc",
        f"{LOCK}  release_starts(*slot);",
        "  release_starts(*slot);",
        "release_starts",
    ),
    "the streams of a read after the lock is released": (
        "src/cuda/device_staging.cc",
        "    const mutex_unlock unlocked(mutex_);\n",
        "    const mutex_unlock unlocked(mutex_);\n    slots_.of(read).waited = 0;\n",
        "slots_",
    ),
    "the events before a read's first write without the lock": (
        "src/cuda/device_engine.cc",
        f"{LOCK}  auto taken = before.ok()",
        "  auto taken = before.ok()",
        "take_slot",
    ),
    "a read that marks its slot as queued": (
        "src/cuda/device_read.cc",
        "  slot_->likely_cells = job_->total_cells();",
        "  slot_->state_.queued = true;",
        "state_",
    ),
    "the tensor as it is": ("src/api/device_tensor.cc", "", "", None),
    "a tensor's release without the lock": (
        "src/api/device_tensor.cc",
        f"{LOCK}  if (released_) return error",
        "  if (released_) return error",
        "released_",
    ),
    "a function that needs the lock": (
        "src/api/device_tensor.cc",
        f"{LOCK}  PENSTOCK_TRY(order_on(stream));",
        "  PENSTOCK_TRY(order_on(stream));",
        "order_on",
    ),
}


@pytest.mark.skipif(CLANG is None, reason="clang++ is not installed")
@pytest.mark.parametrize("case", CASES)
def test_a_member_is_used_with_its_mutex(tmp_path: Path, case: str) -> None:
    file, text, mutant, member = CASES[case]
    source = (ROOT / file).read_text()
    assert text in source, f"{file} has changed: mend this test"
    copy = tmp_path / "mutant.cc"
    copy.write_text(source.replace(text, mutant, 1) if text else source)
    command = [CLANG, *FLAGS, f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    if member is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert "-Wthread-safety" in done.stderr or "is a private member" in done.stderr
        assert f"'{member}'" in done.stderr
