"""Shards and HDF5 files read into device memory, and arrays on several devices, against the fake driver.

test_device_shard.py runs these in a separate process.
"""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import DeviceArray, FakeCuda, cuda, fake_cuda_library

__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.arange(70 * 6, dtype="f4").reshape(70, 6)
KINDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (".npy", {}, {}),
    (".raw", {}, {}),
    (".npz", {}, {}),
    (".zarr", {}, {}),
    (".h5", {}, {"dataset": "x"}),
    (".h5", {"compression": "gzip", "shuffle": True}, {"dataset": "x"}),
    (".h5", {"chunks": (4, 3), "compression": "lzf"}, {"dataset": "x"}),
    (".parquet", {}, {"column": "x"}),
    (".arrow", {}, {"column": "x"}),
]


def shards(folder: Path, suffix: str, how: dict[str, Any], chosen: dict[str, Any]) -> ps.Array:
    if suffix in (".h5", ".parquet", ".arrow"):
        pytest.importorskip("h5py" if suffix == ".h5" else "pyarrow")
    ps.save_shards(VALUES, folder / f"p_{{}}{suffix}", rows=17, **how)
    opened: ps.Array = ps.open_shards(str(folder / f"p_*{suffix}"), **chosen)
    return opened


@pytest.mark.parametrize(("suffix", "how", "chosen"), KINDS)
def test_shards_of_every_kind(
    cuda: FakeCuda, tmp_path: Path, suffix: str, how: dict[str, Any], chosen: dict[str, Any]
) -> None:
    a = shards(tmp_path, suffix, how, chosen)
    np.testing.assert_array_equal(a.read(device="cuda:0").numpy(), VALUES)
    for key in (np.s_[16:18], np.s_[60:3:-7, 1:5], np.s_[:0], np.s_[34, 2:]):
        np.testing.assert_array_equal(a.read(key, device="cuda:1").numpy(), VALUES[key])
    out = DeviceArray(cuda, (20, 6), "f8", (8, 160))
    a.read(np.s_[10:30], out=out, device="cuda:0", dtype="f8", check=True)
    np.testing.assert_array_equal(out.get(), VALUES[10:30].astype("f8"))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_arrays_of_several_formats_are_joined_along_any_axis(cuda: FakeCuda, tmp_path: Path, axis: int) -> None:
    values = np.arange(12 * 70 * 33, dtype="u2").reshape(12, 70, 33) % 509
    parts: list[Any] = []
    how: list[dict[str, Any]] = [
        {"chunks": (5, 16, 8)},
        {"chunks": (3, 70, 33)},
        {"chunks": (4, 20, 6), "shards": (8, 40, 12)},
    ]
    for i, part in enumerate(np.array_split(values, [4, 5, 9], axis=axis)):
        if i == 3:
            ps.create_array(tmp_path / "p.tif", data=part, tiles=(16, 16), compress="deflate")
            parts.append(ps.open(tmp_path / "p.tif"))
        else:
            parts.append(ps.create_array(tmp_path / f"p_{i}.zarr", data=part, **how[i]))
    a = ps.open_shards(parts, axis=axis)
    np.testing.assert_array_equal(a.read(device="cuda:0").numpy(), values)
    for key in (np.s_[3:11, 4:60:7, ::-2], np.s_[::-1, 5], np.s_[:, :0], np.s_[..., 8:11]):
        np.testing.assert_array_equal(a.read(key, device="cuda:1").numpy(), values[key])
    lists = ([11, 0, 4], [69, 3, 3, 20], [1, 32])
    np.testing.assert_array_equal(a.read(ps.oindex[lists], device="cuda:0").numpy(), values[np.ix_(*lists)])
    points = ([11, 0, 4, 8], [69, 3, 3, 20], [1, 32, 16, 16])
    np.testing.assert_array_equal(a.read(ps.vindex[points], device="cuda:0").numpy(), values[points])
    few = values % 101 == 7
    np.testing.assert_array_equal(a.read(ps.vindex[few], device="cuda:1").numpy(), values[few])


