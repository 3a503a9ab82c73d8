"""Virtual datasets: every kind of mapping, as h5py reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import penstock
import pytest
from support.hdf5_values import numbered, reads_as_h5py

h5py = pytest.importorskip("h5py")

SOURCES: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (3, 4)},
    "gzip": {"chunks": (4, 7), "compression": "gzip", "shuffle": True},
    "one chunk": {"chunks": (24, 18), "compression": "gzip"},
    "rows": {"chunks": (1, 18), "compression": "lzf"},
}


def _sources(folder: Path, count: int, **options: Any) -> None:
    for i in range(count):
        with h5py.File(folder / f"s{i}.h5", "w") as file:
            file.create_dataset("x", data=numbered(i), **options)


@pytest.mark.parametrize("options", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(
    "mapping",
    [
        "stacked",
        "behind",
        "next to each other",
        "parts",
        "interleaved",
        "every other",
        "mosaic",
        "gaps",
        "overlapping blocks",
    ],
)
def test_mappings_of_boxes(tmp_path: Path, options: dict[str, Any], mapping: str) -> None:
    _sources(tmp_path, 4, **options)
    sources = [h5py.VirtualSource(f"s{i}.h5", "x", (24, 18)) for i in range(4)]
    if mapping == "stacked":
        layout = h5py.VirtualLayout((4, 24, 18), "<i4")
        for i, source in enumerate(sources):
            layout[i] = source
    elif mapping == "behind":
        layout = h5py.VirtualLayout((96, 18), "<i4")
        for i, source in enumerate(sources):
            layout[24 * i : 24 * (i + 1)] = source
    elif mapping == "next to each other":
        layout = h5py.VirtualLayout((24, 72), "<i4")
        for i, source in enumerate(sources):
            layout[:, 18 * i : 18 * (i + 1)] = source
    elif mapping == "parts":
        layout = h5py.VirtualLayout((30, 11), "<i4")
        for i, source in enumerate(sources):
            layout[7 * i : 7 * (i + 1)] = source[5 + i : 12 + i, 3:14]
    elif mapping == "interleaved":
        layout = h5py.VirtualLayout((96, 18), "<i4")
        for i, source in enumerate(sources):
            layout[i::4] = source
    elif mapping == "every other":
        layout = h5py.VirtualLayout((4, 12, 6), "<i4")
        for i, source in enumerate(sources):
            layout[i] = source[::2, ::3]
    elif mapping == "mosaic":
        layout = h5py.VirtualLayout((48, 36), "<i4", maxshape=(None, None))
        for i, source in enumerate(sources):
            row, column = divmod(i, 2)
            layout[24 * row : 24 * row + 24, 18 * column : 18 * column + 18] = source
    elif mapping == "gaps":
        layout = h5py.VirtualLayout((120, 20), "<i4")
        for i, source in enumerate(sources):
            layout[30 * i + 2 : 30 * i + 26, 1:19] = source
    else:  # the same source several times
        layout = h5py.VirtualLayout((3, 10, 18), "<i4")
        for i in range(3):
            layout[i] = sources[0][3 * i : 3 * i + 10]
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-7)
    reads_as_h5py(tmp_path / "v.h5")


def test_alternating_frames_are_parts_of_chunks(tmp_path: Path) -> None:
    """Ten frames in a chunk, from four writers in turn: each frame of the dataset is a part of a chunk."""
    _sources(tmp_path, 4, chunks=(8, 18), compression="gzip", shuffle=True)
    layout = h5py.VirtualLayout((96, 18), "<i4")
    for i in range(4):
        layout[i::4] = h5py.VirtualSource(f"s{i}.h5", "x", (24, 18))
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    a = reads_as_h5py(tmp_path / "v.h5")
    assert a.nchunks == 96
    plan = a.plan(...)
    assert plan.requests == 4
    reversed_rows = a[::-1]
    np.testing.assert_array_equal(reversed_rows[::-1], a[...])


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">u2", "|u1", "<c8", [("a", "<i2"), ("b", ">f8")], ("<f4", (3, 2))])
def test_types(tmp_path: Path, dtype: Any) -> None:
    dtype = np.dtype(dtype)
    values = np.zeros((12, 10), dtype if dtype.subdtype is None else dtype.base)
    if dtype.subdtype is not None:
        values = np.arange(12 * 10 * 6).reshape(12, 10, 3, 2).astype(dtype.base)
    elif dtype.names:
        values["a"] = np.arange(120).reshape(12, 10)
        values["b"] = values["a"] / 3
    else:
        values = np.arange(120).reshape(12, 10).astype(dtype)
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        x = file.create_dataset("x", (12, 10), dtype, chunks=(5, 4), compression="gzip")
        x[...] = values
        layout = h5py.VirtualLayout((6, 2, 10), dtype)
        source = h5py.VirtualSource(x)
        layout[:, 0] = source[::2]
        layout[:, 1] = source[1::2]
        file.create_virtual_dataset("v", layout)
    reads_as_h5py(tmp_path / "v.h5")


def test_a_source_of_swapped_byte_order(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file["big"] = numbered(0, dtype=">i4")
        file["little"] = numbered(1)
        layout = h5py.VirtualLayout((2, 24, 18), "<i4")
        layout[0] = h5py.VirtualSource(file["big"])
        layout[1] = h5py.VirtualSource(file["little"])
        file.create_virtual_dataset("v", layout)
    reads_as_h5py(tmp_path / "v.h5")


NUMBERS = ["i1", "<u2", ">i4", "<i8", "<u8", "<f2", ">f4", "<f8"]


@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
@pytest.mark.parametrize("to", [each for each in NUMBERS if each != "<f2"])
def test_sources_of_another_type_are_converted(tmp_path: Path, to: str, layout: str) -> None:
    """The HDF5 library does the same: integers are clamped to the limits of the type, floats lose their fraction."""
    values = np.array([0, 1, -1, 2.5, -2.5, 3.99, 127, 128, -129, 255, 40000, -40000, 2**31 - 1, 2**31, 1e9, 6e4])
    for number, kind in enumerate(NUMBERS):
        dtype = np.dtype(kind)
        limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
        stored = np.clip(values, float(limits.min), float(limits.max) * (1 if dtype.itemsize < 8 else 0.5)).astype(kind)
        if kind == "<f2" and np.dtype(to).kind == "u":  # the library converts negative float16 to large numbers
            stored = np.abs(stored)
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w", libver="latest") as file:
            options = {"chunks": (3, 3), "compression": "gzip"} if layout == "gzip" else {}
            file.create_dataset("x", data=stored.reshape(4, 4), **options)
            shown = h5py.VirtualLayout((4, 6), to)
            shown[:, 1:5] = h5py.VirtualSource(file["x"])
            file.create_virtual_dataset("v", shown, fillvalue=7)
        assert reads_as_h5py(path).dtype == np.dtype(to).newbyteorder("=")


def test_conversion_of_chunks_that_were_never_written(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        made = file.create_dataset("x", (6, 6), "<i4", chunks=(3, 3), fillvalue=70000)
        made[:3, :3] = -70000
        layout = h5py.VirtualLayout((6, 9), "<i2")
        layout[:, 2:8] = h5py.VirtualSource(made)
        file.create_virtual_dataset("v", layout, fillvalue=-1)
    reads_as_h5py(tmp_path / "v.h5")


def test_a_source_of_an_incompatible_type_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file["x"] = numbered(0).astype("S8")
        layout = h5py.VirtualLayout((24, 18), "<i4")
        layout[...] = h5py.VirtualSource(file["x"])
        file.create_virtual_dataset("v", layout)
    with pytest.raises(penstock.UnsupportedError, match=r"of int32 that show .* of '/?x'"):
        penstock.open(tmp_path / "v.h5", "v")


def test_absent_sources_are_the_fill_value(tmp_path: Path) -> None:
    _sources(tmp_path, 2)
    with h5py.File(tmp_path / "s1.h5", "a") as file:
        file.create_dataset("sparse", (24, 18), "<i4", chunks=(5, 5), fillvalue=9)[3:5, 2:14] = 4
    layout = h5py.VirtualLayout((5, 24, 18), "<i4")
    layout[0] = h5py.VirtualSource("s0.h5", "x", (24, 18))
    layout[1] = h5py.VirtualSource("absent.h5", "x", (24, 18))
    layout[2] = h5py.VirtualSource("s1.h5", "absent", (24, 18))
    layout[3] = h5py.VirtualSource("s1.h5", "sparse", (24, 18))
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-7)
    a = reads_as_h5py(tmp_path / "v.h5")
    assert (a[1:3] == -7).all()
    assert a[3, 20, 17] == 9


def test_virtual_datasets_of_virtual_datasets(tmp_path: Path) -> None:
    _sources(tmp_path, 2, chunks=(5, 5), compression="gzip")
    layout = h5py.VirtualLayout((2, 24, 18), "<i4")
    for i in range(2):
        layout[i] = h5py.VirtualSource(f"s{i}.h5", "x", (24, 18))
    with h5py.File(tmp_path / "inner.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    inner = h5py.VirtualSource("inner.h5", "v", (2, 24, 18))
    layout = h5py.VirtualLayout((10, 2, 18), "<i4")
    layout[:, 0] = inner[0, 4:14]
    layout[:, 1] = inner[1, 2:22:2]
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    reads_as_h5py(tmp_path / "v.h5")


def test_datasets_that_refer_to_each_other_are_refused(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        layout = h5py.VirtualLayout((4,), "<i4")
        layout[...] = h5py.VirtualSource(f"{other}.h5", "v", (4,))
        with h5py.File(tmp_path / f"{one}.h5", "w", libver="latest") as file:
            file.create_virtual_dataset("v", layout)
    with pytest.raises(penstock.UnsupportedError, match="show each other through more than 8 levels"):
        penstock.open(tmp_path / "a.h5", "v")


def test_a_small_file_does_not_describe_very_many_chunks(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_dataset("unwritten", (2**22,), "u1", chunks=(1,))
        file.create_dataset("written", (2**12, 2**12), "u1", chunks=(1, 2**12), compression="gzip")[0] = 1
        for name, shape in (("unwritten", (2**22,)), ("written", (2**12, 2**12))):
            layout = h5py.VirtualLayout(shape, "u1")
            layout[...] = h5py.VirtualSource(file[name])
            file.create_virtual_dataset(f"v {name}", layout)
    with pytest.raises(penstock.UnsupportedError, match="too many chunks along one dimension"):
        penstock.open(tmp_path / "v.h5", "v unwritten")
    assert penstock.open(tmp_path / "v.h5", "v written")[0, 5] == 1


def test_a_source_that_many_datasets_show_is_described_once(tmp_path: Path) -> None:
    """Seven levels of four datasets, of which each shows all four of the next level: 4^7 ways to the last one."""
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file["0"] = np.arange(4, dtype="u1")
        for level in range(1, 8):
            for number in range(4) if level < 7 else [0]:
                layout = h5py.VirtualLayout((4,), "u1")
                for i in range(4):
                    below = f"{level - 1}.{i}" if level > 1 else "0"
                    layout[i : i + 1] = h5py.VirtualSource(".", below, (4,), "u1")[i : i + 1]
                file.create_virtual_dataset(f"{level}.{number}", layout)
    assert penstock.open(tmp_path / "v.h5", "7.0")[...].tolist() == [0, 1, 2, 3]


def _low_level(path: Path, shape: tuple[int, ...], most: tuple[Any, ...], mappings: list[Any], fill: int = -7) -> None:
    """Make a virtual dataset from mappings of (dataspace, file, dataset, dataspace of the source)."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_fill_value(np.array(fill, "<i4"))
    for here, file, dataset, there in mappings:
        plist.set_virtual(here, file.encode(), dataset.encode(), there)
    space = h5py.h5s.create_simple(shape, most)
    with h5py.File(path, "w", libver="latest") as file:
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, space, plist)


