"""Predicts the cost of the kernels' hot loops on a GPU (sm_90) from their machine code, without a GPU.

    tools/sass_model.py [--before SOURCE_TREE] [--write] [--show LOOP]

Compiles src/cuda/kernels/kernels.cu with nvcc, disassembles it with nvdisasm (on PATH, or NVDISASM; PyPI has it as
nvidia-cuda-nvdisasm), and walks the loops of LOOPS one instruction after the other, as a warp does whose lanes take
every path: an instruction waits for the scoreboards in its control word, and the next one for its stall count.
LATENCY has the duration of loads; those from global memory are modelled three times (L1, L2, memory). The model omits
other warps, the contents of caches, banks and clocks. Trust it to about 40 %, and its ratios to about 15 %.

For loops that only move bytes, it also gives the rate at which an H200 could run them: the least of the rates that
instructions, loads and stores, latency and memory allow.

--before compares with another checkout; --write puts the tables into docs/design/kernels.md, after their marker.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "design" / "kernels.md"
MARKER = "## What a turn of the hot loops costs"
SKIPPED = 77

# Cycles until a result is available, by the beginning of the opcode. Global loads are a parameter.
LATENCY = {"LDS": 30, "LDL": 40, "SHFL": 24, "S2R": 20, "R2UR": 12, "FLO": 14, "POPC": 14, "LDC": 30, "VOTE": 12}
BARRIER = 40  # of a thread block whose warps all arrive at the same time
READ_OPERANDS = 10  # until a store has read its operands
OTHER = 14
TAKEN = 6  # cycles of a taken branch in addition to its stall count
GLOBAL = {"L1": 40, "L2": 250, "memory": 600}

# An H200. Integer units take 64 lanes a cycle, that is two warps' instructions; 128 bytes of loads or stores a cycle.
MULTIPROCESSORS, CLOCK_HZ, MEMORY_RATE = 132, 1.755e9, 4.8e12
INSTRUCTIONS, ACCESSES = 2, 1
WARPS = 32  # of a multiprocessor, ensured by __launch_bounds__ of the transform kernel


@dataclass(frozen=True)
class Loop:
    """A loop of a kernel: the smallest one with the line that holds `marker`, without the lines of `cold`."""

    name: str
    kernel: str
    file: str
    marker: str
    turns: str  # number of bytes that one turn produces
    cold: tuple[tuple[str, str, str], ...] = ()  # file, first and last line of the omitted part
    through: str = ""  # a line through which the marker's line was inlined
    through_file: str = ""  # if that line is in another file
    moves: bool = False  # it only moves bytes: its rate is also limited by its accesses


# Lines that usual turns skip: file, first and last.
WIDE = ("zstd_sequences.h", r"offset_value = take_value", r"offset_state = take_state")
CHECKED_TOKEN = ("lz_parse.h", r"const bool several = ", r"^    \} while \(several")
OPEN_EXIT = (
    "lz_parse.h",
    r"^    const std::uint32_t segment = at / kSegmentBytes, out =",
    r"static_cast<std::uint8_t>\(end - at\)",
)
STEPPED_TOKENS = ("lz_parse.h", r"^    std::uint32_t next = at, steps = 0;", r"^    if \(known\) \{")
LONG_CHAIN = ("lz_tokens.h", r"if \(at % 16 != 0\) continue;", r"length \+= 16 \* 255;")
ALIGNED_CHAIN = ("lz_tokens.h", r"for \(; at \+ 16 <= from\.size; at \+= 16\)", r"length \+= 16 \* 255;")
STEPPED, CHECKED = r"starts\[count \+ i\] =", r"^      if \(token\.end == 0\) return count;"
STEPPERS = (
    ("LZ4", r"^  return step_over_tokens<lz_format::lz4_block>\("),
    ("Snappy", r"return step_over_tokens<lz_format::snappy>\("),
)
LAST_BYTES = ("device.h", r"i < count; \+\+i\) value \|=", r"i < count; \+\+i\) value \|=")
LONG_CODE = ("deflate_code.h", r"std::int32_t value = 0, first = 0, index = 0;", r"^  return 0;")
OTHER_SYMBOLS = ("inflate.h", r"^    if \(!is_length\(entry\)\) \{", r"^  stream = bits;")
RARE_SYMBOL = ("inflate.h", r"^      if \(entry == 0\) entry = long_entry", r"^        good = \(entry & kEndOfBlock\)")
RARE_DISTANCE = ("inflate.h", r"^      bits\.refill\(\);", r"^        cut_off\(shared\);")
THREE_LITERALS = ("inflate.h", r"Three short codes fit", r"^      bits.skip\(third & 15\);")
# Lines of a batch of the LZ output that are skipped for short runs of literals and matches of short offsets.
LONG_SEQUENCE = (
    "lz_output.h",
    r"void append\(Lanes lanes, const std::uint8_t\* from",
    r"^    skip_ring\(lanes, count\);",
)
LONG_COPY = ("lz_output.h", r"^PENSTOCK_DEVICE void lz_output::copy\(", r"^  skip_ring\(lanes, length\);")
LONG_LITERALS = ("lz_append_batch.h", r"left = long_runs", r"put<1>\(start, count")
FAR_MATCHES = ("lz_append_batch.h", r"^struct lane_search", r"^/// Writes `length` bytes at `position`")
TARGET_START = ("lz_append_batch.h", r"a word may begin before the target", r"words\[k\] \|= to / 4 == k")
LONG_MATCHES = ("lz_append_batch.h", r"left = long_matches", r"pattern >> \(8 \* \(i % offset\)\)")
NEAR_MATCHES = (
    "lz_append_batch.h",
    r"^/// Writes `length` bytes at `position`",
    r"^PENSTOCK_DEVICE std::uint32_t lz_output::fitting",
)
SHARED_COPY = ("lz_append_batch.h", r"      lane_search search\{", r"share\[lane\] -= end\[lane\]")
WHOLE_PERIODS = (
    "lz_append_batch.h",
    r"  if \(place >= period\) place %= period;",
    r"  if \(place >= period\) place %= period;",
)
COPY_ENDS = ("lz_output.h", r"target\[k\] = source\[k\]", r"target\[k\] = source\[k\]")
OVERLONG = ("lz_append_batch.h", r"^  if \(taken == 0\) \{", r"^    return 1;")
NO_MATCH = ("match_search.h", r"const int first = ")
HUFFMAN = ("encode_zstd", "huffman_encode.h")
FSE = ("encode_zstd", "fse_encode.h")
SEQUENCES = ("encode_zstd", "zstd_encode_sequences.h")
TRANSFORM = ("transform", "transforms.h")
SHUFFLE = ("shuffle", "shuffles.h")
NO_WHOLE_SET = (
    "zstd_execute.h",
    r"^      if \(next_ - first != warps",
    r"^      if \(next_ - first != warps",
)
LONG_ONE = ("zstd_execute.h", r"bool sequence_batches::append_long\(", r"^/// Appends the sequences of `block`")
NO_WHOLE_BATCH = (
    "zstd_execute.h",
    r"^    if \(taken != kLanes\) load\(next\);",
    r"^    if \(taken != kLanes\) load\(next\);",
)
CHAIN = ("zstd_execute.h", r"void sequence_batches::copy_chain\(", r"^/// First, all warps copy the sequences")
TURNS = ("zstd_execute.h", r"void sequence_batches::copy_in_turns\(", r"^/// Ends the appended sequences")
FLUSH_START = ("lz_output.h", r"i = flushed_ \+ first; i < aligned", r"i = flushed_ \+ first; i < aligned")
FLUSH_END = ("lz_output.h", r"i = words_end \+ first; i < end", r"i = words_end \+ first; i < end")
BATCH = (
    NO_WHOLE_SET,
    NO_WHOLE_BATCH,
    LONG_ONE,
    FLUSH_START,
    FLUSH_END,
    LONG_SEQUENCE,
    LONG_COPY,
    LONG_LITERALS,
    FAR_MATCHES,
    LONG_MATCHES,
    OVERLONG,
)
ONE_WARP = r"^    used \+= lanes\.from\(literal_ends"
SET, TURN = r"next_ \+= taken\.sequences", r"turn == 0\) lanes\.once_alone"
SEQUENCE = r"static_cast<std::uint64_t>\(match\)"


def far_matches(name: str, kernel: str, found: tuple[str, str], copied: tuple[str, str]) -> tuple[Loop, ...]:
    """The loops that copy far matches: `found` and `copied` are the lines that call them, with their file."""
    sources, share = r"found.needs\[lane\] = inside", r"share\[lane\] -= end\[lane\]"
    return (
        Loop(f"{name}, sources", kernel, "lz_append_batch.h", sources, "all far matches of 32, once", (), *found),
        Loop(
            *(f"{name}, copies, short", kernel, "lz_append_batch.h", share),
            "16 bytes a lane of its own match",
            (TARGET_START, SHARED_COPY, WHOLE_PERIODS),
            *copied,
        ),
        Loop(
            *(f"{name}, copies, shared", kernel, "lz_append_batch.h", share),
            "16 bytes a lane of all matches",
            (TARGET_START,),
            *copied,
        ),
    )


LOOPS = (
    Loop("zstd sequences", "zstd_sequences", "zstd_sequences.h", SEQUENCE, "a sequence of 8 blocks", (WIDE,)),
    Loop("zstd literals", "zstd_literals", "huffman_tree.h", r"store_word\(out, pick_bytes", "8 symbols of 32 streams"),
    Loop(
        *("zstd execute, a set", "zstd_execute", "zstd_execute.h", SET),
        "32 sequences a warp but for their matches, loops once",
        (*BATCH, NEAR_MATCHES, CHAIN),
    ),
    Loop(
        *("zstd execute, a set of a chain", "zstd_execute", "zstd_execute.h", SET),
        "32 sequences a warp with short offsets, loops once",
        (*BATCH, TURNS),
    ),
    Loop(
        *("zstd execute, a turn", "zstd_execute", "zstd_execute.h", TURN),
        "what one warp had left, but for its matches",
        (FAR_MATCHES, NEAR_MATCHES, LONG_MATCHES),
    ),
    Loop(
        *("zstd execute, a chain", "zstd_execute", "zstd_execute.h", TURN),
        "the same, and a chain of near matches",
        (FAR_MATCHES, LONG_MATCHES),
    ),
    *far_matches(
        *("zstd execute", "zstd_execute"),
        (r"out\.find_sources\(lanes", "zstd_execute.h"),
        (r"out\.copy_matches\(lanes", "zstd_execute.h"),
    ),
    Loop(
        *("zstd execute, one warp", "zstd_execute", "zstd_execute.h", ONE_WARP),
        "32 sequences but for their matches, loops once",
        (*BATCH, NEAR_MATCHES),
    ),
    Loop(
        *("zstd execute, one warp, a chain", "zstd_execute", "zstd_execute.h", ONE_WARP),
        "the same, and a chain of near matches",
        BATCH,
    ),
    Loop(
        *("zstd execute, long copies", "zstd_execute", "lz_output.h", r"loaded\[4\] = shift == 0"),
        "16 bytes a lane",
        (COPY_ENDS, LAST_BYTES),
    ),
    Loop(
        *("LZ output, a batch", "inflate", "lz_found.h", r"^    i \+= taken"),
        "32 sequences but for their matches, loops once",
        (*BATCH, NEAR_MATCHES),
    ),
    Loop(
        *("LZ output, short offsets", "inflate", "lz_found.h", r"^    i \+= taken"),
        "the same, and a chain of near matches",
        BATCH,
    ),
    *far_matches(
        *("LZ output", "inflate"),
        (r"^  find_sources\(lanes, batch, placed\)", "lz_append_batch.h"),
        (r"^  copy_matches\(lanes, batch, placed, 0\)", "lz_append_batch.h"),
    ),
    *(
        Loop(f"{name} tokens", "lz", "lz_parse.h", STEPPED, "4 tokens", (CHECKED_TOKEN,), through)
        for name, through in STEPPERS
    ),
    *(
        Loop(f"{name} tokens, long", "lz", "lz_parse.h", CHECKED, "a token, its lengths' loops once", cold, through)
        for (name, through), cold in zip(STEPPERS, ((STEPPED_TOKENS, LONG_CHAIN), (STEPPED_TOKENS,)), strict=True)
    ),
    *(
        Loop(
            *(f"LZ4 tokens, {name}", "lz", "lz_tokens.h", marker, turn, cold),
            through=r"token\.match == 15 && !extend_length",
        )
        for name, turn, marker, cold in (
            ("a length", "another byte of it", r"more = from\.begin\[at\+\+\]", (ALIGNED_CHAIN,)),
            ("a long length", "16 more bytes of it", r"length \+= 16 \* 255", ()),
        )
    ),
    *(
        Loop(f"{name} parse: {stage}", "lz", "lz_parse.h", marker, turns, cold, through)
        for name, through in (
            ("LZ4", r"^  parse_window<lz_format::lz4_block>\("),
            ("Snappy", r"return parse_window<lz_format::snappy>\("),
        )
        for stage, marker, turns, cold in (
            ("steps", r"load_16_bytes\(shared.bytes \+ at\)", "512 bytes", ()),
            ("lengths elsewhere", r"first_step = look\(first\)", "2 bytes a lane", ()),
            ("exits", r"^        out\[k\] = next - kSegmentBytes", "4 bytes a lane", ()),
            ("entries", r"^      known = known > out", "4 segments", (OPEN_EXIT,)),
            ("open exits", r"^      known = known > out", "a token that is not in the tables", (LONG_CHAIN,)),
            ("walk", r"^        low \|= bit_at\(at\)", "4 tokens a lane", ()),
            ("starts", r"^      \*to\+\+ = static_cast<std::uint16_t>", "a token a lane", ()),
        )
    ),
    Loop(
        *("Deflate literals", "inflate", "inflate.h", r"batch.literal\((third >> 4|symbol)\)", "3 literals (1 before)"),
        (OTHER_SYMBOLS, LAST_BYTES),
    ),
    Loop(
        *("Deflate match", "inflate", "inflate.h", r"batch.match\(length.value, distance.value\)", "a match"),
        (THREE_LITERALS, LAST_BYTES, LONG_CODE, RARE_SYMBOL, RARE_DISTANCE),
    ),
    *(
        Loop(f"unshuffle, {items}", *TRANSFORM, r"bytes\[j\] = \*from", turns, through=through, moves=True)
        for items, turns, through in (
            ("small items", "a byte of 8 items of a thread", r"share\.step, to \+ i \* item \+ k, share"),
            ("large items", "8 bytes of a thread", r"items, to \+ i \* item \+ k, 1\)"),
        )
    ),
    *(
        Loop(
            *(f"unshuffle {item} bytes", *TRANSFORM, r"store_words\(to \+ kItems"),
            f"{made} bytes of a thread",
            through=rf"unshuffle_words<{item}>\(",
            moves=True,
        )
        for item, made in ((2, 16), (4, 16), (8, 32), (12, 48), (16, 64))
    ),
    Loop("unbitshuffle, any item", *TRANSFORM, r"bits = transpose_bits\(bits\)", "a byte of 8 items", moves=True),
    Loop("unbitshuffle 2 bytes", *TRANSFORM, r"store_words\(target \+ 8 \* w", "64 bytes of a thread", moves=True),
    Loop("unbitshuffle 4 bytes", *TRANSFORM, r"store_words\(target \+ 16 \* w", "128 bytes of a thread", moves=True),
    Loop("unbitshuffle 8 bytes", *TRANSFORM, r"store_word\(target \+ 8 \*", "128 bytes of a thread", moves=True),
    Loop("byte swap, any item", *TRANSFORM, r"target\[k\] = high", "four times two bytes", moves=True),
    Loop("byte swap 2, 4, 8 bytes", *TRANSFORM, r"swap_words\(words, item\)", "16 bytes of a thread", moves=True),
    Loop("copy", *TRANSFORM, r"store_words\(to \+ head", "16 bytes of a thread", moves=True),
    *(
        Loop(
            *(f"shuffle {item} bytes", *SHUFFLE, r"store_word\(to \+ k \* items"),
            f"{made} bytes of a thread",
            through=rf"shuffle_words<{item}>\(",
            moves=True,
        )
        for item, made in ((2, 16), (4, 16), (8, 32))
    ),
    Loop("bitshuffle, any item", *SHUFFLE, r"bits = transpose_bits\(bits\)", "a byte of 8 items", moves=True),
    Loop("LZ4 encoder, no match", "encode_lz4", *NO_MATCH, "32 positions"),
    Loop(
        *("LZ4 encoder, match", "encode_lz4", "lz4_encode.h", r"literals = match.at \+ match.length"),
        "32 positions, a match and its token",
    ),
    Loop("zstd encoder, no match", "encode_zstd", *NO_MATCH, "32 positions"),
    Loop(
        *("zstd encoder, match", "encode_zstd", "zstd_encode_block.h", r"begin = match.at \+ match.length"),
        "32 positions and a match",
    ),
    Loop("zstd encoder, bytes counted", *HUFFMAN, r"add_to\(code.counts\[from", "32 literals"),
    Loop("zstd encoder, ranks", *HUFFMAN, r"rank \+= its", "32 of 65,536 comparisons of a block"),
    Loop("zstd encoder, nodes", *HUFFMAN, r"code.nodes\[made\] = sum", "a byte that occurs in a block"),
    Loop("zstd encoder, depths", *HUFFMAN, r"code.lengths\[depth \+ 1\]", "a byte that occurs in a block"),
    Loop("zstd encoder, weights", *HUFFMAN, r"code.bits \+= length", "a byte that occurs in a block"),
    Loop("zstd encoder, codes", *HUFFMAN, r"code.codes\[i\] =", "a byte of 256 of a block"),
    Loop("zstd encoder, literals", *HUFFMAN, r"left -= left < kEach", "128 literals"),
    Loop("zstd encoder, spread", *FSE, r"spread\[at\] = ", "a state of 512 of a block"),
    Loop("zstd encoder, table", *FSE, r"states\[shares\[spread", "a state of 512 of a block"),
    Loop("zstd encoder, counted", *SEQUENCES, r"add_to\(shared.tables", "32 sequences"),
    Loop("zstd encoder, sequences", *SEQUENCES, r"^    end -= end < static", "16 sequences, a state"),
    Loop("zstd encoder, states", *SEQUENCES, r"bits = fse_bits\(", "a sequence"),
)


@dataclass(frozen=True)
class Encoder:
    """The turns of loops with which an encoder handles 32 bytes of some content."""

    codec: str
    content: str
    matches: float
    empty: float  # 32 positions without a match
    literals: float = 0

    def turns(self) -> dict[str, float]:
        found = {f"{self.codec} encoder, match": self.matches, f"{self.codec} encoder, no match": self.empty}
        if self.codec != "zstd":
            return found
        of_block = 32 / 131_072  # its share of a block
        named = {
            "bytes counted": self.literals / 32,
            "literals": self.literals / 128,
            "counted": self.matches / 32,
            "sequences": self.matches / 16,
            "states": self.matches * 15 / 16,
            "ranks": 65_536 / 32 * of_block,
            **dict.fromkeys(("nodes", "depths", "weights", "codes"), 256 * of_block),
            **dict.fromkeys(("spread", "table"), 512 * of_block),
        }
        return found | {f"zstd encoder, {name}": turns for name, turns in named.items()}


# Counts from the host forms, for bench/gpu's array `rounded` (float32, 13 bits of the mantissa) in chunks of 1,024,000
# bytes, plain and shuffled.
ITEMS, PLANES = "float32 of 13 bits", "the same, shuffled"
ENCODERS = (
    Encoder("LZ4", ITEMS, 3.51, 0),
    Encoder("LZ4", PLANES, 0.153, 0.219),
    Encoder("zstd", ITEMS, 3.50, 0, 4.44),
    Encoder("zstd", PLANES, 0.153, 0.219, 7.79),
)


@dataclass
class Instruction:
    """One instruction with its control word (bits 105 to 125 of its encoding)."""

    address: int
    opcode: str
    text: str
    predicated: bool
    places: tuple[tuple[str, int], ...]  # file and line, from the innermost function out
    control: int = 0
    labels: list[str] = field(default_factory=list)

    @property
    def stall(self) -> int:
        return self.control & 15

    @property
    def writes(self) -> int:
        return self.control >> 5 & 7

    @property
    def reads(self) -> int:
        return self.control >> 8 & 7

    @property
    def waits(self) -> int:
        return self.control >> 11 & 63

    @property
    def target(self) -> str | None:
        found = re.search(r"`\((\.L_x_\d+)\)", self.text)
        return found.group(1) if found else None


def parse(assembly: str) -> dict[str, list[Instruction]]:
    """Instructions by kernel."""
    kernels: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    labels: list[str] = []
    places: list[tuple[str, int]] = []
    open_places = False
    for line in assembly.splitlines():
        if name := re.match(r"\.text\.penstock_(\w+):", line):
            current = kernels.setdefault(name.group(1), [])
            labels, places = [], []
        elif label := re.match(r"(\.L_x_\d+):", line):
            labels.append(label.group(1))
        elif place := re.search(r'//## File "([^"]+)", line (\d+)', line):
            if not open_places:
                places = []
            places.append((Path(place.group(1)).name, int(place.group(2))))
            open_places = True
        elif found := re.match(r"\s+/\*([0-9a-f]+)\*/\s+(@!?U?P\w+ )?\s*([\w.]+)(.*?);?\s*/\* 0x([0-9a-f]+) \*/", line):
            address, predicate, opcode, rest, _ = found.groups()
            current.append(
                Instruction(int(address, 16), opcode, opcode + rest, predicate is not None, tuple(places), 0, labels)
            )
            labels, open_places = [], False
        elif (word := re.match(r"\s+/\* 0x([0-9a-f]{16}) \*/", line)) and current:
            current[-1].control = int(word.group(1), 16) >> 41 & 0x1FFFFF
    return kernels


def successors(code: list[Instruction]) -> list[list[int]]:
    """The instructions that may follow each one."""
    by_label = {label: i for i, each in enumerate(code) for label in each.labels}
    meeting: dict[str, str] = {}
    out: list[list[int]] = []
    apart = False
    for i, each in enumerate(code):
        following = [i + 1] if i + 1 < len(code) else []
        # After the kernel's end: collectives of diverged lanes. Their branch back to the loop is not a loop of its own.
        apart = apart or each.opcode.startswith("WARPSYNC.COLLECTIVE")
        if apart and each.opcode == "BRA" and not each.predicated:
            apart = False
            out.append([])
        elif each.opcode.startswith("BSSY"):
            meeting[each.text.split()[1].rstrip(",")] = each.target or ""
            out.append(following)
        elif each.opcode.startswith("BSYNC"):
            label = meeting.get(each.text.split()[1], "")
            out.append([by_label[label]] if label in by_label else following)
        elif each.opcode.startswith("BRA.DIV"):
            out.append(following)  # taken if a warp's lanes have diverged, which does not happen at collectives
        elif each.opcode.startswith("BRA") and each.target in by_label:
            out.append(
                [*(following if each.predicated or "P" in each.text.split("`")[0] else []), by_label[each.target]]
            )
        elif each.opcode.startswith(("EXIT", "RET")) and not each.predicated:
            out.append([])
        else:
            out.append(following)
    return out


def loops_of(code: list[Instruction]) -> list[list[int]]:
    """The natural loops: instructions from which a back edge is reached without passing its target."""
    after = successors(code)
    before: list[list[int]] = [[] for _ in code]
    for i, each in enumerate(after):
        for j in each:
            before[j].append(i)
    bodies: dict[int, set[int]] = {}
    for tail, each in enumerate(after):
        for head in each:
            if head > tail:
                continue
            body, todo = {head}, [tail]
            while todo:
                node = todo.pop()
                if node not in body:
                    body.add(node)
                    todo.extend(before[node])
            bodies[head] = bodies.get(head, set()) | body
    return [sorted(body) for body in bodies.values()]


def lines_with(tree: Path, file: str, pattern: str) -> list[int]:
    paths = list((tree / "src" / "cuda").rglob(file))
    lines = paths[0].read_text().splitlines() if paths else []
    return [number for number, line in enumerate(lines, 1) if re.search(pattern, line)]


def body_of(loop: Loop, code: list[Instruction], tree: Path) -> list[Instruction]:
    """The loop's instructions in order."""
    marked = {(loop.file, line) for line in lines_with(tree, loop.file, loop.marker)}
    cold: set[tuple[str, int]] = set()
    for file, first, last in loop.cold:
        begin, end = lines_with(tree, file, first), lines_with(tree, file, last)
        if begin and end:
            cold |= {(file, line) for line in (begin if begin == end else range(begin[0], end[-1] + 1))}
    by = loop.through_file or loop.file
    through = {(by, line) for line in lines_with(tree, by, loop.through)} if loop.through else marked

    def is_marked(each: Instruction) -> bool:
        return bool(marked & set(each.places) and through & set(each.places))

    candidates = [body for body in loops_of(code) if any(is_marked(code[i]) for i in body)]
    if not candidates:
        return []
    return [code[i] for i in min(candidates, key=len) if not cold & set(code[i].places)]


