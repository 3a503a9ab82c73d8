"""Shards of other formats and of custom readers: cells follow the shards' chunks, pickles contain what is known."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest


class Opened:
    """The parts that are opened, by name, and boxes that Python reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from penstock.shards.readers import SavedPart, _ArrayPart

        self.names: list[str] = []
        self.boxes: list[Any] = []
        lock, plain, box = threading.Lock(), _ArrayPart.open, SavedPart.box

        def opened(part: Any) -> Any:
            with lock:
                self.names.append(part.name.rstrip("/").rpartition("/")[2])
            return plain(part)

        def counted(part: Any, selection: tuple[slice, ...]) -> Any:
            self.boxes.append(selection)
            return box(part, selection)

        monkeypatch.setattr(_ArrayPart, "open", opened)
        monkeypatch.setattr(SavedPart, "box", counted)


def sums(a: Any, key: Any) -> dict[str, Any]:
    """The totals of a plan."""
    made: dict[str, Any] = a._plan(a._prepare(key)[0], 0, 0)
    return made


def zarr_shards(folder: Path, parts: list[np.ndarray], chunks: tuple[int, ...]) -> str:
    for number, part in enumerate(parts):
        made = ps.create_array(str(folder / f"p_{number}.zarr"), shape=part.shape, dtype=part.dtype, chunks=chunks)
        if part.size:
            made[...] = part
    return str(folder / "p_*.zarr")


@pytest.mark.parametrize("axis", [0, 1])
def test_each_chunk_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axis: int) -> None:
    values = np.arange(2 * 2048 * 1024, dtype="f4").reshape((2048, 2048))
    chunks = (512, 1024)  # of 2 MiB
    a = ps.open_shards(zarr_shards(tmp_path, np.split(values, 2, axis), chunks), axis=axis)
    chunk_bytes = 4 * 512 * 1024
    for key, count in ((np.s_[...], 8), (np.s_[:, :8], 4), (np.s_[1000:1001], 2)):
        np.testing.assert_array_equal(a[key], values[key])
        plan = sums(a, key)
        assert (plan["requests"], plan["decoded_bytes"]) == (count, count * chunk_bytes)
    again = pickle.loads(pickle.dumps(a))  # its shards are opened when they are read
    opened = Opened(monkeypatch)
    assert again.chunks == a.chunks
    with ps.stream(again, tile="chunk") as stream:
        for tile in stream:
            np.testing.assert_array_equal(tile.data, values[tile.box])
    for key in (np.s_[...], np.s_[:, :8], np.s_[1000:1001]):
        np.testing.assert_array_equal(again[key], values[key])
        assert sums(again, key) == sums(a, key)
    assert sorted(opened.names) == ["p_0.zarr", "p_1.zarr"]
    assert not opened.boxes


@pytest.mark.parametrize("options", [{}, {"shards": (64, 64)}])
def test_a_window_fetches_the_bytes_of_its_chunks(tmp_path: Path, options: dict[str, Any]) -> None:
    values = np.random.default_rng(7).integers(0, 99, (300, 128), "i4")
    arrays = []
    for number, part in enumerate(np.split(values, [100])):
        name = str(tmp_path / f"p_{number}.zarr")
        ps.create_array(name, shape=part.shape, dtype=part.dtype, chunks=(32, 32), codecs=["zstd"], **options)[...] = (
            part
        )
        arrays.append(ps.open(name))
    a = ps.open_shards(arrays)
    window = np.s_[90:110, 40:60]
    np.testing.assert_array_equal(a[window], values[window])
    whole = sums(a, window)
    alone = [sums(arrays[0], np.s_[90:, 40:60]), sums(arrays[1], np.s_[:10, 40:60])]
    for name in ("requests", "fetched_bytes", "decoded_bytes", "index_requests", "index_bytes"):
        assert whole[name] == sum(each[name] for each in alone), name
    assert whole["fetched_bytes"] > 0
    assert str(tmp_path / "p_1.zarr") in a.plan(window)


def test_joined_arrays_are_not_written(tmp_path: Path) -> None:
    a = ps.open_shards(zarr_shards(tmp_path, [np.zeros((4, 4)), np.ones((4, 4))], (4, 4)))
    with pytest.raises(ps.Error):
        a[0, 0] = 3
    assert a[...].sum() == 16


