"""HDF5, Parquet and Arrow files as shards of one array, with the guarantees of `.npy` shards."""

from __future__ import annotations

import json
import os
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from penstock.shards.names import FORMATS
from penstock.target.sniff import format_by_name
from support.program import run_program

h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def test_the_formats_of_python_are_those_of_the_engine() -> None:
    found = {format_by_name(f"x{ending}") for ending in _core.shard_endings(b"")}
    assert found == {*FORMATS, "npz"}  # a member of an archive is not a value of `format=`


LENGTHS = [5, 0, 17, 1, 40, 0, 9]


def cut(whole: np.ndarray, lengths: list[int], axis: int = 0) -> list[np.ndarray]:
    return np.split(whole, np.cumsum(lengths)[:-1], axis)


def write_hdf5(folder: Path, parts: list[np.ndarray], **options: Any) -> str:
    for number, part in enumerate(parts):
        with h5py.File(folder / f"part_{number}.h5", "w") as file:
            chunks = options.get("chunks")
            clipped = (
                {"chunks": tuple(max(1, min(c, n)) for c, n in zip(chunks, part.shape, strict=True))} if chunks else {}
            )
            file.create_dataset("x", data=part, **({**options, **clipped} if part.size else {}))
    return str(folder / "part_*.h5")


def write_tables(folder: Path, parts: list[np.ndarray], suffix: str, group: int = 7) -> str:
    for number, part in enumerate(parts):
        column = pa.array(np.ascontiguousarray(part).reshape(-1))
        for length in reversed(part.shape[1:]):
            column = pa.FixedSizeListArray.from_arrays(column, length)
        table = pa.table({"x": column, "y": pa.array(np.arange(len(part), dtype="i2"))})
        path = folder / f"part_{number}{suffix}"
        if suffix == ".parquet":
            pq.write_table(table, path, row_group_size=group)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=group)
    return str(folder / f"part_*{suffix}")


def compare(a: ps.Array, values: np.ndarray, seed: int = 0) -> None:
    """Compare selections of every kind, tiles, streams and plans with NumPy's results."""
    rng = random.Random(seed)
    assert a.shape == values.shape
    np.testing.assert_array_equal(a[...], values)
    for _ in range(15):
        key = tuple(
            slice(rng.randint(-5, n + 3), rng.randint(-5, n + 3), rng.choice([1, 1, 2, 5, -1, -3]))
            for n in values.shape
        )
        np.testing.assert_array_equal(a[key], values[key])
        if 0 in values.shape:
            continue
        rows = [rng.randrange(values.shape[0]) for _ in range(rng.randint(1, 9))]
        np.testing.assert_array_equal(a.oindex[(rows,)], values[rows])
        points = tuple(np.array([rng.randrange(n) for _ in range(11)]) for n in values.shape)
        np.testing.assert_array_equal(a.vindex[points], values[points])
        mask = np.random.default_rng(rng.random().as_integer_ratio()[0] % 1000).random(values.shape) < 0.3
        np.testing.assert_array_equal(a.vindex[mask], values[mask])
        full = np.ones(values.shape, bool)
        np.testing.assert_array_equal(a.vindex[full], values[full])
    out = np.full(values.shape, 9, a.dtype)
    a.read(out=out)
    np.testing.assert_array_equal(out, values)
    if 0 in values.shape:
        return
    assert "fetch" in a.plan() or "fill" in a.plan()
    tiles = [a[tile] for tile in ps.tiles(a.shape, 3)]
    np.testing.assert_array_equal(np.concatenate(tiles), values)
    with ps.stream(a, tile=tuple(max(1, n // 2) for n in a.shape)) as stream:
        for tile in stream:
            np.testing.assert_array_equal(tile.data, values[tile.box])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], values)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"chunks": (4, 3, 2)},
    {"chunks": (8, 9, 5), "compression": "gzip", "shuffle": True},
    {"chunks": (3, 5, 5), "compression": "lzf", "fletcher32": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(map(str, each)) or "contiguous")
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["<f4", ">i2"])
def test_hdf5_shards_read_as_numpy_concatenates(tmp_path: Path, options: Any, axis: int, dtype: str) -> None:
    shape = [19, 11, 6]
    shape[axis] = sum(LENGTHS)
    values = np.random.default_rng(1).integers(0, 999, shape).astype(dtype)
    a = ps.open_shards(write_hdf5(tmp_path, cut(values, LENGTHS, axis), **options), dataset="x", axis=axis)
    compare(a, values)
    if options.get("chunks", (9, 0, 0))[1] < 6 or axis == 0:
        assert a.format == "hdf5", "they are read by the engine, chunk by chunk"