def _space(shape: tuple[int, ...], most: tuple[Any, ...] | None = None, **slab: Any) -> Any:
    made = h5py.h5s.create_simple(shape, most or shape)
    if slab:
        made.select_hyperslab(**slab)
    return made


def test_unions_of_boxes_and_other_shapes(tmp_path: Path) -> None:
    _sources(tmp_path, 1, chunks=(5, 4), compression="gzip")
    union = _space((24, 18), start=(2, 3), count=(1, 1), block=(3, 5))
    union.select_hyperslab((4, 6), (1, 1), None, (4, 9), h5py.h5s.SELECT_OR)
    size = union.get_select_npoints()
    _low_level(
        tmp_path / "v.h5",
        (4, 100),
        (4, 100),
        [
            (_space((4, 100), start=(0, 0), count=(1, 1), block=(1, size)), "s0.h5", "x", union),
            (
                _space((4, 100), start=(1, 2), count=(1, 8), stride=(1, 12), block=(1, 6)),
                "s0.h5",
                "x",
                _space((24, 18), start=(1, 1), count=(6, 8), stride=(3, 2), block=(1, 1)),
            ),
        ],
    )
    reads_as_h5py(tmp_path / "v.h5")


@pytest.mark.parametrize("rows", [0, 3, 5, 24])
def test_mappings_without_a_limit_grow_with_their_sources(tmp_path: Path, rows: int) -> None:
    unlimited = h5py.h5s.UNLIMITED
    for i in range(3):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            x = file.create_dataset("x", (max(rows - i, 0), 18), "<i4", maxshape=(None, 18), chunks=(5, 18))
            x[...] = numbered(i)[: max(rows - i, 0)]
    mappings = []
    for i in range(3):  # interleaved frames of three writers
        here = _space((0, 18), (unlimited, 18), start=(i, 0), count=(unlimited, 1), stride=(3, 1), block=(1, 18))
        there = _space((0, 18), (unlimited, 18), start=(0, 0), count=(unlimited, 1), stride=(1, 1), block=(1, 18))
        mappings.append((here, f"s{i}.h5", "x", there))
    _low_level(tmp_path / "v.h5", (0, 18), (unlimited, 18), mappings)
    reads_as_h5py(tmp_path / "v.h5")
    here = _space((0, 18), (unlimited, 18), start=(2, 0), count=(1, 1), stride=(1, 1), block=(unlimited, 18))
    there = _space((0, 18), (unlimited, 18), start=(1, 0), count=(1, 1), stride=(1, 1), block=(unlimited, 18))
    _low_level(tmp_path / "w.h5", (0, 18), (unlimited, 18), [(here, "s0.h5", "x", there)])
    reads_as_h5py(tmp_path / "w.h5")
    here = _space((0, 18), (unlimited, 18), start=(1, 0), count=(unlimited, 1), stride=(5, 1), block=(2, 18))
    there = _space((0, 18), (unlimited, 18), start=(0, 0), count=(unlimited, 1), stride=(4, 1), block=(2, 18))
    _low_level(tmp_path / "u.h5", (0, 18), (unlimited, 18), [(here, "s0.h5", "x", there)])
    reads_as_h5py(tmp_path / "u.h5")