def cycles(body: list[Instruction], global_latency: int) -> float:
    """Cycles of a turn in the steady state: the second half of several turns, one instruction after the other."""
    ready = [0.0] * 6
    time = 0.0
    ends: list[float] = []
    for _ in range(6):
        for each in body:
            for board in range(6):
                if each.waits >> board & 1:
                    time = max(time, ready[board])
            name = each.opcode.split(".")[0]
            latency = LATENCY.get(name, OTHER)
            if name in ("LDG", "LD", "ATOMG", "ATOM"):
                latency = global_latency
            if each.writes != 7:
                ready[each.writes] = time + latency
            if each.reads != 7:
                ready[each.reads] = max(ready[each.reads], time + READ_OPERANDS)
            time += max(1, each.stall)
            if name == "BAR":
                time += BARRIER
            if name == "BRA" and not each.predicated:
                time += TAKEN
        time += TAKEN
        ends.append(time)
    return (ends[-1] - ends[2]) / (len(ends) - 3)


def accessed(instruction: Instruction) -> int:
    """The bytes of global memory that a lane reads or writes."""
    name, *modifiers = instruction.opcode.split(".")
    if name not in ("LDG", "STG", "LD", "ST"):
        return 0
    sizes = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
    return next((sizes[each] for each in modifiers if each in sizes), 4)


