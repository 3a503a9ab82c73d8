"""Checks that the Python package leaves decisions about formats to the engine.

- No first bytes of file formats: the registry recognises files (`_core.driver_of_bytes`, `_core.find_node`).
- No suffixes of known formats: `_core.shard_format_by_name` and `_core.driver_by_name` determine a name's format.
- No decisions by the text of an error: an error has a type and a code.
- `open` and the other functions of `DISPATCHES` fit on a screen, without their docstrings.

check_dispatch.py
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

# The first bytes of files in known formats.
SIGNATURES = (
    b"PK\x03\x04", b"PK\x05\x06", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"\x89HDF", b"\x93NUMPY", b"CDF", b"PAR1",
    b"ARROW1", b"\xff\xff\xff\xff", b'{"penstock_manifest"', b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"\x89PNG", b"PSREFS0",
)  # fmt: skip

# The files that may have some, each with the reason.
ALLOWED = {
    "cli/doctor.py": "writes files that begin so, for xarray's engines to look at",
    "cli/read.py": "writes PNG pictures",
    "tabular/arrow_messages.py": "reads Arrow's messages for pyarrow, which does not report the rows of a batch",
}

# The files that may have suffixes of formats, with the suffixes and the reason.
ALLOWED_ENDINGS = {
    "api/hdf5_writer.py": ({".nc", ".nc4"}, "netCDF's names of variables are a convention of these files only"),
    "api/open.py": ({".zip"}, "an empty file may become an archive; no driver has the ending"),
    "interop/xarray/tiff.py": ({".zarr.zip"}, "archives with Zarr in them; no driver has the ending"),
    "shards/sharded_array.py": ({".json"}, "a manifest's form is chosen by it, not its format"),
    "target/remote.py": ({".json"}, "a token of Google Cloud's in a file, which is not a format of arrays"),
    "target/sniff.py": ({".zip", ".json"}, "names in errors; open_shards has no files with these suffixes"),
    "view/profile.py": ({".json"}, "a report, not a format of arrays"),
}

# Functions that only choose what to call, with their greatest numbers of lines.
DISPATCHES = {
    "api/copy.py": ("copy",),
    "api/create.py": ("create_array",),
    "api/groups.py": ("create_group", "open_group"),
    "api/open.py": ("open", "open_array"),
    "api/save.py": ("save",),
    "api/shards.py": ("open_shards",),
}
SCREEN = 40


def signatures_of(tree: ast.Module) -> list[tuple[int, bytes]]:
    """The lines with first bytes of a format, and the format."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes) and node.value.startswith(SIGNATURES):
            found.append((node.lineno, node.value))
    return found


@cache
def known_endings() -> frozenset[str]:
    """The suffixes of the C++ drivers and of archives, each with its dot."""
    sources = Path(__file__).resolve().parent.parent / "src" / "driver"
    found: set[str] = {"zip", "zarr.zip"}
    for path in sorted(sources.glob("*.cc")):
        if not path.stem.endswith("_test"):
            for listed in re.findall(r"k\w*Endings\s*=\s*\{([^}]*)\}", path.read_text()):
                found |= set(re.findall(r'"(\w+)"', listed))
    table = (sources / "shard_endings.cc").read_text()
    for listed in re.findall(r": \{([^}]*)\}\) out\.push_back|out\.push_back\(\{(\"\w+\")", table):
        found |= set(re.findall(r'"(\w+)"', "".join(listed)))
    return frozenset(f".{each}" for each in found)


def endings_of(tree: ast.Module) -> list[tuple[int, str]]:
    """The lines with a suffix of a known format, and the suffix. F-strings are skipped: they make names."""
    parts = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in node.values}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in parts
        and node.value.lower() in known_endings()
    ]


# Methods and functions that search a text. Those that split it (`partition`) are for display; a comparison of their
# result is found as such.
SEARCHES = {
    "startswith", "endswith", "find", "rfind", "index", "count", "match", "search", "fullmatch", "findall", "finditer",
}  # fmt: skip