@pytest.mark.parametrize("files", [0, 1, 3])
def test_patterns_of_names(tmp_path: Path, files: int) -> None:
    unlimited = h5py.h5s.UNLIMITED
    _sources(tmp_path, files, chunks=(5, 18))
    here = _space((0, 18), (unlimited, 18), start=(0, 0), count=(unlimited, 1), stride=(24, 1), block=(24, 18))
    _low_level(tmp_path / "v.h5", (0, 18), (unlimited, 18), [(here, "s%b.h5", "x", _space((24, 18)))])
    reads_as_h5py(tmp_path / "v.h5")
    with h5py.File(tmp_path / "one%.h5", "w") as file:
        for i in range(files):
            file[f"part{i}"] = numbered(i)
    here = _space((0, 18), (unlimited, 18), start=(1, 0), count=(unlimited, 1), stride=(11, 1), block=(10, 18))
    there = _space((24, 18), start=(3, 0), count=(1, 1), block=(10, 18))
    _low_level(tmp_path / "w.h5", (0, 18), (unlimited, 18), [(here, "one%%.h5", "part%b", there)])
    reads_as_h5py(tmp_path / "w.h5")


def test_manifests_and_copies(tmp_path: Path) -> None:
    _sources(tmp_path, 3, chunks=(5, 4), compression="gzip")
    layout = h5py.VirtualLayout((3, 10, 18), "<i4")
    for i in range(3):
        layout[i] = h5py.VirtualSource(f"s{i}.h5", "x", (24, 18))[3:13]
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    a = reads_as_h5py(tmp_path / "v.h5")
    penstock.save_manifest(a, tmp_path / "v.manifest")
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.manifest")[...], a[...])
    penstock.copy(a, tmp_path / "v.zarr")
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.zarr")[...], a[...])


