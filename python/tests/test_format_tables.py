"""The tables of docs/formats/zarr.md agree with this build."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import zarr

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats" / "zarr.md"
TOOL = Path(__file__).resolve().parents[2] / "tools" / "zarr_tables.py"


@pytest.mark.skipif(not TOOL.exists(), reason="no checkout")
def test_the_tables_of_the_zarr_page_are_up_to_date():
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not PAGE.exists(), reason="no checkout")
def test_no_codec_of_the_registries_is_missing():
    numcodecs = pytest.importorskip("numcodecs.registry")
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith(("| native |", "| via Python"))]
    named = set(re.findall(r"`([^`]+)`", "".join(rows)))
    # Other tests may have registered their own codecs.
    ids = {name for name, codec in numcodecs.codec_registry.items() if codec.__module__.startswith("numcodecs.")}
    assert ids <= named
    before = getattr(zarr.registry, "__codec_registries", None)  # before zarr-python 3.2
    registries = zarr.registry._codec_registries if before is None else before
    theirs = {
        name.removeprefix("numcodecs.")
        for name, made in registries.items()
        if any(path.startswith("zarr.codecs.") for path in made)
    }
    assert theirs - {"endian"} <= named  # zarr-python refuses it under the name that it registers


def test_base64_is_read_and_written(tmp_path):
    numcodecs = pytest.importorskip("numcodecs")
    values = np.arange(20, dtype="<i4")
    made = ps.create_array(
        tmp_path,
        shape=20,
        dtype="<i4",
        zarr_format=2,
        filters=[numcodecs.get_codec({"id": "base64"})],
        compressors=[numcodecs.Zlib(1)],
    )
    made[...] = values
    np.testing.assert_array_equal(ps.open(tmp_path)[...], values)
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[...], values)
