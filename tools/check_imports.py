"""Checks the imports between the modules of the Python package.

- A module imports from its own layer's folder and from the layers before it; the layers are `LEVELS`, lowest first.
- No import cycles.
- No import inside a function, except of optional packages, of modules that need one, and of `SLOW` standard modules.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Folders and modules, lowest first; the longest name that matches counts. Modules of one set do not import each other.
LEVELS: list[set[str]] = [
    {"core", "testing"},
    {"tabular.arrow_messages"},
    {"target"},
    {"references.objects", "references.templates"},
    {"geo"},
    {"shards"},
    {"hdf5", "netcdf", "tabular"},
    {"references"},
    {"api", "view"},
    {""},  # `penstock` itself
    {"view.demo", "interop"},
    {"dask", "jax", "legate", "mpi", "torch", "xarray", "zarr"},  # the public names of what is in `interop`
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}

# Packages that may be absent: imported where they are needed.
OPTIONAL = {
    "affine",
    "cupy",
    "dask",
    "distributed",
    "fsspec",
    "h5py",
    "icechunk",
    "jax",
    "matplotlib",
    "ml_dtypes",
    "mpi4py",
    "numcodecs",
    "obstore",
    "pyarrow",
    "pyproj",
    "torch",
    "xarray",
    "zarr",
}
# Standard modules that take a large part of the package's import time and that few calls need.
SLOW = {"asyncio", "xml"}


@dataclass(frozen=True)
class Import:
    """The module of one import statement."""

    name: str  # of a module of the package: without "penstock."
    line: int
    own: bool  # a module of the package
    in_function: bool
    for_types: bool  # below `if TYPE_CHECKING`


def imports_of(tree: ast.Module, module: str, modules: set[str]) -> Iterator[Import]:
    """The imports in a module's source, at any place."""

    def named(name: str, line: int, in_function: bool, for_types: bool) -> Import:
        if name.partition(".")[0] != "penstock":
            return Import(name.partition(".")[0], line, False, in_function, for_types)
        return Import(name.removeprefix("penstock").lstrip("."), line, True, in_function, for_types)

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            where = in_function, for_types
            if isinstance(child, ast.Import):
                names = (each.name for each in child.names if each.name != "penstock._core")
                yield from (named(name, child.lineno, *where) for name in names)
            elif isinstance(child, ast.ImportFrom) and child.module != "penstock._core":
                base = child.module or ""
                if child.level:  # relative, as the demo's are
                    folder = f"penstock.{module}".split(".")
                    folder = folder[: len(folder) - child.level + (module in packages)]
                    base = ".".join([*folder, *([base] if base else [])])
                for each in child.names:
                    below = f"{base}.{each.name}"
                    is_module = below.removeprefix("penstock.") in modules
                    if below != "penstock._core":
                        yield named(below if is_module else base, child.lineno, *where)
            elif not isinstance(child, ast.ImportFrom):
                is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                is_check = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
                yield from walk(child, in_function or is_function, for_types or is_check)

    packages = {name.rpartition(".")[0] for name in modules}
    return walk(tree, False, False)


def level_of(module: str) -> tuple[str, int] | None:
    """The layer of a module: its name in `LEVELS`, and its number."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if name in LEVEL:
            return name, LEVEL[name]
    return None


def may_import(user: str, used: str) -> bool:
    """Whether a module may import another one, by their layers."""
    mine, other = level_of(user), level_of(used)
    if mine is None or other is None:
        return False
    return mine == other or other[1] < mine[1]


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, each sorted."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for used in sorted(graph.get(module, ())):
            if used not in order:
                visit(used)
                low[module] = min(low[module], low[used])
            elif used in stack:
                low[module] = min(low[module], order[used])
        if low[module] == order[module]:
            at = stack.index(module)
            component, stack[at:] = sorted(stack[at:]), []
            if len(component) > 1:
                found.append(component)

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return found


def modules_of(package: Path) -> dict[str, Path]:
    """The modules of the package by their names without "penstock."; the package itself is ""."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package).with_suffix("").parts)
        found[name.removesuffix("__init__").rstrip(".")] = path
    return found


def check_package(package: Path) -> list[str]:
    """The complaints about the package in this folder, each `name:line: sentence`."""
    modules = modules_of(package)
    trees = {name: ast.parse(path.read_text()) for name, path in modules.items()}
    imports = {name: list(imports_of(tree, name, set(modules))) for name, tree in trees.items()}
    needs_optional = {
        name
        for name, found in imports.items()
        if any(not each.own and not each.in_function and not each.for_types and each.name in OPTIONAL for each in found)
    }
    complaints = []
    graph: dict[str, set[str]] = {}
    for name, found in imports.items():
        where = f"python/penstock/{modules[name].relative_to(package).as_posix()}"
        if level_of(name) is None:
            complaints.append(f"{where}:1: this module has no layer in tools/check_imports.py")
            continue
        for each in found:
            if name == "" and each.for_types:  # for types: the names that `__getattr__` imports
                continue
            if each.in_function and each.name not in (needs_optional if each.own else OPTIONAL | SLOW):
                complaints.append(f"{where}:{each.line}: import of {each.name or 'penstock'} inside a function")
            if not each.own:
                continue
            if not may_import(name, each.name):
                complaints.append(f"{where}:{each.line}: {name or 'penstock'} must not know {each.name or 'penstock'}")
            if not each.for_types and not each.in_function:
                graph.setdefault(name, set()).add(each.name)
    complaints += [f"python/penstock: a circle of imports: {', '.join(circle)}" for circle in circles(graph)]
    return complaints


def main() -> int:
    complaints = check_package(Path(__file__).resolve().parent.parent / "python" / "penstock")
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
