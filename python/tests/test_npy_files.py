"""`.npy` files that `save` writes: byte for byte as NumPy's, from any values, in any place."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

DTYPES = [
    *(
        "?",
        "i1",
        "u2",
        ">i4",
        "<u8",
        "f2",
        ">f8",
        "g",
        "c8",
        ">c16",
        "G",
        "S3",
        "U2",
        ">U2",
        "V5",
        "M8[ns]",
        ">m8[10s]",
    ),
    [("a", ">i2"), ("b", "<f8", (2, 3))],
    {"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [2, 8], "itemsize": 24},
    [(("a title", "name"), "i4")],
    [("x" * 500 + str(number), "u1") for number in range(200)],  # these need a header of version 2
    [("\u00e4", "u1")],  # in Latin-1
    [("\u20ac", "u1")],  # of version 3
]
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (0,), (3, 0, 5), (3, 5, 4), (1, 9)]


def numpys(values: np.ndarray[Any, Any]) -> bytes:
    """The bytes that NumPy writes for the values in C order, which Penstock uses."""
    out = io.BytesIO()
    np.save(out, np.ascontiguousarray(values).reshape(values.shape))
    return out.getvalue()


def values_of(dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    made = np.dtype(dtype)
    count = int(np.prod(shape))
    raw = np.random.default_rng(7).integers(0, 100, count * made.itemsize, dtype="u1").tobytes()
    return np.frombuffer(raw, made, count).reshape(shape)


@pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[:20])
def test_a_saved_file_equals_numpys(tmp_path, dtype):
    for shape in SHAPES:
        values = values_of(dtype, shape)
        ps.save(tmp_path / "x.npy", values)
        assert (tmp_path / "x.npy").read_bytes() == numpys(values), shape


@pytest.mark.parametrize("sync", ["none", "objects"])
@pytest.mark.parametrize("dtype", ["i4", ">f8", [("a", ">i2"), ("b", "<f8")]])
def test_items_are_written_from_any_strides(tmp_path, dtype, sync):
    whole = values_of(dtype, (6, 7, 8))
    ways = [whole.T, np.asfortranarray(whole), whole[::2], whole[:, ::-1], whole[..., 1:5], whole[::-1, 2:3, ::-3]]
    ways += [np.broadcast_to(whole[0], (3, 7, 8)), whole[1, 2, 3, ...], np.array(whole[0, 0, 0])]
    with ps.Context(sync=sync):
        for values in ways:
            ps.save(tmp_path / "x.npy", values)
            assert (tmp_path / "x.npy").read_bytes() == numpys(values)
    assert os.listdir(tmp_path) == ["x.npy"]


def test_more_strided_items_than_one_buffer(tmp_path):
    whole = np.arange(3 * 1000 * 2003, dtype="u4").reshape(3, 1000, 2003)
    for values in (
        whole[:, :, 1:],
        whole[:, 1:],
        whole[:, 5:6, :],
        whole.reshape(1, -1)[:, ::2],
        whole.reshape(-1)[::-1],
    ):
        ps.save(tmp_path / "x.npy", values)
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), values)


def test_places_are_those_of_other_formats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = np.arange(6.0)
    for target in ("a.npy", tmp_path / "b.NPY", f"file://{tmp_path}/c%20d.npy", tmp_path / "new" / "e.npy"):
        ps.save(target, values)
        np.testing.assert_array_equal(ps.load(target), values)
    assert sorted(os.listdir()) == ["a.npy", "b.NPY", "c d.npy", "new"]
    ps.save("memory://npy_files/x.npy", values)
    np.testing.assert_array_equal(ps.load("memory://npy_files/x.npy"), values)
    Path("folder.npy").mkdir()
    with pytest.raises(ps.InvalidArgumentError, match="is a folder"):
        ps.save("folder.npy", values)


def test_a_refused_array_leaves_the_old_file(tmp_path):
    ps.save(tmp_path / "x.npy", np.arange(3))
    for bad in (np.array([{}]), np.zeros(3, "V0"), np.array(["a"], dtype=object)):
        with pytest.raises(ps.UnsupportedError, match="items of"):
            ps.save(tmp_path / "x.npy", bad)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.arange(3))
    assert os.listdir(tmp_path) == ["x.npy"]


@pytest.mark.parametrize("rank", [32, 33, 64])
def test_more_dimensions_than_the_engine_has_are_refused(tmp_path, rank):
    values = np.arange(3.0).reshape(3, *[1] * (min(rank, 32) - 1))
    literal = f"{{'descr': '<f8', 'fortran_order': False, 'shape': (3, {'1, ' * (rank - 1)})}}".ljust(309) + "\n"
    header = b"\x93NUMPY\x01\x00" + len(literal).to_bytes(2, "little") + literal.encode()
    (tmp_path / "x.npy").write_bytes(header + values.tobytes())
    (tmp_path / "x.raw").write_bytes(values.tobytes())
    opens = [
        lambda: ps.open(tmp_path / "x.npy"),
        lambda: ps.open_shards([tmp_path / "x.npy"]),
        lambda: ps.open_shards([tmp_path / "x.raw"], dtype="<f8", shape=(3, *[1] * (rank - 1))),
        lambda: ps.open_shards([tmp_path / "x.raw"], dtype="<f8", row_shape=[1] * (rank - 1)),
    ]
    for opened in opens:
        if rank == 32:
            np.testing.assert_array_equal(opened()[...].reshape(values.shape), values)
            continue
        with pytest.raises(ps.UnsupportedError, match="dimensions"):
            opened()


def test_values_of_more_dimensions_than_the_engine_has_are_refused(tmp_path):
    values = np.zeros((1,) * 33)
    for write in (
        lambda: ps.save(tmp_path / "x.npy", values),
        lambda: ps.save(tmp_path / "x.zarr", values),
        lambda: ps.save_shards(values, tmp_path / "x_{}.npy", rows=1),
        lambda: ps.save_shards(values, tmp_path / "x_{}.zarr", rows=1),
        lambda: ps.ShardWriter(str(tmp_path / "y_{}.raw")).write(values),
    ):
        with pytest.raises(ps.UnsupportedError, match="32 dimensions"):
            write()
