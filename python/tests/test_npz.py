"""Archives of NumPy (`.npz`) as groups of arrays, compared with `numpy.load`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penstock as ps
import pytest

VALUES = {
    "whole": np.arange(12, dtype="i2").reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "text": np.array(["a", "bc"]),
    "big": np.arange(3, dtype=">u4"),
    "one": np.float32(2.5),
    "none": np.zeros((0, 3), "f4"),
    "fields": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
}


@pytest.fixture(params=["savez", "savez_compressed"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    getattr(np, request.param)(tmp_path / "x.npz", **VALUES)
    return tmp_path / "x.npz"


def test_several_arrays_are_a_group(archive: Path) -> None:
    group = ps.open(archive)
    assert isinstance(group, ps.Group)
    assert list(group) == sorted(VALUES)
    assert len(group) == len(VALUES)
    for name, values in VALUES.items():
        for found in (group[name], ps.open(archive, name), ps.open(f"{archive}/{name}")):
            assert found.dtype == values.dtype.newbyteorder("=")
            np.testing.assert_array_equal(found[...], values)
    assert group.format == "npz"
    assert group.attrs == {}
    assert "nosuch" not in group
    with pytest.raises(KeyError, match="has no array 'nosuch'"):
        group["nosuch"]


def test_one_array_is_the_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", VALUES["whole"])
    np.testing.assert_array_equal(ps.open(tmp_path / "x.npz")[...], VALUES["whole"])


def test_names_with_slashes_are_in_groups(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **{"a/b/c": VALUES["whole"], "a/d": VALUES["big"], "e": VALUES["one"]})
    group = ps.open(tmp_path / "x.npz")
    assert (list(group), list(group["a"]), list(group["a/b"])) == (["a", "e"], ["b", "d"], ["c"])
    np.testing.assert_array_equal(group["a"]["b"]["c"][...], VALUES["whole"])
    np.testing.assert_array_equal(ps.open(tmp_path / "x.npz", "a/d")[...], VALUES["big"])


def test_pickled_arrays_are_refused_when_they_are_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=VALUES["whole"], o=np.array([{}], object))
    group = ps.open(tmp_path / "x.npz")
    np.testing.assert_array_equal(group["a"][...], VALUES["whole"])
    with pytest.raises(ps.UnsupportedError, match=r"\|O"):
        group["o"]


def test_groups_are_copied_and_are_read_only(archive: Path, tmp_path: Path) -> None:
    ps.copy(archive, tmp_path / "y.zarr")
    copied = ps.open(tmp_path / "y.zarr")
    for name, values in VALUES.items():
        np.testing.assert_array_equal(copied[name][...], values)
    with pytest.raises(ps.ReadOnlyError):
        ps.open(archive, mode="r+")
    with pytest.raises(ps.ReadOnlyError):
        ps.open(archive).attrs["x"] = 1


def test_open_array_refuses_an_archive_of_several_arrays(archive: Path) -> None:
    with pytest.raises(ps.InvalidArgumentError, match="is a group, not an array; it holds big, fields"):
        ps.open_array(archive)
