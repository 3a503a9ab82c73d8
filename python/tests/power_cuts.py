"""A disk that loses what was not synced: replays a recorded program up to a power cut.

`tests/support/power/power_log.c` records what a program does to the files below a folder. `Disk` applies the record
operation by operation and tracks two states: what the program sees, and what is certainly on the device. `cut` returns
one of the states that POSIX allows after a power cut:

- The bytes written to a file since its last sync are present, missing, or zeros, page by page; the file has any of the
lengths that it has had.
- Changes of names in a folder since its last sync are applied in order up to some point, or each independently. A
rename is atomic.
- `fsync` of a file does not sync its name; that needs a sync of the folder.
"""

from __future__ import annotations

import functools
import hashlib
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "tests/support/power/power_log.c"
CREATE, WRITE, TRUNCATE, RENAME, LINK, UNLINK, MKDIR, RMDIR, SYNC_FILE, SYNC_FOLDER, SYNC_ALL, MARK = range(1, 13)
PAGE = 4096
EXCHANGE = 2


@functools.cache
def recorder() -> str:
    """The library that records, compiled once per session."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not sys.platform.startswith("linux") or compiler is None:
        pytest.skip("recording system calls needs Linux and a C compiler")
    out = os.path.join(tempfile.mkdtemp(prefix="penstock-power-"), "power_log.so")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", out, str(SOURCE), "-ldl", "-lpthread"], check=True)
    return out


def run(script: str, root: Path, *, log: Path | None = None) -> str:
    """Run a Python program with the recorder on `root`; its output."""
    env = {**os.environ, "LD_PRELOAD": recorder(), "POWER_ROOT": str(root)}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    if log is not None:
        env["POWER_LOG"] = str(log)
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"the recorded program failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class Operation:
    what: int
    inode: int
    offset: int
    bytes: int
    path: str
    second: str
    data: bytes


def read_log(path: Path) -> list[Operation]:
    out, data, at = [], path.read_bytes(), 0
    while at < len(data):
        what, inode, offset, size, first, second, carried = struct.unpack_from("<7Q", data, at)
        at += 56
        texts = []
        for length in (first, second):
            texts.append(data[at : at + length].decode())
            at += length
        out.append(Operation(what, inode, offset, size, texts[0], texts[1], data[at : at + carried]))
        at += carried
    return out


@dataclass
class File:
    seen: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, data) or (size, None)

    def write(self, offset: int, data: bytes) -> None:
        if len(self.seen) < offset:
            self.seen.extend(bytes(offset - len(self.seen)))
        self.seen[offset : offset + len(data)] = data
        self.pending.append((offset, data))

    def truncate(self, size: int) -> None:
        del self.seen[size:]
        self.seen.extend(bytes(size - len(self.seen)))
        self.pending.append((size, None))

    def sync(self) -> None:
        self.synced = bytes(self.seen)
        self.pending.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        if not self.pending:
            return self.synced
        how = chance.randrange(5)
        if how == 0:
            return self.synced
        if how == 1:
            return bytes(self.seen)
        if how == 2:  # only the length changed: zeros where nothing was written
            return (self.synced + bytes(len(self.seen)))[: len(self.seen)]
        some = File(bytearray(self.synced))
        if how == 3:  # the first of the writes
            for offset, data in self.pending[: chance.randrange(len(self.pending) + 1)]:
                some.truncate(offset) if data is None else some.write(offset, data)
            return bytes(some.seen)
        for offset, data in self.pending:  # some pages of some writes
            if data is None:
                if chance.random() < 0.5:
                    some.truncate(offset)
                continue
            for begin in range(offset // PAGE * PAGE, offset + len(data), PAGE):
                low, high = max(begin, offset), min(begin + PAGE, offset + len(data))
                if chance.random() < 0.5:
                    some.write(low, data[low - offset : high - offset])
                elif chance.random() < 0.5:
                    some.write(low, bytes(high - low))
        return bytes(some.seen)


@dataclass
class Folder:
    seen: dict[str, File | Folder] = field(default_factory=dict)
    synced: dict[str, File | Folder] = field(default_factory=dict)


Change = tuple[Folder, str, "File | Folder | None"]


class Disk:
    def __init__(self, root: Path) -> None:
        """All files below `root` are on the device now."""
        self.root = str(root)
        self.top = Folder()
        self.files: dict[int, File] = {}
        self.pending: list[list[Change]] = []  # changes of names; those of one list are atomic
        self.marks = 0
        self._load(root, self.top)

    def _load(self, path: Path, into: Folder) -> None:
        for each in os.scandir(path):
            if each.is_dir():
                below = Folder()
                self._load(Path(each.path), below)
                into.seen[each.name] = below
            else:
                content = Path(each.path).read_bytes()
                self.files[each.inode()] = into.seen[each.name] = File(bytearray(content), content)
        into.synced = dict(into.seen)

    def _find(self, path: str) -> tuple[Folder, str]:
        parts = os.path.normpath(path)[len(self.root) :].strip("/").split("/")
        folder = self.top
        for part in parts[:-1]:
            below = folder.seen[part]
            assert isinstance(below, Folder)
            folder = below
        return folder, parts[-1]

    def _folder(self, path: str) -> Folder:
        path = os.path.normpath(path)
        if path == self.root:
            return self.top
        folder, name = self._find(path)
        found = folder.seen[name]
        assert isinstance(found, Folder)
        return found

    def _change(self, *changes: Change) -> None:
        for folder, name, to in changes:
            if to is None:
                folder.seen.pop(name, None)
            else:
                folder.seen[name] = to
        self.pending.append(list(changes))

    def apply(self, op: Operation) -> None:
        if op.what == CREATE:
            self.files[op.inode] = File()
            if op.path:  # O_TMPFILE's have no path: a cut removes them
                self._change((*self._find(op.path), self.files[op.inode]))
        elif op.what == WRITE:
            self.files[op.inode].write(op.offset, op.data)
        elif op.what == TRUNCATE:
            self.files[op.inode].truncate(op.offset)
        elif op.what == RENAME:
            (from_folder, from_name), (to_folder, to_name) = self._find(op.path), self._find(op.second)
            moved, other = from_folder.seen[from_name], to_folder.seen.get(to_name)
            left = other if op.offset & EXCHANGE else None
            self._change((from_folder, from_name, left), (to_folder, to_name, moved))
        elif op.what == LINK:
            folder, name = self._find(op.path)
            self._change((*self._find(op.second), folder.seen[name]))
        elif op.what in (UNLINK, RMDIR):
            self._change((*self._find(op.path), None))
        elif op.what == MKDIR:
            self._change((*self._find(op.path), Folder()))
        elif op.what == SYNC_FILE:
            self.files[op.inode].sync()
        elif op.what == SYNC_FOLDER:
            self._settle(self._folder(op.path))
        elif op.what == SYNC_ALL:
            for file in self.files.values():
                file.sync()
            self._settle(None)
        elif op.what == MARK:
            self.marks += 1

    def _settle(self, folder: Folder | None) -> None:
        """Move the changes of names in `folder` (None: everywhere) to the device, with the changes that are atomic with
        them."""
        left = []
        for changes in self.pending:
            if folder is None or any(each[0] is folder for each in changes):
                _apply_synced(changes)
            else:
                left.append(changes)
        self.pending = left

    def cut(self, chance: random.Random) -> dict[str, bytes | None]:
        """One possible state after a power cut now: bytes of files by path, None for folders."""
        kept = self.pending
        if chance.random() < 0.6:  # as a journal does: in order
            kept = self.pending[: chance.randrange(len(self.pending) + 1)]
        elif chance.random() < 0.8:
            kept = [each for each in self.pending if chance.random() < 0.5]
        entries: dict[int, dict[str, File | Folder]] = {}

        def of(folder: Folder) -> dict[str, File | Folder]:
            return entries.setdefault(id(folder), dict(folder.synced))

        for changes in kept:
            for folder, name, to in changes:
                if to is None:
                    of(folder).pop(name, None)
                else:
                    of(folder)[name] = to
        out: dict[str, bytes | None] = {}
        content: dict[int, bytes] = {}

        def walk(folder: Folder, prefix: str) -> None:
            for name, found in of(folder).items():
                if isinstance(found, Folder):
                    out[prefix + name] = None
                    walk(found, f"{prefix}{name}/")
                else:
                    if id(found) not in content:
                        content[id(found)] = found.after_cut(chance)
                    out[prefix + name] = content[id(found)]

        walk(self.top, "")
        return out


def _apply_synced(changes: list[Change]) -> None:
    for folder, name, to in changes:
        if to is None:
            folder.synced.pop(name, None)
        else:
            folder.synced[name] = to


def write_tree(tree: dict[str, bytes | None], to: Path) -> None:
    for name, content in tree.items():
        path = to / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def cuts(
    before: Disk, log: list[Operation], count: int, seed: int
) -> Iterator[tuple[dict[str, bytes | None], int, int]]:
    """`count` states after power cuts at random moments: the state, the number of marks passed, and how often it
    occurred.

    A state that occurs again is not yielded again."""
    chance = random.Random(seed)
    moments = sorted(chance.randrange(len(log) + 1) for _ in range(count))
    found: dict[bytes, list[object]] = {}
    done = 0
    for moment in moments:
        while done < moment:
            before.apply(log[done])
            done += 1
        tree = before.cut(chance)
        key = hashlib.blake2b(str(before.marks).encode())
        for name, content in sorted(tree.items()):
            key.update(name.encode() + b"\0" + (b"/" if content is None else b"f" + len(content).to_bytes(8) + content))
        found.setdefault(key.digest(), [tree, before.marks, 0])[2] += 1  # type: ignore[operator]
    for tree, marks, times in found.values():
        yield tree, marks, times  # type: ignore[misc]


def count_damaged(
    script: str,
    folder: Path,
    prepare: Callable[[Path], None],
    check: Callable[[Path, int], str | None],
    *,
    count: int = 1000,
    seed: int = 0,
    most: int | None = None,
) -> tuple[int, str | None]:
    """Records `script` in a folder that `prepare` filled, and cuts the power `count` times. `check(folder, marks)`
    returns the error of a state, or None. Returns the number of damaged states, and the first error. Ends after `most`
    of them."""
    root, log = folder / "root", folder / "log"
    root.mkdir(parents=True)
    prepare(root)
    disk = Disk(root)
    run(script, root, log=log)
    operations = read_log(log)
    assert any(op.what == WRITE for op in operations), "nothing was recorded"
    damaged, first = 0, None
    for i, (tree, marks, times) in enumerate(cuts(disk, operations, count, seed)):
        # Each state is in a folder with another name, so that no file in it may refer to the old one.
        place = folder / f"cut-{i}"
        place.mkdir()
        write_tree(tree, place)
        wrong = check(place, marks)
        shutil.rmtree(place)
        if wrong is not None:
            damaged += times
            first = first or wrong
            if most is not None and damaged >= most:
                break
    return damaged, first
