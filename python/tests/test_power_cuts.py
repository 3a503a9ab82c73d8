"""After a power cut every object is the old one or the new one; a new object may be missing.

Each scenario is a program whose system calls are recorded once. From the record, 250 states that a power cut may
leave are made and opened, 1,000 in `make test-long` (python/tests/power_cuts.py defines the effects of a cut). The
same cuts with `sync="none"`, where writes do not wait for the device, must do damage: otherwise the test would prove
nothing.

Set PENSTOCK_POWER_CUTS to another number for longer runs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from conftest import LONG
from power_cuts import count_damaged

CUTS = int(os.environ.get("PENSTOCK_POWER_CUTS", "1000" if LONG else "250"))
VERSIONS = 6
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="records system calls of Linux")

PRELUDE = """
import os, sys
import numpy as np
import penstock as ps
root = os.environ["POWER_ROOT"]
context = ps.Context(threads=2, sync={sync!r})
context.__enter__()
def mark():
    try:
        os.unlink(root + "/.power-mark-")
    except FileNotFoundError:
        pass
"""


@dataclass(frozen=True)
class Scenario:
    prepare: Callable[[Path], None]
    script: str
    check: Callable[[Path, int], str | None]
    damaged_without: bool = True  # cuts without syncs do damage that `check` detects
    repeats: bool = True  # the script may run again on the files that it left, as in `make test-power`


def judged(check: Callable[[Path, int], str | None]) -> Callable[[Path, int], str | None]:
    """An array that cannot be opened or read is also an error."""

    def judge(folder: Path, marks: int) -> str | None:
        try:
            return check(folder, marks)
        except Exception as failure:
            return f"{type(failure).__name__}: {failure}"

    return judge


# --- chunks and shards ---


def make_chunks(root: Path) -> None:
    ps.create_array(
        str(root / "a"), shape=(8, 512), dtype="i4", chunks=(2, 512), codecs=["bytes"], data=np.zeros((8, 512), "i4")
    )


WRITE_CHUNKS = """
a = ps.open(root + "/a", mode="r+")
for version in range(1, 7):
    a[...] = np.full((8, 512), version, "i4")
    mark()
"""


def check_chunks(folder: Path, marks: int) -> str | None:
    values = ps.open(str(folder / "a"))[...]
    for row in range(0, 8, 2):
        chunk = values[row : row + 2]
        if (chunk != chunk.flat[0]).any() or not 0 <= chunk.flat[0] <= VERSIONS:
            return f"the chunk of row {row} is neither old nor new: {np.unique(chunk)}"
    return None


def check_durable_chunks(folder: Path, marks: int) -> str | None:
    low = ps.open(str(folder / "a"))[...].min()
    return check_chunks(folder, marks) or (f"version {marks} was durable, {low} is there" if low < marks else None)


def make_shard(root: Path) -> None:
    ps.create_array(
        str(root / "a"), shape=(32, 64), dtype="i4", chunks=(2, 64), shards=(16, 64), data=np.zeros((32, 64), "i4")
    )


WRITE_SHARD = """
a = ps.open(root + "/a", mode="r+")
for version in range(1, 7):
    for row in (2, 20):
        a[row:row + 2] = np.full((2, 64), version, "i4")
    mark()
"""


def check_shard(folder: Path, marks: int) -> str | None:
    values = ps.open(str(folder / "a"))[...]
    for row in range(0, 32, 2):
        chunk, most = values[row : row + 2], VERSIONS if row in (2, 20) else 0
        if (chunk != chunk.flat[0]).any() or not 0 <= chunk.flat[0] <= most:
            return f"the chunk of row {row} is neither old nor new: {np.unique(chunk)}"
    return None


# --- append ---


def make_rows(root: Path) -> None:
    ps.create_array(str(root / "a"), shape=(6, 64), dtype="i4", chunks=(4, 64), codecs=["bytes"], data=rows(0, 6))


def rows(begin: int, end: int) -> np.ndarray:
    return np.repeat(np.arange(begin + 1, end + 1, dtype="i4")[:, None], 64, 1)


APPEND = """
a = ps.open(root + "/a", mode="r+")
for i in range(6):
    begin = len(a)
    a.append(np.repeat(np.arange(begin + 1, begin + 6, dtype="i4")[:, None], 64, 1))
    mark()
