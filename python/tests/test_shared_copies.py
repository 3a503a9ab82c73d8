"""`convert` and `rechunk` by several processes: MPI ranks, workers of Dask, and processes that are killed. Sources are
Zarr, shards, and the groups of files: HDF5, NetCDF, references, joined files."""

from __future__ import annotations

import filecmp
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.api.shared_copy import SharedCopy, Steps, has_two_passes, shared_copy

VALUES = np.random.default_rng(3).integers(0, 1000, (37, 60, 50)).astype("i4")
PROGRAM = Path(__file__).parent / "programs" / "mpi_copies.py"
LAUNCHER = shutil.which("mpirun")

# For each: the function, chunks, options. The second rechunk needs a scratch file, even with this much memory.
WORK: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "direct": ("rechunk", {"t": 8, "y": 60, "x": 50}, {"memory": "600KiB"}),
    "two passes": ("rechunk", {"t": -1, "y": 7, "x": 9}, {"memory": "256KiB"}),
    "bytes": ("convert", None, {}),
    "other codec": ("convert", None, {"codecs": ["gzip"], "verify": True}),
    "version 2": ("convert", None, {"zarr_format": 2}),
}
FILES = ["hdf5", "classic", "references", "virtual"]


def source(folder: Path) -> Path:
    group = ps.create_group(folder / "s.zarr", attributes={"title": "T"})
    names = ("t", "y", "x")
    group.create_array("a", data=VALUES, chunks=(2, 60, 50), dimension_names=names, attributes={"units": "K"})
    holes = np.zeros_like(VALUES)
    holes[20:30] = VALUES[20:30]
    group.create_array("in/b", data=holes, chunks=(5, 13, 50), dimension_names=names)
    ps.consolidate_metadata(folder / "s.zarr")
    return folder / "s.zarr"


def file_source(kind: str, folder: Path) -> Path | ps.Group:
    """A group of a file, with the dimensions t (unlimited), y and x. HDF5 has a variable that is shorter than t."""
    if kind == "classic":
        netcdf = pytest.importorskip("netCDF4")
        with netcdf.Dataset(folder / "s.nc", "w", format="NETCDF3_CLASSIC") as file:
            for name, length in (("t", None), ("y", 60), ("x", 50)):
                file.createDimension(name, length)
            file.title = "T"
            file.createVariable("a", "i4", ("t", "y", "x"))[:] = VALUES
            file.createVariable("t", "f8", ("t",))[:] = np.arange(37.0)
        return folder / "s.nc"
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "s.nc", "w") as file:
        file.attrs["title"] = "T"
        for name, length, most in (("t", 37, None), ("y", 60, 60), ("x", 50, 50)):
            file.create_dataset(name, data=np.arange(float(length)), maxshape=(most,)).make_scale(name)
        cube = file.create_dataset("a", data=VALUES, chunks=(2, 60, 50), maxshape=(None, 60, 50))
        cube.attrs["units"] = "K"
        for d, name in enumerate("tyx"):
            cube.dims[d].attach_scale(file[name])
        if kind == "hdf5":
            short = file.create_dataset("short", data=np.arange(20.0), maxshape=(None,), chunks=(16,), fillvalue=-1)
            short.dims[0].attach_scale(file["t"])
            inner = file.create_group("in")
            inner.attrs["n"] = 1
            inner.create_dataset("text", data=["a", "bc"], dtype=h5py.string_dtype())
    if kind == "hdf5":
        return folder / "s.nc"
    joined = ps.open_virtual([folder / "s.nc"], concat="t")
    if kind == "virtual":
        return joined
    ps.save_references(joined, folder / "s.json")
    return folder / "s.json"


def alone(which: str, of: Path | ps.Group, to: Path) -> None:
    name, chunks, options = WORK[which]
    if name == "rechunk":
        ps.rechunk(of, to, chunks, **options)
    else:
        ps.convert(of, to, chunks=chunks, **options)


