"""`ps.batches`: each dtype, selection and source; samples that fail; how far it reads ahead."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import penstock as ps
import pytest

DTYPES = ["?", "u1", "<i2", ">i4", "f2", "f8", "c8", "<M8[s]", "m8[D]", "S3", "U4", "V5", [("a", "<i4"), ("b", "u1")]]
SELECTIONS: dict[str, list[Any]] = {
    "boxes": [np.s_[i : i + 2, 3:9] for i in range(7)],
    "steps": [np.s_[i : i + 4 : 2, ::-3] for i in range(5)],
    "rows": list(range(-3, 4)),
    "items": [(i, 2) for i in range(5)],
    "new axes": [np.s_[i, None, 1:4] for i in range(5)],
    "lists": [ps.oindex[[i, 9 - i], [5, 0, 5]] for i in range(5)],
    "points": [ps.vindex[[i, 2, 3], [1, i, 0]] for i in range(5)],
    "both": [np.s_[1:3, 0:2], ps.oindex[[4, 0], [1, 1]], np.s_[7:9, 4:6]],
}


def _values(dtype: Any) -> np.ndarray:
    made = np.dtype(dtype)
    if made.kind in "U":
        return np.array([f"{i:x}"[:4] for i in range(120)], made).reshape(10, 12)
    raw = np.random.default_rng(0).integers(0, 2 if made.kind == "b" else 100, 120 * made.itemsize, dtype="u1")
    return np.frombuffer(raw.tobytes(), made).reshape(10, 12)


def _picked(values: np.ndarray, key: Any) -> np.ndarray:
    """NumPy's result for a selection, with which Penstock's own shapes are compared."""
    return (
        ps.create_array({}, data=values, chunks=(4, 5))[key]
        if not isinstance(key, tuple | int | slice)
        else values[key]
    )


@pytest.mark.parametrize("how", SELECTIONS)
@pytest.mark.parametrize("depth", [0, 3])
def test_batches_of_each_type_are_the_crops(how, depth):
    crops = SELECTIONS[how]
    for dtype in DTYPES:
        values = _values(dtype)
        a = ps.create_array({}, data=values, chunks=(4, 5))
        got = [each.numpy() for each in ps.batches(a, iter(crops), batch_size=2, depth=depth)]
        assert [len(each) for each in got] == [2] * (len(crops) // 2) + [1] * (len(crops) % 2)
        assert all(each.dtype == a.dtype for each in got)
        for each, crop in zip(itertools.chain(*got), crops, strict=True):
            np.testing.assert_array_equal(each, _picked(values, crop))


def test_text_is_read_in_batches():
    values = np.array([["", "a", "a longer word that takes bytes of its own"], ["b", "\u00fc", "c"]], object)
    a = ps.create_array({}, data=values, dtype=str, chunks=(1, 2))
    first, second = ps.batches(a, [0, 1, 1], batch_size=2)
    assert first.numpy().tolist() == values.tolist()
    assert second.numpy().tolist() == [values[1].tolist()]


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("drop_last", [True, False])
def test_arrays_of_several_types_are_converted_as_numpy_does(depth, drop_last):
    types = ["u1", "<i4", "f4", "f2", "?", ">i2"]
    values = [_values(each) for each in types]
    arrays = [ps.create_array({}, data=each, chunks=(4, 5)) for each in values]
    samples = [(i % len(arrays), np.s_[i % 7 : i % 7 + 3, 2:6]) for i in range(20)]
    for dtype in ("f8", "f4", "bfloat16"):
        got = list(ps.batches(arrays, samples, 3, dtype=dtype, depth=depth, drop_last=drop_last))
        assert [len(each.numpy()) for each in got] == [3] * 6 + ([] if drop_last else [2])
        for each, (which, key) in zip(itertools.chain(*(each.numpy() for each in got)), samples, strict=False):
            np.testing.assert_array_equal(each, values[which][key].astype(each.dtype))
    times = [ps.create_array({}, data=np.arange(4).astype(f"M8[{unit}]")) for unit in ("s", "D")]
    (both,) = ps.batches(times, [(0, np.s_[:2]), (1, np.s_[:2])], dtype="M8[s]")
    assert both.numpy().astype("i8").tolist() == [[0, 1], [0, 86400]]


def test_a_source_may_be_any_penstock_array(tmp_path):
    values = _values("f4")
    ps.save_shards(values, tmp_path / "s_{}.npy", rows=3)
    ps.save_shards(values, tmp_path / "z_{}.zarr", rows=3)
    np.save(tmp_path / "x.npy", values)
    sources = [
        ps.open(tmp_path / "x.npy"),
        ps.open_shards(tmp_path / "s_*.npy"),
        ps.open_shards(tmp_path / "z_*.zarr"),
        ps.open_shards(
            sorted(map(str, tmp_path.glob("s_*.npy"))),
            metadata=lambda path: (len(np.load(path)), (12,), "f4"),
            reader=lambda path, low, high: np.load(path)[low:high],
        ),
    ]
    for source in sources:
        for crops in SELECTIONS.values():
            got = [each for batch in ps.batches(source, crops, batch_size=3) for each in batch.numpy()]
            for each, crop in zip(got, crops, strict=True):
                np.testing.assert_array_equal(each, _picked(values, crop))


@pytest.mark.parametrize("failure", [ValueError("mine"), KeyError(3), KeyboardInterrupt(), ps.NotFoundError("gone")])
@pytest.mark.parametrize("at", [0, 1, 4, 5])
def test_an_exception_of_the_samples_is_raised_unchanged(failure, at):
    a = ps.create_array({}, data=_values("f4"))

    def samples() -> Iterator[Any]:
        yield from range(at)
        raise failure

    batches = ps.batches(a, samples(), batch_size=2, depth=1)
    with pytest.raises(type(failure)) as caught:
        list(batches)
    assert caught.value is failure
    assert list(batches) == []


def test_a_chunk_that_fails_ends_the_batches():
    store: dict[str, bytes] = {}
    ps.create_array(store, data=_values("f4"), chunks=(2, 12))
    store["c/2/0"] = b"no zstd"
    batches = ps.batches(ps.open(store), range(10), batch_size=2, depth=0)
    assert len(next(batches).numpy()) == 2
    assert len(next(batches).numpy()) == 2
    with pytest.raises(ps.CorruptDataError, match="c/2/0"):
        next(batches)
    assert list(batches) == []


def test_samples_are_taken_only_for_the_batches_that_are_ahead():
    a = ps.create_array({}, data=_values("f4"))
    taken: list[int] = []

    def samples() -> Iterator[int]:
        for i in range(10):
            taken.append(i)
            yield i

    batches = ps.batches(a, samples(), batch_size=2, depth=1)
    assert taken == []
    next(batches)
    assert taken == [0, 1, 2, 3]
    next(batches)
    assert taken == [0, 1, 2, 3, 4, 5]
    batches.close()
    assert taken == [0, 1, 2, 3, 4, 5]


def test_a_reader_reads_one_batch():
    from penstock.core.batches import CropReader

    values = _values("<i4")
    a = ps.create_array({}, data=values, chunks=(4, 5))
    reader = CropReader(a, "f8")
    for crops in SELECTIONS.values():
        got = reader.read(crops[:3]).numpy()
        assert got.dtype == np.float64
        for each, crop in zip(got, crops, strict=False):
            np.testing.assert_array_equal(each, _picked(values, crop))


def test_crops_of_one_batch_have_one_shape_and_batches_may_differ():
    a = ps.create_array({}, data=_values("f4"))
    got = [each.shape for each in ps.batches(a, [np.s_[0:2], np.s_[1:3], np.s_[0:5], np.s_[5:10]], batch_size=2)]
    assert got == [(2, 2, 12), (2, 5, 12)]
    with pytest.raises(
        ps.InvalidArgumentError, match=r"one shape: \(2, 12\) and, for sample slice\(0, 3, None\), \(3, 12\)"
    ):
        list(ps.batches(a, [np.s_[0:2], np.s_[0:3]], batch_size=2))


def test_samples_that_name_fields_are_refused():
    a = ps.create_array({}, data=np.zeros(3, [("a", "i4"), ("b", "f4")]))
    for arrays, sample in ((a, "a"), ([a], (0, ("a", slice(0, 2))))):
        with pytest.raises(ps.InvalidArgumentError, match="samples have whole elements, not the fields 'a'"):
            list(ps.batches(arrays, [sample]))


@pytest.mark.parametrize("number", [2**63, 2**70])
def test_numbers_that_the_engine_cannot_count_to(number: int) -> None:
    a, b = (ps.create_array({}, data=np.arange(12).reshape(3, 4).astype(dtype)) for dtype in ("i4", "f4"))
    samples = [(i % 2, i % 3) for i in range(6)]
    for arrays, which in ((a, [row for _, row in samples]), ([a, b], samples)):
        (whole,) = ps.batches(arrays, which, batch_size=number, depth=number, dtype="f8")
        np.testing.assert_array_equal(whole.numpy()[:, 0], [0, 4, 8, 0, 4, 8])
    assert len(list(ps.stream(a, (1, 4), depth=number))) == 3
