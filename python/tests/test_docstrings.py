"""Docstrings of public names: NumPy's sections, the parameters of the signature, examples that run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

ROOT = Path(__file__).parents[2]
SECTIONS = ("Parameters", "Returns", "Yields", "Raises", "Attributes", "Examples", "Notes", "References", "See Also")
MODULES = ("zarr", "xarray", "dask", "torch", "jax", "mpi", "legate", "testing")
# Parameters of many functions, which are explained on the pages of contexts, stores and zarr-python.
EXPLAINED_ELSEWHERE = {"self", "context", "storage_options", "target_options", "prototype", "fields", "out", "threads"}
# Docstrings that refer to another one: "As `Array.read`.", "as in zarr-python", "parameters are those of `write`".
REFERS = re.compile(
    r"\b[Aa]s (?:in |for |rasterio's )?(?:`|zarr-python)|[Pp]arameters are those of|[Ss]ee `|Options are"
)


def described() -> list[str]:
    """The names that the reference describes, such as `penstock.Array` or `penstock.zarr`."""
    pages = sorted((ROOT / "docs" / "reference" / "python").glob("*.md"))
    return sorted(set(re.findall(r"^::: (penstock\.[\w.]+)$", "".join(p.read_text() for p in pages), re.MULTILINE)))


def functions() -> Iterator[tuple[str, Any]]:
    """Public functions, classes and their public methods, by name."""
    for full in described():
        head, *rest = full.removeprefix("penstock.").split(".")
        if head in MODULES:
            continue  # they need optional packages; their sources are checked below
        value: Any = ps
        for part in (head, *rest):
            value = getattr(value, part)
        yield full, value
        if not inspect.isclass(value) or issubclass(value, BaseException):
            continue
        for name, member in inspect.getmembers(value):
            ours = getattr(member, "__module__", "") or ""
            if not name.startswith("_") and callable(member) and ours.startswith("penstock"):
                yield f"{full}.{name}", member


def sections(text: str) -> dict[str, str]:
    """Title and body of each underlined section."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if i and re.fullmatch(r"-{3,}", line)]
    ends = [i - 1 for i in starts[1:]] + [len(lines)] * bool(starts)
    return {lines[i - 1]: "\n".join(lines[i + 1 : end]) for i, end in zip(starts, ends, strict=True)}


def listed(body: str) -> list[str]:
    """The names of a section: `a, b` and `**options` on lines without indentation."""
    names: list[str] = []
    for line in body.splitlines():
        if line and not line.startswith(" "):
            names += [name.strip().lstrip("*") for name in line.split(" : ")[0].split(",")]
    return names


CASES = [pytest.param(value, id=name) for name, value in functions()]


def test_all_names_are_found() -> None:
    assert len(CASES) > 150


def test_selections_have_docstrings_of_their_own() -> None:
    makers = {"oindex": ps.oindex, "vindex": ps.vindex, "blocks": ps.blocks}
    source = ast.parse((ROOT / "python/penstock/core/indexing.py").read_text())
    # The reference shows the text after the assignment.
    shown = {
        node.targets[0].id: ast.literal_eval(after.value)
        for node, after in itertools.pairwise(source.body)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(after, ast.Expr)
    }
    for name, maker in makers.items():
        text = inspect.getdoc(maker)
        assert text is not None
        assert f"ps.{name}[" in text
        assert " ".join(shown["block_index" if name == "blocks" else name].split()) == " ".join(text.split())
    assert len({maker.__doc__ for maker in makers.values()}) == 3


@pytest.mark.parametrize("value", CASES)
def test_parameters_are_explained(value: Any) -> None:
    text = inspect.getdoc(value)
    assert text, "no docstring"
    found = sections(text)
    assert set(found) <= set(SECTIONS), "an unknown section"
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return  # written in C++
    names = {p.name for p in parameters}
    explained = set(re.findall(r"\w+", text))
    if "Parameters" in found:
        explained = set(listed(found["Parameters"]))
        catches_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        assert catches_all or explained <= names, "parameters that the signature does not have"
    made_by_others = inspect.isclass(value) and "Parameters" not in found
    is_short = "\n\n" not in text and len(names) <= 4  # a sentence explains `set(key, value)`
    if not made_by_others and not REFERS.search(text) and not is_short:
        assert {name for name in names - explained - EXPLAINED_ELSEWHERE if name[0] != "_"} == set()


def test_sections_are_those_of_numpy() -> None:
    wrong = []
    for path in sorted((ROOT / "python" / "penstock").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                google = re.findall(r"^(Args|Arguments|Returns|Raises|Yields|Example|Examples):$", text, re.MULTILINE)
                wrong += [f"{path.name}: {title}" for title in google]
    assert wrong == []


EXAMPLES = [value for value in CASES if ">>>" in (inspect.getdoc(value.values[0]) or "")]


@pytest.mark.parametrize("value", [*EXAMPLES, pytest.param(ps, id="penstock")])
def test_examples_run(value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ps.create_array("data.zarr", data=np.arange(600.0).reshape(30, 20), chunks=(10, 10))
    a = ps.open("data.zarr")
    names = {"ps": ps, "penstock": ps, "np": np, "a": a, "source": [np.zeros((1, 20))], "x": np.arange(12.0)}
    for each in doctest.DocTestParser().get_examples(inspect.getdoc(value) or ""):
        if each.want:
            assert repr(eval(each.source, names)) == each.want.rstrip("\n")
        else:
            exec(compile(each.source, "docstring", "exec"), names)


@pytest.mark.parametrize("module", ["testing"])
def test_examples_of_modules_run(module: str) -> None:
    text = inspect.getdoc(importlib.import_module(f"penstock.{module}")) or ""
    items = np.arange(12, dtype="i4")
    names: dict[str, Any] = {"items": items}
    for each in doctest.DocTestParser().get_examples(text):
        exec(compile(each.source, module, "exec"), names)
