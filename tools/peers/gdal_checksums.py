"""The checksums that GDAL's tests expect of GeoTIFFs: of what GDAL reads, or of what our engine reads.

A suite of `tools/test_peers.py`. pytest runs in a checkout's `autotest/gcore`. Its scripts need GDAL's own bindings and
do not run here: the expected values are taken from their text. These are tuples of a file, a band and a checksum, and
bands of `gdal.Open("data/...")` whose `Checksum()` an assertion compares with a number.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MODE = os.environ.get("PENSTOCK_PEERS_MODE", "default")
PRIMES = np.array([7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43])


@dataclass(frozen=True)
class Case:
    """A band that a script expects to have a checksum."""

    script: str
    file: str
    band: int
    overview: int | None
    checksum: int

    def __str__(self) -> str:
        level = "" if self.overview is None else f" overview {self.overview}"
        return f"{self.script} {self.file} band {self.band}{level}"


def checksum(values: np.ndarray) -> int:
    """GDAL's checksum of a band: remainders by eleven primes in turn, summed modulo 2**16.

    Source: `GDALChecksumImage` of GDAL's `alg/gdalchecksum.cpp`.
    """
    flat = values.reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    if flat.dtype.kind == "f":
        wide = flat.astype(np.float64)
        whole = np.clip(np.floor(np.where(np.isfinite(wide), wide, 0) + 0.5), -(2**31) + 1, 2**31 - 1)
        whole = np.where(np.isfinite(wide), whole, -(2**31)).astype(np.int64)
    else:
        low, high = max(np.iinfo(flat.dtype).min, -(2**31)), min(np.iinfo(flat.dtype).max, 2**31 - 1)
        whole = np.clip(flat, low, high).astype(np.int64)
    return int(np.fmod(whole, np.resize(PRIMES, whole.shape)).sum()) & 0xFFFF


class Reader:
    """Follows the statements of a test."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.files: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.sums: dict[str, tuple[str, int, int | None]] = {}

    def cases(self, statements: list[ast.stmt]) -> Iterator[Case]:
        for each in statements:
            if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
                self.assign(each.targets[0].id, each.value)
            elif isinstance(each, ast.Assert):
                yield from self.compared(each.test)
            elif isinstance(each, ast.With):
                for item in each.items:
                    if isinstance(item.optional_vars, ast.Name):
                        self.assign(item.optional_vars.id, item.context_expr)
                if not any("config_option" in ast.unparse(item.context_expr) for item in each.items):
                    yield from self.cases(each.body)

    def assign(self, name: str, value: ast.expr) -> None:
        for known in (self.files, self.numbers, self.sums):
            known.pop(name, None)  # type: ignore[attr-defined]
        if (file := opened(value)) is not None:
            self.files[name] = file
        elif isinstance(value, ast.Constant) and isinstance(value.value, int):
            self.numbers[name] = value.value
        elif (found := self.summed(value)) is not None:
            self.sums[name] = found

    def summed(self, node: ast.expr) -> tuple[str, int, int | None] | None:
        """File, band and overview of `ds.GetRasterBand(1).GetOverview(0).Checksum()`."""
        chain: list[tuple[str, list[Any]]] = []
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if not all(isinstance(each, ast.Constant) for each in node.args) or node.keywords:
                if (file := opened(node)) is None:
                    return None
                break
            if opened(node) is not None:
                break
            chain.append((node.func.attr, [each.value for each in node.args if isinstance(each, ast.Constant)]))
            node = node.func.value
        file = self.files.get(node.id) if isinstance(node, ast.Name) else opened(node)
        names = [name for name, _ in reversed(chain)]
        if file is None or names not in (["GetRasterBand", "Checksum"], ["GetRasterBand", "GetOverview", "Checksum"]):
            return None
        numbers = [values[0] for _, values in reversed(chain) if values]
        return file, numbers[0], numbers[1] if len(numbers) > 1 else None

    def compared(self, test: ast.expr) -> Iterator[Case]:
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
            return
        left, right = test.left, test.comparators[0]
        found = self.sums.get(left.id) if isinstance(left, ast.Name) else self.summed(left)
        number = self.numbers.get(right.id) if isinstance(right, ast.Name) else getattr(right, "value", None)
        if found is not None and isinstance(number, int):
            yield Case(self.script, found[0], found[1], found[2], number)


def opened(node: ast.expr) -> str | None:
    """The file of `gdal.Open("data/x.tif")`."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "gdal.Open" and len(node.args) == 1):
        return None
    (name,) = node.args
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)) or node.keywords:
        return None
    return name.value if name.value.startswith("data/") and name.value.endswith((".tif", ".tiff")) else None


def cases_of(script: Path) -> Iterator[Case]:
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.Tuple) and len(node.elts) == 3:
            name, band, number = (each.value if isinstance(each, ast.Constant) else None for each in node.elts)
            if isinstance(name, str) and name.endswith(".tif") and isinstance(band, int) and isinstance(number, int):
                yield Case(script.name, f"data/{name}", band, None, number)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield from Reader(script.name).cases(node.body)


def all_cases() -> list[Case]:
    """Of all scripts of the folder, where the file exists."""
    found = {each for script in sorted(Path().glob("*.py")) for each in cases_of(script) if Path(each.file).exists()}
    return sorted(found, key=str)


def by_gdal(case: Case) -> int:
    # The folder has a script `rasterio.py`.
    sys.path[:] = [each for each in sys.path if each not in ("", str(Path.cwd()))]
    import rasterio

    options = {} if case.overview is None else {"overview_level": case.overview}
    with rasterio.open(case.file, **options) as file:
        return int(file.checksum(case.band))


def by_engine(case: Case) -> int:
    import penstock as ps
    from peer_counts import READS

    array = ps.open(case.file, level=0 if case.overview is None else case.overview + 1)
    found = checksum(array[case.band - 1])
    READS["bands"] += 1
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_checksum(case: Case) -> None:
    assert (by_gdal if MODE == "default" else by_engine)(case) == case.checksum
