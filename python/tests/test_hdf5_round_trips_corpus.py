"""Files of other projects, opened and listed over a network: with `tools/hdf5_round_trips.py`, none needs more round
trips or bytes than its limit.

Only files that the first request does not fetch as a whole are opened: smaller ones show nothing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.http_server import ROUND_TRIP

pytest.importorskip("h5py")

ROOT = Path(__file__).resolve().parents[2]
COPIES = ROOT / "tests" / "data" / "hdf5"
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "hdf5"
FIRST_REQUEST, MOST_BYTES = 64 << 10, 4 << 20


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hdf5_round_trips", ROOT / "tools" / "hdf5_round_trips.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # dataclasses needs the module there
    spec.loader.exec_module(made)
    return made


def files_of(folder: Path, tool: ModuleType) -> list[Path]:
    found = (each for each in sorted(folder.rglob("*")) if each.is_file())
    return [each for each in found if FIRST_REQUEST < each.stat().st_size < MOST_BYTES and tool.is_hdf5(each)]


def check(paths: list[Path], tool: ModuleType) -> int:
    """The number of files that were listed."""
    listed = 0
    for path in paths:
        measured = tool.measure(path, ROUND_TRIP)
        if isinstance(measured, str):
            assert not measured.startswith("penstock: "), (path, measured)
            continue  # h5py cannot read it, or it is a single array
        assert measured.misses == [], measured
        assert measured.members >= 1
        listed += 1
    return listed


def test_copies_within_the_limits(tool: ModuleType) -> None:
    assert check(files_of(COPIES, tool), tool) == 3


def test_the_corpus_within_the_limits(tool: ModuleType) -> None:
    if not CORPUS.is_dir():
        pytest.skip("the corpus of files of others is not next to the checkout")
    assert check(files_of(CORPUS, tool), tool) >= 8
