"""Manifests of groups: with subgroups, of remote files, and of objects that have no location."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import penstock as ps
import pytest
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")


def write(path: Path, first: int = 0, **options: Any) -> Path:
    rng = np.random.default_rng(first)
    with h5py.File(path, "w", **options) as file:
        file.attrs["title"] = "levels"
        time = file.create_dataset("time", data=np.arange(first, first + 3, dtype="f8"))
        time.make_scale("time")
        made = file.create_dataset("t2m", data=rng.integers(0, 99, (3, 8), "i4"), chunks=(1, 4), compression="gzip")
        made.dims[0].attach_scale(time)
        file.create_dataset("a-b", data=np.arange(5))
        inner = file.create_group("a/deep")
        inner.attrs["note"] = "below"
        inner["x"] = rng.random((4, 6))
        file["a"].attrs["levels"] = 2
        file.create_group("empty").attrs["has"] = "nothing"
        file["names"] = np.array(["one", "zwei", ""], h5py.string_dtype())
    return path


def check_equal(found: ps.Group, expected: ps.Group) -> None:
    assert sorted(found) == sorted(expected)
    assert found.attrs.asdict() == expected.attrs.asdict()
    for name in expected:
        ours, theirs = found[name], expected[name]
        if isinstance(theirs, ps.Group):
            assert isinstance(ours, ps.Group)
            check_equal(ours, theirs)
        else:
            np.testing.assert_array_equal(ours[...], theirs[...], err_msg=name)
            assert ours.attrs.asdict() == theirs.attrs.asdict()


def test_has_subgroups_with_their_attributes(tmp_path: Path) -> None:
    group = ps.open(write(tmp_path / "x.h5"))
    ps.save_manifest(group, tmp_path / "x.manifest")
    again = ps.open(tmp_path / "x.manifest")
    check_equal(again, group)
    assert ps.open(tmp_path / "x.manifest", "a/deep").attrs["note"] == "below"
    assert list(again["empty"]) == []
    assert sorted(pickle.loads(pickle.dumps(again["a"]))) == ["deep"]
    ps.save_manifest(again, tmp_path / "again.manifest")
    check_equal(ps.open(tmp_path / "again.manifest"), group)


def test_opens_manifests_without_attributes_of_groups(tmp_path: Path) -> None:
    """Earlier releases wrote manifests in this form, before subgroups had attributes."""
    ps.save_manifest(ps.open(write(tmp_path / "x.h5"))["a"], tmp_path / "x.manifest")
    saved = (tmp_path / "x.manifest").read_bytes()
    before = b'"groups":[{"name":"deep","attributes":{"note":"below"}}],'
    assert before in saved
    (tmp_path / "old.manifest").write_bytes(saved.replace(before, b""))
    old = ps.open(tmp_path / "old.manifest")
    assert old["deep"].attrs.asdict() == {}
    assert old["deep/x"].shape == (4, 6)


@pytest.mark.parametrize(
    ("good", "bad", "what"),
    [
        (b'"name":"deep/x"', b'"name":"deep//x"', "deep//x"),
        (b'"name":"deep/x"', b'"name":"/deep/x"', "/deep/x"),
        (b'"name":"deep/x"', b'"name":""', "the member ''"),
        (b'"name":"deep/x"', b'"name":"deep"', "an array and a group"),
        (b'{"name":"deep","attributes":{"note":"below"}}', b'{"name":"deep"}', "has no attributes"),
        (b'{"name":"deep","attributes":{"note":"below"}}', b'{"name":"a/","attributes":{}}', "the group 'a/'"),
    ],
)
def test_damaged_names_are_refused(tmp_path: Path, good: bytes, bad: bytes, what: str) -> None:
    ps.save_manifest(ps.open(write(tmp_path / "x.h5"))["a"], tmp_path / "x.manifest")
    saved = (tmp_path / "x.manifest").read_bytes()
    assert saved.count(good) == 1
    (tmp_path / "x.manifest").write_bytes(saved.replace(good, bad))
    with pytest.raises(ps.CorruptDataError, match=what):
        ps.open(tmp_path / "x.manifest")


@pytest.mark.parametrize("name", ["x.nc", "a b.nc", "data.bin"])
def test_a_manifest_of_a_remote_file_is_reopened(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.h5")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)  # only the engine's own transport is used
    with HttpServer({f"run/{name}": path.read_bytes()}) as server:
        url = f"{server.url}/run/{quote(name)}"
        group = ps.open(url)
        monkeypatch.setattr(h5py, "File", None)
        ps.save_manifest(group, tmp_path / "x.manifest")
        ps.save_manifest(group["t2m"], tmp_path / "t2m.manifest")
        expected = ps.open(path)
        check_equal(ps.open(tmp_path / "x.manifest"), expected)
        np.testing.assert_array_equal(ps.open(tmp_path / "t2m.manifest")[1:, 2:5], expected["t2m"][1:, 2:5])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(ps.open(tmp_path / "x.manifest")["t2m"]))[...],
                                      expected["t2m"][...])  # fmt: skip
        server.forget()
        opened = ps.open(tmp_path / "x.manifest")["t2m"]
        assert not server.requests
        opened[0, 0]
        assert [each.method for each in server.requests] == ["GET"], "the response has the version"
        server.put(f"run/{name}", path.read_bytes() + b"more")
        with pytest.raises(ps.ConflictError, match="changed"):
            ps.save_manifest(group, tmp_path / "late.manifest")
        for changed in (opened, ps.open(tmp_path / "x.manifest")["t2m"]):
            with pytest.raises(ps.ConflictError, match="changed since the references to its bytes were made"):
                changed[...]


def test_a_manifest_with_versions_of_fsspec_is_opened(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    path = write(tmp_path / "x.h5")
    with HttpServer({"x.h5": path.read_bytes()}) as server:
        ps.save_manifest(ps.open(f"{server.url}/x.h5", "t2m"), tmp_path / "t2m.manifest")
        saved = (tmp_path / "t2m.manifest").read_bytes()
        old, count = re.subn(rb',"version":"[^,}]*"', b"", saved)
        assert count == 1
        assert re.search(rb'"remote_stamp":"size=\d+ ETag=', old)
        (tmp_path / "old.manifest").write_bytes(old)
        opened = ps.open(tmp_path / "old.manifest")
        np.testing.assert_array_equal(opened[...], ps.open(path, "t2m")[...])
        server.put("x.h5", path.read_bytes() + b"more")
        with pytest.raises(ps.ConflictError, match="changed since the manifest was saved"):
            ps.open(tmp_path / "old.manifest")


def test_a_manifest_of_many_remote_files_is_reopened(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i}.h5", 3 * i) for i in range(4)]
    expected = ps.open_virtual(paths, concat="time", variables=["t2m", "time"])
    with HttpServer({f"run/{each.name}": each.read_bytes() for each in paths}) as server:
        urls = [f"{server.url}/run/{each.name}" for each in paths]
        group = ps.open_virtual(urls, concat="time", variables=["t2m", "time"])
        ps.save_manifest(group, tmp_path / "run.manifest")
        server.forget()
        again = ps.open(tmp_path / "run.manifest")
        assert not server.requests
        np.testing.assert_array_equal(again["time"][...], np.arange(12))
        assert not server.requests, "the coordinate is in the manifest"
        check_equal(again, expected)
        server.put("run/2.h5", b"other")
        with pytest.raises(ps.ConflictError, match=r"2\.h5"):
            ps.open(tmp_path / "run.manifest")["t2m"][...]


@pytest.mark.parametrize("manifests", [1, 2])
def test_manifests_of_unequal_files_are_joined_and_saved_again(tmp_path: Path, manifests: int) -> None:
    """Their chunks end where the files do: 2, 1 | 2, 2, 1 | 2 rows."""
    values = np.arange(40, dtype="i4").reshape(10, 4)
    files = []
    for begin, end in ((0, 3), (3, 8), (8, 10)):
        files.append(tmp_path / f"run_{len(files)}.h5")
        with h5py.File(files[-1], "w") as file:
            time = file.create_dataset("time", data=np.arange(begin, end))
            time.make_scale("time")
            made = file.create_dataset("x", data=values[begin:end], chunks=(2, 4), maxshape=(None, 4))
            made.dims[0].attach_scale(time)
    for number, part in enumerate([files] if manifests == 1 else [files[:2], files[2:]]):
        ps.save_manifest(ps.open_virtual(part, concat="time"), tmp_path / f"{number}.manifest")
    group = ps.open_virtual([tmp_path / f"{i}.manifest" for i in range(manifests)], concat="time")
    ps.save_manifest(group, tmp_path / "again.manifest")
    for found in (group, ps.open(tmp_path / "again.manifest")):
        np.testing.assert_array_equal(found["x"][...], values)
        np.testing.assert_array_equal(found["x"][2:9:3, 1:], values[2:9:3, 1:])
        np.testing.assert_array_equal(found["time"][...], np.arange(10))


def test_a_manifest_of_a_bucket_is_reopened(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    path = write(tmp_path / "x.h5")
    fsspec.filesystem("memory").pipe_file("/bucket/x.nc", path.read_bytes())
    group = ps.open("memory://bucket/x.nc")
    ps.save_manifest(group, tmp_path / "x.manifest")
    check_equal(ps.open(tmp_path / "x.manifest"), ps.open(path))


@pytest.mark.parametrize("what", ["group", "array", "shards"])
def test_an_object_of_fsspec_that_changed_is_not_saved(tmp_path: Path, what: str) -> None:
    """Its references are those of the version that was opened."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    path = write(tmp_path / "x.h5")
    memory.pipe_file("/changing/x.nc", path.read_bytes())
    opened: Any
    if what == "shards":
        opened = ps.open_shards(["memory://changing/x.nc"], dataset="t2m")
    else:
        opened = ps.open("memory://changing/x.nc", "" if what == "group" else "t2m")
    memory.pipe_file("/changing/x.nc", path.read_bytes() + b"more")
    with pytest.raises(ps.ConflictError, match="changed since"):
        ps.save_manifest(opened, tmp_path / "x.manifest")
    assert not (tmp_path / "x.manifest").exists()