def test_a_file_in_a_store_finds_its_neighbours(tmp_path: Path) -> None:
    _sources(tmp_path, 2)
    layout = h5py.VirtualLayout((2, 24, 18), "<i4")
    for i in range(2):
        layout[i] = h5py.VirtualSource(f"s{i}.h5", "x", (24, 18))
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    expected = penstock.open(tmp_path / "v.h5", "v")[...]
    obstore = pytest.importorskip("obstore")
    store = obstore.store.MemoryStore()
    for each in tmp_path.iterdir():
        obstore.put(store, f"run/{each.name}", each.read_bytes())
    np.testing.assert_array_equal(penstock.open(store, "run/v.h5/v")[...], expected)
    with pytest.raises(penstock.UnsupportedError, match=r"shows 's0\.h5', which was not found"):
        penstock.open((tmp_path / "v.h5").read_bytes(), "v")
    obstore.delete(store, "run/s1.h5")
    with pytest.raises(penstock.UnsupportedError, match=r"shows 's1\.h5', which was not found"):
        penstock.open(store, "run/v.h5/v")
    layout = h5py.VirtualLayout((24, 18), "<i4")
    layout[...] = h5py.VirtualSource(str(tmp_path / "s0.h5"), "x", (24, 18))
    with h5py.File(tmp_path / "w.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    reads_as_h5py(tmp_path / "w.h5")
    with pytest.raises(penstock.UnsupportedError, match="which is not in the same store"):
        penstock.open({"w.h5": (tmp_path / "w.h5").read_bytes()}, "w.h5/v")


def test_folders_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i, folder in enumerate(("data", "other")):
        (tmp_path / folder).mkdir()
        with h5py.File(tmp_path / folder / "s.h5", "w") as file:
            file["x"] = numbered(i)
    (tmp_path / "data" / "raw").write_bytes(numbered(5).tobytes())
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        layout = h5py.VirtualLayout((24, 18), "<i4")
        layout[...] = h5py.VirtualSource("s.h5", "x", (24, 18))
        file.create_virtual_dataset("v", layout)
        file["link"] = h5py.ExternalLink("s.h5", "x")
        file.create_dataset("external", (24, 18), "<i4", external=[("raw", 0, h5py.h5f.UNLIMITED)])
    assert (penstock.open(tmp_path / "v.h5", "v")[...] == 0).all()
    monkeypatch.setenv("HDF5_VDS_PREFIX", "${ORIGIN}/nowhere:${ORIGIN}/data")
    monkeypatch.setenv("HDF5_EXT_PREFIX", str(tmp_path / "other"))
    monkeypatch.setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}/data")
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.h5", "v")[...], numbered(0))
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.h5", "link")[...], numbered(1))
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.h5", "external")[...], numbered(5))


def test_sources_in_headers_and_with_their_own_fill_values(tmp_path: Path) -> None:
    for i in range(3):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((4,))
            compact = h5py.Dataset(h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32LE, space, properties))
            compact[...] = numbered(i, (4,))
            file.create_dataset("filled", (4,), "<i4", fillvalue=5 + i, chunks=(2,))
    with h5py.File(tmp_path / "v.h5", "w") as file:
        for name in ("compact", "filled"):
            layout = h5py.VirtualLayout((3, 4), "<i4")
            for i in range(3):
                layout[i] = h5py.VirtualSource(f"s{i}.h5", name, (4,))
            file.create_virtual_dataset(name, layout)
    for name in ("compact", "filled"):
        a = reads_as_h5py(tmp_path / "v.h5", name)
        penstock.save_manifest(a, tmp_path / "m")
        np.testing.assert_array_equal(penstock.open(tmp_path / "m")[...], a[...])
