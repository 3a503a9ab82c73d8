"""Rechunking: every chunk is decoded once, every object is written once, for all grids and limits of memory."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, MutableMapping
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from support.program import run_program


class Counting(MutableMapping):
    """A store that counts reads and writes of each object."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.reads: dict[str, int] = {}
        self.writes: dict[str, int] = {}

    def __getitem__(self, key: str) -> bytes:
        self.reads[key] = self.reads.get(key, 0) + 1
        return self.objects[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self.writes[key] = self.writes.get(key, 0) + 1
        self.objects[key] = value

    def __delitem__(self, key: str) -> None:
        del self.objects[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.objects)

    def __len__(self) -> int:
        return len(self.objects)


def of_chunks(counts: dict[str, int]) -> dict[str, int]:
    return {key: count for key, count in counts.items() if key.startswith("c/") or key == "c"}


# Random pairs of grids; `make test-long` runs the number of the issue.
PAIRS = 500 if os.environ.get("PENSTOCK_ALL_CASES") else 90
WAYS: dict[str, int] = {}


@pytest.mark.parametrize("seed", range(PAIRS))
def test_chunks_are_read_once_and_objects_written_once(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rank = draw.randint(1, 3)
    shape = tuple(draw.randint(1, 40) for _ in range(rank))
    if seed % 4 == 0:  # slabs whose lengths have no common divisor
        shape = (120, 3)
    dtype = draw.choice(["u1", "<i2", ">f4", "<f8", "c8", "M8[s]"])
    values = np.random.default_rng(seed).integers(1, 200, shape).astype(dtype)
    chunks = tuple(draw.randint(1, n) for n in shape) if seed % 4 else (draw.randint(5, 11), 3)
    new = tuple(draw.randint(1, n) for n in shape) if seed % 4 else (draw.randint(5, 11), 3)
    shards = tuple(n * draw.randint(1, 3) for n in new) if draw.random() < 0.3 else None
    source, target = Counting(), Counting()
    a = ps.create_array(source, data=values, chunks=chunks, codecs=draw.choice(["auto", [{"name": "bytes"}]]))
    objects = shards or new
    largest = int(np.prod(chunks)) + int(np.prod(objects))
    memory = max(1, draw.randint(2 * largest, 4 * largest) * a.dtype.itemsize)
    if seed % 4 == 0:
        memory = max(memory, 60 * 3 * a.dtype.itemsize)
    options = {"shards": shards, "memory": memory, "scratch": tmp_path, "threads": draw.choice([1, 2, 3])}
    plan = ps.rechunk(a, target, new, dry_run=True, **options)
    assert not target.objects
    assert plan.memory_bytes <= memory
    for step in plan.steps:
        kind = "file" if step.passes == 2 else "gathered" if " into " in step.text else "direct"
        WAYS[kind] = WAYS.get(kind, 0) + 1
    source.reads.clear()
    b = ps.rechunk(a, target, new, **options)
    assert set(of_chunks(source.reads).values()) == {1}
    assert set(of_chunks(target.writes).values()) == {1}
    assert len(of_chunks(target.writes)) == np.prod([-(-n // m) for n, m in zip(shape, objects, strict=True)])
    assert b.chunks == new
    np.testing.assert_array_equal(b[...], values)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", range(PAIRS // 2))
def test_chunks_of_shards_are_decoded_once(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    shape = tuple(draw.randint(1, 40) for _ in range(draw.randint(1, 3)))
    values = np.random.default_rng(seed).integers(1, 200, shape).astype(draw.choice(["u1", "<i2", ">f4"]))
    chunks = tuple(draw.randint(1, n) for n in shape)
    new = tuple(draw.randint(1, n) for n in shape)
    context = ps.Context(threads=draw.choice([1, 3]))
    a = ps.create_array(
        {},
        data=values,
        chunks=chunks,
        shards=tuple(n * draw.randint(1, 3) for n in chunks),
        codecs=draw.choice(["zstd", "gzip"]),
        context=context,
    )
    largest = int(np.prod(chunks)) + int(np.prod(new))
    target = Counting()
    with ps.profile(context) as profile:
        b = ps.rechunk(
            a, target, new, memory=draw.randint(2, 6) * largest * a.dtype.itemsize, scratch=tmp_path, context=context
        )
    (decodes,) = (stage["operations"] for stage in profile.report["stages"] if stage["what"] == "decode")
    unchanged = a.shards is None and chunks == new  # a shard of one chunk in all; the bytes are copied
    assert decodes == (0 if unchanged else np.prod([-(-n // m) for n, m in zip(shape, chunks, strict=True)]))
    assert set(of_chunks(target.writes).values()) == {1}
    np.testing.assert_array_equal(b[...], values)
    assert not list(tmp_path.iterdir())


def test_all_strategies_were_used() -> None:
    if sum(WAYS.values()) > 80:  # only if all cases ran in this process
        assert min(WAYS.get(kind, 0) for kind in ("direct", "gathered", "file")) >= 3, WAYS


@pytest.mark.parametrize("seed", range(40))
def test_verify_decodes_each_chunk_once(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    maps = seed % 2 == 0
    shape = (48, 24, 20) if maps else tuple(draw.randint(1, 30) for _ in range(draw.randint(1, 3)))
    values = np.random.default_rng(seed).integers(1, 200, shape).astype("i2")
    chunks = (1, 24, 20) if maps else tuple(draw.randint(1, n) for n in shape)
    new = (48, 4, 4) if maps else tuple(draw.randint(1, n) for n in shape)
    largest = int(np.prod(chunks)) + int(np.prod(new))
    source, target = Counting(), Counting()
    a = ps.create_array(source, data=values, chunks=chunks)
    source.reads.clear()
    memory = draw.randint(4 * largest, 8 * largest) * 2
    b = ps.rechunk(a, target, new, memory=memory, scratch=tmp_path, threads=draw.choice([1, 3]), verify=True)
    assert set(of_chunks(source.reads).values()) == {2}  # once for the copy
    assert set(of_chunks(target.reads).values()) == {1}
    np.testing.assert_array_equal(b[...], values)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("memory", ["8KiB", "1MiB"])  # by the file, in memory
def test_verify_finds_a_difference_in_any_way(memory: str, tmp_path: Path) -> None:
    values = np.arange(48 * 24 * 20, dtype="i2").reshape(48, 24, 20)

    class Forgetful(Counting):
        def __setitem__(self, key: str, value: bytes) -> None:
            super().__setitem__(key, value if key != "c/0/3/2" else self.objects["c/0/3/1"])

    a = ps.create_array({}, data=values, chunks=(1, 24, 20))
    with pytest.raises(ps.CorruptDataError, match=r"element \(0, 12, 8\) of the copy differs"):
        ps.rechunk(a, Forgetful(), (48, 4, 4), memory=memory, scratch=tmp_path, verify=True, threads=1)
    assert not list(tmp_path.iterdir())


def test_a_scratch_file_is_used_and_removed(tmp_path: Path) -> None:
    values = np.arange(64 * 64 * 16, dtype="f4").reshape(64, 64, 16)
    ps.create_array(tmp_path / "maps.zarr", data=values, chunks=(1, 64, 16), dimension_names=("time", "y", "x"))
    plan = ps.rechunk(tmp_path / "maps.zarr", tmp_path / "series.zarr", (64, 4, 4), memory="64KiB", dry_run=True)
    assert plan.steps[0].passes == 2
    assert plan.scratch_bytes == values.nbytes
    assert str(plan).startswith("two passes: ")
    told = []
    b = ps.rechunk(
        tmp_path / "maps.zarr",
        tmp_path / "series.zarr",
        (64, 4, 4),
        memory="64KiB",
        verify=True,
        progress=lambda path, done, total: told.append((done, total)),
    )
    np.testing.assert_array_equal(b[...], values)
    assert b.dimension_names == ("time", "y", "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["maps.zarr", "series.zarr"]
    assert told[-1] == (values.nbytes, values.nbytes)
    with pytest.raises(ps.InvalidArgumentError, match="need"):
        ps.rechunk(values_in_memory(values), {}, (64, 4, 4), memory=100)
    with pytest.raises(ps.InvalidArgumentError, match="scratch"):
        ps.rechunk(values_in_memory(values), {}, (64, 4, 4), memory="64KiB")
    absent, unused = tmp_path / "absent", tmp_path / "unused.zarr"
    with pytest.raises(ps.InvalidArgumentError, match=r"absent' does not exist"):
        ps.rechunk(tmp_path / "maps.zarr", unused, (64, 4, 4), memory="64KiB", scratch=absent)
    assert not unused.exists(), "checked before the array is created"


def values_in_memory(values: np.ndarray) -> ps.Array:
    return ps.create_array({}, data=values, chunks=(1, *values.shape[1:]))


def test_chunks_by_name_and_size() -> None:
    a = ps.create_array({}, data=np.zeros((20, 30), "f4"), chunks=(1, 30), dimension_names=("time", "x"))
    assert ps.rechunk(a, {}, {"time": -1, "x": 7}).chunks == (20, 7)
    assert ps.rechunk(a, {}, {"x": 3}).chunks == (20, 3)
    assert ps.rechunk(a, {}, "1KiB").chunks == (10, 15)
    with pytest.raises(ps.InvalidArgumentError, match="dimension 'y'"):
        ps.rechunk(a, {}, {"y": 3})


def test_groups_text_and_empty_arrays(tmp_path: Path) -> None:
    group = ps.create_group(tmp_path / "a.zarr", attributes={"title": "t"})
    ps.create_array(tmp_path / "a.zarr", path="x", data=np.arange(40, dtype="i4"), chunks=(7,))
    ps.create_array(
        tmp_path / "a.zarr", path="sub/text", data=np.array(["a", "bb", "ccc"] * 5, object), chunks=(4,), dtype="str"
    )
    ps.create_array(tmp_path / "a.zarr", path="none", shape=(0,), dtype="f4", chunks=(3,))
    assert group.attrs["title"] == "t"
    plan = ps.rechunk(tmp_path / "a.zarr", tmp_path / "b.zarr", (5,), dry_run=True)
    assert sorted(step.path for step in plan.steps) == ["sub/text", "x"]
    b = ps.rechunk(tmp_path / "a.zarr", tmp_path / "b.zarr", (5,), verify=True)
    assert b.attrs["title"] == "t"
    assert b["x"].chunks == (5,)
    np.testing.assert_array_equal(b["x"][:], np.arange(40))
    assert b["sub/text"][:].tolist() == ["a", "bb", "ccc"] * 5
    assert b["none"].shape == (0,)


def test_verify_finds_differences(tmp_path: Path) -> None:
    values = np.arange(600, dtype="f4").reshape(20, 30)

    class Forgetful(Counting):
        def __setitem__(self, key: str, value: bytes) -> None:
            super().__setitem__(key, value if key != "c/1/0" else self.objects["c/0/0"])

    a = ps.create_array({}, data=values, chunks=(3, 30))
    with pytest.raises(ps.CorruptDataError, match=r"element \(10, 0\) of the copy differs"):
        ps.rechunk(a, Forgetful(), (10, 30), verify=True, threads=1)
    values[3:9] = np.nan
    values[4, 5] = -np.float32(np.nan)
    ps.rechunk(ps.create_array({}, data=values, chunks=(3, 30), fill_value=np.nan), {}, (10, 30), verify=True)


PROGRAM = """
import sys, penstock as ps
ps.rechunk(sys.argv[1], sys.argv[2], eval(sys.argv[3]), memory=sys.argv[4], resume=True, threads=1,
           progress=lambda *now: __import__("time").sleep(0.03))
"""


KILLS = int(os.environ.get("PENSTOCK_RECHUNK_KILLS", "34" if os.environ.get("PENSTOCK_ALL_CASES") else "1"))
# The chunks of the source and of the copy, the memory, and a pattern of the plan's text.
KILLED = {
    "two passes": ((2, 48, 16), (64, 3, 16), "70KiB", "two passes"),
    "gathered": ((5, 48, 16), (7, 48, 16), "80KiB", "one pass.* into "),
    "direct": ((2, 48, 16), (4, 48, 16), "12KiB", "one pass: reads and writes "),
}


@pytest.mark.parametrize("way", KILLED)
@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_work_continues(seed: int, way: str, tmp_path: Path) -> None:
    old, new, memory, says = KILLED[way]
    values = np.random.default_rng(seed).integers(0, 1000, (64, 48, 16)).astype("f4")
    ps.create_array(tmp_path / "a.zarr", data=values, chunks=old)
    plan = ps.rechunk(tmp_path / "a.zarr", tmp_path / "c.zarr", new, memory=memory, threads=1, dry_run=True)
    assert re.search(says, str(plan))
    expected = ps.rechunk(tmp_path / "a.zarr", tmp_path / "b.zarr", new)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "a.zarr"), str(tmp_path / "c.zarr"), str(new), memory]
    draw = random.Random(seed)
    killed = 0
    for _ in range(6):
        running = subprocess.Popen(command)
        try:
            running.wait(0.3 + draw.random() * 0.6)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.wait()
            killed += 1
        else:
            break
    assert killed or running.returncode == 0
    subprocess.run(command, check=True, timeout=60)
    made = ps.open(tmp_path / "c.zarr")
    np.testing.assert_array_equal(made[...], values)
    for path in sorted((tmp_path / "b.zarr").rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "c.zarr" / path.relative_to(tmp_path / "b.zarr")).read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".penstock")]
    assert expected.chunks == made.chunks


def test_two_processes_do_not_share_a_scratch_file(tmp_path: Path) -> None:
    values = np.zeros((64, 48, 16), "f4") + 1
    ps.create_array(tmp_path / "a.zarr", data=values, chunks=(1, 48, 16))
    started = []

    def slow(path: str, done: int, total: int) -> None:
        if not started:
            started.append(True)
            with pytest.raises(ps.ConflictError, match="another process"):
                ps.rechunk(tmp_path / "a.zarr", tmp_path / "b.zarr", (64, 3, 16), memory="64KiB", resume=True)
        time.sleep(0.001)

    ps.rechunk(tmp_path / "a.zarr", tmp_path / "b.zarr", (64, 3, 16), memory="64KiB", threads=1, progress=slow)
    assert started


@pytest.mark.parametrize("threads", [1, 2])
def test_a_copy_is_stopped_within_a_block(threads: int) -> None:
    stopped = threading.Event()

    class Slow(Counting):
        def __getitem__(self, key: str) -> bytes:
            if key.startswith("c/"):
                stopped.wait(0.002)
            return super().__getitem__(key)

    store = Slow()
    a = ps.create_array(store, data=np.ones((200, 10)), chunks=(1, 10))

    def stop(path: str, done: int, total: int) -> bool:
        stopped.set()
        return False

    with pytest.raises(ps.CancelledError):
        ps.copy(a, {}, chunks=(200, 10), threads=threads, progress=stop)
    assert 0 < sum(key.startswith("c/") for key in store.reads) < 200


MEMORY = """
import sys, numpy as np, penstock as ps
# Not ru_maxrss: it begins with what the parent had.
peak = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1])
a = ps.open(sys.argv[1])
before = peak()
ps.rechunk(a, sys.argv[2], (256, 16, 32), memory="32MiB", threads=2, verify=sys.argv[3] == "verify")
print((peak() - before) >> 10)
"""


@pytest.mark.parametrize("then", ["end", "verify"])
def test_memory_stays_within_its_limit(then: str, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 100, (256, 256, 256)).astype("f4")  # 64 MiB
    values = np.concatenate([values, values])
    ps.create_array(tmp_path / "a.zarr", data=values, chunks=(1, 256, 256))
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), then],
        check=True,
        timeout=120,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(done.stdout) <= 32 + 64
    np.testing.assert_array_equal(ps.open(tmp_path / "b.zarr")[:, 7], values[:, 7])


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """128 MiB in chunks of 2.5 MiB."""
    path = tmp_path_factory.mktemp("maps") / "a.zarr"
    values = np.random.default_rng(0).integers(0, 100, (512, 256, 256)).astype("f4")
    ps.create_array(path, data=values, chunks=(10, 256, 256))
    return path


@pytest.mark.parametrize(
    ("chunks", "limit", "way"),
    [
        ((5, 64, 256), 8, "one pass: reads and writes"),
        ((20, 64, 64), 32, "one pass: reads and writes"),
        ((13, 64, 256), 24, "one pass: reads 52 blocks"),  # parts of blocks wait in memory for the rest
        ((13, 256, 64), 30, "one pass: reads 52 blocks"),
        ((13, 64, 256), 12, "two passes"),
        ((512, 16, 32), 16, "two passes"),
    ],
)
def test_memory_stays_within_its_limit_in_every_way(
    chunks: tuple[int, ...], limit: int, way: str, maps: Path, tmp_path: Path
) -> None:
    memory = f"{limit}MiB"
    assert ps.rechunk(maps, tmp_path / "b.zarr", chunks, memory=memory, dry_run=True).steps[0].text.startswith(way)
    program = MEMORY.replace('(256, 16, 32), memory="32MiB"', f'{chunks}, memory="{memory}"')
    assert memory in program
    done = subprocess.run(
        [sys.executable, "-c", program, str(maps), str(tmp_path / "b.zarr"), "end"],
        check=True,
        timeout=120,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},  # glibc's arenas hold memory that was freed
    )
    assert int(done.stdout) <= limit + 64
    assert np.array_equal(ps.open(tmp_path / "b.zarr")[::37], ps.open(maps)[::37])


def test_the_verb(tmp_path: Path) -> None:
    values = np.arange(64 * 64, dtype="f4").reshape(64, 64)
    ps.create_array(tmp_path / "a.zarr", data=values, chunks=(1, 64))
    command = ["rechunk", str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--chunks", "64,1"]
    done = run_program(*command, "--memory", "4KiB", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("two passes: ")
    assert not (tmp_path / "b.zarr").exists()
    assert run_program(*command, "--memory", "1000").returncode == 1
    assert run_program(*command, "--memory", "much").returncode == 2
    assert not (tmp_path / "b.zarr").exists()
    done = run_program(*command, "--memory", "4KiB", "--verify", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"][0]["passes"] == 2
    assert done.stderr == ""
    done = run_program(*command, "--memory", "4KiB", "--overwrite")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("two passes: "), "the plan, before it runs"
    np.testing.assert_array_equal(ps.open(tmp_path / "b.zarr")[...], values)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.zarr"]


def test_hdf5_by_the_verb(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    values = np.arange(30 * 20, dtype="f4").reshape(30, 20)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("group/x", data=values, chunks=(7, 20), compression="gzip")
    done = run_program("rechunk", str(tmp_path / "a.h5"), str(tmp_path / "b.zarr"), "--chunks", "30,3", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "group/x: one pass" in done.stdout
    done = run_program("rechunk", str(tmp_path / "a.h5"), str(tmp_path / "b.zarr"), "--chunks", "30,3", "--verify")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(ps.open(tmp_path / "b.zarr")["group/x"][...], values)
