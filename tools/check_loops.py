"""Checks that the Python package has no loops over blocks of arrays: the engine reads, converts, writes and compares
arrays in blocks of bounded memory (`_core.write_array`, `write_all`, `compare`, `array_stream`, `copy`).

A loop over `range(...)`, in a statement or a comprehension, is one if its body takes slices `first:end` that its
variable bounds; a loop over `range(begin, end, step)` also if its body calls a function with the variable and with an
end or a length that is computed from it.

check_loops.py
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

# The files that may have some, each with the reason.
ALLOWED = {
    "geo/writing.py": "values of other libraries' arrays (Dask, h5py), which only their `__getitem__` returns",
    "interop/legate/demo.py": "NumPy computes the demo's values; the rows of a file are written in one call",
    "interop/zarr/batch.py": "a list of the chunks that zarr-python requests together, not an array",
    "references/icechunk.py": "rows of a table of references, which Icechunk takes as Python objects: no values",
    "references/parquet.py": "rows of a table of references, of which pyarrow writes a file each: no values",
    "view/demo/benchmark_array.py": "zarr-python writes the file that all readers are compared with",
    "view/facts.py": "parts of a plan, of which sizes are added: no data is read",
}


def loops_of(tree: ast.Module) -> Iterator[tuple[str, int, bool, list[ast.AST]]]:
    """The variable, the line, whether there is a step, and the body of each loop over a range."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            loops, body = [(node.target, node.iter)], list[ast.AST](node.body)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            loops, body = [(each.target, each.iter) for each in node.generators], [node.elt]
        elif isinstance(node, ast.DictComp):
            loops, body = [(each.target, each.iter) for each in node.generators], [node.key, node.value]
        else:
            continue
        for target, over in loops:
            if is_call_of(over, "enumerate") and isinstance(target, ast.Tuple) and over.args:
                target, over = target.elts[-1], over.args[0]
            if is_call_of(over, "range") and isinstance(target, ast.Name):
                yield target.id, node.lineno, len(over.args) == 3, body


def is_call_of(node: ast.AST, function: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function


def has_name(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node))


def passes_block(body: list[ast.AST], variable: str) -> bool:
    """Whether a call takes the variable and, in another argument, a value computed from it."""
    nodes = [node for part in body for node in ast.walk(part)]
    computed = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and has_name(node.value, {variable})
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call):
            begins = [each for each in node.args if isinstance(each, ast.Name) and each.id == variable]
            if begins and any(has_name(each, {variable, *computed}) for each in node.args if each not in begins):
                return True
    return False


def is_slice_by(node: ast.AST, variable: str) -> bool:
    """Whether it is a slice, or a call of `slice`, with both ends given by the variable; `x[first:]` is not."""
    is_block = isinstance(node, ast.Slice) and node.lower is not None and node.upper is not None
    return (is_call_of(node, "slice") or is_block) and has_name(node, {variable})


def block_loops(source: str) -> list[int]:
    """The lines of loops over blocks."""
    return sorted(
        line
        for variable, line, has_step, body in loops_of(ast.parse(source))
        if any(is_slice_by(node, variable) for part in body for node in ast.walk(part))
        or (has_step and passes_block(body, variable))
    )


def check_package(package: Path) -> list[str]:
    """The complaints about a package, each `name:line: sentence`."""
    complaints = []
    unused = set(ALLOWED)
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        for line in block_loops(path.read_text()):
            unused.discard(name)
            if name not in ALLOWED:
                complaints.append(
                    f"python/penstock/{name}:{line}: a loop over slices: the engine has blocks of arrays, "
                    "or give the reason in tools/check_loops.py"
                )
    return complaints + [f"tools/check_loops.py:1: {name} has no such loop: remove it here" for name in sorted(unused)]


def main() -> int:
    complaints = check_package(Path(__file__).resolve().parent.parent / "python" / "penstock")
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
