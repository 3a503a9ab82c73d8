"""The stub of the C++ module has exactly the names of the module; mypy checks the rest of the package."""

from __future__ import annotations

import ast
from pathlib import Path

import penstock as ps
from penstock import _core

# Names that every class and module has.
COMMON = set(dir(type("Empty", (), {}))) | {
    "__nb_signature__",
    "__getstate__",
    "__firstlineno__",
    "__static_attributes__",
    "__delitem__",  # exists together with __setitem__, and refuses
}
MODULE = {"__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"}


def names(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for item in body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            found[item.name] = item
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            found[item.target.id] = item
    return found


def test_the_stub_has_the_names_of_the_module():
    stub = names(ast.parse(Path(_core.__file__).with_name("_core.pyi").read_text()).body)
    assert set(stub) == set(dir(_core)) - MODULE
    for name, item in stub.items():
        if isinstance(item, ast.ClassDef):
            has = set(dir(getattr(_core, name))) - COMMON
            buffer = {"__buffer__"} if "__buffer__" in names(item.body) else set()  # visible in Python from 3.12 on
            assert set(names(item.body)) - COMMON | buffer == has | buffer, name


def test_all_public_names_have_a_docstring():
    for name in ps.__all__:
        thing = getattr(ps, name)
        if name.startswith("__"):
            continue
        assert thing.__doc__, name
        if isinstance(thing, type):
            for attribute, value in vars(thing).items():
                if not attribute.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert value.__doc__, f"{name}.{attribute}"


def test_the_package_is_marked_as_typed():
    assert Path(ps.__file__).with_name("py.typed").exists()
