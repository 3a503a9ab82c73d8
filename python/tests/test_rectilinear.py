"""Rectilinear grids of chunks and shards: created, read, resized, appended to; compared with NumPy and zarr-python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import ZARR_VERSION
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="this zarr-python does not know rectilinear shards")

VALUES = np.arange(16 * 18, dtype="<i4").reshape(16, 18)
SHARDS = [[4, 2, 10], [6, 12]]
GRIDS = [
    {"chunks": [[2, 5, 9], 7]},
    {"chunks": (2, 3), "shards": SHARDS},
    {"chunks": (2, 3), "shards": [[4, 2, 10], 6]},
]


@pytest.fixture(autouse=True)
def rectilinear() -> Iterator[None]:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        yield


def grid_of(path: Path) -> Any:
    return json.loads((path / "zarr.json").read_text())["chunk_grid"]["configuration"]["chunk_shapes"]


def test_shards_equal_those_of_zarr_python(tmp_path: Path) -> None:
    theirs = zarr.create_array(tmp_path / "t", data=VALUES, chunks=(2, 3), shards=SHARDS)
    ours = ps.create_array(tmp_path / "o", data=VALUES, chunks=(2, 3), shards=SHARDS)
    assert grid_of(tmp_path / "o") == grid_of(tmp_path / "t") == SHARDS
    names = {str(path.relative_to(tmp_path / "t")) for path in (tmp_path / "t").rglob("*")}
    assert {str(path.relative_to(tmp_path / "o")) for path in (tmp_path / "o").rglob("*")} == names
    np.testing.assert_array_equal(ps.open(tmp_path / "t")[...], VALUES)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "o")[...], VALUES)
    np.testing.assert_array_equal(ours[5:13, ::-2], VALUES[5:13, ::-2])
    np.testing.assert_array_equal(ours.oindex[[15, 3, 3], [0, 17, 6]], VALUES[np.ix_([15, 3, 3], [0, 17, 6])])
    np.testing.assert_array_equal(ours.vindex[[15, 3], [0, 17]], VALUES[[15, 3], [0, 17]])
    assert ours.chunks == (2, 3)
    assert theirs.shape == ours.shape


@pytest.mark.parametrize("index", ["start", "end"])
@pytest.mark.parametrize("grid", GRIDS)
def test_parts_are_written_to(tmp_path: Path, grid: dict[str, Any], index: str) -> None:
    if "shards" in grid:
        grid = {**grid, "shards": {"shape": grid["shards"], "index_location": index}}
    zarr.create_array(tmp_path / "x", shape=VALUES.shape, dtype="i4", fill_value=-1, **grid)
    a = ps.open(tmp_path / "x")
    wanted = np.full(VALUES.shape, -1, "i4")
    for part in (np.s_[3:15, 2:11], np.s_[5, :], np.s_[::3, ::5], np.s_[15, 17]):
        a[part] = wanted[part] = VALUES[part]
        np.testing.assert_array_equal(a[...], wanted)
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "x")[...], wanted)
    a[4:6] = wanted[4:6] = -1  # a whole row of shards, which are erased
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x")[...], wanted)


def test_nested_shards(tmp_path: Path) -> None:
    inner = zarr.codecs.ShardingCodec(chunk_shape=(2, 3), codecs=[zarr.codecs.BytesCodec(), zarr.codecs.ZstdCodec()])
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [16, 18],
        "data_type": "int32",
        "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[4, 12], [6, 12]]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": -1,
        "codecs": [zarr.codecs.ShardingCodec(chunk_shape=(4, 6), codecs=[inner]).to_dict()],
        "attributes": {},
    }
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    theirs = zarr.open_array(tmp_path)
    theirs[1:, 3:] = VALUES[1:, 3:]
    a = ps.open(tmp_path)
    wanted = np.full(VALUES.shape, -1, "i4")
    wanted[1:, 3:] = VALUES[1:, 3:]
    np.testing.assert_array_equal(a[...], wanted)
    a[0, ::2] = wanted[0, ::2] = 7
    a[9:14, 13] = wanted[9:14, 13] = 8
    np.testing.assert_array_equal(a[...], wanted)
    np.testing.assert_array_equal(theirs[...], wanted)


def test_a_shard_that_is_not_a_multiple_of_its_chunks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a shard of length 4 is not a multiple of chunks \(3, 3\)"):
        ps.create_array({}, shape=(16, 18), dtype="i4", chunks=(3, 3), shards=[[6, 4, 6], 18])
    store: dict[str, bytes] = {}
    a = ps.create_array(store, data=VALUES, chunks=(2, 3), shards=SHARDS)
    before = dict(store)
    with pytest.raises(ValueError, match=r"the array cannot get the shape \(17, 18\).*does not divide"):
        a.resize((17, 18))
    with pytest.raises(ValueError, match="does not divide"):
        a.append(VALUES[:1])
    assert store == before


@settings(max_examples=60, deadline=None)
@given(
    grid=st.sampled_from(GRIDS),
    steps=st.lists(
        st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 10)),
        min_size=1,
        max_size=5,
    ),
)
def test_resizing_makes_the_grid_that_zarr_python_makes(grid: dict[str, Any], steps: list[Any]) -> None:
    """The same steps on two arrays, one by zarr-python and one by Penstock: documents, keys and values agree."""
    made: dict[str, Any] = {"shape": VALUES.shape, "dtype": "i4", "fill_value": -1, "compressors": None, **grid}
    ours: dict[str, bytes] = {}
    held: dict[str, Any] = {}
    theirs = zarr.create_array(zarr.storage.MemoryStore(held), **made)
    a = ps.create_array(ours, **made)
    theirs[...] = VALUES
    a[...] = VALUES
    for append, rows, columns in steps:
        rows, columns = 2 * rows, 3 * columns  # multiples of the chunks
        if append:
            more = np.full((rows, theirs.shape[1]), 7, "i4")
            theirs.append(more)
            a.append(more)
        else:
            theirs.resize((rows, columns))
            a.resize((rows, columns))
        assert a.shape == theirs.shape
        document = json.loads(ours["zarr.json"])
        assert document["chunk_grid"] == json.loads(held["zarr.json"].to_bytes())["chunk_grid"]
        np.testing.assert_array_equal(a[...], theirs[...])
        np.testing.assert_array_equal(ps.open(ours)[...], theirs[...])
        assert {key for key in ours if key.startswith("c/")} == {key for key in held if key.startswith("c/")}


def test_a_single_length_repeats_without_end(tmp_path: Path) -> None:
    a = ps.create_array(tmp_path, data=VALUES, chunks=[[2, 5, 9], 7])
    assert grid_of(tmp_path) == [[2, 5, 9], 7]
    a.append(np.full((16, 5), 9, "i4"), axis=1)
    assert grid_of(tmp_path) == [[2, 5, 9], 7]
    np.testing.assert_array_equal(a[:, 18:], 9)
    with pytest.raises(ValueError, match="a list of lengths of a dimension is empty"):
        ps.create_array({}, shape=(4, 4), dtype="i4", chunks=[[], 4])
