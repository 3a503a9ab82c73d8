"""Docstrings of public names: NumPy's sections, complete, with the parameters of the signature and examples that run.

Examples of packages that must not share a process with other tests run in a process of their own, one for the examples
of the same packages, for which this file is also a program: `test_docstrings.py NAME...`.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import doctest
import functools
import importlib
import importlib.util
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "python" / "penstock"
SECTIONS = ("Parameters", "Returns", "Yields", "Raises", "Attributes", "Examples", "Notes", "References", "See Also")
MODULES = ("zarr", "xarray", "dask", "torch", "jax", "mpi", "legate", "testing")
# Docstrings whose parameters are those of another one: "Parameters are those of `Array.read`."
REFERS = re.compile(r"[Pp]arameters are those\s+of `(?:penstock\.)?([\w.]+)`")
# Classes whose objects another function returns.
MADE_BY_OTHERS = re.compile(r"[Mm]ade\s+by\s+`|[Bb]ase class")
# Methods with the names and parameters of zarr-python's.
AS_IN_ZARR = "As in zarr-python."
# Functions that report no errors.
NEVER_RAISES = {"penstock.current_context", "penstock.show_versions"}
# Cannot be shown: it is a fault in Penstock.
WITHOUT_EXAMPLES = {"penstock.InternalError"}
# Packages with threads that must not be forked, or that can be started once in a process.
ALONE = {"cupynumeric", "distributed", "jax", "legate", "mpi4py", "torch"}


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
    """Title and body of each underlined section; the text before the first one has the title ""."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if i and re.fullmatch(r"-{3,}", line)]
    ends = [i - 1 for i in starts[1:]] + [len(lines)] * bool(starts)
    found = {lines[i - 1]: "\n".join(lines[i + 1 : end]) for i, end in zip(starts, ends, strict=True)}
    return {"": "\n".join(lines[: starts[0] - 1] if starts else lines).strip(), **found}


def listed(body: str) -> list[str]:
    """The names of a section: `a, b` and `**options` on lines without indentation."""
    names: list[str] = []
    for line in body.splitlines():
        if line and not line.startswith(" "):
            names += [name.strip().lstrip("*") for name in line.split(" : ")[0].split(",")]
    return names


def doc_of(value: Any) -> dict[str, str]:
    return sections(inspect.getdoc(value) or "")


def parameters(value: Any) -> list[inspect.Parameter]:
    """The parameters of the signature, without `self`; those of functions in C++ are not known."""
    try:
        return [each for each in inspect.signature(value).parameters.values() if each.name != "self"]
    except (TypeError, ValueError):
        return []


def named(dotted: str) -> Any:
    value: Any = ps
    for part in dotted.split("."):
        value = getattr(value, part)
    return value


EVERY = dict(functions())
CASES = [pytest.param(name, value, id=name) for name, value in EVERY.items()]
IN_PYTHON = [each for each in CASES if inspect.isfunction(each.values[1])]


def test_all_names_are_found() -> None:
    assert len(CASES) > 150
    assert len(IN_PYTHON) > 100
    exported = {f"penstock.{name}" for name in ps.__all__ if not name.startswith("__")}
    assert exported <= set(EVERY), "names that the reference does not describe"


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


@pytest.mark.parametrize(("name", "value"), CASES)
def test_parameters_are_explained(name: str, value: Any) -> None:
    found = doc_of(value)
    assert found[""], "no docstring"
    assert set(found) <= {"", *SECTIONS}, "an unknown section"
    signature = parameters(value)
    names = {each.name for each in signature if each.name[0] != "_"}
    if "Parameters" not in found:
        if inspect.isclass(value):
            assert MADE_BY_OTHERS.search(found[""]) or issubclass(value, BaseException) or not names
            return
        if "\n\n" not in found[""] and len(names) <= 2:
            return  # a sentence explains `set(key, value)`
    explained = set(listed(found.get("Parameters", "")))
    if not any(each.kind is each.VAR_KEYWORD for each in signature) and signature:
        assert explained <= names, "parameters that the signature does not have"
    if refers := REFERS.search(found[""]):
        explained |= set(listed(doc_of(named(refers[1]))["Parameters"]))
    if AS_IN_ZARR in found[""]:
        zarr = pytest.importorskip("zarr")
        explained |= set(inspect.signature(getattr(zarr.Array, name.rpartition(".")[2])).parameters)
    assert names - explained == set()


