"""Locations of shards: one object in a store, manifests next to remote files, stores that answer late."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from penstock.target.stores import store_of
from support.http_server import HttpServer

VALUES = np.arange(120.0).reshape(10, 12)


class Late(ps.Store):
    """Answers each request after a delay, and counts how many are in flight together."""

    def __init__(self, objects: dict[str, bytes], latency_s: float = 0.02) -> None:
        self.objects, self.latency_s = objects, latency_s
        self.lock = threading.Lock()
        self.under_way = self.most = self.asked = 0

    def get(self, key: str) -> bytes | None:
        with self.lock:
            self.under_way += 1
            self.asked += 1
            self.most = max(self.most, self.under_way)
        time.sleep(self.latency_s)
        with self.lock:
            self.under_way -= 1
        return self.objects.get(key)

    def version(self, key: str) -> str | None:
        self.get(key)
        return str(hash(self.objects[key])) if key in self.objects else None

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.objects if key.startswith(prefix)]


def npy_bytes(values: np.ndarray) -> bytes:
    import io

    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


@pytest.fixture
def memory() -> Any:
    fsspec = pytest.importorskip("fsspec")
    made = fsspec.filesystem("memory")
    made.pipe({f"/places/s_{i}.npy": npy_bytes(part) for i, part in enumerate(np.split(VALUES, [3, 7]))})
    yield made
    made.rm("/places", recursive=True)


def test_many_headers_are_read_at_a_time() -> None:
    late = Late({f"s_{i:03d}.npy": npy_bytes(VALUES + i) for i in range(128)})
    store = store_of(late)
    keys = [key.encode() for key in late.objects]
    made = _core.open_shards(store, ps.Context(threads=2), keys, 0, None)
    assert made.shape == (1280, 12)
    assert late.most >= 32, "one request a thread is 64 round trips"
    late.most = 0
    assert not _core.shards_changed(made)
    assert late.most >= 32
    manifest = _core.save_manifest(made, b"", False, [])
    late.most = 0
    del late.objects["s_005.npy"]
    filled = _core.open_manifest(store, ps.Context(threads=2), manifest, True)
    assert late.most >= 32
    np.testing.assert_array_equal(filled[49:61:11], [VALUES[9] + 4, VALUES[0] + 6])
    np.testing.assert_array_equal(filled[50:60], np.zeros((10, 12)))


def test_requests_in_flight_stay_within_the_contexts_limit() -> None:
    late = Late({f"s_{i:03d}.npy": npy_bytes(VALUES) for i in range(40)}, 0.005)
    keys = [key.encode() for key in late.objects]
    context = ps.Context(threads=2, io_concurrency=5)
    _core.open_shards(store_of(late), context, keys, 0, None)
    assert 3 <= late.most <= 5


def test_one_object_is_opened_by_its_uri(memory: Any) -> None:
    np.testing.assert_array_equal(ps.open_shards("memory://places/s_1.npy")[...], VALUES[3:7])
    with pytest.raises(ps.NotFoundError):
        ps.open_shards("memory://places/s_9.npy")
    np.testing.assert_array_equal(ps.open_shards("memory://places/s_*.npy")[...], VALUES)
    np.testing.assert_array_equal(ps.open_shards("memory://places")[...], VALUES)


def test_datasets_of_one_remote_file(memory: Any) -> None:
    h5py = pytest.importorskip("h5py")
    with memory.open("/places/a.h5", "wb") as out, h5py.File(out, "w") as file:
        for i, part in enumerate(np.split(VALUES, [3, 7])):
            file[f"d_{i}"] = part
    np.testing.assert_array_equal(ps.open_shards("memory://places/a.h5", dataset="d_*")[...], VALUES)


@pytest.mark.parametrize("suffix", [".shards", ".json"])
def test_manifests_next_to_remote_files(memory: Any, suffix: str) -> None:
    a = ps.open_shards("memory://places/s_*.npy")
    manifest = f"memory://places/all{suffix}"
    ps.save_manifest(a, manifest)
    assert b"places" not in memory.cat_file(f"/places/all{suffix}"), "both can be moved together"
    np.testing.assert_array_equal(ps.open_shards(manifest)[...], VALUES)
    created = {path: memory.created(path) for path in memory.find("/places")}
    memory.mv("/places", "/moved", recursive=True)
    for path, when in created.items():  # as in stores that keep the tags of objects that are moved
        memory.store[path.replace("/places", "/moved")].created = when
    try:
        np.testing.assert_array_equal(ps.open_shards(f"memory://moved/all{suffix}")[2:8], VALUES[2:8])
    finally:
        memory.mv("/moved", "/places", recursive=True)


def test_a_remote_manifest_above_or_away_from_its_files(memory: Any, tmp_path: Path) -> None:
    a = ps.open_shards("memory://places/s_*.npy")
    ps.save_manifest(a, "memory://all.shards")
    np.testing.assert_array_equal(ps.open_shards("memory://all.shards")[...], VALUES)
    memory.rm("/all.shards")
    ps.save_manifest(a, tmp_path / "all.shards")
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "all.shards")[...], VALUES)
    for i, part in enumerate(np.split(VALUES, [3, 7])):
        np.save(tmp_path / f"s_{i}.npy", part)
    ps.save_manifest(ps.open_shards(tmp_path / "s_*.npy"), "memory://places/local.shards")
    np.testing.assert_array_equal(ps.open_shards("memory://places/local.shards", allow_local=True)[...], VALUES)


def test_a_remote_cache(memory: Any) -> None:
    cache = "memory://places/cache"
    for _ in range(2):
        np.testing.assert_array_equal(ps.open_shards("memory://places/s_*.npy", manifest=cache)[...], VALUES)
    np.testing.assert_array_equal(ps.open_shards(cache)[...], VALUES)
    memory.pipe("/places/notes", b"mine")
    with pytest.raises(ps.InvalidArgumentError, match="refusing to overwrite it"):
        ps.open_shards("memory://places/s_*.npy", manifest="memory://places/notes")


def test_changed_files_that_fsspec_serves_are_noticed(memory: Any) -> None:
    pattern, manifest, cache = "memory://places/s_*.npy", "memory://places/all.shards", "memory://places/cache"
    ps.save_manifest(ps.open_shards(pattern), manifest)
    ps.open_shards(pattern, manifest=cache)
    kept = memory.cat_file("/places/cache")
    ps.open_shards(pattern, manifest=cache)
    assert memory.cat_file("/places/cache") == kept
    memory.pipe("/places/s_1.npy", npy_bytes(-VALUES[3:7]))  # of the same size
    with pytest.raises(ps.ConflictError, match=r"1 file changed since the manifest was saved.*'s_1\.npy'"):
        ps.open_shards(manifest)
    np.testing.assert_array_equal(ps.open_shards(pattern, manifest=cache)[3:7], -VALUES[3:7])
    np.testing.assert_array_equal(ps.open_shards(cache)[3:7], -VALUES[3:7])
    memory.rm("/places/s_1.npy")
    with pytest.raises(ps.ConflictError):
        ps.open_shards(cache)
    filled = ps.open_shards(cache, missing="fill")
    np.testing.assert_array_equal(filled[2:8], [VALUES[2], *np.zeros((4, 12)), VALUES[7]])


def test_manifests_of_references_in_a_store(memory: Any, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    ps.save_shards(VALUES, tmp_path / "s_{}.h5", rows=4)
    ps.save_manifest(ps.open_shards(tmp_path / "s_*.h5", dataset="x"), "memory://places/h5.shards")
    np.testing.assert_array_equal(ps.open_shards("memory://places/h5.shards", allow_local=True)[...], VALUES)


def test_files_and_manifests_behind_http(memory: Any) -> None:
    ps.save_manifest(ps.open_shards("memory://places/s_*.npy"), "memory://places/all.shards")
    objects = {path.replace("/places", "/run"): memory.cat_file(path) for path in memory.find("/places")}
    with HttpServer(objects) as server:
        np.testing.assert_array_equal(ps.open_shards(f"{server.url}/run/s_1.npy")[...], VALUES[3:7])
        with pytest.raises(ps.Error):
            ps.open_shards(f"{server.url}/run/s_7.npy")
        np.testing.assert_array_equal(ps.open_shards(f"{server.url}/run/all.shards")[...], VALUES)
        with pytest.raises(ps.Error):
            ps.save_manifest(ps.open_shards(f"{server.url}/run/s_1.npy"), f"{server.url}/run/m.shards")


def objects_in(folder: Path) -> dict[str, bytes]:
    return {f"run/{each.relative_to(folder)}": each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.parametrize("one", [False, True])
def test_names_in_a_served_manifest_are_relative_to_it(tmp_path: Path, one: bool) -> None:
    pytest.importorskip("h5py")
    ps.save_shards(VALUES, tmp_path / "s_{}.h5", rows=4, manifest="m")
    if one:
        ps.save_manifest(ps.open(tmp_path / "s_1.h5"), tmp_path / "m")
    expected = VALUES[4:8] if one else VALUES
    with HttpServer(objects_in(tmp_path)) as server:
        opened = ps.open(f"{server.url}/run/m")
        for each in (opened, pickle.loads(pickle.dumps(opened))):
            np.testing.assert_array_equal((each["x"] if one else each)[...], expected)
        assert {each.target for each in server.requests} >= {"/run/m", "/run/s_1.h5"}


def test_served_manifests_of_arrays_name_local_files_if_allowed(tmp_path: Path) -> None:
    ps.save_shards(VALUES, tmp_path / "s_{}.zarr", rows=4, manifest="m")
    document = json.loads((tmp_path / "m").read_text())
    for each in document["shards"]:
        each["path"] = str(tmp_path / each["path"])
    with HttpServer(objects_in(tmp_path) | {"run/whole": json.dumps(document).encode()}) as server:
        with pytest.raises(ps.UnsupportedError, match=r"run/s_0\.zarr': joined arrays of a manifest are local files"):
            ps.open(f"{server.url}/run/m")
        with pytest.raises(ps.UnsupportedError, match=r"s_0\.zarr', a file of this machine.*allow_local"):
            ps.open(f"{server.url}/run/whole")
        opened = ps.open(f"{server.url}/run/whole", allow_local=True)
        np.testing.assert_array_equal(opened[...], VALUES)


@pytest.mark.parametrize("name", ["all.shards", "all", "all.json", "h5.shards", "h5.json"])
def test_a_remote_manifest_is_opened_by_its_uri(memory: Any, tmp_path: Path, name: str) -> None:
    manifest = f"memory://places/{name}"
    if name.startswith("h5"):
        pytest.importorskip("h5py")
        ps.save_shards(VALUES, tmp_path / "s_{}.h5", rows=4)
        a = ps.open_shards(tmp_path / "s_*.h5", dataset="x")
        gone = tmp_path / "s_0.h5"
    else:
        a = ps.open_shards("memory://places/s_*.npy")
        gone = Path("/places/s_0.npy")
    ps.save_manifest(a, manifest)
    local: dict[str, Any] = {"allow_local": True} if name.startswith("h5") else {}
    if local:
        with pytest.raises(ps.UnsupportedError, match=r"s_0\.h5.*allow_local"):
            ps.open(manifest)
    for opened in (ps.open(manifest, **local), ps.open(manifest, missing="fill", **local)):
        np.testing.assert_array_equal(opened[...], VALUES)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[...], VALUES)
    with pytest.raises(ps.InvalidArgumentError, match="bogus"):
        ps.open(manifest, bogus=1)
    with pytest.raises(ps.Error, match=r"one array|no array"):
        ps.open(manifest, "x", **local)
    gone.unlink() if gone.is_absolute() and gone.exists() else memory.rm(str(gone))
    rows = 4 if name.startswith("h5") else 3
    filled = ps.open(manifest, missing="fill", **local)
    np.testing.assert_array_equal(filled[...], [*np.zeros((rows, 12)), *VALUES[rows:]])
    with pytest.raises(ps.Error, match=r"s_0\."):
        ps.open(manifest, **local)[...]


def test_remote_files_are_recognised_by_their_first_bytes(memory: Any, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    pytest.importorskip("pyarrow")
    ps.save_shards(VALUES, tmp_path / "x_{}.h5", rows=10)
    ps.save_shards(VALUES, tmp_path / "x_{}.parquet", rows=10)
    for name in ("h5", "parquet"):
        memory.pipe(f"/places/of_{name}", (tmp_path / f"x_0.{name}").read_bytes())
    memory.pipe("/places/of_npy", npy_bytes(VALUES))
    np.testing.assert_array_equal(ps.open("memory://places/of_npy")[...], VALUES)
    np.testing.assert_array_equal(ps.open("memory://places/of_h5", dataset="x")[...], VALUES)
    np.testing.assert_array_equal(ps.open("memory://places/of_h5", "x")[...], VALUES)
    np.testing.assert_array_equal(ps.open("memory://places/of_parquet", columns="x")[...], VALUES)
    memory.pipe("/places/notes", b"mine")
    for name in ("notes", "nothing", "nothing/below"):
        with pytest.raises(ps.NotFoundError):
            ps.open(f"memory://places/{name}")


def test_looking_for_manifests_costs_other_opens_nothing(memory: Any) -> None:
    ps.save_manifest(ps.open_shards("memory://places/s_*.npy"), "memory://places/all.shards")
    objects = {path.replace("/places", "/run"): memory.cat_file(path) for path in memory.find("/places")}
    array = ps.create_array(made := {}, shape=(4,), dtype="i4", chunks=(2,))
    array[...] = 1
    with HttpServer({**objects, **{f"/x/{key}": value for key, value in made.items()}}) as server:
        assert ps.open(f"{server.url}/x").shape == (4,)
        assert [each.path for each in server.requests] == ["/x/zarr.json"]
        server.forget()
        np.testing.assert_array_equal(ps.open(f"{server.url}/run/all.shards", missing="fill")[...], VALUES)
        asked = [each.path for each in server.requests]
        assert "/run/all.shards/zarr.json" not in asked
        assert asked.count("/run/all.shards") == 1, "its first bytes are all of it"
        np.testing.assert_array_equal(ps.open(f"{server.url}/run/all.shards")[...], VALUES)


def test_suffixes_match_in_any_case(tmp_path: Path) -> None:
    np.save(tmp_path / "a_1.npy", VALUES[4:])
    (tmp_path / "a_0.NPY").write_bytes(npy_bytes(VALUES[:4]))
    np.testing.assert_array_equal(ps.open_shards(tmp_path)[...], VALUES)
    (tmp_path / "a_1.npy").unlink()
    np.testing.assert_array_equal(ps.open_shards(tmp_path)[...], VALUES[:4])


def test_numbers_outside_of_a_pattern_are_not_missing(tmp_path: Path) -> None:
    for i in range(10):
        np.save(tmp_path / f"b_{i}.npy", VALUES[i : i + 1])
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "b_[5-9].npy")[...], VALUES[5:])
    np.testing.assert_array_equal(ps.open_shards(tmp_path / "b_[2357].npy")[...], VALUES[[2, 3, 5, 7]])
    (tmp_path / "b_6.npy").unlink()
    with pytest.raises(ps.InvalidArgumentError, match=r"lacks '.*b_6\.npy';"):
        ps.open_shards(tmp_path / "b_[5-9].npy")
    for i in range(3):
        (tmp_path / f"b_{i}.npy").unlink()
    with pytest.raises(ps.InvalidArgumentError, match=r"lacks '.*b_0\.npy', '.*b_1\.npy', '.*b_2\.npy', '.*b_6\.npy';"):
        ps.open_shards(tmp_path / "b_[0-9]*.npy")


def test_missing_numbers_are_named_like_the_files(tmp_path: Path) -> None:
    for i in (0, 1, 3):
        np.save(tmp_path / f"run2_{i:04d}.npy", VALUES)
    with pytest.raises(ps.InvalidArgumentError, match=r"lacks '.*run2_0002\.npy';"):
        ps.open_shards(tmp_path / "run2_*.npy")


def test_files_of_both_item_orders_are_joined(tmp_path: Path) -> None:
    parts = np.split(VALUES, [3, 7])
    for i, part in enumerate(parts):
        np.save(tmp_path / f"m_{i}.npy", np.asarray(part, order="F" if i == 1 else "C"))
    a = ps.open_shards(tmp_path / "m_*.npy")
    np.testing.assert_array_equal(a[...], VALUES)
    np.testing.assert_array_equal(a[2:8, ::-3], VALUES[2:8, ::-3])
    for view, part in zip(ps.open_shards(tmp_path / "m_*.npy", mmap=True), parts, strict=True):
        np.testing.assert_array_equal(view, part)
        assert not view.flags.owndata
        assert not view.flags.writeable
    np.save(tmp_path / "m_3.npy", VALUES.astype("f4"))
    with pytest.raises(ps.InvalidArgumentError, match="1 of 4 files do not match"):
        ps.open_shards(tmp_path / "m_*.npy")


@pytest.mark.parametrize("axis", [0, 1])
def test_manifests_of_files_of_both_item_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axis: int) -> None:
    parts = np.split(VALUES, [3, 7], axis)
    names = [tmp_path / f"m_{i}.npy" for i in range(3)]
    for i, (name, part) in enumerate(zip(names, parts, strict=True)):
        np.save(name, np.asarray(part, order="F" if i == 1 else "C"))
    pattern, cache = tmp_path / "m_*.npy", tmp_path / "cache"
    scans: list[int] = []
    plain = _core.open_shards
    monkeypatch.setattr(_core, "open_shards", lambda *given: scans.append(1) or plain(*given))
    for asked in (1, 1):
        np.testing.assert_array_equal(ps.open_shards(pattern, manifest=cache, axis=axis)[...], VALUES)
        assert len(scans) == asked, "the second open reads no header"
    for opened in (ps.open(cache), ps.open_shards(cache), ps.open_shards(cache, axis=axis)):
        np.testing.assert_array_equal(opened[...], VALUES)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened))[...], VALUES)
        ps.save_manifest(opened, tmp_path / "again")
        np.testing.assert_array_equal(ps.open(tmp_path / "again")[...], VALUES)
        with pytest.raises(ps.UnsupportedError, match="this machine"):
            ps.save_manifest(opened, "memory://places/m")
    for view, part in zip(ps.open_shards(cache, mmap=True), parts, strict=True):
        np.testing.assert_array_equal(view, part)
    (tmp_path / "below").mkdir()
    ps.save_manifest(ps.open_shards(pattern, axis=axis), tmp_path / "below" / "m")
    np.testing.assert_array_equal(ps.open(tmp_path / "below" / "m")[...], VALUES)
    np.save(names[1], np.asarray(-parts[1], order="F"))
    with pytest.raises(ps.ConflictError, match=r"m_1\.npy"):
        ps.open_shards(cache)[...]
    changed = ps.open_shards(pattern, manifest=cache, axis=axis)
    expected = np.concatenate([parts[0], -parts[1], parts[2]], axis)
    np.testing.assert_array_equal(changed[...], expected)
    assert len(scans) == 3, "a stale cache is written again"
    np.save(names[1], -parts[1])
    np.testing.assert_array_equal(ps.open_shards(pattern, manifest=cache, axis=axis)[...], expected)
    np.testing.assert_array_equal(ps.open_shards(cache)[...], expected)


def test_many_rows_are_requested_from_a_reader_at_once(tmp_path: Path) -> None:
    values = np.arange(24 << 20, dtype="u1").reshape(-1, 64)
    np.save(tmp_path / "x.npy", values)
    calls: list[int] = []

    def load(path: str, low: int, high: int) -> Any:
        calls.append(high - low)
        return np.load(path, mmap_mode="r")[low:high]

    context = ps.Context(threads=4)
    a = ps.open_shards(
        [tmp_path / "x.npy"], metadata=lambda path: (len(values), (64,), "u1"), reader=load, context=context
    )
    np.testing.assert_array_equal(a[...], values)
    assert len(calls) == 2, "a call for each 64 MiB / 4, not for each MiB"
    calls.clear()
    np.testing.assert_array_equal(a[7:9], values[7:9])
    assert calls == [2], "a selection is requested separately"


def test_compressed_archives_are_opened_by_their_headers(tmp_path: Path) -> None:
    values = np.arange(400_000.0) % 977
    np.savez_compressed(tmp_path / "x_0.npz", x=values)
    whole = bytearray((tmp_path / "x_0.npz").read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    (tmp_path / "x_1.npz").write_bytes(whole)
    a = ps.open_shards(tmp_path / "x_*.npz")
    assert a.shape == (800_000,)
    np.testing.assert_array_equal(a[:400_000], values)
    with pytest.raises(ps.CorruptDataError):
        a[400_000:400_002]


MEMORY_OF_ARCHIVES = """
import os, sys
import numpy as np, penstock as ps

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

