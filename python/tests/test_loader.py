"""`penstock.loader` against samples that NumPy cuts out of ndarrays."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import MutableMapping

import numpy as np
import penstock as ps
import pytest
from conftest import examples


def make(values, chunks, names=None, shards=None, path=None):
    return ps.create_array(
        path if path is not None else {}, data=values, chunks=chunks, shards=shards, dimension_names=names
    )


def rows(count=60, width=5, chunk=7, **options):
    values = np.arange(count * width, dtype="i4").reshape(count, width)
    return values, make(values, (chunk, width), **options)


def all_of(loader):
    return [batch.numpy().copy() for batch in loader]


def test_each_row_occurs_once_an_epoch_in_a_new_order():
    values, a = rows()
    loader = ps.loader(a, batch_size=8)
    assert len(loader) == 8
    assert loader.samples == 60
    epochs = [np.concatenate(all_of(loader)) for _ in range(3)]
    for epoch in epochs:
        assert epoch.shape == values.shape
        np.testing.assert_array_equal(epoch[np.argsort(epoch[:, 0])], values)
        assert not np.array_equal(epoch, values)
    assert not np.array_equal(epochs[0], epochs[1])
    assert loader.epoch == 3
    loader.set_epoch(0)
    np.testing.assert_array_equal(np.concatenate(all_of(loader)), epochs[0])
    plain = ps.loader(a, batch_size=8, shuffle=False)
    np.testing.assert_array_equal(np.concatenate(all_of(plain)), values)


def crop_of(values, origin, dims, crop, fill):
    """The sample at `origin`; `dims` maps each axis to a dimension."""
    index, pads, squeezed = [slice(None)] * values.ndim, [(0, 0)] * values.ndim, []
    for (length, d), at in zip(zip(crop, dims, strict=True), origin, strict=True):
        if d is None:
            continue
        size = 1 if length is None else length
        first, last = min(max(at, 0), values.shape[d]), min(max(at + size, 0), values.shape[d])
        index[d] = slice(first, last)
        before = min(max(-at, 0), size)
        pads[d] = (before, size - before - (last - first))
        if length is None:
            squeezed.append(d)
    return np.pad(values[tuple(index)], pads, constant_values=fill).squeeze(tuple(squeezed))


@pytest.mark.parametrize("seed", range(examples(60)))
def test_batches_are_the_crops_that_numpy_cuts(seed):
    draw = random.Random(seed)
    names = ["t", "y", "x"][: draw.randint(1, 3)]
    lengths = {name: draw.randint(1, 14) for name in names}
    crop, pad, stride = {}, {}, {}
    for name in draw.sample(names, draw.randint(1, len(names))):
        if draw.random() < 0.5:
            pad[name] = (draw.randint(0, 3), draw.randint(0, 3))
        room = lengths[name] + sum(pad.get(name, (0, 0)))
        crop[name] = None if draw.random() < 0.3 else draw.randint(1, room)
        if draw.random() < 0.5:
            stride[name] = draw.randint(1, 5)
    arrays, values = {}, {}
    for i in range(draw.randint(1, 3)):
        of = [name for name in names if i == 0 or name in crop or draw.random() < 0.5]
        if i > 0:
            draw.shuffle(of)
        shape = tuple(lengths[name] for name in of) + ((3,) if draw.random() < 0.3 else ())
        dtype = draw.choice(["u1", "i2", "<f4", ">f8", "i8"])
        values[i] = np.asarray(np.random.default_rng(seed + i).integers(0, 100, shape), dtype)
        chunks = tuple(draw.randint(1, length) for length in shape)
        shards = tuple(n * draw.randint(1, 3) for n in chunks) if draw.random() < 0.3 else None
        extra = [*of, *(["band"] if len(shape) > len(of) else [])]
        arrays[i] = make(values[i], chunks, extra, shards)
    axes = list(crop)
    starts = [range(-pad.get(k, (0, 0))[0], lengths[k] + pad.get(k, (0, 0))[1] - (crop[k] or 1) + 1) for k in axes]
    kind = draw.choice(["grid", "random", "listed"])
    samples, expected = None, None
    if kind == "grid":
        steps = [s[:: stride.get(k, crop[k] or 1)] for s, k in zip(starts, axes, strict=True)]
        expected = np.stack([part.reshape(-1) for part in np.meshgrid(*steps, indexing="ij")], axis=1)
    elif kind == "listed":
        expected = np.array([[draw.choice(s) for s in starts] for _ in range(draw.randint(1, 40))])
        samples = expected
    else:
        samples = draw.randint(1, 40)
    batch = draw.randint(1, 9)
    chunk_bytes = sum(a.nbytes for a in arrays.values()) + 64
    options = {
        "stride": stride,
        "pad": pad,
        "samples": samples,
        "batch_size": batch,
        "fill": 9,
        "mask": True,
        "seed": seed,
        "window": draw.choice([None, chunk_bytes * 8]),
        "shuffle": draw.random() < 0.8,
        "depth": draw.randint(0, 3),
    }
    if draw.random() < 0.5:
        options["dtype"] = "f8"
    loader = ps.loader(arrays, crop, **options)
    if expected is not None:
        assert loader.samples == len(expected)

    def key(parts):
        return tuple(part.tobytes() for part in parts)

    found = []
    for of_batch, valid in loader:
        for i in range(len(valid.numpy())):
            found.append([*(of_batch[k].numpy()[i] for k in arrays), valid.numpy()[i]])
    assert len(found) == loader.samples
    for k, part in zip(arrays, found[0], strict=False):
        assert part.dtype == (options.get("dtype") or arrays[k].dtype.newbyteorder("="))
    if expected is None:  # random origins are not known here: each is one of the possible crops
        grids = np.meshgrid(*starts, indexing="ij")
        expected = np.stack([part.reshape(-1) for part in grids], axis=1)
        every = False
    else:
        every = True
    wanted = []
    for origin in expected:
        parts = []
        for k, a in arrays.items():
            dims = [a.dimension_names.index(name) if name in a.dimension_names else None for name in axes]
            parts.append(crop_of(values[k].astype(found[0][k].dtype), origin, dims, list(crop.values()), 9))
        ones = np.ones([lengths[name] for name in axes], bool)
        parts.append(crop_of(ones, origin, list(range(len(axes))), list(crop.values()), False))
        wanted.append(key(parts))
    got = [key(parts) for parts in found]
    if every and options["shuffle"]:
        assert sorted(got) == sorted(wanted)
    elif every:
        assert got == wanted
    else:
        assert set(got) <= set(wanted)


class Counting(MutableMapping):
    """A store that counts the objects read."""

    def __init__(self, values, chunks):
        self.objects: dict[str, bytes] = {}
        ps.create_array(self.objects, data=values, chunks=chunks)
        self.reads: dict[str, int] = {}

    def __getitem__(self, key):
        self.reads[key] = self.reads.get(key, 0) + 1
        return self.objects[key]

    def __setitem__(self, key, value):
        self.objects[key] = value

    def __delitem__(self, key):
        del self.objects[key]

    def __iter__(self):
        return iter(self.objects)

    def __len__(self):
        return len(self.objects)


@pytest.mark.parametrize("seed", range(12))
def test_every_chunk_is_decoded_once_an_epoch(seed):
    draw = random.Random(seed)
    values = np.arange(48 * 40, dtype="f4").reshape(48, 40)
    chunks = (draw.randint(2, 9), draw.randint(5, 40))
    store = Counting(values, chunks)
    a = ps.open_array(store, mode="r")
    grid = -(-48 // chunks[0]) * -(-40 // chunks[1])
    store.reads.clear()
    crop = {0: draw.randint(1, chunks[0]), 1: draw.randint(1, chunks[1])}
    # Samples that do not cross chunk borders need only a small window.
    origins = [
        (y, x)
        for y in range(48 - crop[0] + 1)
        for x in range(40 - crop[1] + 1)
        if y // chunks[0] == (y + crop[0] - 1) // chunks[0] and x // chunks[1] == (x + crop[1] - 1) // chunks[1]
    ]
    chunk_bytes = 4 * chunks[0] * chunks[1]
    loader = ps.loader(a, crop, samples=origins, batch_size=draw.randint(1, 16), window=8 * chunk_bytes, seed=seed)
    for _ in loader:
        pass
    counts = loader.counts()
    touched = {(y // chunks[0], x // chunks[1]) for y, x in origins}
    assert counts["chunks_read"] == len(touched) <= grid
    assert counts["chunks_again"] == 0
    assert counts["peak_window_bytes"] <= 8 * chunk_bytes
    assert {n for key, n in store.reads.items() if key.startswith("c/")} == {1}


def test_five_eighths_of_a_small_window_are_read_ahead():
    _, a = rows(count=800, width=5, chunk=4)
    counts = {
        chunks: ps.loader(a, batch_size=4, window=chunks * 80).counts() for chunks in (1, 4, 16, 32, 64, 128, 256)
    }
    opened = {chunks: (each["blocks_open"], each["lanes"]) for chunks, each in counts.items()}
    assert opened == {1: (1, 1), 4: (2, 1), 16: (6, 1), 32: (12, 2), 64: (32, 8), 128: (96, 8), 256: (192, 8)}


def test_crops_across_chunks_are_decoded_once_within_a_window():
    values = np.arange(64 * 64, dtype="f4").reshape(64, 64)
    a = make(values, (8, 8))
    loader = ps.loader(a, {0: 6, 1: 6}, stride={0: 5, 1: 5}, window=values.nbytes)
    for _ in loader:
        pass
    assert loader.counts()["chunks_read"] == 64
    assert loader.counts()["chunks_again"] == 0
    for _ in loader:  # all arrays are open
        pass
    assert loader.counts()["chunks_read"] == 0
    small = ps.loader(a, {0: 6, 1: 6}, stride={0: 5, 1: 5}, window=6 * 256)
    got = np.concatenate(all_of(small))
    assert small.counts()["chunks_again"] > 0
    assert small.counts()["peak_window_bytes"] <= 6 * 256
    np.testing.assert_array_equal(np.sort(got[:, 0, 0]), np.sort(values[:59:5, :59:5].reshape(-1)))


@pytest.mark.parametrize("seed", range(examples(100)))
def test_any_number_of_ranks_continues_where_others_stopped(seed):
    draw = random.Random(seed)
    count, batch = draw.randint(1, 300), draw.randint(1, 10)
    _, a = rows(count, 1, draw.randint(1, 20))
    options = {
        "batch_size": batch,
        "seed": seed,
        "window": draw.choice([80 * 16, None]),
        "shuffle": draw.random() < 0.9,
    }
    whole = [x.reshape(-1).tolist() for x in all_of(ps.loader(a, **options))]
    ranks = draw.randint(1, 5)
    steps = draw.randint(0, len(whole) // ranks)
    first, states = {}, []
    for rank in range(ranks):
        loader = ps.loader(a, rank=rank, ranks=ranks, **options)
        iteration = iter(loader)
        for step in range(steps):
            first[step * ranks + rank] = next(iteration).numpy().reshape(-1).tolist()
        states.append(loader.state_dict())
        iteration.close()
    assert all(state == states[0] for state in states)
    others = draw.randint(1, 5)
    rest = {}
    for rank in range(others):
        loader = ps.loader(a, rank=rank, ranks=others, **options)
        loader.load_state_dict(pickle.loads(pickle.dumps(states[0])))
        for step, x in enumerate(loader):
            rest[steps * ranks + step * others + rank] = x.numpy().reshape(-1).tolist()
    assert {**first, **rest} == dict(enumerate(whole))


@pytest.mark.parametrize("seed", range(1000 if os.environ.get("PENSTOCK_ALL_CASES") else 60))
def test_crops_of_pairs_continue_with_any_number_of_ranks(seed):
    draw = random.Random(seed)
    names = ["t", "y", "x"][: draw.randint(1, 3)]
    lengths = {name: draw.randint(2, 12) for name in names}
    crop, pad = {}, {}
    for name in draw.sample(names, draw.randint(1, len(names))):
        if draw.random() < 0.5:
            pad[name] = (draw.randint(0, 3), draw.randint(0, 3))
        crop[name] = None if draw.random() < 0.3 else draw.randint(1, lengths[name] + sum(pad.get(name, (0, 0))))
    arrays = {}
    for key in draw.choice([["image"], ["image", "label"]]):
        of = [name for name in names if key == "image" or name in crop or draw.random() < 0.5]
        shape = tuple(lengths[name] for name in of)
        values = np.random.default_rng(seed).integers(0, 1000, shape).astype(draw.choice(["i2", "f4"]))
        arrays[key] = make(values, tuple(draw.randint(1, n) for n in shape), of)
    options = {
        "pad": pad,
        "samples": draw.choice([None, draw.randint(1, 60)]),
        "batch_size": draw.randint(1, 8),
        "fill": 9,
        "mask": draw.random() < 0.5,
        "seed": seed,
        "window": draw.choice([None, 16 * sum(a.nbytes for a in arrays.values()) + 64]),
        "shuffle": draw.random() < 0.8,
    }

    def bytes_of(batch):
        of, valid = batch if options["mask"] else (batch, None)
        return [*(of[key].numpy().tobytes() for key in arrays), *([] if valid is None else [valid.numpy().tobytes()])]

    def loader_of(rank, ranks):
        return ps.loader(arrays, crop, rank=rank, ranks=ranks, **options)

    epoch = draw.randint(0, 2)
    plain = loader_of(0, 1)
    plain.set_epoch(epoch)
    whole = [bytes_of(batch) for batch in plain]
    ranks, others = draw.randint(1, 4), draw.randint(1, 4)
    steps = draw.randint(0, len(whole) // ranks)
    found, states = {}, []
    for rank in range(ranks):
        loader = loader_of(rank, ranks)
        loader.set_epoch(epoch)
        iteration = iter(loader)
        for step in range(steps):
            found[step * ranks + rank] = bytes_of(next(iteration))
        states.append(loader.state_dict())
        iteration.close()
    assert all(state == states[0] for state in states)
    for rank in range(others):
        loader = loader_of(rank, others)
        loader.load_state_dict(pickle.loads(pickle.dumps(states[0])))
        for step, batch in enumerate(loader):
            found[steps * ranks + step * others + rank] = bytes_of(batch)
    assert found == dict(enumerate(whole))


def test_ranks_with_common_lanes_share_no_chunk():
    values, a = rows(8 * 64, 4, 4)
    seen, read = [], 0
    for rank in range(4):
        loader = ps.loader(a, batch_size=4, rank=rank, ranks=4, window=64 * 64)
        seen += [x for batch in loader for x in batch.numpy()[:, 0].tolist()]
        read += loader.counts()["chunks_read"]
        assert loader.counts()["peak_window_bytes"] <= 16 * 64
    assert sorted(seen) == values[:, 0].tolist()
    assert read <= 128 + 8  # the rest at the end of the lanes may be read by another rank


def test_all_ranks_have_the_same_number_of_full_batches():
    _, a = rows(61)
    for ranks in range(1, 6):
        loaders = [ps.loader(a, batch_size=4, drop_last=True, rank=r, ranks=ranks) for r in range(ranks)]
        sizes = [[len(x.numpy()) for x in each] for each in loaders]
        assert all(each == [4] * (15 // ranks) for each in sizes)
        assert [len(each) for each in loaders] == [15 // ranks] * ranks


@pytest.mark.parametrize("before", [1, 2, 4])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_other_ranks_that_continue_have_equal_numbers_of_batches(before, ranks):
    _, a = rows(61)
    options = {"batch_size": 4, "drop_last": True}
    whole = [batch.tolist() for batch in all_of(ps.loader(a, **options))]
    stopped = ps.loader(a, rank=0, ranks=before, **options)
    iteration = iter(stopped)
    next(iteration)
    state = stopped.state_dict()
    loaders = [ps.loader(a, rank=rank, ranks=ranks, **options) for rank in range(ranks)]
    for each in loaders:
        each.load_state_dict(state)
    each_rank = [[batch.tolist() for batch in all_of(each)] for each in loaders]
    count = (15 - before) // ranks
    assert [len(batches) for batches in each_rank] == [count] * ranks
    assert [batch for turn in zip(*each_rank, strict=True) for batch in turn] == whole[before : before + count * ranks]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("ranks", "workers"), [(1, 1), (1, 4), (2, 2), (2, 3)])
def test_workers_have_all_batches_of_their_rank(ranks, workers, drop_last):
    _, a = rows(30)
    for rank in range(ranks):
        options = {"batch_size": 4, "seed": 2, "drop_last": drop_last, "rank": rank, "ranks": ranks}
        expected = [[x.tolist() for x in all_of(each)] for each in [ps.loader(a, **options)] * 2]
        shares = [ps.loader(a, **options) for _ in range(workers)]
        for epoch, batches in enumerate(expected):
            parts = [[x.tolist() for x in all_of(each._share_of(i, workers))] for i, each in enumerate(shares)]
            assert [parts[j % workers][j // workers] for j in range(sum(map(len, parts)))] == batches
            assert [each.epoch for each in shares] == [epoch + 1] * workers


def test_values_are_cast_scaled_and_normalised():
    values = np.random.default_rng(0).integers(-500, 500, (12, 3, 8)).astype("i2")
    a = make(values, (5, 3, 8), ["time", "band", "x"])
    mean, std = values.mean((0, 2)), values.std((0, 2))
    loader = ps.loader(a, scale=1 / std, offset=-mean / std, along="band", shuffle=False, batch_size=5)
    got = np.concatenate(all_of(loader))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, (values - mean[:, None]) / std[:, None], rtol=1e-5, atol=1e-6)
    got = np.concatenate(
        all_of(
            ps.loader(
                a,
                {"x": 5},
                pad={"x": 1},
                stride={"x": 1},
                scale=np.arange(1, 9),
                along="x",
                dtype="f8",
                fill=np.nan,
                shuffle=False,
            )
        )
    )
    whole = np.pad(values.astype("f8") * np.arange(1, 9), ((0, 0), (0, 0), (1, 1)), constant_values=np.nan)
    np.testing.assert_array_equal(got, np.stack([whole[..., i : i + 5] for i in range(6)]))


def test_pairs_with_dimensions_in_different_order():
    image = np.arange(20 * 3 * 8 * 8, dtype="f4").reshape(20, 3, 8, 8)
    label = np.arange(20 * 8 * 8, dtype="i4").reshape(8, 8, 20)
    a, b = make(image, (3, 1, 4, 8)), make(label, (8, 8, 6))
    dims = {"image": ("n", "c", "y", "x"), "label": ("y", "x", "n")}
    loader = ps.loader({"image": a, "label": b}, {"n": None, "y": 4, "x": 4}, dims=dims, batch_size=4)
    count = 0
    for batch in loader:
        x, y = batch["image"].numpy(), batch["label"].numpy()
        assert x.shape == (4, 3, 4, 4)
        assert y.shape == (4, 4, 4)
        for i in range(4):
            n, at = divmod(int(x[i, 0, 0, 0]), 3 * 64)
            row, column = divmod(at, 8)
            np.testing.assert_array_equal(y[i], label[row : row + 4, column : column + 4, n])
            count += 1
    assert count == 80


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"crop": {"z": 3}}, "no array has a dimension 'z'"),
        ({"crop": {0: 61}}, "does not fit into axis 0, which has 60 elements"),
        ({"crop": {1: 6}}, "does not fit into axis 1, which has 5 elements"),
        ({"crop": {1: 4}, "samples": [[2]]}, "sample 0 begins at 2 of axis 1"),
        ({"crop": {0: 0}}, "at least 1"),
        ({"crop": {}}, "has no axis"),
        ({"crop": (4, 4)}, r"crop must be a mapping .*, got \(4, 4\)"),
        ({"stride": 2}, "stride must be a mapping"),
        ({"stride": {1: 2}}, "not an axis of crop"),
        ({"samples": [[60]]}, "sample 0 begins at 60"),
        ({"samples": [[1.5]]}, "whole numbers"),
        ({"samples": []}, "whole numbers|must not be empty"),
        ({"batch_size": 0}, "batch_size"),
        ({"window": "1B"}, "does not hold the chunks of one sample"),
        ({"dtype": "S4"}, "int32|cannot"),
        ({"scale": [1, 2]}, "along"),
        ({"scale": [1, 2], "along": 1}, "scale has 2 numbers"),
        ({"scale": 2, "dtype": "i4"}, "float32 or float64"),
        ({"rank": 2, "ranks": 2}, "rank must be"),
        ({"dtype": {"a": "f4"}}, "no array 'a'"),
        ({"dims": "yx"}, "not the names"),
        ({"depth": -1}, "depth"),
        ({"pad": {0: (1, 1, 1)}, "crop": {0: 2}}, "one for each end"),
        ({"pad": {0: 1.5}, "crop": {0: 2}}, "whole number"),
        ({"fill": np.nan}, "fill nan is not a value of int32"),
        ({"fill": 2**31}, "is not a value of int32"),
        ({"fill": 0.5}, "is not a value of int32"),
        ({"fill": "3"}, "is not a value of int32"),
        ({"fill": 2, "dtype": "?"}, "fill 2 is not a value of bool"),
        ({"fill": 1j, "dtype": "f4"}, "fill 1j is not a value of float32"),
        ({"fill": "a", "dtype": "f4"}, "fill 'a' is not a value of float32"),
        ({"fill": []}, r"fill \[\] is not a value of int32"),
        ({"scale": "a"}, "scale must be a number"),
        ({"offset": 1j}, "offset must be a number"),
        ({"offset": np.array([1j])}, "offset must be a number"),
        ({"scale": [None]}, "scale must be a number"),
        ({"scale": "1"}, "scale must be a number"),
        ({"scale": np.datetime64(3, "s")}, "scale must be a number"),
        ({"fill": 2**64}, "is not a value of int32"),
        ({"samples": [[1], [1, 2]]}, "samples must be whole numbers"),
        ({"dims": 5}, "not the names"),
    ],
)
def test_invalid_arguments_are_refused(arguments, says):
    _, a = rows()
    with pytest.raises(ps.Error, match=says):
        ps.loader(a, **arguments)


@pytest.mark.parametrize(("dtype", "fill"), [("u1", 255), ("u1", 9.0), ("i2", -1), ("f4", np.nan), ("f4", 0.1)])
def test_a_fill_of_the_batches_type_is_taken(dtype, fill):
    a = ps.create_array({}, data=np.ones((4, 2), dtype), chunks=(2, 2))
    ends = np.array([1, 0])
    (batch,) = ps.loader(a, crop={0: 5}, pad={0: ends}, fill=fill, shuffle=False)
    assert np.asarray(batch)[0, 0].tobytes() == np.array([fill] * 2, dtype).tobytes()


def test_arrays_of_different_lengths_are_refused_by_name(tmp_path):
    _, a = rows(path=tmp_path / "a.zarr")
    _, b = rows(59, path=tmp_path / "b.zarr")
    with pytest.raises(ps.InvalidArgumentError, match=r"60 elements in one array and 59(.|\n)*a.zarr(.|\n)*b.zarr"):
        ps.loader([a, b])


def test_errors_name_the_dimension_of_the_array():
    a = make(np.zeros((8, 100), "i4"), (4, 10), names=("t", "x"))
    b = make(np.zeros((8, 90), "i4"), (4, 10))
    with pytest.raises(ps.InvalidArgumentError, match="does not fit into dimension 'x', which has 100 elements"):
        ps.loader(a, crop={"x": 101})
    with pytest.raises(ps.InvalidArgumentError, match="dimension 'x' has 100 elements in one array and 90"):
        ps.loader([a, b], crop={"x": 10}, dims=("t", "x"))
    with pytest.raises(ps.InvalidArgumentError, match="axis 1 has 90 elements in one array and 100"):
        ps.loader([b, a], crop={1: 10})
    with pytest.raises(ps.InvalidArgumentError, match="sequence or mapping"):
        ps.loader([np.zeros(3)])


def test_batches_have_at_most_32_dimensions():
    a = make(np.zeros((1,) * 32, "i4"), (1,) * 32)
    with pytest.raises(ps.InvalidArgumentError, match="at most 31 dimensions"):
        ps.loader(a, crop={0: 1})
    assert len(next(iter(ps.loader(a, crop={0: None}))).shape) == 32


def test_a_state_of_another_order_is_refused():
    _, a = rows()
    state = ps.loader(a, batch_size=8).state_dict()
    for other in ({"batch_size": 7}, {"seed": 1}, {"window": 140 * 3}, {"shuffle": False}):
        with pytest.raises(ps.InvalidArgumentError, match="the state has"):
            ps.loader(a, **{"batch_size": 8, **other}).load_state_dict(state)
    batches = ps.loader(a, batch_size=8)
    batches.load_state_dict({name: value for name, value in state.items() if name != "shuffle"})  # of earlier versions
    for rank in range(2):
        late = ps.loader(a, batch_size=8, rank=rank, ranks=2)
        late.load_state_dict({**state, "batch": 2**64 - 1})
        assert all_of(late) == []
    for name in ("epoch", "batch"):
        with pytest.raises(ps.InvalidArgumentError, match=f"{name} of the state must be a whole number"):
            batches.load_state_dict({key: value for key, value in state.items() if key != name})
    with pytest.raises(ps.InvalidArgumentError, match="state must be a mapping"):
        batches.load_state_dict([])
    for name in ("epoch", "batch"):
        with pytest.raises(ps.InvalidArgumentError, match=f"{name} of the state must be less than 2"):
            ps.loader(a, batch_size=8).load_state_dict({**state, name: 2**64})


def test_a_damaged_chunk_is_an_error_of_its_batch(tmp_path):
    _, _a = rows(path=tmp_path / "a.zarr")
    victim = next((tmp_path / "a.zarr").rglob("c/4/0"))
    victim.write_bytes(victim.read_bytes()[:-3])
    loader = ps.loader(ps.open_array(tmp_path / "a.zarr"), shuffle=False, batch_size=7)
    iteration = iter(loader)
    for _ in range(4):
        next(iteration)
    with pytest.raises(ps.CorruptDataError, match=r"a\.zarr"):
        next(iteration)
    victim.unlink()  # from now on, its values are the fill value; the same loader continues
    assert len(all_of(loader)) == 9


def test_iterations_may_end_at_any_batch(tmp_path):
    _, a = rows(600, 50, 10, path=tmp_path / "a.zarr")
    loader = ps.loader(a, batch_size=16)
    for stop in range(5):
        for i, _ in enumerate(loader):
            if i == stop:
                break
    assert sum(len(batch.numpy()) for batch in loader) == 600
    first = iter(loader)
    next(first)
    del loader, first  # while it is running


def test_later_batches_do_not_overwrite_earlier_ones():
    values, a = rows(200, 64, 10)
    batches = [batch.numpy() for batch in ps.loader(a, batch_size=10)]
    got = np.concatenate(batches)
    np.testing.assert_array_equal(got[np.argsort(got[:, 0])], values)


def test_python_stores_and_pickles():
    values, _ = rows()
    store = Counting(values, (7, 5))
    loader = ps.loader(ps.open_array(store, mode="r"), batch_size=9, depth=1)
    got = np.concatenate(all_of(loader))
    np.testing.assert_array_equal(got[np.argsort(got[:, 0])], values)


def test_pickles_and_forks(tmp_path):
    _values, _a = rows(path=tmp_path / "a.zarr")
    loader = ps.loader(ps.open_array(tmp_path / "a.zarr"), batch_size=9)
    first = all_of(loader)
    loader.set_epoch(0)
    copy = pickle.loads(pickle.dumps(loader))
    assert all(np.array_equal(x, y) for x, y in zip(first, all_of(copy), strict=True))
    program = f"""