def test_many_small_chunks_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(1024 * 256, dtype="i2").reshape(1024, 256)
    a = ps.open_shards(zarr_shards(tmp_path, np.split(values, [100, 612]), (32, 32)))
    assert sums(a, np.s_[5:6, :8])["requests"] == 1
    again = pickle.loads(pickle.dumps(a))  # its shards are opened when they are read
    opened = Opened(monkeypatch)
    np.testing.assert_array_equal(again[5:6, :8], values[5:6, :8])
    assert opened.names == ["p_0.zarr"]
    np.testing.assert_array_equal(again[...], values)
    assert str(again.plan()) == str(a.plan())
    assert not opened.boxes


PARTS = [0, 3, 0, 5, 1, 4, 0]  # rows of shards: some have none


@pytest.mark.parametrize("axis", [0, 1])
def test_a_box_of_an_unpickled_array_opens_its_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axis: int
) -> None:
    shape = (13, 6) if axis == 0 else (6, 13)
    values = np.arange(78, dtype="i4").reshape(shape)
    edges = np.cumsum(PARTS)[:-1]
    a = ps.open_shards(zarr_shards(tmp_path, np.split(values, edges, axis), (2, 2)), axis=axis)
    opened = Opened(monkeypatch)
    first, last = np.r_[0, edges], np.cumsum(PARTS)
    rng = random.Random(axis)
    items: list[Any] = [..., None, slice(None), 4, -1, slice(1, 4), slice(4, 0, -1), slice(3, 3), slice(None, None, -3)]
    for _ in range(150):
        key = tuple(rng.choice(items) for _ in range(rng.randint(1, 4)))
        try:
            expected = values[key]
        except IndexError:
            continue
        again = pickle.loads(pickle.dumps(a))
        opened.names.clear()
        made = again[key]
        np.testing.assert_array_equal(made, expected)
        assert (type(made), made.shape) == (type(expected), expected.shape)
        rows = np.unique(np.unravel_index(np.ravel(expected) % 78, shape)[axis])
        if rows.size:
            met = [i for i in range(len(PARTS)) if first[i] <= rows[-1] and last[i] > rows[0]]
            assert {f"p_{i}.zarr" for i in met} <= set(opened.names)
            assert len(opened.names) <= met[-1] - met[0] + 1 or len(opened.names) == len(PARTS)
        else:
            assert not opened.names
        np.testing.assert_array_equal(again.read(key, dtype="f8"), expected)
        np.testing.assert_array_equal(again.read_async(key).wait(), expected)
        np.testing.assert_array_equal(again.get_basic_selection(key), expected)
    assert not opened.boxes


