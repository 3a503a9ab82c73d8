"""Checks that every folder includes only from folders to its left, and every public header only from its layer.

    base < array < {codec | store} < format < plan < engine < cuda < driver < api < {cli | python}

Folders in braces, two formats, and two folders of api do not include each other; api's own files do not include its
folders. The states of open arrays and groups are made below api. Tests may include what their folder may, and
tests/support. This program also runs the checks of the Python package: its layers (tools/check_imports.py), its threads
(tools/check_threads.py), and what it leaves to the engine (tools/check_dispatch.py).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import check_dispatch
import check_imports
import check_threads

LAYERS = [
    {"base"},
    {"array"},
    {"codec", "store"},
    {"format"},
    {"plan"},
    {"engine"},
    {"cuda"},
    {"driver"},
    {"api"},
    {"cli", "python"},
]
LEVEL = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}

# A new public header needs a line here: its layer is a decision.
PUBLIC = {
    "config.h": "base",
    "result.h": "base",
    "dtype.h": "array",
    "variable.h": "array",
    "shape.h": "array",
    "tensor.h": "array",
    "owned_tensor.h": "array",
    "dlpack.h": "array",
    "selection.h": "array",
    "extend/json.h": "base",
    "chunk_lengths.h": "array",
    "extend/chunk_grid.h": "array",
    "extend/codec.h": "codec",
    "store.h": "store",
    "remote.h": "store",
    "extend/store.h": "store",
    "extend/layout.h": "format",
    "extend/contiguous_layout.h": "format",
    "extend/array_description.h": "engine",
    "extend/layout_base.h": "driver",
    "extend/scheme.h": "driver",
    "tiff_header.h": "format",
    "tiff_meaning.h": "format",
    "geo_values.h": "format",
    "plan.h": "plan",
    "context.h": "engine",
    "profile.h": "engine",
    "array.h": "engine",
    "array_source.h": "driver",
    "appender.h": "api",
    "batches.h": "api",
    "levels.h": "api",
    "loader.h": "api",
    "shard_writer.h": "api",
    "stream.h": "api",
    "open.h": "driver",
    "extend/driver.h": "driver",
    "create.h": "driver",
    "array_writer.h": "driver",
    "tiff.h": "driver",
    "tiff_writer.h": "driver",
    "place.h": "driver",
    "georeference.h": "api",
    "window.h": "api",
    "unpack.h": "api",
    "virtual.h": "api",
    "datasets.h": "api",
    "find_shards.h": "driver",
    "compare.h": "api",
    "copy.h": "api",
    "save.h": "api",
    "shards.h": "driver",
    "references.h": "driver",
    "joined.h": "driver",
    "describe.h": "api",
    "mpi.h": "api",
    "tiles.h": "array",
    "device.h": "api",
    "device_tiles.h": "api",
    "crops.h": "api",
    "penstock.h": "api",
}

# The console script of the Python package and the program are the same code: the only include between the two.
DOORS = {("python", "cli/run.h")}

# External headers for which a public header exists; no other file includes them.
FOREIGN = {("include/penstock/mpi.h", "mpi.h")}

# Types that drivers make, and that functions of the engine copy.
STATE = re.compile(r"make_shared<(?:const )?(array_state|group_state)>|new (array_state|group_state)\b")
MAKES_STATES = {"engine", "driver"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
SOURCES = {".h", ".cc", ".cu", ".cuh"}

# Layers whose folders do not include each other, and whose own files do not include their folders.
DIVIDED = {"format", "api"}


def folder_of(path: str) -> str | None:
    """The folder under src/ of a path, e.g. "format/zarr"; cli/ and python/ are next to src/."""
    parts = path.split("/")
    if len(parts) == 1 or parts[0] not in LEVEL:
        return None
    return "/".join(parts[:2]) if parts[0] in DIVIDED and len(parts) > 2 else parts[0]


def may_include(user: str, used: str) -> bool:
    """Whether `user` may include from `used`; both are names as `folder_of` returns them."""
    level, other = LEVEL[user.split("/")[0]], LEVEL[used.split("/")[0]]
    if other == level:  # `format` alone is the layer's public headers, `api` alone those and its own files
        return user == used or (used in DIVIDED and user.startswith(f"{used}/"))
    return other < level


def check_file(name: str, folder: str, text: str) -> list[str]:
    """The complaints about one file of `folder`, each `name:line: sentence`."""
    complaints = []
    public = name.startswith("include/")
    for match in INCLUDE.finditer(text):
        quoted, target = match[1] == '"', match[2]
        used: str | None
        if target.startswith("penstock/"):
            used = PUBLIC.get(target.removeprefix("penstock/"))
            problem = None if used else f"<{target}> has no layer in tools/check_layers.py"
        elif quoted:
            used = folder_of(target)
            # A file of the same folder may be named without its path in cli/ and python/, which are not a library.
            problem = "a public header includes only public headers" if public else None
            helper = target.startswith("support/") and name.endswith(("_test.cc", "_fixture.h"))  # tests/support
            if used is None and not public and "/" in target and not helper:
                problem = f'"{target}" is in no folder of src/'
        else:
            used = None
            standard = ("/" not in target and "." not in target) or (name, target) in FOREIGN
            problem = "a public header includes only public and standard headers" if public and not standard else None
        if problem is None and used is not None and not may_include(folder, used) and (folder, target) not in DOORS:
            problem = f"{folder} must not know {used}"
        if problem:
            line = text.count("\n", 0, match.start(1)) + 1
            complaints.append(f"{name}:{line}: {problem} ({target})")
    for match in STATE.finditer(text):
        if folder not in MAKES_STATES:
            line = text.count("\n", 0, match.start()) + 1
            complaints.append(f"{name}:{line}: a driver makes {match[1] or match[2]}, {folder} does not")
    return complaints


def check_tree(root: Path) -> list[str]:
    """The complaints about a whole checkout."""
    complaints = []
    for path in sorted((root / "include" / "penstock").rglob("*")):
        if path.suffix in SOURCES:
            name = path.relative_to(root).as_posix()
            layer = PUBLIC.get(path.relative_to(root / "include" / "penstock").as_posix())
            if layer is None:
                complaints.append(f"{name}:1: this public header has no layer in tools/check_layers.py")
            else:
                complaints += check_file(name, layer, path.read_text())
    for base, prefix in ((root / "src", ""), (root / "cli", "cli/"), (root / "python", "python/")):
        for path in sorted(base.rglob("*")):
            if path.suffix not in SOURCES:
                continue
            name = path.relative_to(root).as_posix()
            folder = folder_of(prefix + path.relative_to(base).as_posix())
            if folder is None:
                complaints.append(f"{name}:1: this folder has no layer in tools/check_layers.py")
            else:
                complaints += check_file(name, folder, path.read_text())
    return complaints


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    package = root / "python" / "penstock"
    complaints = check_tree(root)
    for check in (check_imports, check_threads, check_dispatch):
        complaints += check.check_package(package)
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
