"""Tests of `[tool.scikit-build]`: which files the source archive holds."""

from __future__ import annotations

import re
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