"""


def check_rows(folder: Path, marks: int) -> str | None:
    a = ps.open(str(folder / "a"))
    if len(a) % 5 != 1 or len(a) < 6:
        return f"there are {len(a)} rows"
    values = a[...]
    return None if (values == rows(0, len(a))).all() else f"of {len(a)} rows some are wrong: {values[:, 0].tolist()}"


# --- metadata ---

CREATE = """
for i in range(6):
    g = ps.create_group(root + f"/g{i}/below", attributes={{"i": i}}, durable={durable})
    ps.create_array(g, "a", shape=(4,), dtype="i4", chunks=(4,), attributes={{"of": i}}, durable={durable})
    how = {{"zarr_format": 2, "attributes": {{"of": i}}, "durable": {durable}}}
    ps.create_array(root + f"/v2-{{i}}", shape=(4,), dtype="i4", **how)
    mark()
""".replace("g{i}", "g{{i}}")


def check_created(folder: Path, marks: int) -> str | None:
    for path in [
        *folder.rglob("zarr.json"),
        *folder.rglob(".zarray"),
        *folder.rglob(".zattrs"),
        *folder.rglob(".zgroup"),
    ]:
        json.loads(path.read_text())
        if path.name != ".zattrs":
            node = ps.open(str(path.parent))
            if isinstance(node, ps.Array) and (node.shape != (4,) or node[...].any()):
                return f"'{path}' opens as something else"
    return None


def check_durable_created(folder: Path, marks: int) -> str | None:
    for i in range(marks):
        if (
            ps.open(str(folder / f"g{i}/below"))["a"].attrs["of"] != i
            or ps.open(str(folder / f"v2-{i}")).attrs["of"] != i
        ):
            return f"node {i} has other attributes"
    return check_created(folder, marks)


# A durable write also makes the metadata durable that it needs.
CREATE_THEN_WRITE = """
for i in range(6):
    g = ps.create_group(root + f"/deep/g{i}")
    a = ps.create_array(g, "x/a", shape=(64,), dtype="i4", chunks=(32,), codecs=["bytes"])
    a.write(..., np.full(64, i + 1, "i4"), durable=True)
    mark()
"""


def check_created_and_written(folder: Path, marks: int) -> str | None:
    for i in range(marks):
        if (ps.open(str(folder / f"deep/g{i}"))["x/a"][...] != i + 1).any():
            return f"array {i} has lost what was durable"
    return check_json(folder)


def check_json(folder: Path) -> str | None:
    for path in folder.rglob("zarr.json"):
        json.loads(path.read_text())
    return None


def make_tree(root: Path) -> None:
    g = ps.create_group(str(root / "g"), attributes={"v": 0})
    ps.create_array(g, "a", shape=(4,), dtype="i4", attributes={"v": 0})
    ps.consolidate_metadata(str(root / "g"))


EDIT = """
for version in range(1, 7):
    g = ps.open(root + "/g", mode="r+", use_consolidated=False)
    g["a"].attrs["v"] = version
    g.attrs.update(v=version, text="x" * 5000)
    ps.create_array(g, f"b{version}", shape=(4,), dtype="i4", attributes={"v": version})
    ps.consolidate_metadata(root + "/g")
    g["a"].resize((4 + version,))
    mark()
