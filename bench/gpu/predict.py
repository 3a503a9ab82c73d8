"""Predicts the times of decoders and encoders for bench/gpu's arrays with known counts, from the cycles in
docs/design/kernels.md.

python -m bench.gpu.predict [--write]      # prints ranges, or writes them into predictions.json
python -m bench.gpu.predict --depth [--write]      # how deep a wave of each array is; --write: into kernels.md

The time of a kernel is the longer of two: that of its heaviest chunk alone (depth), and that of the turns of all chunks
divided among the warps that the device can hold at once. The lower bound of a turn's cycles has loads from L1, the
upper one from L2. Counts of turns are from the host forms: zstd's in counts.json, written by
PENSTOCK_COUNTS=bench/gpu/counts.json test_cuda_decode --gtest_filter=LzOutput.*, LZ4's from
docs/design/0012-device-decoders.md; or from liblz4, libzstd and libdeflate, whose blocks the arrays have. The
predictions are accurate to about 40 %.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu.results import PREDICTIONS

TABLE = Path(__file__).resolve().parents[2] / "docs" / "design" / "kernels.md"
MULTIPROCESSORS, CLOCK_HZ = 132, 1.75e9  # an H200
CHUNKS, CHUNK_BYTES = 1000, 1_024_000


@dataclass(frozen=True)
class Work:
    """The turns of a loop in the heaviest part, which one warp runs alone, and in a chunk. `doubt`: the factor between
    the upper bound and the cycles of the table, for effects that the table omits."""

    kernel: str
    loop: str
    depth: float
    chunk: float
    doubt: float = 1.0


def lz4_parse(windows: int, lengths: int, entries: int, opened: int, walk: int, starts: int) -> list[Work]:
    """The turns of all loops that find the tokens of a chunk's windows of 2 KiB."""
    turns = {
        "steps": 4 * windows,
        "lengths elsewhere": lengths,
        "exits": 16 * windows,
        "entries": entries,
        "open exits": opened,
        "walk": walk,
        "starts": starts,
    }
    return [Work("lz", f"LZ4 parse: {loop}", count, count) for loop, count in turns.items()]


CHUNK_COUNTS: dict[str, dict[str, float]] = json.loads(Path(__file__).with_name("counts.json").read_text())

BATCH, CHAINED = "LZ output, a batch", "LZ output, short offsets"
SOURCES, SHARED = "LZ output, sources", "LZ output, copies, shared"
# The warps that share a chunk if a wave has few (src/cuda/decode/zstd_execute.h), and the total for all chunks if it
# has many (wave.cc).
EXECUTE_WARPS, WARPS_AT_ONCE = 8, 2048


def execute_warps(chunks: int) -> int:
    """The number of warps that execute each chunk of a wave."""
    warps = EXECUTE_WARPS
    while warps > 1 and warps * chunks > WARPS_AT_ONCE:
        warps //= 2
    return warps


def zstd_work(counts: dict[str, float]) -> list[Work]:
    """The work of a chunk's zstd kernels, from the counts of the host forms."""
    sequences = 32 * counts["batches"] / 8
    chains = counts["deep_chains"] - counts["chain_sets"]  # those of one warp, whatever the others do
    # Once for the warps that share a chunk, and once for a warp that has it alone: a set then has one batch. The row of
    # a chain has the cycles of one turn.
    execution = {
        "a set": (counts["sets"] - counts["chain_sets"], counts["batches"]),
        "a set of a chain": (counts["chain_sets"], 0),
        "a turn": (counts["alone"] - chains, -counts["chains"]),
        "a chain": (chains, counts["chains"]),
        "sources": (counts["deep_searches"], counts["searches"]),
        "copies, short": (
            counts["deep_turns"] - counts["deep_shared_turns"],
            counts["turns"] - counts["shared_turns"],
        ),
        "copies, shared": (counts["deep_shared_turns"], counts["shared_turns"]),
        "long copies": (counts["copies"], EXECUTE_WARPS * counts["copies"]),
    }
    return [
        Work("zstd_literals", "zstd literals", counts["symbols"] / 8, counts["symbols"] / 8),
        Work("zstd_sequences", "zstd sequences", counts["sequences"], sequences),
        *(Work("zstd_execute", f"zstd execute, {loop}", shared, alone) for loop, (shared, alone) in execution.items()),
    ]


