"""Profiles of device reads, against the fake driver: these tests have not run on a GPU, and their times are the fake's.

They run in a separate process, because a process looks up the driver only once.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, assert_warm, cuda, fake_cuda_library, slow_device

__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.random.default_rng(1).integers(0, 9, (96, 64)).astype("f4")


def made(folder: Path, codecs: list[Any], chunks: tuple[int, int] = (32, 64)) -> ps.Array:
    array = ps.create_array(str(folder / "p.zarr"), shape=VALUES.shape, dtype="f4", chunks=chunks, codecs=codecs)
    array[...] = VALUES
    return array


def stages(profile: ps.Profile) -> dict[str, dict[str, Any]]:
    return {each["what"]: each for each in profile.report["stages"]}


def rows(profile: ps.Profile) -> dict[str, dict[str, Any]]:
    found = {row["name"]: row for row in profile.rows()}
    wall = found["Total"]["ms"]
    for name, row in found.items():
        assert 0 <= row["ms"] <= wall * 1.0001, name
    return found


def queue_sleep(cuda: FakeCuda, stream: int, seconds: float) -> Any:
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(seconds))
    assert cuda.driver.penstock_fake_cuda_enqueue(ctypes.c_void_p(stream), kernel, None) == 0
    return kernel


@pytest.mark.parametrize("delay", [0, 300])
def test_the_times_of_stages_are_within_the_total(cuda: FakeCuda, tmp_path: Path, delay: int) -> None:
    array = made(tmp_path, ["zstd"])
    mine = cuda.stream()
    cuda.configure(3, delay=delay)
    with ps.profile() as p:
        for each in [array.read(np.s_[:, 1:], device="cuda") for _ in range(4)]:
            each.order(mine)  # now all work is queued
    found, sums = rows(p), stages(p)
    for name in ("Read", "Transfer", "Decode", "Scatter"):
        assert found[name]["ms"] > 0, name
    assert "Compute" not in found
    # The profile has waited for the device at its end, so that its sums are complete.
    assert sums["transfer"]["bytes_in"] == p.report["store_bytes"] > 0
    assert sums["decode"]["bytes_out"] == 4 * VALUES.nbytes
    assert sums["scatter"]["bytes_out"] == 4 * VALUES[:, 1:].nbytes
    assert {each["worker"] for each in p.report["events"] if each["what"] == "transfer"} == {1050}


def test_a_transfer_takes_as_long_as_its_copies(cuda: FakeCuda, tmp_path: Path) -> None:
    array = made(tmp_path, ["zstd"])
    array.read(device="cuda").numpy()
    mine = cuda.stream()
    cuda.configure(3, lazy=True)
    with slow_device(cuda), ps.profile() as p:
        kept = queue_sleep(cuda, mine, 0.4)
        array.read(device="cuda", stream=mine).synchronize()  # decoding waits for the earlier work of the stream
    found = rows(p)
    assert kept
    assert found["Total"]["ms"] >= 350
    assert 0 < found["Transfer"]["ms"] < 200


def test_uncompressed_chunks_count_as_transfers(cuda: FakeCuda, tmp_path: Path) -> None:
    array, mine = made(tmp_path, []), cuda.stream()
    with ps.profile() as p:
        array.read(device="cuda").order(mine)
    found, sums = rows(p), stages(p)
    assert found["Transfer"]["ms"] > 0
    assert sums["transfer"]["bytes_out"] == VALUES.nbytes
    assert sums["decode"]["operations"] == 0
    assert found["Transfer"]["effective"] == found["Transfer"]["raw"] > 0
    assert found["Total"]["effective"] > 0


@pytest.mark.parametrize("codecs", [["zstd"], []])
def test_each_read_has_its_own_rows(cuda: FakeCuda, tmp_path: Path, codecs: list[Any]) -> None:
    array, mine = made(tmp_path, codecs), cuda.stream()
    wanted = [np.s_[:, 1:], np.s_[:32, 1:], np.s_[::7]]
    with ps.profile() as p:
        for each in [array.read(selection, device="cuda") for selection in wanted]:  # a wave has cells of several reads
            each.order(mine)
    found = p.rows(by="read")
    assert sorted({row["read"] for row in found}) == [0, 1, 2]
    of = {(row["read"], row["name"]): row for row in found}
    for number, selection in enumerate(wanted):
        assert of[number, "Scatter"]["effective"] * of[number, "Scatter"]["ms"] == pytest.approx(
            VALUES[selection].nbytes * 1e3
        )
        assert of[number, "Total"]["effective"] > of[number, "Total"]["raw"] * (1.01 if codecs else 0.9)
        assert of[number, "Transfer"]["effective"] > of[number, "Transfer"]["raw"] * (1.01 if codecs else 0.9)
    whole = rows(p)
    for name in ("Read", "Transfer", "Scatter"):
        parts = sum(row["raw"] * row["ms"] for row in found if row["name"] == name and row["raw"])
        assert parts == pytest.approx((whole[name]["raw"] or 0) * whole[name]["ms"]), name


def test_chunks_that_the_host_decodes_are_reported(cuda: FakeCuda, tmp_path: Path) -> None:
    array, mine = made(tmp_path, [{"name": "numcodecs.bz2", "configuration": {"level": 1}}]), cuda.stream()
    with ps.profile() as p:
        array.read(device="cuda").order(mine)
    assert stages(p)["decode"]["bytes_out"] == VALUES.nbytes
    assert stages(p)["decode"]["operations"] == 3
    assert rows(p)["Transfer"]["raw"] > 0


def test_work_on_tiles_has_its_own_row(cuda: FakeCuda, tmp_path: Path) -> None:
    array = made(tmp_path, ["zstd"], (16, 64))
    kept = []
    with ps.profile() as p, ps.stream(array, tile="chunk", device="cuda", depth=1) as tiles:
        for tile in tiles:
            kept.append(queue_sleep(cuda, tile.stream, 0.003))
    found, sums = rows(p), stages(p)
    assert sums["compute"]["operations"] == len(kept) == 6
    assert sums["compute"]["bytes_in"] == VALUES.nbytes
    assert found["Compute"]["ms"] >= 6 * 3
    assert "Compute" in p.table()
    p.save(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    for lane in ("copies", "compute 0", "compute 1"):
        assert f">{lane}<" in page


def test_a_tile_that_is_dropped_ends_its_work(cuda: FakeCuda, tmp_path: Path) -> None:
    array = made(tmp_path, ["zstd"], (16, 64))
    with ps.profile() as p:
        with ps.stream(array, tile="chunk", device="cuda", depth=1) as tiles:
            kept = queue_sleep(cuda, next(tiles).stream, 0.003)
        del tiles
    assert kept
    assert stages(p)["compute"]["operations"] == 1
    with ps.profile() as p:
        tiles = ps.stream(array, tile="chunk", device="cuda", depth=1)
        next(tiles)
        del tiles  # the end of its work is never reported
    assert stages(p)["compute"]["operations"] == 0


def test_without_a_profile_nothing_is_timed(cuda: FakeCuda, tmp_path: Path) -> None:
    array = made(tmp_path, ["zstd"])
    with ps.profile():
        array.read(device="cuda")
    assert_warm(cuda, lambda: array.read(device="cuda").synchronize(), ["cuEventCreate", "cuEventElapsedTime"])


def test_the_table_has_the_time_of_each_kernel(cuda: FakeCuda, tmp_path: Path) -> None:
    array = made(tmp_path, ["zstd"])
    with ps.profile() as p:
        array.read(device="cuda").synchronize()
    device = p.report["device"]
    assert 0 < device["computing_ns"] <= p.report["wall_ns"]
    assert 0 < device["copying_ns"] <= p.report["wall_ns"]
    assert device["computing_ns"] + device["copying_ns"] + device["waiting_ns"] >= p.report["wall_ns"]
    assert 0 <= device["storage_ns"] <= device["waiting_ns"]
    assert p.report["devices"] == {0: device}
    kernels = {each["name"]: each["launches"] for each in p.report["kernels"]}
    assert kernels["penstock_zstd_execute"] >= 1
    assert "device: computing " in p.table()
    assert "zstd_execute " in p.table()
    with ps.profile() as p:
        array[...]
    assert "device:" not in p.table()
    device = p.report["device"]
    assert (device["computing_ns"], device["copying_ns"]) == (0, 0)
    assert device["waiting_ns"] == p.report["wall_ns"] > device["storage_ns"] > 0
