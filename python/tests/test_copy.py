"""`penstock.copy`: everything is copied, in the requested layout, in bounded memory, and completely after a kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import MutableMapping
from pathlib import Path

import numcodecs
import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import same, sharded, write
from support.program import run_program

VALUES = np.random.default_rng(9).integers(-99, 99, (50, 70), dtype="<i4")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write(VALUES, (20, 30), sharded((10, 10)), store=tmp_path / "source.zarr", attributes={"a": 1})
    return tmp_path / "source.zarr"


def files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_a_copy_without_changes_is_identical_byte_for_byte(source, tmp_path):
    made = ps.copy(source, tmp_path / "copy.zarr")
    assert same(made[...], VALUES)
    assert files(tmp_path / "copy.zarr") == files(source)


def test_the_claim_of_a_running_append_is_not_copied(source, tmp_path):
    (source / ".penstock-append").write_text("penstock-append 2 0123456789abcdef 10000 1 - 0 0\n")
    made = ps.copy(source, tmp_path / "copy.zarr")
    assert same(made[...], VALUES)
    assert not (tmp_path / "copy.zarr" / ".penstock-append").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (7, 9)},
        {"chunks": (10, 10), "shards": (30, 30)},
        {"chunks": (5, 70), "shards": "auto"},
        {"shards": False},
        {"codecs": ["gzip"]},
        {"codecs": "auto", "chunks": (50, 70)},
        {"zarr_format": 2},
        {"zarr_format": 2, "chunks": (13, 17)},
    ],
    ids=str,
)
def test_copies_in_another_layout_hold_the_same_elements(options, source, tmp_path):
    if options.get("zarr_format") == 2:
        options = {"shards": False, **options}
    made = ps.copy(source, tmp_path / "copy.zarr", **options)
    assert same(made[...], VALUES)
    assert made.attrs["a"] == 1
    assert same(zarr.open_array(tmp_path / "copy.zarr", mode="r")[...], VALUES)
    if isinstance(options.get("chunks"), tuple):
        assert made.chunks == options["chunks"]
    if isinstance(options.get("shards"), tuple):
        assert made.shards == options["shards"]
    if options.get("shards") is False or ("shards" not in options and "chunks" in options):
        assert made.shards is None
    if "codecs" in options and options["codecs"] == ["gzip"]:
        assert made.shards == (20, 30)
        assert "gzip" in json.dumps(made.codecs) if not isinstance(made.codecs, str) else "gzip" in made.codecs


@pytest.mark.parametrize("data_type", ["?", "<f8", "<c16", "S5", "<U3", "datetime64[s]"])
def test_types_are_converted_between_versions_2_and_3(data_type, tmp_path):
    values = (np.arange(30).reshape(5, 6) % 7).astype("i8").astype(data_type)
    with zarr.config.set({"default_zarr_format": 2}):
        old = zarr.create_array(tmp_path / "v2", data=values, chunks=(2, 3), zarr_format=2)
    assert old.metadata.zarr_format == 2
    new = ps.copy(tmp_path / "v2", tmp_path / "v3", zarr_format=3)
    assert new.format == "zarr3"
    assert same(new[...], values)
    back = ps.copy(tmp_path / "v3", tmp_path / "back", zarr_format=2)
    assert back.format == "zarr2"
    assert same(back[...], values)


def test_text_is_copied_into_other_chunks(tmp_path):
    values = np.array([f"{i} ä" * (i % 4) for i in range(40)], dtype=object)
    array = zarr.create_array(tmp_path / "s", shape=(40,), chunks=(7,), dtype="string")
    array[:] = values
    made = ps.copy(tmp_path / "s", tmp_path / "t", chunks=(11,))
    assert list(made[...]) == list(values)


def test_groups_are_copied_with_all_members(tmp_path):
    root = zarr.create_group(tmp_path / "g", attributes={"who": "root"})
    root.create_array("a", data=VALUES, chunks=(20, 30))
    root.create_group("in/ner", attributes={"who": "inner"}).create_array("b", data=VALUES[0], chunks=(9,))
    made = ps.copy(tmp_path / "g", tmp_path / "h")
    assert sorted(made.keys()) == ["a", "in"]
    assert made.attrs["who"] == "root"
    assert made["in"]["ner"].attrs["who"] == "inner"
    assert same(made["a"][...], VALUES)
    assert same(made["in/ner/b"][...], VALUES[0])
    again = ps.copy(made, {}, codecs=["gzip"])
    assert same(again["in/ner/b"][...], VALUES[0])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_open_group_is_a_target(tmp_path, zarr_format):
    group = ps.create_group(tmp_path / "g", zarr_format=zarr_format).create_group("in")
    array = ps.create_array({}, data=VALUES, chunks=(20, 30))
    made = ps.copy(array, group, "a")
    assert (made.format, made.uri) == (f"zarr{zarr_format}", f"{group.uri}/a")
    assert same(group["a"][...], VALUES)
    assert ps.rechunk(array, group, (40, 10), path="b").chunks == (40, 10)
    assert ps.convert(array, group, path="c/d").format == f"zarr{zarr_format}"
    ps.save(group, ps.create_group({}), path="e")
    assert list(group) == ["a", "b", "c", "e"]
    with pytest.raises(ps.InvalidArgumentError, match="copied into itself"):
        ps.copy(group, group, "f")
    with pytest.raises(ps.InvalidArgumentError, match="already exists"):
        ps.copy(array, group, "a")
    ps.copy(array, group, "a", chunks=(10, 10), overwrite=True)
    assert group["a"].chunks == (10, 10)
    with pytest.raises(ps.InvalidArgumentError, match=f"has {zarr_format}"):
        ps.copy(array, group, "z", zarr_format=5 - zarr_format)
    with pytest.raises(ps.ReadOnlyError):
        ps.copy(array, ps.open(tmp_path / "g", mode="r"), "z")


def one_place_as_two(kind, folder):
    """A source and a target that are the same node, or one that holds the source, although their URIs differ."""
    if kind == "obstore":
        store = pytest.importorskip("obstore").store.MemoryStore()
        ps.save(store, VALUES)
        return store, store
    if kind == "fsspec":
        pytest.importorskip("fsspec")
        ps.save(folder / "a.zarr", VALUES)
        return folder / "a.zarr", zarr.storage.FsspecStore.from_url(f"file://{folder / 'a.zarr'}")
    if kind == "zip":
        ps.save(folder / "a.zip", VALUES)
        (folder / "b.zip").symlink_to("a.zip")
        return folder / "a.zip", folder / "b.zip"
    if kind == "hard link":
        ps.save(folder / "a.zip", VALUES)
        os.link(folder / "a.zip", folder / "b.zip")
        return folder / "a.zip", folder / "b.zip"
    ps.save(folder / "g.zarr", a=VALUES)
    (folder / "link").symlink_to("g.zarr")
    if kind == "folder":
        return folder / "g.zarr" / "a", folder / "link"
    return folder / "link" / "a", folder / "g.zarr"


@pytest.mark.parametrize("kind", ["obstore", "fsspec", "zip", "hard link", "folder", "link"])
def test_a_source_is_not_erased_under_another_name(kind, tmp_path):
    source, target = one_place_as_two(kind, tmp_path)
    with pytest.raises(ps.InvalidArgumentError, match="copied into itself"):
        ps.rechunk(source, target, (20, 30), overwrite=True)
    a = ps.open(source)
    assert same(a[...], VALUES)
    assert a.chunks != (20, 30)


class OnlyZarr(MutableMapping):
    """A store that refuses, or drops, keys that are not Zarr's."""

    def __init__(self, objects, drops):
        self.objects, self.drops = objects, drops

    def __setitem__(self, key, value):
        if ".penstock" not in key:
            self.objects[key] = bytes(value)
        elif not self.drops:
            raise ValueError(f"{key} is not a key of Zarr")

    def __getitem__(self, key):
        return self.objects[key]

    def __delitem__(self, key):
        del self.objects[key]

    def __iter__(self):
        return iter(self.objects)

    def __len__(self):
        return len(self.objects)