def assert_same_files(one: Path, other: Path) -> None:
    files = [sorted(str(path.relative_to(at)) for path in at.rglob("*") if path.is_file()) for at in (one, other)]
    assert files[0] == files[1]
    assert filecmp.cmpfiles(one, other, files[0], shallow=False)[0] == files[0]


def scratch_files(folder: Path) -> list[Path]:
    return list(folder.glob(".penstock-rechunk-*"))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("which", WORK)
def test_parts_in_any_order_are_the_whole(which: str, count: int, tmp_path: Path) -> None:
    of = source(tmp_path)
    alone(which, of, tmp_path / "whole.zarr")
    name, chunks, options = WORK[which]
    work = shared_copy(of, tmp_path / "t.zarr", chunks, name == "convert", options).bounded(1, 2)
    plan = work.run("prepare")
    assert has_two_passes(plan) == (which == "two passes") == bool(scratch_files(tmp_path))
    for stage in ("first", "second", "compare"):
        for number in reversed(range(count)):
            work.run(stage, number, count, None if stage == "compare" else plan)
    work.run("finish")
    assert_same_files(tmp_path / "whole.zarr", tmp_path / "t.zarr")
    assert not scratch_files(tmp_path)


def every_stage(work: SharedCopy, count: int) -> Steps:
    """Run all parts; returns the plan."""
    plan = work.run("prepare")
    for stage in ("first", "second", "compare"):
        for number in reversed(range(count)):
            work.run(stage, number, count, None if stage == "compare" else plan)
    work.run("finish")
    return plan


# A variable of the classic file is one chunk, which is larger than the memory of two passes.
OF_FILES = [(kind, which) for kind in FILES for which in WORK if (kind, which) != ("classic", "two passes")]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("kind", "which"), OF_FILES)
def test_parts_of_a_file_are_the_whole(kind: str, which: str, count: int, tmp_path: Path) -> None:
    of = file_source(kind, tmp_path)
    alone(which, of, tmp_path / "whole.zarr")
    name, chunks, options = WORK[which]
    work = shared_copy(of, tmp_path / "t.zarr", chunks, name == "convert", options).bounded(1, 2)
    assert has_two_passes(every_stage(work, count)) == (which == "two passes")
    assert_same_files(tmp_path / "whole.zarr", tmp_path / "t.zarr")
    if kind == "hdf5":
        assert work.open()["short"].shape == (37,)
    again = shared_copy(of, tmp_path / "t.zarr", chunks, name == "convert", {**options, "resume": True})
    every_stage(again.bounded(1, 2), count)
    assert_same_files(tmp_path / "whole.zarr", tmp_path / "t.zarr")
    assert not scratch_files(tmp_path)


def test_a_lost_part_of_a_file_is_written_again(tmp_path: Path) -> None:
    of = file_source("hdf5", tmp_path)
    ps.convert(of, tmp_path / "whole.zarr")
    ps.convert(of, tmp_path / "t.zarr")
    for lost in ("a/c/3/0/0", "in/zarr.json", "y/c/0", "y/zarr.json", "zarr.json"):
        (tmp_path / "t.zarr" / lost).unlink()
    shutil.rmtree(tmp_path / "t.zarr" / "short")
    ps.convert(of, tmp_path / "t.zarr", resume=True)
    assert_same_files(tmp_path / "whole.zarr", tmp_path / "t.zarr")


