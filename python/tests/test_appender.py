"""Rows appended in the background: what is stored, what the caller waits for, and what remains after a kill."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import penstock as ps
import pytest
import zarr

KILLS = int(os.environ.get("PENSTOCK_APPENDER_KILLS", "3"))

DTYPES = ["?", "i1", "<u2", ">i4", "<u8", "<f2", ">f8", "<c8", "<M8[ms]", "<m8[s]", "<U5", "S3", "V4", "bfloat16"]


class Store(MutableMapping[str, bytes]):
    """A custom store in Python that can wait and fail, and that counts puts."""

    def __init__(self) -> None:
        self.values_: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.opened = threading.Event()
        self.opened.set()
        self.refused = ""

    def __getitem__(self, key: str) -> bytes:
        return self.values_[key]

    def __setitem__(self, key: str, value: bytes) -> None:
        if key.startswith("c/"):
            self.opened.wait()
        if self.refused and key.startswith(self.refused):
            raise OSError(28, "No space left on device")
        self.values_[key] = bytes(value)
        self.puts.append(key)

    def __delitem__(self, key: str) -> None:
        del self.values_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


def values_of(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if dtype == "bfloat16":
        return rng.integers(0, 100, shape).astype(ml_dtypes.bfloat16)
    kind = np.dtype(dtype).kind
    if kind == "U":
        return rng.choice(np.array(["", "a", "ünï", "abcde"], dtype), shape)
    raw = rng.integers(0, 2 if kind == "b" else 100, shape)
    return raw.astype("S3").astype("S4").view("V4").astype(dtype) if kind == "V" else raw.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zarr_python_reads_the_appended_rows(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for number, (version, shards, axis) in enumerate([(2, None, 0), (3, None, 1), (3, 6, 0)]):
        where = tmp_path / f"{number}.zarr"
        shape = (4, 5)
        a = ps.create_array(
            where, shape=shape, dtype=dtype, chunks=(3, 5), shards=shards and (shards, 5), zarr_format=version
        )
        wanted = values_of(dtype, shape, rng)
        a[...] = wanted
        with a.appender(axis, publish_interval=rng.choice([0, 0.002, 1])) as w:
            for _ in range(20):
                grown = list(shape)
                grown[axis] = int(rng.integers(0, 5))
                rows = values_of(dtype, tuple(grown), rng)
                wanted = np.concatenate([wanted, rows], axis)
                w.append(rows)
                if rows.dtype.kind in "iuf":
                    rows[...] = 0  # the appender has copied it
                if rng.integers(0, 8) == 0:
                    w.flush()
                    assert w.held == 0
                    assert a.shape == wanted.shape
        assert a.shape == wanted.shape
        assert np.asarray(a[...]).astype(wanted.dtype).tobytes() == wanted.tobytes()
        if dtype not in ("bfloat16", "<m8[s]"):
            theirs = zarr.open_array(str(where), mode="r")[...]
            assert np.asarray(theirs).astype(wanted.dtype).tobytes() == wanted.tobytes()
        assert not [name for name in os.listdir(where) if name.startswith(".penstock")]


@pytest.mark.parametrize("kind", ["string", "bytes", "text2"])
def test_elements_of_variable_length(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    if kind == "text2":
        zarr.create_array(str(tmp_path / "a"), shape=(0, 2), chunks=(4, 2), dtype="str", zarr_format=2, fill_value="")
        a = ps.open(tmp_path / "a", mode="r+")
    else:
        name = "string" if kind == "string" else "variable_length_bytes"
        a = ps.create_array(tmp_path / "a", shape=(0, 2), dtype=name, chunks=(4, 2))
    wanted: list[Any] = []
    with a.appender(queue=200) as w:
        for i in range(60):
            texts = ["x" * int(n) for n in rng.integers(0, 40, 2)]
            row = [text.encode() for text in texts] if kind == "bytes" else texts
            w.append(np.array([row], object) if i % 2 else [row])
            wanted.append(row)
    assert np.asarray(a[...], object).tolist() == wanted


def test_each_chunk_is_put_once_and_only_a_full_queue_waits() -> None:
    store = Store()
    a = ps.create_array(store, shape=(0, 256), dtype="i4", chunks=(8, 256))
    store.puts.clear()
    store.opened.clear()
    w = a.appender(queue="64KiB", publish_interval=60)
    rows = np.arange(56 * 256, dtype="i4").reshape(56, 256)
    for row in rows:
        w.append(row[None])  # returns although no put has finished
    assert not store.puts
    waiting = threading.Thread(target=lambda: w.append(rows))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    store.opened.set()
    waiting.join()
    w.close()
    w.close()
    assert w.closed
    np.testing.assert_array_equal(a[...], np.concatenate([rows, rows]))
    chunks = [key for key in store.puts if key.startswith("c/")]
    assert sorted(chunks) == sorted({f"c/{i}/0" for i in range(14)})
    assert store.puts.count("zarr.json") == 1
    assert store.puts[-1] == "zarr.json"
    with pytest.raises(ps.InvalidArgumentError, match="closed"):
        w.append(rows)


def test_errors_are_raised_once_and_named() -> None:
    store = Store()
    a = ps.create_array(store, shape=(0, 4), dtype="i4", chunks=(2, 4))
    w = a.appender()
    rows = np.arange(28, dtype="i4").reshape(7, 4)
    store.refused = "c/1/"
    w.append(rows)
    with pytest.raises(OSError, match="No space left") as failed:
        w.flush()
    text = str(failed.value)
    for part in ["c/1/0", "of 7 appended rows are not stored", "array '"]:
        assert part in text
    assert ps.open(store).shape[0] <= 2
    store.refused = ""
    w.flush()
    np.testing.assert_array_equal(a[...], rows)
    store.refused = "c/"
    w.append(rows)
    with pytest.raises(OSError, match="No space left"):
        w.close()
    w.close()
    assert a.shape == (7, 4)
    with pytest.raises(OSError, match="No space left"), a.appender() as again:
        again.append(rows)


def test_invalid_arguments_and_arrays_raise(tmp_path: Path) -> None:
    a = ps.create_array(tmp_path / "a", shape=(4, 3), dtype="f4", chunks=(2, 3))
    for axis in (2, -3):
        with pytest.raises(IndexError, match="out of bounds"):
            a.appender(axis)
    for options in ({"queue": 0}, {"queue": "much"}, {"threads": 0}, {"publish_interval": -1}):
        with pytest.raises(ps.InvalidArgumentError, match=next(iter(options))):
            a.appender(**options)
    with pytest.raises(ps.ReadOnlyError):
        ps.open(tmp_path / "a", mode="r").appender()
    if os.geteuid() != 0:
        (tmp_path / "a").chmod(0o555)
        with pytest.raises(ps.PermissionDeniedError):
            a.appender()
        (tmp_path / "a").chmod(0o755)
    with a.appender() as w:
        for bad in (np.zeros((2, 4), "f4"), np.zeros(3, "f4"), np.zeros((2, 3, 1), "f4")):
            with pytest.raises(ps.InvalidArgumentError, match="cannot be appended"):
                w.append(bad)
        w.append([[1, 2, 3]])
        assert w.rows == 1
        assert "1 row," in repr(w)
    assert a.shape == (5, 3)


END = """
import sys, numpy as np, penstock as ps
w = ps.open(sys.argv[1], mode="r+").appender()
w.append(np.full((5, 3), 7, "i4"))
if sys.argv[2] == "fork":
    import os
    child = os.fork()
    if child == 0:
        try:
            w.append(np.full((5, 3), 8, "i4"))
        except ps.UnsupportedError:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""


