"""Tests of the program that counts files, includes and the lines of features."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import count_features


@pytest.mark.parametrize(
    ("path", "feature"),
    [
        ("src/driver/open_references.cc", "references, kerchunk, manifests"),
        ("python/penstock/target/locations.py", "references, kerchunk, manifests"),
        ("src/format/hdf5/hdf5_group.cc", "HDF5, NetCDF"),
        ("python/penstock/geo/window.py", "TIFF: meaning, windows, new files"),
        ("src/driver/place.cc", "opening, creating, targets"),
        ("src/store/file_store.cc", None),
    ],
)
def test_a_file_belongs_to_the_first_feature_that_matches(path: str, feature: str | None) -> None:
    assert count_features.feature_of(path) == feature


def test_the_lines_of_a_commit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    files = {"src/driver/place.cc": 3, "src/driver/place_test.cc": 9, "python/penstock/api/open.py": 2}
    for name, lines in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n" * lines)
    (tmp_path / "src/driver/place.cc").write_text('#include "store/store.h"\n#include "driver/place.h"\nx\n')
    (tmp_path / "src/store").mkdir()
    (tmp_path / "src/store/store.h").write_text("x\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "x")
    monkeypatch.chdir(tmp_path)
    texts = count_features.texts_of("HEAD")
    counts = count_features.count(texts)
    assert counts["opening, creating, targets"] == (3, 2)
    assert sum(a + b for a, b in counts.values()) == 5
    sizes = count_features.sizes(texts)
    assert sizes["files, and lines, of `src`, `include` and `cli`"] == "2, 4"
    assert sizes["files in `src/driver`, lines"] == "1, 3"
    assert sizes["pairs of folders where one includes from the other"] == "1"
    assert sizes["Python: modules, lines"] == "1, 2"
