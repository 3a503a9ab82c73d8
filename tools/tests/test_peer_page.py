"""The page of tools/test_peers.py, and the expected values that it takes from the scripts of others."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
sys.path.insert(0, str(Path(__file__).parents[1]))
import gdal_checksums
import peer_page
import peer_suites

PYFIVE = next(suite for suite in peer_suites.SUITES if suite.name == "pyfive")
ZARR = next(suite for suite in peer_suites.SUITES if suite.name == "zarr_benchmarks")


def compared(suite: peer_suites.Suite, mode: str, reason: str) -> peer_page.Comparison:
    made = peer_page.Comparison(
        suite, mode, Counter(passed=3), Counter(passed=2, failed=1), {reason: ["a::test_x[1]"]}, [], [],
        peer_page.Reads(Counter(values=7), Counter({"values: objects": 2})),
    )  # fmt: skip
    if suite.times:
        made.times = {"test_read[x|y]": (0.004, 0.001)}
    return made


def test_a_run_keeps_the_results_of_other_modes() -> None:
    all_of_it = [
        compared(ZARR, "bypass", "one"),
        compared(ZARR, "pipeline", "two"),
        compared(PYFIVE, "engine", "three"),
    ]
    first = peer_page.page(all_of_it, "")
    assert peer_page.page([all_of_it[1]], first) == first
    changed = peer_page.page([compared(ZARR, "bypass", "another")], first)
    assert changed == first.replace("| one |", "| another |")


def test_the_page_shows_reads_and_times() -> None:
    made = peer_page.page([compared(ZARR, "pipeline", "why")], "")
    assert "| 3 passed, 0 failed, 0 skipped | 2 passed, 1 failed, 0 skipped | 1 | 0 | 7 of 9 |" in made
    assert "The engine: 7 values. The peer's own code:\n\n- 2 of values: objects\n" in made
    assert "| `test_read[x\\|y]` | 4.00 | 1.00 | 4.00 |" in made


def test_the_page_names_missing_suites() -> None:
    made = peer_page.page([compared(ZARR, "pipeline", "why")], "")
    assert "No whole run is recorded yet of: zarr (pipeline, bypass), zarr_benchmarks (bypass), xarray (" in made
    assert "An empty last column" not in made
    without = compared(PYFIVE, "engine", "why")
    without.reads = peer_page.Reads(Counter(), Counter())
    assert without.proves_nothing
    assert "An empty last column" in peer_page.page([without], made)
    assert not compared(PYFIVE, "engine", "why").proves_nothing


def test_expected_checksums_of_a_script() -> None:
    script = """
init_list = [("byte.tif", 1, 4672), ("x.png", 1, 1)]
def test_plain():
    ds = gdal.Open("data/a.tif")
    assert ds.GetRasterBand(2).Checksum() == 11, "text"
    expected_cs = 12
    got_cs = ds.GetRasterBand(1).GetOverview(0).Checksum()
    assert got_cs == expected_cs
    ds = None
    assert ds.GetRasterBand(1).Checksum() == 13
    with gdal.config_option("GTIFF_FORCE_RGBA", "YES"):
        ds = gdal.Open("data/b.tif")
        assert ds.GetRasterBand(1).Checksum() == 14
    with gdal.Open("data/c.tif") as other:
        assert other.GetRasterBand(1).Checksum() == 15
        assert other.GetRasterBand(1).GetMaskBand().Checksum() == 16
"""
    function = ast.parse(script).body[1]
    assert isinstance(function, ast.FunctionDef)
    found = [(x.file, x.band, x.overview, x.checksum) for x in gdal_checksums.Reader("s.py").cases(function.body)]
    assert found == [("data/a.tif", 2, None, 11), ("data/a.tif", 1, 0, 12), ("data/c.tif", 1, None, 15)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8", "c8", "u8", "i8"])
def test_checksums_are_those_of_gdal(tmp_path: Path, dtype: str) -> None:
    rasterio = pytest.importorskip("rasterio")
    values = np.random.default_rng(1).integers(0, 255, (13, 17 * np.dtype(dtype).itemsize), dtype="u1").view(dtype)
    if values.dtype.kind in "fc":
        values = (np.arange(values.size).reshape(values.shape) * 1.5 - 40).astype(dtype)
        values[0, :2] = np.nan, np.inf
    options = {"width": values.shape[1], "height": values.shape[0], "count": 1, "dtype": values.dtype.name}
    with rasterio.open(tmp_path / "x.tif", "w", driver="GTiff", **options) as file:
        file.write(values, 1)
    with rasterio.open(tmp_path / "x.tif") as file:
        assert gdal_checksums.checksum(values) == file.checksum(1)
