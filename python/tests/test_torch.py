"""Arrays of shards as PyTorch tensors over several processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

torch = pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "programs" / "torch_ranks.py"


def test_ranks_have_their_parts(tmp_path: Path) -> None:
    values = np.arange(23 * 5, dtype="f4").reshape(23, 5)
    np.save(tmp_path / "values.npy", values)
    ps.save_shards(values, str(tmp_path / "shard_{}.npy"), rows=6)
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    ranks = [
        subprocess.Popen([*command, str(rank), "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=180)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)
    assert all(text.split()[-1] == "passed" for text in said)


def test_parts_of_a_mesh_cover_the_array_once() -> None:
    from penstock.torch import local_part

    for shape, mesh, dims in [((7, 5), (2, 3), (0, 1)), ((3,), (5,), (0,)), ((9, 4), (2, 2), (0, 0))]:
        seen = np.zeros(shape, int)
        for at in np.ndindex(*mesh):
            seen[local_part(shape, mesh, at, dims)] += 1
        assert (seen == 1).all()
    assert local_part((6, 4), (2, 2), (1, 0), (None, 1)) == (slice(0, 6), slice(0, 2))


def test_negative_strides_become_a_tensor() -> None:
    from penstock.torch import as_tensor

    values = np.arange(12, dtype="f4").reshape(3, 4)
    for given in (values[::-1], values[:, ::-2], values[::2], values[1, ::-1][:0]):
        np.testing.assert_array_equal(as_tensor(given).numpy(), given)
    assert as_tensor(values).data_ptr() == values.ctypes.data


def numbers(batches: Iterable[Any]) -> list[list[int]]:
    return [batch[:, 0].tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_the_loaders_order_does_not_depend_on_workers_and_ranks(tmp_path: Path, workers: int) -> None:
    from penstock.torch import Loader
    from torch.utils.data import DataLoader

    values = np.arange(101 * 3, dtype="i4").reshape(101, 3)
    ps.create_array(tmp_path / "a.zarr", data=values, chunks=(7, 3))
    a = ps.open_array(tmp_path / "a.zarr")
    expected = numbers(batch.numpy() for batch in ps.loader(a, batch_size=4))
    whole = DataLoader(
        Loader(a, batch_size=4), batch_size=None, num_workers=workers, multiprocessing_context=SPAWN[workers]
    )
    assert numbers(whole) == expected
    full = Loader(a, batch_size=4, drop_last=True)
    assert len(full) == 25
    assert (
        numbers(DataLoader(full, batch_size=None, num_workers=workers, multiprocessing_context=SPAWN[workers]))
        == (expected[:25])
    )
    for name in ("ranks", "world_size"):
        halves = [Loader(a, batch_size=4, rank=rank, **{name: 2}) for rank in range(2)]
        assert [len(each) for each in halves] == [12, 12]
        got = [numbers(each) for each in halves]
        assert [batch for pair in zip(*got, strict=True) for batch in pair] == expected[:24]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rank": 1}, "rank is given without world_size"),
        ({"world_size": 2}, "world_size is given without rank"),
        ({"ranks": 2}, "ranks is given without rank"),
        ({"rank": 2, "world_size": 2}, "rank must be from 0 to 1, got 2"),
        ({"rank": 1, "ranks": 2, "world_size": 2}, "ranks and world_size are names of one option"),
    ],
)
def test_a_rank_and_the_number_of_ranks_are_given_together(given: dict[str, int], words: str) -> None:
    from penstock.torch import Batches, Loader, Rows

    a = ps.create_array({}, data=np.zeros((8, 2)))
    with pytest.raises(ps.InvalidArgumentError, match=words):
        Loader(a, batch_size=2, **given)
    if "ranks" not in given:
        with pytest.raises(ps.InvalidArgumentError, match=words):
            Batches(a, batch_size=2, **given)
        with pytest.raises(ps.InvalidArgumentError, match=words):
            Rows(a, 2, **given)


def test_batches_of_no_samples_are_refused() -> None:
    from penstock.torch import Batches

    a = ps.create_array({}, data=np.zeros((8, 2)))
    with pytest.raises(ps.InvalidArgumentError, match="at least 1"):
        Batches(a, batch_size=0)
    with pytest.raises(ps.InvalidArgumentError, match="at least 0"):
        Batches(a, depth=-1)


SPAWN = {0: None, 1: "fork", 3: "spawn"}


def test_a_loader_takes_both_names_of_the_ranks() -> None:
    from penstock.torch import Loader

    a = ps.create_array({}, data=np.arange(40.0, dtype="f4"), chunks=(5,))
    ours, theirs = (list(Loader(a, batch_size=4, rank=1, **{name: 2})) for name in ("ranks", "world_size"))
    assert [x.tolist() for x in ours] == [x.tolist() for x in theirs]
    assert len(ours) == 5
    with pytest.raises(ps.InvalidArgumentError, match="ranks and world_size"):
        Loader(a, rank=1, ranks=2, world_size=2)
    with pytest.raises(ps.InvalidArgumentError, match="world_size is given without rank"):
        Loader(a, world_size=2)


def test_a_loader_continues_after_its_state(tmp_path: Path) -> None:
    from penstock.torch import Loader

    image, label = np.arange(40 * 6, dtype="f4").reshape(40, 6), np.arange(40, dtype="i8")
    arrays = {
        "image": ps.create_array(tmp_path / "image.zarr", data=image, chunks=(5, 6)),
        "label": ps.create_array(tmp_path / "label.zarr", data=label, chunks=(9,)),
    }
    loader = Loader(arrays, batch_size=6, dtype={"image": "bfloat16"}, device="cpu")
    whole = [batch["label"].tolist() for batch in loader]
    loader.set_epoch(0)
    first = []
    for batch in loader:
        assert batch["image"].dtype == torch.bfloat16
        assert batch["image"][:, 0].tolist() == torch.tensor(batch["label"] * 6).to(torch.bfloat16).tolist()
        first.append(batch["label"].tolist())
        if len(first) == 3:
            break
    state = loader.state_dict()
    other = Loader(arrays, batch_size=6, dtype={"image": "bfloat16"})
    other.load_state_dict(state)
    assert first + [batch["label"].tolist() for batch in other] == whole


def test_tensors_select_elements_as_ndarrays_do() -> None:
    values = np.arange(24, dtype="f4").reshape(4, 6)
    a = ps.create_array({}, data=values, chunks=(2, 3))
    mask, rows = torch.from_numpy(values > 10), torch.tensor([True, False, True, False])
    for got in (a[mask], a.vindex[mask], a.get_mask_selection(mask), a.read(ps.vindex[mask])):
        np.testing.assert_array_equal(got, values[values > 10])
    np.testing.assert_array_equal(a[rows], values[[0, 2]])
    np.testing.assert_array_equal(a.oindex[rows, torch.tensor([5, 1])], values[[0, 2]][:, [5, 1]])
    np.testing.assert_array_equal(a.oindex[torch.tensor(1), :], values[1])
    np.testing.assert_array_equal(a[torch.tensor(1), torch.tensor([2, 0])], values[1, [2, 0]])
    np.testing.assert_array_equal(a.vindex[torch.tensor([3, 1]), torch.tensor(2)], values[[3, 1], 2])
    with pytest.raises(ps.OutOfRangeError, match="has float32"):
        a[torch.tensor([1.0])]
    a[mask] = torch.tensor(-1.0)
    values[values > 10] = -1
    np.testing.assert_array_equal(a[...], values)
    a.oindex[rows, :] = torch.zeros(2, 6)
    np.testing.assert_array_equal(a[...][[0, 2]], 0)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_reads_into_tensors_of_types_that_numpy_lacks(name: str) -> None:
    values = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    kind = getattr(torch, name)
    a = ps.create_array({}, shape=(3, 4), dtype=name, chunks=(2, 3))
    a[...] = values.to(kind)
    made = torch.zeros(3, 4, dtype=kind)
    assert a.read(out=made) is made
    assert made.float().equal(values)
    wide = torch.zeros(4, 6, dtype=kind)
    a.read_async(out=wide.T[1:4, :], dtype=kind).wait()
    assert wide.T[1:4].float().equal(values)
    assert not wide.T[[0, 4, 5]].float().any()
    with pytest.raises(ps.OutputError, match="share memory"):
        a.read(out=torch.zeros(1, 4, dtype=kind).expand(3, 4))
    with pytest.raises(BufferError, match="gradient"):
        a.read(out=torch.zeros(3, 4, dtype=kind, requires_grad=True))


def test_a_negated_view_is_not_read_into() -> None:
    a = ps.create_array({}, data=np.ones(3, "f4"))
    out = torch.zeros(3, dtype=torch.complex64).conj().imag
    assert out.is_neg()
    with pytest.raises(ps.OutputError, match="negated"):
        a.read(out=out)


def test_dtypes_of_torch_name_those_of_reads_and_batches() -> None:
    from penstock.torch import Batches, Crops, Loader

    a = ps.create_array({}, data=np.arange(8, dtype="u1").reshape(4, 2))
    assert a.read(dtype=torch.float64).dtype == np.float64
    assert a.read_async(dtype=torch.float16).wait().dtype == np.float16
    assert Crops(a, dtype=torch.bfloat16)[1].dtype == torch.bfloat16
    assert next(iter(Batches(a, batch_size=2, dtype=torch.bfloat16))).dtype == torch.bfloat16
    pair = next(iter(Loader({"x": a}, batch_size=2, dtype={"x": torch.float32})))
    assert pair["x"].dtype == torch.float32
    with pytest.raises(ps.UnsupportedError, match="quint8"):
        a.read(dtype=torch.quint8)


@pytest.mark.parametrize("name", ["Rows", "Batches"])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_persistent_workers_see_the_epoch(tmp_path: Path, name: str, method: str) -> None:
    import penstock.torch
    from torch.utils.data import DataLoader

    a = ps.create_array(tmp_path / "a.zarr", data=np.arange(60).reshape(30, 2), chunks=(5, 2))
    kind = getattr(penstock.torch, name)
    batches = kind(a, batch_size=3, shuffle=True)
    loader = DataLoader(
        batches, batch_size=None, num_workers=1, multiprocessing_context=method, persistent_workers=True
    )
    for epoch in (0, 5, 2):
        batches.set_epoch(epoch)
        assert batches.epoch == epoch
        alone = kind(a, batch_size=3, shuffle=True)
        alone.set_epoch(epoch)
        assert numbers(loader) == numbers(alone)
    again = pickle.loads(pickle.dumps(batches))
    assert numbers(again) == numbers(batches)
    again.set_epoch(3)
    assert batches.epoch == 2