@pytest.mark.parametrize("drops", [False, True])
def test_a_store_without_marks_may_be_that_of_the_source(drops):
    objects = {}
    ps.save(objects, VALUES)
    before = dict(objects)
    with pytest.raises(ps.UnsupportedError, match="may be part of the source"):
        ps.rechunk(OnlyZarr(objects, drops), OnlyZarr(objects, drops), (20, 30), overwrite=True)
    assert objects == before
    other = {}
    ps.save(other, VALUES[:5] + 1)  # its document differs
    ps.copy(OnlyZarr(objects, drops), OnlyZarr(other, drops), overwrite=True)
    assert same(ps.open(other)[...], VALUES)
    assert objects == before


def test_a_copy_changes_no_document_of_a_source_that_it_refuses():
    """Another process may read or change it at that moment."""
    store = pytest.importorskip("obstore").store.MemoryStore()
    ps.save(store, a=VALUES, b=VALUES)
    before = [(each["path"], each["e_tag"]) for each in store.list().collect()]
    with pytest.raises(ps.InvalidArgumentError, match="copied into itself"):
        ps.copy(store, store, overwrite=True)
    assert [(each["path"], each["e_tag"]) for each in store.list().collect()] == before


def test_equal_nodes_of_two_stores_are_copied(tmp_path):
    """Stores that cannot exchange a node: the documents are equal, but not the same."""
    obstore = pytest.importorskip("obstore")
    one, other = obstore.store.MemoryStore(), obstore.store.MemoryStore()
    ps.save(one, a=VALUES)
    ps.save(other, a=VALUES + 1)
    before = bytes(other.get("a/zarr.json").bytes())
    ps.copy(one, other, overwrite=True)
    assert same(ps.open(other)["a"][...], VALUES)
    assert bytes(other.get("a/zarr.json").bytes()) == before
    assert [each["path"] for each in other.list().collect() if ".penstock" in each["path"]] == []


