"""Datasets of many HDF5 files as one array: stored in any way, read without h5py."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

h5py = pytest.importorskip("h5py")

ROWS = [5, 0, 9, 2]


def values(number: int, rows: int, columns: int = 6, dtype: Any = "<i4") -> np.ndarray:
    return (np.arange(rows * columns).reshape(rows, columns) + 1000 * number).astype(dtype)


def clipped(options: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    if 0 in shape or "chunks" not in options:
        return {} if 0 in shape else options
    return {**options, "chunks": tuple(min(c, n) for c, n in zip(options["chunks"], shape, strict=True))}


def check(array: ps.Array, expected: np.ndarray, folder: Path) -> None:
    """Compare values, selections, a pickle and a manifest."""
    assert array.shape == expected.shape
    np.testing.assert_array_equal(array[...], expected)
    np.testing.assert_array_equal(array[1:-1:3, ::2], expected[1:-1:3, ::2])
    np.testing.assert_array_equal(array.vindex[[0, -1, 3], [1, 0, -1]], expected[[0, -1, 3], [1, 0, -1]])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], expected)
    if array.format == "hdf5":
        ps.save_manifest(array, folder / "saved")
        for opened in (ps.open(folder / "saved"), ps.open_shards(folder / "saved")):
            np.testing.assert_array_equal(opened[...], expected)
            assert opened._shard_lengths() == array._shard_lengths()


WAYS: dict[str, list[dict[str, Any]]] = {
    "filters": [
        {"chunks": (2, 6)},
        {"chunks": (2, 6), "compression": "gzip"},
        {"chunks": (2, 6), "compression": "gzip", "shuffle": True},
        {"chunks": (2, 6), "compression": "lzf", "fletcher32": True},
    ],
    "levels": [{"chunks": (2, 6), "compression": "gzip", "compression_opts": level} for level in (1, 9, 4, 6)],
    "byte orders": [{"chunks": (2, 6), "dtype": dtype} for dtype in ("<i4", ">i4", "<i4", ">i4")],
    "chunk lengths": [{"chunks": (n, 6), "compression": "gzip"} for n in (1, 2, 7, 3)],
    "with and without chunks": [{}, {"chunks": (2, 6)}, {"chunks": (3, 6), "compression": "gzip"}, {}],
    "all": [
        {"dtype": ">i4"},
        {},
        {"chunks": (4, 6), "compression": "gzip", "shuffle": True},
        {"chunks": (1, 6), "dtype": ">i4"},
    ],
}


@pytest.mark.parametrize("way", WAYS)
def test_mixed_filters_chunks_and_byte_orders_are_one_table(tmp_path: Path, way: str) -> None:
    parts = [values(i, rows) for i, rows in enumerate(ROWS)]
    for i, (part, options) in enumerate(zip(parts, WAYS[way], strict=True)):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            file.create_dataset("x", data=part, **clipped({"dtype": "<i4", **options}, part.shape))
            file["x"].attrs["number"] = np.int16(i)
    array = ps.open_shards(tmp_path / "s*.h5", dataset="x")
    assert array.format == "hdf5"
    assert array.typed_attributes["number"].dtype == np.int16
    assert array.attrs["number"] == 0
    check(array, np.concatenate(parts), tmp_path)


def test_columns_with_different_filters_are_one_table(tmp_path: Path) -> None:
    parts = [values(i, 6, columns) for i, columns in enumerate((4, 8, 3))]
    for i, part in enumerate(parts):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            options = {"compression": "gzip"} if i == 1 else {}
            file.create_dataset("x", data=part, chunks=(2, min(4, part.shape[1])), **options)
    array = ps.open_shards(tmp_path / "s*.h5", dataset="x", axis=-1)
    assert array.format == "hdf5"
    check(array, np.concatenate(parts, 1), tmp_path)


def test_chunks_that_skip_filters(tmp_path: Path) -> None:
    parts = [values(i, 8) for i in range(3)]
    for i, part in enumerate(parts):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            dataset = file.create_dataset("x", (8, 6), "<i4", chunks=(2, 6), compression="gzip", shuffle=i == 2)
            dataset[...] = part
            dataset.id.write_direct_chunk((2 * i, 0), part[2 * i : 2 * i + 2].tobytes(), filter_mask=0b11)
    array = ps.open_shards(tmp_path / "s*.h5", dataset="x")
    assert array.format == "hdf5"
    check(array, np.concatenate(parts), tmp_path)


@pytest.mark.parametrize("gaps", [False, True])
def test_different_fill_values(tmp_path: Path, gaps: bool) -> None:
    parts = [values(i, 8) for i in range(3)]
    for i, part in enumerate(parts):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            dataset = file.create_dataset("x", (8, 6), "<i4", chunks=(2, 6), fillvalue=-i)
            dataset[...] = part
        if gaps:
            with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
                dataset = file.create_dataset("x", (8, 6), "<i4", chunks=(2, 6), fillvalue=-i)
                dataset[2:4] = part[2:4]
            part[:2], part[4:] = -i, -i
    array = ps.open_shards(tmp_path / "s*.h5", dataset="x")
    assert (array.format == "hdf5") == (not gaps)
    check(array, np.concatenate(parts), tmp_path)


MAPPINGS = ["stacked", "behind", "next to each other", "parts", "interleaved", "every other", "gaps"]


@pytest.mark.parametrize("options", [{}, {"chunks": (4, 7), "compression": "gzip"}], ids=["contiguous", "gzip"])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_virtual_datasets_of_every_mapping(tmp_path: Path, mapping: str, options: dict[str, Any]) -> None:
    for i in range(4):
        with h5py.File(tmp_path / f"source{i}.h5", "w") as file:
            file.create_dataset("x", data=values(i, 24, 18), **options)
    wanted = []
    for number in range(2):
        sources = [h5py.VirtualSource(f"source{i}.h5", "x", (24, 18)) for i in (0, 1, 2, 3)[:: 1 - 2 * number]]
        shape = {
            "stacked": (4, 24, 18),
            "behind": (96, 18),
            "next to each other": (24, 72),
            "parts": (28, 11),
            "interleaved": (96, 18),
            "every other": (4, 12, 6),
            "gaps": (120, 20),
        }[mapping]
        layout = h5py.VirtualLayout(shape, "<i4")
        for i, source in enumerate(sources):
            if mapping == "stacked":
                layout[i] = source
            elif mapping == "behind":
                layout[24 * i : 24 * (i + 1)] = source
            elif mapping == "next to each other":
                layout[:, 18 * i : 18 * (i + 1)] = source
            elif mapping == "parts":
                layout[7 * i : 7 * (i + 1)] = source[5 + i : 12 + i, 3:14]
            elif mapping == "interleaved":
                layout[i::4] = source
            elif mapping == "every other":
                layout[i] = source[::2, ::3]
            else:
                layout[30 * i + 2 : 30 * i + 26, 1:19] = source
        with h5py.File(tmp_path / f"v{number}.h5", "w", libver="latest") as file:
            file.create_virtual_dataset("v", layout, fillvalue=-7)
        with h5py.File(tmp_path / f"v{number}.h5") as file:
            wanted.append(file["v"][...])
    array = ps.open_shards(tmp_path / "v*.h5", dataset="v")
    expected = np.concatenate(wanted)
    np.testing.assert_array_equal(array[...], expected)
    np.testing.assert_array_equal(array[1:-1:3], expected[1:-1:3])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[...], expected)


def test_a_virtual_dataset_of_both_byte_orders_among_shards(tmp_path: Path) -> None:
    """The chunks of a virtual dataset have codecs of their own, even if its grid is regular."""
    for i, dtype in enumerate(("<i4", ">i4")):
        with h5py.File(tmp_path / f"source{i}.h5", "w") as file:
            file.create_dataset("x", data=values(i, 8, dtype=dtype), chunks=(4, 6))
    layout = h5py.VirtualLayout((16, 6), "<i4")
    for i in range(2):
        layout[8 * i : 8 * i + 8] = h5py.VirtualSource(f"source{i}.h5", "x", (8, 6))
    with h5py.File(tmp_path / "s0.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    with h5py.File(tmp_path / "s1.h5", "w") as file:
        file.create_dataset("x", data=values(2, 7), chunks=(4, 6), compression="gzip")
    expected = np.concatenate([values(0, 8), values(1, 8), values(2, 7)])
    for order in (["s0.h5", "s1.h5"], ["s1.h5", "s0.h5"]):
        array = ps.open_shards([tmp_path / name for name in order], dataset="x")
        check(array, expected if order[0] == "s0.h5" else np.roll(expected, 7, 0), tmp_path)
    for name in ("s0.h5", "s1.h5"):
        with h5py.File(tmp_path / name, "a") as file:
            file["t"] = np.arange(16 if name == "s0.h5" else 7) + (0 if name == "s0.h5" else 16)
            file["t"].make_scale("t")
            file["c"] = np.arange(6)
            file["c"].make_scale("c")
            file["x"].dims[0].attach_scale(file["t"])
            file["x"].dims[1].attach_scale(file["c"])
    group = ps.open_virtual([tmp_path / "s0.h5", tmp_path / "s1.h5"], concat="t")
    np.testing.assert_array_equal(group["x"][...], expected)


def test_patterns_of_datasets_follow_links_and_omit_groups(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["b/x"] = values(2, 3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["run_1/x"] = values(0, 5)
        file["run_2/x"] = h5py.SoftLink("/run_1/x")
        file["run_10"] = h5py.ExternalLink("other.h5", "b")
        file.create_group("run_3/x")
        file["run_4/y"] = values(9, 2)
        file["run_5"] = values(9, 2)
        file["run_[1]"] = values(7, 2)
        file["type_1"] = np.dtype("i4")
    expected = [values(0, 5), values(0, 5), values(2, 3)]
    array = ps.open_shards(tmp_path / "x.h5", dataset="/run_*/x", gaps="allow")
    np.testing.assert_array_equal(array[...], np.concatenate(expected))
    assert array._shard_lengths() == (0, [5, 5, 3])
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "x.h5", dataset="run_[1]")[...], values(7, 2))
    with pytest.raises(ps.InvalidArgumentError, match="'run_1' is a group, not a dataset"):
        ps.open_shards(tmp_path / "x.h5", dataset="run_1")
    for pattern in ("type_*", "run_3/*", "nothing*"):
        with pytest.raises(ps.NotFoundError, match="no dataset"):
            ps.open_shards(tmp_path / "x.h5", dataset=pattern)


def test_the_only_dataset_needs_no_name(tmp_path: Path) -> None:
    for i in range(2):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            file["deep/down/x"] = values(i, 4)
            file["deep/again"] = file["deep/down"]
            file["deep/down/loop"] = file["deep"]
            del file["deep/again"]
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "s*.h5")[...], np.concatenate([values(0, 4), values(1, 4)]))
    with h5py.File(tmp_path / "s0.h5", "a") as file:
        file["other"] = 1
    with pytest.raises(ps.InvalidArgumentError, match=r"give dataset= \(it holds 'other', 'deep/down/x'\)"):
        ps.open_shards(tmp_path / "s*.h5")
    with h5py.File(tmp_path / "s0.h5", "w"):
        pass
    with pytest.raises(ps.InvalidArgumentError, match="it holds none"):
        ps.open_shards(tmp_path / "s*.h5")


def test_datasets_that_cannot_be_joined_are_named(tmp_path: Path) -> None:
    def write(number: int, data: Any, **attributes: Any) -> None:
        with h5py.File(tmp_path / f"s{number}.h5", "w") as file:
            file["x"] = data
            file["x"].attrs.update(attributes)

    for i in range(9):
        write(i, values(i, 3))
    for i in range(2, 9):
        write(i, values(i, 3, dtype="<f4"))
    with pytest.raises(ps.InvalidArgumentError, match=r"7 of 9 files do not match.*float32.*and 2 more"):
        ps.open_shards(tmp_path / "s*.h5", dataset="x")
    write(1, np.int32(4))
    with pytest.raises(ps.InvalidArgumentError, match=r"s1\.h5/x': a scalar has no axis"):
        ps.open_shards(tmp_path / "s[01].h5", dataset="x")
    write(1, values(1, 3))
    for axis in (2, -3):
        with pytest.raises(ps.InvalidArgumentError, match=f"axis {axis} is out of range for arrays with 2 dimensions"):
            ps.open_shards(tmp_path / "s[01].h5", dataset="x", axis=axis)
    write(1, ["a", "b", "c"])
    write(0, ["a", "b", "c"])
    with pytest.raises(ps.UnsupportedError, match="variable length"):
        ps.open_shards(tmp_path / "s[01].h5", dataset="x")


@pytest.fixture
def memory() -> Any:
    fsspec = pytest.importorskip("fsspec")
    there = fsspec.filesystem("memory")
    yield there
    if there.exists("/h5shards"):
        there.rm("/h5shards", recursive=True)


def test_files_whose_store_does_not_report_their_size(memory: Any, tmp_path: Path) -> None:
    """fsspec does not report sizes with the bytes; the files are longer than the first fetch."""
    parts = [values(i, 40_000) for i in range(2)]
    for i, part in enumerate(parts):
        with h5py.File(tmp_path / f"s{i}.h5", "w", userblock_size=512 * i) as file:
            file.create_dataset("x", data=part, chunks=(5000, 6))
            file["t"] = np.arange(40_000) + 40_000 * i
            file["t"].make_scale("t")
            file["c"] = np.arange(6)
            file["c"].make_scale("c")
            file["x"].dims[0].attach_scale(file["t"])
            file["x"].dims[1].attach_scale(file["c"])
    layout = h5py.VirtualLayout((80_000, 6), "<i4")
    for i in range(2):
        layout[40_000 * i : 40_000 * (i + 1)] = h5py.VirtualSource(f"s{i}.h5", "x", (40_000, 6))
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
        file["link"] = h5py.ExternalLink("s1.h5", "x")
    for name in ("s0", "s1", "v"):
        memory.pipe(f"/h5shards/{name}.h5", (tmp_path / f"{name}.h5").read_bytes())
    expected = np.concatenate(parts)
    array = ps.open_shards("memory://h5shards/s*.h5", dataset="x")
    np.testing.assert_array_equal(array[...], expected)
    ps.save_manifest(array, tmp_path / "m")
    for again in (pickle.loads(pickle.dumps(array)), ps.open(tmp_path / "m")):
        np.testing.assert_array_equal(again[39_990:40_010], expected[39_990:40_010])
    group = ps.open_virtual("memory://h5shards/s*.h5", concat="t")
    np.testing.assert_array_equal(group["x"][...], expected)
    np.testing.assert_array_equal(ps.open("memory://h5shards/v.h5", "x")[...], expected)
    np.testing.assert_array_equal(ps.open("memory://h5shards/v.h5", "link")[...], parts[1])
    whole = (tmp_path / "s0.h5").read_bytes()
    for length in (200_000, 70_000):
        memory.pipe("/h5shards/s0.h5", whole[:length])
        with pytest.raises(ps.Error, match=r"ended early|than the \d+ bytes|were requested"):
            ps.open("memory://h5shards/s0.h5", "x")[...]


NO_H5PY = """
import sys
sys.modules["h5py"] = None
import glob, pickle
import numpy as np
import penstock as ps

