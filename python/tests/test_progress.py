"""`progress=` of the functions that may take long: True shows a line, a function receives bytes and may stop them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.core.progress import Shares

VALUES = np.arange(64 * 48, dtype="<i4").reshape(64, 48)
PLACE = {"crs": 32633, "transform": (10.0, 0, 500000, 0, -10, 5000000)}
Work = Callable[[Path, Any], Any]


def _array(folder: Path) -> ps.Array:
    return ps.open_array(folder / "a.zarr")


def _scene(folder: Path) -> ps.Array:
    return ps.open_array(folder / "a.tif")


def _save_several(folder: Path, progress: Any) -> None:
    ps.save(folder / "several.zarr", a=VALUES, b=VALUES.astype("f8"), progress=progress)


def _levels(folder: Path, progress: Any) -> None:
    ps.create_levels(folder / "levels.zarr", data=VALUES, chunks=(16, 16), overwrite=True, progress=progress).close()


def _shards(folder: Path, progress: Any) -> None:
    ps.save_shards(VALUES, folder / "s_{}.npy", rows=10, progress=progress)


def _shards_of_array(folder: Path, progress: Any) -> None:
    ps.save_shards(_array(folder), folder / "t_{}.zarr", rows=10, progress=progress)


def _window(how: str) -> Work:
    def read(folder: Path, progress: Any) -> None:
        ps.read_window(_scene(folder), shape=(20, 20), resampling=how, progress=progress)

    return read


# Each with the verb of its line.
CASES: dict[str, tuple[str, Work]] = {
    "save": ("writing", lambda folder, p: ps.save(folder / "x.zarr", VALUES, progress=p)),
    "save an array": ("writing", lambda folder, p: ps.save(folder / "x.zarr", _array(folder), progress=p)),
    "save several": ("writing", _save_several),
    "save npy": ("writing", lambda folder, p: ps.save(folder / "x.npy", VALUES, progress=p)),
    "save npy of an array": ("writing", lambda folder, p: ps.save(folder / "x.npy", _array(folder), progress=p)),
    "save tiff": ("writing", lambda folder, p: ps.save(folder / "x.tif", VALUES, progress=p)),
    "save tiff of an array": ("writing", lambda folder, p: ps.save(folder / "x.tif", _array(folder), progress=p)),
    "save tiff in slices": ("writing", lambda folder, p: ps.save(folder / "x.tif", VALUES, dtype="i2", progress=p)),
    "load": ("reading", lambda folder, p: ps.load(folder / "a.zarr", progress=p)),
    "load a group": ("reading", lambda folder, p: ps.load(folder / "g.zarr", progress=p)),
    "create": ("writing", lambda folder, p: ps.create_array(folder / "y", data=VALUES, overwrite=True, progress=p)),
    "shards": ("writing", _shards),
    "shards of an array": ("writing", _shards_of_array),
    "save a group": (
        "copying a",
        lambda folder, p: ps.save(folder / "h.zarr", ps.open(folder / "one.zarr"), progress=p),
    ),
    "levels": ("writing", _levels),
    "tiles": ("reading", lambda folder, p: ps.load_tiles(_array(folder), ["cpu", "cpu", "cpu"], progress=p)),
    "nearest": ("reading", _window("nearest")),
    "average": ("reading", _window("average")),
}
EACH = pytest.mark.parametrize(("verb", "work"), CASES.values(), ids=CASES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ps.create_array(tmp_path / "a.zarr", data=VALUES, chunks=(16, 16))
    ps.save(tmp_path / "g.zarr", a=VALUES, b=VALUES.astype("f8"))
    ps.create_group(tmp_path / "g.zarr" / "inner")
    ps.save(tmp_path / "g.zarr", VALUES, "inner/c")
    ps.save(tmp_path / "one.zarr", a=VALUES)
    ps.save(tmp_path / "a.tif", VALUES, overviews=None, **PLACE)
    return tmp_path


@EACH
def test_a_function_receives_bytes_up_to_the_total(folder: Path, verb: str, work: Work) -> None:
    calls: list[tuple[int, int]] = []
    work(folder, lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert len({total for _, total in calls}) == 1, "the total changed"
    assert calls[-1][0] == calls[-1][1] > 0


@EACH
def test_true_shows_one_line(folder: Path, verb: str, work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    work(folder, True)
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert f"\r{verb} 100% of " in shown


@EACH
def test_other_values_are_refused(folder: Path, verb: str, work: Work) -> None:
    before = sorted(folder.iterdir())
    with pytest.raises(ps.InvalidArgumentError, match="progress must be True or a function"):
        work(folder, "yes")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("case", ["save npy of an array", "shards", "save tiff in slices", "levels", "average"])
def test_false_stops(folder: Path, case: str) -> None:
    with pytest.raises(ps.CancelledError):
        CASES[case][1](folder, lambda done, total: False)
    assert not (folder / "penstock.shards").exists()
    assert not (folder / "x.npy").exists()
    assert not (folder / "x.tif").exists()


def test_an_exception_of_the_function_is_raised(folder: Path) -> None:
    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    for case in ("save", "save tiff", "load", "nearest", "tiles", "shards"):
        with pytest.raises(ZeroDivisionError):
            CASES[case][1](folder, fail)


def test_an_exception_of_the_function_on_another_thread_is_raised(folder: Path) -> None:
    """A copy calls it on the threads that copy."""
    values = np.random.default_rng(0).random((2000, 2000))
    array = ps.create_array({}, data=values, chunks=(100, 100))

    def stop(*_: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ps.copy(array, folder / "copy.zarr", chunks=(200, 50), threads=4, progress=stop)
    assert (array[...] == values).all()


def test_the_bytes_are_those_of_the_values(folder: Path) -> None:
    def total(case: str) -> int:
        calls: list[int] = []
        CASES[case][1](folder, lambda done, total: calls.append(total))
        return calls[-1]

    size = VALUES.nbytes
    assert total("save several") == 3 * size
    assert total("load a group") == 4 * size
    assert total("shards") == size
    assert total("shards of an array") == total("save an array") == total("save npy of an array") == size


def test_results_are_the_same_with_progress(folder: Path) -> None:
    calls: list[int] = []
    found = ps.load(folder / "g.zarr", progress=lambda done, total: calls.append(done))
    assert np.array_equal(found["inner"]["c"], VALUES)
    tiles = ps.load_tiles(_array(folder), ["cpu", "cpu"], progress=lambda done, total: calls.append(done))
    assert np.array_equal(np.concatenate(tiles), VALUES)
    _levels(folder, lambda done, total: calls.append(done))
    assert np.array_equal(ps.open(folder / "levels.zarr", "0")[...], VALUES)
    _shards(folder, lambda done, total: calls.append(done))
    assert np.array_equal(ps.open_shards(folder / "penstock.shards")[...], VALUES)


def test_shares_add_up() -> None:
    calls: list[tuple[int, int]] = []
    shares = Shares(lambda done, total: calls.append((done, total)), "reading", 100)
    first = shares.share(40)
    assert first is not None
    first(1, 4)
    first(4, 4)
    shares.add(20)
    last = shares.share(40)
    assert last is not None
    last(0, 0)  # an operation without work
    assert calls == [(10, 100), (40, 100), (60, 100), (100, 100)]
    assert Shares(None, "reading", 100).share(1) is None
