"""`python -m bench.gpu` runs from end to end against the fake driver, and reports that it ran without a GPU."""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import penstock
import pytest
from conftest import in_long_runs
from device_support import LIBRARY, ROOT

STAND_IN = LIBRARY.with_name("libpenstock_fake_nvcomp.so")
ARRAYS = 13
# Patterns of the numbers for which the machine of a test has no library.
COPY_RATE = "bars/benchmark/copies of the PCIe rate"  # the fake driver copies too fast for a rate
NEEDS_MORE = ("bars/TIFF*/of nvTIFF", "bars/TIFF*/nvtiff")

# A stand-in for each of NVIDIA's tools: it writes the report that -o names, and runs the program. compute-sanitizer is
# given the same program three times: the stand-in runs it once, and repeats its output.
TOOL = """
while [ $# -gt 0 ]; do
  case $1 in
  -o) echo report >"$2.report"; shift 2 ;;
  *python*)
    said="$0.$(echo "$*" | md5sum | cut -c1-32)"
    if [ ! -e "$said.status" ]; then
      "$@" >"$said" 2>&1
      echo $? >"$said.status"
    fi
    cat "$said"
    echo "ERROR SUMMARY: 0 errors"
    exit "$(cat "$said.status")"
    ;;
  *) shift ;;
  esac
done
"""

# The tools on a machine that refuses them: compute-sanitizer and the program under it get no memory, ncu no counters,
# and nsys cannot translate what it recorded.
REFUSING = {
    "compute-sanitizer": """
echo "========= COMPUTE-SANITIZER"
echo "========= Error: Device not supported. Please refer to the documentation."
exit 1
""",
    "ncu": """
echo "==PROF== Connected to process 1 (python)"
echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters."
exit 1
""",
    "nsys": """
while [ "$1" != -o ]; do shift; done
echo report >"$2.qdstrm"
exit 1
""",
}


@dataclass
class Found:
    """The output of a run, and the lines of its results."""

    status: int
    said: str
    lines: list[dict[str, Any]]
    folder: Path

    def of(self, kind: str, step: str, row: str | None = None) -> list[dict[str, Any]]:
        return [
            line for line in self.lines if line["kind"] == kind and line["step"] == step and row in (None, line["row"])
        ]

    def numbers(self, step: str) -> dict[str, float]:
        return {f"{line['row']}, {line['name']}": line["value"] for line in self.of("measured", step)}


def run(folder: Path, *arguments: str, **environment: str) -> Found:
    if not LIBRARY.exists() or not STAND_IN.exists():
        pytest.skip(f"the fake CUDA driver and the stand-in for nvCOMP are not built: {LIBRARY}")
    own = {"PENSTOCK_CUDA_DRIVER": str(LIBRARY), "PENSTOCK_NVCOMP": str(STAND_IN), "MPLCONFIGDIR": "/tmp"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu", *arguments, "--small", "--threads", "2", "--results", str(folder)],
        cwd=ROOT,
        env=os.environ | own | environment,
        capture_output=True,
        text=True,
    )
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return Found(done.returncode, done.stdout + done.stderr, lines, folder)


def write_tools(folder: Path, tools: dict[str, str]) -> dict[str, str]:
    for name, program in tools.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{program}")
        (folder / name).chmod(0o755)
    return {"PENSTOCK_GPU_TOOLS": str(folder)}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Every step, with stand-ins for NVIDIA's tools."""
    tools = tmp_path_factory.mktemp("tools")
    environment = write_tools(tools, dict.fromkeys(("compute-sanitizer", "nsys", "ncu"), TOOL))
    folder = tmp_path_factory.mktemp("results")
    kernels = tools / "variant.fatbin"
    kernels.write_bytes(b"\x50\xed\x55\xba\x01\x00\x10\x00\x08" + bytes(7) + b"contents")
    found = run(folder, "--kernels", str(kernels), **environment)
    assert found.status == 0, found.said[-4000:]
    return found