wanted = np.load("wanted.npy")
same = lambda a, of=wanted: np.testing.assert_array_equal(np.asarray(a), of)
group = ps.open("s0.nc")
same(group["x"][...], wanted[:5])
assert group["x"].dimension_names == ("t", "c"), group["x"].dimension_names
assert group.dimension_names("x") == ("t", "c")
assert group["x"].typed_attributes["scale"].dtype == np.float32
assert group["x"].storage["chunks"] == (2, 6)
same(ps.open("s0.nc", "x")[1:3], wanted[1:3])
same(ps.open(open("s0.nc", "rb").read(), "x")[...], wanted[:5])
same(ps.open("links.nc", "away")[...], wanted[:5])
same(ps.open("links.nc", "virtual")[...])
array = ps.open_shards("s*.nc", dataset="x", manifest="cache")
same(array[...])
same(pickle.loads(pickle.dumps(array))[...])
for opened in (ps.open("cache"), ps.open_shards("cache"), ps.open_shards("s*.nc", dataset="x", manifest="cache")):
    same(opened[...])
same(ps.open_shards("mixed*.nc", dataset="x")[...])
same(ps.open_shards("virtual*.nc", dataset="virtual")[...], np.concatenate([wanted, wanted]))
same(ps.open_shards("links.nc", dataset="a*")[...], wanted[:5])
virtual = ps.open_virtual("s*.nc", concat="t")
same(virtual["x"][...])
ps.save_manifest(virtual, "group")
same(ps.open("group")["x"][...])
ps.save_references(ps.open("s0.nc"), "refs.json")
same(ps.open("refs.json")["x"][...], wanted[:5])
ps.save_manifest(ps.open("s0.nc"), "one")
same(ps.open("one")["x"][...], wanted[:5])
ps.copy(ps.open("s0.nc"), "out.zarr")
same(ps.open("out.zarr")["x"][...], wanted[:5])
ps.convert("s0.nc", "converted.zarr")
same(ps.open("converted.zarr")["x"][...], wanted[:5])
try:
    import xarray
