"""Manifests of many files as a cache: used if they are up to date, rewritten if they are not."""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from support.http_server import HttpServer

VALUES = np.arange(120.0).reshape(10, 12)


def write(folder: Path, name: str = "a_{}.npy", rows: tuple[int, ...] = (4, 0, 6), axis: int = 0) -> str:
    for number, part in enumerate(np.split(VALUES, np.cumsum(rows)[:-1], axis)):
        np.save(folder / name.format(number), part)
    return str(folder / name.replace("{}", "*"))


def test_a_cache_is_valid_for_its_axis_only(tmp_path: Path) -> None:
    for number in range(2):
        np.save(tmp_path / f"a_{number}.npy", VALUES + number)
    pattern, cache = str(tmp_path / "a_*.npy"), tmp_path / "m"
    assert ps.open_shards(pattern, manifest=cache).shape == (20, 12)
    for axis in (1, -1, 0, -2):
        expected = np.concatenate([VALUES, VALUES + 1], axis)
        np.testing.assert_array_equal(ps.open_shards(pattern, manifest=cache, axis=axis)[...], expected)
        assert ps.open_shards(cache, axis=axis).shape == expected.shape
    with pytest.raises(ps.InvalidArgumentError, match="along axis 0, not 1"):
        ps.open_shards(cache, axis=1)
    with pytest.raises(ps.InvalidArgumentError, match="axis 2 is out of range"):
        ps.open_shards(pattern, manifest=cache, axis=2)


def test_a_cache_is_valid_for_its_items_only(tmp_path: Path) -> None:
    data = np.arange(48, dtype="<f4")
    (tmp_path / "a_0.raw").write_bytes(data.tobytes())
    pattern, cache = str(tmp_path / "a_*.raw"), tmp_path / "m"
    ways: list[dict[str, Any]] = [
        {"dtype": "<f4"},
        {"dtype": "<i4"},
        {"dtype": ">i4"},
        {"dtype": "<f4", "row_shape": (4,)},
        {"dtype": "<f4", "row_shape": (4,), "order": "F"},
        {"dtype": "<f4", "row_shape": (4,), "axis": 1},
        {"dtype": "<f4", "row_shape": (4,), "offset": 16},
        {"dtype": "<f4", "shape": (6, 8)},
        {"dtype": "<f4", "shape": (6, 8), "order": "F"},
        {"dtype": [["a", "<i2"], ["b", ">i2"]]},
    ]
    for _ in range(2):
        for way in ways:
            plain = ps.open_shards(pattern, **way)
            for _ in range(2):
                cached = ps.open_shards(pattern, manifest=cache, **way)
                assert (cached.shape, cached.dtype) == (plain.shape, plain.dtype), way
                np.testing.assert_array_equal(cached[...], plain[...])


def test_a_cache_that_is_used_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern, cache = write(tmp_path), tmp_path / "m"
    ps.open_shards(pattern, manifest=cache)
    monkeypatch.setattr("penstock.api.shards.save_manifest", None)
    np.testing.assert_array_equal(ps.open_shards(pattern, manifest=cache)[...], VALUES)


def test_a_cache_of_other_formats_that_is_used_is_not_written(tmp_path: Path) -> None:
    h5py, pa = pytest.importorskip("h5py"), pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    for number in range(2):
        with h5py.File(tmp_path / f"a_{number}.h5", "w") as file:
            file["x"] = VALUES + number
        pq.write_table(pa.table({"x": [1.0, None]}), tmp_path / f"a_{number}.parquet")
    ways: list[tuple[str, dict[str, Any]]] = [
        ("a_*.h5", {}),
        ("a_*.h5", {"dataset": "x"}),
        ("a_*.h5", {"dataset": "x", "axis": -1}),
        ("a_*.parquet", {"column": "x", "nulls": np.nan}),
    ]
    for number, (pattern, how) in enumerate(ways):
        cache = tmp_path / f"m_{number}"
        first = ps.open_shards(tmp_path / pattern, manifest=cache, **how)
        written = cache.stat().st_ino, cache.stat().st_mtime_ns
        again = ps.open_shards(tmp_path / pattern, manifest=cache, **how)
        assert (cache.stat().st_ino, cache.stat().st_mtime_ns) == written, how
        np.testing.assert_array_equal(again[...], first[...])
    ps.open_shards(tmp_path / "a_*.h5", manifest=tmp_path / "m_0", axis=1)
    with pytest.raises(ps.InvalidArgumentError):
        ps.open_shards(tmp_path / "a_*.h5", manifest=tmp_path / "m_0", axis=2)


