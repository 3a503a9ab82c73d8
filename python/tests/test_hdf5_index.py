"""Chunk indexes of HDF5 files as the engine reads them: every kind, compared with the library's own listing."""

from __future__ import annotations

import itertools
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core

h5py = pytest.importorskip("h5py")

CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", "/nowhere")) / "hdf5"


def listed_by_library(dataset: Any) -> dict[tuple[int, ...], tuple[int, int, int]]:
    """Places in the grid to (offset, size, mask), in one pass: a query for chunk i walks over all before it."""
    out = {}

    def take(info: Any) -> None:
        place = tuple(int(a) // c for a, c in zip(info.chunk_offset, dataset.chunks, strict=True))
        out[place] = (info.byte_offset, info.size, info.filter_mask)

    dataset.id.chunk_iter(take)
    return out


def listed_by_engine(path: Path, dataset: Any) -> dict[tuple[int, ...], tuple[int, int, int]]:
    header = h5py.h5o.get_info(dataset.id).addr
    *columns, _ = _core.hdf5_index(_core.file_store(os.fsencode(path.parent)), os.fsencode(path.name), header)
    cells, masks, offsets, sizes = (np.frombuffer(each, np.uint64) for each in columns)
    assert (cells[1:] > cells[:-1]).all()
    grid = tuple(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    places = zip(*(each.tolist() for each in np.unravel_index(cells.astype(np.int64), grid)), strict=True)
    return dict(zip(places, zip(offsets.tolist(), sizes.tolist(), masks.tolist(), strict=True), strict=True))


def made(file: Any, name: str, shape: tuple[int, ...], chunks: tuple[int, ...], **options: Any) -> Any:
    early = options.pop("early", False)
    if not early:
        return file.create_dataset(name, shape, "u1", chunks=chunks, **options)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(chunks)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple(shape, options.pop("maxshape", shape))
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_U8LE, space, plist))