"""


def check_tree(folder: Path, marks: int) -> str | None:
    for consolidated in (False, None):
        g = ps.open(str(folder / "g"), use_consolidated=consolidated)
        if g.attrs["v"] not in range(7) or g["a"].attrs["v"] not in range(7) or len(g["a"]) not in range(4, 11):
            return "attributes are neither old nor new"
        for name, node in g.members():
            if name != "a" and node.attrs["v"] != int(name[1:]):
                return f"'{name}' is neither old nor new"
    if ps.open(str(folder / "g"), use_consolidated=True).attrs["v"] not in range(7):
        return "consolidated metadata are neither old nor new"
    return None


SHRINK = """
a = ps.open(root + "/a", mode="r+")
a.resize((4, 512))
mark()
a.resize((2, 512))
mark()
"""


def make_ones(root: Path) -> None:
    ps.create_array(
        str(root / "a"), shape=(8, 512), dtype="i4", chunks=(2, 512), codecs=["bytes"], data=np.ones((8, 512), "i4")
    )


def check_ones(folder: Path, marks: int) -> str | None:
    values = ps.open(str(folder / "a"))[...]
    return None if len(values) in (8, 4, 2) and (values == 1).all() else f"{len(values)} rows, some are lost"


# --- zip ---


def make_zip(root: Path) -> None:
    ps.create_array(
        str(root / "a.zip"),
        "a",
        shape=(8, 64),
        dtype="i4",
        chunks=(2, 64),
        codecs=["bytes"],
        data=np.zeros((8, 64), "i4"),
    )


WRITE_ZIP = """
for version in range(1, 7):
    a = ps.open(root + "/a.zip", "a", mode="r+")
    a.write(..., np.full((8, 64), version, "i4"), durable={durable})
    a.attrs["v"] = version
    a.write(np.s_[:2], np.full((2, 64), version, "i4"))
    a.attrs["v"] = version
    mark()
ps.create_array(root + "/new.zip", "a", shape=(4,), dtype="i4", data=np.ones(4, "i4"))
"""


def place_mark(archive: Path) -> None:
    """The mark of an archive contains its inode, which differs in a replayed folder."""
    path = archive.with_name(f".penstock-tmp-zip-{archive.name}")
    if path.exists() and archive.exists() and (numbers := path.read_text().split()):
        path.write_text(f"{numbers[0]} {archive.stat().st_ino} {numbers[2]}\n")


def check_zip(folder: Path, marks: int) -> str | None:
    for name in ("a.zip", "new.zip"):
        place_mark(folder / name)
    a = ps.open(str(folder / "a.zip"), "a")
    values = a[...]
    if not 0 <= values.flat[0] <= VERSIONS or (values != values.flat[0]).any():
        return f"the archive is neither old nor new: {np.unique(values)}"
    if (folder / "new.zip").exists():
        try:
            new = ps.open(str(folder / "new.zip"), "a")[...].tolist()
            return None if new in ([0] * 4, [1] * 4) else f"a new archive is damaged: {new}"
        except ps.NotFoundError:
            return None
    return None


def check_durable_zip(folder: Path, marks: int) -> str | None:
    wrong = check_zip(folder, marks)
    low = ps.open(str(folder / "a.zip"), "a")[...].min()
    return wrong or (f"version {marks} was durable, {low} is there" if low < marks else None)


# --- shards ---


def make_shards(root: Path) -> None:
    for suffix in SHARDS:
        save_shards(root, suffix, 0)


SHARDS = ("npy", "npz", "zarr")


def save_shards(root: Path, suffix: str, version: int) -> None:
    with ps.ShardWriter(str(root / suffix / f"s_{{:02d}}.{suffix}")) as writer:
        for _ in range(3):
            writer.write(np.full((16, 32), version, "i4"))


WRITE_SHARDS = """
for version in (1, 2):
    for suffix in SHARDS:
        with ps.ShardWriter(root + f"/{suffix}/s_{{:02d}}.{suffix}") as writer:
            for _ in range(3):
                writer.write(np.full((16, 32), version, "i4"))
    with ps.ShardWriter(root + f"/new{version}/s_{{}}.npy") as writer:
        writer.write(np.full((16, 32), version, "i4"))