@pytest.mark.parametrize("suffix", [".npy", ".raw", ".h5", ".parquet"])
@pytest.mark.parametrize("how", ["changed", "gone", "damaged"])
def test_a_stale_cache_is_rewritten_and_a_manifest_is_not(tmp_path: Path, suffix: str, how: str) -> None:
    values = np.arange(60.0)
    given: dict[str, Any] = {".raw": {"dtype": "<f8"}, ".h5": {"dataset": "x"}, ".parquet": {"column": "x"}}.get(
        suffix, {}
    )
    if suffix in (".h5", ".parquet"):
        pytest.importorskip("h5py" if suffix == ".h5" else "pyarrow")
    pattern, cache = str(tmp_path / f"s_*{suffix}"), tmp_path / "m"

    def save(made: np.ndarray) -> None:
        ps.save_shards(made, str(tmp_path / f"s_{{}}{suffix}"), rows=20, manifest=None)

    save(values)
    ps.open_shards(pattern, manifest=cache, **given)
    if how == "damaged":
        cache.write_bytes(cache.read_bytes()[:-3] + b"xyz")
        if suffix != ".parquet":
            with pytest.raises(ps.CorruptDataError):
                ps.open_shards(cache)
    else:
        save(values + 1 if how == "changed" else values[:40])
        with pytest.raises(ps.ConflictError):
            ps.open_shards(cache)[...]
    expected = {"changed": values + 1, "gone": values[:40], "damaged": values}[how]
    for _ in range(2):
        np.testing.assert_array_equal(ps.open_shards(pattern, manifest=cache, **given)[...], expected)
    np.testing.assert_array_equal(ps.open_shards(cache)[...], expected)


def test_a_file_that_is_not_a_manifest_is_not_overwritten(tmp_path: Path) -> None:
    pattern, notes = write(tmp_path), tmp_path / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(ps.InvalidArgumentError, match="refusing to overwrite it"):
        ps.open_shards(pattern, manifest=notes)
    assert notes.read_text() == "mine"


@pytest.mark.parametrize(
    "option",
    [
        {"format": "npy"},
        {"dtype": "f4"},
        {"shape": (3,)},
        {"row_shape": (3,)},
        {"offset": 4},
        {"order": "F"},
        {"manifest": "other"},
        {"bogus": 1},
        {"dataset": "x"},
    ],
    ids=lambda each: next(iter(each)),
)
@pytest.mark.parametrize("kind", ["npy", "h5"])
def test_options_next_to_a_manifest_are_refused(tmp_path: Path, option: dict[str, Any], kind: str) -> None:
    manifest = tmp_path / "penstock.shards"
    if kind == "h5":
        pytest.importorskip("h5py")
    ps.save_shards(VALUES, str(tmp_path / f"s_{{}}.{kind}"), rows=5)
    assert ps.open_shards(manifest).shape == VALUES.shape
    with pytest.raises(ps.InvalidArgumentError, match=f"{next(iter(option))}="):
        ps.open_shards(manifest, **option)


def test_unknown_options_of_single_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    np.savez(tmp_path / "x.npz", x=VALUES)
    ps.save_manifest(ps.open_shards([tmp_path / "x.npy"]), tmp_path / "m")
    ps.create_array(str(tmp_path / "x.zarr"), shape=(3,), dtype="i4", chunks=(3,))
    for target, path in [("x.npy", ""), ("x.npz", "x"), ("m", ""), ("x.zarr", "")]:
        ps.open(tmp_path / target, path)
        with pytest.raises(ps.InvalidArgumentError, match="bogus"):
            ps.open(tmp_path / target, path, bogus=1)
        with pytest.raises(ps.Error, match=r"options of TIFFs|no TIFF"):
            ps.open(tmp_path / target, path, page=1)
    with pytest.raises(ps.InvalidArgumentError, match="no option 'missing'"):
        ps.open(tmp_path / "x.npy", missing="fill")


@pytest.mark.parametrize("suffix", [".npy", ".raw", ".parquet", ".arrow"])
def test_missing_files_of_a_manifest_are_filled_on_request(tmp_path: Path, suffix: str) -> None:
    if suffix in (".parquet", ".arrow"):
        pytest.importorskip("pyarrow")
    values = np.arange(1.0, 41)
    ps.save_shards(values, str(tmp_path / f"s_{{}}{suffix}"), rows=10)
    os.unlink(tmp_path / f"s_1{suffix}")
    manifest = tmp_path / "penstock.shards"
    with pytest.raises(ps.ConflictError, match=f"s_1{suffix}"):
        ps.open_shards(manifest)[...]
    expected = np.where((values > 10) & (values <= 20), 0, values)
    for opened in (ps.open_shards(manifest, missing="fill"), ps.open(manifest, missing="fill")):
        np.testing.assert_array_equal(opened[...], expected)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[...], expected)
    with pytest.raises(ps.InvalidArgumentError, match="missing"):
        ps.open(manifest, missing="maybe")
    with pytest.raises(ps.InvalidArgumentError, match="missing"):
        ps.open_shards([tmp_path / f"s_0{suffix}"], missing="fill", **({"dtype": "f8"} if suffix == ".raw" else {}))