def test_long_contiguous_datasets_are_divided(tmp_path: Path) -> None:
    values = np.arange(3_000_000, dtype="<i4").reshape(-1, 3)
    lengths = [400_000, 1, 99_999, 500_000]
    a = ps.open_shards(write_hdf5(tmp_path, cut(values, lengths)), dataset="x")
    assert a.format == "hdf5"
    np.testing.assert_array_equal(a[399_990:400_010], values[399_990:400_010])
    np.testing.assert_array_equal(a[::1777, 1], values[::1777, 1])
    np.testing.assert_array_equal(a[...], values)
    wide = np.arange(1_200_000, dtype="<i4").reshape(3, 400_000)
    (tmp_path / "wide").mkdir()
    a = ps.open_shards(write_hdf5(tmp_path / "wide", cut(wide, [1, 2])), dataset="x")
    assert a.format == "hdf5"
    np.testing.assert_array_equal(a.vindex[[2, 0, 1], [399_999, 5, 300_000]], wide[[2, 0, 1], [399_999, 5, 300_000]])
    np.testing.assert_array_equal(a[...], wide)


def test_chunks_that_were_never_written_and_compact_ones(tmp_path: Path) -> None:
    values = np.full((60, 4), -7, "<i4")
    for number in range(3):
        with h5py.File(tmp_path / f"part_{number}.h5", "w") as file:
            if number == 1:
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_layout(h5py.h5d.COMPACT)
                space = h5py.h5s.create_simple((20, 4))
                made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, space, plist)
                made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.full((20, 4), 5, "<i4"))
            else:
                made = file.create_dataset("x", (20, 4), "<i4", chunks=(6, 4), fillvalue=-7)
                if number == 2:
                    made[7:9] = 3
    values[20:40] = 5
    values[47:49] = 3
    compare(ps.open_shards(str(tmp_path / "part_*.h5"), dataset="x"), values)


def test_shards_that_are_stored_differently_are_joined(tmp_path: Path) -> None:
    values = np.arange(600.0).reshape(100, 6)
    kept: list[dict[str, Any]] = [{"chunks": (7, 6)}, {"chunks": (7, 2)}, {"compression": "gzip"}, {}]
    for number, (part, options) in enumerate(zip(cut(values, [10, 30, 40, 20]), kept, strict=True)):
        with h5py.File(tmp_path / f"part_{number}.h5", "w") as file:
            file.create_dataset("x", data=part.astype(">f8" if number == 3 else "<f8"), **options)
    compare(ps.open_shards(str(tmp_path / "part_*.h5"), dataset="x"), values)


def test_datasets_of_one_file_are_shards(tmp_path: Path) -> None:
    parts = [np.full((n + 1, 3), n, "<f4") for n in range(12)]
    with h5py.File(tmp_path / "all.h5", "w") as file:
        for number, part in enumerate(parts):
            file.create_dataset(f"run/shard_{number}", data=part)
        file["run/other"] = np.zeros(3)
    a = ps.open_shards(tmp_path / "all.h5", dataset="run/shard_*")
    compare(a, np.concatenate(parts))
    with h5py.File(tmp_path / "all.h5", "a") as file:
        for number in (3, 5, 6, 7, 8, 9):
            del file[f"run/shard_{number}"]
    with pytest.raises(ps.InvalidArgumentError, match=r"'run/shard_3'.*'run/shard_8' and 1 more"):
        ps.open_shards(tmp_path / "all.h5", dataset="run/shard_*")
    allowed = ps.open_shards(tmp_path / "all.h5", dataset="run/shard_*", gaps="allow")
    np.testing.assert_array_equal(allowed[:, 0], np.repeat([0, 1, 2, 4, 10, 11], [1, 2, 3, 5, 11, 12]))
    with pytest.raises(ps.NotFoundError, match="no dataset 'run/part_"):
        ps.open_shards(tmp_path / "all.h5", dataset="run/part_*")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("trailing", [(), (3,), (2, 2)])
