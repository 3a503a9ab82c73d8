"""Groups, as zarr-python writes them."""

from __future__ import annotations

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import as_bytes


def make(store) -> None:
    root = zarr.create_group(store, attributes={"title": "t"})
    for name, dtype in (("b", "f4"), ("a", "i2")):
        root.create_array(name, shape=(4, 6), chunks=(2, 3), dtype=dtype)[...] = 3
    root.create_group("sub").create_group("deep").create_array("x", shape=(), dtype="u1")[...] = 7


@pytest.fixture(params=["file", "dict", "zarr memory", "zarr wrapper"])
def group(request, tmp_path) -> ps.Group:
    if request.param == "file":
        make(tmp_path / "g.zarr")
        return ps.open(tmp_path / "g.zarr")
    store = zarr.storage.MemoryStore({})
    make(store)
    if request.param == "dict":
        return ps.open(as_bytes(store))
    return ps.open(store if request.param == "zarr memory" else zarr.storage.WrapperStore(store))


def test_a_group_lists_and_opens_its_children(group):
    assert isinstance(group, ps.Group)
    assert dict(group.attrs) == {"title": "t"}
    assert group.format == "zarr3"
    assert group.keys() == ["a", "b", "sub"]
    assert list(group) == ["a", "b", "sub"]
    assert len(group) == 3
    assert [name for name, _ in group.arrays()] == ["a", "b"]
    assert [name for name, _ in group.groups()] == ["sub"]
    assert (group["a"][...] == 3).all()
    assert group["sub/deep/x"][()] == 7
    assert group["sub"]["deep"]["x"].dtype == np.uint8
    assert "a" in group
    assert "sub/deep" in group
    assert "c" not in group
    assert 7 not in group
    assert group.tree() == (
        "/\n├── a (4, 6) int16\n├── b (4, 6) float32\n└── sub\n    └── deep\n        └── x () uint8"
    )


def test_a_tree_shows_why_a_member_cannot_be_opened(tmp_path):
    make(tmp_path / "g.zarr")
    (tmp_path / "g.zarr" / "b" / "zarr.json").write_text("{")
    (tmp_path / "g.zarr" / "new\nline").mkdir()
    (tmp_path / "g.zarr" / "new\nline" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    lines = ps.open_group(tmp_path / "g.zarr").tree().splitlines()
    assert lines[:2] == ["/", "├── a (4, 6) int16"]
    assert lines[2].startswith("├── b  corrupt_data: JSON is malformed")
    assert lines[3:] == ["├── new\\nline", "└── sub", "    └── deep", "        └── x () uint8"]


def test_an_absent_child_is_a_key_error(group):
    with pytest.raises(KeyError) as caught:
        group["nope"]
    assert isinstance(caught.value, ps.NotFoundError)
    assert "nope" in str(caught.value)
    with pytest.raises(TypeError):
        group[0]


def test_open_array_and_open_group_refuse_the_other_kind(tmp_path):
    make(tmp_path / "g.zarr")
    assert isinstance(ps.open_group(tmp_path / "g.zarr"), ps.Group)
    assert isinstance(ps.open_array(tmp_path / "g.zarr", "a"), ps.Array)
    with pytest.raises(ps.InvalidArgumentError, match="group"):
        ps.open_array(tmp_path / "g.zarr")
    with pytest.raises(ps.InvalidArgumentError, match="array"):
        ps.open_group(tmp_path / "g.zarr", "a")


def test_names_complete_in_interactive_shells():
    group = ps.create_group({})
    group.create_array("b", shape=(2,), dtype="i4")
    group.create_group("a")
    assert sorted(group._ipython_key_completions_()) == ["a", "b"]
