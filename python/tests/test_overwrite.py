"""Nothing is erased before all options are checked: a matrix of wrong options over destinations, and kills."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import same

OLD = np.arange(600, dtype="<i4").reshape(20, 30)
NEW = OLD[::-1] * 7


def tree_hash(at: Path) -> str:
    """A digest of all names and bytes below a folder."""
    out = hashlib.sha256()
    for path in sorted([at, *at.rglob("*")]):
        out.update(f"{path.relative_to(at)} {path.is_dir()} {path.is_symlink()}\n".encode())
        if path.is_file():
            out.update(path.read_bytes())
    return out.hexdigest()


def state_of(folder: Path, memory: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    return tree_hash(folder), {key: bytes(value) for key, value in memory.items()}


Target = Callable[[Path, dict[str, Any]], tuple[Any, str]]


def a_root(folder: Path, _: dict[str, Any]) -> tuple[Any, str]:
    ps.save(folder / "x.zarr", OLD)
    return folder / "x.zarr", ""


def a_child(folder: Path, _: dict[str, Any]) -> tuple[Any, str]:
    ps.create_group(folder / "g.zarr").create_array("in/x", data=OLD)
    return folder / "g.zarr", "in/x"


def a_member(folder: Path, _: dict[str, Any]) -> tuple[Any, str]:
    group = ps.create_group(folder / "g.zarr")
    group["x"] = OLD
    return group, "x"


def a_group(folder: Path, _: dict[str, Any]) -> tuple[Any, str]:
    ps.create_group(folder / "g.zarr").create_array("in/x", data=OLD)
    return folder / "g.zarr", ""


def in_memory(_: Path, memory: dict[str, Any]) -> tuple[Any, str]:
    ps.save(memory, OLD, path="x")
    return memory, "x"


def in_an_archive(folder: Path, _: dict[str, Any]) -> tuple[Any, str]:
    ps.save(folder / "x.zip", OLD)
    return folder / "x.zip", ""


TARGETS: list[Target] = [a_root, a_child, a_member, a_group, in_memory, in_an_archive]

NOTHING = object()
# For each option, a value of the wrong type and a wrong value.
WRONG_CREATE: dict[str, tuple[Any, ...]] = {
    "shape": (NOTHING, (-1, 2)),
    "dtype": (NOTHING, "nosuch"),
    "chunks": (NOTHING, (0, 1), (3,)),
    "shards": (NOTHING, (7, 7), (3,)),
    "codecs": (NOTHING, ["nosuch"], [{"name": "zstd", "configuration": {"level": "high"}}]),
    "fill_value": (NOTHING, "text"),
    "zarr_format": (NOTHING, 4),
    "attributes": (NOTHING, {"a": NOTHING}),
    "dimension_names": (NOTHING, ["a"], ["a", 3]),
    "data": (NOTHING, np.array([1, "a", None], dtype=object)),
    "filters": (NOTHING, ["nosuch"]),
    "serializer": (NOTHING, "nosuch"),
    "compressors": (NOTHING, ["nosuch"]),
    "order": (NOTHING, "Z"),
    "chunk_key_encoding": (NOTHING, "nosuch"),
    "dimension_separator": (NOTHING, ";"),
    "context": (NOTHING,),
    "storage_options": ({"anon": True},),
}
WRONG_GROUP = {name: WRONG_CREATE[name] for name in ("attributes", "zarr_format", "context", "storage_options")}
WRONG_COPY: dict[str, tuple[Any, ...]] = {
    "chunks": (NOTHING, (0, 1), (3,)),
    "shards": (NOTHING, (7, 7), (3,)),
    "codecs": (NOTHING, ["nosuch"]),
    "zarr_format": (NOTHING, 4),
    "threads": (NOTHING, -1),
    "resume": (True,),
    "context": (NOTHING,),
    "target_options": ({"anon": True},),
}


def cases(wrong: dict[str, tuple[Any, ...]]) -> list[tuple[str, Any]]:
    """Each option with its wrong values, and each option's name with an additional letter."""
    listed = [(name, value) for name, values in wrong.items() for value in values]
    return listed + [(name + "s", values[-1]) for name, values in wrong.items()]