def alone_work(counts: dict[str, float]) -> list[Work]:
    """The work of a chunk's zstd kernels where one warp executes each chunk."""
    loops = {
        "zstd execute, one warp": counts["batches"] - counts["chains"],
        "zstd execute, one warp, a chain": counts["chains"],
        SOURCES: counts["searches"],
        "LZ output, copies, short": counts["turns"] - counts["shared_turns"],
        SHARED: counts["shared_turns"],
        "zstd execute, long copies": EXECUTE_WARPS * counts["copies"],
    }
    others = [work for work in zstd_work(counts) if work.kernel != "zstd_execute"]
    return [*others, *(Work("zstd_execute", loop, turns, turns) for loop, turns in loops.items())]


# For LZ4, the turns that find tokens, as lz_parse_test.cc prints them, and the upper bounds of searches and turns.
COUNTS: dict[str, list[Work]] = {
    "rounded_zstd": zstd_work(CHUNK_COUNTS["rounded"]),
    "walk_zstd": zstd_work(CHUNK_COUNTS["walk"]),
    "ocean_zstd": zstd_work(CHUNK_COUNTS["ocean"]),
    "rounded_lz4": [
        *lz4_parse(windows=224, lengths=772, entries=1787, opened=224, walk=1218, starts=4269),
        Work("lz", BATCH, 3_731, 3_731),
        Work("lz", SOURCES, 9_700, 9_700),
        Work("lz", SHARED, 9_330, 9_330),
    ],
    "walk_lz4": [
        *lz4_parse(windows=41, lengths=303, entries=322, opened=41, walk=236, starts=812),
        Work("lz", CHAINED, 759, 759),
        Work("lz", SOURCES, 3_740, 3_740),
        Work("lz", SHARED, 3_660, 3_660),
    ],
    # Symbols of a chunk's one stream, at level 1.
    "rounded_zlib": [
        Work("inflate", "Deflate match", 197_416, 197_416, 1.5),
        Work("inflate", "Deflate literals", 6_398, 6_398),  # rarely three in turn
        Work("inflate", CHAINED, 203_814 / 32, 203_814 / 32, 2.0),
    ],
}
# The row `written` of the step `bars`: chunks of `rounded`. A warp encodes a chunk of LZ4 or a block of zstd, in waves
# of as many chunks as fit into the memory that src/cuda/encode_chain.cc allows: two halves, and zstd's workspaces.
ENCODED_CHUNKS, ENCODE_WAVE_BYTES = 256, 1 << 30
ZSTD_BLOCK_BYTES, ZSTD_WORKSPACE_BYTES = 131_072, 471_864


@dataclass(frozen=True)
class Encoded:
    """How a codec encodes a chunk: in parts, each encoded by a warp."""

    kernel: str
    parts: int
    part_bytes: int
    memory_bytes: int