def test_it_reports_that_it_ran_without_a_gpu(small: Found) -> None:
    assert small.said.count("NO HARDWARE") == 2
    (about,) = small.of("run", "")
    assert about["judged"] is False
    assert about["machine"]["packages"]["numpy"]
    assert about["libraries"]["zarr"]
    (nvcomp,) = (line["nvcomp"] for line in small.of("fact", "") if "nvcomp" in line)
    assert nvcomp.startswith("nvcomp ")
    assert {line["met"] for line in small.lines if line["kind"] == "measured"} == {None}
    assert "MISSED" not in small.said
    device = small.of("fact", "")[0]["device"]
    assert device["simulated"] is True
    assert set(device["devices"]) == {"simulated"}


def test_a_run_in_which_nothing_can_be_read_ends_at_once(tmp_path: Path) -> None:
    """As with a wheel that has no device code: the reason is printed once, and no row begins."""
    found = run(tmp_path, PENSTOCK_CUDA_KERNELS=str(tmp_path / "missing.fatbin"))
    assert found.status == 1
    assert "No row was begun" in found.said
    assert not [line for line in found.lines if line["kind"] == "begun"]
    (failed,) = (line["why"] for line in found.lines if line["kind"] == "failed")
    assert "missing.fatbin' cannot be read" in failed


def test_a_driver_that_is_too_old_for_the_device_code_ends_a_run_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        """
import ctypes, os
if library := os.environ.get("PENSTOCK_CUDA_DRIVER"):
    ctypes.CDLL(library).penstock_fake_cuda_fail(b"cuModuleLoadData", ctypes.c_uint64(0), 222)
"""
    )
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    found = run(tmp_path / "results", PYTHONPATH=path)
    assert found.status == 1
    assert not [line for line in found.lines if line["kind"] == "begun"]
    (failed,) = (line["why"] for line in found.lines if line["kind"] == "failed")
    assert "cuModuleLoadData" in failed
    assert "device code needs the version of CUDA that it was built with" in failed


def test_every_row_that_begins_ends(small: Found) -> None:
    assert not [line for line in small.lines if line["kind"] == "failed"]
    begun, done = (
        [(line["step"], line["row"]) for line in small.lines if line["kind"] == kind] for kind in ("begun", "done")
    )
    assert begun == done
    assert {step for step, _ in begun} == {"smoke", "clean", "bars", "nvcomp", "why", "switches"}


def test_smoke_compares_every_codec_and_content(small: Found) -> None:
    found = [line for line in small.of("found", "smoke") if "codec" in line]
    assert len({(line["codec"], line["content"]) for line in found}) == len(found) > 80
    assert sum(line["compared"] for line in found) > 290
    (libraries,) = (line["libraries"] for line in small.of("found", "smoke") if "libraries" in line)
    assert libraries["nvcomp"] is True
    assert "no hardware" in small.of("left_out", "smoke", "tests/gpu")[0]["why"]


def test_clean_runs_each_tool_over_one_array_a_codec(small: Found) -> None:
    for tool in ("memcheck", "racecheck", "synccheck"):
        (line,) = small.of("found", "clean", tool)
        assert line["status"] == 0
        assert line["cases"] > 30
        assert line["summary"] == ["ERROR SUMMARY: 0 errors"]
        assert "give the host's bytes" in (small.folder / f"clean-{tool}.txt").read_text()
    # By default, the tool counts every status that a call of the driver returns: 'not ready' of a query, for instance.
    for line in small.of("child", "clean"):
        assert line["command"][line["command"].index("--report-api-errors") + 1] == "no"


