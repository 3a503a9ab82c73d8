"""Consolidated metadata of both formats: it is read and written, and not used once it may be out of date."""

from __future__ import annotations

import json

import numpy as np
import penstock as ps
import pytest
import zarr

# Creating an array with values needs arrays that can be written.
writes = pytest.mark.skipif(not hasattr(ps.Array, "__setitem__"), reason="arrays are read-only")
VALUES = np.arange(6, dtype="<i4")


class Counting(ps.Store):
    """A store that records the keys that are read."""

    def __init__(self, values):
        self.values, self.asked = values, []

    def get(self, key):
        self.asked.append(key)
        return self.values.get(key)


def tree(target, zarr_format):
    root = zarr.open_group(target, mode="w", zarr_format=zarr_format, attributes={"r": 1})
    sub = root.create_group("a/b", attributes={"b": 2})
    sub.create_array("x", data=VALUES, chunks=(4,))
    root.create_array("y", data=VALUES, attributes={"q": [1]})
    return root


@pytest.fixture(params=[2, 3])
def stored(request, tmp_path):
    """A tree that zarr-python consolidated: its path and its format."""
    tree(tmp_path / "t.zarr", request.param)
    zarr.consolidate_metadata(tmp_path / "t.zarr", zarr_format=request.param)
    return tmp_path / "t.zarr", request.param


def values_of(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_the_tree_comes_from_one_document(stored):
    path, zarr_format = stored
    store = Counting(values_of(path))
    g = ps.open_group(store)
    asked = len(store.asked)
    assert asked <= (1 if zarr_format == 3 else 4)
    assert g.consolidated
    assert g.keys() == ["a", "y"]
    assert [name for name, _ in g.members(max_depth=None)] == ["a", "a/b", "a/b/x", "y"]
    assert g["a/b"].attrs == {"b": 2}
    assert g["y"].attrs == {"q": [1]}
    assert g.attrs == {"r": 1}
    assert len(store.asked) == asked
    np.testing.assert_array_equal(g["a"]["b"]["x"][...], VALUES)


def test_a_copy_of_an_unknown_format_is_not_used(stored):
    path, zarr_format = stored
    file = path / (".zmetadata" if zarr_format == 2 else "zarr.json")
    document = json.loads(file.read_text())
    if zarr_format == 2:
        document["zarr_consolidated_format"] = 2
    else:
        document["consolidated_metadata"]["kind"] = "other"
    file.write_text(json.dumps(document))
    g = ps.open_group(path)
    assert not g.consolidated
    assert g.keys() == ["a", "y"]
    np.testing.assert_array_equal(g["a/b/x"][...], VALUES)
    np.testing.assert_array_equal(ps.open(path / "y")[...], VALUES)
    with pytest.raises(ps.UnsupportedError):
        ps.open_group(path, use_consolidated=True)
    if zarr_format == 2:  # without it, only the copy describes the group
        (path / ".zgroup").unlink()
        with pytest.raises(ps.UnsupportedError, match="zarr_consolidated_format 2"):
            ps.open_group(path)


def test_never_reads_storage_and_required_reads_one_document(stored):
    path, zarr_format = stored
    zarr.open_group(path, mode="a", zarr_format=zarr_format, use_consolidated=False).create_array("new", data=VALUES)
    plain = ps.open_group(path, use_consolidated=False)
    assert not plain.consolidated
    assert plain.keys() == ["a", "new", "y"]
    required = ps.open_group(path, use_consolidated=True)
    assert required.keys() == ["a", "y"]
    with pytest.raises(KeyError):
        required["new"]
    usual = ps.open_group(path)
    assert usual.keys() == ["a", "y"]
    np.testing.assert_array_equal(usual["new"][...], VALUES)  # nodes that the copy does not have are looked up
    with pytest.raises(KeyError):
        usual["none"]


@writes
def test_after_a_write_the_copy_is_not_used(stored):
    path, _ = stored
    g = ps.open_group(path)
    sub = g["a/b"]
    sub.create_array("z", data=VALUES)
    assert not g.consolidated
    assert sub.keys() == ["x", "z"]
    assert [name for name, _ in g.members(max_depth=None)] == ["a", "a/b", "a/b/x", "a/b/z", "y"]
    h = ps.open_group(path)
    del h["y"]
    assert h.keys() == ["a"]
    assert "y" not in h


def test_a_group_without_consolidated_metadata_is_an_error(tmp_path):
    ps.create_group(tmp_path / "g")
    with pytest.raises(ps.NotFoundError, match="no consolidated metadata"):
        ps.open_group(tmp_path / "g", use_consolidated=True)
    ps.create_array(tmp_path / "x", shape=3, dtype="i4")
    with pytest.raises(ValueError, match="is an array"):
        ps.consolidate_metadata(tmp_path / "x")


@writes
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python_reads_our_consolidated_metadata(tmp_path, zarr_format):
    tree(tmp_path / "t.zarr", zarr_format)
    g = ps.consolidate_metadata(tmp_path / "t.zarr")
    assert g.consolidated
    assert [name for name, _ in g.members(max_depth=None)] == ["a", "a/b", "a/b/x", "y"]
    z = zarr.open_group(tmp_path / "t.zarr", mode="r", zarr_format=zarr_format, use_consolidated=True)
    assert sorted(path for path, _ in z.members(max_depth=None)) == ["a", "a/b", "a/b/x", "y"]
    np.testing.assert_array_equal(z["a/b/x"][...], VALUES)
    assert dict(z["y"].attrs) == {"q": [1]}
    # Once more, replacing the existing copy.
    g.create_array("new", data=VALUES)
    assert ps.consolidate_metadata(tmp_path / "t.zarr").keys() == ["a", "new", "y"]


def test_errors_in_the_copy_are_named(tmp_path):
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    for copy, message in (
        ({"kind": "inline", "metadata": []}, "consolidated_metadata.metadata"),
        ({"kind": "inline"}, "consolidated_metadata.metadata"),
        (3, "consolidated_metadata"),
    ):
        with pytest.raises(ps.CorruptDataError, match=message):
            ps.open({"zarr.json": json.dumps({**group, "consolidated_metadata": copy}).encode()})
    other = {"zarr.json": json.dumps({**group, "consolidated_metadata": {"kind": "remote"}}).encode()}
    assert not ps.open(other).consolidated
    with pytest.raises(ps.UnsupportedError, match="remote"):
        ps.open(other, use_consolidated=True)
    with pytest.raises(ps.CorruptDataError, match="zmetadata"):
        ps.open({".zgroup": b'{"zarr_format": 2}', ".zmetadata": b"{}"})