def test_tables_read_as_numpy_concatenates(tmp_path: Path, suffix: str, trailing: tuple[int, ...]) -> None:
    values = np.random.default_rng(2).normal(size=(sum(LENGTHS), *trailing))
    pattern = write_tables(tmp_path, cut(values, LENGTHS), suffix)
    compare(ps.open_shards(pattern, column="x"), values)
    if not trailing:
        y = np.concatenate([np.arange(n) for n in LENGTHS])
        both = ps.open_shards(pattern, columns=["y", "x"], dtype="f8")
        compare(both, np.stack([y, values], axis=1))


def test_only_the_selected_row_groups_are_decoded(tmp_path: Path) -> None:
    pattern = write_tables(tmp_path, [np.arange(100.0), np.arange(100.0, 200)], ".parquet", group=10)
    a = ps.open_shards(pattern, column="x")
    assert len([line for line in a.plan(np.s_[95:105]).splitlines() if line.startswith("fetch")]) == 2
    assert "row group 9 of" in a.plan(np.s_[95:105])


def test_nulls_of_tables(tmp_path: Path) -> None:
    for number in range(2):
        pq.write_table(pa.table({"x": pa.array([1.0, None, 3.0])}), tmp_path / f"t_{number}.parquet")
    with pytest.raises(ps.InvalidArgumentError, match=r"has 1 null[\s\S]*t_0.parquet"):
        ps.open_shards(str(tmp_path / "t_*.parquet"), column="x")[...]
    assert ps.open_shards(str(tmp_path / "t_*.parquet"), column="x", nulls=0)[...].tolist() == [1, 0, 3] * 2


@pytest.mark.parametrize("null", ["NaT", 77])
@pytest.mark.parametrize("dtype", ["M8[ns]", "M8[ms]", "m8[us]"])
def test_manifests_hold_times_for_nulls(tmp_path: Path, dtype: str, null: Any) -> None:
    values = pa.array(np.array([1, 2, 3]).astype(dtype), mask=np.array([False, True, False]))
    for number in range(2):
        pq.write_table(pa.table({"x": values}), tmp_path / f"t_{number}.parquet")
    fill = np.array(null, dtype)[()]
    a = ps.open_shards(str(tmp_path / "t_*.parquet"), column="x", nulls=fill)
    ps.save_manifest(a, tmp_path / "all.shards")
    again = ps.open_shards(tmp_path / "all.shards")
    ps.save_manifest(again, tmp_path / "again.shards")
    expected = np.array([1, fill.astype("i8"), 3] * 2, "i8")
    for each in (a, again, ps.open_shards(tmp_path / "again.shards"), pickle.loads(pickle.dumps(again))):
        assert each.dtype == dtype
        np.testing.assert_array_equal(each[...].view("i8"), expected)


def test_tables_of_other_columns_are_refused_when_they_are_opened(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0], "y": [2.0]}), tmp_path / "t_0.parquet")
    pq.write_table(pa.table({"y": [4.0], "x": [3.0]}), tmp_path / "t_1.parquet")
    assert ps.open_shards(str(tmp_path / "t_*.parquet"))[...].tolist() == [[1, 2], [3, 4]]
    pq.write_table(pa.table({"x": [5.0], "z": [6.0]}), tmp_path / "t_2.parquet")
    with pytest.raises(ps.InvalidArgumentError, match=r"1 of 3 files .* has x, y: '.*t_2.parquet' has x, z"):
        ps.open_shards(str(tmp_path / "t_*.parquet"))


