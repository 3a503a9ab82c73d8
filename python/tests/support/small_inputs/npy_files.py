"""`.npy` and `.npz` files of less than 1 MB that are as expensive as the format allows."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

from support.small_inputs.cases import Action, add_case, case, touch
from support.small_inputs.zarr_metadata import nested_json


def _npy_header(text: str, version: int = 2) -> bytes:
    body = text.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<I", len(body)) + body + bytes(64)


_NPY_CASES: dict[str, Callable[[], str]] = {
    "fields": lambda: repr({"descr": [(f"f{i}", "|u1") for i in range(45_000)], "fortran_order": False, "shape": (1,)}),
    "equal_fields": lambda: repr({"descr": [("f", "|u1")] * 60_000, "fortran_order": False, "shape": (1,)}),
    "deep": lambda: "{'descr': " + nested_json(400_000) + ", 'fortran_order': False, 'shape': (1,)}",
    "deep_fields": lambda: (
        "{'descr': " + nested_json(70_000, "[('a', ", ")]", "'|u1'") + ", 'fortran_order': False, 'shape': (1,)}"
    ),
    "rank": lambda: repr({"descr": "|u1", "fortran_order": False, "shape": (1,) * 300_000}),
    "members": lambda: "{" + ", ".join(f"'{i}': 0" for i in range(70_000)) + "}",
    "equal_members": lambda: "{" + ", ".join("'descr': '|u1'" for _ in range(55_000)) + "}",
    "long_text": lambda: "{'descr': '" + "|" * 900_000 + "', 'fortran_order': False, 'shape': (1,)}",
    "escapes": lambda: "{'descr': '" + "\\x41" * 230_000 + "', 'fortran_order': False, 'shape': (1,)}",
    "blanks": lambda: " " * 900_000 + repr({"descr": "|u1", "fortran_order": False, "shape": (1,)}),
    "long_number": lambda: "{'descr': '|u1', 'fortran_order': False, 'shape': (" + "9" * 900_000 + ",)}",
    "huge_shape": lambda: repr({"descr": "|u1", "fortran_order": False, "shape": (1 << 62,)}),
    "not_closed": lambda: "{" * 990_000,
    "texts": lambda: "{'descr': " + "'a' " * 240_000 + "}",
    "field_titles": lambda: repr(
        {"descr": [((f"t{i}", f"f{i}"), "|u1") for i in range(28_000)], "fortran_order": False, "shape": (1,)}
    ),
    "field_shapes": lambda: repr({"descr": [("f", "|u1", (1,) * 300_000)], "fortran_order": False, "shape": (1,)}),
}


def _npy(name: str, text: Callable[[], str]) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        path = folder / "x.npy"
        path.write_bytes(_npy_header(text()))
        return lambda: touch(ps.open(path))

    add_case(f"npy_{name}", make)


for _name, _text in _NPY_CASES.items():
    _npy(_name, _text)


@case
def npz_bomb(folder: Path) -> Action:
    import penstock as ps

    path = folder / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", _npy_header(" " * 700_000_000), zipfile.ZIP_DEFLATED, 9)
    return lambda: touch(ps.open(path))


@case
def npz_of_many(folder: Path) -> Action:
    import penstock as ps

    path = folder / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        for i in range(4_000):
            file.writestr(f"{i}.npy", _npy_header(repr({"descr": "|u1", "fortran_order": False, "shape": (1,)}), 2))
    return lambda: touch(ps.open(path, "7"))
