"""Files with some datasets that are not readable: the others are checked, copied and saved."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.__main__ import main

h5py = pytest.importorskip("h5py")


@pytest.fixture
def partly(tmp_path: Path) -> Path:
    """A dataset without a dataspace has no values, so that no reader shows it as an array."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(6.0).reshape(2, 3)
        file["deep/empty"] = h5py.Empty("f4")
        file["deep/inner"] = np.arange(4)
    return path


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        capfd.readouterr()
        status = main()
        return status, *capfd.readouterr()

    return call


def document(run: Run, *arguments: Any, status: int = 0) -> Any:
    found, out, _ = run(*arguments, "--json")
    assert found == status
    return json.loads(out)


def test_check_names_unreadable_datasets(partly: Path, run: Run) -> None:
    found = document(run, "check", partly)
    assert found["ok"]
    assert (found["sums"]["arrays"], found["sums"]["faulty_arrays"], found["sums"]["unsupported"]) == (2, 0, 1)
    [named] = found["unsupported"]
    assert named["path"] == "deep/empty"
    assert named["error"]["code"] == "unsupported"
    status, text, _ = run("check", partly)
    assert status == 0
    assert "deep/empty: not readable by penstock: HDF5: a dataset without a dataspace" in text
    assert text.splitlines()[-1].endswith("all good, 1 more not readable by penstock")


def test_check_still_reports_a_damaged_array(partly: Path, run: Run) -> None:
    with h5py.File(partly, "r+") as file:
        made = file.create_dataset("summed", data=np.arange(100), chunks=(100,), fletcher32=True)
        at = made.id.get_chunk_info(0).byte_offset
    content = bytearray(partly.read_bytes())
    content[at] ^= 0xFF
    partly.write_bytes(content)
    found = document(run, "check", partly, status=1)
    assert not found["ok"]
    assert (found["sums"]["faulty_arrays"], found["sums"]["unsupported"]) == (1, 1)


def test_the_program_copies_the_others(partly: Path, tmp_path: Path, run: Run) -> None:
    status, _, err = run("copy", partly, tmp_path / "x.zarr")
    assert status == 0
    assert "not copied: 'deep/empty' (HDF5: a dataset without a dataspace" in err
    copied = ps.open_group(tmp_path / "x.zarr")
    np.testing.assert_array_equal(copied["good"][...], np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(copied["deep/inner"][...], np.arange(4))
    assert "empty" not in copied["deep"]
    [omitted] = document(run, "copy", partly, tmp_path / "y.zarr")["omitted"]
    assert omitted["path"] == "deep/empty"


def test_manifests_have_the_others(partly: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="not in the manifest of .*'deep/empty'"):
        ps.save_manifest(ps.open(partly), tmp_path / "x.manifest")
    opened = ps.open(tmp_path / "x.manifest")
    np.testing.assert_array_equal(opened["good"][...], np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(opened["deep/inner"][...], np.arange(4))


def test_lists_name_the_reason_and_do_not_fail(partly: Path, run: Run) -> None:
    found = document(run, "ls", f"{partly}/deep")
    [empty] = [each for each in found["members"] if each["name"] == "empty"]
    assert empty["error"]["code"] == "unsupported"
    for verb in ("ls", "info", "tree"):
        status, text, _ = run(verb, f"{partly}/deep")
        assert status == 0
        [line] = [each for each in text.splitlines() if "empty" in each]
        assert "unsupported: HDF5: a dataset without a dataspace" in line


def test_arrays_of_a_group_are_those_that_are_readable(partly: Path) -> None:
    """Members are all named: opening one that is not an array is an error."""
    group = ps.open_group(partly, "deep")
    assert sorted(group) == ["empty", "inner"]
    assert [(name, array.shape) for name, array in group.arrays()] == [("inner", (4,))]
    assert list(group.array_keys()) == ["inner"]
    assert list(group.group_keys()) == []
    with pytest.raises(ps.UnsupportedError, match="without a dataspace"):
        list(group.members())
