"""The tests of zarr-conformance-tests: a program reads an array of the repository, and must not fail.

A suite of `tools/test_peers.py`. pytest runs in a checkout. Its `tests.bats` needs bats; the cases are taken
from its text. The peer's own result is that of zarr-python. Ours is that of `penstock read`, whose elements must also
be equal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

MODE = os.environ.get("PENSTOCK_PEERS_MODE", "default")
ZARR_PYTHON = "import sys, numpy, zarr; numpy.save(sys.argv[3], zarr.open_array(sys.argv[1], mode='r')[...])"


def cases() -> list[tuple[str, str]]:
    text = next(path for path in (Path("tests.bats"), Path("tests.sh")) if path.exists()).read_text()
    blocks = re.findall(r'^@test "([^"]+)" \{(.*?)^\}', text, re.DOTALL | re.MULTILINE)
    found = [(name, re.search(r"\$ZARR_CONFORMANCE_DATA/([\w./-]+)", body)) for name, body in blocks]
    return [(name, path[1]) for name, path in found if path is not None]


@pytest.mark.parametrize(("name", "path"), cases())
def test_conformance(name: str, path: str, tmp_path: Path) -> None:
    arguments = [f"data/{path}", "-o", str(tmp_path / "own.npy")]
    own = subprocess.run([sys.executable, "-c", ZARR_PYTHON, *arguments], capture_output=True, text=True)
    if MODE == "default":
        assert own.returncode == 0, own.stderr
        return
    from peer_counts import READS

    arguments = [sys.executable, "-m", "penstock", "read", f"data/{path}", "-o", str(tmp_path / "ours.npy")]
    ours = subprocess.run(arguments, capture_output=True, text=True)
    assert ours.returncode == 0, ours.stderr
    READS["arrays"] += 1
    if own.returncode == 0:
        np.testing.assert_array_equal(np.load(tmp_path / "ours.npy"), np.load(tmp_path / "own.npy"), strict=True)
