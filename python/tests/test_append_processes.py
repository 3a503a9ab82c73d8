"""Appenders in several PID namespaces that are killed, stopped for longer than their lease, continued and restarted.

`make test-appends` (PENSTOCK_APPENDS=10000) runs the long version.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import penstock as ps
import pytest

PROGRAM = Path(__file__).parent / "programs" / "appender.py"
APPENDERS = 8
APPENDS = int(os.environ.get("PENSTOCK_APPENDS", "150"))
LEASE = 0.25


def _namespaces() -> bool:
    """Whether this process may make PID namespaces."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "true"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


class Appender:
    """A process that appends, in its own PID namespace if this process may create one."""

    def __init__(self, folder: Path, number: int, apart: bool) -> None:
        self.folder, self.number, self.apart = folder, number, apart
        self.starts = 0
        self.stopped_until = 0.0
        self.start()

    def start(self) -> None:
        """Start a process that appends numbers which no earlier process used."""
        self.starts += 1
        command = [sys.executable, str(PROGRAM), str(self.folder / "a.zarr"), str(self.folder / f"log{self.number}")]
        command += [str(self.number), str(self.starts)]
        if self.apart:
            command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *command]
        environment = {**os.environ, "PENSTOCK_APPEND_LEASE": str(LEASE)}
        self.process = subprocess.Popen(command, env=environment)

    def pid(self) -> int | None:
        """The PID of the process that appends, as seen from this namespace."""
        if not self.apart:
            return self.process.pid
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        except FileNotFoundError:
            return None
        return int(children[0]) if children else None

    def signal(self, what: signal.Signals) -> None:
        """Send a signal to the process that appends."""
        pid = self.pid()
        if pid is not None:
            os.kill(pid, what)

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self.signal(signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def _done(folder: Path) -> int:
    return sum(log.read_text().count("done ") for log in folder.glob("log*"))


def _disturb(appenders: list[Appender], folder: Path, chance: random.Random) -> Counter[str]:
    """Kill, stop, continue and restart until enough appends have returned."""
    seen: Counter[str] = Counter()
    end = time.monotonic() + 60 + APPENDS / 10
    while _done(folder) < APPENDS:
        assert time.monotonic() < end, f"{_done(folder)} appends only"
        now = time.monotonic()
        for each in appenders:
            if each.stopped_until and each.stopped_until < now:
                each.signal(signal.SIGCONT)
                each.stopped_until = 0
        one = chance.choice(appenders)
        if not one.stopped_until:
            if chance.random() < 0.5:
                one.signal(signal.SIGSTOP)
                one.stopped_until = now + chance.uniform(1.3, 4) * LEASE
                seen["stops"] += 1
            else:
                one.kill()
                one.start()
                seen["kills"] += 1
        time.sleep(chance.uniform(0.05, 0.4))
    return seen


def _blocks(values: np.ndarray) -> list[np.ndarray]:
    """The blocks of rows, split at the rows that begin a block."""
    starts = np.flatnonzero((values[:, 0] != 0) & (np.r_[0, values[:-1, 0]] != values[:, 0]))
    assert len(starts) == 0 or starts[0] == 0
    return np.split(values, starts[1:])


@pytest.mark.skipif(sys.platform != "linux", reason="PID namespaces are Linux's")
@pytest.mark.parametrize("shards", [None, (64, 3)], ids=["chunks", "shards"])
def test_appenders_of_several_containers_lose_nothing(tmp_path: Path, shards: tuple[int, int] | None) -> None:
    """Every append that returned is present once and whole; a killed one is present as a whole or not at all."""
    apart = _namespaces()
    if not apart and APPENDS >= 1000:
        pytest.skip("PID namespaces need root")
    ps.create_array(tmp_path / "a.zarr", shape=(0, 3), dtype="i8", chunks=(16, 3), shards=shards)
    chance = random.Random(7)
    appenders = [Appender(tmp_path, number, apart) for number in range(APPENDERS)]
    try:
        seen = _disturb(appenders, tmp_path, chance)
    finally:
        for each in appenders:
            each.kill()
    begun: dict[int, tuple[int, bool]] = {}
    done, failed, why = set(), set(), Counter()
    for log in tmp_path.glob("log*"):
        for line in log.read_text().splitlines():
            what, block, *rest = line.split(" ", 3)
            if what == "begin":
                begun[int(block)] = (int(rest[0]), rest[1] == "1")
            elif what == "done":
                done.add(int(block))
            else:
                failed.add(int(block))
                why[" ".join(rest)] += 1
    # After the claim of a killed appender is taken over, growing the array exposes none of its rows.
    array = ps.open(tmp_path / "a.zarr")
    array.append(np.full((1, 3), -1, "i8"))
    rows = array.shape[0]
    array.resize((rows + 500, 3))
    assert not array[rows:].any()
    values = array[: rows - 1]
    assert array[rows - 1].tolist() == [-1] * 3
    there: Counter[int] = Counter()
    for block in _blocks(values):
        number = int(block[0, 0])
        there[number] += 1
        length, full = begun[number]
        wanted = np.zeros((length, 3), "i8")
        wanted[0, 0] = number
        if full:
            wanted[:] = number
        np.testing.assert_array_equal(block, wanted)
    assert all(count == 1 for count in there.values())
    assert done <= set(there), f"{len(done - set(there))} of {len(done)} appends that returned are lost"
    assert not failed & set(there), "rows of a failed append exist"
    print(
        f"namespaces: {apart}, appends: {len(done)}, failed: {dict(why)}, {dict(seen)}, whole at a kill: "
        f"{len(set(there) - done)}"
    )