@pytest.mark.parametrize("resampling", ["nearest", "average", "bilinear"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_window_of_an_unpickled_array_opens_its_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axis: int, resampling: str
) -> None:
    values = np.random.default_rng(axis).integers(0, 9999, (8, 60, 80)).astype("u2")
    a = ps.open_shards(zarr_shards(tmp_path, np.split(values, 4, axis), (2, 16, 16)), axis=axis)
    opened = Opened(monkeypatch)
    again = pickle.loads(pickle.dumps(a))
    place = {"transform": (1, 0, 0, 0, -1, 60), "bounds": (24, 33, 36, 42)}  # rows 18:27, columns 24:36
    for shape in ((9, 12), (3, 6), (18, 36), (5, 7)):
        expected = ps.read_window(a, shape=shape, resampling=resampling, **place)
        np.testing.assert_array_equal(ps.read_window(again, shape=shape, resampling=resampling, **place), expected)
        assert set(opened.names) == {f"p_{i}.zarr" for i in ([0, 1, 2, 3], [1], [1])[axis]}
    assert not opened.boxes
    assert len(opened.names) == len(set(opened.names))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("pickled", [False, True])
def test_a_window_of_shards_with_other_chunks_fetches_its_chunks(tmp_path: Path, axis: int, pickled: bool) -> None:
    values = np.random.default_rng(axis).integers(0, 99, (96, 96), "i4")
    arrays = []
    for number, part in enumerate(np.split(values, [40], axis)):
        name = str(tmp_path / f"p_{number}.zarr")
        chunks = ((8, 16), (16, 8))[number]
        ps.create_array(name, data=part, chunks=chunks, codecs=["zstd"], fill_value=number)
        arrays.append(ps.open(name))
    a = ps.open_shards(arrays, axis=axis)
    if pickled:
        a = pickle.loads(pickle.dumps(a))
    window = (np.s_[38:44], np.s_[3:11])[:: 1 if axis == 0 else -1]
    np.testing.assert_array_equal(a[window], values[window])
    np.testing.assert_array_equal(a.read(window, dtype="f8"), values[window])
    np.testing.assert_array_equal(a[::-3, 7::2], values[::-3, 7::2])
    np.testing.assert_array_equal(a.oindex[[50, 3], [90, 1]], values[np.ix_([50, 3], [90, 1])])
    np.testing.assert_array_equal(a[...], values)
    inside = [list(window), list(window)]
    inside[0][axis], inside[1][axis] = np.s_[38:40], np.s_[0:4]
    whole, alone = sums(a, window), [sums(part, tuple(key)) for part, key in zip(arrays, inside, strict=True)]
    for name in ("requests", "fetched_bytes", "decoded_bytes", "cells"):
        assert whole[name] == sum(each[name] for each in alone), name
    assert str(tmp_path / "p_1.zarr") in a.plan(window)


def test_other_uses_of_an_unpickled_array_open_all_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(12 * 6, dtype="i4").reshape(12, 6)
    a = ps.open_shards(zarr_shards(tmp_path, np.split(values, 4), (3, 2)))
    opened = Opened(monkeypatch)
    uses: list[Any] = [
        lambda x: x.oindex[[11, 0], :],
        lambda x: x.vindex[[11, 0], [1, 2]],
        lambda x: x[values % 2 == 0],
        lambda x: x.blocks[1],
        lambda x: ps.save(tmp_path / "made.npy", x),
        lambda x: ps.copy(x, tmp_path / "made.zarr", overwrite=True),
        lambda x: str(x.info),
        lambda x: list(ps.loader(x, crop={0: 3, 1: 2}, batch_size=2)),
        lambda x: x.plan(),
    ]
    for use in uses:
        again = pickle.loads(pickle.dumps(a))
        opened.names.clear()
        use(again)
        assert len(opened.names) == 4
        again[4], again[...]
        assert len(opened.names) == 4
    np.testing.assert_array_equal(np.load(tmp_path / "made.npy"), values)
    assert not opened.boxes


def test_threads_open_the_shards_of_an_unpickled_array_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(40 * 6, dtype="i4").reshape(40, 6)
    a = pickle.loads(pickle.dumps(ps.open_shards(zarr_shards(tmp_path, np.split(values, 8), (3, 2)))))
    opened = Opened(monkeypatch)

    def read(first: int) -> None:
        for low in range(first, 36, 3):
            np.testing.assert_array_equal(a[low : low + 4], values[low : low + 4])
        np.testing.assert_array_equal(a[...], values)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(opened.names) == [f"p_{i}.zarr" for i in range(8)]


@pytest.mark.parametrize("seed", range(16))
def test_selections_of_joined_arrays_equal_numpys(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rank = rng.randint(1, 3)
    axis = rng.randrange(rank)
    dtype: Any = ["<f4", ">i2", "?", [("a", "<i4"), ("b", "<f8")], "M8[s]"][seed % 5]
    shape = [rng.randint(1, 20) for _ in range(rank)]
    edges = sorted(rng.randint(0, shape[axis]) for _ in range(3))
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    arrays = []
    for part in np.split(values, edges, axis):
        chunks = tuple(rng.randint(1, 7) for _ in shape)
        store: dict[str, bytes] = {}
        made = ps.create_array(store, shape=part.shape, dtype=part.dtype, chunks=chunks, zarr_format=2)
        if part.size:
            made[...] = part
        arrays.append(ps.open(store))
    a = ps.open_shards(arrays, axis=axis)
    assert a.shape == values.shape
    np.testing.assert_array_equal(a[...], values)
    for _ in range(12):
        key = tuple(slice(rng.randint(-5, n), rng.randint(-5, n + 3), rng.choice([1, 1, 2, 5, -1, -3])) for n in shape)
        np.testing.assert_array_equal(a[key], values[key])
        rows = [rng.randrange(shape[0]) for _ in range(5)]
        np.testing.assert_array_equal(a.oindex[(rows,)], values[rows])
        points = tuple(np.array([rng.randrange(n) for _ in range(7)]) for n in shape)
        np.testing.assert_array_equal(a.vindex[points], values[points])
    with pytest.raises(TypeError):
        pickle.dumps(a)  # dicts exist in this process only


def test_pickles_contain_the_headers_that_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(60.0).reshape(20, 3)
    a = ps.open_shards(zarr_shards(tmp_path, np.split(values, [5, 9]), (4, 3)))
    packed = pickle.dumps(a)
    for document in tmp_path.glob("*/zarr.json"):
        document.unlink()
    monkeypatch.setattr("penstock.api.open.open", None)
    again = pickle.loads(packed)
    assert again.shape == (20, 3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again))[...], values)
    np.testing.assert_array_equal(again[...], values)