def test_a_consolidated_group_shows_what_was_copied_into_it(tmp_path):
    ps.save(tmp_path / "g", a=VALUES)
    group = ps.consolidate_metadata(tmp_path / "g")
    ps.copy(group["a"], group, "b")
    assert same(group["b"][...], VALUES)


def test_consolidated_groups_stay_consolidated(tmp_path):
    root = zarr.create_group(tmp_path / "g")
    root.create_array("a", data=VALUES, chunks=(20, 30))
    zarr.consolidate_metadata(tmp_path / "g")
    ps.copy(tmp_path / "g", tmp_path / "h", codecs=["gzip"])
    assert zarr.open_consolidated(tmp_path / "h")["a"].shape == VALUES.shape


def test_copies_to_and_from_every_kind_of_store(source, tmp_path):
    memory: dict[str, bytes] = {}
    ps.copy(source, memory)
    ps.copy(memory, tmp_path / "x.zip")
    store = zarr.storage.MemoryStore()
    ps.copy(tmp_path / "x.zip", store, "below/here")
    ps.copy(ps.open(store)["below/here"], "memory://copied")
    assert same(ps.open("memory://copied")[...], VALUES)
    assert same(zarr.open_array(store, path="below/here", mode="r")[...], VALUES)
    with zarr.storage.ZipStore(tmp_path / "x.zip", mode="r") as archive:
        assert same(zarr.open_array(archive, mode="r")[...], VALUES)


def test_an_existing_target_is_kept_unless_overwritten(source, tmp_path):
    ps.copy(source, tmp_path / "copy.zarr")
    with pytest.raises(ps.InvalidArgumentError, match="already exists"):
        ps.copy(source, tmp_path / "copy.zarr")
    write(VALUES[:3, :3] + 5, (1, 1), store=tmp_path / "other.zarr")
    ps.copy(tmp_path / "other.zarr", tmp_path / "copy.zarr", overwrite=True)
    assert files(tmp_path / "copy.zarr") == files(tmp_path / "other.zarr")
    with pytest.raises(ps.InvalidArgumentError, match="itself"):
        ps.copy(source, source, overwrite=True)
    with pytest.raises(ps.InvalidArgumentError, match="itself"):
        ps.copy(source, source, "below", overwrite=True)
    assert same(ps.open(source)[...], VALUES)


@pytest.mark.parametrize("options", [{}, {"chunks": (7, 9)}], ids=["objects", "elements"])
def test_an_interrupted_copy_continues(options, source, tmp_path):
    target: dict[str, bytes] = {}
    calls = []

    def stop(path: str, done: int, total: int) -> bool:
        calls.append((path, done, total))
        return False

    with pytest.raises(ps.CancelledError):
        ps.copy(source, target, progress=stop, threads=1, **options)
    assert calls
    before = dict(target)
    with pytest.raises(ps.InvalidArgumentError):
        ps.copy(source, target, **options)
    made = ps.copy(source, target, resume=True, **options)
    assert same(made[...], VALUES)
    assert all(target[key] is value for key, value in before.items()), "existing chunks were written again"
    with pytest.raises(ps.InvalidArgumentError, match="differs"):
        ps.copy(source, target, resume=True, chunks=(3, 3))