def test_data_in_memory_is_in_the_manifest_of_an_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write(tmp_path / "x.h5").read_bytes()
    monkeypatch.setattr(h5py, "File", None)
    for target, name in ((content, ""), ({"x.h5": content}, "x.h5")):
        group = ps.open(target, name)
        ps.save_manifest(group["t2m"], tmp_path / "t2m.manifest")
        np.testing.assert_array_equal(ps.open(tmp_path / "t2m.manifest")[...], group["t2m"][...])
        with pytest.raises(ps.UnsupportedError, match="no location that a manifest can name"):
            ps.save_manifest(group, tmp_path / "group.manifest")
        assert not (tmp_path / "group.manifest").exists()


@pytest.mark.parametrize(("name", "padding"), [("x.manifest", 0), ("x.json", 0), ("x.json", 1 << 20)])
def test_one_value_of_a_remote_file_takes_a_request_for_its_references(tmp_path, name, padding):
    """The first request fetches 1 MiB; a reference beyond it takes one more."""
    path = write(tmp_path / "x.h5")
    with HttpServer({"x.h5": path.read_bytes()}) as server:
        group = ps.open(f"{server.url}/x.h5")
        save = ps.save_references if name == "x.json" else ps.save_manifest
        save(group, tmp_path / name)
        stored = (tmp_path / name).read_bytes()
        stored += b" " * padding
        server.put(name, stored)
        expected = group["t2m"][1, 2]
        server.forget()
        assert ps.open(f"{server.url}/{name}", "t2m")[1, 2] == expected
        asked = [(each.path, each.headers.get("range")) for each in server.requests]
    wanted = [(f"/{name}", "bytes=0-1048575")]
    if padding:
        wanted.append((f"/{name}", f"bytes=1048576-{len(stored) - 1}"))
    assert asked[:-1] == wanted
    assert asked[-1][0] == "/x.h5"
