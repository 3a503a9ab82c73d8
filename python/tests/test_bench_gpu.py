"""`python -m bench.gpu` runs from end to end against the fake driver, and says that there was no hardware."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from device_support import LIBRARY, ROOT

STAND_IN = LIBRARY.with_name("libpenstock_fake_nvcomp.so")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench.gpu", *arguments],
        cwd=ROOT,
        env=os.environ | {"MPLCONFIGDIR": "/tmp"} | environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], Path]:
    """One small run: what it printed, its result file, and the folder of that."""
    if not LIBRARY.exists() or not STAND_IN.exists():
        pytest.skip(f"the fake CUDA driver and the stand-in for nvCOMP are not built: {LIBRARY}")
    folder = tmp_path_factory.mktemp("results")
    done = run(
        "--small",
        "--threads",
        "2",
        "--results",
        str(folder),
        PENSTOCK_CUDA_DRIVER=str(LIBRARY),
        PENSTOCK_NVCOMP=str(STAND_IN),
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (result,) = folder.glob("*.json")
    return done.stdout, json.loads(result.read_text()), folder


def test_it_says_that_no_hardware_was_there(small: tuple[str, dict[str, Any], Path]) -> None:
    said, document, _ = small
    assert said.count("NO HARDWARE") == 2
    assert document["device"]["simulated"] is True
    assert document["judged"] is False
    assert {bar["met"] for bar in document["bars"]} == {None}
    assert "met        " not in said.replace("not judged", "")
    assert any(line.startswith("compute-sanitizer: there is no hardware") for line in document["missing"])


def test_every_step_leaves_its_numbers(small: tuple[str, dict[str, Any], Path]) -> None:
    _, document, folder = small
    found = document["found"]
    assert document["failed"] == {}
    assert found["parity"]["reads_compared"] == 281
    assert set(found["ceilings"]) == {"to_device", "to_host", "device_memory", "pread"}
    assert len(found["arrays"]) == 8
    for row in found["arrays"].values():
        assert row["warm"]["best_s"] > 0
        assert row["dropped_page_cache"]["best_s"] > 0
        assert row["stages"]["wall_s"] > 0
    benchmark = found["arrays"]["benchmark"]
    assert benchmark["stages"]["decode"]["bytes_out"] == benchmark["nbytes"]
    transfer = benchmark["stages"]["transfer"]
    assert transfer["bytes_in"] == benchmark["stages"]["read"]["bytes_in"] > 0
    assert transfer["bytes_per_s"] == pytest.approx(transfer["bytes_in"] / transfer["s"])
    assert any(line.startswith("Transfer") for line in benchmark["table"])
    study = found["implementations"]
    assert study["dots"] == 75
    for name in ("zarr-python, NumPy", "Penstock"):
        assert set(study[name]) == {"load", "with compute"}
    assert "missing" in study["zarr-python, CuPy"]
    assert found["decoders"]["nvcomp"] == "nvcomp 6.0.0"
    assert all(
        row["nvcomp"]["decode_s"] > 0 and row["of_nvcomp"] > 0
        for name, row in found["decoders"].items()
        if name != "nvcomp"
    )
    assert set(found["tiff"]) == {"deflate, predictor 1", "lzw, predictor 2", "deflate, predictor 2"}
    assert all(row["penstock"]["best_s"] > 0 for row in found["tiff"].values())
    assert sum(line.startswith("nvTIFF, ") for line in document["missing"]) == 3
    assert set(found["latency"]) == {"raw", "lz4"}
    assert len(document["bars"]) == 8
    (page,) = folder.glob("*-timeline.html")
    assert "stream 0" in page.read_text()
    assert len(list(folder.glob("*-timeline.png"))) + any("PNG" in line for line in document["missing"]) == 1


def in_bench(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)


def test_copies_are_measured_with_their_gaps_while_decoding_goes_on() -> None:
    done = in_bench(
        """