except ImportError:
    pass
else:
    same(xarray.open_dataset("s0.nc", engine="penstock")["x"], wanted[:5])
    same(xarray.open_dataset(sorted(glob.glob("s*.nc")), engine="penstock", concat="t")["x"])
    xarray.open_datatree("s0.nc", engine="penstock")
try:
    import fsspec
except ImportError:
    pass
else:
    for name in glob.glob("*.nc"):
        fsspec.filesystem("memory").pipe(f"/no_h5py/{name}", open(name, "rb").read())
    same(ps.open("memory://no_h5py/s0.nc", "x")[...], wanted[:5])
    same(ps.open_shards("memory://no_h5py/s*.nc", dataset="x")[...])
    same(ps.open_shards("memory://no_h5py/virtual*.nc", dataset="virtual")[...], np.concatenate([wanted, wanted]))
    same(ps.open_virtual("memory://no_h5py/s*.nc", concat="t")["x"][...])
try:
    ps.convert("s0.nc", "out.h5")
except ps.UnsupportedError as error:
    assert "writing HDF5 needs h5py" in str(error), error
else:
    raise AssertionError("h5py wrote")
try:
    ps.save_shards(wanted, "w_{}.h5", rows=3)
except ps.UnsupportedError as error:
    assert "writing HDF5 needs h5py" in str(error), error