import os, sys
import numpy as np, penstock as ps
loader = ps.loader(ps.open_array({str(tmp_path / "a.zarr")!r}), batch_size=9)
first = [x.numpy().copy() for x in loader]
pid = os.fork()
loader.set_epoch(0)
same = all(np.array_equal(x, y) for x, y in zip(first, [y.numpy() for y in loader], strict=True))
if pid == 0:
    os._exit(0 if same else 1)
sys.exit(0 if same and os.waitpid(pid, 0)[1] == 0 else 1)
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=60).returncode == 0


def test_a_fork_in_the_middle_of_an_iteration(tmp_path):
    _, a = rows(400, 50, 10, path=tmp_path / "a.zarr")
    assert a.shape == (400, 50)
    program = f"""
import os, sys
import penstock as ps
loader = ps.loader(ps.open_array({str(tmp_path / "a.zarr")!r}), batch_size=4)
iteration = iter(loader)
first = next(iteration).numpy()[0, 0]
pid = os.fork()
if pid == 0:
    count = sum(len(x.numpy()) for x in loader)
    del loader, iteration
    sys.exit(0 if count == 400 else 1)
rest = sum(len(x.numpy()) for x in iteration)
sys.exit(0 if rest == 396 and os.waitpid(pid, 0)[1] == 0 else 1)
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=60).returncode == 0


def test_one_iteration_at_a_time():
    _, a = rows()
    loader = ps.loader(a)
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    with pytest.raises(ps.InvalidArgumentError, match="another iteration"):
        next(first)
    assert len(list(second)) == 7


def test_threads_that_share_a_loader_end_each_others_iterations():
    values, a = rows(300, 8, 9)
    loader = ps.loader(a, batch_size=11)
    failures = []

    def run():
        for _ in range(20):
            try:
                for number, _ in enumerate(loader):
                    loader.counts()
                    if number == 3:
                        break
            except Exception as failed:
                ended = "another iteration" in str(failed) or isinstance(failed, ps.CancelledError)
                if not ended:
                    failures.append(failed)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    loader.set_epoch(0)
    got = np.concatenate(all_of(loader))
    np.testing.assert_array_equal(got[np.argsort(got[:, 0])], values)


def test_a_batch_may_be_longer_than_all_samples():
    values, a = rows()
    for size in (60, 61, 2**63 - 1):
        (batch,) = all_of(ps.loader(a, batch_size=size, shuffle=False))
        np.testing.assert_array_equal(batch, values)
    with pytest.raises(ps.InvalidArgumentError, match="less than 2"):
        ps.loader(a, batch_size=2**63)


def test_two_loaders_at_once():
    values, a = rows(300, 8, 9)
    results = {}

    def run(seed):
        got = np.concatenate(all_of(ps.loader(a, batch_size=11, seed=seed)))
        results[seed] = np.array_equal(got[np.argsort(got[:, 0])], values)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == dict.fromkeys(range(4), True)


def test_options_have_the_names_of_torch_and_of_samples() -> None:
    a = ps.create_array({}, data=np.arange(40.0).reshape(20, 2), chunks=(3, 2), dimension_names=("t", "x"))
    ours = ps.loader(a, crop={"t": 2}, batch_size=2, rank=1, ranks=2)
    theirs = ps.loader(a, sample={"t": 2}, batch_size=2, rank=1, world_size=2)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    with pytest.raises(ps.InvalidArgumentError, match="crop and sample"):
        ps.loader(a, crop={"t": 2}, sample={"t": 2})
    with pytest.raises(ps.InvalidArgumentError, match="memory and memory_limit"):
        ps.rechunk(a, {}, (20, 1), memory=1, memory_limit="1MiB")
    assert ps.convert(a, {}, chunks=(20, 1), memory_limit="1MiB").chunks == (20, 1)


def test_arguments_that_no_loader_supports_are_named() -> None:
    text = ps.create_array({}, data=np.array(["a", "b"]).astype("T"))
    with pytest.raises(ps.UnsupportedError, match="elements of fixed size"):
        ps.loader(text)
    with pytest.raises(ps.InvalidArgumentError, match=r"got str: penstock\.open opens a path"):
        ps.loader("x.zarr")
    with pytest.raises(ps.InvalidArgumentError, match="got ndarray"):
        ps.loader({"x": np.zeros(3)})


@pytest.mark.parametrize(("shape", "chunks"), [((2**50,), (2**10,)), ((2**45,), (1,)), ((2**22, 2**22), (1, 1))])
def test_more_samples_than_an_epoch_has_are_refused_at_once(shape, chunks):
    a = ps.create_array({}, shape=shape, dtype="u1", chunks=chunks)
    with pytest.raises(ps.InvalidArgumentError, match="samples are too many for one epoch"):
        ps.loader(a, crop=dict.fromkeys(range(len(shape)), 1))


def test_an_epoch_whose_plan_exceeds_the_memory_limit_is_refused():
    context = ps.Context(memory_limit="1MiB")
    a = ps.create_array({}, data=np.arange(100_000), chunks=(1000,), context=context)
    with pytest.raises(ps.ResourceExhaustedError, match=r"100000 samples takes 4800000 bytes or more.* is 1048576"):
        next(iter(ps.loader(a)))
    with pytest.raises(ps.ResourceExhaustedError, match="of 1000000000 samples takes"):
        next(iter(ps.loader(a, samples=10**9)))
    # Each of 100 ranks plans its own part.
    assert next(iter(ps.loader(a, rank=3, ranks=100, batch_size=8))).shape == (8,)
    a = ps.create_array({}, data=np.arange(100_000), chunks=(1000,), context=ps.Context(memory_limit="64MiB"))
    assert sum(batch.shape[0] for batch in ps.loader(a, batch_size=1000)) == 100_000


def test_an_epoch_that_memory_does_not_hold_is_an_error():
    program = """
import resource
import numpy as np, penstock as ps
context = ps.Context(memory_limit=2**50, chunk_cache=0)
loader = ps.loader(ps.create_array({}, data=np.arange(20), chunks=(5,), context=context), samples=2**32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
try:
    next(iter(loader))
except ps.ResourceExhaustedError as error:
    print(error.message)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "the system has no memory for the order of 4294967296 samples\n"