def test_pickles_of_references_keep_the_missing_option(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    ps.save_shards(np.ones(40), str(tmp_path / "s_{}.h5"), rows=10)
    os.unlink(tmp_path / "s_1.h5")
    a = ps.open(tmp_path / "penstock.shards", missing="fill")
    assert a[...].sum() == 30
    assert pickle.loads(pickle.dumps(a))[...].sum() == 30


def npy(values: np.ndarray) -> bytes:
    import io

    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


@pytest.mark.parametrize("name", ["m", "m.json"])
def test_manifests_of_served_shards_notice_replaced_files(tmp_path: Path, name: str) -> None:
    files = {f"run/a_{number}.npy": npy(part) for number, part in enumerate(np.split(VALUES, [4]))}
    with HttpServer(files) as server:
        names = [f"{server.url}/run/a_{number}.npy" for number in range(2)]
        a = ps.open_shards(names)
        ps.save_manifest(a, tmp_path / name)
        np.testing.assert_array_equal(ps.open_shards(tmp_path / name)[...], VALUES)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], VALUES)
        server.put("run/a_1.npy", npy(VALUES[4:] + 1))  # of the same size
        for opened in (a, ps.open_shards(tmp_path / name)):
            with pytest.raises(ps.ConflictError, match=r"a_1\.npy"):
                opened[...]
        cached = ps.open_shards(names, manifest=tmp_path / name)
        np.testing.assert_array_equal(cached[4:], VALUES[4:] + 1)
        np.testing.assert_array_equal(ps.open_shards(tmp_path / name)[:4], VALUES[:4])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("order", ["C", "F"])
def test_maps_equal_reads(tmp_path: Path, axis: int, order: str) -> None:
    parts = [np.asarray(VALUES[:4], order=order), np.asarray(VALUES[4:8], order=order)]  # type: ignore[call-overload]
    for number, part in enumerate(parts):
        np.save(tmp_path / f"F_{number}.npy", part)
        (tmp_path / f"F_{number}.raw").write_bytes(part.tobytes("A"))
    ps.save_manifest(ps.open_shards(str(tmp_path / "F_*.npy"), axis=axis), tmp_path / "m")
    raw = {"dtype": "<f8", "shape": (4, 12), "order": order}
    ways: list[tuple[Any, dict[str, Any]]] = [
        (str(tmp_path / "F_*.npy"), {"axis": axis}),
        (tmp_path / "m", {}),
        (str(tmp_path / "F_*.raw"), {"axis": axis, **raw}),
    ]
    for files, options in ways:
        views = ps.open_shards(files, mmap=True, **options)
        for view, part in zip(views, parts, strict=True):
            np.testing.assert_array_equal(view, part)
        np.testing.assert_array_equal(ps.open_shards(files, **options)[...], np.concatenate(parts, axis))
    names = [each["name"] for each in ps.open_shards(str(tmp_path / "F_*.npy"), axis=axis).codecs]
    assert names == (["bytes"] if order == "C" else ["transpose", "bytes"])


def test_the_sidecar_file_of_each_file_is_read(tmp_path: Path) -> None:
    values = np.arange(60, dtype="<i4").reshape(10, 6)
    for number, part in enumerate(np.split(values, [3, 3])):
        (tmp_path / f"p_{number}.raw").write_bytes(b"head" + part.tobytes())
        told = {"dtype": "<i4", "shape": list(part.shape), "offset": 4}
        (tmp_path / f"p_{number}.{'json' if number else 'raw.json'}").write_text(json.dumps(told))
    pattern = str(tmp_path / "p_*.raw")
    np.testing.assert_array_equal(ps.open_shards(pattern)[...], values)
    np.testing.assert_array_equal(ps.open_shards(pattern, row_shape=(3,))[...], values.reshape(-1, 3))
    with pytest.raises(ps.CorruptDataError, match="its shape needs 28"):
        ps.open_shards(pattern, shape=(1, 6))

    second = tmp_path / "p_2.json"
    for wrong in ({"dtype": ">i4"}, {"offset": 8}, {"order": "F"}, {"shape": [14, 3]}):
        second.write_text(json.dumps({"dtype": "<i4", "shape": [7, 6], "offset": 4} | wrong))
        with pytest.raises(ps.InvalidArgumentError, match=r"1 of 3 files do not match .*p_2.raw"):
            ps.open_shards(pattern)
    second.write_text(json.dumps({"dtype": "<i4", "shape": [6, 6], "offset": 4}))
    with pytest.raises(ps.CorruptDataError, match="has 7 rows, expected 6"):
        ps.open_shards(pattern)
    second.unlink()
    with pytest.raises(ps.InvalidArgumentError, match=r"p_2.raw' is raw bytes: give dtype="):
        ps.open_shards(pattern)


