"""Runs the Python programs of examples/; the C++ programs are tests of the build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import penstock as ps
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_a_scene_becomes_pictures(tmp_path):
    words = [sys.executable, EXAMPLES / "scene_to_picture.py", EXAMPLES / "scene.tif", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "batch (4, 4, 64, 64) uint8" in done.stdout
    assert {path.stem for path in tmp_path.iterdir()} == {"picture", "vegetation"}


def test_the_scene_is_a_cog_as_its_script_makes_it(monkeypatch, tmp_path):
    pytest.importorskip("rasterio")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import make_scene

    stored = ps.open(EXAMPLES / "scene.tif")[...]
    made = make_scene.scene()
    assert stored.shape == made.shape
    assert (stored != made).mean() < 1e-3  # the last bit of a sine differs between machines