def test_a_killed_copy_continues(tmp_path):
    values = np.arange(400 * 2000, dtype="<i8").reshape(400, 2000)
    write(values, (10, 200), store=tmp_path / "source")
    code = "import sys, penstock as ps; ps.copy(sys.argv[1], sys.argv[2], chunks=(5, 100))"
    for delay in (0.25, 0.4):
        child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "source"), str(tmp_path / "copy")])
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        made = ps.copy(tmp_path / "source", tmp_path / "copy", chunks=(5, 100), resume=True)
        assert same(made[...], values)
        assert not list((tmp_path / "copy").rglob(".penstock-tmp-*"))

        shutil.rmtree(tmp_path / "copy")


def test_progress_reaches_its_total(source):
    seen: list[tuple[int, int]] = []
    ps.copy(source, {}, chunks=(7, 9), progress=lambda path, done, total: seen.append((done, total)), threads=1)
    assert seen[-1] == (VALUES.nbytes, VALUES.nbytes)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_memory_does_not_grow_with_the_array(tmp_path):
    code = r"""
import re, sys, penstock as ps
ps.copy(sys.argv[1], sys.argv[2], chunks=(256, 256), threads=2)
# Not ru_maxrss: it begins with what the parent had.
print(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
"""
    array = zarr.create_array(tmp_path / "x", shape=(8192, 16384), chunks=(512, 512), dtype="i4", compressors=None)
    block = np.random.default_rng(1).integers(0, 9, (512, 16384), dtype="i4")
    for row in range(0, 8192, 512):
        array[row : row + 512] = block  # 512 MB in total
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "x", tmp_path / "y"], capture_output=True, check=True)
    assert int(done.stdout) < 350_000, "kilobytes"
    assert same(ps.open(tmp_path / "y")[-5:, -5:], block[-5:, -5:])


def test_stores_that_are_only_read_are_refused(source):
    with pytest.raises(ps.ReadOnlyError):
        ps.copy(source, zarr.storage.MemoryStore({}, read_only=True))


def test_the_verb_copies(source, tmp_path):
    done = run_program("copy", source, tmp_path / "y.zarr", "--chunks", "7,9", "--codec", "gzip", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["arrays"] == 1
    assert report["objects_written"] == 64
    assert same(ps.open(tmp_path / "y.zarr")[...], VALUES)
    done = run_program("copy", source, tmp_path / "y.zarr")
    assert done.returncode == 1
    assert "already exists" in done.stderr
    done = run_program("copy", source, tmp_path / "y.zarr", "--overwrite")
    assert done.returncode == 0
    assert "copied as they are" in done.stdout
    assert run_program("copy", source, tmp_path / "y.zarr", "--resume").stdout.count("already existed") == 1
    for wrong in (["--chunks", "7,x"], ["--zarr-format", "4"], ["--overwrite", "--resume"], ["--shards", "-2"]):
        assert run_program("copy", source, tmp_path / "z.zarr", *wrong).returncode == 2, wrong
    assert run_program("copy", tmp_path / "nothing", tmp_path / "z.zarr").returncode == 1


def test_the_verb_shows_a_tree(tmp_path):
    root = zarr.create_group(tmp_path / "g")
    root.create_array("a", data=VALUES, chunks=(20, 30))
    root.create_group("inner").create_array("b", data=VALUES[0], chunks=(9,))
    done = run_program("tree", tmp_path / "g")
    assert done.returncode == 0
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["├──", "a"],
        ["└──", "inner/"],
        ["└──", "b"],
    ]
    assert json.loads(run_program("tree", tmp_path / "g", "--json").stdout)["children"][0]["name"] == "a"