def test_a_copy_of_a_file_does_not_continue_another_one(tmp_path: Path) -> None:
    of = file_source("hdf5", tmp_path)
    made = ps.convert(of, tmp_path / "t.zarr")
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "already exists"),
        ({"resume": True, "overwrite": True}, "not both"),
        ({"resume": True, "zarr_format": 2}, "is Zarr v3, the copy is v2"),
        ({"resume": True, "chunks": {"y": 7}}, "not the one that was interrupted"),
    ]
    for options, words in refused:
        with pytest.raises(ps.InvalidArgumentError, match=words):
            ps.convert(of, tmp_path / "t.zarr", **options)
    made["short"][3] = 99
    with pytest.raises(ps.CorruptDataError, match="other elements"):
        ps.convert(of, tmp_path / "t.zarr", resume=True, verify=True)
    work = shared_copy(of, tmp_path / "new.zarr", None, True, {}).bounded(1, 2)
    with pytest.raises(ps.ConflictError, match="not prepared"):
        work.run("first", 0, 2)
    ps.create_array(tmp_path / "x.zarr", shape=(3,), dtype="i4")
    with pytest.raises(ps.InvalidArgumentError, match="is an array, not a group"):
        ps.convert(of, tmp_path / "x.zarr", resume=True)


KILLED = """
import os, signal, sys
import penstock as ps
calls = 0
def progress(*state):
    global calls
    calls += 1
    if calls == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
ps.convert(sys.argv[1], sys.argv[2], zarr_format=int(sys.argv[4]), threads=1, resume=True, progress=progress)
"""


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_killed_conversion_of_a_file_continues(zarr_format: int, tmp_path: Path) -> None:
    of = file_source("hdf5", tmp_path)
    ps.convert(of, tmp_path / "whole.zarr", zarr_format=zarr_format)
    ended = []
    for call in (1, 3, 1000):
        command = [sys.executable, "-c", KILLED, str(of), str(tmp_path / "t.zarr"), str(call), str(zarr_format)]
        ended.append(subprocess.run(command, timeout=120).returncode)
    assert ended[0] == -signal.SIGKILL
    assert ended[-1] == 0
    assert_same_files(tmp_path / "whole.zarr", tmp_path / "t.zarr")