ZSTD_BLOCKS = -(-CHUNK_BYTES // ZSTD_BLOCK_BYTES)
ENCODED = {
    "LZ4": Encoded("encode_lz4", 1, CHUNK_BYTES, 2 * CHUNK_BYTES),
    "zstd": Encoded(
        "encode_zstd_blocks",
        ZSTD_BLOCKS,
        ZSTD_BLOCK_BYTES,
        2 * CHUNK_BYTES + ZSTD_BLOCKS * ZSTD_WORKSPACE_BYTES,
    ),
}


def cycles(table: str) -> dict[str, tuple[float, float]]:
    """Cycles of a turn by the loop's name, with loads from L1 and from L2."""
    found = {}
    for line in table.splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if len(cells) == 6 and re.fullmatch(r"[\d,]+", cells[3]):
            found.setdefault(cells[0], (float(cells[3].replace(",", "")), float(cells[4].replace(",", ""))))
    return found


def warps(table: str) -> dict[str, int]:
    """Warps that a multiprocessor can hold at once, by kernel."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", table, re.MULTILINE)
    return {name: int(count) for name, count in rows}


def kernels_ms(table: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Milliseconds, least and most, of each kernel for an array with known counts."""
    of_turn, resident = cycles(table), warps(table)
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for name, all_work in COUNTS.items():
        kernels = out.setdefault(name, {})
        for kernel in dict.fromkeys(work.kernel for work in all_work):
            depth, chunk = [0.0, 0.0], [0.0, 0.0]
            for work in all_work:
                if work.kernel != kernel:
                    continue
                for end, each in enumerate(of_turn[work.loop]):
                    ms = each / CLOCK_HZ * 1e3 * (work.doubt if end == 1 else 1)
                    depth[end] += work.depth * ms
                    chunk[end] += work.chunk * ms
            at_once = MULTIPROCESSORS * resident[kernel] / CHUNKS  # warps per chunk
            if kernel == "zstd_execute":
                at_once = min(at_once, execute_warps(CHUNKS))
            kernels[kernel] = (max(depth[0], chunk[0] / at_once), max(depth[1], chunk[1] / at_once))
    return out


def encoded_rates(table: str) -> dict[str, list[float]]:
    """GB/s, least and most, at which the device encodes."""
    of_32_bytes, resident = cycles(table), warps(table)
    out = {}
    for name, codec in ENCODED.items():
        waves = math.ceil(ENCODED_CHUNKS / (ENCODE_WAVE_BYTES // codec.memory_bytes))
        parts = math.ceil(ENCODED_CHUNKS / waves) * codec.parts
        turns = waves * math.ceil(parts / (MULTIPROCESSORS * resident[codec.kernel]))
        least, most = (turns * codec.part_bytes / 32 * each / CLOCK_HZ for each in of_32_bytes[name])
        gigabytes = ENCODED_CHUNKS * CHUNK_BYTES / 1e9
        out[f"bars/written, {name.lower()}/encoded by the device"] = [
            rounded(gigabytes / most),
            rounded(gigabytes / least),
        ]
    return out


def predictions(table: str) -> dict[str, Any]:
    """`values`: GB/s of decoders and encoders alone, by keys of predictions.json; `kernels_ms` by array and kernel."""
    found = kernels_ms(table)
    gigabytes = CHUNKS * CHUNK_BYTES / 1e9
    rates = {
        f"nvcomp/{name}/penstock": [
            rounded(gigabytes / sum(each[end] for each in kernels.values()) * 1e3) for end in (1, 0)
        ]
        for name, kernels in found.items()
    }
    shown = {
        name: {kernel: [rounded(each) for each in ms] for kernel, ms in kernels.items()}
        for name, kernels in found.items()
    }
    return {"values": rates | encoded_rates(table), "kernels_ms": shown}


def depths_ms(table: str, alone: bool = False) -> dict[str, dict[str, tuple[float, float]]]:
    """Milliseconds of a wave's kernels, least and most, for any number of chunks: one warp decodes the heaviest block,
    and those of one thread block the heaviest chunk. `alone`: that thread block has one warp."""
    of_turn = cycles(table)
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for name, counts in CHUNK_COUNTS.items():
        kernels = {"zstd_literals": (0.0, 0.0), "zstd_sequences": (0.0, 0.0), "zstd_execute": (0.0, 0.0)}
        for work in alone_work(counts) if alone else zstd_work(counts):
            least, most = (work.depth * each / CLOCK_HZ * 1e3 for each in of_turn[work.loop])
            before = kernels[work.kernel]
            kernels[work.kernel] = (before[0] + least, before[1] + most)
        out[name] = {**kernels, "wave": wave_of(kernels)}
    return out


def wave_of(kernels: dict[str, tuple[float, float]]) -> tuple[float, float]:
    """The time of a wave: literals and sequences run in parallel, execution runs after both."""
    literals, sequences, execution = (kernels[f"zstd_{stage}"] for stage in ("literals", "sequences", "execute"))
    return max(literals[0], sequences[0]) + execution[0], max(literals[1], sequences[1]) + execution[1]


DEPTH_MARKER = "## How deep a wave is"


def depth_table(table: str) -> str:
    """The section of kernels.md, with its headline."""
    lines = [
        DEPTH_MARKER,
        "",
        "Written by `python -m bench.gpu.predict --depth --write`: the cycles above times what the host forms count of",
        "the arrays of bench/gpu, zstd level 3, chunks of 1.024 MB (of Blosc's: parts of 64 KiB, the heaviest). A wave",
        "is never shorter, however few chunks it has. The least is with loads from L1, the most with loads from L2, at",
        f"{CLOCK_HZ / 1e9:.2f} GHz; literals run in parallel with sequences. The bar is 5 ms. A set is the batches",
        f"that the {EXECUTE_WARPS} warps of a chunk have at the same time, as long as the slowest takes; then some",
        "work alone. A chunk has so many warps in waves of up to 256 chunks, and one from 1,025 chunks on (the last",
        "two columns): there the limit is how much all warps do (note 0012). Rounds are of all matches; how many",
        "follow each other is in note 0012, too.",
        "",
        "| chunk | batches | rounds, searches, turns a batch | sets | alone a set | literals | sequences | execute | "
        "wave, ms | execute, one warp | wave, one warp |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    heaviest = {}
    by_one = depths_ms(table, alone=True)
    for name, kernels in depths_ms(table).items():
        kind = name.partition(", byte")[0]
        if kind not in heaviest or kernels["wave"] > heaviest[kind][1]["wave"]:
            one = {f"{stage}, one warp": by_one[name][stage] for stage in ("zstd_execute", "wave")}
            heaviest[kind] = (name, kernels | one)
    benchmark = [kernels for name, kernels in heaviest.values() if name.startswith("benchmark")]
    all_kinds = {
        stage: (max(each[stage][0] for each in benchmark), max(each[stage][1] for each in benchmark))
        for stage in ("zstd_literals", "zstd_sequences", "zstd_execute")
    }
    all_kinds["wave"] = wave_of(all_kinds)
    slowest = max(each["zstd_execute, one warp"] for each in benchmark)
    all_kinds |= {
        "zstd_execute, one warp": slowest,
        "wave, one warp": wave_of({**all_kinds, "zstd_execute": slowest}),
    }
    for name, kernels in heaviest.values():
        counts = CHUNK_COUNTS[name]
        batches = max(1, counts["batches"])
        each = ", ".join(f"{counts[what] / batches:.1f}" for what in ("rounds", "searches", "turns"))
        spans = " | ".join(f"{least:.1f} to {most:.1f}" for least, most in kernels.values())
        sets = f"{counts['sets']:,} | {counts['alone'] / max(1, counts['sets']):.1f}"
        lines.append(f"| {name} | {counts['batches']:,} | {each} | {sets} | {spans} |")
    spans = " | ".join(f"{least:.1f} to {most:.1f}" for least, most in all_kinds.values())
    lines.append(f"| benchmark, every kind in a wave | | | | | {spans} |")
    return "\n".join([*lines, ""])


def with_depths(table: str) -> str:
    """kernels.md with a new section on depths; other sections stay."""
    front, _, old = table.partition(DEPTH_MARKER)
    return front.rstrip() + "\n\n" + depth_table(table) + "".join(old.partition("\n## ")[1:])


def rounded(number: float) -> float:
    """Two digits: the model is not more precise."""
    return float(f"{number:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write them into the file")
    parser.add_argument("--depth", action="store_true", help="the table of kernels.md")
    options = parser.parse_args()
    if options.depth:
        made_with = with_depths(TABLE.read_text())
        if options.write:
            TABLE.write_text(made_with)
        print(depth_table(made_with))
        return
    made = predictions(TABLE.read_text())
    if not options.write:
        print(json.dumps(made, indent=2))
        return
    document = json.loads(PREDICTIONS.read_text())
    document["values"] |= made["values"]
    document["kernels_ms"] = made["kernels_ms"]
    text = json.dumps(document, indent=2, ensure_ascii=False)
    # Writes each range on one line.
    PREDICTIONS.write_text(re.sub(r"\[\s+([\d.]+),\s+([\d.]+)\s+\]", r"[\1, \2]", text) + "\n")


if __name__ == "__main__":
    main()
