"""Fractal heaps whose blocks and huge objects have filters: links of groups that were created with filters."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import penstock as ps
import pytest

h5py = pytest.importorskip("h5py")
numcodecs = pytest.importorskip("numcodecs")

DEFLATE, FLETCHER32, LZF = 1, 3, 32000
OPTIONAL = 1
PIPELINES = {
    "deflate": [(DEFLATE, 0, (6,))],
    "checksum": [(FLETCHER32, 0, ())],
    "deflate and checksum": [(DEFLATE, 0, (1,)), (FLETCHER32, 0, ())],
    "optional": [(DEFLATE, OPTIONAL, (9,))],
}


def library() -> ctypes.CDLL:
    """The HDF5 library of h5py: it sets filters of a group, for which h5py has no function."""
    found = list((Path(h5py.__file__).parent.parent / "h5py.libs").glob("libhdf5-*.so*"))
    if not found:
        pytest.skip("h5py has no HDF5 library of its own")
    return ctypes.CDLL(str(found[0]))


def create_group(file: h5py.File, name: str, filters: list[tuple[int, int, tuple[int, ...]]]) -> h5py.Group:
    properties = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    properties.set_link_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    for number, flags, values in filters:
        status = library().H5Pset_filter(
            ctypes.c_int64(properties.id),
            ctypes.c_int(number),
            ctypes.c_uint(flags),
            ctypes.c_size_t(len(values)),
            (ctypes.c_uint * max(1, len(values)))(*values),
        )
        assert status >= 0
    return h5py.Group(h5py.h5g.create(file.id, name.encode(), gcpl=properties))


def incompressible(count: int) -> str:
    return "".join(chr(c) for c in np.random.default_rng(3).integers(33, 127, count))


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("links", [9, 300, 6000])
def test_links_of_groups_with_filters(tmp_path: Path, pipeline: str, links: int) -> None:
    """Few links are in one block, many in rows of blocks, and long ones in objects of their own."""
    path = tmp_path / "x.h5"
    long = "/" + incompressible(5000).replace("/", "_")
    with h5py.File(path, "w", libver="latest") as file:
        file["data"] = np.arange(5)
        group = create_group(file, "g", PIPELINES[pipeline])
        for i in range(links):
            group[f"member {i:05d}"] = h5py.SoftLink("/data")
        group["hard"] = file["data"]
        group["zeros"] = h5py.SoftLink("/" + "x" * 40000)
        group["long"] = h5py.SoftLink(long)
        group.create_dataset("own", data=np.arange(7.0))
    assert b"FRHP" in path.read_bytes()
    found = ps.open_group(path, "g")
    assert sorted(found) == sorted([f"member {i:05d}" for i in range(links)] + ["hard", "own"])
    assert found.names_in_file_order[:2] == ["member 00000", "member 00001"]
    assert found["hard"][...].tolist() == [0, 1, 2, 3, 4]
    assert found[f"member {links - 1:05d}"][2] == 2
    assert ps.open(path, "g/own")[3] == 3.0
    with pytest.raises(ps.NotFoundError):
        found["long"]


def test_damaged_blocks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        group = create_group(file, "g", PIPELINES["deflate"])
        for i in range(300):
            group[f"member {i}"] = h5py.SoftLink("/")
    whole = bytearray(path.read_bytes())
    heap = whole.index(b"FRHP")
    blocks = [at for at in range(heap, len(whole) - 1) if whole[at] == 0x78 and whole[at + 1] in (0x01, 0x9C, 0xDA)]
    for at in blocks:
        whole[at + 10] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(ps.Error):
        list(ps.open_group(path, "g"))


def test_filters_that_are_not_readable_are_named(tmp_path: Path) -> None:
    """The number of the filter in the heap is replaced by one without a meaning; checksums of the header too."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        group = create_group(file, "g", PIPELINES["checksum"])
        for i in range(30):
            group[f"member {i}"] = h5py.SoftLink("/")
    whole = bytearray(path.read_bytes())
    heap = whole.index(b"FRHP")
    length = int.from_bytes(whole[heap + 7 : heap + 9], "little")
    size = 9 + 5 + 12 * 8 + 3 * 8 + 8 + 8 + 4 + length
    number = heap + size - length + 2
    assert int.from_bytes(whole[number : number + 2], "little") == FLETCHER32
    whole[number : number + 2] = (250).to_bytes(2, "little")
    checksum = numcodecs.checksum32.JenkinsLookup3(initval=0).encode(bytes(whole[heap : heap + size]))[-4:]
    whole[heap + size : heap + size + 4] = checksum
    path.write_bytes(whole)
    with pytest.raises(ps.UnsupportedError, match="HDF5 filter 250"):
        list(ps.open_group(path, "g"))
