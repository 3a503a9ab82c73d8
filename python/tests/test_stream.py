"""Tiles and batches that are read ahead."""

from __future__ import annotations

import itertools
import sys
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import penstock as ps
import pytest
from conftest import Slow, sharded, write

VALUES = np.random.default_rng(5).integers(0, 1000, (37, 23), dtype="u2")


@pytest.fixture(params=["chunks", "shards"])
def array(request) -> ps.Array:
    codecs = sharded((5, 4)) if request.param == "shards" else None
    return ps.open(write(VALUES, (10, 8) if codecs else (5, 4), codecs))


@pytest.mark.parametrize("tile", [None, "chunk", (7, 23), (64, 64), (1, 5)], ids=str)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_tiles_cover_the_array_once_in_order(array, tile, depth):
    got = np.zeros_like(VALUES)
    with ps.stream(array, tile=tile, depth=depth) as tiles:
        seen = list(tiles)
        assert len(seen) == len(tiles)
        assert [each.index for each in seen] == list(itertools.product(*map(range, tiles.grid)))
    for each in seen:
        assert isinstance(each.data, np.ndarray)
        got[each.box] += each.data  # tiles are not overwritten while later ones are read
        np.testing.assert_array_equal(each.data, VALUES[each.box])
    np.testing.assert_array_equal(got, VALUES)


def test_tiles_are_shards_if_there_are_any(array):
    assert ps.stream(array).tile_shape == (array.shards or array.chunks)
    if array.shards is None:
        with pytest.raises(ValueError, match="has none"):
            ps.stream(array, tile="shard")


def test_arrays_without_dimensions_and_without_elements_are_streams_too():
    point = ps.create_array({}, shape=(), dtype="i4")
    point[()] = 7
    (tile,) = ps.stream(point)
    assert (tile.index, tile.box, int(tile.data)) == ((), (), 7)
    assert list(ps.stream(ps.create_array({}, shape=(0, 4), dtype="i4", chunks=(2, 2)))) == []


def test_tiles_are_read_ahead_up_to_the_depth():
    store = Slow(write(np.arange(40, dtype="i4"), (4,)), seconds=0)
    with ps.stream(ps.open(store), depth=2) as tiles:
        before = store.asked
        next(tiles)
        for _ in range(1000):
            if store.asked - before >= 3:
                break
            threading.Event().wait(0.01)
        assert store.asked - before == 3  # one returned, two ahead


def test_any_depth_reads_every_tile(array):
    count = len(list(ps.stream(array)))
    for depth in (2**32, 2**64 - 1):
        assert len(list(ps.stream(array, depth=depth))) == count


