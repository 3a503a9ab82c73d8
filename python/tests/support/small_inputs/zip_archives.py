"""Zip archives of less than 1 MB that are as expensive as the format allows."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from support.small_inputs.cases import Action, add_case, touch
from support.small_inputs.zarr_metadata import v2, v3


def _zip(name: str, fill: Callable[[zipfile.ZipFile], None], edit: Callable[[bytes], bytes] | None = None) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        path = folder / "x.zip"
        with zipfile.ZipFile(path, "w") as file:
            fill(file)
        if edit is not None:
            path.write_bytes(edit(path.read_bytes()))
        return lambda: touch(ps.open(path))

    add_case(f"zip_{name}", make)


def _arrays(count: int, method: int = zipfile.ZIP_STORED) -> Callable[[zipfile.ZipFile], None]:
    def fill(file: zipfile.ZipFile) -> None:
        file.writestr(".zgroup", '{"zarr_format":2}')
        for i in range(count):
            file.writestr(f"a{i}/.zarray", v2(), method)

    return fill


_zip("of_arrays", _arrays(3_400))
_zip("of_deflated_arrays", _arrays(3_800, zipfile.ZIP_DEFLATED))
_zip("of_groups", lambda file: [file.writestr(f"g{i}/.zgroup", '{"zarr_format":2}') for i in range(7_000)] and None)
_zip("of_empty", lambda file: [file.writestr(f"{i}", b"") for i in range(10_000)] and None)
_zip("of_one_name", lambda file: _quiet(file, "zarr.json", 6_000))
_zip("deep", lambda file: [file.writestr("a/" * i + "zarr.json", b"{}") for i in range(680)] and None)
_zip("bomb", lambda file: file.writestr("zarr.json", b" " * 900_000_000, zipfile.ZIP_DEFLATED, 9))
_zip("bzip2_bomb", lambda file: file.writestr("zarr.json", b" " * 500_000_000, zipfile.ZIP_BZIP2))
_zip("long_name", lambda file: file.writestr("a/" * 32_000 + "zarr.json", b"{}"))
_zip("many_ends", lambda file: file.writestr("zarr.json", v3()), lambda raw: raw + b"PK\5\6" * 200_000)


def _quiet(file: zipfile.ZipFile, name: str, count: int) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(count):
            file.writestr(name, b"{}")
