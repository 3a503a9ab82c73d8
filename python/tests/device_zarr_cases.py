"""zarr-python's GPU buffers filled by Penstock, against the fake CUDA driver and a stand-in for CuPy: no GPU here.

A process of its own runs these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import ZARR_VERSION
from device_support import FakeCuda, cuda, fake_cuda_library
from support import fake_cupy

__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.random.default_rng(1).integers(0, 9, (70, 50)).astype("f4")
CODECS: dict[str, Any] = {
    "zstd": {},
    "sharded": {"shards": (28, 50)},
    "raw": {"compressors": None},
}


@pytest.fixture(autouse=True)
def modules(cuda: FakeCuda) -> Iterator[None]:
    fake_cupy.install(cuda)
    import penstock.zarr
    import zarr

    before = zarr.config.get("buffer"), zarr.config.get("ndbuffer")
    yield
    penstock.zarr.disable()
    zarr.config.set({"buffer": before[0], "ndbuffer": before[1]})
    penstock.zarr.stats(reset=True)


def written(store: Any, **options: Any) -> None:
    import zarr

    made = zarr.create_array(store=store, shape=VALUES.shape, dtype="f4", chunks=(7, 25), fill_value=3, **options)
    made[:63] = VALUES[:63]  # the last chunks are not there
    VALUES[63:] = 3


@pytest.mark.parametrize("kind", ["file", "memory"])
@pytest.mark.parametrize("codecs", CODECS)
def test_one_line_and_arrays_are_decoded_on_the_device(tmp_path: Path, codecs: str, kind: str) -> None:
    import penstock.zarr
    import zarr

    store: Any = str(tmp_path / "x.zarr") if kind == "file" else zarr.storage.MemoryStore()
    written(store, **CODECS[codecs])
    with penstock.zarr.enable(device="cuda", strict=True):
        z = zarr.open_array(store, mode="r")
        penstock.zarr.stats(reset=True)
        found = z[:]
        assert type(found) is fake_cupy.ndarray
        np.testing.assert_array_equal(found.get(), VALUES)
        np.testing.assert_array_equal(z[5:60:3, 4].get(), VALUES[5:60:3, 4])
        np.testing.assert_array_equal(z.oindex[[3, 60, 11], 2:9].get(), VALUES[[3, 60, 11], 2:9])
        # Not vindex: zarr-python makes an ndarray of its result, which CuPy refuses.
        assert set(penstock.zarr.stats()["read"]["paths"]) == {"device"}
        said = str(penstock.zarr.explain(z))
        assert "reads: device: encoded bytes go to the GPU" in said
        assert ("no codec" if codecs == "raw" else "on the device") in said
    assert type(zarr.open_array(store, mode="r")[:]) is np.ndarray


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="arrays are wrapped in zarr 3.4 and later")
def test_enable_gpu_is_enough_for_the_pipeline_and_for_wrapped_arrays(tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"))
    with penstock.zarr.enable(), zarr.config.enable_gpu():
        plain = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
        wrapped = penstock.zarr.wrap(plain)
        penstock.zarr.stats(reset=True)
        for z in (plain, wrapped):
            found = z[3:70, ::2]
            assert type(found) is fake_cupy.ndarray
            np.testing.assert_array_equal(found.get(), VALUES[3:70, ::2])
        assert penstock.zarr.stats()["read"]["paths"] == {"device": 2}
        assert "selections, read: device" in str(penstock.zarr.explain(wrapped))


def test_a_store_of_coroutines_gives_encoded_bytes_too(tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    class Slow(zarr.storage.MemoryStore):
        _supports_sync_io = False
        get_sync = None

        async def get(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            return await super().get(*args, **kwargs)

    for options in (CODECS["zstd"], CODECS["sharded"]):
        store = Slow()
        written(store, **options)
        with penstock.zarr.enable(device="cuda", strict=True):
            z = zarr.open_array(store, mode="r")
            np.testing.assert_array_equal(z[:].get(), VALUES)


def test_chunks_that_are_damaged_are_errors(tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"))
    path = tmp_path / "x.zarr" / "c" / "2" / "1"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x55
    content[len(content) // 2 + 1] ^= 0xAA
    path.write_bytes(content)
    with penstock.zarr.enable(device="cuda"):
        z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")

        def read() -> None:
            z[:]
            ps.current_context().synchronize()

        with pytest.raises((ps.Error, RuntimeError, ValueError)):
            read()


@pytest.mark.parametrize("bypass", [False, True])
@pytest.mark.parametrize("codecs", ["zstd", "sharded"])
def test_reads_return_ahead_of_the_device(cuda: FakeCuda, tmp_path: Path, codecs: str, bypass: bool) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"), **CODECS[codecs])
    with penstock.zarr.enable(device="cuda", strict=True, bypass=bypass):
        z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
        np.testing.assert_array_equal(z[:].get(), VALUES)
        with cuda.ahead():
            found = [z[:], z[:]]
        for each in found:
            np.testing.assert_array_equal(each.get(), VALUES)


def test_a_failure_on_the_device_is_raised_by_the_next_read(cuda: FakeCuda, tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"), compressors=zarr.codecs.ZstdCodec(checksum=True))
    path = tmp_path / "x.zarr" / "c" / "2" / "1"
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x55  # of the checksum, which the device looks at
    path.write_bytes(content)
    for bypass in (False, True):
        with penstock.zarr.enable(device="cuda", strict=True, bypass=bypass):
            z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r")
            failed = z[:]
            failed.get()  # the device is done
            with pytest.raises(ps.CorruptDataError, match="c/2/1") as caught:
                z[:7]
            assert "of an earlier read" in str(caught.value)
            np.testing.assert_array_equal(z[:7].get(), VALUES[:7])


def test_device_values_are_written(tmp_path: Path) -> None:
    import penstock.zarr
    import zarr

    written(str(tmp_path / "x.zarr"))
    with penstock.zarr.enable(device="cuda", strict=True):
        z = zarr.open_array(str(tmp_path / "x.zarr"), mode="r+")
        z[10:20] = fake_cupy.asarray(VALUES[20:30])
    expected = VALUES.copy()
    expected[10:20] = VALUES[20:30]
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "x.zarr"), mode="r")[:], expected)


@pytest.mark.parametrize("kind", ["file", "memory", "coroutines"])
@pytest.mark.parametrize("codecs", CODECS)
def test_device_values_come_through_page_locked_memory(
    cuda: FakeCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codecs: str, kind: str
) -> None:
    import penstock.zarr
    import zarr

    class Slow(zarr.storage.MemoryStore):
        _supports_sync_io = False
        get_sync = None

    store: Any = str(tmp_path / "x.zarr") if kind == "file" else zarr.storage.MemoryStore()
    written(store, **CODECS[codecs])
    if kind == "coroutines":
        store = Slow(store._store_dict)
    values = np.random.default_rng(2).random((35, 50)).astype("f4")
    expected = VALUES.copy()
    expected[14:49] = values  # whole chunks
    expected[50:55, 3:48] = values[:5, :45]
    expected[60:70] = values[:10, ::-1]
    expected[1] = 7
    given = fake_cupy.asarray(values), fake_cupy.asarray(values[:, ::-1].copy()), fake_cupy.asarray(np.float32(7))
    with penstock.zarr.enable(device="cuda", strict=True):
        z = zarr.open_array(store, mode="r+")
        with monkeypatch.context() as patched:
            patched.setattr(fake_cupy.ndarray, "get", None)
            z[14:49] = given[0]
            z[50:55, 3:48] = given[0][:5, :45]
            z[60:70] = given[1][:10]
            z[1] = given[2]
        # What lists name comes to the host as a whole.
        z.oindex[[5, 2], :] = given[0][:2]
        expected[[5, 2]] = values[:2]
        np.testing.assert_array_equal(z[:].get(), expected)


def test_devices_that_are_none_are_refused() -> None:
    import penstock.zarr

    with pytest.raises(ps.InvalidArgumentError, match="'cpu' or 'cuda'"):
        penstock.zarr.enable(device="gpu")