""".replace("SHARDS", str(SHARDS))


def check_shards(folder: Path, marks: int) -> str | None:
    for suffix in SHARDS:
        for number in range(3):
            path = folder / suffix / f"s_{number:02d}.{suffix}"
            if suffix == "zarr":
                values = ps.open(str(path))[...]
            else:
                loaded = np.load(path)
                values = loaded["x"] if suffix == "npz" else loaded
            if values.shape != (16, 32) or (values != values.flat[0]).any() or values.flat[0] not in (0, 1, 2):
                return f"'{path}' is neither old nor new"
    for version in (1, 2):
        new = folder / f"new{version}"
        if (new / "s_0.npy").exists() and (np.load(new / "s_0.npy") != version).any():
            return "a new shard is damaged"
        if (new / "penstock.shards").exists() and not (new / "s_0.npy").exists():
            return "a manifest names a shard that is missing"
    return None


# --- files that are written once ---


def make_npy(root: Path) -> None:
    ps.save(root / "a.npy", np.zeros((2, 2048), "i4"))
    ps.save(root / "b.npy", np.zeros((2, 2048), "i4"))


# The first file is renamed into place, the second is written through a file without a name.
WRITE_NPY = """
for version in range(1, 7):
    values = np.full((2, 4096), version, "i4")
    ps.save(root + "/a.npy", values[:, :2048].copy())
    ps.save(root + "/b.npy", values[:, ::2])
    mark()
"""


def check_npy(folder: Path, marks: int) -> str | None:
    for name in ("a.npy", "b.npy"):
        values = np.load(folder / name)
        if values.shape != (2, 2048) or (values != values.flat[0]).any() or not 0 <= values.flat[0] <= VERSIONS:
            return f"{name} is neither old nor new: {np.unique(values)}"
    return None


SCENARIOS = {
    "chunk": Scenario(make_chunks, WRITE_CHUNKS, check_chunks),
    "shard": Scenario(make_shard, WRITE_SHARD, check_shard),
    "append": Scenario(make_rows, APPEND, check_rows),
    "create": Scenario(lambda root: None, CREATE.format(durable=False), check_created),
    "metadata": Scenario(make_tree, EDIT, check_tree),
    "shrink": Scenario(make_ones, SHRINK, check_ones, damaged_without=False, repeats=False),  # durable by default
    "zip": Scenario(make_zip, WRITE_ZIP.format(durable=False), check_zip),
    "npy": Scenario(make_npy, WRITE_NPY, check_npy),
    "save_shards": Scenario(make_shards, WRITE_SHARDS, check_shards),
}
DURABLE = {
    "chunk": Scenario(make_chunks, WRITE_CHUNKS, check_durable_chunks),
    "create": Scenario(lambda root: None, CREATE.format(durable=True), check_durable_created),
    "create_then_write": Scenario(lambda root: None, CREATE_THEN_WRITE, check_created_and_written),
    "zip": Scenario(make_zip, WRITE_ZIP.format(durable=True), check_durable_zip),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_object_is_old_or_new_after_a_cut(name: str, tmp_path: Path) -> None:
    it = SCENARIOS[name]
    script = PRELUDE.format(sync="objects") + it.script
    damaged, first = count_damaged(script, tmp_path, it.prepare, judged(it.check), count=CUTS)
    assert damaged == 0, f"{damaged} of {CUTS}: {first}"


@pytest.mark.parametrize("name", [name for name in SCENARIOS if SCENARIOS[name].damaged_without])
def test_cuts_do_damage_without_syncs(name: str, tmp_path: Path) -> None:
    it = SCENARIOS[name]
    script = PRELUDE.format(sync="none") + it.script
    damaged, _ = count_damaged(script, tmp_path, it.prepare, judged(it.check), count=100, most=1)
    assert damaged > 0


@pytest.mark.parametrize("name", DURABLE)
def test_durable_writes_are_present_after_a_cut(name: str, tmp_path: Path) -> None:
    it = DURABLE[name]
    # Durable by the option of the call, or by that of the context if the script does not set it.
    sync = "objects" if "durable=True" in it.script else "durable"
    script = PRELUDE.format(sync=sync) + it.script
    damaged, first = count_damaged(script, tmp_path, it.prepare, judged(it.check), count=CUTS)
    assert damaged == 0, f"{damaged} of {CUTS}: {first}"