@pytest.mark.parametrize("chunks", [[(16, 32), (16, 32)], [(16, 32), (8, 48)]])
def test_the_device_decodes_joined_arrays(cuda: FakeCuda, tmp_path: Path, chunks: list[tuple[int, int]]) -> None:
    values = np.arange(64 * 96, dtype="i4").reshape(64, 96) // 100
    parts = []
    for i, part in enumerate(np.split(values, 2)):
        ps.create_array(tmp_path / f"p_{i}.zarr", data=part, chunks=chunks[i], codecs=["zstd"])
        parts.append(ps.open(tmp_path / f"p_{i}.zarr"))
    joined = ps.open_shards(parts)
    for a in (joined, pickle.loads(pickle.dumps(joined))):
        assert re.search(r"\ncuda:0: zstd\(.*\) on the device\n", a.plan(device="cuda:0"))
        with ps.profile() as profile:
            np.testing.assert_array_equal(a.read(device="cuda:0", check=True).numpy(), values)
        stages = {each["what"]: each for each in profile.report["stages"]}
        # The encoded bytes are moved, and the device decodes all of them.
        assert stages["transfer"]["bytes_in"] == profile.report["store_bytes"] < values.nbytes
        assert stages["decode"]["bytes_out"] == values.nbytes


def test_fortran_order_and_swapped_byte_order(cuda: FakeCuda, tmp_path: Path) -> None:
    for number, part in enumerate(np.split(VALUES, [20, 20, 50])):
        np.save(tmp_path / f"F_{number}.npy", np.asarray(part, ">f4", order="F"))
    a = ps.open_shards(str(tmp_path / "F_*.npy"))
    np.testing.assert_array_equal(a.read(device="cuda:0").numpy(), VALUES)
    np.testing.assert_array_equal(a.read(np.s_[15:60:7, ::-1], device="cuda:0").numpy(), VALUES[15:60:7, ::-1])


def test_a_shard_that_changed_is_an_error(cuda: FakeCuda, tmp_path: Path) -> None:
    a = shards(tmp_path, ".npy", {}, {})
    (tmp_path / "p_2.npy").unlink()
    with pytest.raises(ps.ConflictError, match=r"p_2\.npy"):
        a.read(device="cuda:0").numpy()
    np.testing.assert_array_equal(a.read(np.s_[:34], device="cuda:0").numpy(), VALUES[:34])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("devices", [["cuda:0"], ["cuda:0", "cuda:1"], ["cuda:1", "cpu", "cuda:0", "cuda:1"]])
def test_each_device_has_its_tile(cuda: FakeCuda, tmp_path: Path, axis: int, devices: list[str]) -> None:
    cuda.configure(3, delay=20)
    a = shards(tmp_path, ".npy", {}, {})
    made = ps.load_tiles(a, devices, axis=axis, dtype="f8")
    cut = ps.tiles(a.shape, len(devices), axis=axis)
    assert [getattr(each, "device", "cpu") for each in made] == devices
    for each, part in zip(made, cut, strict=False):
        np.testing.assert_array_equal(np.asarray(each), VALUES[part].astype("f8"))


def test_devices_after_the_last_tile_have_no_values(cuda: FakeCuda, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES[:2])
    made = ps.load_tiles(tmp_path / "x.npy", ["cuda:0", "cuda:1", "cuda:0", "cpu"])
    assert [each.shape for each in made] == [(1, 6), (1, 6), (0, 6), (0, 6)]
    np.testing.assert_array_equal(made[1].numpy(), VALUES[1:2])


def test_reads_that_a_device_cannot_do_are_one_error(cuda: FakeCuda, tmp_path: Path) -> None:
    a = shards(tmp_path, ".npy", {}, {})
    (tmp_path / "p_4.npy").unlink()
    with pytest.raises(ps.ConflictError, match=r"p_4\.npy"):
        ps.load_tiles(a, ["cuda:0", "cpu"])
    with pytest.raises(ps.InvalidArgumentError, match="no device cuda:7"):
        ps.load_tiles(a, ["cuda:0", "cuda:7"])
