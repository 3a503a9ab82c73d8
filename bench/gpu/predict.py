"""Predicts what decoders and encoders take for bench/gpu's arrays of known counts, from the cycles in
docs/design/kernels.md.

python -m bench.gpu.predict [--write]      # prints ranges, or writes them into predictions.json

A kernel takes the longer of two: its heaviest chunk alone (depth), and the turns of all chunks shared out to the warps
that the device holds at once. Cycles of a turn are those with loads from L1 at least and from L2 at most. Counts of
turns are of the host forms (docs/design/0012-device-decoders.md), or of liblz4, libzstd and libdeflate, whose blocks
the arrays hold. Trust it to about 40 %.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu.results import PREDICTIONS

TABLE = Path(__file__).resolve().parents[2] / "docs" / "design" / "kernels.md"
MULTIPROCESSORS, CLOCK_HZ = 132, 1.75e9  # of an H200
CHUNKS, CHUNK_BYTES = 1000, 1_024_000


@dataclass(frozen=True)
class Work:
    """A loop's turns: of the heaviest part, which no other warp helps with, and of a chunk. `doubt`: the most is so
    many times what the cycles say, for what the table does not have."""

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


# Sequences of the longest block and of a chunk, batches of 32 and turns of four far matches; of LZ4 the turns that
# find tokens, as lz_parse_test.cc prints them.
COUNTS: dict[str, list[Work]] = {
    "rounded_zstd": [
        Work("zstd_sequences", "zstd sequences", 15_524, 118_981 / 8, 1.5),
        Work("zstd_execute", "zstd execute, short offsets", 3_714, 3_714),
        Work("zstd_execute", "far matches: copies", 31_076, 31_076),
    ],
    "rounded_lz4": [
        *lz4_parse(windows=224, lengths=772, entries=1787, opened=224, walk=1218, starts=4269),
        Work("lz", "zstd execute, short offsets", 3_731, 3_731),
        Work("lz", "far matches: copies", 31_568, 31_568),
    ],
    "walk_lz4": [
        *lz4_parse(windows=41, lengths=303, entries=322, opened=41, walk=236, starts=812),
        Work("lz", "zstd execute, short offsets", 759, 759),
        Work("lz", "far matches: copies", 8_286, 8_286),
    ],
    # Symbols of a chunk's one stream, at level 1.
    "rounded_zlib": [
        Work("inflate", "Deflate match", 197_416, 197_416, 1.5),
        Work("inflate", "Deflate literals", 6_398, 6_398),  # rarely three in turn
        Work("inflate", "zstd execute, short offsets", 203_814 / 32, 203_814 / 32, 2.0),
    ],
    # Literals of the longest block and of a chunk: 70,906 and 423,991, in four streams a block.
    "ocean_zstd": [
        Work("zstd_literals", "zstd literals", 70_906 / 4 / 8, 423_991 / 8 / 32),
        Work("zstd_sequences", "zstd sequences", 2_995, 16_967 / 8, 1.5),
        Work("zstd_execute", "zstd execute, short offsets", 16_967 / 32, 16_967 / 32, 2.0),
        Work("zstd_execute", "far matches: copies", 16_967 / 4, 16_967 / 4),
    ],
}
# The row `written` of the step `bars`: a warp encodes a chunk of `rounded`, all chunks at once.
ENCODED = {"lz4": "LZ4", "zstd": "zstd"}
ENCODED_CHUNKS = 256
# Of which the least is nothing: far matches are copied while other warps run, or are not far.
OPTIONAL = "far matches: copies"


def cycles(table: str) -> dict[str, tuple[float, float]]:
    """Cycles of a turn by the loop's name: with loads from L1, and from L2."""
    found = {}
    for line in table.splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if len(cells) == 6 and re.fullmatch(r"[\d,]+", cells[3]):
            found.setdefault(cells[0], (float(cells[3].replace(",", "")), float(cells[4].replace(",", ""))))
    return found


def warps(table: str) -> dict[str, int]:
    """Warps that a multiprocessor holds at once, by kernel."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", table, re.MULTILINE)
    return {name: int(count) for name, count in rows}


def kernels_ms(table: str) -> dict[str, dict[str, tuple[float, float]]]:
    """Milliseconds, least and most, of each kernel of an array with known counts."""
    of_turn, resident = cycles(table), warps(table)
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for name, all_work in COUNTS.items():
        kernels = out.setdefault(name, {})
        for work in all_work:
            turns = max(work.depth, CHUNKS * work.chunk / (MULTIPROCESSORS * resident[work.kernel]))
            least, most = (turns * each / CLOCK_HZ * 1e3 for each in of_turn[work.loop])
            before = kernels.get(work.kernel, (0.0, 0.0))
            kernels[work.kernel] = (
                before[0] + (0 if work.loop == OPTIONAL else least),
                before[1] + most * work.doubt,
            )
    return out


def encoded_rates(table: str) -> dict[str, list[float]]:
    """GB/s, least and most, at which the device encodes."""
    of_32_bytes, resident = cycles(table), warps(table)
    out = {}
    for name, codec in ENCODED.items():
        assert MULTIPROCESSORS * resident[f"encode_{name}"] >= ENCODED_CHUNKS
        least, most = (CHUNK_BYTES / 32 * each / CLOCK_HZ for each in of_32_bytes[codec])
        gigabytes = ENCODED_CHUNKS * CHUNK_BYTES / 1e9
        out[f"bars/written, {name}/encoded by the device"] = [rounded(gigabytes / most), rounded(gigabytes / least)]
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


def rounded(number: float) -> float:
    """Two digits: the model has no more."""
    return float(f"{number:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write them into predictions.json")
    options = parser.parse_args()
    made = predictions(TABLE.read_text())
    if not options.write:
        print(json.dumps(made, indent=2))
        return
    document = json.loads(PREDICTIONS.read_text())
    document["values"] |= made["values"]
    document["kernels_ms"] = made["kernels_ms"]
    text = json.dumps(document, indent=2, ensure_ascii=False)
    # A range is one line.
    PREDICTIONS.write_text(re.sub(r"\[\s+([\d.]+),\s+([\d.]+)\s+\]", r"[\1, \2]", text) + "\n")


if __name__ == "__main__":
    main()