def rows_of(path: str) -> tuple[int, tuple[int, ...], str]:
    Path(path).with_suffix(".asked").open("a").write("x")
    return 10, (4,), "<i4"


def read_rows(path: str, low: int, high: int) -> np.ndarray:
    if path.endswith("bad"):
        raise ValueError("no such drive")
    return np.full((high - low, 4), int(path[-1]), "<i4")


def test_pickles_of_custom_readers_do_not_query_again(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"file_{number}") for number in range(3)]
    a = ps.open_shards(paths, metadata=rows_of, reader=read_rows)
    again = pickle.loads(pickle.dumps(a))
    np.testing.assert_array_equal(again[...], a[...])
    assert again[:, 0].tolist() == [0] * 10 + [1] * 10 + [2] * 10
    assert [path.read_text() for path in tmp_path.glob("*.asked")] == ["x"] * 3


def test_exceptions_of_a_reader_name_the_file(tmp_path: Path) -> None:
    a = ps.open_shards([tmp_path / "file_1", tmp_path / "bad"], metadata=rows_of, reader=read_rows)
    with pytest.raises(
        ps.StorageError, match=r"reader of '.*/bad' failed for rows \[0, 10\): ValueError: no such drive"
    ):
        a[...]
    assert a[:10].sum() == 40


def test_plans_of_custom_readers_have_the_rows_of_each_file(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"file_{number}") for number in range(2)]
    a = ps.open_shards(paths, metadata=rows_of, reader=read_rows)
    assert sums(a, np.s_[8:12])["requests"] == 2
    assert sums(a, np.s_[8:12])["fetched_bytes"] == 4 * 4 * 4
    text = str(a.plan(np.s_[8:12]))
    assert f"{paths[0]}/[0:10, 0:4]" in text
    assert f"{paths[1]}/[0:10, 0:4]" in text


def test_a_reader_that_is_interrupted_interrupts_the_read(tmp_path: Path) -> None:
    def stop(path: str, low: int, high: int) -> Any:
        raise KeyboardInterrupt

    a = ps.open_shards([tmp_path / "x"], metadata=rows_of, reader=stop, context=ps.Context(threads=1))
    with pytest.raises(KeyboardInterrupt):
        a[...]


def test_a_penstock_error_of_a_reader_keeps_its_type(tmp_path: Path) -> None:
    def gone(path: str, low: int, high: int) -> Any:
        raise ps.NotFoundError("the tape is in the other building")

    a = ps.open_shards([tmp_path / "x"], metadata=rows_of, reader=gone)
    with pytest.raises(FileNotFoundError, match="other building"):
        a[...]


def test_joined_arrays_without_names_have_no_list_of_names(tmp_path: Path) -> None:
    parts = [ps.create_array({}, data=np.full((2, 3), fill), fill_value=fill) for fill in (1.0, 2.0)]
    assert ps.open_shards(parts).dimension_names is None
    assert ps.open_shards([parts[0], ps.create_array({}, data=np.ones((1, 3)), fill_value=1.0)]).dimension_names is None


@pytest.mark.parametrize("fills", [(0.0, 0.0), (1.0, 2.0)])  # one grid, and boxes
def test_joined_arrays_have_the_names_that_all_parts_share(tmp_path: Path, fills: tuple[float, float]) -> None:
    def part(number: int, *names: str | None) -> ps.Array:
        values, fill = np.full((2, 3), float(number)), fills[number % 2]
        where = tmp_path / f"{number}.zarr"
        return ps.create_array(where, data=values, fill_value=fill, dimension_names=names or None, overwrite=True)

    parts = [part(number, "time", "x") for number in range(3)]
    joined = ps.open_shards(parts)
    assert joined.dimension_names == ("time", "x")
    manifest = tmp_path / "all.json"
    ps.save_manifest(joined, manifest)
    assert ps.open(manifest).dimension_names == ("time", "x")
    again = pickle.loads(pickle.dumps(joined))
    assert again.dimension_names == ("time", "x")
    assert pickle.loads(pickle.dumps(again)).dimension_names == ("time", "x")
    np.testing.assert_array_equal(again[...], joined[...])
    again.plan()  # opens all parts
    assert again.dimension_names == ("time", "x")
    assert next(iter(ps.loader(again, crop={"time": 2}))).shape[1:] == (2, 3)
    assert ps.open_shards([*parts, part(3, "time", "y")]).dimension_names == ("time", None)
    assert ps.open_shards([*parts, part(4, None, "x")]).dimension_names == (None, "x")
    assert ps.open_shards([*parts, part(5, "t", "y")]).dimension_names is None
    assert ps.open_shards([*parts, part(6)]).dimension_names is None


