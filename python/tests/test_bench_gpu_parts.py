"""The parts of `python -m bench.gpu`, each by itself: measures, predictions, arrays, results, the end of a program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from device_support import ROOT


def in_bench(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)


def test_copies_are_measured_with_their_gaps_while_decoding_continues() -> None:
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


def test_predictions_are_those_of_the_cycles_in_kernels_md() -> None:
    done = in_bench(
        """
import json
from bench.gpu import predict
from bench.gpu.results import PREDICTIONS
written, made = json.loads(PREDICTIONS.read_text()), predict.predictions(predict.TABLE.read_text())
def near(one, other): return all(1 / 1.4 < a / b < 1.4 for a, b in zip(one, other, strict=True))
for key, span in made["values"].items(): assert near(written["values"][key], span), (key, span)
for name, kernels in made["kernels_ms"].items():
    for kernel, span in kernels.items(): assert near(written["kernels_ms"][name][kernel], span), (name, kernel, span)
# Half of the cycles of a turn: half of the time, where nothing else counts.
table = "| `lz` | 1 | 31 |\\n| LZ4 tokens | 4 | 43 | 243 | 243 | 243 |"
predict.COUNTS = {"x": [predict.Work("lz", "LZ4 tokens", 1750, 0)]}
whole, half = predict.kernels_ms(table), predict.kernels_ms(table.replace("243", "486"))
assert abs(whole["x"]["lz"][0] - 0.243) < 1e-9 and abs(half["x"]["lz"][0] - 0.486) < 1e-9
"""
    )
    assert done.returncode == 0, done.stderr + "run python -m bench.gpu.predict --write"


def test_the_choice_of_the_encoder_counts_the_cycles_of_kernels_md() -> None:
    table = (ROOT / "docs" / "design" / "kernels.md").read_text().partition("## What encoders take for 32 bytes")[2]
    source = (ROOT / "src" / "cuda" / "encode_choice.cc").read_text()
    for name, kind in (("LZ4", "lz4"), ("zstd", "zstd")):
        cycles = [
            int(row.replace(",", "")) for row in re.findall(rf"(?m)^\| {name} \|.*?\| [\d.]+ \| ([\d,]+) \|", table)
        ]
        counted = re.search(rf"device_form::kind::{kind}, \{{.*?\}}, \{{(\d+), (\d+)\}}", source)
        assert counted is not None
        assert cycles == [int(each) for each in counted.groups()], name


def test_the_order_of_blocks_is_that_of_real_frames() -> None:
    done = in_bench(
        """
import numpy as np
from numcodecs import zstd
from bench.gpu import arrays, block_order as order
def parsed(values): return order.parsed(zstd.compress(np.ascontiguousarray(values).tobytes(), 3))
rounded = parsed(arrays.rounded(256_000))
assert len(rounded.blocks) == 8 and sum(block.sequences for block in rounded.blocks) > 50_000
assert order.unknown(rounded) == list(rounded.blocks)
noise = parsed(np.random.default_rng(1).integers(0, 256, 300_000, dtype="u1"))
assert [(block.raw, block.literals) for block in noise.blocks] == [(True, 131_072), (True, 131_072), (True, 37_856)]
assert order.unknown(noise) == [] and order.long_copies(noise.blocks) == 32 + 32 + 10
# Two at once: the long one, started last, ends late.
assert order.last_end([1, 1, 4], 2) == 5 and order.last_end([4, 1, 1], 2) == 4
assert order.by_warps([1] * 8 + [5] + [2] * 8) == [1, 5, 2]
"""
    )
    assert done.returncode == 0, done.stderr


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    done = in_bench(
        f"""
import sys, time
from pathlib import Path
from bench.gpu.run import run_within
output = Path({str(tmp_path / "output")!r})
ends = [sys.executable, "-c", "print('SUMMARY: 0'); raise SystemExit(9)"]
assert run_within(ends, 60, output) == (9, "SUMMARY: 0\\n")
begin = time.monotonic()
child = "import subprocess, sys; print('begun', flush=True); subprocess.run(['sleep', '100'])"
assert run_within([sys.executable, "-c", child], 2, output) == (124, "begun\\n")
assert time.monotonic() - begin < 60
"""
    )
    assert done.returncode == 0, done.stderr


def test_tests_that_run_out_of_time_fail_only_after_a_failure() -> None:
    done = in_bench(
        """
from types import SimpleNamespace
from bench.gpu.results import LeftOutError
from bench.gpu.steps import smoke
def reason(status, output):
    driver = SimpleNamespace(simulated=False)
    try:
        smoke.tests(SimpleNamespace(driver=driver, left=lambda: 1.0, child=lambda *_: (status, output)))
    except (LeftOutError, RuntimeError) as why:
        return type(why).__name__, str(why)
