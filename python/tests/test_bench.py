"""The parts of the benchmark that do not depend on the clock."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import report  # noqa: E402
import run  # noqa: E402
from harness import timing  # noqa: E402
from harness.result import Bar  # noqa: E402
from harness.setting import Setting  # noqa: E402

SCENARIOS = run.scenarios()


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_a_kind_that_runs_it(name: str) -> None:
    scenario = SCENARIOS[name]
    assert scenario["name"] == name
    assert scenario["title"]
    assert callable(importlib.import_module(f"kinds.{scenario['kind']}").run)
    assert set(scenario["quick"]) <= set(scenario), "quick replaces members that exist"


def test_the_bars_are_those_of_the_goals() -> None:
    def bars(name: str, member: str) -> list[float]:
        return [bar[member] for bar in SCENARIOS[name]["bars"]]

    assert bars("benchmark_array_out", "at_least") == [0.95]
    assert bars("benchmark_array_loop", "at_least") == [0.85]
    assert bars("peers_whole", "at_least") == [1.25, 1.5, 2.0]
    for name in ("one_chunk_memory", "one_chunk_file_sharded", "one_chunk_file_unsharded"):
        assert bars(name, "at_most_us") == [6]
    assert bars("one_chunk_cpp", "at_most_us") == [2]
    assert bars("two_chunks", "at_most") == [2]
    assert SCENARIOS["random_reads"]["at_most"] == 1.2
    assert (SCENARIOS["random_reads"]["reads"], SCENARIOS["random_reads"]["elements"]) == (10_000, 100)
    assert SCENARIOS["memory"]["at_most_mib"] == 64
    assert SCENARIOS["plan_1e9"]["chunks"] == 10**9


def test_every_contestant_runs_once_per_turn_and_the_warm_up_does_not_count() -> None:
    calls: list[str] = []

    def contestant(name: str):
        def work() -> float:
            calls.append(name)
            return float(len(calls))

        return work

    samples = timing.in_turns({name: contestant(name) for name in "abc"}, turns=2, warm_up=1)
    assert calls == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert samples["a"].seconds == [6.0, 8.0]
    assert (samples["b"].best, samples["b"].median) == (4.0, 6.5)


def test_ratios_are_taken_within_a_turn() -> None:
    ours, theirs = timing.Samples([1.0, 10.0, 2.0]), timing.Samples([0.9, 9.5, 4.0])
    assert timing.paired(ours, theirs) == pytest.approx(0.95)


def test_a_bar_is_passed_on_its_own_side() -> None:
    assert Bar("", 0.95, 0.95, at_least=True).passed
    assert not Bar("", 0.94, 0.95, at_least=True).passed
    assert Bar("", 6.0, 6.0, at_least=False).passed
    assert not Bar("", 6.1, 6.0, at_least=False).passed


def test_a_scenario_runs_and_all_readers_agree(tmp_path: Path) -> None:
    """The scenario itself compares the values; this test does not look at the bars."""
    done = subprocess.run(
        [sys.executable, BENCH / "run.py", "one_chunk_file_sharded", "two_chunks", "plan_1e9", "first_read", "--quick",
         "--folder", tmp_path],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 scenarios failed" in done.stdout
    for who in ("penstock", "tensorstore", "zarrs-python", "zarr-python fused", "zarr-python default"):
        assert who in done.stdout, "all readers are named, omitted ones with the reason"


def test_loaders_report_memory_and_their_first_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = importlib.import_module("kinds.loader")
    other = "threads over zarr-python"
    monkeypatch.setattr(loader, "COMPARED", {other: ("peak_bytes", "first_s")})
    scenario = SCENARIOS["loader"] | SCENARIOS["loader"]["quick"] | {"loaders": ["penstock", other]}
    setting = Setting(tmp_path, threads=2, ceiling_program=Path(), build=Path(), say=print)
    result = loader.run(scenario | {"samples_per_chunk": [4]}, setting)
    assert result.failed == ""
    assert [row.who for row in result.rows] == ["penstock, 4 a chunk", f"{other}, 4 a chunk"]
    for row in result.rows:
        assert row.peak_bytes is not None
        assert row.peak_bytes > 0
        assert row.note.startswith("first batch after ")
    bars = {bar.text: bar for bar in result.bars}
    for number in ("memory", "first batch"):
        bar = bars[f"{number} of penstock against {other}, the worst number of samples a chunk"]
        assert (bar.limit, bar.at_least) == (1.0, False)
        assert bar.value > 0


def test_the_speed_page_is_that_of_the_newest_saved_result() -> None:
    document = json.loads(report.newest(BENCH / "results").read_text())
    page = report.speed_page(document)
    assert (BENCH.parent / "docs" / "speed.md").read_text() == page, "run bench/report.py"
    for result in document["results"]:
        has_section = result["scenario"] == "first_read"  # which has the title
        work = "" if has_section else f"{result['title']}: "
        for bar in result["bars"]:
            start = f"| {work}{bar['text']} |"
            (line,) = [each for each in page.splitlines() if each.startswith(start)]
            assert line.endswith("| missed |") != bar["passed"]
    for picture in re.findall(r"\((img/speed_\w+\.(?:svg|png))\)", page):
        assert (BENCH.parent / "docs" / picture).exists(), "run bench/report.py"
    assert "not explained yet" not in page


def test_the_newest_result_is_the_one_measured_last(tmp_path: Path) -> None:
    for name, date in (("b", "2026-11-22T15:15:00+00:00"), ("c", "2026-11-22T08:20:00+00:00"), ("a", "2026-11-21")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"date": date}))
    assert report.newest(tmp_path).name == "b.json"


def test_first_reads_are_drawn_as_on_the_page(tmp_path: Path) -> None:
    document = json.loads(report.newest(BENCH / "results").read_text())
    report.draw_first_reads(document, tmp_path / "first.png")
    assert (tmp_path / "first.png").read_bytes().startswith(b"\x89PNG")
    rows = report.rows_of(document, "first_read")
    for data, when in report.FIRST_PANELS:
        assert rows[f"penstock: {data}, {when}"]["bytes_per_s"] > 0
    section = "\n".join(report.first_reads_section(document))
    bars = [bar for result in document["results"] for bar in result["bars"] if result["scenario"] == "first_read"]
    assert len(bars) == 12
    for bar in bars:
        assert f"| {bar['text']} | {report.number(bar['value'])} x |" in section


def test_the_picture_is_drawn_from_the_newest_saved_result(tmp_path: Path) -> None:
    document = json.loads(report.newest(BENCH / "results").read_text())
    assert {result["scenario"] for result in document["results"]} <= set(SCENARIOS)
    report.draw_speed(document, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")
    whole, limit = report.throughput(document)
    assert "Penstock" in [row.label for row in whole]
    assert limit is not None
    assert max(row.value for row in whole) < 1.1 * limit, "no reader decodes faster than libzstd alone"
