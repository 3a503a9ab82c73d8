"""How many requests, round trips and bytes the metadata of a remote HDF5 file needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.http_server import ROUND_TRIP, HttpServer

h5py = pytest.importorskip("h5py")

VARIABLES = 40
LAYOUTS: dict[str, dict[str, Any]] = {
    "spread": {},
    "spread, newest": {"libver": "latest"},
    "in front": {"libver": "latest", "meta_block_size": 1 << 20},
    "pages of 1 MiB": {"libver": "latest", "fs_strategy": "page", "fs_page_size": 1 << 20},
    "pages of 4 KiB": {"libver": "latest", "fs_strategy": "page", "fs_page_size": 4096},
}


def write(path: Path, **options: Any) -> bytes:
    values = np.random.default_rng(0).integers(0, 1 << 15, (200, 250), "i2")
    with h5py.File(path, "w", **options) as file:
        for name, length in (("y", 200), ("x", 250)):
            file.create_dataset(name, data=np.arange(float(length))).make_scale(name)
        for i in range(VARIABLES):
            made = file.create_dataset(f"var{i:02}", data=values, chunks=(50, 50))
            made.dims[0].attach_scale(file["y"])
            made.dims[1].attach_scale(file["x"])
            for k in range(12):
                made.attrs[f"attribute_{k}"] = "text " * 20
    return path.read_bytes()


def fetched(server: HttpServer) -> int:
    out = 0
    for each in server.requests:
        begin, _, end = each.headers["range"].removeprefix("bytes=").partition("-")
        assert each.method == "GET"
        assert begin
        out += int(end) - int(begin) + 1
    return out


def wave(server: HttpServer) -> int:
    return max(each.wave for each in server.requests) - min(each.wave for each in server.requests) + 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_members_are_read_together(tmp_path: Path, layout: str) -> None:
    content = write(tmp_path / "x.nc", **LAYOUTS[layout])
    with HttpServer({"x.nc": content}) as server:
        group = ps.open_group(f"{server.url}/x.nc")
        assert len(list(group)) == VARIABLES + 2
        listed, listed_bytes = len(server.requests), fetched(server)
        for name in group:
            assert len(group[name].attrs) == (12 if name.startswith("var") else 0)
        walked, walked_bytes = len(server.requests), fetched(server)
        assert group["var07"][3, 4] == ps.open(tmp_path / "x.nc", "var07")[3, 4]
    # A file of 4 MiB with 0.3 MiB of metadata; its beginning, and a megabyte after each object, are always fetched.
    assert walked_bytes < 3.5 * (1 << 20), (listed_bytes, walked_bytes)
    assert walked <= 5 * VARIABLES, "each variable by itself needs more"
    if layout == "pages of 1 MiB":
        assert listed <= 3
        assert walked <= 30
    if layout == "in front":
        assert listed <= 4


def test_metadata_in_one_place_take_three_round_trips(tmp_path: Path) -> None:
    for layout in ("in front", "pages of 1 MiB"):
        content = write(tmp_path / "x.nc", **LAYOUTS[layout])
        with HttpServer({"x.nc": content}, ROUND_TRIP) as server:
            group = ps.open_group(f"{server.url}/x.nc")
            assert len(list(group)) == VARIABLES + 2
            assert wave(server) <= 3, layout


def test_a_short_file_with_its_metadata_at_the_start_takes_two_round_trips(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["v"] = np.arange(1 << 18, dtype="i4")
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}, ROUND_TRIP) as server:
        assert ps.open_array(f"{server.url}/x.h5", "v")[1 << 17] == 1 << 17
        assert wave(server) <= 2


def test_a_long_file_with_its_metadata_at_the_start_is_opened_by_its_first_bytes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["v"] = np.arange(1 << 21, dtype="i4")
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}, ROUND_TRIP) as server:
        group = ps.open_group(f"{server.url}/x.h5")
        assert list(group) == ["v"]
        assert group["v"].shape == (1 << 21,)
        assert len(server.requests) == 1
        assert group["v"][1 << 20] == 1 << 20
        assert wave(server) == 2


def test_one_value_does_not_read_the_other_variables(tmp_path: Path) -> None:
    content = write(tmp_path / "x.nc", fs_strategy="page", fs_page_size=4096, libver="latest")
    with HttpServer({"x.nc": content}) as server:
        assert ps.open_array(f"{server.url}/x.nc/var07")[3, 4] == ps.open(tmp_path / "x.nc", "var07")[3, 4]
        assert len(server.requests) <= 20
        assert sum("range" in each.headers for each in server.requests) == len(server.requests)


@pytest.mark.parametrize("named", [True, False])
def test_one_value_of_an_object_in_one_place_takes_three_round_trips(tmp_path: Path, named: bool) -> None:
    """The first bytes, the links of the group, and the whole object with the nodes of its index and its chunks."""
    values = np.random.default_rng(0).integers(0, 1 << 15, (400, 400), "i2")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for i in range(8):
            made = file.create_dataset(f"v{i}", values.shape, "i2", chunks=(40, 50))
            for row in range(0, 400, 40):
                for column in range(0, 400, 50):
                    chunk = values[row : row + 40, column : column + 50]
                    made.id.write_direct_chunk((row, column), chunk.tobytes())
            for k in range(22):
                made.attrs[f"note_{k}"] = "text " * 20
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}, ROUND_TRIP) as server:
        url = f"{server.url}/x.h5"
        array = ps.open_array(url, "v5") if named else ps.open_group(url)["v5"]
        assert array[3, 4] == values[3, 4]
        assert wave(server) <= 3
        assert fetched(server) < 1 << 19
        assert len(array.attrs) == 22
        np.testing.assert_array_equal(array[...], values)


def test_opening_a_group_does_not_wait_for_its_links(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for i in range(200):  # the B-tree of the links has two levels
            file.create_dataset(f"v{i:03}", data=np.arange(4))
            if i == 9:
                file.create_dataset("space", data=np.zeros(2 << 20, "u1"))
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}, ROUND_TRIP) as server:
        group = ps.open_group(f"{server.url}/x.h5")
        assert wave(server) <= 2
        assert len(list(group)) == 201
        assert wave(server) <= 4


def test_one_of_many_members_is_found_without_the_others(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for i in range(2000):
            file.create_dataset(f"s{i:04}", data=np.arange(256.0) + i)
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}) as server:
        assert ps.open_array(f"{server.url}/x.h5", "s1500")[7] == 1507
        assert fetched(server) < 2 << 20, "of 4.6 MiB"
        with pytest.raises(ps.NotFoundError):
            ps.open(f"{server.url}/x.h5", "s1500x")


def test_a_netcdf_classic_file_named_nc_takes_one_more_request(tmp_path: Path) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    with scipy_io.netcdf_file(tmp_path / "x.nc", "w") as file:
        file.createDimension("x", 4)
        file.createVariable("v", "f4", ("x",))[:] = np.arange(4.0, dtype="f4")
    with HttpServer({"x.nc": (tmp_path / "x.nc").read_bytes()}) as server:
        np.testing.assert_array_equal(ps.open_array(f"{server.url}/x.nc/v")[:], np.arange(4.0, dtype="f4"))
        assert len(server.requests) <= 4
        server.objects["/bad.nc"] = b"CDF"
        with pytest.raises(ps.CorruptDataError):
            ps.open(f"{server.url}/bad.nc")


# Options of the file and of the dataset, and the levels of its index: the nodes that lead to one of 5041 chunks. The
# addresses of a level are in the one above.
INDEXES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "B-tree 1": ({}, {}, 3),
    "B-tree 2": ({"libver": "latest"}, {"maxshape": (None, None)}, 3),  # a header, an inner node, a leaf
    "extensible array": ({"libver": "latest"}, {"maxshape": (None, 710)}, 4),  # with an index block and a super block
    "fixed array": ({"libver": "latest"}, {"maxshape": (710, 710)}, 3),  # a header, a bitmap of pages, a page
}


@pytest.mark.parametrize("index", INDEXES)
def test_a_chunk_index_takes_a_round_trip_a_level(tmp_path: Path, index: str) -> None:
    of_file, of_dataset, levels = INDEXES[index]
    values = np.random.default_rng(3).integers(0, 1 << 15, (710, 710), "i2")
    with h5py.File(tmp_path / "x.h5", "w", **of_file) as file:
        made = file.create_dataset("x", values.shape, values.dtype, chunks=(10, 10), **of_dataset)
        file.create_dataset("space", data=np.zeros(2 << 20, "u1"))  # the index is not in the front of the file
        made[...] = values
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}, ROUND_TRIP) as server:
        for which in ((707, 3), (slice(None, None, 40), 705)):
            array = ps.open(f"{server.url}/x.h5", "x", context=ps.Context())
            server.forget()
            np.testing.assert_array_equal(array[which], values[which])
            assert server.waves <= levels + 1, (which, server.waves)  # and one for the values


def test_eight_megabytes_of_metadata_in_front_take_three_round_trips(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w", libver="latest", meta_block_size=8 << 20) as file:
        for i in range(2000):
            made = file.create_dataset(f"group{i % 5}/v{i:04}", data=np.arange(100.0))
            for k in range(6):
                made.attrs[f"attribute_{k}"] = "text " * 100
        file.create_dataset("space", data=np.zeros(4 << 20, "u1"))
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}, ROUND_TRIP) as server:
        group = ps.open_group(f"{server.url}/x.h5/group3")
        assert len(list(group)) == 400
        assert server.waves <= 3
        assert fetched(server) < 20 << 20


# The library's default size of pages: metadata is in many of them, between those of values. Levels of a list: symbol
# nodes, headers and their continuations; or a heap with its B-tree, their inner nodes, their leaves and headers.
@pytest.mark.parametrize(("libver", "levels"), [("earliest", 3), ("latest", 4)])
def test_pages_of_4_kib_take_a_round_trip_a_level(tmp_path: Path, libver: str, levels: int) -> None:
    content = write(tmp_path / "x.nc", libver=libver, fs_strategy="page", fs_page_size=4096)
    assert len(content) > 6 << 20
    with HttpServer({"x.nc": content}, ROUND_TRIP) as server:
        group = ps.open_group(f"{server.url}/x.nc")
        assert len(list(group)) == VARIABLES + 2
        assert wave(server) <= 1 + levels
        for name in group:
            assert len(group[name].attrs) == (12 if name.startswith("var") else 0)
        assert wave(server) <= 1 + levels + 1
        # At most twice the 0.4 MB of metadata, and 1.25 MiB.
        assert fetched(server) <= 2_110_000