def test_threads_may_share_a_stream(array):
    tiles = ps.stream(array, tile=(2, 3), depth=4)
    seen: list[ps.Tile] = []
    threads = [threading.Thread(target=lambda: seen.extend(tiles)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.index for each in seen) == list(itertools.product(*map(range, tiles.grid)))
    for each in seen:
        np.testing.assert_array_equal(each.data, VALUES[each.box])
        assert each.data.flags.writeable


def test_threads_may_begin_a_stream_together(array):
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            tiles, seen = ps.stream(array), []
            together = threading.Barrier(4)

            def take(tiles=tiles, seen=seen, together=together):
                together.wait()
                seen.extend(tile.index for tile in tiles)

            threads = [threading.Thread(target=take) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert sorted(seen) == list(itertools.product(*map(range, tiles.grid)))
    finally:
        sys.setswitchinterval(before)


def test_a_stream_of_text_is_read_ahead_too():
    text = np.array([f"word {i}" for i in range(11)], "T" if hasattr(np.dtypes, "StringDType") else object)
    made = ps.create_array({}, shape=(11,), dtype=str, chunks=(4,))
    made[...] = text
    with ps.stream(made, depth=1) as tiles:
        assert [each.data.tolist() for each in tiles] == [text[:4].tolist(), text[4:8].tolist(), text[8:].tolist()]


def test_leaving_the_block_stops_the_stream(slow):
    store, _ = slow
    with ps.stream(ps.open(store), depth=3) as tiles:
        next(tiles)
    assert list(tiles) == []
    assert store.asked < 20


def test_a_tile_that_cannot_be_read_raises_when_it_is_reached():
    keys = write(np.arange(12, dtype="i4"), (4,))
    keys["c/1"] = b"damaged"
    tiles = ps.stream(ps.open(keys), depth=3)
    assert next(tiles).data.tolist() == [0, 1, 2, 3]
    with pytest.raises(ps.CorruptDataError, match="c/1"):
        next(tiles)
    assert list(tiles) == []


def test_arrays_that_cannot_be_streamed_are_refused(array):
    for options, text in [
        ({"tile": (3,)}, "dimensions"),
        ({"tile": (0, 4)}, "above 0"),
        ({"tile": "row"}, "row"),
        ({"depth": -1}, "depth"),
        ({"depth": 1.5}, "depth"),
        ({"tile": 4}, "dimensions"),
        ({"tile": (2, 2.5)}, "above 0"),
    ]:
        with pytest.raises(ps.InvalidArgumentError, match=text):
            ps.stream(array, **options)
    with ps.stream(array, np.array([7, 4]), depth=np.int64(1)) as tiles:
        assert tiles.tile_shape == (7, 4)


CROPS = [np.s_[i % 30 : i % 30 + 6, i % 15 : i % 15 + 8] for i in range(21)]


@pytest.mark.parametrize("batch_size", [1, 4, 21, 50])
@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("drop_last", [True, False])
def test_batches_are_the_crops_in_order(array, batch_size, depth, drop_last):
    got = list(ps.batches(array, CROPS, batch_size=batch_size, depth=depth, drop_last=drop_last))
    sizes = [len(each.numpy()) for each in got]
    whole, rest = divmod(len(CROPS), batch_size)
    assert sizes == [batch_size] * whole + ([rest] if rest and not drop_last else [])
    if got:
        want = np.stack([VALUES[crop] for crop in CROPS[: sum(sizes)]])
        np.testing.assert_array_equal(np.concatenate([each.numpy() for each in got]), want)
        assert all(each.dtype == VALUES.dtype for each in got)


@pytest.mark.parametrize("dtype", ["float32", "f8", "bfloat16", ml_dtypes.bfloat16, "float8_e4m3fn", "u4"])
def test_batches_are_cast(array, dtype):
    (got,) = ps.batches(array, CROPS[:3], dtype=dtype)
    want = np.stack([VALUES[crop] for crop in CROPS[:3]]).astype(got.dtype)
    assert got.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype) if isinstance(dtype, str) else dtype)
    assert got.numpy().tobytes() == want.tobytes()


def test_samples_choose_among_arrays(array):
    other = ps.open(write(-VALUES.astype("f4"), (5, 4)))
    samples = [("b", np.s_[0:2]), ("a", np.s_[3:5]), ("a", ps.oindex[[9, 1], :])]
    (got,) = ps.batches({"a": array, "b": other}, samples, dtype="f4")
    np.testing.assert_array_equal(got.numpy(), np.stack([-VALUES[0:2].astype("f4"), VALUES[3:5], VALUES[[9, 1]]]))
    (got,) = ps.batches([array, array], [(1, 5), (0, np.s_[6, :])])
    np.testing.assert_array_equal(got.numpy(), VALUES[5:7])
    (got,) = ps.batches(array, [np.s_[3, 4], np.s_[5, 6]])
    assert got.numpy().tolist() == [VALUES[3, 4], VALUES[5, 6]]


def test_samples_may_be_endless(array):
    made = ps.batches(array, itertools.cycle(CROPS), batch_size=2)
    assert all(next(made).shape == (2, 6, 8) for _ in range(40))
    made.close()


def test_large_batches_keep_their_memory():
    a = ps.open(write(np.arange(1 << 20, dtype="f4"), (1 << 16,)))
    got = [np.from_dlpack(each) for each in ps.batches(a, [np.s_[:]] * 5, batch_size=1)]
    for each in got:
        np.testing.assert_array_equal(each[0], np.arange(1 << 20))