def test_bars_measures_ceilings_arrays_and_latency(small: Found) -> None:
    numbers = small.numbers("bars")
    for name in ("to_device", "to_host", "device_memory", "pread"):
        assert numbers[f"ceilings, {name}"] > 0
    warm = {line["row"]: line for line in small.of("measured", "bars") if line["name"] == "warm"}
    assert len(warm) == ARRAYS
    for line in warm.values():
        assert line["value"] > 0
        slower = min(numbers["ceilings, to_device"], numbers["ceilings, pread"])
        assert line["limit"] == pytest.approx(line["ratio"] * slower)
    assert warm["benchmark"]["bar"] == 100
    assert warm["benchmark"]["predicted"][0] > 0
    (details,) = small.of("found", "bars", "benchmark")
    transfer = details["stages"]["transfer"]
    assert details["stages"]["decode"]["bytes_out"] == 2 * 4 * 4096 * 4
    assert transfer["bytes_in"] == details["stages"]["read"]["bytes_in"] > 0
    assert any(line.startswith("Transfer") for line in details["table"])
    for name in ("raw", "lz4"):
        assert numbers[f"ten chunks, {name}, median"] >= numbers[f"ten chunks, {name}, best"] > 0
    (lz4,) = (line for line in small.of("measured", "bars", "ten chunks, lz4") if line["name"] == "median")
    assert lz4["ratio"] > 2
    for name in ("zstd", "lz4"):
        assert numbers[f"written, {name}, encoded by the device"] > 0
        assert numbers[f"written, {name}, encoded by the host"] > 0
    grown = warm["benchmark"]["device_wave_bytes"]
    assert grown["after"] > grown["before"] == 0
    judged = [line["row"] for line in small.of("measured", "bars") if line["bar"]]
    begun = [line["row"] for line in small.of("begun", "bars")]
    assert set(begun[1:4]) == set(judged) == {"benchmark", "ten chunks, raw", "ten chunks, lz4"}
    (page,) = small.folder.glob("*-timeline.html")
    assert "stream " in page.read_text()
    assert len(small.of("left_out", "bars")) >= 4  # NVML, and nvTIFF three times


def test_nvcomp_times_the_same_resident_wave_twice(small: Found) -> None:
    numbers = small.numbers("nvcomp")
    rows = {line["row"] for line in small.of("begun", "nvcomp") if not line["row"].startswith("study")}
    assert len(rows) == ARRAYS  # without the raw array, and the benchmark array twice
    for row in rows:
        assert numbers[f"{row}, of nvCOMP"] == pytest.approx(
            numbers[f"{row}, penstock"] / numbers[f"{row}, nvcomp"], rel=1e-3
        )
    (ours,) = (line for line in small.of("measured", "nvcomp", "rounded_zstd") if line["name"] == "penstock")
    assert {"zstd_literals", "zstd_sequences", "zstd_execute"} <= set(ours["kernels_ms"])
    model = next(line for line in small.of("found", "nvcomp", "rounded_zstd") if "predicted_kernels_ms" in line)
    assert set(model["predicted_kernels_ms"]) <= set(ours["kernels_ms"])
    assert numbers["study, Penstock, load"] > 0
    assert numbers["study, Penstock, 75 dot products by NumPy on the host"] > 0
    assert numbers["study, zarr-python, NumPy, load"] > 0
    assert "CuPy" in small.of("left_out", "nvcomp", "study, zarr-python, CuPy")[0]["why"]


def test_tools_that_refuse_the_machine_are_left_out(tmp_path: Path) -> None:
    tools = write_tools(tmp_path, REFUSING)
    found = run(tmp_path / "results", "clean", "why", "--arrays", "benchmark", **tools)
    assert found.status == 0, found.said[-3000:]
    why = {line["row"]: line["why"] for line in found.lines if line["kind"] == "left_out"}
    for name in ("memcheck", "racecheck", "synccheck"):
        assert why[name].startswith("compute-sanitizer does not work on this machine: Error: Device not supported.")
    assert why["ncu of benchmark"].startswith("ncu does not work on this machine: ERROR ERR_NVGPUCTRPERM")
    assert why["nsys of benchmark"] == "nsys cannot make a report of nsys-benchmark.qdstrm on this machine"