def texts_of_errors(tree: ast.Module) -> list[int]:
    """The lines that compare the text of a caught error with something, or search it."""

    def is_text(node: ast.AST, error: str) -> bool:
        if isinstance(node, ast.Call):
            named = isinstance(node.func, ast.Name) and node.func.id in ("str", "repr")
            if named and len(node.args) == 1:
                return isinstance(node.args[0], ast.Name) and node.args[0].id == error
            return isinstance(node.func, ast.Attribute) and is_text(node.func.value, error)  # str(error).lower()
        if isinstance(node, ast.Attribute) and node.attr in ("args", "message", "notes", "strerror", "__notes__"):
            return isinstance(node.value, ast.Name) and node.value.id == error
        if isinstance(node, ast.FormattedValue | ast.Subscript):
            return is_text(node.value, error) or (isinstance(node.value, ast.Name) and node.value.id == error)
        return isinstance(node, ast.JoinedStr) and any(is_text(each, error) for each in node.values)

    found = set()
    for handler in ast.walk(tree):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for node in ast.walk(handler):
            if isinstance(node, ast.Compare):
                looked_at = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
                looked_at = [node.func.value, *node.args]
            elif isinstance(node, ast.Match):
                looked_at = [node.subject]
            else:
                continue
            if any(is_text(each, handler.name) for each in looked_at):
                found.add(node.lineno)
    return sorted(found)


def lines_of(function: ast.FunctionDef) -> int:
    """The lines of a function's body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def check_file(name: str, source: str) -> list[str]:
    """The complaints about one file of the package, each `name:line: sentence`."""
    tree = ast.parse(source)
    complaints = []
    if name not in ALLOWED:
        for line, value in signatures_of(tree):
            text = (
                f"{value!r} begins files of a format: ask the registry, or give the reason in tools/check_dispatch.py"
            )
            complaints.append(f"python/penstock/{name}:{line}: {text}")
    allowed, _ = ALLOWED_ENDINGS.get(name, (set(), ""))
    for line, ending in endings_of(tree):
        if ending not in allowed:
            text = (
                f"{ending!r} is an ending of a known format: ask the engine for the name's format, or give the reason"
            )
            complaints.append(f"python/penstock/{name}:{line}: {text} in tools/check_dispatch.py")
    for line in texts_of_errors(tree):
        complaints.append(f"python/penstock/{name}:{line}: decides by the text of an error: use its type, or its code")
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    for dispatch in DISPATCHES.get(name, ()):
        if dispatch not in functions:
            complaints.append(f"tools/check_dispatch.py:1: {name} has no function {dispatch}")
        elif (lines := lines_of(functions[dispatch])) > SCREEN:
            line = functions[dispatch].lineno
            complaints.append(f"python/penstock/{name}:{line}: {dispatch} has {lines} lines, {SCREEN} are allowed")
    return complaints


def check_package(package: Path) -> list[str]:
    """The complaints about a package."""
    complaints = []
    for path in sorted(package.rglob("*.py")):
        name, source = path.relative_to(package).as_posix(), path.read_text()
        complaints += check_file(name, source)
        if name in ALLOWED_ENDINGS:
            gone = ALLOWED_ENDINGS[name][0] - {ending for _, ending in endings_of(ast.parse(source))}
            complaints += [
                f"tools/check_dispatch.py:1: {name} has no {each!r}: remove it here" for each in sorted(gone)
            ]
    missing = sorted(name for name in {*ALLOWED, *ALLOWED_ENDINGS, *DISPATCHES} if not (package / name).exists())
    return complaints + [f"tools/check_dispatch.py:1: there is no {name}" for name in missing]


def main() -> int:
    complaints = check_package(Path(__file__).resolve().parent.parent / "python" / "penstock")
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
