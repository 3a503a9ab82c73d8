"""The pages under docs/ say what is true: their Python runs, their commands work, their C++ stands in the examples.

Python blocks of a page run in order, in one namespace, beside a fresh `data.zarr` and `scene.tif`. A line
`expression  # -> text` also states the value's repr.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ZARR_VERSION
from test_cli import program

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
STATED = re.compile(r"^\s*(?P<code>.+?)  # -> (?P<value>.+)$")


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """(line, text) of each fenced block of that language."""
    text = page.read_text()
    return [(text[: m.start()].count("\n") + 2, m[2]) for m in FENCE.finditer(text) if m[1] == language]


def pages_with(language: str) -> list[Any]:
    return [pytest.param(p, id=str(p.relative_to(ROOT / "docs"))) for p in PAGES if blocks(p, language)]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    zarr = pytest.importorskip("zarr")
    path = tmp_path_factory.mktemp("docs") / "data.zarr"
    values = np.arange(600 * 800, dtype="float32").reshape(600, 800)
    options = {"attributes": {"units": "K"}, "dimension_names": ("y", "x")}
    a = zarr.create_array(path, shape=values.shape, dtype="float32", chunks=(50, 100), shards=(200, 400), **options)
    a[:] = values
    return path


@pytest.fixture(autouse=True)
def beside_data(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(prepared, tmp_path / "data.zarr")
    shutil.copy(ROOT / "examples" / "scene.tif", tmp_path / "scene.tif")
    monkeypatch.chdir(tmp_path)


def with_checks(code: str) -> str:
    """The block, with each stated value turned into an assertion on the same line."""
    lines = []
    for line in code.splitlines():
        stated = STATED.match(line)
        if stated:
            ast.parse(stated["code"], mode="eval")
            indent = line[: len(line) - len(line.lstrip())]
            line = f"{indent}_value = {stated['code']}; assert repr(_value) == {stated['value']!r}, repr(_value)"
        lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_runs(page: Path) -> None:
    if page.stem == "zarr-python" and ZARR_VERSION < (3, 4):
        pytest.skip("wrap needs the synchronous ways of zarr-python 3.4")
    namespace: dict[str, Any] = {}
    for line, code in blocks(page, "python"):
        padded = "\n" * (line - 1) + with_checks(code)  # so that a traceback names the page's own line
        exec(compile(padded, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", pages_with("console"))
def test_commands_work(page: Path) -> None:
    for _, text in blocks(page, "console"):
        for command in text.splitlines():
            assert command.startswith("$ penstock "), command
            done = subprocess.run(
                [*program(), *shlex.split(command)[2:]], capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, (command, done.stderr)
            assert done.stdout or "-o" in command
            for made in Path.cwd().glob("*.npy"):
                made.unlink()


@pytest.mark.parametrize("page", pages_with("cpp"))
def test_cpp_stands_in_the_examples(page: Path) -> None:
    compiled = {line.strip() for file in (ROOT / "examples").rglob("*.cc") for line in file.read_text().splitlines()}
    for _, text in blocks(page, "cpp"):
        missing = [line for line in map(str.strip, text.splitlines()) if line and line not in compiled]
        assert missing == []


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT / "docs"))) for p in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        assert "://" in target or (page.parent / target).exists(), target


def test_every_design_note_is_in_the_index() -> None:
    folder = ROOT / "docs" / "design"
    index = (folder / "README.md").read_text()
    assert [note.name for note in sorted(folder.glob("[0-9]*.md")) if f"({note.name})" not in index] == []