@pytest.mark.parametrize("how", ["end", "fork"])
def test_a_program_that_ends_stores_its_rows(how: str, tmp_path: Path) -> None:
    ps.create_array(tmp_path / "a", shape=(0, 3), dtype="i4", chunks=(2, 3))
    done = subprocess.run([sys.executable, "-c", END, str(tmp_path / "a"), how], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ps.open(tmp_path / "a")[...].tolist() == [[7] * 3] * 5


WRITER = """
import sys, numpy as np, penstock as ps
a = ps.open(sys.argv[1], mode="r+")
row = a.shape[0]
with a.appender(queue="256KiB", publish_interval=0.003) as w:
    print("ready", flush=True)
    rng = np.random.default_rng(row)
    while True:
        count = int(rng.integers(1, 9))
        w.append(np.repeat(np.arange(row, row + count, dtype="i8")[:, None], 100, 1))
        row += count
        if rng.integers(0, 200) == 0:
            w.flush()
            print(row, flush=True)
"""


@pytest.mark.parametrize("shards", [None, (16, 100)])
def test_a_killed_process_leaves_whole_rows(shards: tuple[int, int] | None, tmp_path: Path) -> None:
    """All rows for which `flush` returned are present and undamaged; the next appender continues after them."""
    where = tmp_path / "a"
    ps.create_array(where, shape=(0, 100), dtype="i8", chunks=(4, 100), shards=shards)
    chance = random.Random(shards is None)
    for kill in range(KILLS):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(where)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            # On a busy machine it may happen that none of the others reaches its first flush.
            first = writer.stdout.readline() if kill == KILLS - 1 else ""
            time.sleep(chance.random() * 0.15)
            writer.send_signal(signal.SIGKILL)
            flushed = [int(line) for line in (first + writer.stdout.read()).split("\n")[:-1]]
        a = ps.open(where, mode="r+")
        assert a.shape[0] >= max(flushed, default=0)
        np.testing.assert_array_equal(a[...], np.repeat(np.arange(a.shape[0])[:, None], 100, 1))
        # Rows beyond the committed shape are not exposed when the array grows.
        before = a.shape[0]
        a.resize((before + 40, 100))
        assert not a[before:].any()
        a.resize((before, 100))
    assert a.shape[0] > 0


def test_small_appends_of_long_texts_do_not_wait_with_the_gil() -> None:
    """A custom store in Python needs the GIL, which an append of few items holds while it copies them."""
    a = ps.create_array(Store(), shape=(0, 4), dtype="string", chunks=(2, 4))
    rows = np.full((40, 4), "x" * 2000, object)
    with a.appender(queue="16KiB") as w:
        for _ in range(5):
            w.append(rows)
    assert a.shape == (200, 4)
    assert len(a[-1, -1]) == 2000
