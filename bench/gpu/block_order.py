"""Predicts the effect of the order of a wave's blocks and chunks, from the headers of real zstd frames.

    python -m bench.gpu.block_order

The kernels of a wave start their blocks in the order of a list, and a multiprocessor takes the next ones when it has
room. Before, the list had the chunks with most encoded bytes first, and the blocks of each chunk together. Now each
stage has its heaviest items first (src/cuda/decode/wave.cc). Prints when the last warp of each stage ends, with
the cycles of docs/design/kernels.md (loads from L1) and the warps that a multiprocessor holds. Then, for how many bytes
the position is known before sequences are decoded, and how many turns of 4 KiB the execute stage saves as these go
straight to their place. zstd at level 3, in chunks of 1.024 MB of bench/gpu's arrays.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from bench.gpu import arrays
from bench.gpu.predict import CHUNK_BYTES, CLOCK_HZ, EXECUTE_WARPS, MULTIPROCESSORS, TABLE, cycles, execute_warps, warps

BLOCKS_OF_A_WARP = 8
WAVES = (256, 1000, 3000)
EACH_KIND = 32  # chunks that are encoded; a wave repeats them


@dataclass(frozen=True)
class Block:
    """The facts in the headers of a zstd block. `literals`: in bytes; all of a raw block, or of one repeated byte.
    `symbols`: of the longest stream of Huffman-coded literals."""

    raw: bool
    literals: int
    symbols: int
    sequences: int


@dataclass(frozen=True)
class Chunk:
    """One zstd frame."""

    encoded_bytes: int
    blocks: tuple[Block, ...]


def compressed_block(content: bytes) -> Block:
    """RFC 8878, sections 3.1.1.3.1.1 and 3.1.1.3.2.1."""
    kind, form = content[0] & 3, content[0] >> 2 & 3
    if kind < 2:
        bits, head = ((5, 1), (12, 2), (5, 1), (20, 3))[form]
        literals = int.from_bytes(content[:head], "little") >> (8 * head - bits)
        at, symbols = head + (literals if kind == 0 else 1), 0
    else:
        bits, head = ((10, 3), (10, 3), (14, 4), (18, 5))[form]
        number = int.from_bytes(content[:head], "little") >> 4
        literals = number & ((1 << bits) - 1)
        at = head + (number >> bits)
        symbols = literals if form == 0 else -(-literals // 4)
    first = content[at]
    sequences = first
    if first == 255:
        sequences = 0x7F00 + int.from_bytes(content[at + 1 : at + 3], "little")
    elif first >= 128:
        sequences = (first - 128 << 8) + content[at + 1]
    return Block(False, literals, symbols, sequences)


def parsed(frame: bytes) -> Chunk:
    """The blocks of a frame without a dictionary."""
    flags = frame[4]
    single = flags >> 5 & 1
    at = 5 + (1 - single) + (single, 2, 4, 8)[flags >> 6]
    blocks = []
    last = False
    while not last:
        header = int.from_bytes(frame[at : at + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        at += 3
        if kind == 2:
            blocks.append(compressed_block(frame[at : at + size]))
        else:
            blocks.append(Block(kind == 0, size, 0, 0))
        at += 1 if kind == 1 else size
    return Chunk(len(frame), tuple(blocks))


def unknown(chunk: Chunk) -> list[Block]:
    """The blocks of the execute stage: those whose position is not known before sequences are decoded, or that are one
    repeated byte, or have other literals than Huffman-coded ones."""
    known = list(takewhile(lambda block: block.sequences == 0, chunk.blocks))
    return [block for block in known if not block.raw and not block.symbols] + list(chunk.blocks[len(known) :])


def execute_weight(chunk: Chunk) -> int:
    """The estimate of src/cuda/decode/wave.cc."""
    return sum(30 * block.sequences + block.literals // 11 for block in unknown(chunk))


def long_copies(blocks: Iterable[Block]) -> int:
    """The turns in which the warps of a chunk copy 4 KiB of blocks without sequences."""
    return sum(-(-block.literals // 4096) for block in blocks if block.sequences == 0)


def last_end(costs: Iterable[float], room: int) -> float:
    """The time at which the last of these ends; they start in this order, and `room` of them run at once."""
    ends: list[float] = [0.0] * room
    for cost in costs:
        heapq.heapreplace(ends, ends[0] + cost)
    return max(ends)


def by_warps(counts: list[int]) -> list[float]:
    """A warp decodes eight blocks, in the time of the one with the most."""
    return [max(counts[i : i + BLOCKS_OF_A_WARP]) for i in range(0, len(counts), BLOCKS_OF_A_WARP)]


def stage_ends(wave: list[Chunk], table: str, now: bool) -> dict[str, float]:
    """Milliseconds until the last warp of each stage ends."""
    of_turn, resident = cycles(table), warps(table)
    before = sorted(wave, key=lambda chunk: -chunk.encoded_bytes)
    blocks = [block for chunk in before for block in chunk.blocks]
    symbols = [block.symbols for block in blocks if block.symbols]
    sequences = [block.sequences for block in blocks if block.sequences]
    weights = [execute_weight(chunk) for chunk in before]
    if now:
        for each in (symbols, sequences, weights):
            each.sort(reverse=True)
    shared = execute_warps(len(wave))
    found = {
        "literals": (by_warps(symbols), of_turn["zstd literals"][0] / 8, resident["zstd_literals"]),
        "sequences": (by_warps(sequences), of_turn["zstd sequences"][0], resident["zstd_sequences"]),
        # The weight is that of a chunk that eight warps share.
        "execute": (weights, EXECUTE_WARPS / shared, resident["zstd_execute"] // shared),
    }
    return {
        stage: last_end((count * turn for count in counts), MULTIPROCESSORS * room) / CLOCK_HZ * 1e3
        for stage, (counts, turn, room) in found.items()
    }


def chunks_of(name: str) -> list[Chunk]:
    """Chunks of one of bench/gpu's arrays, in equal distances."""
    from numcodecs import zstd

    elements = CHUNK_BYTES // 4
    if name == "benchmark":
        firsts = np.linspace(0, arrays.specs(False)["benchmark"].shard_elements - elements, 4 * EACH_KIND).astype(int)
        contents = [np.arange(first, first + elements).astype("f4") for first in firsts]
    else:
        values = getattr(arrays, name)(EACH_KIND * CHUNK_BYTES // (2 if name == "ocean" else 4))
        contents = np.array_split(values, EACH_KIND)
    return [parsed(zstd.compress(np.ascontiguousarray(each), 3)) for each in contents]


def main() -> None:
    table = TABLE.read_text()
    found = {name: chunks_of(name) for name in ("benchmark", "rounded", "ocean", "walk", "field")}
    for name, chunks in found.items():
        all_bytes = CHUNK_BYTES * len(chunks)
        later = [block for chunk in chunks for block in unknown(chunk)]
        saved = long_copies(block for chunk in chunks for block in chunk.blocks) - long_copies(later)
        known = sum(block.literals for chunk in chunks for block in takewhile(lambda x: x.sequences == 0, chunk.blocks))
        print(f"{name}: {known / all_bytes:.1%} of the bytes have a known position, {saved / len(chunks):.0f} turns")
    found["all five"] = [chunk for chunks in found.values() for chunk in chunks]
    rng = np.random.default_rng(5)
    print("| array | chunks | literals, ms | sequences, ms | execute, ms |", "|---|---|---|---|---|", sep="\n")
    for name, chunks in found.items():
        for length in WAVES:
            wave = [chunks[i] for i in rng.permutation(np.arange(length) % len(chunks))]
            old, new = (stage_ends(wave, table, now) for now in (False, True))
            cells = " | ".join(f"{old[stage]:.1f}; {new[stage]:.1f}" for stage in old)
            print(f"| {name} | {length} | {cells} |")


if __name__ == "__main__":
    main()