def rates(body: list[Instruction], turn: float) -> tuple[float, ...]:
    """Bytes per second, read and written, that a device could move by each of its limits except that of its memory."""
    sizes = [size for each in body if (size := accessed(each))]
    traffic = 32 * sum(sizes)  # per warp
    # An access of a warp with up to four bytes per lane takes one cycle, one with 16 bytes takes four.
    accesses = sum(max(1, size // 4) for size in sizes)
    device = MULTIPROCESSORS * CLOCK_HZ * traffic
    return device * INSTRUCTIONS / len(body), device * ACCESSES / accesses, device * WARPS / turn


def assembly_of(tree: Path) -> str:
    nvcc = shutil.which("nvcc", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"]))
    nvdisasm = os.environ.get("NVDISASM") or shutil.which("nvdisasm")
    if nvcc is None or nvdisasm is None:
        raise FileNotFoundError("nvcc and nvdisasm are needed: " + ("nvdisasm" if nvcc else "nvcc") + " is missing")
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernels.cubin"
        command = [nvcc, "-std=c++20", "-O3", "-arch=sm_90", "-lineinfo", f"-I{tree}/src", f"-I{tree}/include"]
        subprocess.run([*command, "-cubin", "-o", cubin, tree / "src/cuda/kernels/kernels.cu"], check=True)
        return subprocess.run([nvdisasm, "-hex", "-gi", "-c", cubin], check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Cost:
    """The cost of one turn of a loop."""

    instructions: int
    by_memory: tuple[float, ...]
    rates: tuple[float, ...] = ()  # of loops that move bytes, per second: by instructions, accesses, latency


def costs(assembly: str, tree: Path) -> dict[str, Cost]:
    """The costs of all loops that exist in this tree."""
    kernels = parse(assembly)
    out = {}
    for loop in LOOPS:
        body = body_of(loop, kernels.get(loop.kernel, []), tree)
        if body:
            by_memory = tuple(cycles(body, latency) for latency in GLOBAL.values())
            out[loop.name] = Cost(len(body), by_memory, rates(body, by_memory[-1]) if loop.moves else ())
    return out


def encoder_cycles(encoder: Encoder, found: dict[str, Cost]) -> tuple[float, ...]:
    """A warp's cycles for 32 bytes, by the memory that serves global loads."""
    turns = encoder.turns()
    return tuple(
        sum(count * found[name].by_memory[place] for name, count in turns.items()) for place in range(len(GLOBAL))
    )


def table(found: dict[str, Cost]) -> str:
    """The section of the document, with its headline."""
    places = ", ".join(f"{name} {value}" for name, value in GLOBAL.items())
    lines = [
        MARKER,
        "",
        "Written by `tools/sass_model.py --write`: machine code for sm_90, walked instruction by instruction with its",
        "stall counts and scoreboards. A model, not a measurement: one warp, in which lanes take every usual path. The",
        f"columns say where loads from global memory are found ({places} cycles).",
        "",
        "| loop | a turn makes | instructions | " + " | ".join(GLOBAL) + " |",
        "|---|---|---|" + "---|" * len(GLOBAL),
    ]
    for loop in LOOPS:
        if loop.name in found:
            cost = found[loop.name]
            cells = " | ".join(f"{value:,.0f}" for value in cost.by_memory)
            lines.append(f"| {loop.name} | {loop.turns} | {cost.instructions} | {cells} |")
    lines += [
        "",
        "## What loops that move bytes could reach",
        "",
        "TB/s, read and written, on an H200: what each limit alone allows. Instructions: two warps' a cycle. Accesses:",
        f"128 bytes a cycle. Latency: {WARPS} warps a multiprocessor, loads from memory. Memory: {MEMORY_RATE / 1e12}. "
        f"{MULTIPROCESSORS}",
        f"multiprocessors at {CLOCK_HZ / 1e9} GHz. Not in it: other warps' use of the same units, and parts of lines.",
        "",
        "| loop | instructions | accesses | latency | least, with memory |",
        "|---|---|---|---|---|",
    ]
    for loop in LOOPS:
        if loop.name in found and loop.moves:
            limits = found[loop.name].rates
            cells = " | ".join(f"{value / 1e12:.1f}" for value in (*limits, min(*limits, MEMORY_RATE)))
            lines.append(f"| {loop.name} | {cells} |")
    lines += [
        "",
        "## What encoders take for 32 bytes",
        "",
        "Cycles of a warp: turns of the loops above, by counts of the host forms on `rounded` of `bench/gpu`.",
        "",
        "| codec | content | matches | " + " | ".join(GLOBAL) + " |",
        "|---|---|---|" + "---|" * len(GLOBAL),
    ]
    for encoder in ENCODERS:
        if all(name in found for name in encoder.turns()):
            cells = " | ".join(f"{value:,.0f}" for value in encoder_cycles(encoder, found))
            lines.append(f"| {encoder.codec} | {encoder.content} | {encoder.matches:.2f} | {cells} |")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    parser.add_argument("--write", action="store_true", help=f"write the table into {TABLE.relative_to(ROOT)}")
    parser.add_argument("--show", help="the instructions of a loop")
    options = parser.parse_args()
    try:
        assembly = assembly_of(ROOT)
    except FileNotFoundError as missing:
        print(missing)
        return SKIPPED
    if options.show:
        loop = next(each for each in LOOPS if each.name == options.show)
        for each in body_of(loop, parse(assembly).get(loop.kernel, []), ROOT):
            places = " < ".join(f"{file}:{line}" for file, line in each.places)
            sign = "@" if each.predicated else " "
            print(f"{each.address:5x} {each.waits:06b} {each.stall:2} {sign}{each.text.strip():60} {places}")
        return 0
    now = costs(assembly, ROOT)
    before = costs(assembly_of(options.before), options.before) if options.before else {}
    for loop in LOOPS:
        for label, found in (("before", before), ("now", now)):
            if loop.name in found:
                cost = found[loop.name]
                cells = "  ".join(f"{name} {value:.0f}" for name, value in zip(GLOBAL, cost.by_memory, strict=True))
                print(f"{loop.name:24} {label:7} {cost.instructions:5} instructions  {cells}")
    if options.write:
        front, _, old = TABLE.read_text().partition(MARKER)
        made = table(now)
        ours = {line for line in made.splitlines() if line.startswith("## ")}
        others = [part for part in re.split(r"\n(?=## )", old)[1:] if part.partition("\n")[0] not in ours]
        TABLE.write_text("\n".join([front.rstrip() + "\n\n" + made, *others]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
