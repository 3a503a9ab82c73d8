"""Tests of the test driver: what it must never do is count a failure as a pass."""

from __future__ import annotations

import json
import sys
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


def test_counts_what_pytest_reports(tmp_path: Path) -> None:
    report = tmp_path / "python.xml"
    report.write_text(
        "<testsuites><testsuite><testcase/><testcase><error/></testcase><testcase><skipped/></testcase></testsuite></testsuites>"
    )
    assert driver.count_junit(report, 1) == {"passed": 1, "failed": 1, "skipped": 1}


def test_python_keeps_what_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "kept"))
    (tmp_path / "imported.py").write_text("")
    assert driver.run(sys.executable, "-c", "import imported", PYTHONPATH=str(tmp_path)) == 0
    assert list((tmp_path / "kept").rglob("imported.*.pyc"))
