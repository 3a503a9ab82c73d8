"""The memory of large results that zarr-python allocates and the plug-in replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3")
pytest.importorskip("penstock.zarr")

from conftest import ZARR_VERSION  # noqa: E402
from penstock.interop.zarr.recycled import exchange  # noqa: E402
from zarr.core.buffer import cpu  # noqa: E402

SHAPE = (1100, 1000)  # 8.8 MB of float64


@pytest.fixture
def values() -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).random(SHAPE)


@pytest.fixture
def array(tmp_path: Path, values: np.ndarray[Any, Any]) -> Any:
    made = zarr.create_array(tmp_path / "a.zarr", shape=SHAPE, dtype="f8", chunks=(300, 300), compressors=None)
    made[:] = values
    with zarr.config.set({"codec_pipeline.path": "penstock.zarr.CodecPipeline"}):
        return zarr.open_array(tmp_path / "a.zarr", mode="r")


@pytest.mark.skipif(ZARR_VERSION < (3, 4), reason="results are exchanged in zarr 3.4 and later")
def test_a_large_result_uses_recycled_memory(array: Any, values: np.ndarray[Any, Any]) -> None:
    first = array[:]
    assert not first.flags.owndata
    assert first.flags.writeable
    np.testing.assert_array_equal(first, values)
    second = array[:]  # other memory while the first result exists
    first[:] = 0
    np.testing.assert_array_equal(second, values)


def test_a_result_outlives_its_array(array: Any, values: np.ndarray[Any, Any]) -> None:
    result = array[:]
    del array
    np.testing.assert_array_equal(result, values)


def test_memory_that_a_caller_passes_is_written_to(array: Any, values: np.ndarray[Any, Any]) -> None:
    mine = np.zeros(SHAPE)
    array.get_basic_selection(slice(None), out=cpu.NDBuffer.from_numpy_array(mine))
    np.testing.assert_array_equal(mine, values)


def whole() -> list[tuple[slice, ...]]:
    return [(slice(0, 500), slice(0, 1000)), (slice(500, 1100), slice(0, 1000))]


def test_an_unshared_result_that_is_overwritten_is_replaced() -> None:
    buffer = cpu.NDBuffer(np.empty(SHAPE))
    exchange(buffer, whole())
    assert not buffer.as_ndarray_like().flags.owndata
    assert buffer.as_ndarray_like().shape == SHAPE
    assert buffer.as_ndarray_like().dtype == np.float64


@pytest.mark.parametrize(
    "selections",
    [
        whole()[:1],
        [(slice(0, 1100, 2), slice(0, 1000)), (slice(1, 1100, 2), slice(0, 1000))],
        [(np.arange(1100), slice(0, 1000))],
    ],
    ids=["a part", "steps", "index arrays"],
)
def test_memory_that_is_partly_overwritten_is_not_replaced(selections: list[Any]) -> None:
    buffer = cpu.NDBuffer(np.empty(SHAPE))
    exchange(buffer, selections)
    assert buffer.as_ndarray_like().flags.owndata


@pytest.mark.parametrize("keep", [lambda a: a, lambda a: a[1:], memoryview, lambda a: a.reshape(-1)])
def test_memory_with_another_reference_is_not_replaced(keep: Any) -> None:
    memory = np.ones(SHAPE)
    other = keep(memory)
    buffer = cpu.NDBuffer(memory)
    del memory
    exchange(buffer, whole())
    assert buffer.as_ndarray_like().flags.owndata
    assert np.asarray(other).flat[0] == 1


def test_fortran_order_and_small_memory_are_not_replaced() -> None:
    for memory in (np.empty(SHAPE, order="F"), np.empty((10, 10))):
        buffer = cpu.NDBuffer(memory)
        del memory
        exchange(buffer, [tuple(slice(0, n) for n in buffer.shape)])
        assert buffer.as_ndarray_like().flags.owndata
