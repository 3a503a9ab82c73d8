"""Chunk indexes of remote HDF5 files are read by the first read of values, not when a member is opened."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")

SHAPE = (203, 251)
VARIABLES = 6
LAST = f"v{VARIABLES - 1:02}"

INDEXES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "B-tree 1": ({}, {}),
    "B-tree 2": ({"libver": "latest"}, {"maxshape": (None, None)}),
    "extensible array": ({"libver": "latest"}, {"maxshape": (None, SHAPE[1])}),
    "fixed array": ({"libver": "latest"}, {"maxshape": SHAPE}),
    "one chunk": ({"libver": "latest"}, {"chunks": SHAPE, "maxshape": SHAPE}),
}
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "shuffle and gzip": {"compression": "gzip", "shuffle": True},
    "lzf, which some chunks skip": {"compression": "lzf", "shuffle": True},
    "gzip and checksums": {"compression": "gzip", "shuffle": True, "fletcher32": True},
}


def values_of(number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    out = rng.integers(0, 1 << 16, SHAPE, "u2")  # lzf cannot compress these values
    out[: SHAPE[0] // 2] = number
    return out


def write(path: Path, index: str, filters: str, holes: bool = False) -> dict[str, np.ndarray]:
    """Write variables whose metadata are between the values of others."""
    of_file, of_dataset = INDEXES[index]
    out = {}
    with h5py.File(path, "w", **of_file) as file:
        for number in range(VARIABLES):
            name = f"v{number:02}"
            made = file.create_dataset(
                name, SHAPE, "u2", **{"chunks": (7, 11), "fillvalue": 9} | of_dataset | FILTERS[filters]
            )
            out[name] = values_of(number)
            if holes:
                made[50:60, 30:90] = out[name][50:60, 30:90]
                out[name] = made[:]
            else:
                made[...] = out[name]
            made.attrs["note"] = "text " * 50
            file.create_dataset(f"space{number:02}", data=np.zeros(200_000, "u1"))
    return out


@matrix
@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("holes", [False, True])
def test_members_of_a_list_have_the_values_of_h5py(tmp_path: Path, index: str, filters: str, holes: bool) -> None:
    expected = write(tmp_path / "x.h5", index, filters, holes)
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}) as server:
        group = ps.open_group(f"{server.url}/x.h5")
        members = {name: group[name] for name in group}
        for name, values in expected.items():
            array = members[name]
            assert array.shape == SHAPE
            assert array[101, 250] == values[101, 250]
            np.testing.assert_array_equal(array[:], values)
            np.testing.assert_array_equal(array[::3, 5:60], values[::3, 5:60])
        local = ps.open_group(tmp_path / "x.h5")
        assert all(local[name].storage == members[name].storage for name in expected)


@pytest.mark.parametrize("index", INDEXES)
def test_manifests_and_references_of_a_list_hold_all_chunks(tmp_path: Path, index: str) -> None:
    expected = write(tmp_path / "x.h5", index, "none")
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}) as server:
        group = ps.open_group(f"{server.url}/x.h5")
        assert len([group[name] for name in group]) == 2 * VARIABLES
        ps.save_manifest(group, tmp_path / "x.manifest")
        ps.save_references(group, tmp_path / "x.json")
        ps.save_manifest(group["v03"], tmp_path / "v03.manifest")
        for name in ("v00", LAST):
            np.testing.assert_array_equal(ps.open(tmp_path / "x.manifest")[name][:], expected[name])
            np.testing.assert_array_equal(ps.open(tmp_path / "x.json")[name][:], expected[name])
        np.testing.assert_array_equal(ps.open(tmp_path / "v03.manifest")[:], expected["v03"])


def test_opening_the_members_of_a_list_does_not_read_their_chunk_indexes(tmp_path: Path) -> None:
    write(tmp_path / "x.h5", "B-tree 1", "none")
    content = (tmp_path / "x.h5").read_bytes()
    damaged = content.replace(b"TREE\x01\x00", b"TREE\x07\x00")  # the leaves of the chunk indexes
    assert damaged != content
    with HttpServer({"x.h5": damaged}) as server:
        url = f"{server.url}/x.h5"
        group = ps.open_group(url)
        last = [group[name] for name in group if name.startswith("v")][-1]
        with pytest.raises(ps.CorruptDataError, match=f"(?s)B-tree of chunks.*{LAST}"):
            last[:]
        with pytest.raises(ps.CorruptDataError, match=f"(?s)B-tree of chunks.*{LAST}"):
            last[100, 3]
        with pytest.raises(ps.CorruptDataError, match="B-tree of chunks"):
            ps.save_manifest(last, tmp_path / "x.manifest")
        with pytest.raises(ps.CorruptDataError, match="B-tree of chunks"):
            ps.open_array(f"{url}/{LAST}")


def test_threads_that_read_first_at_the_same_time_get_the_same(tmp_path: Path) -> None:
    expected = write(tmp_path / "x.h5", "B-tree 1", "shuffle and gzip")
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}) as server:
        group = ps.open_group(f"{server.url}/x.h5")
        arrays = [group[name] for name in expected]
        with ThreadPoolExecutor(8) as pool:
            for name, array in zip(expected, arrays, strict=True):
                for found in pool.map(lambda _, array=array: array[:], range(8)):
                    np.testing.assert_array_equal(found, expected[name])


def test_a_file_that_changed_before_the_first_read_is_a_conflict(tmp_path: Path) -> None:
    write(tmp_path / "x.h5", "B-tree 1", "none")
    content = (tmp_path / "x.h5").read_bytes()
    with HttpServer({"x.h5": content}) as server:
        group = ps.open_group(f"{server.url}/x.h5")
        last = [group[name] for name in group if name.startswith("v")][-1]
        server.put("x.h5", content + b"more")
        with pytest.raises(ps.ConflictError):
            last[:]


def test_copies_of_a_listed_group_hold_all_values(tmp_path: Path) -> None:
    expected = write(tmp_path / "x.h5", "fixed array", "shuffle and gzip")
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}) as server:
        group = ps.open_group(f"{server.url}/x.h5")
        assert len([group[name] for name in group]) == 2 * VARIABLES
        ps.copy(group, tmp_path / "x.zarr")
    for name, values in expected.items():
        np.testing.assert_array_equal(ps.open(tmp_path / "x.zarr")[name][:], values)
