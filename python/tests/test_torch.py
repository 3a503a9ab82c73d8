"""Arrays of shards as PyTorch's tensors over several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest

pytest.importorskip("torch")

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


def test_what_runs_backwards_becomes_a_tensor() -> None:
    from penstock.torch import as_tensor

    values = np.arange(12, dtype="f4").reshape(3, 4)
    for given in (values[::-1], values[:, ::-2], values[::2], values[1, ::-1][:0]):
        np.testing.assert_array_equal(as_tensor(given).numpy(), given)
    assert as_tensor(values).data_ptr() == values.ctypes.data
