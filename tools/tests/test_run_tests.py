"""Tests of the test driver: it must never count a failure as a pass."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import run_tests as driver

CTEST = '<testsuite><testcase name="test_a" status="{status}">{inner}</testcase></testsuite>'
FAILURE = '<failure message=""/>'


def ctest(folder: Path, inner: str, cases: list[dict[str, object]] | None, status: int) -> dict[str, int]:
    (folder / "ctest.xml").write_text(CTEST.format(status="run", inner=inner))
    if cases is not None:
        (folder / "test_a.json").write_text(json.dumps({"testsuites": [{"testsuite": cases}]}))
    return dict(driver.count_ctest(folder / "ctest.xml", folder, status))


def test_counts_the_cases_of_an_executable(tmp_path: Path) -> None:
    cases = [{"result": "COMPLETED"}, {"result": "COMPLETED", "failures": [{}]}, {"result": "SKIPPED"}]
    assert ctest(tmp_path, FAILURE, cases, 8) == {"passed": 1, "failed": 1, "skipped": 1}


def test_an_executable_that_fails_after_its_cases_is_a_failure(tmp_path: Path) -> None:
    assert ctest(tmp_path, FAILURE, [{"result": "COMPLETED"}], 8) == {"passed": 1, "failed": 1}


def test_an_executable_that_dies_without_a_report_is_a_failure(tmp_path: Path) -> None:
    assert ctest(tmp_path, FAILURE, None, 8) == {"failed": 1}
    (tmp_path / "test_a.json").write_text('{"testsuites": [')
    assert driver.count_gtest(tmp_path / "test_a.json") == {"failed": 1}


def test_a_runner_that_reports_nothing_is_a_failure(tmp_path: Path) -> None:
    assert driver.count_ctest(tmp_path / "none.xml", tmp_path, 1) == {"failed": 1}
    assert driver.count_junit(tmp_path / "none.xml", 2) == {"failed": 1}


def test_counts_pytests_cases(tmp_path: Path) -> None:
    report = tmp_path / "python.xml"
    report.write_text(
        "<testsuites><testsuite><testcase/><testcase><error/></testcase><testcase><skipped/></testcase></testsuite></testsuites>"
    )
    assert driver.count_junit(report, 1) == {"passed": 1, "failed": 1, "skipped": 1}


def test_python_caches_compiled_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "kept"))
    (tmp_path / "imported.py").write_text("")
    assert driver.run(sys.executable, "-c", "import imported", PYTHONPATH=str(tmp_path)) == 0
    assert list((tmp_path / "kept").rglob("imported.*.pyc"))


@pytest.mark.skipif(not shutil.which("chrt"), reason="chrt gives what runs ahead its priority")
def test_builds_ahead_run_until_they_are_stopped_or_fail(tmp_path: Path) -> None:
    def touch(name: str) -> tuple[str, ...]:
        return ("touch", str(tmp_path / name))

    ahead = driver.Ahead([(touch("a"), touch("b")), (touch("c"), ("false",)), (touch("d"), touch("e"))])
    ahead.thread.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]

    ahead = driver.Ahead([(touch("f"), ("sleep", "60")), (touch("g"), touch("h"))])
    while not (tmp_path / "f").exists():
        time.sleep(0.01)
    begun = time.monotonic()
    ahead.stop()
    assert time.monotonic() - begun < 30
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "f"]


def test_only_the_builds_of_later_stages_run_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    class Noted:
        def __init__(self, builds: list[tuple[tuple[str, ...], tuple[str, ...]]]) -> None:
            asked.append([configure[2] for configure, _ in builds])

        def stop(self) -> None:
            asked[-1].append("stopped")

    monkeypatch.setattr(driver, "Ahead", Noted)
    monkeypatch.setattr(driver, "run", lambda *command: 0)
    stages = driver.Stages(2, ["unit", "asan", "tsan"])
    assert [stages.build(name) for name in ("unit", "asan", "tsan")] == [None, None, None]
    assert asked == [["asan", "tsan", "stopped"], ["tsan", "stopped"], []]
    stages = driver.Stages(2, ["lint", "unit", "python"])
    assert stages.build("unit") is None
    assert asked[-1] == []


def test_files_are_in_memory_where_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not driver.has_room(tmp_path / "missing")
    monkeypatch.setattr(driver, "ALL_CASES", False)
    monkeypatch.setattr(driver, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(driver, "has_room", lambda folder: True)
    with driver.files_in_memory() as environment:
        folder = Path(environment["TMPDIR"])
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o777
        (folder / "left").mkdir()
    assert not folder.exists()
    monkeypatch.setattr(driver, "ALL_CASES", True)
    with driver.files_in_memory() as environment:
        assert environment == {}
