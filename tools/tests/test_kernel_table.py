"""Tests of the table of registers: it matches the kernels that were built, and none of them spills."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import kernel_table

SAID = """nvcc: release 13.0, V13.0.48
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'penstock_lz' for 'sm_90'
ptxas info    : Function properties for penstock_lz
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 56 registers, used 1 barriers, 6688 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 12.500 ms
ptxas info    : Compiling entry function 'penstock_fill' for 'sm_90'
ptxas info    : Function properties for penstock_fill
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers, 16 bytes cumulative stack size
"""
THREADS = {"lz": 32, "fill": 256}


def test_reads_ptxass_report() -> None:
    kernels = kernel_table.parse(SAID)
    assert kernels == {"sm_90": {"lz": kernel_table.Kernel(56, 6688, 0, 0), "fill": kernel_table.Kernel(40, 0, 16, 12)}}
    assert kernel_table.compiler(SAID) == "13.0.48"
    assert kernel_table.spills(kernels) == ["fill spills 12 bytes on sm_90"]


@pytest.mark.parametrize(
    ("kernel", "threads", "warps"),
    [
        (kernel_table.Kernel(56, 6688, 0, 0), 32, 30),  # memory: 227 KiB / 7.5 KiB
        (kernel_table.Kernel(60, 4096, 0, 0), 32, 32),  # blocks; registers would allow as many
        (kernel_table.Kernel(36, 35072, 0, 0), 32, 6),
        (kernel_table.Kernel(64, 0, 0, 0), 256, 32),  # registers
        (kernel_table.Kernel(32, 0, 0, 0), 256, 64),
    ],
)
def test_resident_warps_are_bounded_by_the_scarcest_resource(
    kernel: kernel_table.Kernel, threads: int, warps: int
) -> None:
    assert kernel.resident_warps(threads) == warps


def test_only_a_changed_kernel_is_a_difference() -> None:
    kernels = kernel_table.parse(SAID)
    written = kernel_table.table(kernels, THREADS, "13.0.48")
    assert "| `lz` | 32 | 56 | 6,688 | 0 | 30 |" in written
    assert kernel_table.differences(written, written) == []
    grown = kernel_table.parse(SAID.replace("Used 56", "Used 60"))
    assert len(kernel_table.differences(written, kernel_table.table(grown, THREADS, "13.0.48"))) == 2
    assert kernel_table.differences(written, kernel_table.table(grown, THREADS, "13.1.0")) == []
    fewer = {"lz": 32}
    assert kernel_table.differences(written, kernel_table.table(grown, fewer, "13.1.0")) == ["- | `fill`"]


def test_threads_are_those_of_the_launch_bounds() -> None:
    threads = kernel_table.threads_of(kernel_table.sources())
    assert (threads["zstd_literals"], threads["transform"], threads["move"]) == (32, 256, 256)


def test_every_kernel_is_launched() -> None:
    sources = (
        path
        for path in (kernel_table.ROOT / "src" / "cuda").rglob("*.cc")
        if path.name not in {"launch.cc", "host_run.cc"}
    )
    launches = "".join(path.read_text() for path in sources)
    known = kernel_table.threads_of(kernel_table.sources())
    by_name = {"move": "kMoveKernel", "gather": "kGatherKernel"}
    assert [name for name in known if by_name.get(name, f"kernel_id::{name}") not in launches] == []


def test_the_cost_model_uses_the_kernels_registers() -> None:
    def cells(text: str) -> dict[str, list[str]]:
        split = [[cell.strip() for cell in line.strip("|").split("|")] for line in kernel_table.rows(text)]
        return {each[0].strip("`"): each[1:] for each in split}

    known = cells(kernel_table.TABLE.read_text())
    model = cells((kernel_table.TABLE.parent / "0012-device-decoders.md").read_text())
    model = {name: row for name, row in model.items() if len(row) == 5 and row[0].isdigit()}
    assert len(model) == 10
    for name, row in model.items():
        threads, *_, sm_90, _, _, shared, _, warps = known[name]
        assert threads == ("256" if name == "zstd_execute" else "32"), name
        assert [*row[:2], row[2].split()[0]] == [sm_90, shared, warps], name


def test_the_table_matches_the_kernels_that_were_built() -> None:
    report = Path(os.environ.get("PENSTOCK_PTXAS_REPORT", kernel_table.REPORT))
    if not report.exists():
        pytest.skip(f"no kernels were built here (no nvcc): {report}")
    said = report.read_text()
    kernels = kernel_table.parse(said)
    assert set(kernels) == {f"sm_{each}" for each in (80, 86, 89, 90, 100, 120)}
    assert kernel_table.spills(kernels) == []
    made = kernel_table.table(kernels, kernel_table.threads_of(kernel_table.sources()), kernel_table.compiler(said))
    assert kernel_table.differences(kernel_table.TABLE.read_text(), made) == []
