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
from penstock.cli import bench, convert, doctor, head
from penstock.cli import check as check_table
from penstock.cli import read as read_window
from penstock.cli import storage as storage_flags
from penstock.cli.output import fail, warnings_as_messages
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.errors import ResourceExhaustedError
from penstock.core.group import Group
from penstock.geo.tiff import TiffArray
from penstock.view import demo

SCENARIOS = Path(__file__).resolve().parents[2] / "bench" / "run.py"
"""The program that `bench` runs. It is in source checkouts, not in the package."""


def main() -> int:
    """Run the program on `sys.argv`; returns its exit status: 0, 1 (failed) or 2 (usage)."""
    has_bench = SCENARIOS.exists()
    _occupy_standard_descriptors()
    try:
        with warnings_as_messages():
            status = _run_in_python(sys.argv[1:], has_bench)
    except KeyboardInterrupt:
        return 130
    except MemoryError as error:
        return fail(ResourceExhaustedError(str(error) or "out of memory"), "--json" in sys.argv)
    if status is not None:
        return status

    if sys.stdout is not None:  # None if standard output is closed, which the C++ program reports
        sys.stdout.flush()
    return _core.cli_main([b"penstock", *map(os.fsencode, sys.argv[1:])], _open, has_bench, _system_name)


def _run_in_python(arguments: list[str], has_bench: bool) -> int | None:
    """Run a verb that is written in Python; None: the arguments are the C++ program's."""
    verb, rest = arguments[0] if arguments else "", arguments[1:]
    if verb == "demo":
        return demo.main(rest) or 0
    if verb == "bench" and has_bench:
        return bench.main(SCENARIOS, rest)
    if verb == "doctor":
        return doctor.main(rest)
    if verb == "convert":
        return convert.main(rest)
    if verb == "read" and read_window.takes(rest):
        return read_window.main(rest)
    if verb == "head" and head.takes(rest):
        return head.main(rest)
    if verb == "check" and check_table.takes(rest):
        return check_table.main(rest)
    return None


def _occupy_standard_descriptors() -> None:
    """Open what refuses every access in place of closed standard descriptors, as the C++ program does: otherwise files
    would get their numbers, and messages would be written to them."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number else os.O_WRONLY)  # the lowest free number


def _open(uri: str, threads: int, storage: str) -> Array | Group:
    """Open what the C++ program does not support: tables, also many of them, and formats of other libraries."""
    options = json.loads(storage)
    given = {"storage_options": options} if options else {}
    context = Context(threads=threads or None)
    name = os.fsencode(uri)
    if _core.is_shard_pattern(name) and _core.shard_format_by_name(name) in ("parquet", "arrow"):
        return storage_flags.open_source(uri, given, context)
    made: Array | Group = storage_flags.with_used_options(
        lambda used: open(uri, mode="r", context=context, **used), given
    )
    return made


def _system_name(image: _core.Array) -> str:
    """Name the coordinate system of a TIFF's image, with PROJ if pyproj is installed."""
    known = TiffArray(image)
    code = known.epsg
    return known.crs_wkt or "" if code is None else f"EPSG:{code}"


if __name__ == "__main__":
    sys.exit(main())