def test_samples_that_make_no_batch_are_refused(array):
    signed = ps.open(write(VALUES.astype("i8"), (5, 4)))
    text = ps.create_array({}, shape=(3,), dtype=str)
    for arguments, words in [
        (((array, signed), [(0, 1)]), "set the dtype"),
        ((array, [np.s_[0:2], np.s_[0:3]]), "one shape"),
        (([array], [np.s_[0:2]]), "which array"),
        (([array], [(4, 1)]), "none of the arrays"),
        (([array], [("x", 1)]), "none of the arrays"),
        (([], [1]), "must be"),
        (("a", [1]), "must be"),
        ((array, [1], 0), "batch_size"),
        ((array, [1], 2.0), "batch_size"),
        ((array, [1], "2"), "batch_size"),
        ((array, [1], 1, "S3"), "cannot become"),
        ((text, [1], 1, "f4"), "cannot become"),
    ]:
        with pytest.raises(ValueError, match=words):
            list(ps.batches(*arguments))
    with pytest.raises(IndexError):
        list(ps.batches(array, [99]))
    with pytest.raises(ps.UnsupportedError, match="cuda"):
        ps.batches(array, [1], device="cuda")


class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self) -> Any:
        return pytest.importorskip("torch")

    @pytest.fixture
    def stored(self, tmp_path: Path) -> ps.Array:
        write(VALUES.astype("i4"), (5, 4), store=tmp_path / "a.zarr")
        return ps.open(tmp_path / "a.zarr")

    @pytest.mark.parametrize("workers", [0, 2])
    def test_crops_are_a_map_style_data_set(self, torch, stored, workers):
        from penstock.torch import Crops

        crops = Crops(stored, CROPS, dtype="float32", transform=lambda crop: crop + 1 if workers == 0 else crop)
        assert len(crops) == 21
        assert crops[2].shape == (6, 8)
        options = {"multiprocessing_context": "fork"} if workers else {}
        loader = torch.utils.data.DataLoader(crops, batch_size=4, num_workers=workers, **options)
        got = torch.cat(list(loader)).numpy()
        want = np.stack([VALUES[crop] for crop in CROPS]).astype("f4") + (workers == 0)
        np.testing.assert_array_equal(got, want)

    def test_workers_may_be_restarted(self, torch, stored):
        from penstock.torch import Batches

        batches = Batches(stored, batch_size=5)
        loader = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=1, multiprocessing_context="spawn")
        np.testing.assert_array_equal(torch.cat(list(loader)).numpy(), VALUES)

    @pytest.mark.parametrize("workers", [0, 3])
    @pytest.mark.parametrize("shuffle", [True, False])
    def test_ranks_and_workers_read_every_sample_once(self, torch, stored, workers, shuffle):
        from penstock.torch import Batches

        seen: list[int] = []
        for rank in range(4):
            batches = Batches(stored, batch_size=2, dtype="f8", shuffle=shuffle, rank=rank, world_size=4)
            options = {"multiprocessing_context": "fork"} if workers else {}
            got = list(torch.utils.data.DataLoader(batches, batch_size=None, num_workers=workers, **options))
            assert len(got) == len(batches) == 5
            rows = torch.cat(got).numpy()
            assert len(rows) == 9  # one of 37 is left over
            seen += [int(np.flatnonzero((row == VALUES).all(1))[0]) for row in rows]
        assert len(set(seen)) == 36
        if not shuffle:
            assert set(seen) == set(range(36))

    def test_epochs_have_different_orders(self, torch, stored):
        from penstock.torch import Batches

        batches = Batches(stored, batch_size=37, shuffle=True, seed=3)
        (first,), (again,) = list(batches), list(batches)
        batches.set_epoch(1)
        (second,) = batches
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
        np.testing.assert_array_equal(np.sort(second.numpy(), 0), np.sort(VALUES, 0))

    def test_arrays_become_tensors_of_torch(self, torch, stored):
        from penstock.torch import Batches, Crops, as_tensor

        assert as_tensor(stored).dtype == torch.int32
        assert as_tensor(stored[0:3].astype(ml_dtypes.bfloat16)).dtype == torch.bfloat16
        with pytest.raises(ValueError, match="rank is given without world_size"):
            Batches(stored, rank=1)
        with pytest.raises(ValueError, match="rank must"):
            Batches(stored, rank=4, world_size=4)
        with pytest.raises(ValueError, match="rows"):
            Crops([stored])
