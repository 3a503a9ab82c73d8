"""`penstock.loader` for several ranks and workers: equal numbers of batches, and states that others continue."""

from __future__ import annotations

import os
import pickle
import random

import numpy as np
import penstock as ps
import pytest
from conftest import examples
from support.loaders import all_of, make, rows


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
