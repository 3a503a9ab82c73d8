"""Checks that the Python package has no loops over blocks of arrays: the engine reads, converts, writes and compares
arrays in blocks of bounded memory (`_core.write_array`, `write_all`, `compare`, `array_stream`, `copy`).

A loop over `range(...)`, in a statement or a comprehension, is one if its body takes slices `first:end` that its
variable bounds.

check_loops.py
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

# The files that may have some, each with the reason.
ALLOWED = {
    "api/hdf5_writer.py": "h5py, a Python library, writes HDF5",
    "geo/writing.py": "values of other libraries' arrays (Dask, h5py), which only their `__getitem__` returns",
    "interop/legate/demo.py": "NumPy computes the demo's values; the rows of a file are written in one call",
    "interop/zarr/batch.py": "a list of the chunks that zarr-python requests together, not an array",
    "view/demo/benchmark_array.py": "zarr-python writes the file that all readers are compared with",
    "view/facts.py": "parts of a plan, of which sizes are added: no data is read",
}


def loops_of(tree: ast.Module) -> Iterator[tuple[str, int, list[ast.AST]]]:
    """The variable, the line and the body of each loop over a range."""
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
            is_range = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range"
            if is_range and isinstance(target, ast.Name):
                yield target.id, node.lineno, body


def is_slice_by(node: ast.AST, variable: str) -> bool:
    """Whether it is a slice, or a call of `slice`, with both ends given by the variable; `x[first:]` is not."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "slice"
    is_block = isinstance(node, ast.Slice) and node.lower is not None and node.upper is not None
    return (is_call or is_block) and any(isinstance(each, ast.Name) and each.id == variable for each in ast.walk(node))


def block_loops(source: str) -> list[int]:
    """The lines of loops whose body takes slices that are bounded by the loop's variable."""
    return sorted(
        line
        for variable, line, body in loops_of(ast.parse(source))
        if any(is_slice_by(node, variable) for part in body for node in ast.walk(part))
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