# (shape, chunks, options), named after the index of the newest format; the oldest format uses a B-tree for all.
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "single": ((40, 30), (40, 30), {}),
    "single_filtered": ((40, 30), (40, 30), {"compression": "gzip"}),
    "implicit": ((41, 30), (4, 7), {"early": True}),
    "implicit_larger": ((20, 30), (4, 7), {"early": True, "maxshape": (41, 33)}),
    "fixed": ((41, 30), (4, 7), {}),
    "fixed_filtered": ((41, 30), (4, 7), {"compression": "gzip", "shuffle": True}),
    "fixed_paged": ((50, 103), (1, 2), {}),
    "fixed_paged_filtered": ((50, 103), (1, 2), {"fletcher32": True}),
    "fixed_larger": ((20, 30), (4, 7), {"maxshape": (41, 60)}),
    "extensible": ((41, 30), (4, 7), {"maxshape": (None, 30)}),
    "extensible_filtered": ((41, 30), (4, 7), {"maxshape": (None, 44), "compression": "gzip"}),
    "extensible_second": ((41, 30), (4, 7), {"maxshape": (50, None)}),
    "extensible_third": ((9, 10, 30), (4, 3, 7), {"maxshape": (20, 11, None)}),
    "extensible_many": ((3000, 2), (1, 1), {"maxshape": (None, 2)}),
    "tree": ((41, 30), (4, 7), {"maxshape": (None, None)}),
    "tree_filtered": ((41, 30), (4, 7), {"maxshape": (None, None), "compression": "gzip"}),
    "tree_deep": ((90, 100), (1, 1), {"maxshape": (None, None)}),
    "tree_deep_filtered": ((60, 100), (1, 1), {"maxshape": (None, None), "fletcher32": True}),
}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("written", ["all", "some", "none"])
def test_the_index_is_that_of_the_library(tmp_path, libver, case, written):
    path = tmp_path / "x.h5"
    shape, chunks, options = CASES[case]
    data = np.random.default_rng(1).integers(0, 100, shape, np.uint8)
    with h5py.File(path, "w", libver=libver, userblock_size=512 if case == "fixed" else 0) as file:
        dataset = made(file, "x", shape, chunks, **options)
        if written == "all":
            dataset[...] = data
        elif written == "some":
            grid = [range(0, n, c) for n, c in zip(shape, chunks, strict=True)]
            corners = list(itertools.product(*grid))
            for corner in random.Random(2).sample(corners, min(len(corners), 1 + len(corners) // 9, 60)):
                where = tuple(slice(a, a + c) for a, c in zip(corner, chunks, strict=True))
                dataset[where] = data[where]
    with h5py.File(path) as file:
        wanted = listed_by_library(file["x"])
        found = listed_by_engine(path, file["x"])
        if case in ("extensible_second", "extensible_third") and libver == "latest":
            # HDF5 2.0 reports wrong places for these; the comparison of values below checks them.
            assert len(found) == file["x"].id.get_num_chunks()
        else:
            assert found == wanted
        values = file["x"][()]
    assert (ps.open(path, "x")[...] == values).all()
    if written == "all":
        assert (values == data).all()
        assert wanted
    elif not options.get("early") and written == "none":
        assert not wanted


def test_an_extensible_array_with_pages(tmp_path):
    path = tmp_path / "x.h5"
    count = 270_000  # with more than 131,000 chunks, data blocks have pages
    with h5py.File(path, "w", libver="latest") as file:
        dataset = file.create_dataset("x", (count,), "u1", chunks=(1,), maxshape=(None,))
        for start, stop in ((0, 700), (140_000, 141_500), (200_000, 200_010), (count - 3, count)):
            dataset[start:stop] = np.arange(start, stop).astype("u1")
        wanted = {}

        def collect(info: Any) -> None:
            wanted[int(info.chunk_offset[0]),] = (info.byte_offset, info.size, info.filter_mask)

        dataset.id.chunk_iter(collect)
    with h5py.File(path) as file:
        assert len(wanted) == 700 + 1500 + 10 + 3
        assert listed_by_engine(path, file["x"]) == wanted
        assert (ps.open(path, "x")[139_990:141_600] == file["x"][139_990:141_600]).all()


def test_datasets_that_shrank_have_no_chunks_beyond_their_shape(tmp_path):
    path = tmp_path / "x.h5"
    for libver, most in itertools.product(["earliest", "latest"], [(None, 30), (None, None), (60, 60)]):
        with h5py.File(path, "w", libver=libver) as file:
            file.create_dataset("x", data=np.ones((41, 30), "u1"), chunks=(4, 7), maxshape=most)
            file["x"].resize((17, 20))
        with h5py.File(path) as file:
            assert listed_by_engine(path, file["x"]) == listed_by_library(file["x"])
        assert ps.open(path, "x")[...].tolist() == np.ones((17, 20)).tolist()


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("case", ["fixed_filtered", "fixed_paged", "extensible_many", "tree_deep", "single_filtered"])
def test_damaged_indexes_are_refused_or_harmless(tmp_path, libver, case):
    """After flips of bits anywhere in the file, a read raises one of Penstock's errors, or works."""
    path = tmp_path / "x.h5"
    shape, chunks, options = CASES[case]
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("x", data=np.ones(shape, "u1"), chunks=chunks, **options)
    with h5py.File(path) as file:
        header = h5py.h5o.get_info(file["x"].id).addr
    good = path.read_bytes()
    shuffled = random.Random(3)
    harmless = 0
    for number in range(400):
        bad = bytearray(good)
        for _ in range(1 + number % 3):
            bad[shuffled.randrange(len(bad))] ^= 1 << shuffled.randrange(8)
        cut = bytes(bad[: shuffled.randrange(len(bad))] if number % 10 == 0 else bad)
        with suppress(ps.CorruptDataError, ps.UnsupportedError):
            _core.hdf5_index(_core.dict_store({"x": cut}, None, False), b"x", header)
            harmless += 1
    assert harmless < 380


def test_other_datasets_have_no_chunk_index(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["plain"] = np.arange(3)
        file.create_group("group")
    store = _core.file_store(os.fsencode(tmp_path))
    with h5py.File(path) as file:
        with pytest.raises(ps.UnsupportedError, match="no chunks"):
            _core.hdf5_index(store, b"x.h5", h5py.h5o.get_info(file["plain"].id).addr)
        with pytest.raises(ps.CorruptDataError, match="no dataspace"):
            _core.hdf5_index(store, b"x.h5", h5py.h5o.get_info(file["group"].id).addr)
    with pytest.raises(ps.CorruptDataError, match="exceed the file"):
        _core.hdf5_index(store, b"x.h5", 1 << 60)
    with pytest.raises(ps.CorruptDataError, match="object header"):
        _core.hdf5_index(store, b"x.h5", 0)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_the_corpus_has_the_chunks_that_the_library_lists():
    """Files of other projects, of all ages; separate processes read those that were written to do harm."""
    seen = other = 0
    for path in sorted(each for each in CORPUS.rglob("*") if each.is_file() and "cve" not in str(each)):
        try:
            file = h5py.File(path)
        except OSError:
            continue
        with file:
            names: list[str] = []
            with suppress(RuntimeError):  # metadata that the library does not support ends its walk
                file.visit(names.append)
            for name in names:
                try:
                    dataset = file[name]
                    if not isinstance(dataset, h5py.Dataset) or not dataset.chunks:
                        continue
                    wanted = listed_by_library(dataset) if dataset.id.get_num_chunks() < 2000 else {}
                except (KeyError, OSError, RuntimeError, TypeError, ValueError):
                    continue
                if not wanted:
                    continue
                try:
                    found = listed_by_engine(path, dataset)
                except ps.UnsupportedError:
                    other += 1
                    continue
                inside = {
                    place: value
                    for place, value in wanted.items()
                    if all(i * c < n for i, c, n in zip(place, dataset.chunks, dataset.shape, strict=True)) and value[1]
                }
                free = [d for d, most in enumerate(dataset.maxshape) if most is None]
                if len(free) == 1 and free[0] != 0:  # HDF5 2.0 reports wrong places
                    assert sorted(found.values()) == sorted(inside.values()), (path, name)
                else:
                    assert found == inside, (path, name)
                seen += 1
    assert seen > 200
    assert other < seen / 4


def shards(folder: Path, rows: list[int], **options: Any) -> list[np.ndarray[Any, Any]]:
    out = []
    libver = options.pop("libver", None)
    for number, count in enumerate(rows):
        data = np.random.default_rng(number).normal(size=(count, 6)).astype("f4")
        with h5py.File(folder / f"shard_{number}.h5", "w", libver=libver) as file:
            dataset = file.create_dataset("a/x", data=data, **options)
            dataset.attrs["number"] = number
        out.append(data)
    return out


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "options", [{}, {"chunks": (2, 4)}, {"chunks": (2, 4), "maxshape": (None, 6), "compression": "gzip"}]
)
def test_shards_that_differ_in_length_are_one_table(tmp_path, libver, axis, options):
    rows = [5, 4, 0, 7, 1] if axis == 0 else [6] * 5
    if options.get("chunks") and axis == 0 and not options.get("maxshape"):
        rows = [5, 4, 9, 7, 2]  # a chunk must not be longer than a dimension of fixed size
    wanted = shards(tmp_path, rows, libver=libver, **options)
    with h5py.File(tmp_path / "shard_5.h5", "w", libver=libver) as file:  # without values
        file.create_dataset("a/x", (3, 6) if axis == 0 else (6, 4), "f4", **options)
    wanted.append(np.zeros((3, 6) if axis == 0 else (6, 4), "f4"))
    array = ps.open_shards(tmp_path / "shard_*.h5", dataset="a/x", axis=axis)
    assert array.format == "hdf5"
    whole = np.concatenate(wanted, axis)
    assert (array[...] == whole).all()
    assert array.attrs["number"] == 0
    assert array.storage == ps.open(tmp_path / "shard_0.h5", "a/x").storage
    for key in (np.s_[3:9], np.s_[::-2, 1:5], np.s_[4, 2]):
        assert (array[key] == whole[key]).all()
    ps.save_manifest(array, tmp_path / "m")
    assert (ps.open(tmp_path / "m")[...] == whole).all()


def test_shards_with_different_filters_are_one_table(tmp_path):
    wanted = shards(tmp_path, [5, 4, 7], chunks=(2, 4))
    with h5py.File(tmp_path / "shard_1.h5", "a") as file:
        del file["a/x"]
        file.create_dataset("a/x", data=wanted[1], chunks=(2, 4), compression="gzip")
    array = ps.open_shards(tmp_path / "shard_*.h5", dataset="a/x")
    assert array.format == "hdf5"
    assert (array[...] == np.concatenate(wanted)).all()
    ps.save_manifest(array, tmp_path / "m")
    assert (ps.open(tmp_path / "m")[...] == np.concatenate(wanted)).all()
    with h5py.File(tmp_path / "shard_2.h5", "a") as file:
        del file["a/x"]
    with pytest.raises(ps.NotFoundError, match=r"shard_2\.h5.*has no 'a/x'"):
        ps.open_shards(tmp_path / "shard_*.h5", dataset="a/x")
    (tmp_path / "shard_2.h5").write_bytes(b"no such file")
    with pytest.raises(ps.CorruptDataError, match=r"shard_2\.h5"):
        ps.open_shards(tmp_path / "shard_*.h5", dataset="a/x")


NAMES = {
    "scale_factor": (0.1, np.float64(0.2)),
    "add_offset": (np.float32(1), np.float32(2)),
    "_FillValue": (np.float32(-1), np.float32(-2)),
    "missing_value": (np.float32(np.nan), np.float32(1)),
    "_Unsigned": ("true", "false"),
    "units": ("hours since 1900-01-01", "hours since 1900-02-01"),
    "calendar": (np.bytes_("noleap"), np.bytes_("julian")),
}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("name", list(NAMES))
def test_shards_with_other_meanings_are_refused(tmp_path, libver, name):
    """As in ERA5, each file is packed by itself: the scale of one file is not that of the next."""
    wanted = shards(tmp_path, [5, 4, 7], libver=libver)
    pattern, (one, other) = tmp_path / "shard_*.h5", NAMES[name]

    def give(number: int, value: Any, more: int = 0) -> None:
        with h5py.File(tmp_path / f"shard_{number}.h5", "a", libver=libver) as file:
            file["a/x"].attrs[name] = value
            for i in range(more):
                file["a/x"].attrs[f"other{i}"] = i + number

    for number in range(3):
        give(number, one)
    assert (ps.open_shards(pattern, dataset="a/x")[...] == np.concatenate(wanted)).all()
    for more in (0, 9):  # with many attributes, they may be stored in a heap
        give(1, other, more)
        with pytest.raises(
            ps.InvalidArgumentError, match=rf"1 of 3 datasets have another '{name}'.*shard_1\.h5"
        ) as caught:
            ps.open_shards(pattern, dataset="a/x")
        assert "shard_2" not in str(caught.value)
    give(1, one, 9)
    assert (ps.open_shards(pattern, dataset="a/x")[...] == np.concatenate(wanted)).all()
    with h5py.File(tmp_path / "shard_1.h5", "a", libver=libver) as file:
        del file["a/x"].attrs[name]
    with pytest.raises(ps.InvalidArgumentError, match=rf"'{name}'.*shard_1\.h5.* has none"):
        ps.open_shards(pattern, dataset="a/x")


def test_a_file_that_changes_or_vanishes_is_a_conflict(tmp_path):
    path, other = tmp_path / "x.h5", tmp_path / "other.h5"
    data = np.arange(100, dtype="i4")
    for each in (path, other):
        with h5py.File(each, "w") as file:
            file.create_dataset("x", data=data, chunks=(10,))

    def opened() -> ps.Array:
        array = ps.open(path, "x")
        assert isinstance(array, ps.Array)
        assert (array[...] == data).all()
        assert array[3] == 3
        return array

    kept = path.read_bytes()
    array = opened()
    with path.open("r+b") as file:  # the same file with new content
        file.seek(len(kept) - 8)
        file.write(b"\0" * 8)
    for key in (..., 3, np.s_[5:6]):
        with pytest.raises(ps.ConflictError, match=r"x\.h5"):
            array[key]
    array = opened_again = ps.open(path, "x")
    assert opened_again[3] == 3
    os.replace(other, path)  # another file in its place
    for key in (3, ...):
        with pytest.raises(ps.ConflictError, match=r"x\.h5"):
            array[key]
    path.write_bytes(kept)
    array = opened()
    path.unlink()
    for key in (3, ...):
        with pytest.raises(ps.ConflictError, match=r"x\.h5"):
            array[key]


def test_the_index_of_a_file_in_memory(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(90), chunks=(7,), compression="gzip")
    with h5py.File(path) as file:
        header = h5py.h5o.get_info(file["x"].id).addr
    of_bytes = _core.hdf5_index(_core.dict_store({"x": path.read_bytes()}, None, False), b"x", header)
    assert of_bytes == _core.hdf5_index(_core.file_store(os.fsencode(tmp_path)), b"x.h5", header)
    assert len(np.frombuffer(of_bytes[0], np.uint64)) == 13