arrays = [ps.open(f"{sys.argv[1]}/x_{i}.npz") for i in range(8)]
out = np.ones(arrays[0].shape, arrays[0].dtype)
arrays[0].read(out=out)
before = resident()
for each in arrays:
    each.read(out=out)
print(resident() - before)
"""


def test_archives_that_were_read_release_their_memory(tmp_path: Path) -> None:
    for i in range(8):
        np.savez_compressed(tmp_path / f"x_{i}.npz", x=np.full(2 << 20, float(i)))  # 16 MiB
    made = subprocess.run(
        [sys.executable, "-c", MEMORY_OF_ARCHIVES, str(tmp_path)],
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},  # glibc's allocator keeps freed memory for each thread
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(made.stdout) < 48, "each of them would be 16 MiB"


def test_decompressed_members_count_in_the_contexts_memory(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 99, 4 << 20).astype("f4")  # 16 MiB
    np.savez_compressed(tmp_path / "x.npz", x=values)
    (tmp_path / "x.zip").symlink_to("x.npz")
    for opened in (
        lambda with_: ps.open(tmp_path / "x.npz", context=with_),
        lambda with_: ps.open(tmp_path / "x.zip", "x.npy", context=with_),
        lambda with_: ps.open_shards([tmp_path / "x.npz"], context=with_),
    ):
        context = ps.Context(threads=4, chunk_cache=0)
        a = opened(context)
        assert context.usage()["encoded_bytes"] == 0, "headers are read without the rest"
        np.testing.assert_array_equal(a[5_000:5_010], values[5_000:5_010])
        assert values.nbytes <= context.usage()["encoded_bytes"] <= 1.3 * values.nbytes
        np.testing.assert_array_equal(a[...], values)
        assert context.usage()["encoded_bytes"] < 1 << 20, "memory of completely read members is released"
        assert context.usage()["peak_encoded_bytes"] < 2 * values.nbytes, "threads share one decoded copy"
        a[5_000:5_010]
        del a
        gc.collect()
        assert context.usage()["encoded_bytes"] < 1 << 20
        small = opened(ps.Context(threads=2, memory_limit=8 << 20))
        with pytest.raises(ps.ResourceExhaustedError, match=r"exceed the memory limit"):
            small[5_000:5_010]


def test_threads_share_the_failure_of_a_compressed_member(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 99, 4 << 20).astype("f4")
    np.savez_compressed(tmp_path / "x.npz", x=values)
    whole = bytearray((tmp_path / "x.npz").read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    (tmp_path / "x.npz").write_bytes(whole)
    context = ps.Context(threads=4)
    a = ps.open(tmp_path / "x.npz", context=context)
    with pytest.raises(ps.CorruptDataError):
        a[...]
    assert context.usage()["encoded_bytes"] < 1 << 20