def make(folder: Path, suffix: str, parts: list[np.ndarray]) -> tuple[str, dict[str, Any]]:
    if suffix == ".h5":
        return write_hdf5(folder, parts, chunks=(4, 3)), {"dataset": "x"}
    return write_tables(folder, parts, suffix), {"column": "x"}


SUFFIXES = pytest.mark.parametrize("suffix", [".h5", ".parquet", ".arrow"])


@SUFFIXES
def test_unreadable_files_are_named_before_data_is_read(tmp_path: Path, suffix: str) -> None:
    pattern, options = make(tmp_path, suffix, [np.zeros((9, 3))] * 9)
    whole = (tmp_path / f"part_0{suffix}").read_bytes()
    for number, bad in enumerate([b"", whole[:7], b"x" * 200, whole[:100], b"\0" * 4096, whole[: len(whole) // 3]], 1):
        (tmp_path / f"part_{number}{suffix}").write_bytes(bad)
    with pytest.raises(ps.Error, match="6 of 9 files cannot be read") as failure:
        ps.open_shards(pattern, **options)
    assert all(f"part_{number}{suffix}" in str(failure.value) for number in range(1, 6))
    assert "and 1 more" in str(failure.value)


@SUFFIXES
def test_missing_numbers_and_other_files_are_named(tmp_path: Path, suffix: str) -> None:
    pattern, options = make(tmp_path, suffix, [np.zeros((9, 3))] * 4)
    os.unlink(tmp_path / f"part_2{suffix}")
    with pytest.raises(ps.InvalidArgumentError, match=rf"part_2{suffix}"):
        ps.open_shards(pattern, **options)
    assert ps.open_shards(pattern, gaps="allow", **options).shape == (27, 3)
    for odd in (np.zeros((9, 4)), np.zeros((9, 3), "f4"), np.zeros((9, 3, 1))):
        (tmp_path / "odd").mkdir(exist_ok=True)
        make(tmp_path / "odd", suffix, [odd[:0, ..., :0] if False else odd]) if odd.ndim == 2 else write_odd(
            tmp_path, suffix
        )
        os.replace(tmp_path / "odd" / f"part_0{suffix}", tmp_path / f"part_2{suffix}")
        with pytest.raises(ps.InvalidArgumentError, match=rf"1 of 4 files do not match '.*part_0{suffix}"):
            ps.open_shards(pattern, **options)


def write_odd(folder: Path, suffix: str) -> None:
    if suffix == ".h5":
        write_hdf5(folder / "odd", [np.zeros((9, 3, 1))])
    else:
        write_tables(folder / "odd", [np.zeros((9, 3, 1))], suffix)


def change(path: Path, how: str) -> None:
    if how == "vanishes":
        path.unlink()
    elif how == "shrinks":
        os.truncate(path, path.stat().st_size // 2)
    else:
        draft = path.with_suffix(".draft")
        draft.write_bytes(path.read_bytes())
        os.replace(draft, path)


@SUFFIXES
@pytest.mark.parametrize("how", ["vanishes", "shrinks", "is replaced"])
@pytest.mark.parametrize("by_manifest", [False, True])
def test_a_file_that_changed_is_an_error(tmp_path: Path, suffix: str, how: str, by_manifest: bool) -> None:
    pattern, options = make(tmp_path, suffix, [np.full((9, 3), n, "f8") for n in range(4)])
    a = ps.open_shards(pattern, **options)
    if by_manifest:
        ps.save_manifest(a, tmp_path / "all.shards")
        a = ps.open_shards(tmp_path / "all.shards")
    change(tmp_path / f"part_2{suffix}", how)
    with pytest.raises(ps.ConflictError, match=rf"part_2{suffix}"):
        a[...]
    assert (a[:10:9, 0] == [0, 1]).all()


@SUFFIXES
def test_manifests_replace_the_headers_and_notice_changes(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(120.0).reshape(40, 3)
    (tmp_path / "run").mkdir()
    pattern, options = make(tmp_path / "run", suffix, cut(values, [10, 0, 30]))
    cache = tmp_path / "run" / "cache"
    ps.open_shards(pattern, manifest=cache, **options)
    before = cache.stat().st_mtime_ns
    os.rename(tmp_path / "run", tmp_path / "moved")
    moved, cache = str(tmp_path / "moved" / f"part_*{suffix}"), tmp_path / "moved" / "cache"
    for way in (ps.open_shards, ps.open):
        np.testing.assert_array_equal(way(cache)[...], values)
    with monkeypatch.context() as patch:
        patch.setattr("penstock.shards.files.side_by_side", None)  # headers are not read
        again = ps.open_shards(moved, manifest=cache, **options)
    np.testing.assert_array_equal(again[5:20], values[5:20])
    assert cache.stat().st_mtime_ns == before
    make(tmp_path / "moved", suffix, cut(values, [10, 0, 30, 0]))
    with pytest.raises(ps.ConflictError):
        ps.open_shards(cache)[...]


@pytest.mark.parametrize(
    ("suffix", "options"),
    [(".h5", {}), (".h5", {"compression": "gzip"}), (".hdf5", {"chunks": (7, 2)}), (".parquet", {}), (".arrow", {})],
)
@pytest.mark.parametrize("dtype", ["<f4", ">i8", "?"])
def test_saved_shards_are_read_and_checked(tmp_path: Path, suffix: str, options: dict[str, Any], dtype: str) -> None:
    values = (np.arange(300).reshape(100, 3) % 7 > 3).astype(dtype)
    pattern = str(tmp_path / ("shard_{:05d}" + suffix))
    paths = ps.save_shards(values, pattern, rows=30, **options)
    assert [os.path.basename(path) for path in paths] == [f"shard_{n:05d}{suffix}" for n in range(4)]
    assert not list(tmp_path.glob("*.tmp"))
    manifest = str(tmp_path / "penstock.shards")
    np.testing.assert_array_equal(ps.open_shards(manifest)[...], values)
    chosen = {"dataset": "x"} if suffix[1] == "h" else {"column": "x"}
    np.testing.assert_array_equal(ps.open_shards(str(tmp_path / f"shard_*{suffix}"), **chosen)[...], values)
    good = run_program("check", manifest)
    assert good.returncode == 0, good.stdout + good.stderr
    if suffix[1] == "h":
        assert json.loads(run_program("info", manifest, "--json").stdout)["shape"] == [100, 3]
    seen = os.stat(paths[1])
    with open(paths[1], "r+b") as file:  # outside of all chunks and row groups: only the checksum detects it
        file.seek(-1, os.SEEK_END) if suffix[1] == "h" else file.seek(3)
        last = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([last[0] ^ 1]) if suffix[1] == "h" else last)
    os.utime(paths[1], ns=(seen.st_atime_ns, seen.st_mtime_ns))
    if suffix[1] == "h":
        bad = run_program("check", manifest, "--json")
        assert bad.returncode == 1
        assert "CRC-32C" in bad.stdout


def test_a_flipped_byte_of_a_table_is_found(tmp_path: Path) -> None:
    paths = ps.save_shards(np.arange(4000.0), str(tmp_path / "s_{}.parquet"), rows=1000, use_dictionary=False)
    manifest = str(tmp_path / "penstock.shards")
    seen = os.stat(paths[1])
    with open(paths[1], "r+b") as file:
        file.seek(1000)
        file.write(b"\xff\xfe")
    os.utime(paths[1], ns=(seen.st_atime_ns, seen.st_mtime_ns))
    for arguments in (["check", manifest], ["check", "--json", manifest]):
        bad = run_program(*arguments)
        assert bad.returncode == 1
        assert "CRC-32C" in bad.stdout
        assert "s_1.parquet" in bad.stdout
    bad = run_program("check", manifest, "--retries", "0")  # the flags of all verbs that open a URI
    assert (bad.returncode, "s_1.parquet" in bad.stdout) == (1, True), bad.stderr


def test_a_file_that_cannot_be_opened_is_left_to_the_cpp_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.cli import check

    def refuse(*_: Any) -> None:
        raise PermissionError

    (tmp_path / "a.json").write_text('{"kind": "tables"}')
    monkeypatch.setattr("builtins.open", refuse)
    assert not check.takes([str(tmp_path / "a.json")])


def test_a_manifest_with_too_many_levels_is_reported_as_damaged(tmp_path: Path) -> None:
    text = '{"penstock_manifest": 1, "kind": "tables", "columns": ' + "[" * 100_000 + "]" * 100_000 + "}\n"
    (tmp_path / "deep").write_text(text)
    done = run_program("check", tmp_path / "deep")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "corrupt_data: " in done.stdout + done.stderr


def test_shards_are_written_one_by_one(tmp_path: Path) -> None:
    values = np.arange(30.0).reshape(10, 3)
    for suffix in (".h5", ".parquet", ".arrow"):
        with ps.ShardWriter(str(tmp_path / f"s_{{}}{suffix}"), name="speed") as writer:
            writer.write(values[:4])
            writer.write(values[4:4])
            writer.write(values[4:])
        np.testing.assert_array_equal(ps.open_shards(tmp_path / "penstock.shards")[...], values)
    with pytest.raises(ps.UnsupportedError, match="tables have no items of complex128"):
        ps.save_shards(np.zeros(3, complex), str(tmp_path / "c_{}.parquet"), rows=2)
    with pytest.raises(ps.UnsupportedError, match="HDF5 has no items of"):
        ps.save_shards(np.array(["a", "b"]), str(tmp_path / "c_{}.h5"), rows=2)
    with pytest.raises(ps.InvalidArgumentError, match="take no option 'compression'"):
        ps.ShardWriter(str(tmp_path / "s_{}.npy"), compression="gzip")


def test_options_without_effect_are_refused(tmp_path: Path) -> None:
    pattern, options = make(tmp_path, ".h5", [np.zeros((9, 3))] * 2)
    with pytest.raises(ps.UnsupportedError, match="cannot be mapped"):
        ps.open_shards(pattern, mmap=True, **options)
    with pytest.raises(ps.InvalidArgumentError, match="take no option 'columns'"):
        ps.open_shards(pattern, columns="x", **options)
    with pytest.raises(ps.UnsupportedError, match="format is one of"):
        ps.open_shards(pattern, format="csv", **options)
    ps.save_shards(np.zeros((4, 2)), str(tmp_path / "z_{}.zarr"), rows=2)
    with pytest.raises(ps.UnsupportedError, match="have no manifest"):
        ps.open_shards(str(tmp_path / "z_*.zarr"), manifest=tmp_path / "m")
    with pytest.raises(ps.InvalidArgumentError, match="not tiff"):
        ps.open_shards(str(tmp_path / "z_*.zarr"), format="tiff")
    assert ps.open_shards(str(tmp_path / "z_*.zarr"), format="zarr").shape == (4, 2)


def test_broken_stores_among_many_are_named(tmp_path: Path) -> None:
    ps.save_shards(np.zeros((12, 2)), str(tmp_path / "z_{}.zarr"), rows=1)
    for number in range(3, 10):
        (tmp_path / f"z_{number}.zarr" / "zarr.json").write_text("{")
    with pytest.raises(ps.Error, match=r"7 of 12 files cannot be read: '.*z_3.zarr'.*z_7.zarr'.*and 2 more"):
        ps.open_shards(str(tmp_path / "z_*.zarr"))


@SUFFIXES
def test_hostile_manifests_are_refused(tmp_path: Path, suffix: str) -> None:
    pattern, options = make(tmp_path, suffix, [np.zeros((9, 3)), np.ones((2, 3))])
    ps.save_manifest(ps.open_shards(pattern, **options), tmp_path / "all")
    good = (tmp_path / "all").read_bytes()
    rng = random.Random(1)
    for _ in range(150):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            bad[rng.randrange(len(bad))] = rng.choice(b"0123456789[]{},-x\xff")
        if rng.random() < 0.3:
            del bad[rng.randrange(len(bad)) :]
        (tmp_path / "all").write_bytes(bad)
        try:
            got = ps.open(tmp_path / "all")
            if not isinstance(got, ps.Group) and got.nbytes < 1 << 20:
                got[...]
        except (ps.Error, MemoryError, FileNotFoundError):
            continue