class Counting(MutableMapping):  # type: ignore[type-arg]
    """A store that records which chunks are read, and how often each object is written."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.reads: list[str] = []
        self.writes: list[str] = []

    def __getitem__(self, key: str) -> bytes:
        found = self.held[key]
        if "c/" in key:
            self.reads.append(key)
        return found

    def __setitem__(self, key: str, value: bytes) -> None:
        if "c/" in key:
            self.writes.append(key)
        self.held[key] = bytes(value)

    def __delitem__(self, key: str) -> None:
        del self.held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.held))

    def __len__(self) -> int:
        return len(self.held)


@pytest.mark.parametrize("which", ["direct", "two passes"])
def test_parts_decode_a_chunk_once_and_write_an_object_once(which: str, tmp_path: Path) -> None:
    _, wanted, options = WORK[which]
    of, to = Counting(), Counting()
    ps.create_array(of, data=VALUES, chunks=(2, 60, 50), dimension_names=("t", "y", "x"))
    chunks = len(of.writes)
    assert chunks == 19
    work = shared_copy(of, to, wanted, False, {**options, "scratch": tmp_path}).bounded(1, 2)
    plan = work.run("prepare")
    of.reads.clear()
    for stage in ("first", "second"):
        for number in range(3):
            work.run(stage, number, 3, plan)
    assert len(of.reads) == len(set(of.reads)) == chunks
    assert len(to.writes) == len(set(to.writes)) == {"direct": 5, "two passes": 9 * 6}[which]
    np.testing.assert_array_equal(ps.open(to)[...], VALUES)


def test_a_part_with_another_plan_is_refused(tmp_path: Path) -> None:
    of = source(tmp_path)
    _, chunks, options = WORK["two passes"]
    work = shared_copy(of, tmp_path / "t.zarr", chunks, False, options).bounded(1, 2)
    plan = work.run("prepare")
    other = shared_copy(of, tmp_path / "t.zarr", chunks, False, {**options, "memory": "200KiB"}).bounded(1, 2)
    with pytest.raises(ps.ConflictError, match="other options"):
        other.run("first", 0, 2, plan)
    direct = shared_copy(of / "a", tmp_path / "d.zarr", (8, 60, 50), False, {}).bounded(1, 2)
    with pytest.raises(ps.ConflictError, match="not prepared"):
        direct.run("first", 0, 2)
    plan = direct.run("prepare")
    slower = shared_copy(of / "a", tmp_path / "d.zarr", (8, 60, 50), False, {"memory": 300_000}).bounded(1, 1)
    with pytest.raises(ps.ConflictError, match="another plan"):
        slower.run("first", 0, 2, plan)


def test_copies_that_cannot_be_shared_are_refused(tmp_path: Path) -> None:
    of = source(tmp_path)
    with pytest.raises(ps.UnsupportedError, match="one file"):
        shared_copy(of, tmp_path / "t.h5", None, True, {})
    with pytest.raises(ps.InvalidArgumentError, match="no option 'overwrite'"):
        shared_copy(of, tmp_path / "t.zarr", None, True, {"overwrite": True})
    ps.create_group(tmp_path / "t.zarr")
    with pytest.raises(ps.InvalidArgumentError, match="already exists"):
        shared_copy(of, tmp_path / "t.zarr", None, True, {}).bounded(1).run("prepare")


def test_a_georeferenced_image_becomes_its_group(tmp_path: Path) -> None:
    image = VALUES[:2].astype("i2")
    ps.save(tmp_path / "a.tif", image, crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6), nodata=3, tiles=16)
    ps.convert(tmp_path / "a.tif", tmp_path / "whole.zarr", chunks=(1, 16, 16))
    work = shared_copy(tmp_path / "a.tif", tmp_path / "t.zarr", (1, 16, 16), True, {"verify": True}).bounded(1, 1)
    plan = work.run("prepare")
    for number in range(3):
        work.run("first", number, 3, plan)
    for number in range(3):
        work.run("compare", number, 3)
    work.run("finish")
    assert_same_files(tmp_path / "whole.zarr", tmp_path / "t.zarr")


def killer(folder: Path, array: np.ndarray[Any, Any] = VALUES) -> ps.Array:
    """Shards whose reader kills its process when it reads the third one for the first time."""
    ps.save_shards(array, folder / "p_{}.npy", shards=6)
    mark, parent = str(folder / "killed"), os.getpid()

    def rows_of(path: str) -> tuple[int, tuple[int, ...], str]:
        found = np.load(path, mmap_mode="r")
        return found.shape[0], found.shape[1:], found.dtype.str

    def read_rows(path: str, low: int, high: int) -> Any:
        if path.endswith("p_2.npy") and not os.path.exists(mark) and os.getpid() != parent:
            with open(mark, "x"):
                os.kill(os.getpid(), signal.SIGKILL)
        return np.load(path, mmap_mode="r")[low:high]

    return ps.open_shards(str(folder / "p_*.npy"), metadata=rows_of, reader=read_rows)


@pytest.mark.parametrize("which", ["direct", "two passes"])
def test_dask_repeats_the_parts_of_a_killed_worker(which: str, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    import penstock.dask

    of = killer(tmp_path)
    chunks = {"direct": (7, 60, 50), "two passes": (37, 7, 9)}[which]
    options = {"memory": "256KiB"} if which == "two passes" else {}
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster):
        made = penstock.dask.rechunk(of, tmp_path / "t.zarr", chunks, verify=True, **options)
    assert (tmp_path / "killed").exists()
    assert made.chunks == chunks
    np.testing.assert_array_equal(made[...], VALUES)
    assert not scratch_files(tmp_path)


def test_progress_names_the_arrays_of_a_file(tmp_path: Path) -> None:
    of = file_source("hdf5", tmp_path)
    seen: set[str] = set()
    ps.copy(of, tmp_path / "t.zarr", progress=lambda path, done, total: seen.add(path))
    assert seen == {"a", "in/text", "short", "t", "x", "y"}


def test_two_workers_of_dask_convert_a_group(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    import penstock.dask

    of = source(tmp_path)
    alone("other codec", of, tmp_path / "whole.zarr")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        made = penstock.dask.convert(of, tmp_path / "t.zarr", client=client, codecs=["gzip"], verify=True, parts=5)
        assert made.attrs["title"] == "T"
        with pytest.raises(ps.InvalidArgumentError, match="already exists"):
            penstock.dask.convert(of, tmp_path / "t.zarr")
    assert_same_files(tmp_path / "whole.zarr", tmp_path / "t.zarr")


@pytest.mark.parametrize("kind", ["hdf5", "classic"])
def test_two_workers_of_dask_convert_a_file(kind: str, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    import penstock.dask

    of = file_source(kind, tmp_path)
    alone("other codec", of, tmp_path / "whole.zarr")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        made = penstock.dask.convert(of, tmp_path / "t.zarr", client=client, codecs=["gzip"], verify=True, parts=5)
    np.testing.assert_array_equal(made["a"][...], VALUES)
    assert_same_files(tmp_path / "whole.zarr", tmp_path / "t.zarr")


@pytest.mark.parametrize("which", ["direct", "bytes"])
def test_shared_copies_consolidate_metadata(which: str, tmp_path: Path) -> None:
    of = file_source("hdf5", tmp_path)
    _name, chunks, options = WORK[which]
    work = shared_copy(of, tmp_path / "t.zarr", chunks, True, {**options, "consolidate": True}).bounded(1, 2)
    every_stage(work, 2)
    made = work.open()
    assert isinstance(made, ps.Group)
    assert made.consolidated
    ps.convert(of, tmp_path / "whole.zarr", chunks=chunks, consolidate=True, **options)
    assert_same_files(tmp_path / "whole.zarr", tmp_path / "t.zarr")
    with pytest.raises(ps.InvalidArgumentError, match="no option 'consolidate'"):
        shared_copy(of, tmp_path / "a.zarr", chunks, False, {"consolidate": True})
    ps.save(tmp_path / "a.npy", VALUES)
    work = shared_copy(tmp_path / "a.npy", tmp_path / "a.zarr", None, True, {"consolidate": True}).bounded(1, 2)
    with pytest.raises(ps.InvalidArgumentError, match="consolidate is for groups"):
        work.run("prepare")
    assert not (tmp_path / "a.zarr").exists()


def launch(ranks: int, *arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [
        *(LAUNCHER or "", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)),
        *("--mca", "btl", "self,vader", "--mca", "plm", "isolated"),
        *(sys.executable, str(PROGRAM), *map(str, arguments)),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


needs_mpi: Callable[..., Any] = pytest.mark.skipif(LAUNCHER is None, reason="mpirun is not here (Debian: openmpi-bin)")


@needs_mpi
@pytest.mark.parametrize(("ranks", "kind"), [(1, "zarr"), (2, "zarr"), (3, "zarr"), (2, "hdf5")])
def test_ranks_write_the_same_as_one_process(ranks: int, kind: str, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    of = source(tmp_path) if kind == "zarr" else file_source(kind, tmp_path)
    done = launch(ranks, "all", of, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for which in WORK:
        alone(which, of, tmp_path / "whole.zarr")
        assert_same_files(tmp_path / "whole.zarr", tmp_path / f"{which}.zarr")
        shutil.rmtree(tmp_path / "whole.zarr")
    assert not scratch_files(tmp_path)


@needs_mpi
def test_ranks_continue_after_one_was_killed(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    ps.save_shards(VALUES, tmp_path / "p_{}.npy", shards=6)
    killed = launch(3, "killed", tmp_path, tmp_path)
    assert killed.returncode != 0
    assert (tmp_path / "killed").exists()
    done = launch(2, "killed", tmp_path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    np.testing.assert_array_equal(ps.open(tmp_path / "t.zarr")[...], VALUES)
    assert not scratch_files(tmp_path)
