"""Threads that share one Array or Group while it grows or its attributes change."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from penstock import _core

ROUNDS = 150


def together(*work: Callable[[], object]) -> None:
    """Run each function in its own thread; raise an exception that one of them raises."""
    failed: list[BaseException] = []
    begin = threading.Barrier(len(work))

    def run(each: Callable[[], object]) -> None:
        begin.wait()
        try:
            each()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_an_array_is_read_while_it_grows_and_gets_attributes(tmp_path: Path) -> None:
    a = ps.create_array(tmp_path / "a.zarr", shape=(0, 16), chunks=(4, 16), dtype="i4")
    done = threading.Event()

    def grow() -> None:
        try:
            for i in range(ROUNDS):
                a.append(np.full((2, 16), i, dtype="i4"))
        finally:
            done.set()

    def describe() -> None:
        while not done.is_set():
            a.attrs["seen"] = a.shape[0]

    def read() -> None:
        reads = 0
        while not done.is_set() or not reads:
            rows = a[...]
            assert (rows == (np.arange(len(rows)) // 2)[:, None]).all()
            assert a.chunks == (4, 16)
            assert len(a) >= len(rows)
            assert "seen" not in a.attrs or a.attrs["seen"] <= len(a)
            part = a[: len(rows) : 3, 2:4]
            assert (part == rows[::3, 2:4]).all()
            reads += 1

    together(grow, describe, read, read, read)
    np.testing.assert_array_equal(
        ps.open(tmp_path / "a.zarr")[...], np.repeat(np.arange(ROUNDS), 2)[:, None].repeat(16, 1)
    )


def test_an_array_is_written_in_parts_by_threads(tmp_path: Path) -> None:
    a = ps.create_array(tmp_path / "a.zarr", shape=(8 * ROUNDS,), chunks=(8,), dtype="i8")

    def write(first: int) -> Callable[[], None]:
        def run() -> None:
            for i in range(first, ROUNDS, 4):
                a[8 * i : 8 * i + 8] = np.arange(8 * i, 8 * i + 8)

        return run

    together(*(write(first) for first in range(4)))
    np.testing.assert_array_equal(a[...], np.arange(8 * ROUNDS))


def test_a_group_is_used_while_it_gets_members_and_attributes(tmp_path: Path) -> None:
    g = ps.create_group(tmp_path / "g.zarr")
    done = threading.Event()

    def fill() -> None:
        try:
            for i in range(ROUNDS // 3):
                g.create_array(f"x{i}", data=np.full(3, i))
                g.attrs["members"] = i
        finally:
            done.set()

    def look() -> None:
        while not done.is_set():
            for name in list(g.keys()):
                assert set(g[name][...]) <= {0, int(name[1:])}  # a new array shows zeros before its values are written
            assert g.attrs.get("members", 0) < ROUNDS

    together(fill, look, look)
    assert len(list(g.keys())) == ROUNDS // 3


def test_an_appender_accepts_rows_of_several_threads(tmp_path: Path) -> None:
    a = ps.create_array(tmp_path / "a.zarr", shape=(0,), chunks=(16,), dtype="i4")
    with a.appender() as rows:
        together(*(lambda i=i: [rows.append(np.full(2, i, dtype="i4")) for _ in range(ROUNDS)] for i in range(4)))
    counts = np.bincount(a[...], minlength=4)
    assert counts.tolist() == [2 * ROUNDS] * 4


def test_a_shard_writer_is_looked_at_while_threads_write(tmp_path: Path) -> None:
    done = threading.Event()

    def write() -> None:
        try:
            for i in range(ROUNDS):
                w.write(np.full(2, i))
        finally:
            done.set()

    def look() -> None:
        while not done.is_set():
            assert all(Path(each).exists() for each in w.paths)
            assert "written" in repr(w)

    with ps.Context(sync="none"), ps.ShardWriter(tmp_path / "x_{:05d}.npy") as w:
        together(write, write, look)
    assert w.paths == sorted(map(str, tmp_path.glob("x_*.npy")))
    assert len(w.paths) == 2 * ROUNDS


def test_threads_create_objects_of_one_dtype() -> None:
    def make() -> None:
        for _ in range(ROUNDS):
            for dtype in ("i2", "f4", "c8", "M8[s]"):
                assert ps.create_array({}, shape=(2,), dtype=dtype).dtype == np.dtype(dtype)

    together(make, make, make, make)


def test_values_of_a_dict_are_replaced_and_read_by_several_threads() -> None:
    values: dict[str, bytes] = {}
    stores = [_core.dict_store(values) for _ in range(4)]  # each array of a dict has a store of its own

    def count(store: _core.Store) -> None:
        for _ in range(ROUNDS):
            store.swap("count", lambda old: b"%08d" % (int(old or 0) + 1))

    def look(store: _core.Store) -> None:
        for _ in range(10 * ROUNDS):
            assert len(store.get("count") or bytes(8)) == 8

    together(*(lambda store=store: count(store) for store in stores), lambda: look(stores[0]))
    assert int(values["count"]) == len(stores) * ROUNDS


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="needs Python 3.13, which may have no GIL")
def test_the_module_does_not_change_whether_the_gil_is_enabled() -> None:
    import sysconfig

    assert sys._is_gil_enabled() == (not sysconfig.get_config_var("Py_GIL_DISABLED"))