def check_refusals(target: Target, wrong: dict[str, tuple[Any, ...]], folder: Path, call: Any) -> None:
    memory: dict[str, Any] = {}
    at, path = target(folder, memory)
    before = state_of(folder, memory)
    for name, value in cases(wrong):
        if name == "storage_options" and (isinstance(at, ps.Group | dict)):
            continue  # they apply to URIs
        if name == "target_options" and isinstance(at, ps.Group | dict):
            continue
        if name == "zarr_format" and isinstance(at, ps.Group):
            continue  # it applies to groups
        try:
            call(at, path, **{name: value})
        except (TypeError, ValueError, ps.Error):
            pass
        else:
            pytest.fail(f"{name}={value!r} is accepted")
        assert state_of(folder, memory) == before, f"{name}={value!r} changed the destination"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_a_wrong_option_of_create_array_changes_nothing(target, tmp_path):
    def call(at: Any, path: str, **wrong: Any) -> None:
        ps.create_array(at, path, **{"data": NEW, "overwrite": True, **wrong})

    check_refusals(target, WRONG_CREATE, tmp_path, call)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_a_wrong_option_of_create_group_changes_nothing(target, tmp_path):
    def call(at: Any, path: str, **wrong: Any) -> None:
        ps.create_group(at, path, **{"overwrite": True, **wrong})

    check_refusals(target, WRONG_GROUP, tmp_path, call)


@pytest.mark.parametrize("target", [each for each in TARGETS if each is not a_member], ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", ["array", "group"])
def test_a_wrong_option_of_copy_changes_nothing(kind, target, tmp_path, tmp_path_factory):
    source = ps.create_group(tmp_path_factory.mktemp("source") / "s.zarr")
    source.create_array("a", data=NEW, chunks=(5, 10))
    source.create_array("b", data=NEW[0], chunks=(5,))
    taken: Any = source if kind == "group" else source["a"]

    def call(at: Any, path: str, **wrong: Any) -> None:
        ps.copy(taken, at, path, **{"overwrite": True, **wrong})

    check_refusals(target, WRONG_COPY, tmp_path, call)


WRONG_TIFF: dict[str, tuple[Any, ...]] = {
    "shape": (NOTHING, (1, 2, 3, 4)),
    "dtype": (NOTHING, "nosuch"),
    "data": (NOTHING, np.zeros((2, 3), bool)),
    "tiles": (NOTHING, 15),
    "bits": (NOTHING, 77),
    "mask": (np.ones((1, 1), bool),),
    "compress": (NOTHING, "nosuch"),
    "level": (NOTHING, -1),
    "predictor": (NOTHING, 9),
    "interleave": (NOTHING, "nosuch"),
    "overviews": (NOTHING, "nosuch", (0,)),
    "resampling": (NOTHING, "nosuch"),
    "nodata": (NOTHING, "text"),
    "crs": (NOTHING, "nosuch"),
    "transform": (NOTHING, (0, 0, 0, 0, 0, 0)),
    "area_or_point": (NOTHING, "nosuch"),
    "bigtiff": (NOTHING, "nosuch"),
    "photometric": (NOTHING, "nosuch"),
    "colormap": (NOTHING, [[1, 2]]),
    "descriptions": (NOTHING, ["a", "b"]),
    "units": (NOTHING, ["a", "b"]),
    "scales": (NOTHING, [1.0, 2.0]),
    "offsets": (NOTHING, [1.0, 2.0]),
    "attributes": (NOTHING,),
    "chunks": ((2, 2),),
    "codecs": (["zstd"],),
    "dimension_names": (["y", "x"],),
}


def test_a_wrong_option_of_a_tiff_changes_nothing(tmp_path):
    def target(folder: Path, _: dict[str, Any]) -> tuple[Any, str]:
        ps.save(folder / "x.tif", OLD)
        return folder / "x.tif", ""

    def create(at: Any, path: str, **wrong: Any) -> None:
        ps.create_array(at, path, **{"data": NEW, "overwrite": True, **wrong})

    check_refusals(target, WRONG_TIFF, tmp_path, create)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".zarr", ".tif", ".raw"])
