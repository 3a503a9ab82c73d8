"""Tests of what the source archive holds, and of building from it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pathspec = pytest.importorskip("pathspec")

ROOT = Path(__file__).parents[2]


def test_the_source_archive_holds_what_a_wheel_is_built_from() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    excluded = pathspec.GitIgnoreSpec.from_lines(settings["sdist"]["exclude"])
    folders = set(re.findall(r"add_subdirectory\((\w+)\)", (ROOT / "CMakeLists.txt").read_text()))
    assert folders > {"src", "cli", "python", "bench", "tests"}
    for folder in folders - {"tests", "examples"}:  # only with PENSTOCK_TESTS
        for path in (ROOT / folder).rglob("CMakeLists.txt"):
            assert not excluded.match_file(path.relative_to(ROOT)), path
    assert not excluded.match_file("bench/ceiling.cc")
    assert excluded.match_file("python/tests/test_cli.py")
    assert "include" not in settings["sdist"], "it would add ignored files: the compiled module, caches"


@pytest.mark.parametrize("where", ["the source archive", "a part of another project"])
def test_tests_are_left_out_where_they_cannot_be_built(where: str, tmp_path: Path) -> None:
    """Runs the lines of CMakeLists.txt that decide it."""
    cmake = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake")
    lines = (ROOT / "CMakeLists.txt").read_text()
    options = re.findall(r"^set\(PENSTOCK_TESTS AUTO .*$", lines, re.MULTILINE)
    found = re.search(r'^if\(PENSTOCK_TESTS STREQUAL "AUTO"\)\n.*?^endif\(\)\n', lines, re.MULTILINE | re.DOTALL)
    assert found is not None
    folder = tmp_path / "penstock"
    folder.mkdir()
    project = "cmake_minimum_required(VERSION 3.25)\nproject({} LANGUAGES NONE)\n"
    decision = found[0].replace("find_package(GTest QUIET)", "set(GTest_FOUND 1)")
    ends = 'if(PENSTOCK_TESTS)\nmessage("the tests, too")\nendif()\n'
    (folder / "CMakeLists.txt").write_text("\n".join([project.format("penstock"), *options, decision, ends]))
    if where != "the source archive":
        (folder / "tests").mkdir()
        folder = tmp_path
        (folder / "CMakeLists.txt").write_text(project.format("other") + "add_subdirectory(penstock)\n")
    done = subprocess.run([cmake, "-S", folder, "-B", tmp_path / "build"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the tests, too" not in done.stderr