def test_a_fault_that_a_tool_finds_is_a_failure(tmp_path: Path) -> None:
    """The tool works on this machine, as it runs the driver's copies, and finds a fault in our kernels."""
    finds = 'case "$*" in *copy_rates*) exit 0 ;; esac\necho "========= COMPUTE-SANITIZER"\n'
    finds += 'echo "========= Invalid __shared__ read"\necho "========= ERROR SUMMARY: 1 error"\nexit 9\n'
    found = run(tmp_path / "results", "clean", **write_tools(tmp_path, {"compute-sanitizer": finds}))
    assert found.status == 1, found.said[-3000:]
    failed = [line["why"] for line in found.lines if line["kind"] == "failed"]
    assert len(failed) == 3
    assert all("status 9 after 0 cases" in each and "Invalid __shared__ read" in each for each in failed)


def test_why_saves_reports(small: Found) -> None:
    for row in ("nsys of benchmark", "ncu of benchmark", "ncu of rounded_lz4"):
        (line,) = small.of("found", "why", row)
        assert line["saved"] == [f"{row.replace(' of ', '-')}.report"]
    (child,) = (line["command"] for line in small.of("child", "why", "ncu of benchmark"))
    assert child[child.index("--clock-control") + 1] == "none", "the clocks are those of the other steps"


def test_switches_compares_environments_and_kernels(small: Found) -> None:
    numbers = small.numbers("switches")
    assert numbers["32 hardware queues, first read"] > 0
    assert numbers["kernels of the build, benchmark, decode alone"] > 0
    assert numbers["kernels of variant.fatbin, benchmark, decode alone"] > 0
    assert small.of("found", "switches", "PTX translated by the driver")[0]["cases"] > 30


def test_each_number_has_a_prediction_or_is_listed_without_a_model(small: Found) -> None:
    predictions = json.loads((ROOT / "bench" / "gpu" / "predictions.json").read_text())
    ranges, without = predictions["values"], predictions["without_model"]
    measured = {
        "/".join([line["step"], line["row"], line["name"]]) for line in small.lines if line["kind"] == "measured"
    }
    unlisted = [
        key for key in measured - set(ranges) if not any(fnmatch.fnmatchcase(key, pattern) for pattern in without)
    ]
    assert not unlisted, f"add ranges or patterns to predictions.json: {sorted(unlisted)}"
    assert not set(ranges) - measured - {COPY_RATE}, "these are not measured"
    for pattern, why in without.items():
        assert why
        found = [key for key in measured if fnmatch.fnmatchcase(key, pattern)]
        assert pattern in NEEDS_MORE or found, f"{pattern} is not measured"
        assert not set(found) & set(ranges), f"{pattern} has a range"
    assert all(0 < least < most for least, most in ranges.values())


# ---- a failure affects only its row ----

# Patches for the processes that run rows: `once(row)` is true in the first process that runs the row.
PLANTED = """
import sys
if "--worker" in getattr(sys, "orig_argv", []):
    import ctypes, os, time
    import numpy as np
    import penstock as ps
    read = ps.Array.read

    def planted(self, *arguments, device=None, **settings):
        uri = str(self.uri)
        {what}
        return read(self, *arguments, device=device, **settings)

    ps.Array.read = planted
    {more}
"""

# On the device, blosclz's kernel returns a byte that differs from the host's.
WRONG_KERNEL = """
    from penstock import testing
    decode = testing.decode_on_device

    def wrong(codec, *arguments, device="cuda", **settings):
        out = decode(codec, *arguments, device=device, **settings)
        if device == "cuda" and "blosclz" in str(codec):
            out.stages[0].memory["output"] = bytes(40) + out.stages[0].memory["output"][40:]
        return out

    testing.decode_on_device = wrong
"""