def test_a_wrong_option_of_save_shards_changes_nothing(suffix, tmp_path):
    values = np.arange(48, dtype="<i4").reshape(2, 4, 6)
    with ps.ShardWriter(tmp_path / f"s_{{:02d}}{suffix}") as old:
        old.write(values)
    before = tree_hash(tmp_path)
    pattern = str(tmp_path / f"s_{{:02d}}{suffix}")
    for options in [{"name": 3}, {"name": ""}, {"nosuch": 1}]:
        with pytest.raises((TypeError, ValueError, ps.Error)), ps.ShardWriter(pattern, **options) as writer:
            writer.write(values)
        assert tree_hash(tmp_path) == before
    for wrong in [pattern.replace("{:02d}", "x"), pattern + "x"]:
        with pytest.raises((TypeError, ValueError, ps.Error)):
            ps.ShardWriter(wrong)
        assert tree_hash(tmp_path) == before


@pytest.mark.parametrize("target", TARGETS[:5], ids=lambda target: target.__name__)
def test_a_replacement_contains_only_the_new_node(target, tmp_path):
    memory: dict[str, Any] = {}
    at, path = target(tmp_path, memory)
    made = ps.create_array(at, path, data=NEW[:3], chunks=(2, 9), overwrite=True)
    assert same(made[...], NEW[:3])
    assert same(ps.open(at if not isinstance(at, ps.Group) else at.uri, path)[...], NEW[:3])
    assert not [name for name in tmp_path.rglob("*") if name.name.startswith(".penstock")]
    assert sum("c/" in key for key in memory) in (0, 8)


class Fails(Exception):
    pass


class Source:
    """Values that cannot be read."""

    shape = OLD.shape
    dtype = OLD.dtype

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise Fails


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_data_that_cannot_be_read_changes_nothing(target, tmp_path):
    memory: dict[str, Any] = {}
    at, path = target(tmp_path, memory)
    before = state_of(tmp_path, memory)
    with pytest.raises((Fails, TypeError, ps.Error)):
        ps.save(at, Source(), path)
    assert state_of(tmp_path, memory) == before


@pytest.mark.parametrize("kind", ["dict", "zip", "obstore", "mapping"])
def test_a_group_is_saved_from_its_own_arrays(kind, tmp_path):
    """Stores that cannot exchange a node erase the old one first."""
    target: Any = {}
    if kind == "zip":
        target = tmp_path / "g.zip"
    elif kind == "obstore":
        target = pytest.importorskip("obstore").store.MemoryStore()
    elif kind == "mapping":
        target = UserDict()
    ps.save(target, a=OLD, b=OLD[0])
    old = ps.open(target)
    ps.save(target, a=old["a"], c=NEW)
    made = ps.open(target)
    assert list(made) == ["a", "c"]
    assert same(made["a"][...], OLD)
    assert same(made["c"][...], NEW)


def test_a_damaged_source_of_a_copy_leaves_the_old_node(tmp_path):
    source = ps.create_group(tmp_path / "s.zarr")
    source.create_array("a", data=NEW, chunks=(5, 10), codecs=["zstd", "crc32c"])
    source.create_array("b", data=NEW, chunks=(5, 10), codecs=["zstd", "crc32c"])
    chunk = tmp_path / "s.zarr/b/c/3/2"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    ps.save(tmp_path / "x.zarr", OLD)
    before = tree_hash(tmp_path)
    with pytest.raises(ps.Error):
        ps.copy(source, tmp_path / "x.zarr", overwrite=True, codecs=["gzip"])
    assert tree_hash(tmp_path) == before
    (tmp_path / "s.zarr/b/zarr.json").write_text("{")
    before = tree_hash(tmp_path)
    with pytest.raises(ps.Error):
        ps.copy(ps.open(tmp_path / "s.zarr"), tmp_path / "x.zarr", overwrite=True)
    assert tree_hash(tmp_path) == before


