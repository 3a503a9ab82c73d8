"""Appends, resizes and writes through older views together: committed rows stay, uncommitted rows never show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix

Make = Callable[[Path], Any]

STORES: dict[str, Make] = {
    "files": lambda folder: folder / "a.zarr",
    "zip": lambda folder: folder / "a.zip",
    "dict": lambda folder: {},
}
# name -> (keywords of create_array, path in the store)
LAYOUTS: dict[str, tuple[dict[str, Any], str | None]] = {
    "chunks": ({"chunks": (10, 4)}, None),
    "shards": ({"chunks": (10, 4), "shards": (40, 8)}, None),
    "small chunks": ({"chunks": (3, 5), "shards": (30, 10)}, None),
    "v2": ({"chunks": (10, 4), "zarr_format": 2}, None),
    "in a group": ({"chunks": (10, 4)}, "g/a"),
    "one chunk": ({"chunks": (1000, 10)}, None),
}
ROWS, COLUMNS = 107, 10


def _create(folder: Path, store: str, layout: str, rows: int = ROWS) -> tuple[Any, Any, np.ndarray]:
    where = STORES[store](folder)
    options, path = LAYOUTS[layout]
    values = np.arange(rows * COLUMNS, dtype="i4").reshape(rows, COLUMNS) + 1
    made: dict[str, Any] = {"shape": values.shape, "dtype": "i4", **options}
    if path is None:
        array = ps.create_array(where, **made)
    else:
        ps.create_group(where)
        array = ps.create_array(where, path=path, **made)
    array[...] = values
    return where, path, values


def _open(where: Any, path: str | None) -> Any:
    return ps.open(where, path=path) if path else ps.open(where)


def _basic(array: Any, values: np.ndarray) -> None:
    array[100:ROWS] = values[100:ROWS] = 5


def _whole(array: Any, values: np.ndarray) -> None:
    array[...] = values[:ROWS] = 5


def _fill(array: Any, values: np.ndarray) -> None:
    array[90:ROWS] = values[90:ROWS] = 0


def _whole_fill(array: Any, values: np.ndarray) -> None:
    array[...] = values[:ROWS] = 0


def _oindex(array: Any, values: np.ndarray) -> None:
    rows = list(range(98, ROWS))
    array.oindex[rows] = values[rows] = 6


def _points(array: Any, values: np.ndarray) -> None:
    array.vindex[[ROWS - 1, 3], [2, 9]] = values[[ROWS - 1, 3], [2, 9]] = 8


def _mask(array: Any, values: np.ndarray) -> None:
    mask = np.zeros((ROWS, COLUMNS), bool)
    mask[100:] = True
    array.set_mask_selection(mask, 9)
    values[:ROWS][mask] = 9


WRITES = [_basic, _whole, _fill, _whole_fill, _oindex, _points, _mask]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_write_of_an_older_view_keeps_appended_rows(tmp_path: Path, store: str, layout: str, axis: int) -> None:
    """3 stores x 6 layouts x 2 axes x 7 kinds of write: 252 cases."""
    where, path, values = _create(tmp_path, store, layout)
    for k, write in enumerate(WRITES):
        older = _open(where, path)
        whole = np.array(_open(where, path)[...])
        if k == 0:
            more = np.full((493, COLUMNS) if axis == 0 else (ROWS, 23), 7, "i4")
            _open(where, path).append(more, axis=axis)
            whole = np.concatenate([values, more], axis)
            view = older
        part = whole if axis == 0 else whole[:, :COLUMNS]
        write(view, part)
        assert view.shape == (ROWS, COLUMNS)
        np.testing.assert_array_equal(_open(where, path)[...], whole, err_msg=write.__name__)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_appended_to_an_edge_that_was_erased_are_kept(tmp_path: Path, store: str, layout: str) -> None:
    """The older view writes to an edge that has no object, before and after an append creates one."""
    where, path, values = _create(tmp_path, store, layout)
    older = _open(where, path)
    older[...] = 0
    values[...] = 0
    _open(where, path).append(np.full((2, COLUMNS), 3, "i4"))
    older[100:] = 4
    values[100:] = 4
    wanted = np.concatenate([values, np.full((2, COLUMNS), 3, "i4")])
    np.testing.assert_array_equal(_open(where, path)[...], wanted)


def _metadata_key(where: Any, path: str | None, layout: str) -> str:
    prefix = f"{path}/" if path else ""
    return prefix + (".zarray" if layout == "v2" else "zarr.json")


def _get(where: Any, key: str) -> bytes:
    return bytes(where[key]) if isinstance(where, dict) else (where / key).read_bytes()


def _put(where: Any, key: str, value: bytes) -> None:
    if isinstance(where, dict):
        where[key] = value
    else:
        (where / key).write_bytes(value)


def _kill_an_append(where: Any, path: str | None, layout: str, rows: int, axis: int = 0) -> None:
    """Make the state after an append whose process was killed just before it put the metadata."""
    key = _metadata_key(where, path, layout)
    before = _get(where, key)
    array = _open(where, path)
    shape = list(array.shape)
    shape[axis] = rows
    array.append(np.full(shape, 66, "i4"), axis=axis)
    _put(where, key, before)
    # The claim of a process of another boot, which is not renewed.
    claim = f"penstock-append 2 {'0' * 32} 50 {1 << axis:x} another-boot/pid:[1] 12 0\n"
    _put(where, (f"{path}/" if path else "") + ".penstock-append", claim.encode())


def _wanted(values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    out = np.zeros(shape, values.dtype)
    both = tuple(slice(0, min(a, b)) for a, b in zip(values.shape, shape, strict=True))
    out[both] = values[both]
    return out


@matrix
@pytest.mark.parametrize("store", ["files", "dict"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("killed", [2, 200])
def test_no_value_of_a_killed_append_shows(tmp_path: Path, store: str, layout: str, axis: int, killed: int) -> None:
    """2 stores x 6 layouts x 2 axes x 2 lengths; grown by resize, by zeros, by rows, in both orders: 48 x 5 cases."""
    steps: list[list[tuple[str, int]]] = [
        [("resize", 300)],
        [("zeros", 300)],
        [("zeros", 1), ("resize", 200)],
        [("rows", 1), ("zeros", 40), ("resize", 90)],
        [("resize", 1), ("zeros", 1), ("resize", 77), ("rows", 3)],
    ]
    for k, each in enumerate(steps):
        folder = tmp_path / str(k)
        folder.mkdir()
        where, path, values = _create(folder, store, layout)
        _kill_an_append(where, path, layout, killed, axis)
        array = _open(where, path)
        for what, count in each:
            shape = list(values.shape)
            if what == "resize":
                shape[axis] += count
                array.resize(shape)
                values = _wanted(values, (shape[0], shape[1]))
            else:
                shape[axis] = count
                rows = np.full(shape, 0 if what == "zeros" else 4, "i4")
                array.append(rows, axis=axis)
                values = np.concatenate([values, rows], axis)
            np.testing.assert_array_equal(array[...], values, err_msg=f"{each}: {what} {count}")
        np.testing.assert_array_equal(_open(where, path)[...], values)
        left = where if isinstance(where, dict) else [p.name for p in where.rglob("*")]
        assert not [key for key in left if key.endswith(".penstock-append")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_append_that_fails_leaves_nothing(tmp_path: Path, layout: str) -> None:
    """If a write is cancelled after its first chunks, none of them shows when the array grows later."""
    where, path, values = _create(tmp_path, "dict", layout)
    array = _open(where, path)
    calls = 0

    def progress(done: int, _: int) -> bool:
        nonlocal calls
        calls += 1
        return done == 0

    try:
        array.append(np.full((400, COLUMNS), 66, "i4"), threads=1, progress=progress)
    except ps.CancelledError:
        array.resize((900, COLUMNS))
        np.testing.assert_array_equal(array[...], _wanted(values, (900, COLUMNS)))
    assert calls
    assert not [key for key in where if key.endswith(".penstock-append")]


def test_an_array_that_grows_a_lot_is_not_probed_key_by_key(tmp_path: Path) -> None:
    """From 10 chunks to 10^9; a chunk that an old append left in between is erased."""
    wheres: list[Any] = [{}, tmp_path / "a.zarr"]
    for where in wheres:
        array = ps.create_array(where, shape=10, dtype="i4", chunks=1)
        array[...] = 3
        stale = array.shape[0] + 123_456_789
        _put_chunk(where, stale)
        array.resize(10**9)
        assert array[stale] == 0
        assert array[:10].tolist() == [3] * 10
        assert not array[stale - 3 : stale + 3].any()


def _put_chunk(where: Any, number: int) -> None:
    if isinstance(where, dict):
        where[f"c/{number}"] = where["c/1"]
    else:
        (where / "c" / str(number)).write_bytes((where / "c" / "1").read_bytes())


def test_a_damaged_edge_is_repaired_by_writing_it(tmp_path: Path) -> None:
    """Unless another writer has appended: then the damaged chunks contain its rows, and the write is an error."""
    where, path, values = _create(tmp_path, "dict", "chunks")
    array = _open(where, path)
    edge = [key for key in where if key.startswith("c/10/")]
    for key in edge:
        where[key] = b"damaged"
    array[...] = values
    np.testing.assert_array_equal(_open(where, path)[...], values)
    _open(where, path).append(np.full((1, COLUMNS), 3, "i4"))
    for key in edge:
        where[key] = b"damaged"
    with pytest.raises(ps.CorruptDataError):
        array[...] = values


@pytest.mark.parametrize("text", ["0", "-1", "601", "soon", "nan", "0.01", "1s"])
def test_an_invalid_lease_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The error names the variable, and the array is as it was."""
    store: dict[str, bytes] = {}
    array = ps.create_array(store, shape=3, dtype="i4", chunks=2)
    before = dict(store)
    monkeypatch.setenv("PENSTOCK_APPEND_LEASE", text)
    with pytest.raises(ps.InvalidArgumentError, match="PENSTOCK_APPEND_LEASE must be"):
        array.append(np.ones(2, "i4"))
    assert store == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "here 12 0\n",
        "penstock-append 2",
        "penstock-append 2 a b c d e f\n",
        f"penstock-append 2 t {2**70} 1 s 1 0",
    ],
)
def test_a_claim_of_another_program_is_waited_for(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A claim that is not understood has the default lease: the appender waits for its end, then takes it over."""
    store: dict[str, bytes] = {}
    array = ps.create_array(store, shape=3, dtype="i4", chunks=2)
    store[".penstock-append"] = text.encode()
    calls = 0

    def read(*_: Any) -> bool:
        nonlocal calls
        calls += 1
        return True

    # The claim is released meanwhile, so that the append does not wait for the lease.
    import threading

    timer = threading.Timer(0.2, lambda: store.pop(".penstock-append"))
    timer.start()
    array.append(np.ones(2, "i4"), progress=read)
    timer.join()
    assert array[...].tolist() == [0, 0, 0, 1, 1]
    assert json.loads(store["zarr.json"])["shape"] == [5]


def test_a_selection_is_that_of_the_array_at_the_time_of_the_call() -> None:
    """The code of a value or an index that resizes the array meanwhile."""

    def made(rows: int) -> ps.Array:
        values = np.arange(rows * 100).reshape(rows, 100)
        return ps.create_array({}, data=values, chunks=(10, 10))

    class Value:
        def __init__(self, of: ps.Array, shape: tuple[int, ...]) -> None:
            self.of, self.shape = of, shape

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            self.of.resize(self.shape)
            return np.full((100, 100), 7)

    for shape in ((100, 30), (7, 100), (200, 200)):
        a = made(100)
        a[...] = Value(a, shape)
        assert a.shape == shape
        assert (a[:100, :100] == 7).all()

    class Row:
        def __init__(self, of: ps.Array, rows: int, row: int) -> None:
            self.of, self.rows, self.row = of, rows, row

        def __index__(self) -> int:
            self.of.resize((self.rows, 100))
            return self.row

    a = made(10)
    a.write_async((Row(a, 100, 95), 3), 7).wait()
    assert a.read_async((Row(a, 200, 95), 3)).wait() == 7
    assert a[Row(a, 300, 95), 3] == 7
    with pytest.raises(IndexError):
        a.read_async((Row(a, 20, 95), 3))