def plant(tmp_path: Path, what: str, more: str = "") -> dict[str, str]:
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(PLANTED.format(what=what, more=more))
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ('if "field_blosc" in uri: raise ps.Error("planted")', "planted"),
        ('if "field_blosc" in uri: os.kill(os.getpid(), 11)', "the process ended with status -11"),
        pytest.param('if "field_blosc" in uri: time.sleep(1000)', "it took longer than a row may", marks=in_long_runs),
        (
            'if "field_blosc" in uri: ctypes.CDLL(os.environ["PENSTOCK_CUDA_DRIVER"]).penstock_fake_cuda_fault(700)',
            "CUDA_ERROR",
        ),
    ],
    ids=["an error", "a crash", "a hang", "a lost device"],
)
def test_a_failed_row_does_not_affect_the_others(tmp_path: Path, what: str, why: str) -> None:
    chosen = "benchmark,field_blosc,rounded_lz4"
    seconds = "15" if "sleep" in what else "120"
    found = run(tmp_path / "results", "bars", "--arrays", chosen, "--row-seconds", seconds, **plant(tmp_path, what))
    assert found.status == 1
    failed = [line for line in found.lines if line["kind"] == "failed"]
    assert [line["row"] for line in failed] == ["field_blosc"], found.said[-3000:]
    assert why in failed[0]["why"]
    numbers = found.numbers("bars")
    for name in ("benchmark, warm", "rounded_lz4, warm", "ten chunks, lz4, median"):
        assert numbers[name] > 0
    assert "field_blosc, warm" not in numbers
    assert "FAILED      bars, field_blosc: " in found.said


def test_a_crash_of_nvcomp_leaves_the_numbers_of_our_decoders(tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        """
import os
import penstock as ps
make = ps.Context.__init__

def planted(self, *arguments, decoder=None, **settings):
    if decoder == "nvcomp":
        os.kill(os.getpid(), 11)
    make(self, *arguments, decoder=decoder, **settings)

ps.Context.__init__ = planted
"""
    )
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    found = run(tmp_path / "results", "nvcomp", "--arrays", "rounded_lz4", PYTHONPATH=path)
    assert found.status == 1, found.said[-3000:]
    assert {"nvcomp": None}.items() <= found.of("fact", "")[-1].items()
    assert found.numbers("nvcomp")["rounded_lz4, penstock"] > 0
    (failed,) = (line for line in found.lines if line["kind"] == "failed")
    assert (failed["row"], failed["why"]) == ("rounded_lz4", "the process ended with status -11")


def test_wrong_bytes_are_named_and_saved(tmp_path: Path) -> None:
    """The read returns wrong bytes for two codecs; for one of them the kernel does too."""
    what = """if device and arguments and arguments[0] is ... and uri.endswith("zarr"):
          if {b"blosclz", b"lz4hc"} & set(open(uri[7:] + "/zarr.json", "rb").read().split(b'"')):
            wrong = read(self, *arguments).copy()
            wrong.reshape(-1)[100] += 1
            return ps.Tensor(wrong)"""
    found = run(tmp_path / "results", "smoke", "--codecs", "blosc,raw", **plant(tmp_path, what, WRONG_KERNEL))
    assert found.status == 1
    failed = [line for line in found.lines if line["kind"] == "failed"]
    of_read, of_kernel = (
        [line for line in failed if line["codec"] == codec]
        for codec in ("blosc lz4hc shuffle", "blosc blosclz shuffle")
    )
    assert len(of_read) + len(of_kernel) == len(failed)
    for lines, kernel, saved in (
        (of_read, "every chunk by itself is right", {".zip"}),
        (
            of_kernel,
            "of a chunk by itself penstock_lz wrote other output: first at byte 0 ",
            {".zip", ".chunk", ".json"},
        ),
    ):
        assert [line["content"] for line in lines] == ["walk", "ramp", "noise", "steps"], found.said[-3000:]
        walk = lines[0]["difference"]
        assert 400 <= walk["offset"] < 404
        assert len(walk["got"]) == len(walk["expected"]) == 64
        assert walk["got"] != walk["expected"]
        assert lines[0]["kernel"].startswith(kernel)
        assert {Path(name).suffix for name in lines[0]["saved"]} == saved
        for name in lines[0]["saved"]:
            assert (found.folder / "parity" / name).stat().st_size > 0
    rest = {line["codec"] for line in found.of("found", "smoke") if "codec" in line}
    assert rest > {"raw", "blosc zstd shuffle", "blosc lz4 bitshuffle", "blosc zlib noshuffle"}
    assert all("blosc" in codec or "raw" in codec for codec in rest)