def test_masked_elements_of_a_reader_are_refused(tmp_path: Path) -> None:
    def masked(path: str, low: int, high: int) -> Any:
        values = read_rows(path, low, high)
        return np.ma.masked_array(values, np.arange(values.size).reshape(values.shape) == 1)

    def bare(path: str, low: int, high: int) -> Any:
        return np.ma.masked_array(read_rows(path, low, high))

    path = tmp_path / "file_1"
    with pytest.raises(
        ps.InvalidArgumentError, match=r"reader of '.*file_1' returned masked elements for rows \[0, 2\)"
    ):
        ps.open_shards([path], metadata=rows_of, reader=masked)[:2]
    expected = ps.open_shards([path], metadata=rows_of, reader=read_rows)[...]
    np.testing.assert_array_equal(ps.open_shards([path], metadata=rows_of, reader=bare)[...], expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_arrays_with_different_chunks_and_fill_values_are_joined(tmp_path: Path, axis: int) -> None:
    values = np.arange(30 * 44, dtype="i4").reshape(30, 44)
    arrays = []
    for number, part in enumerate(np.split(values, [9, 20], axis)):
        name = str(tmp_path / f"p_{number}.zarr")
        chunks = (3 + number, 5 + 4 * number)
        made = ps.create_array(name, shape=part.shape, dtype="i4", chunks=chunks, fill_value=-number, codecs=["zstd"])
        made[2:, 2:] = part[2:, 2:]
        part[:2] = -number
        part[:, :2] = -number
        arrays.append(ps.open(name))
    a = ps.open_shards(arrays, axis=axis)
    for key in (np.s_[...], np.s_[::-3, 5:], np.s_[7:22, 7:22], np.s_[0], np.s_[:, -1]):
        np.testing.assert_array_equal(a[key], values[key])
    np.testing.assert_array_equal(a.oindex[[21, 0, 8]], values[[21, 0, 8]])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], values)
    assert "p_1.zarr/c/0/0'" in str(a.plan())
    assert "p_2.zarr/c/" in str(a.plan(ps.oindex[[29, 1, 4], [43, 0, 1]]))
    out = np.zeros_like(values, dtype="f8")
    a.read(out=out, dtype="f8")
    np.testing.assert_array_equal(out, values)


@pytest.mark.parametrize("told", [(2.7, (4,), "f4"), (2, (4.5,), "f4"), (2, (), "S0"), (2, (), "V0"), (2, (), "U"), 7])
def test_invalid_metadata_of_a_reader_is_refused(told: Any) -> None:
    with pytest.raises(ps.InvalidArgumentError, match="'/x': "):
        ps.open_shards(["/x"], metadata=lambda path: told, reader=read_rows)


def test_members_of_archives_are_joined_and_pickled(tmp_path: Path) -> None:
    values = np.arange(60.0).reshape(20, 3)
    paths = ps.save_shards(values, tmp_path / "m_{}.npz", rows=7, name="speed")
    np.testing.assert_array_equal(np.load(paths[1])["speed"], values[7:14])
    for options in ({}, {"path": "speed"}):
        a = ps.open_shards(str(tmp_path / "m_*.npz"), **options)
        np.testing.assert_array_equal(a[...], values)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], values)
    one = ps.open(f"file://{paths[0]}", "speed")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one))[...], values[:7])
    np.savez(paths[0], speed=values[:7] + 1)
    with pytest.raises(ps.ConflictError):
        one[...]