assert reason(124, "......") == ("LeftOutError", "time was up after 6 tests without a failure")
assert reason(124, "...F..") == ("RuntimeError", "status 124: ...F..")
assert reason(1, "......")[0] == "RuntimeError"
"""
    )
    assert done.returncode == 0, done.stderr


def test_arrays_have_the_ratios_in_their_names() -> None:
    done = in_bench(
        """
import json
from numcodecs import LZ4, Zstd
from bench.gpu import arrays
def ratio(values, codec, elements=256_000):
    content = values(elements).tobytes()
    return len(content) / len(codec.encode(content))
assert 1.2 < ratio(arrays.field, Zstd(3)) < 1.4
assert 1.9 < ratio(arrays.ocean, Zstd(3), 512_000) < 2.5
assert 3.5 < ratio(arrays.rounded, Zstd(3)) < 4.5
assert 1.8 < ratio(arrays.rounded, LZ4()) < 2.6
assert ratio(arrays.walk, Zstd(3)) > 20
"""
    )
    assert done.returncode == 0, done.stderr


def test_the_first_library_that_computes_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "cupy.py").write_text("def ones(n): raise OSError('libcublas is missing')")
    (tmp_path / "torch.py").write_text(
        """
class cuda:
    is_available = staticmethod(lambda: True)
class ones:
    def __init__(self, n, device): pass
    def dot(self, other): return 2
"""
    )
    done = in_bench(
        f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from bench.gpu import compute
library, missing = compute.choose(False)
assert library.name == "PyTorch" and missing == ["CuPy: libcublas is missing"], (library, missing)
"""
    )
    assert done.returncode == 0, done.stderr


def test_the_versions_of_libraries_are_recorded(tmp_path: Path) -> None:
    for name in ("nvidia-libnvcomp-cu13", "nvidia_nvimgcodec_cu13", "other"):
        about = tmp_path / f"{name.replace('-', '_')}-6.0.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 6.0.0\n")
    done = in_bench(
        f"""
import sys
sys.path.append({str(tmp_path)!r})
from bench.gpu.facts import of_libraries
found = of_libraries()
assert found["nvidia-libnvcomp-cu13"] == found["nvidia-nvimgcodec-cu13"] == "6.0.0" and "other" not in found, found
"""
    )
    assert done.returncode == 0, done.stderr


def test_numbers_are_compared_with_bars_that_can_be_reached(tmp_path: Path) -> None:
    done = in_bench(
        f"""
from pathlib import Path
from bench.gpu.results import Results
results = Results(Path({str(tmp_path / "x.jsonl")!r}), judged=True)
results.step, results.row = "bars", "benchmark"
for value, limit, bar, at_least in (
    (120, 290, 100, True), (90, 290, 100, True), (90, 95, 100, True), (90, None, 100, True), (140, None, 150, False),
    (160, None, 150, False),
):
    results.measured("warm", value, "GB/s", limit=limit, bar=bar, at_least=at_least)
assert [line["met"] for line in results.written()] == [True, False, None, False, True, False]
assert all(line["predicted"][0] < line["predicted"][1] for line in results.written())
assert results.value("bars", "benchmark", "warm") == 160
assert results.value("bars", "benchmark", "cold") is None
"""
    )
    assert done.returncode == 0, done.stderr
    assert "beyond the limit" in done.stdout
    assert "MISSED" in done.stdout


def test_a_tool_that_runs_out_of_time_is_left_out_without_a_finding() -> None:
    done = in_bench(
        """
from pathlib import Path
from types import SimpleNamespace
from bench.gpu.results import LeftOutError
from bench.gpu.steps import clean
results = SimpleNamespace(folder=Path("/nowhere"), write=lambda *_, **__: None)
def reason(output):
    said = iter([(0, ""), (124, "========= COMPUTE-SANITIZER\\n" + output)])  # of the trial, then of the tool
    run = SimpleNamespace(results=results, tool=str, left=lambda: 9.0, child=lambda *_: next(said))
    try:
        clean.check(run, "memcheck", 1)
    except (LeftOutError, RuntimeError) as why:
        return type(why).__name__, str(why)
assert reason("x: 2 reads give the host's bytes\\n") == ("LeftOutError", "time was up after 1 cases without a finding")
assert reason("========= Invalid __shared__ read\\n")[0] == "RuntimeError"
assert reason("========= Internal Sanitizer Error: x\\n")[0] == "LeftOutError"
"""
    )
    assert done.returncode == 0, done.stderr


def test_a_driver_before_cuda_12_is_no_driver() -> None:
    """Any library without the functions of CUDA 12 is one."""
    done = in_bench(
        """
import os
os.environ["PENSTOCK_CUDA_DRIVER"] = "libm.so.6"
from bench.gpu.driver import Driver, NoDriverError
try:
    Driver()
except NoDriverError as error:
    print(error)
"""
    )
    assert done.stdout == "libm.so.6 is older than CUDA 12.0: it has no cuGetProcAddress_v2\n", done.stderr
