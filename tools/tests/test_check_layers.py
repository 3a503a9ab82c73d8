"""Tests of the layer check: it reports wrong includes and accepts right ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import check_layers


@pytest.mark.parametrize(
    ("folder", "include"),
    [
        ("base", '"base/json.h"'),
        ("codec", '"array/grid.h"'),
        ("format/zarr", '"codec/chain.h"'),
        ("format/zarr", '"format/zarr/metadata.h"'),
        ("format/zarr", "<penstock/extend/layout.h>"),
        ("plan", '"format/zarr/layout.h"'),
        ("api/append", '"api/fenced_write.h"'),
        ("api/append", "<penstock/copy.h>"),
        ("cli", "<penstock/penstock.h>"),
        ("python", '"api/joined/open_datasets.h"'),
        ("python", '"cli/run.h"'),
        ("base", "<vector>"),
        ("base", "<nlohmann/json.hpp>"),
    ],
)
def test_accepts_folders_to_the_left(folder: str, include: str) -> None:
    assert check_layers.check_file(f"src/{folder}/x.cc", folder, f"#include {include}\n") == []


@pytest.mark.parametrize(
    ("folder", "include", "complaint"),
    [
        ("base", '"array/grid.h"', "base must not know array"),
        ("codec", '"store/file.h"', "codec must not know store"),
        ("store", "<penstock/extend/codec.h>", "store must not know codec"),
        ("format/zarr", '"format/tiff/ifd.h"', "format/zarr must not know format/tiff"),
        ("format/zarr", '"plan/planner.h"', "format/zarr must not know plan"),
        ("engine", '  #  include "api/array.h"', "engine must not know api"),
        ("api/append", '"api/copy/copy_blocks.h"', "api/append must not know api/copy"),
        ("api", '"api/copy/copy_blocks.h"', "api must not know api/copy"),
        ("cli", '"python/bind.h"', "cli must not know python"),
        ("python", '"cli/verbs.h"', "python must not know cli"),
        ("base", "<penstock/nobody.h>", "no layer"),
        ("base", '"nowhere/x.h"', "is in no folder"),
    ],
)
def test_reports_other_folders(folder: str, include: str, complaint: str) -> None:
    text = include if "#" in include else f"#include {include}"
    (line,) = check_layers.check_file(f"src/{folder}/x.cc", folder, f"#pragma once\n{text}\n")
    assert line.startswith(f"src/{folder}/x.cc:2: ")
    assert complaint in line


@pytest.mark.parametrize("made", ["std::make_shared<const array_state>(where)", "new group_state()"])
def test_states_of_open_arrays_are_made_by_drivers(made: str) -> None:
    text = f"void f() {{ auto x = {made}; }}\n"
    assert check_layers.check_file("src/driver/x.cc", "driver", text) == []
    (line,) = check_layers.check_file("src/api/joined/x.cc", "api/joined", text)
    assert "a driver makes" in line


@pytest.mark.parametrize("include", ['"base/json.h"', "<nlohmann/json.hpp>", "<zstd.h>", "<penstock/plan.h>"])
def test_a_public_header_includes_only_public_headers_of_its_layer(include: str) -> None:
    assert len(check_layers.check_file("include/penstock/dtype.h", "array", f"#include {include}\n")) == 1


def test_a_public_header_without_a_layer_is_reported(tmp_path: Path) -> None:
    (tmp_path / "include" / "penstock").mkdir(parents=True)
    (tmp_path / "include" / "penstock" / "novel.h").write_text("#pragma once\n")
    (tmp_path / "src" / "misc").mkdir(parents=True)
    (tmp_path / "src" / "misc" / "x.cc").write_text("")
    complaints = check_layers.check_tree(tmp_path)
    assert [line.split(":")[0] for line in complaints] == ["include/penstock/novel.h", "src/misc/x.cc"]


def test_every_listed_folder_has_a_level() -> None:
    assert set(check_layers.PUBLIC.values()) <= set(check_layers.LEVEL)