def test_unrelated_files_stay_when_a_node_is_overwritten(tmp_path):
    group = ps.create_group(tmp_path / "g.zarr")
    group["a"] = OLD
    (tmp_path / "g.zarr/notes.txt").write_text("notes")
    (tmp_path / "g.zarr/plots").mkdir()
    (tmp_path / "g.zarr/plots/map.png").write_text("png")
    (tmp_path / "g.zarr/a/readme").write_text("about a")
    (tmp_path / "g.zarr/link").symlink_to("/nowhere")
    ps.save(tmp_path / "g.zarr", NEW)
    assert same(ps.load(tmp_path / "g.zarr"), NEW)
    left = {str(path.relative_to(tmp_path / "g.zarr")) for path in (tmp_path / "g.zarr").rglob("*")}
    kept = {"notes.txt", "plots", "plots/map.png", "a", "a/readme", "link"}
    assert {name for name in left if not name.startswith("c")} == kept | {"zarr.json"}
    # Next, an array that is overwritten by a group with a member that has the name of the file.
    before = tree_hash(tmp_path)
    with pytest.raises(ps.InvalidArgumentError, match=r"notes\.txt"):
        ps.save(tmp_path / "g.zarr", **{"notes.txt": OLD})
    assert tree_hash(tmp_path) == before


def test_a_link_to_a_node_stays_a_link(tmp_path):
    ps.save(tmp_path / "real.zarr", OLD)
    (tmp_path / "x.zarr").symlink_to("real.zarr")
    ps.save(tmp_path / "x.zarr", NEW)
    assert (tmp_path / "x.zarr").is_symlink()
    assert same(ps.load(tmp_path / "real.zarr"), NEW)


OVERWRITE = """
import sys, numpy as np, penstock as ps
what, at, source = sys.argv[1:]
new = np.arange(600, dtype="<i4").reshape(20, 30)[::-1] * 7
print("ready", flush=True)
for _ in range(10000):
    if what == "create_array":
        ps.create_array(at, data=new, chunks=(2, 3), overwrite=True)
    elif what == "create_group":
        ps.create_group(at, attributes={"new": 1}, overwrite=True)
    elif what == "save":
        ps.save(at, new)
    else:
        ps.copy(source, at, chunks=(4, 5), overwrite=True)
"""


@pytest.mark.parametrize("what", ["create_array", "create_group", "save", "copy"])
def test_a_killed_overwrite_leaves_the_old_or_the_new_node(what, tmp_path):
    """Killed at 8 moments during overwrites; the next writer removes what the killed one left."""
    at, source = tmp_path / "w" / "x.zarr", tmp_path / "s.zarr"
    ps.save(source, NEW)
    for turn in range(8):
        ps.create_array(at, data=OLD, chunks=(3, 7), overwrite=True)
        (at / "notes.txt").write_text("notes")
        command = [sys.executable, "-c", OVERWRITE, what, str(at), str(source)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            time.sleep(0.003 * turn + 0.001 * (turn % 3))
            child.send_signal(signal.SIGKILL)
        found = ps.open(at)
        if isinstance(found, ps.Group):
            assert what == "create_group"
            assert found.attrs["new"] == 1
            assert found.keys() == []
        else:
            assert same(found[...], OLD) or same(found[...], NEW)
        assert (at / "notes.txt").read_text() == "notes"
    ps.save(at, OLD)
    assert same(ps.load(at), OLD)
    assert os.listdir(tmp_path / "w") == ["x.zarr"]