from bench.gpu.measure import rate_while
def event(what, begin, end, count=0): return {"what": what, "begin_ns": begin, "end_ns": end, "bytes_in": count}
copies = [event("transfer", 0, 100, 1000), event("transfer", 300, 400, 1000), event("transfer", 400, 500, 1000)]
assert rate_while(copies, "transfer", ("decode",)) is None
# From 50, where decoding begins, to 500: half of the first copy, a gap, and two more.
assert abs(rate_while(copies + [event("decode", 50, 900)], "transfer", ("decode",)) - 2500 / 450 * 1e9) < 1
assert abs(rate_while(copies + [event("decode", 50, 450)], "transfer", ("decode",)) - 2000 / 400 * 1e9) < 1
assert rate_while(copies + [event("decode", 600, 700)], "transfer", ("decode",)) is None
"""
    )
    assert done.returncode == 0, done.stderr


def test_a_sanitizer_that_hangs_is_ended_with_what_it_started() -> None:
    done = in_bench(
        """
import sys, time
from bench.gpu.run import run_within
assert run_within([sys.executable, "-c", "print('SUMMARY: 0'); raise SystemExit(9)"], 60) == (9, "SUMMARY: 0\\n")
begin = time.monotonic()
child = "import subprocess, sys; print('begun', flush=True); subprocess.run(['sleep', '100'])"
status, output = run_within([sys.executable, "-c", child], 2)
assert status == 124 and output.startswith("begun") and "not done after 2 s" in output, output
assert time.monotonic() - begin < 60
"""
    )
    assert done.returncode == 0, done.stderr


def test_without_a_driver_nothing_is_measured() -> None:
    done = run("--small", PENSTOCK_CUDA_DRIVER="/nowhere/libcuda.so.1")
    assert done.returncode == 2
    assert done.stdout.startswith("No GPU here: /nowhere/libcuda.so.1")


BROKEN = """
import sys
import penstock as ps
from bench.gpu import parity, run
{how}
sys.exit(run.main(sys.argv[1:]))
"""
NO_CODE = "unsupported: this build of Penstock has no device code: it was made without nvcc"


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (
            f"def fail(*_): raise ps.UnsupportedError({NO_CODE!r} + chr(10) + '  a note')\nparity.compare = fail",
            f"the device could not be compared with the host (UnsupportedError: {NO_CODE}): nothing is measured",
        ),
        (
            "def fail(*_): raise MemoryError\nparity.compare = fail",
            "the device could not be compared with the host (MemoryError): nothing is measured",
        ),
        (
            "import numpy as np\nparity.PARTS = [parity.chains]\nparity.CODECS = [['zstd']]\nread = ps.Array.read\n"
            "ps.Array.read = lambda self, *a, device=None, **k: ps.Tensor(read(self, *a) + 1)",
            "the device gives other bytes (['zstd'] ramp Ellipsis): nothing is measured",
        ),
    ],
    ids=["no device code", "no memory", "other bytes"],
)
def test_a_comparison_that_fails_says_why(tmp_path: Path, how: str, says: str) -> None:
    if not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver is not built: {LIBRARY}")
    done = subprocess.run(
        [sys.executable, "-c", BROKEN.format(how=how), "--small", "--results", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PENSTOCK_CUDA_DRIVER": str(LIBRARY)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr[-4000:]
    assert says in done.stdout.splitlines()
    (result,) = tmp_path.glob("*.json")
    document = json.loads(result.read_text())
    assert set(document["failed"]) == {"parity"}
    assert document["found"] == {}


def test_a_step_that_fails_is_named_and_the_others_run(tmp_path: Path) -> None:
    if not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver is not built: {LIBRARY}")
    done = run(
        "--small",
        "--steps",
        "ceilings,latency",
        "--results",
        str(tmp_path),
        "--folder",
        str(Path(__file__) / "is no folder"),
        PENSTOCK_CUDA_DRIVER=str(LIBRARY),
    )
    assert done.returncode == 1
    (result,) = tmp_path.glob("*.json")
    assert set(json.loads(result.read_text())["failed"]) == {"ceilings", "latency"}


def test_the_tests_for_a_gpu_hold_on_the_fake_driver(tmp_path: Path) -> None:
    if not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver is not built: {LIBRARY}")
    (tmp_path / "libcuda.so.1").symlink_to(LIBRARY)  # as if it were the machine's
    found = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("LD_LIBRARY_PATH")]))
    environment = {name: value for name, value in os.environ.items() if name != "PENSTOCK_CUDA_DRIVER"}
    chosen = "damaged or tiles or (walk and zstd and crc32c)"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu", "-k", chosen],
        cwd=ROOT,
        env=environment | {"LD_LIBRARY_PATH": found},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "skipped" not in done.stdout
