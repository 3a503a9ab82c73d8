"""Many `.npy` and raw files as one array."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.program import run_program


def write_parts(folder: Path, parts: list[np.ndarray], name: str = "shard_{:04d}.npy") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        np.save(folder / name.format(number), part)
    return str(folder / name.split("{", maxsplit=1)[0]) + "*.npy"


def cut(whole: np.ndarray, lengths: list[int], axis: int = 0) -> list[np.ndarray]:
    return np.split(whole, np.cumsum(lengths)[:-1], axis)


def random_lengths(rng: random.Random, total: int) -> list[int]:
    lengths = []
    while total:
        lengths.append(min(total, rng.choice([0, 1, 2, 3, 7, 20])))
        total -= lengths[-1]
    return lengths or [0]


DTYPES = ["<f4", ">f8", "i1", ">u2", "?", "<c8", "S3", "<U2", ">M8[ns]", [("a", "<i4"), ("b", ">f8", (2,))], "<f2"]


@pytest.mark.parametrize("seed", range(24))
def test_reads_as_numpy_concatenates(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    dtype = np.dtype(DTYPES[seed % len(DTYPES)])
    rank = rng.randint(1, 3)
    axis = rng.randrange(rank)
    shape = [rng.randint(1, 9) for _ in range(rank)]
    shape[axis] = rng.randint(0, 60)
    whole = np.random.default_rng(seed).integers(0, 100, (*shape, dtype.itemsize), dtype=np.uint8)
    if dtype.kind == "U":
        whole[..., 1::4] = whole[..., 2::4] = whole[..., 3::4] = 0
        if dtype.byteorder == ">":
            whole = whole[..., ::-1]
    if dtype.kind == "b":
        whole %= 2
    values = np.ascontiguousarray(whole).view(dtype)[..., 0]
    order = "F" if seed % 3 == 0 else "C"
    parts = [np.asarray(part, order=order) for part in cut(values, random_lengths(rng, shape[axis]), axis)]
    a = ps.open_shards(write_parts(tmp_path, parts), axis=axis)
    assert a.shape == values.shape
    assert a.dtype == dtype.newbyteorder("=") if dtype.names is None else a.dtype.names == dtype.names

    def same(got: Any, wanted: Any) -> None:
        np.testing.assert_array_equal(np.asarray(got), wanted)

    same(a[...], values)
    for _ in range(12):
        key = tuple(
            slice(rng.randint(-5, n + 3), rng.randint(-5, n + 3), rng.choice([1, 1, 2, 5, -1, -3]))
            for n in values.shape
        )
        same(a[key], values[key])
        if 0 in values.shape:
            continue
        rows = [rng.randrange(values.shape[axis]) for _ in range(rng.randint(1, 9))]
        lists = tuple(rows if d == axis else slice(None, None, 2) for d in range(rank))
        same(a.oindex[lists], values[lists])
        points = tuple(np.array([rng.randrange(n) for _ in range(7)]) for n in values.shape)
        same(a.vindex[points], values[points])
        mask = np.random.default_rng(seed).random(values.shape) < 0.2
        same(a.vindex[mask], values[mask])
    out = np.empty(values.shape, a.dtype)
    a.read(out=out)
    same(out, values)
    same(a.read_async().wait(), values)
    assert a.plan()
    same(pickle.loads(pickle.dumps(a))[...], values)


def test_fetches_only_the_bytes_that_a_selection_needs(tmp_path: Path) -> None:
    parts = cut(np.arange(1_000_000, dtype="<f8").reshape(-1, 10), [40_000, 10_000, 50_000])
    a = ps.open_shards(write_parts(tmp_path, parts))
    plan = a.plan(np.s_[39_999:40_001])
    assert "fetch 'shard_0000.npy', bytes [3200048, 3200128)" in plan
    assert "fetch 'shard_0001.npy', bytes [128, 208)" in plan
    assert len([line for line in plan.splitlines() if line.startswith("fetch")]) == 2
    assert "bytes [3200048, 3200056)" in a.plan(ps.vindex[[39_999], [0]])


def test_numbers_are_sorted_numerically(tmp_path: Path) -> None:
    parts = [np.full((1, 2), number, "<i4") for number in range(12)]
    a = ps.open_shards(write_parts(tmp_path, parts, "shard_{}.npy"))
    assert a[:, 0].tolist() == list(range(12))
    assert ps.open_shards(str(tmp_path))[:, 0].tolist() == list(range(12))
    reverse = sorted(tmp_path.iterdir(), key=lambda path: -int(path.stem.split("_")[1]))
    assert ps.open_shards(reverse)[:, 1].tolist() == list(range(12))[::-1]


def test_names_above_ten_thousand_stay_in_order(tmp_path: Path) -> None:
    for number in (9998, 9999, 10000, 10001):
        np.save(tmp_path / f"shard_{number:04d}.npy", np.array([number]))
    a = ps.open_shards(str(tmp_path / "shard_*.npy"))
    assert a[:].tolist() == [9998, 9999, 10000, 10001]


def names_in(failure: pytest.ExceptionInfo[Exception]) -> str:
    return str(failure.value)


def test_gaps_and_duplicates_are_errors_by_name(tmp_path: Path) -> None:
    pattern = write_parts(tmp_path, [np.zeros((1, 2)) for _ in range(20)])
    for number in (3, 5, 7, 9, 11, 13):
        (tmp_path / f"shard_{number:04d}.npy").unlink()
    with pytest.raises(ps.InvalidArgumentError, match=r"'shard_0003.npy'.*'shard_0011.npy' and 1 more"):
        ps.open_shards(pattern)
    assert ps.open_shards(pattern, gaps="allow").shape == (14, 2)
    with pytest.warns(DeprecationWarning, match=r"holes.*gaps"):
        assert ps.open_shards(pattern, holes="allow").shape == (14, 2)
    (tmp_path / "shard_0003.npy").write_bytes((tmp_path / "shard_0000.npy").read_bytes())
    (tmp_path / "shard_3.npy").write_bytes((tmp_path / "shard_0000.npy").read_bytes())
    with pytest.raises(ps.InvalidArgumentError, match=r"one number: 'shard_0003.npy', 'shard_3.npy'"):
        ps.open_shards(pattern, gaps="allow")
    one = tmp_path / "shard_0000.npy"
    with pytest.raises(ps.InvalidArgumentError, match=r"given twice.*'shard_0000.npy'"):
        ps.open_shards([one, one])


def test_a_missing_first_file_is_an_error(tmp_path: Path) -> None:
    pattern = write_parts(tmp_path, [np.zeros(2) for _ in range(4)])
    (tmp_path / "shard_0000.npy").unlink()
    assert ps.open_shards(pattern).shape == (6,)  # sequences may begin with 1
    (tmp_path / "shard_0001.npy").unlink()
    with pytest.raises(ps.InvalidArgumentError, match=r"lacks 'shard_0000.npy', 'shard_0001.npy'"):
        ps.open_shards(pattern)


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (np.zeros((2, 3), "<f8"), "'shard_0004.npy': <f8"),
        (np.zeros((2, 3), ">f4"), "'shard_0004.npy': >f4"),
        (np.zeros((2, 4), "<f4"), r"'shard_0004.npy': <f4 \(\*, 4\)"),
        (np.zeros((2, 3, 1), "<f4"), r"\(\*, 3, 1\)"),
        (np.float32(1), "'shard_0004.npy': a scalar"),
        (np.array([{}, {}]), "pickled Python objects"),
    ],
)
def test_files_that_cannot_be_joined_are_named(tmp_path: Path, odd: np.ndarray, message: str) -> None:
    pattern = write_parts(tmp_path, [np.zeros((2, 3), "<f4")] * 4 + [odd])
    with pytest.raises(ps.Error, match=message) as failure:
        ps.open_shards(pattern)
    assert "1 of 5 files" in names_in(failure)


def test_unreadable_files_are_named_before_data_is_read(tmp_path: Path) -> None:
    pattern = write_parts(tmp_path, [np.zeros((2, 3))] * 9)
    whole = (tmp_path / "shard_0000.npy").read_bytes()
    bad = [b"", whole[:7], whole[:100], b"x" * 200, whole.replace(b"descr", b"d\0scr"), whole[:6] + b"\x09" + whole[7:]]
    for number, content in enumerate(bad, 1):
        (tmp_path / f"shard_{number:04d}.npy").write_bytes(content)
    with pytest.raises(ps.Error, match="6 of 9 files cannot be read") as failure:
        ps.open_shards(pattern)
    text = names_in(failure)
    assert all(f"shard_{number:04d}.npy" in text for number in range(1, 6))
    assert "and 1 more" in text
    assert "the file has no bytes" in text
    for number in range(1, 7):
        (tmp_path / f"shard_{number:04d}.npy").write_bytes(whole)
    (tmp_path / "shard_0007.npy").write_bytes(whole[:-1])
    with pytest.raises(ps.CorruptDataError, match=r"truncated: 'shard_0007.npy': has 175 bytes, its header needs 176"):
        ps.open_shards(pattern)


def test_every_truncated_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(4))
    whole = (tmp_path / "x.npy").read_bytes()
    for size in range(len(whole)):
        (tmp_path / "x.npy").write_bytes(whole[:size])
        with pytest.raises(ps.Error):
            ps.open(tmp_path / "x.npy")


def test_empty_and_zero_row_files(tmp_path: Path) -> None:
    parts = [np.zeros((n, 2), "<i2") for n in (0, 3, 0, 0, 2, 0)]
    assert ps.open_shards(write_parts(tmp_path / "a", parts))[...].shape == (5, 2)
    nothing = ps.open_shards(write_parts(tmp_path / "b", parts[:1] + parts[2:4]))
    assert nothing.shape == (0, 2)
    assert nothing[...].shape == (0, 2)
    assert pickle.loads(pickle.dumps(nothing)).shape == (0, 2)


def change(path: Path, how: str) -> None:
    if how == "vanishes":
        path.unlink()
    elif how == "shrinks":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "is replaced":
        other = path.with_suffix(".new")
        np.save(other.with_suffix(".npy"), np.full((50, 4), 7.0))
        os.replace(other.with_suffix(".npy"), path)
    else:
        with path.open("r+b") as file:
            file.seek(128)
            file.write(b"\7" * 8)


@pytest.mark.parametrize("how", ["vanishes", "shrinks", "is replaced", "is written to"])
@pytest.mark.parametrize("by_manifest", [False, True])
def test_a_file_that_changed_is_an_error(tmp_path: Path, how: str, by_manifest: bool) -> None:
    pattern = write_parts(tmp_path, [np.full((50, 4), number, float) for number in range(5)])
    a = ps.open_shards(pattern)
    if by_manifest:
        ps.save_manifest(a, tmp_path / "all.shards")
        a = ps.open_shards(tmp_path / "all.shards")
    change(tmp_path / "shard_0002.npy", how)
    with pytest.raises(ps.ConflictError, match=r"'shard_0002.npy' (was removed|has changed) since the array"):
        a[...]
    assert (a[:100:50, 0] == [0, 1]).all()
    with pytest.raises(ps.ConflictError):
        a.read_async(np.s_[120:130]).wait()


def test_files_that_change_while_they_are_read_are_never_misread(tmp_path: Path) -> None:
    first, second = np.full((400, 1000), 1.0), np.full((400, 1000), 2.0)
    pattern = write_parts(tmp_path, [first] * 3)
    np.save(tmp_path / "other.npy", second)
    other = (tmp_path / "other.npy").read_bytes()
    stop = threading.Event()

    def replace() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            draft = tmp_path / "draft"
            draft.write_bytes(other)
            os.replace(draft, tmp_path / f"shard_000{number % 3}.npy")

    a = ps.open_shards(pattern)
    changer = threading.Thread(target=replace)
    changer.start()
    try:
        for _ in range(20):
            try:
                got = ps.open_shards(pattern)[...]
            except ps.ConflictError:
                continue
            for rows in np.split(got, 3):
                assert rows.min() == rows.max()
    finally:
        stop.set()
        changer.join()
    with pytest.raises(ps.ConflictError):
        a[...]


def test_raw_files(tmp_path: Path) -> None:
    whole = np.arange(60, dtype=">i4").reshape(10, 6)
    for number, part in enumerate(cut(whole, [3, 0, 7])):
        (tmp_path / f"part_{number}.raw").write_bytes(b"header" + part.tobytes())
    pattern = str(tmp_path / "part_*.raw")
    a = ps.open_shards(pattern, dtype=">i4", row_shape=(6,), offset=6)
    np.testing.assert_array_equal(a[...], whole)
    assert a.format == "raw"
    with pytest.raises(ps.CorruptDataError, match="not a whole number of rows"):
        ps.open_shards(pattern, dtype=">i4", row_shape=(5,), offset=6)
    with pytest.raises(ps.CorruptDataError, match="its shape needs 78"):
        ps.open_shards(pattern, dtype=">i4", shape=(3, 6), offset=6)
    with pytest.raises(ps.InvalidArgumentError, match="give dtype="):
        ps.open_shards(pattern)
    (tmp_path / "_meta.json").write_text(json.dumps({"dtype": ">i4", "trailing_shape": [6], "offset": 6}))
    np.testing.assert_array_equal(ps.open_shards(pattern)[2:5], whole[2:5])
    turned = tmp_path / "turned.bin"
    turned.write_bytes(np.asarray(whole, order="F").tobytes("A"))
    b = ps.open_shards([turned], dtype=">i4", shape=(10, 6), order="F")
    np.testing.assert_array_equal(b[1:4, ::2], whole[1:4, ::2])


def test_files_with_headers_are_not_raw(tmp_path: Path) -> None:
    """With dtype= alone, their headers would be read as values."""
    values = np.arange(32, dtype="<f4").reshape(4, 8)
    np.save(tmp_path / "a.npy", values)
    (tmp_path / "b.f4").write_bytes((tmp_path / "a.npy").read_bytes())
    np.savez(tmp_path / "a.npz", x=values)
    ps.save(tmp_path / "a.tif", values)
    (tmp_path / "a.json").write_text('{"version": 1, "refs": {}}')
    ps.create_array(str(tmp_path / "a.zarr"), shape=(4, 8), dtype="<f4", chunks=(4, 8))
    for name in ("a.npy", "b.f4", "a.npz", "a.tif", "a.json", "a.zarr"):
        with pytest.raises(ps.InvalidArgumentError, match="format='raw'"):
            ps.open_shards([str(tmp_path / name)], dtype="f4")
    with pytest.raises(ps.InvalidArgumentError, match="format='raw'"):
        ps.open_shards(["memory://bucket/a.npy"], dtype="f4")
    header = (tmp_path / "a.npy").stat().st_size - values.nbytes
    raw = ps.open_shards([str(tmp_path / "a.npy")], format="raw", dtype="<f4", row_shape=(8,), offset=header)
    assert np.array_equal(raw[...], values)
    numbers = np.array([123, 5], "<i4")  # its first byte is a brace
    numbers.tofile(tmp_path / "c.i4")
    assert ps.open_shards([str(tmp_path / "c.i4")], dtype="<i4")[...].tolist() == [123, 5]


def test_manifests(tmp_path: Path) -> None:
    whole = np.arange(300.0).reshape(100, 3)
    pattern = write_parts(tmp_path / "run", cut(whole, [10, 0, 50, 40]))
    a = ps.open_shards(pattern)
    for name in ("all.shards", "all.json"):
        ps.save_manifest(a, tmp_path / "run" / name)
        ps.save_manifest(a, tmp_path / name)
        for place in (tmp_path / "run" / name, tmp_path / name):
            np.testing.assert_array_equal(ps.open_shards(place)[...], whole)
            np.testing.assert_array_equal(ps.open(place)[5:20], whole[5:20])
    os.rename(tmp_path / "run", tmp_path / "moved")
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "moved" / "all.shards")[...], whole)
    moved = str(tmp_path / "moved" / "shard_*.npy")
    cache = tmp_path / "cache"
    assert ps.open_shards(moved, manifest=cache).shape == (100, 3)
    before = cache.stat().st_mtime_ns
    assert ps.open_shards(moved, manifest=cache).shape == (100, 3)
    assert cache.stat().st_mtime_ns == before
    np.save(tmp_path / "moved" / "shard_0004.npy", whole[:1])
    assert ps.open_shards(moved, manifest=cache).shape == (101, 3)
    assert ps.open_shards(moved, manifest=cache).shape == (101, 3)


@pytest.mark.parametrize("name", ["all.shards", "all.json"])
def test_hostile_manifests_are_refused(tmp_path: Path, name: str) -> None:
    pattern = write_parts(tmp_path, [np.zeros((2, 3))] * 3)
    ps.save_manifest(ps.open_shards(pattern), tmp_path / name)
    good = (tmp_path / name).read_bytes()
    rng = random.Random(1)
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        if rng.random() < 0.3:
            del bad[rng.randrange(len(bad)) :]
        if bad == good:
            continue
        (tmp_path / name).write_bytes(bad)
        try:
            got = ps.open_shards(tmp_path / name)
            if got.nbytes < 1 << 20:
                got[...]
        except (ps.Error, MemoryError, FileNotFoundError):
            continue
        assert name.endswith(".json")  # the binary form has a checksum


def test_maps_share_pages(tmp_path: Path) -> None:
    parts = cut(np.arange(60, dtype=">i4").reshape(10, 6), [3, 0, 7])
    views = ps.open_shards(write_parts(tmp_path, parts), mmap=True)
    assert all((view == part).all() and view.dtype == part.dtype for view, part in zip(views, parts, strict=True))
    assert isinstance(views[0].base, np.memmap)
    assert not views[0].flags.writeable
    with (tmp_path / "shard_0000.npy").open("r+b") as file:
        file.seek(128)
        file.write(np.array([99], ">i4").tobytes())
    assert views[0][0, 0] == 99


def test_names_with_brackets_that_exist_are_not_patterns(tmp_path: Path) -> None:
    folder = tmp_path / "lr[0.1]"
    ps.save_shards(np.arange(6.0), folder / "x_{}.npy", rows=2, manifest=None)
    ps.save_shards(np.zeros(2), tmp_path / "lr0" / "x_{}.npy", rows=2)
    assert ps.open_shards(folder)[...].tolist() == [0, 1, 2, 3, 4, 5]
    assert ps.open_shards(tmp_path / "lr[[]0.1]" / "*.npy").shape == (6,)
    assert ps.open_shards(tmp_path / "lr[0-9]" / "*.npy").shape == (2,)
    (folder / "x_0.npy").rename(tmp_path / "y[1].npy")
    assert ps.open_shards(tmp_path / "y[1].npy").shape == (2,)


def test_custom_readers(tmp_path: Path) -> None:
    whole = np.arange(200, dtype="<i4").reshape(50, 4)
    lengths = {"a": 20, "b": 0, "c": 30}
    starts = {"a": 0, "b": 20, "c": 20}
    calls = []

    def metadata(path: str) -> tuple[int, tuple[int, ...], str]:
        return lengths[Path(path).name], (4,), "<i4"

    def reader(path: str, low: int, high: int) -> Any:
        calls.append((Path(path).name, low, high))
        start = starts[Path(path).name]
        return np.asfortranarray(whole[start + low : start + high].astype(">i4"))

    paths = [tmp_path / name for name in lengths]
    a = ps.open_shards(paths, metadata=metadata, reader=reader)
    np.testing.assert_array_equal(a[...], whole)
    calls.clear()
    np.testing.assert_array_equal(a[18:22], whole[18:22])
    assert sorted(calls) == [("a", 18, 20), ("c", 0, 2)]
    np.testing.assert_array_equal(a.oindex[[1, 40], 1:3], whole[[1, 40], 1:3])

    wrong = ps.open_shards(paths, metadata=metadata, reader=lambda path, low, high: whole[: high - low + 1])
    with pytest.raises(ps.InvalidArgumentError, match=r"the reader of '.*a' returned int32 \(21, 4\) for rows"):
        wrong[...]

    def broken(path: str) -> Any:
        raise OSError("no such drive")

    with pytest.raises(ps.InvalidArgumentError, match=r"3 of 3 files cannot be described.*no such drive"):
        ps.open_shards(paths, metadata=broken, reader=reader)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_other_arrays_are_joined(tmp_path: Path, axis: int) -> None:
    whole = np.random.default_rng(0).random((23, 19, 7)).astype("<f4")
    arrays = []
    for number, part in enumerate(cut(whole, [5, 0, 7, whole.shape[axis] - 12] if axis != -1 else [3, 0, 4], axis)):
        target = str(tmp_path / f"part_{number}.zarr")
        shape = tuple(max(1, length) for length in part.shape)
        ps.create_array(target, shape=part.shape, dtype="<f4", chunks=tuple(min(n, number + 2) for n in shape))
        opened = ps.open(target)
        if part.size:
            opened[...] = part
        arrays.append(opened)
    for a in (ps.open_shards(arrays, axis=axis), ps.open_shards(str(tmp_path / "part_*.zarr"), axis=axis)):
        np.testing.assert_array_equal(a[...], whole)
        np.testing.assert_array_equal(a[3:20:4, ::-3, 1:], whole[3:20:4, ::-3, 1:])
        np.testing.assert_array_equal(a.oindex[[20, 1], :, 2], whole[[20, 1], :, 2])
    again = pickle.loads(pickle.dumps(ps.open_shards(str(tmp_path / "part_*.zarr"), axis=axis)))
    np.testing.assert_array_equal(again[...], whole)


def test_arrays_that_cannot_be_joined_are_named(tmp_path: Path) -> None:
    one = ps.create_array(str(tmp_path / "a.zarr"), shape=(3, 4), dtype="<f4", chunks=(2, 2))
    two = ps.create_array(str(tmp_path / "b.zarr"), shape=(3, 5), dtype="<f4", chunks=(2, 2))
    with pytest.raises(ps.InvalidArgumentError, match=r"b.zarr' is float32 \(3, 5\)"):
        ps.open_shards([one, two])


@pytest.mark.parametrize("suffix", [".npy", ".raw", ".zarr"])
def test_saved_shards_are_read_back(tmp_path: Path, suffix: str) -> None:
    values = np.arange(300, dtype="<f4").reshape(100, 3)
    pattern = str(tmp_path / ("shard_{:05d}" + suffix))
    paths = ps.save_shards(values, pattern, rows=30)
    assert [os.path.basename(path) for path in paths] == [f"shard_{n:05d}{suffix}" for n in range(4)]
    np.testing.assert_array_equal(ps.open_shards(str(tmp_path / f"shard_*{suffix}"))[...], values)
    assert [len(ps.open_shards([path])) for path in ps.save_shards(values, pattern, shards=4)] == [25] * 4
    if suffix == ".npy":
        np.testing.assert_array_equal(np.concatenate([np.load(path) for path in paths]), values)
    assert not list(tmp_path.glob("*.tmp"))


def test_shard_writers_take_shards_one_by_one(tmp_path: Path) -> None:
    values = np.arange(30, dtype=">i8").reshape(10, 3)
    with ps.ShardWriter(str(tmp_path / "s_{}.npy")) as writer:
        writer.write(values[:4])
        writer.write(values[4:][:, :])
        with pytest.raises(ps.InvalidArgumentError, match="the shards so far"):
            writer.write(values[:, :2])
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "penstock.shards")[...], values)
    with pytest.raises(ps.InvalidArgumentError, match="one name"):
        ps.ShardWriter("x.npy")
    with pytest.raises(ps.UnsupportedError):
        ps.ShardWriter("x{}.txt")


def test_the_program_supports_shards(tmp_path: Path) -> None:
    values = np.arange(300, dtype="<f4").reshape(100, 3)
    paths = ps.save_shards(values, str(tmp_path / "shard_{:05d}.npy"), rows=30)
    manifest, pattern = str(tmp_path / "penstock.shards"), str(tmp_path / "shard_*.npy")
    for target in (manifest, pattern):
        shown = json.loads(run_program("info", target, "--json").stdout)
        assert shown["shape"] == [100, 3]
        assert shown["format"] == "npy"
        assert "fetch 'shard_00001.npy'" in run_program("plan", target, "29:31").stdout
    out = str(tmp_path / "out.npy")
    assert run_program("read", pattern, "29:31", "-o", out).returncode == 0
    np.testing.assert_array_equal(np.load(out), values[29:31])
    assert run_program("check", manifest).returncode == 0
    with open(paths[2], "r+b") as file:
        file.seek(150)
        file.write(b"\xff")
    os.utime(paths[2], ns=(os.stat(paths[2]).st_atime_ns, os.stat(paths[0]).st_mtime_ns))
    bad = run_program("check", manifest)
    assert bad.returncode == 1
    assert "shard_00002.npy" in bad.stdout + bad.stderr
    assert run_program("info", str(tmp_path / "shard_0000[1].npy")).returncode == 0


def test_a_flipped_byte_is_found_by_its_checksum(tmp_path: Path) -> None:
    paths = ps.save_shards(np.zeros((4, 3)), str(tmp_path / "s_{}.npy"), rows=2)
    seen = os.stat(paths[1])
    with open(paths[1], "r+b") as file:
        file.seek(150)
        file.write(b"\xff")
    os.utime(paths[1], ns=(seen.st_atime_ns, seen.st_mtime_ns))
    bad = run_program("check", str(tmp_path / "penstock.shards"))
    assert bad.returncode == 1
    assert "CRC-32C" in bad.stdout + bad.stderr


def test_single_files_and_members(tmp_path: Path) -> None:
    values = {"ints": np.arange(4), "floats": np.arange(2.0).reshape(2, 1), "scalar": np.float32(3)}
    for name, value in values.items():
        np.save(tmp_path / f"{name}.npy", value)
        a = ps.open(tmp_path / f"{name}.npy")
        assert a.shape == np.shape(value)
        assert a.format == "npy"
        np.testing.assert_array_equal(a[...], value)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], value)
    np.savez(tmp_path / "all.npz", **values)
    for name, value in values.items():
        np.testing.assert_array_equal(ps.open(tmp_path / "all.npz", name)[...], value)
    assert list(ps.open(tmp_path / "all.npz")) == sorted(values)


def test_shards_of_any_store() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    values = np.arange(60.0).reshape(20, 3)
    for number, part in enumerate(cut(values, [5, 15])):
        with memory.open(f"/run/shard_{number}.npy", "wb") as file:
            np.save(file, part)
    a = ps.open_shards("memory://run/shard_*.npy")
    np.testing.assert_array_equal(a[...], values)
    np.testing.assert_array_equal(a[4:7], values[4:7])
    memory.rm("/run", recursive=True)


def test_writes_are_refused(tmp_path: Path) -> None:
    a = ps.open_shards(write_parts(tmp_path, [np.zeros((2, 3))] * 2))
    assert a.read_only
    with pytest.raises(ps.ReadOnlyError):
        a[0] = 1


CORPUS = os.environ.get("PENSTOCK_CORPUS")


@pytest.mark.skipif(not CORPUS, reason="PENSTOCK_CORPUS names no corpus")
def test_the_whole_corpus() -> None:
    assert CORPUS is not None
    root = Path(CORPUS)
    seen = 0
    for line in (root / "oracle.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record.get("tool") != "npy" or "members" in record or "shape" not in record:
            continue
        try:
            a = ps.open(root / record["path"])
        except ps.UnsupportedError:
            assert "O" in str(record["dtype"]) or record["dtype"] == "<c32", record
            continue
        assert list(a.shape) == record["shape"], record
        data = np.ascontiguousarray(a[...])
        if data.dtype.kind in "SU" or data.dtype.names is not None:
            np.testing.assert_array_equal(a[...], np.load(root / record["path"]))
        else:
            stored = data.astype(data.dtype.newbyteorder("<"))
            assert hashlib.sha256(stored.tobytes()).hexdigest() == record["sha256"], record
        seen += 1
    assert seen > 20


@pytest.mark.parametrize("order", ["C", "F"])
def test_distant_places_are_read_separately(tmp_path: Path, order: str) -> None:
    whole = np.random.default_rng(8).integers(0, 1000, (600_000, 3)).astype(">i2")
    parts = [np.asarray(part, order=order) for part in cut(whole, [150_000, 0, 400_000, 50_000])]
    a = ps.open_shards(write_parts(tmp_path / "x", parts))
    rows = np.random.default_rng(9).integers(-600_000, 600_000, 50)
    assert 0 < sum(int(n) for n in re.findall(r"(\d+) bytes\n", str(a.plan(ps.oindex[rows])))) < 100_000
    np.testing.assert_array_equal(a.oindex[rows], whole[rows])
    np.testing.assert_array_equal(a.oindex[rows, [2, 0]], whole[np.ix_(rows, [2, 0])])
    np.testing.assert_array_equal(a.vindex[rows, rows % 3], whole[rows, rows % 3])
    mask = np.zeros(whole.shape, bool)
    mask[rows, rows % 3] = True
    np.testing.assert_array_equal(a.vindex[mask], whole[mask])
    np.testing.assert_array_equal(a.read_async(ps.oindex[rows]).wait(), whole[rows])
    out = np.zeros((50, 3), "f8")
    np.testing.assert_array_equal(a.read(ps.oindex[rows], out=out, dtype="f8"), whole[rows])
    close = np.sort(rows % 2000)  # many in one block, which is read whole
    np.testing.assert_array_equal(a.oindex[close], whole[close])