def test_empty_raw_files_are_errors_unless_allowed(tmp_path: Path) -> None:
    values = np.arange(12, dtype="<i4").reshape(-1, 3)
    (tmp_path / "p_0.raw").write_bytes(values.tobytes())
    (tmp_path / "p_1.raw").write_bytes(b"")
    pattern = str(tmp_path / "p_*.raw")
    with pytest.raises(ps.CorruptDataError, match=r"1 of 2 files cannot be read: 'p_1.raw': the file is empty"):
        ps.open_shards(pattern, dtype="<i4", row_shape=(3,))
    with pytest.raises(ps.CorruptDataError, match="the file is empty"):
        ps.open_shards([tmp_path / "p_1.raw"], dtype="<i4")
    assert ps.open_shards([tmp_path / "p_1.raw"], dtype="<i4", shape=(0, 3)).shape == (0, 3)
    for wrong in ("row_shape", "shape", "rows", "offset", "order", "dtype"):
        for value in (5.5, -1, "x", [[3]], {"a": 1}, None):
            (tmp_path / "_meta.json").write_text(json.dumps({"dtype": "<i4", "row_shape": [3], wrong: value}))
            with pytest.raises(ps.Error):  # always an error of Penstock
                ps.open_shards(pattern)
    told = {"dtype": "<i4", "row_shape": [3], "rows": {"p_1.raw": 0}}
    (tmp_path / "_meta.json").write_text(json.dumps(told))
    np.testing.assert_array_equal(ps.open_shards(pattern)[...], values)
    with ps.ShardWriter(str(tmp_path / "q_{}.raw")) as writer:
        writer.write(values[:0])
        writer.write(values)
    np.testing.assert_array_equal(ps.open_shards(str(tmp_path / "q_*.raw"))[...], values)
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "penstock.shards")[...], values)


@pytest.mark.parametrize(
    "names", [("a.npy",), ("a.npy", "b.npy"), ("a.npy", "below/a.npy"), ("x ... y.npy", "z ... w.npy")]
)
def test_the_folder_may_have_any_name(tmp_path: Path, names: tuple[str, ...]) -> None:
    folder = tmp_path / "run 1 ... 2"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / name, VALUES)
    opened = ps.open_shards([folder / name for name in names])
    expected = np.concatenate([VALUES] * len(names))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[...], expected)
    ps.save_manifest(opened, folder / "m")
    folder.rename(tmp_path / "moved")
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "moved" / "m")[...], expected)


@pytest.fixture
def memory() -> Any:
    fsspec = pytest.importorskip("fsspec")
    made = fsspec.filesystem("memory")
    made.mkdirs("/shards", exist_ok=True)
    yield made
    made.rm("/shards", recursive=True)


def test_remote_shards_are_pickled_by_their_uri(memory: Any, tmp_path: Path) -> None:
    for number, part in enumerate(np.split(VALUES, [4])):
        memory.pipe_file(f"/shards/a_{number}.npy", npy(part))
    pattern = "memory://shards/a_*.npy"
    a = ps.open_shards(pattern)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], VALUES)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ps.open("memory://shards/a_1.npy")))[...], VALUES[4:])
    ps.save_manifest(a, tmp_path / "m")
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "m")[...], VALUES)


