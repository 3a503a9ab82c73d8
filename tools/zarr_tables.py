"""Writes the tables of docs/formats/zarr.md from this build's behaviour: `python tools/zarr_tables.py [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock as ps
from penstock import testing
from penstock.core.data_types import NAMED_TYPES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "formats" / "zarr.md"
BEGIN, END = "<!-- tables: tools/zarr_tables.py -->\n", "<!-- end of tables -->\n"

FIELDS = [{"name": "x", "data_type": "float32"}, {"name": "n", "data_type": "int8"}]
TYPES: list[tuple[str, Any]] = [
    *((name, name) for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
    *((name, name) for name in ("float16", "float32", "float64", "complex64", "complex128")),
    *((name, name) for name in NAMED_TYPES),
    *((f"complex_{name}", f"complex_{name}") for name in ("float16", "float32", "float64", *NAMED_TYPES[4:])),
    ("r24 (raw bytes), raw_bytes", "r24"),
    (
        "null_terminated_bytes, fixed_length_bytes, fixed_length_ascii",
        {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}},
    ),
    ("fixed_length_utf32", {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}),
    ("numpy.datetime64", {"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 10}}),
    ("numpy.timedelta64", {"name": "numpy.timedelta64", "configuration": {"unit": "s", "scale_factor": 1}}),
    ("struct, structured", {"name": "struct", "configuration": {"fields": FIELDS}}),
    ("string", "string"),
    ("bytes, variable_length_bytes", "bytes"),
]
# Codecs that run in Python; a test compares both rows with the registries of numcodecs and zarr-python.
VIA_PYTHON = ("categorize", "json2", "msgpack2", "pcodec", "pickle")


def works(make: Callable[[], object]) -> bool:
    """Whether it works and is not refused."""
    try:
        make()
    except ps.UnsupportedError:
        return False
    return True


def reads(dtype: Any, zarr_format: int) -> str:
    """`yes`, or the reason why not, for an array of this type that is created, opened and read."""

    def make() -> None:
        store: dict[str, bytes] = {}
        ps.create_array(store, shape=2, dtype=dtype, zarr_format=zarr_format)
        ps.open_array(store)[...]

    return "yes" if works(make) else "no"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def types() -> str:
    """Rows with equal answers, joined."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, dtype in TYPES:
        groups.setdefault((reads(dtype, 3), reads(dtype, 2)), []).append(name)
    rows = [[", ".join(f"`{name}`" for name in names), v3, v2] for (v3, v2), names in groups.items()]
    rows.append(["Python objects (`|O` with an object codec)", "-", "yes"])
    return table(["data types", "v3", "v2"], rows)


def codecs() -> str:
    """The native codecs of the registry."""
    native = [name for name in testing.codec_names() if name not in VIA_PYTHON and not name.startswith("hdf5.")]
    rows = [
        ["native", ", ".join(f"`{name}`" for name in (*native, "sharding_indexed"))],
        ["via Python (numcodecs)", ", ".join(f"`{name}`" for name in VIA_PYTHON) + ", and what users registered"],
    ]
    return table(["", "codecs"], rows)


def rendered() -> str:
    """The section of the page between the marks."""
    return f"{BEGIN}\n{types()}\n{codecs()}\n{END}"


def main(arguments: list[str]) -> int:
    """Writes the page, or reports whether it is up to date."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    made = before + rendered() + rest.split(END)[1]
    if "--check" in arguments:
        if made != text:
            print(f"{PAGE} is out of date: run python tools/zarr_tables.py", file=sys.stderr)
        return int(made != text)
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
