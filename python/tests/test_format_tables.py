"""The tables of docs/formats/zarr.md say what this build does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "zarr_tables.py"


@pytest.mark.skipif(not TOOL.exists(), reason="no checkout")
def test_the_tables_of_the_zarr_page_are_up_to_date():
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
