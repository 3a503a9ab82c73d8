"""Tiles by processor."""

from __future__ import annotations

import numpy as np
import penstock as ps
import pytest
from hypothesis import given
from hypothesis import strategies as st


@given(
    shape=st.lists(st.integers(0, 40), min_size=1, max_size=3),
    processors=st.integers(1, 50),
    each=st.integers(1, 4),
    data=st.data(),
)
def test_tiles_cover_every_element_once(shape: list[int], processors: int, each: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    made = ps.tiles(shape, processors, axis=axis, over_decompose=each)
    seen = np.zeros(shape, int)
    for tile in made:
        seen[tile] += 1
    assert (seen == 1).all()
    assert 1 <= len(made) <= processors * each
    lengths = [tile[axis].stop - tile[axis].start for tile in made]
    assert all(length == lengths[0] for length in lengths[:-1])
    assert 0 <= lengths[-1] <= lengths[0]
    if shape[axis]:
        assert lengths[0] == -(-shape[axis] // (processors * each))
        assert lengths[-1] > 0  # a task always has work
    assert [tile[axis].start for tile in made] == [i * lengths[0] for i in range(len(made))]


def test_more_processors_than_rows_are_one_row_each() -> None:
    assert ps.tiles((3, 2), 5) == [(slice(i, i + 1), slice(0, 2)) for i in range(3)]


def test_the_last_tile_is_short() -> None:
    assert [tile[0] for tile in ps.tiles((10,), 4)] == [slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 10)]


@pytest.mark.parametrize(
    "arguments", [((), 1), ((3,), 0), ((3,), 1, 1), ((3,), 1, -2), ((3,), 1, 0, 0), ((-1,), 1)], ids=str
)
def test_invalid_tiles_are_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(ps.InvalidArgumentError):
        ps.tiles(*arguments)  # type: ignore[arg-type]


def test_tiles_on_the_host_and_invalid_devices() -> None:
    a = ps.create_array({}, shape=(5, 3), dtype="i4", chunks=(2, 3))
    a[...] = values = np.arange(15).reshape(5, 3)
    parts = ps.load_tiles(a, ["cpu", "cpu"])
    assert [part.shape for part in parts] == [(3, 3), (2, 3)]
    np.testing.assert_array_equal(np.concatenate(parts), values)
    np.testing.assert_array_equal(np.concatenate(ps.load_tiles(a, ["cpu"] * 7, axis=1), axis=1), values)
    for devices in ("cuda:0", [], ["cuda"], ["gpu:0"]):
        with pytest.raises(ps.InvalidArgumentError, match="device"):
            ps.load_tiles(a, devices)
    scalar = ps.create_array({}, shape=(), dtype="i4", chunks=())
    with pytest.raises(ps.InvalidArgumentError, match="no tiles"):
        ps.load_tiles(scalar, ["cpu"])
