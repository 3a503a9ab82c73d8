"""Shows how many registers and how much memory every CUDA kernel takes, architecture by architecture.

    tools/kernel_table.py                    # compares the build's kernels with docs/design/kernels.md
    tools/kernel_table.py --write            # writes that file

Reads ptxas's output from the build of the fatbin (`kernels.fatbin.ptxas` in the build folder), so that nothing is
compiled twice. Exit status 1: a kernel spills, or the table is not that of the kernels; 77: no kernels were built.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "build" / "release" / "src" / "cuda" / "decode" / "kernels.fatbin.ptxas"
TABLE = ROOT / "docs" / "design" / "kernels.md"
PREFIX = "penstock_"
SKIPPED = 77

# A multiprocessor of an H200 (sm_90), from the CUDA programming guide's table of technical specifications.
MODEL = "sm_90"
REGISTERS, REGISTERS_EACH_WARP, MOST_WARPS, MOST_BLOCKS = 65536, 256, 64, 32
SHARED_BYTES, SHARED_BYTES_EACH_BLOCK = 227 * 1024, 1024


@dataclass(frozen=True)
class Kernel:
    """ptxas's report on one kernel for one architecture."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spilled_bytes: int

    def resident_warps(self, threads: int) -> int:
        """Warps in blocks of `threads` that an SM of an H200 can hold at once."""
        warps = threads // 32
        by_registers = REGISTERS // (-(-self.registers * 32 // REGISTERS_EACH_WARP) * REGISTERS_EACH_WARP) // warps
        by_memory = SHARED_BYTES // (self.shared_bytes + SHARED_BYTES_EACH_BLOCK)
        return min(by_registers, by_memory, MOST_BLOCKS, MOST_WARPS // warps) * warps


def parse(report: str) -> dict[str, dict[str, Kernel]]:
    """Kernels by architecture and name."""
    found: dict[str, dict[str, Kernel]] = {}
    name = architecture = ""
    stack = spilled = 0
    for line in report.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            name, architecture = entry.groups()
        elif spills := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, stores, loads = map(int, spills.groups())
            spilled = stores + loads
        elif used := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            kernel = Kernel(int(used.group(1)), int(shared.group(1)) if shared else 0, stack, spilled)
            found.setdefault(architecture, {})[name.removeprefix(PREFIX)] = kernel
    return found


def threads_of(sources: str) -> dict[str, int]:
    """Threads of a block, by kernel, from `__launch_bounds__`."""
    move = int(next(iter(re.findall(r"kMoveThreads = (\d+)", sources)), 256))
    bounds = re.findall(r"__launch_bounds__\(([\w:]+)[^)]*\)\s+penstock_(\w+)\(", sources)
    return {name: int(count) if count.isdigit() else move for count, name in bounds}


def compiler(report: str) -> str:
    """The version of nvcc that made a report."""
    found = re.search(r"^nvcc: release \S+ V([\d.]+)", report, re.MULTILINE)
    return found.group(1) if found else "unknown"


def spills(kernels: dict[str, dict[str, Kernel]]) -> list[str]:
    """A sentence for each kernel that keeps registers in memory."""
    return [
        f"{name} spills {kernel.spilled_bytes} bytes on {architecture}"
        for architecture, each in kernels.items()
        for name, kernel in each.items()
        if kernel.spilled_bytes
    ]


def table(kernels: dict[str, dict[str, Kernel]], threads: dict[str, int], version: str) -> str:
    """The document."""
    architectures = sorted(kernels, key=lambda name: int(name.removeprefix("sm_")))
    names = list(threads)
    lines = [
        "# Registers and memory of the CUDA kernels",
        "",
        f"Written by `tools/kernel_table.py --write` from what ptxas said (nvcc {version}). A test compares it with",
        "the kernels that were built, and fails where one spills. Registers are a thread's, by architecture; warps are",
        f"those that a multiprocessor of an H200 ({MODEL}) holds at once: it has room for 65,536 registers, 227 KiB of",
        "shared memory, 32 blocks and 64 warps.",
        "",
        f"| kernel | threads | {' | '.join(architectures)} | shared bytes | stack bytes | warps |",
        "|---|" + "---|" * (len(architectures) + 4),
    ]
    for name in names:
        registers = " | ".join(str(kernels[each][name].registers) for each in architectures)
        model = kernels[MODEL][name]
        stack = max(kernels[each][name].stack_bytes for each in architectures)
        lines.append(
            f"| `{name}` | {threads[name]} | {registers} | {model.shared_bytes:,} | {stack} |"
            f" {model.resident_warps(threads[name])} |"
        )
    spilling = spills(kernels)
    lines += ["", "No kernel spills." if not spilling else "; ".join(spilling) + ".", ""]
    return "\n".join(lines)


def rows(text: str) -> list[str]:
    """The lines of a table that contain numbers."""
    return [line for line in text.splitlines() if line.startswith("| `")]


def made_by(text: str) -> str:
    """The version of nvcc that made a document."""
    found = re.search(r"\(nvcc ([\d.]+)\)", text)
    return found.group(1) if found else "unknown"


def sources() -> str:
    return "".join(
        path.read_text() for path in [*(ROOT / "src/cuda/move").glob("*.h"), *(ROOT / "src/cuda/kernels").iterdir()]
    )


def differences(written: str, made: str) -> list[str]:
    """Differences of the written table from the new one. Other compilers may use other numbers of registers."""
    same_compiler = made_by(written) == made_by(made)
    if not same_compiler:
        written, made = (re.sub(r"(\| `\w+`).*", r"\1", text) for text in (written, made))
    old, new = rows(written), rows(made)
    return [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", nargs="?", type=Path, default=REPORT, help="what ptxas said")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.relative_to(ROOT)}")
    options = parser.parse_args()
    if not options.report.exists():
        print(f"no kernels were built: there is no {options.report}")
        return SKIPPED
    report = options.report.read_text()
    kernels = parse(report)
    made = table(kernels, threads_of(sources()), compiler(report))
    if spilling := spills(kernels):
        print("\n".join(spilling))
    if options.write:
        TABLE.write_text(made + "".join(TABLE.read_text().partition("\n## ")[1:]))  # tables of other kernels follow
        return 1 if spilling else 0
    changed = differences(TABLE.read_text(), made)
    if changed:
        print(f"{TABLE.relative_to(ROOT)} is not of these kernels; tools/kernel_table.py --write makes it so:")
        print("\n".join(changed))
    return 1 if spilling or changed else 0


if __name__ == "__main__":
    sys.exit(main())
