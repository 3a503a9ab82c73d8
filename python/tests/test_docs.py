"""The pages under docs/ are correct: their Python runs, their commands work, their C++ is in the examples.

Python blocks of a page run in order, in one namespace, with a fresh `data.zarr` and `scene.tif` in the working folder.
A line `expression  # -> text` also states the value's repr.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import ZARR_VERSION
from device_support import LIBRARY as FAKE_CUDA
from support.program import run_program

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
STATED = re.compile(r"^\s*(?P<code>.+?)  # -> (?P<value>.+)$")


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """(line, text) of each fenced block of the language."""
    text = page.read_text()
    found = [m for m in FENCE.finditer(text) if m[2] == language]
    return [(text[: m.start()].count("\n") + 2, textwrap.dedent(m[3])) for m in found]


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


def write_dataset(path: Path) -> None:
    xr = pytest.importorskip("xarray")
    days = np.datetime64("2015-01-01", "ns") + np.arange(40) * np.timedelta64(1, "D")
    xr.Dataset({"t2m": (("time", "x"), np.ones((40, 3)))}, coords={"time": days}).to_zarr(path, consolidated=False)


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_runs(page: Path) -> None:
    if page.stem == "zarr-python" and ZARR_VERSION < (3, 4):
        pytest.skip("wrap needs the synchronous ways of zarr-python 3.4")
    if page.stem == "coming-from":
        for peer in ("rasterio", "h5py", "tensorstore"):
            pytest.importorskip(peer)
    if page.parent.name == "tutorials":
        for peer in ("xarray", "dask", "netCDF4", "h5py", "matplotlib"):
            pytest.importorskip(peer)
    if page.name == "index.md" and page.parent == ROOT / "docs":
        write_dataset(Path("era5.zarr"))
    if page == ROOT / "docs" / "tutorials" / "gpu.md":
        run_on_the_fake_device(page)
        return
    namespace: dict[str, Any] = {}
    try:
        for line, code in blocks(page, "python"):
            padded = "\n" * (line - 1) + with_checks(code)  # so that a traceback has the line numbers of the page
            exec(compile(padded, str(page), "exec"), namespace)
    finally:
        ps.zarr.disable()


def run_on_the_fake_device(page: Path) -> None:
    """Run the page in a separate process, because a driver is loaded once per process."""
    if not FAKE_CUDA.exists():
        pytest.skip(f"the fake CUDA driver is not built: {FAKE_CUDA}")
    code = "\n".join(with_checks(code) for _, code in blocks(page, "python"))
    environment = {**os.environ, "PENSTOCK_CUDA_DRIVER": str(FAKE_CUDA)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "bz2 has no device decoder" in done.stdout  # as the page says


TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.fixture
def notebooks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    return importlib.import_module("notebooks")


def cells_of(notebooks: Any, page: Path) -> list[Any]:
    text = page.read_text()
    made: list[Any] = json.loads(notebooks.notebook(text, notebooks.outputs_of(page.stem, text)))["cells"]
    return made


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_notebooks_have_the_code_of_the_page(page: Path, notebooks: Any) -> None:
    cells = cells_of(notebooks, page)
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [text.replace(notebooks.AGG, "").strip("\n") for _, text in blocks(page, "python")]
    assert 'use("Agg")' not in "".join(code)
    prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert prose[0].startswith("# ")
    assert not any("](../" in text for text in prose)
    assert len({cell["id"] for cell in cells}) == len(cells)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_notebooks_have_the_outputs_of_the_page(page: Path, notebooks: Any) -> None:
    pictures, stated = [], 0
    for cell in cells_of(notebooks, page):
        if cell["cell_type"] != "code":
            continue
        last = STATED.match(cell["source"][-1])
        results = [each["data"]["text/plain"] for each in cell["outputs"] if each["output_type"] == "execute_result"]
        if last is not None:
            stated += 1
            assert "".join(results[0]) == last["value"]
        pictures += [each for each in cell["outputs"] if each["output_type"] == "display_data"]
    assert stated > 1
    assert len(pictures) == 1


def test_outputs_of_other_code_are_refused(notebooks: Any) -> None:
    text = (ROOT / "docs" / "tutorials" / "climate.md").read_text()
    with pytest.raises(ValueError, match=r"climate\.md changed .*run_tutorials\.py climate"):
        notebooks.outputs_of("climate", text.replace("import numpy as np", "import numpy"))


def test_pages_show_what_their_code_prints(notebooks: Any) -> None:
    page = "text\n\n```python\nx = 1\n```\n\n```text\nas it is\n```\n\n```python\nprint(x)\n```\nend\n"
    printed = [notebooks.Output("", "", "", []), notebooks.Output("", "1\n", "", [])]
    expected = page.replace("print(x)\n```\n", "print(x)\n```\n\nIt prints:\n\n```text\n1\n```\n")
    assert notebooks.page_with_outputs(page, printed) == expected


@pytest.mark.parametrize("page", pages_with("console"))
def test_commands_work(page: Path) -> None:
    for _, text in blocks(page, "console"):
        for command in text.splitlines():
            assert command.startswith("$ penstock "), command
            line, _, target = command.partition(" > ")
            words = shlex.split(line)[2:]
            if target:  # may be bytes
                with open(target, "wb") as out:
                    subprocess.run([sys.executable, "-m", "penstock", *words], stdout=out, timeout=60, check=True)
                continue
            done = run_program(*words)
            assert done.returncode == 0, (command, done.stderr)
            assert done.stdout or "-o" in command or words[0] == "diff"  # equal: nothing is printed
            for made in Path.cwd().glob("*.npy"):
                made.unlink()


def test_every_option_of_the_program_is_on_its_page() -> None:
    page = (ROOT / "docs" / "guide" / "command-line.md").read_text()
    sections = dict(re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    common = page.partition("\n## ")[0] + sections["Remote storage"]
    like = {"rechunk": "copy", "convert": "copy", "bench": "demo and bench", "demo": "demo and bench"}
    found = re.findall(r"^    (\w+)\) options='(.*)' ;;$", run_program("completion", "bash").stdout, re.MULTILINE)
    assert len(found) > 12
    for verb, options in found:
        text = common + sections.get(verb, "") + sections.get(like.get(verb, ""), "")
        missing = [each for each in options.split() if not re.search(rf"(?<![\w-]){each}(?![\w-])", text)]
        assert missing == [], verb


@pytest.mark.parametrize("page", pages_with("cpp"))
def test_cpp_is_in_the_examples(page: Path) -> None:
    compiled = {line.strip() for file in (ROOT / "examples").rglob("*.cc") for line in file.read_text().splitlines()}
    for _, text in blocks(page, "cpp"):
        missing = [line for line in map(str.strip, text.splitlines()) if line and line not in compiled]
        assert missing == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[-\s]+", "-", title) for title in titles}


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in (*PAGES, *ROOT.glob("*.md"))])
def test_links_have_targets(page: Path) -> None:
    text = re.sub(r"```.*?```|^    .*$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        if "://" in target:
            continue
        place = page.parent / target if target else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), f"{target}#{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [p.relative_to(ROOT / "docs").as_posix() for p in PAGES]
    assert [page for page in pages if page not in navigation and not page.startswith("design/00")] == []


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(p.read_text() for p in (ROOT / "docs" / "reference" / "python").glob("*.md"))
    described = set(re.findall(r"^::: penstock\.(\w+)$", pages, re.MULTILINE))
    assert set(ps.__all__) - described == {"__version__"}
    modules = {m.name for m in pkgutil.iter_modules(ps.__path__)}
    assert described - set(ps.__all__) - modules == set()


def test_pages_of_headers_have_their_declarations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools" / "docs")
    import cpp_reference

    for header in (ROOT / "include" / "penstock").rglob("*.h"):
        page = cpp_reference.page(header, header.name)
        assert "private:" not in page, header
        exported = re.findall(r"^(?:class|struct) PENSTOCK_API (\w+)", header.read_text(), re.MULTILINE)
        assert [name for name in exported if f"## {name}" not in page] == [], header


def test_every_design_note_is_in_the_index() -> None:
    folder = ROOT / "docs" / "design"
    index = (folder / "README.md").read_text()
    assert [note.name for note in sorted(folder.glob("[0-9]*.md")) if f"({note.name})" not in index] == []


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {ps.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n  version: {ps.__version__}\n" in (ROOT / "packaging/conda/recipe.yaml").read_text()