def test_properties_are_described() -> None:
    missing = []
    for full, value in EVERY.items():
        for name in dir(value) if inspect.isclass(value) else ():
            found = inspect.getattr_static(value, name)
            if not name.startswith("_") and isinstance(found, property | functools.cached_property):
                missing += [f"{full}.{name}"] * (not inspect.getdoc(found))
    assert missing == []


@pytest.mark.parametrize(("name", "value"), IN_PYTHON)
def test_results_are_explained(name: str, value: Any) -> None:
    found = doc_of(value)
    result = inspect.signature(value).return_annotation
    if result in (None, "None", "NoReturn"):
        assert not {"Returns", "Yields"} & set(found), "nothing is returned"
    elif not {"Returns", "Yields"} & set(found):
        assert "Parameters" not in found, "no section Returns"
        assert re.match(r"Returns? |Yields? |Reads? ", found[""]), "the first sentence does not name the result"


@pytest.mark.parametrize(("name", "value"), IN_PYTHON)
def test_errors_are_listed(name: str, value: Any) -> None:
    found = doc_of(value)
    is_exported = name.count(".") == 1 and name not in NEVER_RAISES
    statements = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(value))))
    if is_exported or any(isinstance(each, ast.Raise) for each in statements):
        assert "Raises" in found, "no section Raises"
    for kind in listed(found.get("Raises", "")):
        known = getattr(ps, kind, None) or getattr(builtins, kind, None)
        assert inspect.isclass(known), f"{kind!r} is not an error"
        assert issubclass(known, BaseException), f"{kind!r} is not an error"


def _shown(name: str) -> bool:
    """Whether a method appears in the examples of a class."""
    method = re.compile(rf"\.{name.rpartition('.')[2]}\(")
    return any(method.search(doc_of(value).get("Examples", "")) for value in EVERY.values() if inspect.isclass(value))


@pytest.mark.parametrize(("name", "value"), CASES)
def test_examples_are_given(name: str, value: Any) -> None:
    """Of each exported name, and of each method either its own or one in those of a class."""
    if name in WITHOUT_EXAMPLES:
        return
    if ">>> " in doc_of(value).get("Examples", ""):
        return
    assert name.count(".") > 1, "no section Examples"
    assert not inspect.isfunction(value) or _shown(name), "no example calls it"


def test_sections_are_those_of_numpy() -> None:
    wrong = []
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                google = re.findall(r"^(Args|Arguments|Returns|Raises|Yields|Example|Examples):$", text, re.MULTILINE)
                wrong += [f"{path.name}: {title}" for title in google]
                found = list(sections(text))[1:]
                order = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "See Also", "Notes", "Examples")
                wrong += [f"{path.name}: order of {found}"] * (sorted(found, key=order.index) != found)
                # Examples that are not in their section would not be found by a reader, nor by the reference.
                others = [title for title, body in sections(text).items() if title != "Examples" and ">>> " in body]
                wrong += [f"{path.name}: an example outside of Examples"] * bool(others)
    assert wrong == []


# --- modules that need other packages: read from the sources, which need none ---