@pytest.mark.parametrize("pip", [True, False], ids=["pip", "no pip"])
def test_the_script_runs_a_step_from_a_wheel_alone(tmp_path: Path, pip: bool) -> None:
    wheel = tmp_path / "penstock-0.1-py3-none-any.whl"
    package = Path(penstock.__file__).parent
    with zipfile.ZipFile(wheel, "w") as out:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                out.write(file, Path("penstock") / file.relative_to(package))
        about = "penstock-0.1.dist-info"
        out.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: penstock\nVersion: 0.1\n")
        out.writestr(f"{about}/RECORD", "")
    if not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver is not built: {LIBRARY}")
    # The working folder is not the project's: it has a module with the name of a standard one, and relative paths start
    # there.
    (tmp_path / "json.py").write_text("raise RuntimeError('the folder of the caller is not a source of modules')")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncase "$2" in pip | "import pip") exit 1 ;; esac\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    own = {"PENSTOCK_CUDA_DRIVER": str(LIBRARY), "PYTHON": sys.executable if pip else str(python)}
    own |= {"RESULTS": "results", "ARCHIVE": "all.tgz", "WITH": "missing.whl", "PENSTOCK_COMMIT": "abc1234"}
    done = subprocess.run(
        [ROOT / "tools" / "test_gpu.sh", wheel.name, "bars", "--small", "--arrays", "rounded_lz4"],
        cwd=tmp_path,
        env=os.environ | own,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("The wheels in WITH cannot all be installed")
    (file,) = (tmp_path / "results").glob("*.jsonl")
    assert file.name.startswith("simulated-abc1234-")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {"ceilings", "rounded_lz4"} <= {line["row"] for line in lines if line["kind"] == "measured"}
    assert {line["step"] for line in lines} == {"", "bars"}
    with tarfile.open(tmp_path / "all.tgz.aa") as saved:
        copy = saved.extractfile(f"./{file.name}")
        assert copy is not None
        assert copy.read() == file.read_bytes()


def test_rows_that_are_skipped_for_time_are_named(tmp_path: Path) -> None:
    found = run(tmp_path, "bars", "--seconds", "0")
    assert found.status == 0
    assert not found.of("begun", "bars")
    assert len(found.of("left_out", "bars")) == ARRAYS + 8
    assert {line["why"] for line in found.of("left_out", "bars")} == {"the step's time was over"}


def test_without_a_driver_nothing_is_measured(tmp_path: Path) -> None:
    found = run(tmp_path, PENSTOCK_CUDA_DRIVER="/nowhere/libcuda.so.1")
    assert found.status == 2
    assert found.said.startswith("No GPU here: /nowhere/libcuda.so.1")


def test_unknown_steps_and_arrays_are_refused(tmp_path: Path) -> None:
    assert "no such step: fast" in run(tmp_path, "fast").said
    assert "no such array: fast" in run(tmp_path, "bars", "--arrays", "fast").said


@in_long_runs
def test_the_tests_for_a_gpu_pass_on_the_fake_driver(tmp_path: Path) -> None:
    if not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver is not built: {LIBRARY}")
    (tmp_path / "libcuda.so.1").symlink_to(LIBRARY)  # in place of the machine's driver
    found = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("LD_LIBRARY_PATH")]))
    environment = {name: value for name, value in os.environ.items() if name != "PENSTOCK_CUDA_DRIVER"}
    chosen = "damaged or tiles or several or consumers or threads or ends or (walk and zstd and crc32c) or encodes"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu", "-k", chosen],
        cwd=ROOT,
        env=environment | {"LD_LIBRARY_PATH": found},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "skipped" not in done.stdout