@pytest.mark.parametrize("dtype", ["<f4", ">i2", "U3", "T"])
@pytest.mark.parametrize("compressor", [None, numcodecs.Zlib(1), numcodecs.Blosc("lz4")])
@pytest.mark.parametrize("has_filter", [False, True])
def test_version_2_keeps_its_filters_and_compressor(dtype, compressor, has_filter, tmp_path):
    """Only the metadata of version 2 distinguishes the compressor from the other codecs."""
    values = np.arange(35).reshape(7, 5).astype(np.dtypes.StringDType() if dtype == "T" else dtype)
    filters = [numcodecs.Delta(dtype)] if has_filter and dtype not in ("U3", "T") else None
    if dtype == "T":
        filters = [numcodecs.VLenUTF8()]
    source = {"filters": filters, "compressors": compressor, "chunks": (3, 5), "zarr_format": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_array(tmp_path / "s.zarr", data=values, **source)
    copied = ps.copy(tmp_path / "s.zarr", tmp_path / "t.zarr", chunks=(7, 2))
    np.testing.assert_array_equal(copied[...], values)
    old, new = (json.loads((tmp_path / name / ".zarray").read_text()) for name in ("s.zarr", "t.zarr"))
    assert (new["filters"], new["compressor"]) == (old["filters"], old["compressor"])
    assert new["chunks"] == [7, 2]


def test_the_last_report_shows_complete_progress(tmp_path):
    a = ps.create_array(tmp_path / "a", data=np.arange(1000.0), chunks=(10,))
    for number in range(3):
        reports = []

        def slow(path, done, total, reports=reports):
            reports.append((done, total))
            time.sleep(0.05)  # the other threads have finished

        ps.copy(a, tmp_path / f"b{number}", progress=slow, threads=2)
        assert reports[-1][0] == reports[-1][1] > 0


def test_chunks_of_a_copy_are_names_sizes_or_whole_dimensions(tmp_path):
    group = ps.create_group(tmp_path / "g.zarr")
    names = ("time", "lat")
    group.create_array("t", data=np.arange(60.0).reshape(12, 5), chunks=(3, 5), dimension_names=names)
    group.create_array("lat", data=np.arange(5.0), dimension_names=["lat"])
    made = ps.copy(group, tmp_path / "a.zarr", chunks={"time": -1, "lat": 2})
    assert isinstance(made, ps.Group)
    assert made["t"].chunks == (12, 2)
    assert made["lat"].chunks == (2,)
    np.testing.assert_array_equal(made["t"][...], group["t"][...])
    made = ps.copy(group["t"], tmp_path / "b.zarr", chunks="128B", shards={"lat": 10})
    assert made.chunks == (3, 5)
    assert made.shards == (12, 10)
    assert ps.copy(group["t"], tmp_path / "c.zarr", chunks=-1).chunks == (12, 5)
    with pytest.raises(ps.InvalidArgumentError, match="no array that is copied has a dimension 'lon'"):
        ps.copy(group, tmp_path / "d.zarr", chunks={"lon": 3})
    assert not (tmp_path / "d.zarr").exists()


def test_the_program_takes_chunks_by_name(tmp_path):
    ps.save(tmp_path / "a.zarr", np.arange(60.0).reshape(12, 5))
    run_program("copy", tmp_path / "a.zarr", tmp_path / "b.zarr", "--chunks", "1=2", "--shards=-1")
    made = ps.open(tmp_path / "b.zarr")
    assert made.chunks == (12, 2)
    assert made.shards == (12, 6)


def test_datasets_that_are_not_arrays_are_omitted_and_named(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/x"] = np.arange(6).reshape(2, 3)
        file["a"].create_dataset("lists", (2,), h5py.vlen_dtype("i4"))
        file["a"].create_dataset("links", data=[file["a"].ref], dtype=h5py.ref_dtype)
        h5py.h5d.create(file["a"].id, b"times", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((2,)))
        file["nothing"] = h5py.Empty("f4")
        file["y"] = np.arange(4.0)
    wanted = r"not copied from .*'a/lists' \(Zarr v3 has no.*'a/times' \(HDF5 elements of H5T_TIME.*'nothing' \("
    with pytest.warns(UserWarning, match=wanted):
        copied = ps.copy(tmp_path / "x.h5", tmp_path / "out.zarr")
    assert sorted(copied) == ["a", "y"]
    assert sorted(copied["a"]) == ["links", "x"]
    assert copied["a/links"][...].tolist() == ["/a"]
    np.testing.assert_array_equal(copied["a/x"][...], np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(copied["y"][...], np.arange(4.0))


@pytest.mark.parametrize("yes", [np.True_, 1])
def test_flags_and_lengths_may_be_numpys(yes, tmp_path):
    a = ps.create_array({}, data=np.ones((8, 8)), chunks=(2, 2))
    for _ in range(2):
        assert ps.copy(a, tmp_path / "b.zarr", shards=np.array([4, 4]), overwrite=yes).shards == (4, 4)
        ps.create_group(tmp_path / "c.zarr", overwrite=yes)
    assert ps.copy(a, tmp_path / "b.zarr", shards=(4, 4), resume=yes, durable=yes).shards == (4, 4)