def of_modules() -> Iterator[tuple[str, ast.AST]]:
    """The modules, and their public functions and classes, by name."""
    for module in MODULES:
        tree = ast.parse((SOURCES / f"{module}.py").read_text())
        yield f"penstock.{module}", tree
        places = {
            alias.name: SOURCES.parent / f"{each.module.replace('.', '/')}.py"
            for each in tree.body
            if isinstance(each, ast.ImportFrom) and each.module and each.module.startswith("penstock.")
            for alias in each.names
        }
        (exported,) = (
            ast.literal_eval(each.value)
            for each in tree.body
            if isinstance(each, ast.Assign) and getattr(each.targets[0], "id", "") == "__all__"
        )
        for name in exported:
            inside = ast.parse(places[name].read_text()) if name in places else tree
            (node,) = (each for each in inside.body if getattr(each, "name", None) == name)
            yield f"penstock.{module}.{name}", node
    accessor = ast.parse((SOURCES / "interop" / "xarray" / "accessor.py").read_text())
    (node,) = (each for each in accessor.body if getattr(each, "name", None) == "PenstockAccessor")
    yield "penstock.interop.xarray.accessor.PenstockAccessor", node


# Ways of zarr-python and of Legate: they are not called by users, or are described with what returns them.
PARTS = {
    "penstock.zarr.CodecPipeline",
    "penstock.legate.processors",
    "penstock.legate.this_rank",
    "penstock.legate.whole_files",
    "penstock.testing.Decoded",
    "penstock.testing.Difference",
    "penstock.testing.Stage",
}
OF_MODULES = [pytest.param(name, node, id=name) for name, node in of_modules() if name not in PARTS]


@pytest.mark.parametrize(("name", "node"), OF_MODULES)
def test_names_of_modules_are_described(name: str, node: Any) -> None:
    found = sections(ast.get_docstring(node) or "")
    assert found[""], "no docstring"
    assert ">>> " in found.get("Examples", ""), "no section Examples"
    if not isinstance(node, ast.FunctionDef):
        return
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {each.arg for each in every if each is not None}
    if "Parameters" in found or len(names) > 2:
        assert names == set(listed(found.get("Parameters", "")))
        result = None if node.returns is None else ast.unparse(node.returns)
        assert (result == "None") != ("Returns" in found)
    if any(isinstance(each, ast.Raise) for each in ast.walk(node)):
        assert "Raises" in found, "no section Raises"


# --- running ---

EXAMPLES = {name: inspect.getdoc(value) or "" for name, value in [("penstock", ps), *EVERY.items()]} | {
    name: ast.get_docstring(node) or "" for name, node in of_modules()
}
EXAMPLES = {name: text for name, text in EXAMPLES.items() if ">>> " in text}


def packages(text: str) -> set[str]:
    """The packages that the examples import, without those that are always there."""
    found: set[str] = set()
    for example in doctest.DocTestParser().get_examples(text):
        for node in ast.walk(ast.parse(example.source)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return found - sys.stdlib_module_names - {"numpy", "penstock"}


def failures_of(name: str) -> str:
    """Runs the examples of a docstring; returns what failed."""
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {"np": np, "ps": ps, "penstock": ps}, name, None, None)
    written: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(verbose=False, optionflags=flags).run(test, out=written.append)
    return "".join(written)


@functools.cache
def failures_alone(needed: frozenset[str]) -> dict[str, str]:
    """What failed of the examples that need these packages, by name, in one process."""
    names = [name for name, text in EXAMPLES.items() if packages(text) == needed]
    done = subprocess.run([sys.executable, __file__, *names], capture_output=True, text=True, timeout=180)
    found = dict.fromkeys(names, f"status {done.returncode}: {done.stdout}{done.stderr}")
    if done.returncode == os.EX_OK:
        found = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = packages(EXAMPLES[name])
    for package in sorted(needed):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    if "zarr" in needed and re.search(r"penstock\.zarr\.(wrap|open_\w+)\(", EXAMPLES[name]):
        zarr = importlib.import_module("penstock.interop.zarr.wrap")
        if not zarr.can_wrap():
            pytest.skip("needs zarr-python 3.4")
    monkeypatch.chdir(tmp_path)
    if needed & ALONE:
        assert failures_alone(frozenset(needed))[name] == ""
        return
    assert failures_of(name) == ""


if __name__ == "__main__":
    failed = {}
    for each in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            failed[each] = failures_of(each)
    print(json.dumps(failed))
    sys.stdout.flush()
    sys.exit(os.EX_OK)
