"""`convert`: formats by the name of the target, many files, plans, options, and the verb."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock import _core
from penstock.api.save import save_npy
from support.program import run_program
from test_names_and_formats import VALUES


@pytest.mark.parametrize("ending", [each for kind in (b"tiff", b"hdf5", b"npy") for each in _core.shard_endings(kind)])
def test_the_suffix_of_the_target_decides_its_format(tmp_path: Path, ending: str) -> None:
    kind = _core.shard_format_by_name(f"x{ending}".encode())
    if kind == "hdf5":
        pytest.importorskip("h5py")
    values = np.arange(40, dtype="u2").reshape(1, 5, 8)
    source = ps.create_array(tmp_path / "s.zarr", data=values)
    for name in (f"a{ending}", f"b{ending.upper()}"):
        made = ps.convert(source, tmp_path / name)
        assert (tmp_path / name).is_file()
        assert isinstance(made, ps.Group) == (kind == "hdf5")
        held = next(iter(dict(made.members()).values())) if isinstance(made, ps.Group) else made
        np.testing.assert_array_equal(held[...], values)


@pytest.mark.parametrize("ending", [".nc3", ".cdf", ".npz", ".raw", ".parquet", ".feather", ".csv", ".grib"])
def test_unknown_suffixes_are_refused(tmp_path: Path, ending: str) -> None:
    source = ps.create_array(tmp_path / "s.zarr", data=VALUES)
    with pytest.raises(ps.InvalidArgumentError, match="this would write a Zarr folder"):
        ps.convert(source, tmp_path / f"a{ending}")
    assert not (tmp_path / f"a{ending}").exists()


def test_many_files(tmp_path: Path) -> None:
    values = np.arange(1000, dtype="i4").reshape(100, 10)
    source = ps.create_array(tmp_path / "s.zarr", data=values, chunks=(30, 10))
    made = ps.convert(source, tmp_path / "a" / "x_{:03d}.npy", rows=40, verify=True)
    np.testing.assert_array_equal(made[...], values)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "penstock.shards",
        "x_000.npy",
        "x_001.npy",
        "x_002.npy",
    ]
    assert [len(np.load(path)) for path in sorted((tmp_path / "a").glob("*.npy"))] == [40, 40, 20]
    with pytest.raises(ps.InvalidArgumentError, match="overwrite"):
        ps.convert(source, tmp_path / "a" / "x_{:03d}.npy")
    with pytest.raises(ps.InvalidArgumentError, match=r"penstock\.shards.*overwrite"):
        ps.convert(source, tmp_path / "a" / "y_{}.raw")
    ps.convert(source, tmp_path / "a" / "x_{:03d}.npy", shards=2, overwrite=True, verify=True)
    assert [len(np.load(path)) for path in sorted((tmp_path / "a").glob("*.npy"))] == [50, 50]
    raw = ps.convert(source, tmp_path / "b" / "x_{}.raw")
    assert (tmp_path / "b" / "x_0.raw").read_bytes() == values.tobytes()
    np.testing.assert_array_equal(raw[...], values)
    for options in ({"codecs": "zstd"}, {"dry_run": True}, {"resume": True}, {"path": "x"}):
        with pytest.raises(ps.InvalidArgumentError, match=f"no option '{next(iter(options))}'"):
            ps.convert(source, tmp_path / "c" / "x_{}.npy", **options)
    with pytest.raises(ps.InvalidArgumentError, match="rows"):
        ps.convert(source, tmp_path / "c.zarr", rows=3)
    assert not (tmp_path / "c").exists()
    done = verb(str(tmp_path / "s.zarr"), str(tmp_path / "d" / "x_{}.npy"), "--shards", "4")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "d").glob("*.npy"))) == 4


def test_a_plan_and_an_interrupted_copy(tmp_path: Path) -> None:
    values = np.arange(64 * 64, dtype="f4").reshape(64, 64)
    ps.create_array(tmp_path / "a.zarr", data=values, chunks=(1, 64))
    plan = ps.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(64, 1), memory="4KiB", dry_run=True)
    assert [step.passes for step in plan.steps] == [2]
    command = (str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--chunks", "64,1", "--memory", "4KiB")
    done = verb(*command, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("two passes: ")
    assert json.loads(verb(*command, "--dry-run", "--json").stdout)["steps"][0]["passes"] == 2
    assert not (tmp_path / "b.zarr").exists()

    def stop(path: str, done: int, total: int) -> bool:
        return done < total * 3 // 4

    with pytest.raises(ps.CancelledError):
        ps.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(64, 1), memory="4KiB", threads=1, progress=stop)
    done = verb(*command, "--resume", "--verify", "--threads", "1")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(ps.open(tmp_path / "b.zarr")[...], values)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.zarr"]
    for target in ("c.npy", "c.tif"):
        for option in ("dry_run", "resume"):
            with pytest.raises(ps.InvalidArgumentError, match=f"no option '{option}'"):
                ps.convert(tmp_path / "a.zarr", tmp_path / target, **{option: True})


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("target", ["t.zarr", "t.zip"])
def test_the_metadata_of_groups_is_consolidated(tmp_path: Path, target: str, zarr_format: int) -> None:
    pytest.importorskip("h5py")
    ps.save(tmp_path / "s.zarr", t=VALUES, u=VALUES)
    ps.convert(tmp_path / "s.zarr", tmp_path / "s.h5")
    made = ps.convert(tmp_path / "s.h5", tmp_path / target, zarr_format=zarr_format, consolidate=True, verify=True)
    assert made.consolidated
    there = ps.open(tmp_path / target, use_consolidated=True)
    assert list(there) == ["t", "u"]
    np.testing.assert_array_equal(there["u"][...], VALUES)
    again = ps.convert(tmp_path / "s.h5", tmp_path / target, overwrite=True)
    assert not again.consolidated
    with pytest.raises(ps.InvalidArgumentError, match="consolidate is for groups"):
        ps.convert(tmp_path / "s.h5" / "t", tmp_path / "a.zarr", consolidate=True)
    with pytest.raises(ps.InvalidArgumentError, match="no option 'consolidate'"):
        ps.convert(tmp_path / "s.h5" / "t", tmp_path / "a.npy", consolidate=True)
    done = verb(str(tmp_path / "s.h5"), str(tmp_path / "v.zarr"), "--consolidate")
    assert done.returncode == 0, done.stderr
    assert ps.open(tmp_path / "v.zarr").consolidated


@pytest.mark.parametrize("name", ["memory", "memory_limit"])
def test_memory_is_that_of_the_blocks_of_npy_files(name: str, tmp_path: Path) -> None:
    values = np.arange(600 * 50, dtype="f8").reshape(600, 50)
    source = ps.create_array(tmp_path / "a.zarr", data=values, chunks=(10, 50))
    made = ps.convert(source, tmp_path / "a.npy", verify=True, **{name: "64KiB"})
    np.testing.assert_array_equal(made[...], values)
    done: list[int] = []
    save_npy(tmp_path / "b.npy", source, lambda now, _: done.append(now), 64 << 10)
    assert done[-1] == values.nbytes
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), values)
    for target in ("b.tif", "b.h5", "b_{}.npy"):
        with pytest.raises(ps.InvalidArgumentError, match=f"no option '{name}'"):
            ps.convert(source, tmp_path / target, **{name: "64KiB"})
    for target in ("b.npy", "b.zarr"):
        with pytest.raises(ps.InvalidArgumentError, match=f"^invalid_argument: {name} must be a number of bytes"):
            ps.convert(source, tmp_path / target, overwrite=True, **{name: "much"})
    with pytest.raises(ps.InvalidArgumentError, match=f"^invalid_argument: {name} must be a number of bytes"):
        ps.rechunk(source, tmp_path / "b.zarr", (20, 20), **{name: "much"})
    with pytest.raises(ps.InvalidArgumentError, match="memory and memory_limit are names of one option"):
        ps.convert(source, tmp_path / "b.npy", memory=1, memory_limit=1)


def verb(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program("convert", *arguments)


def test_a_failed_conversion_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    ps.create_array(tmp_path / "a.zarr", data=np.arange(3).astype("M8[s]"))
    with pytest.raises(ps.UnsupportedError, match="NetCDF has no type for datetime64"):
        ps.convert(tmp_path / "a.zarr", tmp_path / "b.nc")
    ps.create_array(tmp_path / "c.zarr", data=VALUES, chunks=(2, 8))
    victim = next(path for path in (tmp_path / "c.zarr").rglob("*") if path.is_file() and path.name != "zarr.json")
    victim.write_bytes(victim.read_bytes()[:-4])
    for name in ("d.h5", "d.npy", "d.tif"):
        with pytest.raises(ps.CorruptDataError):
            ps.convert(tmp_path / "c.zarr", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "c.zarr"]
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("x.npy", {"chunks": (2, 2)}),
        ("x.tif", {"codecs": "zstd"}),
        ("x.h5", {"shards": (2, 2)}),
        ("x.h5", {"compression": "lzf"}),
        ("x.zarr", {"crs": 4326}),
    ]
    for name, options in wrong:
        with pytest.raises(ps.InvalidArgumentError, match="no option"):
            ps.convert(tmp_path / "a.zarr", tmp_path / name, **options)


@pytest.mark.parametrize("pattern", ["x_{}.npy", "./x_{}.npy"])
def test_many_files_in_the_working_folder(tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = ps.convert(ps.create_array({}, data=VALUES), pattern, rows=1, verify=True)
    np.testing.assert_array_equal(made[...], VALUES)


@pytest.mark.parametrize("name", ["b.h5", "b.npy", "b.tif", "b_{}.npy"])
def test_progress_is_reported_and_may_stop_it(tmp_path: Path, name: str) -> None:
    if name == "b.h5":
        pytest.importorskip("h5py")
    told: list[tuple[int, int]] = []
    source = ps.create_array({}, data=np.ones((2, 64, 64)), chunks=(1, 64, 64))
    ps.convert(source, tmp_path / name, progress=lambda path, done, total: told.append((done, total)))
    assert told[-1] == (source.nbytes, source.nbytes)
    with pytest.raises(ps.CancelledError):
        ps.convert(source, tmp_path / name, overwrite=True, progress=lambda *_: False)


def test_the_verb(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    group = ps.create_group(tmp_path / "a.zarr")
    group.create_array("x", data=VALUES, dimension_names=("y", "x"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_program("convert", *arguments, cwd=tmp_path)

    done = run("a.zarr", "b.h5", "--chunks", "y=2", "--verify")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "b.h5: a group in hdf5\n"
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["x"].chunks == (2, 8)
    assert run("a.zarr", "b.h5").returncode == 1
    assert run("a.zarr", "c.h5", "--chunks", "z=2").returncode == 1
    assert run("a.zarr", "c.zarr", "--chunks", "z").returncode == 2
    assert run("a.zarr").returncode == 2
    assert run("--help").returncode == 0
    done = run("b.h5", "c.zarr", "--codec", "zstd:5", "--json", "--verify", "--memory", "1MiB")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["format"] == "zarr3"
    np.testing.assert_array_equal(ps.open(tmp_path / "c.zarr")["x"][...], VALUES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr", "b.h5", "c.zarr"]


@pytest.mark.parametrize("kinds", ["i8 f8", "f8 i8", "i4 f4", "u2 f2", "i2 i8", "f4 c8"])
def test_numbers_of_different_types_are_compared_as_numbers(tmp_path: Path, kinds: str) -> None:
    values = np.array([0, 1, 5, 7])
    first, second = (
        ps.create_array(tmp_path / str(i), data=values.astype(kind)) for i, kind in enumerate(kinds.split())
    )
    _core.compare(first, second)
    second[2] = 6
    with pytest.raises(ps.CorruptDataError, match=r"element \(2\)"):
        _core.compare(first, second)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("order", [1, -1])
def test_a_negative_number_differs_from_a_large_one(tmp_path: Path, bits: int, order: int) -> None:
    signed = np.array([0, 1, -1, 7], dtype=f"i{bits // 8}")
    pair = [signed, signed.view(f"u{bits // 8}")][::order]
    first, second = (ps.create_array(tmp_path / str(i), data=each) for i, each in enumerate(pair))
    with pytest.raises(ps.CorruptDataError, match=r"element \(2\)"):
        _core.compare(first, second)
    first[2] = second[2] = 5
    _core.compare(first, second)
    first[1] = 6
    with pytest.raises(ps.CorruptDataError, match=r"element \(1\)"):
        _core.compare(first, second)


def test_two_threads_write_one_file(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    from penstock.api.hdf5_writer import write_hdf5

    source = ps.create_array(tmp_path / "s.zarr", data=np.arange(12))
    target = str(tmp_path / "t.h5")
    both = threading.Barrier(2, timeout=60)  # each has its draft open
    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(write_hdf5, source, target, None, True, lambda *_: both.wait() >= 0) for _ in range(2)]
    assert [each.result() for each in done] == [None, None]
    np.testing.assert_array_equal(ps.open(target)["s"][...], np.arange(12))
    assert sorted(os.listdir(tmp_path)) == ["s.zarr", "t.h5"]


def test_options_that_do_not_fit_are_named(tmp_path):
    a = ps.create_array({}, data=np.zeros((3, 4)))
    with pytest.raises(ps.InvalidArgumentError, match="did you mean 'chunks'"):
        ps.convert(a, {}, chunk=2)
    pytest.importorskip("h5py")
    with pytest.raises(ps.InvalidArgumentError, match="are for 3 dimensions, the array has 2"):
        ps.convert(a, tmp_path / "x.h5", chunks=(1, 2, 3))
    assert not list(tmp_path.iterdir())