def test_remote_hdf5_shards_are_pickled_and_their_manifests_notice_changes(memory: Any, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    for path in ps.save_shards(VALUES, tmp_path / "a_{}.h5", rows=4):
        memory.pipe_file(f"/shards/{os.path.basename(path)}", Path(path).read_bytes())
    a = ps.open_shards("memory://shards/a_*.h5", dataset="x")
    np.testing.assert_array_equal(a[...], VALUES)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], VALUES)
    ps.save_manifest(a, tmp_path / "m")
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "m")[...], VALUES)
    ps.save_shards(VALUES + 1, tmp_path / "a_{}.h5", rows=4)
    memory.pipe_file("/shards/a_1.h5", (tmp_path / "a_1.h5").read_bytes())
    with pytest.raises(ps.ConflictError, match=r"a_1\.h5' changed"):
        ps.open_shards(tmp_path / "m")
    cached = ps.open_shards("memory://shards/a_*.h5", dataset="x", manifest=tmp_path / "m")
    np.testing.assert_array_equal(cached[4:8], VALUES[4:8] + 1)
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "m")[4:8], VALUES[4:8] + 1)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_remote_tables(memory: Any, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("pyarrow")
    for path in ps.save_shards(VALUES, tmp_path / f"a_{{}}{suffix}", rows=4):
        memory.pipe_file(f"/shards/{os.path.basename(path)}", Path(path).read_bytes())
    pattern = f"memory://shards/a_*{suffix}"
    a = ps.open_shards(pattern, column="x", manifest=tmp_path / "m")
    np.testing.assert_array_equal(a[...], VALUES)
    np.testing.assert_array_equal(a[3:9, ::2], VALUES[3:9, ::2])
    for again in (
        pickle.loads(pickle.dumps(a)),
        ps.open(tmp_path / "m"),
        ps.open_shards("memory://shards", column="x"),
    ):
        np.testing.assert_array_equal(again[...], VALUES)
    ps.save_shards(VALUES + 1, tmp_path / f"a_{{}}{suffix}", rows=4)
    memory.pipe_file(f"/shards/a_1{suffix}", (tmp_path / f"a_1{suffix}").read_bytes())
    for stale in (a, ps.open(tmp_path / "m")):
        with pytest.raises(ps.ConflictError, match=rf"a_1\{suffix}' has changed"):
            stale[...]
    cached = ps.open_shards(pattern, column="x", manifest=tmp_path / "m")
    np.testing.assert_array_equal(cached[4:8], VALUES[4:8] + 1)
    memory.rm_file(f"/shards/a_1{suffix}")
    with pytest.raises(ps.ConflictError, match="was removed"):
        ps.open(tmp_path / "m")[...]
    assert (ps.open(tmp_path / "m", missing="fill")[4:8] == 0).all()
    with pytest.raises(ps.InvalidArgumentError, match="axis is 0"):
        ps.open_shards(pattern, column="x", axis=1, gaps="allow")


def test_remote_tables_are_queried_in_parallel_and_once(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    values = np.arange(256.0)
    for path in ps.save_shards(values, tmp_path / "a_{:03d}.parquet", rows=2):
        memory.pipe_file(f"/shards/{os.path.basename(path)}", Path(path).read_bytes())
    pattern, cache = "memory://shards/a_*.parquet", tmp_path / "m"
    ps.open_shards(pattern, column="x", manifest=cache)
    memory.rm_file("/shards/a_100.parquet")
    asked: list[str] = []
    under_way = most = 0
    lock = threading.Lock()
    plain = type(memory).info

    def slow(self: Any, path: str, **options: Any) -> Any:
        nonlocal under_way, most
        with lock:
            asked.append(path)
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.1)
        with lock:
            under_way -= 1
        return plain(self, path, **options)

    with monkeypatch.context() as slowed:
        slowed.setattr(type(memory), "info", slow)
        filled = ps.open(cache, missing="fill")
        assert len(asked) == len(set(asked)) == 128
        assert most >= 48, "128 files are 2 rounds of 64"
        asked.clear()
        most = 0
        assert ps.open(cache).changed()
        assert len(asked) == len(set(asked)) == 128
        assert most >= 48
    assert np.flatnonzero(filled[...] != values).tolist() == [200, 201]


def test_local_files_of_manifests_are_queried_in_parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("h5py")
    pytest.importorskip("pyarrow")
    looked: list[int] = []
    plain = _core.file_stamps
    monkeypatch.setattr(_core, "file_stamps", lambda with_, paths: looked.append(len(paths)) or plain(with_, paths))
    for suffix, of_python in ((".h5", []), (".parquet", [10])):  # the engine queries the files of references
        ps.save_shards(VALUES[:, 0], str(tmp_path / f"s_{{}}{suffix}"), rows=1, manifest=str(tmp_path / "m"))
        ps.open(tmp_path / "m", missing="fill")
        assert looked == of_python
        looked.clear()
    names = [os.fsencode(tmp_path / name) for name in ("s_0.h5", "nothing", "s_0.h5/below")]
    status = os.stat(tmp_path / "s_0.h5")
    assert plain(ps.Context(threads=1), names) == [(status.st_size, status.st_mtime_ns), None, None]
    with pytest.raises(ps.Error, match="looking at"):
        plain(ps.Context(threads=1), [b"x" * 5000])
