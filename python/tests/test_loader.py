"""`penstock.loader` against samples that NumPy cuts out of ndarrays."""

from __future__ import annotations

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
from support.loaders import all_of, make, rows


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