else:
    raise AssertionError("h5py wrote")
"""


def test_no_read_path_imports_h5py(tmp_path: Path) -> None:
    parts = [values(i, rows) for i, rows in enumerate(ROWS)]
    begin = 0
    for i, part in enumerate(parts):
        for name in ("s", "mixed"):
            with h5py.File(tmp_path / f"{name}{i}.nc", "w") as file:
                options = {"compression": "gzip"} if name == "s" or i % 2 else {}
                chunks = (2, 6) if name == "s" or i % 2 else (2, 4)
                data = file.create_dataset("x", data=part, chunks=chunks, maxshape=(None, 6), **options)
                data.attrs["scale"] = np.float32(2)
                file["t"] = np.arange(begin, begin + len(part))
                file["c"] = np.arange(6)
                for d, scale in enumerate(("t", "c")):
                    file[scale].make_scale(scale)
                    data.dims[d].attach_scale(file[scale])
        begin += len(part)
    layout = h5py.VirtualLayout((begin, 6), "<i4")
    begin = 0
    for i, part in enumerate(parts):
        if len(part):
            layout[begin : begin + len(part)] = h5py.VirtualSource(f"s{i}.nc", "x", part.shape)
        begin += len(part)
    for name in ("links", "virtual0", "virtual1"):
        with h5py.File(tmp_path / f"{name}.nc", "w") as file:
            file["away"] = h5py.ExternalLink("s0.nc", "x")
            file.create_virtual_dataset("virtual", layout)
    np.save(tmp_path / "wanted.npy", np.concatenate(parts))
    package = str(Path(ps.__file__).parents[1])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-c", NO_H5PY],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