def test_references_are_shards(tmp_path: Path) -> None:
    values = np.arange(24, dtype="<i4").reshape(6, 4)
    for number, part in enumerate(np.split(values, [2])):
        (tmp_path / f"raw_{number}").write_bytes(part.tobytes())
        document = {
            "zarr_format": 2, "shape": part.shape, "chunks": part.shape, "dtype": "<i4", "compressor": None,
            "filters": None, "order": "C", "fill_value": -1,
        }  # fmt: skip
        refs = {
            ".zgroup": '{"zarr_format": 2}',
            "x/.zarray": json.dumps(document),
            "x/0.0": [f"raw_{number}", 0, part.nbytes],
        }
        (tmp_path / f"k_{number}.json").write_text(json.dumps({"version": 1, "refs": refs}))
    pattern = str(tmp_path / "k_*.json")
    np.testing.assert_array_equal(ps.open_shards(pattern, path="x")[...], values)
    with pytest.raises(ps.InvalidArgumentError, match=r"path="):
        ps.open_shards(pattern)
    (tmp_path / "raw_0").unlink()
    filled = ps.open_shards(pattern, path="x", missing="fill")
    assert (filled[:2] == -1).all()
    np.testing.assert_array_equal(filled[2:], values[2:])


def test_tiff_shards(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    values = np.arange(3 * 64 * 80, dtype="u2").reshape(3, 64, 80)
    for number in range(3):
        tifffile.imwrite(tmp_path / f"t_{number}.tif", values[number], tile=(32, 32))
    for axis in (0, 1, 2):
        a = ps.open_shards(str(tmp_path / "t_*.tif"), axis=axis)
        expected = np.concatenate([values[i : i + 1] for i in range(3)], axis)
        np.testing.assert_array_equal(a[...], expected)
        np.testing.assert_array_equal(a[:, 3:40:7, ::-2], expected[:, 3:40:7, ::-2])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], expected)


def test_local_zarr_arrays_are_opened_by_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [np.full((2, 3), number, "i4") for number in range(5)]
    pattern = zarr_shards(tmp_path, parts, (2, 3))
    with monkeypatch.context() as patch:
        patch.setattr("penstock.api.shards.open", None)  # it must not be called
        a = ps.open_shards(pattern)
    np.testing.assert_array_equal(a[...], np.concatenate(parts))
    ps.create_group(tmp_path / "p_5.zarr")
    (tmp_path / "p_6.zarr").mkdir()
    with pytest.raises(ps.NotFoundError, match=r"1 of 7 files cannot be read.*p_6.zarr"):
        ps.open_shards(pattern)


@pytest.mark.parametrize("suffix", [".zarr", ".tif"])
def test_files_that_a_pattern_names_have_a_manifest(tmp_path, suffix):
    values = np.arange(7 * 4 * 6, dtype="f4").reshape(7, 4, 6)
    for i, rows in enumerate((2, 4, 1)):
        ps.save(tmp_path / f"part_{i}{suffix}", values[sum((2, 4, 1)[:i]) :][:rows])
    joined = ps.open_shards(str(tmp_path / f"part_*{suffix}"))
    ps.save_manifest(joined, tmp_path / "parts.manifest")
    for again in (ps.open(tmp_path / "parts.manifest"), ps.open_shards(tmp_path / "parts.manifest")):
        np.testing.assert_array_equal(again[...], values)
    if suffix == ".tif":
        mask = ps.open_shards([ps.open(tmp_path / "part_0.tif", layout="native")])
        with pytest.raises(ps.InvalidArgumentError, match=r"no manifest describes.*part_0\.tif"):
            ps.save_manifest(mask, tmp_path / "other.manifest")
    else:
        shutil.rmtree(tmp_path / "part_1.zarr")
        ps.save(tmp_path / "part_1.zarr", values[:3])
        with pytest.raises(ps.ConflictError, match="part_1"):
            ps.save_manifest(joined, tmp_path / "other.manifest")
    assert not (tmp_path / "other.manifest").exists()


@pytest.mark.parametrize("suffix", [".zarr", ".tif", ".npz"])
def test_a_manifest_opens_what_the_pattern_opens(tmp_path: Path, suffix: str) -> None:
    values = np.arange(9 * 5 * 4, dtype="<f4").reshape(9, 5, 4)
    ps.save_shards(values, tmp_path / f"s_{{}}{suffix}", rows=3)
    joined, saved = ps.open_shards(tmp_path / f"s_*{suffix}"), ps.open(tmp_path / "penstock.shards")
    assert str(saved.plan(np.s_[2:4, 1])) == str(joined.plan(np.s_[2:4, 1]))
    assert "box" not in str(saved.plan())
    np.testing.assert_array_equal(saved[2:4, 1], values[2:4, 1])
    again = pickle.loads(pickle.dumps(saved))
    np.testing.assert_array_equal(again[2:4, 1], values[2:4, 1])
    assert str(again.plan(np.s_[2:4, 1])) == str(joined.plan(np.s_[2:4, 1]))
    np.testing.assert_array_equal(again[...], values)
