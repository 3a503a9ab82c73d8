"""The examples of the README run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def run(example: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    return names


def test_the_first_screen_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    xr = pytest.importorskip("xarray")
    with_xarray, with_zarr, _ = EXAMPLES
    days = np.datetime64("2015-01-01", "ns") + np.arange(40) * np.timedelta64(1, "D")
    data = xr.Dataset({"t2m": (("time", "x"), np.arange(120.0).reshape(40, 3))}, coords={"time": days})
    data.to_zarr(tmp_path / "era5.zarr", consolidated=False)
    january = run(with_xarray, tmp_path, monkeypatch)["january"]
    np.testing.assert_array_equal(january, data.t2m[:31].mean("time"))
    zarr.save_array(tmp_path / "data.zarr", np.arange(200))
    names = run(with_zarr, tmp_path, monkeypatch)
    names["ps"].zarr.disable()
    np.testing.assert_array_equal(names["x"], np.arange(100))


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(ROOT / "python")
    names = run(EXAMPLES[2], tmp_path, monkeypatch)  # this example writes
    said = capsys.readouterr().out
    assert "(344, 403) int16 (48, 64) (192, 256)" in said
    assert "Decode" in said
    assert names["x"].shape == (100, 202)


def test_links_and_pictures_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert "://" in target or (ROOT / target).exists(), target
