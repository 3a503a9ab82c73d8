"""The demo at a size that takes seconds, and the parts of it on which its numbers depend."""

from __future__ import annotations

import json
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
from penstock.view import demo
from penstock.view.demo import benchmark_array, ceiling
from penstock.view.demo.benchmark_array import BenchmarkArray, EncodedChunk

SMALL = 10  # chunks


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkArray:
    array = BenchmarkArray(tmp_path_factory.mktemp("demo"), 2, SMALL // 2)
    array.write(lambda done: None)
    return array


def test_the_demo_reads_compares_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = demo.main(["--output", str(tmp_path), "--threads", "2", "--scale", str(SMALL / 3200)])
    said = capsys.readouterr().out
    assert status == 0, said
    for picture in ("timeline.png", "peers.png", "real_data.png"):
        content = (tmp_path / picture).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000
    assert (tmp_path / "timeline.svg").exists()
    assert (tmp_path / "peers.svg").exists()
    assert "<svg" in (tmp_path / "profile.html").read_text()
    for word in ("Read", "Decode", "Scatter", "Total", "zarr-python, default pipeline", "All readers agree"):
        assert word in said
    assert f"1 shard of {SMALL} chunks, as asked" in said

    again = demo.main(["--output", str(tmp_path), "--scale", str(SMALL / 3200)])
    assert again == 0
    assert "Found " in capsys.readouterr().out, "the second run writes nothing"


def test_the_help_has_a_description_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        demo.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "Write an array, read it, show where the time goes\n" in text
    assert "Examples:\n  penstock demo\n" in text


def test_the_demo_fails_when_a_reader_disagrees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = zarr.Array.__getitem__

    def one_element_off(self: zarr.Array, selection: object) -> object:
        values = np.array(read(self, selection))
        values.reshape(-1)[-1] += 1
        return values

    monkeypatch.setattr(zarr.Array, "__getitem__", one_element_off)
    assert demo.main(["--output", str(tmp_path), "--scale", str(SMALL / 3200)]) == 1
    assert "WRONG VALUES from zarr-python" in capsys.readouterr().out


def test_the_benchmark_array_is_as_specified() -> None:
    array = BenchmarkArray(Path())
    assert array.shard_elements == 102_400_000
    assert array.nbytes == 3_276_800_000
    assert (array.shards, array.chunks_per_shard, benchmark_array.CHUNK_ELEMENTS) == (8, 400, 256_000)


def test_zarr_python_reads_what_was_written(small: BenchmarkArray) -> None:
    values = zarr.open_array(str(small.path), mode="r")[:]
    assert small.matches(values)
    np.testing.assert_array_equal(values[small.shard_elements :], np.arange(small.shard_elements, dtype="f4"))
    for at in (0, small.shard_elements, small.elements - 1):
        wrong = values.copy()
        wrong[at] += 1
        assert not small.matches(wrong)


def test_chunks_are_at_the_offsets_of_the_index(small: BenchmarkArray) -> None:
    chunks = small.encoded_chunks()
    assert len(chunks) == SMALL
    for number, chunk in enumerate(chunks):
        encoded = chunk.file.read_bytes()[chunk.offset : chunk.offset + chunk.length]
        decoded = np.frombuffer(numcodecs.Zstd().decode(encoded), "<f4")
        first = number % small.chunks_per_shard * benchmark_array.CHUNK_ELEMENTS
        np.testing.assert_array_equal(decoded, np.arange(first, first + benchmark_array.CHUNK_ELEMENTS, dtype="f4"))


def test_an_incomplete_array_is_written_again(tmp_path: Path) -> None:
    array = BenchmarkArray(tmp_path, 2, 1)
    assert not array.is_written()
    array.write(lambda done: None)
    assert array.is_written()
    shard = array.shard_file(1)
    shard.write_bytes(shard.read_bytes()[:-1])
    assert not array.is_written()
    said: list[str] = []
    array.ensure(said.append)
    assert array.is_written()
    assert said[0].startswith("Writing")


@pytest.mark.parametrize(
    ("memory", "disk", "shards", "why"),
    [
        (64e9, 64e9, 8, ""),
        (7.1e9, 64e9, 3, "7.10 GB of memory"),
        (64e9, 1.3e9, 2, "1.30 GB of disk"),
        (0.1e9, 0.1e9, 1, "of 8 shards"),
    ],
)
def test_small_machines_get_fewer_shards_and_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: float, disk: float, shards: int, why: str
) -> None:
    monkeypatch.setattr(benchmark_array, "available_memory", lambda: int(memory))
    monkeypatch.setattr(benchmark_array, "available_disk", lambda folder: int(disk))
    array, reason = benchmark_array.choose(tmp_path)
    assert array.shards == shards
    assert why in reason
    assert bool(reason) == (shards < 8)


def test_ceilings_count_the_bytes_of_all_chunks(small: BenchmarkArray) -> None:
    program = ceiling.find()
    assert program is not None, "build the target penstock_ceiling"
    chunks = small.encoded_chunks()
    with ceiling.Ceiling(program, chunks, threads=2) as limits:
        for what in ("pread", "decode", "fresh", "memcpy", "chain"):
            measured = limits.measure(what)
            assert measured.decoded_bytes == small.nbytes
            assert measured.encoded_bytes == sum(chunk.length for chunk in chunks)
            assert 0 < measured.seconds < 60
        for what in ("one", "range", "whole"):
            assert 0 < limits.per_chunk(what, 3) < 10


def test_a_ceiling_of_wrong_chunks_is_refused(small: BenchmarkArray, capfd: pytest.CaptureFixture[str]) -> None:
    program = ceiling.find()
    assert program is not None, "build the target penstock_ceiling"
    good = small.encoded_chunks()[0]
    for bad in (
        EncodedChunk(good.file, good.offset, good.length, good.decoded - 4),
        EncodedChunk(good.file, good.offset + 1, good.length, good.decoded),
        EncodedChunk(good.file, good.file.stat().st_size - 1, good.length, good.decoded),
    ):
        with ceiling.Ceiling(program, [bad], threads=1) as limits, pytest.raises(RuntimeError, match="did not answer"):
            limits.measure("decode")
    assert "penstock_ceiling: a chunk is not zstd" in capfd.readouterr().err


def test_the_real_data_set_is_the_one_named_in_its_attributes() -> None:
    about = json.loads((demo.REAL_DATA / "zarr.json").read_text())["attributes"]
    assert (demo.REAL_DATA.parent / "LICENSE.matplotlib").stat().st_size > 1000
    heights = zarr.open_array(str(demo.REAL_DATA), mode="r")[...]
    assert (heights.shape, int(heights.min()), int(heights.max())) == ((344, 403), 236, 1076)
    assert about["north"] > about["south"]
    assert sum(file.stat().st_size for file in demo.REAL_DATA.rglob("*") if file.is_file()) < 1_000_000
