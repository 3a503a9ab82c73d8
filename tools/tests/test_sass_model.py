"""Tests of the model of hot loops: its results for machine code with known control words."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import sass_model

TABLE = sass_model.TABLE.read_text()


def word(stall: int = 1, writes: int = 7, reads: int = 7, waits: int = 0) -> str:
    """The second half of an instruction's encoding, with its control bits."""
    return f"{(stall | writes << 5 | reads << 8 | waits << 11) << 41:016x}"


def instruction(address: int, text: str, line: int, control: str, label: str = "") -> str:
    head = f"{label}:\n" if label else ""
    place = f'\t//## File "/src/cuda/decode/inflate.h", line {line} inlined at "/x/kernels.cu", line 9\n'
    return f"{head}{place}        /*{address:04x}*/      {text} ;   /* 0x{0:016x} */\n     /* 0x{control} */\n"


# A load, an instruction that waits for it, and the branch back; an end after the loop.
LOOP = ".text.penstock_inflate:\n" + "".join(
    [
        instruction(0x00, "LDG.E R2, desc[UR4][R4.64]", 5, word(writes=0), ".L_x_1"),
        instruction(0x10, "IADD3 R3, R2, 0x1, RZ", 6, word(stall=4, waits=1)),
        instruction(0x20, "@P0 BRA `(.L_x_1)", 5, word(stall=5)),
        instruction(0x30, "EXIT", 9, word(stall=5)),
    ]
)


def test_control_words_are_read() -> None:
    code = sass_model.parse(LOOP)["inflate"]
    assert [each.opcode for each in code] == ["LDG.E", "IADD3", "BRA", "EXIT"]
    assert [each.stall for each in code] == [1, 4, 5, 5]
    assert (code[0].writes, code[1].writes, code[1].waits) == (0, 7, 1)
    assert code[2].predicated
    assert (code[2].target, code[0].labels) == (".L_x_1", [".L_x_1"])
    assert code[0].places == (("inflate.h", 5),)


def test_a_loop_consists_of_instructions_that_reach_the_back_edge() -> None:
    code = sass_model.parse(LOOP)["inflate"]
    assert sass_model.loops_of(code) == [[0, 1, 2]]


def test_the_return_of_diverged_lanes_is_not_a_loop() -> None:
    """ptxas puts the form of a shuffle for diverged lanes after the end, with the shuffle's line; it branches back."""
    text = ".text.penstock_inflate:\n" + "".join(
        [
            instruction(0x00, "BRA.DIV UR4, `(.L_x_3)", 5, word(), ".L_x_1"),
            instruction(0x10, "SHFL.IDX PT, R2, R3, R4, R5", 5, word(writes=0), ".L_x_2"),
            instruction(0x20, "@P0 BRA `(.L_x_1)", 6, word(stall=5)),
            instruction(0x30, "EXIT", 9, word(stall=5)),
            instruction(0x40, "BSSY B0, `(.L_x_5)", 5, word(), ".L_x_3"),
            instruction(0x50, "WARPSYNC.COLLECTIVE R9, `(.L_x_4)", 5, word()),
            instruction(0x60, "BSYNC B0", 5, word(), ".L_x_4"),
            instruction(0x70, "BRA `(.L_x_2)", 5, word(stall=5), ".L_x_5"),
        ]
    )
    code = sass_model.parse(text)["inflate"]
    assert sass_model.loops_of(code) == [[0, 1, 2]]


def test_encoders_with_the_same_search_take_similar_times() -> None:
    rows = {
        name: int(count)
        for name, count in re.findall(r"^\| (\S+ encoder, no match) \| .*? \| (\d+) \|", TABLE, re.MULTILINE)
    }
    assert rows["zstd encoder, no match"] == pytest.approx(rows["LZ4 encoder, no match"], rel=0.3)


@pytest.mark.parametrize("latency", [40, 250, 600])
def test_an_instruction_that_needs_a_load_waits_for_it(latency: int) -> None:
    body = sass_model.parse(LOOP)["inflate"][:3]
    assert sass_model.cycles(body, latency) == latency + 4 + 5 + sass_model.TAKEN


def test_every_turn_of_an_encoder_is_of_a_known_loop() -> None:
    names = {loop.name for loop in sass_model.LOOPS}
    for encoder in sass_model.ENCODERS:
        assert encoder.turns().keys() <= names


def test_a_word_more_of_an_item_takes_more_instructions() -> None:
    """The loops of one template are told apart by the line that calls each."""
    for loop, sizes in (("unshuffle", (2, 4, 8, 12, 16)), ("shuffle", (2, 4, 8))):
        found = [re.search(rf"^\| {loop} {size} bytes \|[^|]*\| (\d+) \|", TABLE, re.MULTILINE) for size in sizes]
        counts = [int(each.group(1)) for each in found if each]
        assert len(counts) == len(sizes)
        assert counts == sorted(set(counts))


def test_shuffles_reach_the_rate_of_the_memory() -> None:
    """The bar is 3 TB/s; the last column is the least of all limits."""
    loops = r"(?:(?:un)?shuffle \d+ bytes|unshuffle, \w+ items)"
    rates = re.findall(rf"^\| {loops} \|.* \| (\d+\.\d) \|$", TABLE, re.MULTILINE)
    assert len(rates) == 10
    assert all(float(rate) >= 3 for rate in rates)


def test_rates_are_those_of_the_bytes_that_a_loop_moves() -> None:
    """One of the loop's three instructions loads four bytes per lane; a turn takes 609 cycles and a branch."""
    body = sass_model.parse(LOOP)["inflate"][:3]
    assert [sass_model.accessed(each) for each in body] == [4, 0, 0]
    device = 132 * 1.755e9 * 4 * 32
    assert sass_model.rates(body, 640) == (device * 2 / 3, device, device * 32 / 640)


def test_the_choice_of_an_encoder_has_the_cycles_of_the_table() -> None:
    """src/cuda/encode_choice.cc has the cycles with loads from L1 for 32 bytes, plain and shuffled."""
    rows = re.findall(r"^\| (LZ4|zstd) \| .* \| ([\d,]+) \| [\d,]+ \| [\d,]+ \|$", TABLE, re.MULTILINE)
    expected: dict[str, list[float]] = {}
    for codec, cycles in rows[-len(sass_model.ENCODERS) :]:
        expected.setdefault(codec.lower(), []).append(float(cycles.replace(",", "")))
    source = (sass_model.ROOT / "src/cuda/encode_choice.cc").read_text()
    found = {
        codec: [float(items), float(planes)]
        for codec, items, planes in re.findall(r"kind::(lz4|zstd), \{.*?\}, \{(\d+), (\d+)\}", source)
    }
    # The model is trusted to 15 % where ratios count, so other choices of a compiler need no new constants.
    assert found == {codec: pytest.approx(cycles, rel=0.15) for codec, cycles in expected.items()}


def test_every_listed_loop_names_existing_lines() -> None:
    for loop in sass_model.LOOPS:
        assert sass_model.lines_with(sass_model.ROOT, loop.file, loop.marker), loop.name
        by = loop.through_file or loop.file
        assert not loop.through or sass_model.lines_with(sass_model.ROOT, by, loop.through), loop.name
        for file, first, last in loop.cold:
            assert sass_model.lines_with(sass_model.ROOT, file, first), (loop.name, first)
            assert sass_model.lines_with(sass_model.ROOT, file, last), (loop.name, last)
