"""The command line program: `penstock`, or `python -m penstock`.

The verbs are the C++ program's; `convert`, `doctor`, `demo`, `bench`, the check of tables, the `read` of a window or to
an image, and `head` as a picture are Python.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from penstock import _core
from penstock.api.open import open
from penstock.api.shards import open_shards
from penstock.cli import bench, convert, doctor, head
from penstock.cli import check as check_table
from penstock.cli import read as read_window
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.group import Group
from penstock.geo.tiff import TiffArray
from penstock.view import demo

SCENARIOS = Path(__file__).resolve().parents[2] / "bench" / "run.py"
"""The program that `bench` runs. It is in source checkouts, not in the package."""


def main() -> int:
    """Run the program on `sys.argv`; returns its exit status: 0, 1 (failed) or 2 (usage)."""
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    has_bench = SCENARIOS.exists()
    try:
        if verb == "demo":
            return demo.main(sys.argv[2:]) or 0
        if verb == "bench" and has_bench:
            return bench.main(SCENARIOS, sys.argv[2:])
    except KeyboardInterrupt:
        return 130
    if verb == "doctor":
        return doctor.main(sys.argv[2:])
    if verb == "convert":
        return convert.main(sys.argv[2:])
    if verb == "read" and read_window.takes(sys.argv[2:]):
        return read_window.main(sys.argv[2:])
    if verb == "head" and head.takes(sys.argv[2:]):
        return head.main(sys.argv[2:])
    if verb == "check" and check_table.takes(sys.argv[2:]):
        return check_table.main(sys.argv[2:])

    if sys.stdout is not None:  # None if standard output is closed, which the C++ program reports
        sys.stdout.flush()
    return _core.cli_main([b"penstock", *map(os.fsencode, sys.argv[1:])], _open, has_bench, _system_name)


def _open(uri: str, threads: int, storage: str) -> Array | Group:
    """Open what the C++ program does not support: tables, also many of them, and formats of other libraries."""
    options = json.loads(storage) or None
    context = Context(threads=threads or None)
    name = os.fsencode(uri)
    if _core.is_shard_pattern(name) and _core.shard_format_by_name(name) in ("parquet", "arrow"):
        made: Array = open_shards(uri, storage_options=options, context=context)
        return made
    return open(uri, mode="r", storage_options=options, context=context)


def _system_name(image: _core.Array) -> str:
    """Name the coordinate system of a TIFF's image, with PROJ if pyproj is installed."""
    known = TiffArray(image)
    code = known.epsg
    return known.crs_wkt or "" if code is None else f"EPSG:{code}"


if __name__ == "__main__":
    sys.exit(main())
