"""Every kind of source with every writer: the values equal NumPy's, and zarr-python's own pipeline stores the same.

The matrix: kinds of source (`sources.SOURCES`) x writers x selections x data types.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import penstock as ps
import penstock.zarr as pz
import pytest
import zarr
from conftest import ZARR_VERSION
from sources import SOURCES, Subclass, numbered, read_only
from zarr.core.config import config
from zarr.storage import MemoryStore

SHAPE, CHUNKS = (12, 10), (5, 4)
DTYPES = ["f4", "i2", "?", "c8", "M8[s]", "m8[ms]", "U3", "S4", "T", "bfloat16"]
PENSTOCK_PIPELINE = {"codec_pipeline.path": "penstock.zarr.CodecPipeline"}

_rows, _columns = [1, 2, 7, 11], [0, 3, 4, 9]
_mask = np.arange(120).reshape(SHAPE) % 7 == 2
SELECTIONS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "all": (..., SHAPE),
    "basic": ((slice(2, 9), slice(1, 8)), (7, 7)),
    "row": ((3, slice(None)), (10,)),
    "steps": ((slice(1, 12, 3), slice(0, 10, 2)), (4, 5)),
    "oindex": ((_rows, _columns), (4, 4)),
    "vindex": ((_rows, _columns), (4,)),
    "mask": (_mask, (int(_mask.sum()),)),
    "blocks": ((slice(0, 2), 1), (10, 4)),
}


def dtype_of(name: str) -> np.dtype[Any]:
    if name == "T":
        return np.dtypes.StringDType()
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def blank(dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.kind == "T":
        return np.full(SHAPE, "", dtype)
    return np.full(SHAPE, "NaT", dtype) if dtype.kind in "mM" else np.zeros(SHAPE, dtype)


def assign(model: np.ndarray, kind: str, values: np.ndarray) -> None:
    """The result of a write of `values`, as an ndarray assigns them."""
    selection = SELECTIONS[kind][0]
    if kind == "oindex":
        selection = np.ix_(*selection)
    elif kind == "blocks":
        selection = (slice(0, 10), slice(4, 8))
    model[selection] = values


def write_to(target: Any, kind: str, source: Any) -> None:
    selection = SELECTIONS[kind][0]
    if kind in ("oindex", "vindex", "blocks"):
        getattr(target, kind)[selection] = source
    elif kind == "mask":
        target.vindex[selection] = source
    else:
        target[selection] = source


def made_of(name: str, values: np.ndarray, folder: Path) -> Any:
    make, fits = SOURCES[name]
    if not fits(values.dtype):
        return None
    if name.startswith("JAX"):
        pytest.importorskip("jax")
        import jax.numpy  # noqa: F401
    return make(values, folder)


def expected_of(source: Any, dtype: np.dtype[Any]) -> np.ndarray:
    return np.asarray(source).astype(dtype)


def raw(values: np.ndarray) -> Any:
    """The values of an array in a form in which NaT and NaN equal themselves."""
    return values.tolist() if values.dtype.kind == "T" else np.ascontiguousarray(values).tobytes()


def new_zarr(dtype: np.dtype[Any], name: str) -> tuple[Any, dict[str, Any]]:
    values: dict[str, Any] = {}
    store = MemoryStore(values)
    given: Any = "bfloat16" if name == "bfloat16" else dtype
    return zarr.create_array(store, shape=SHAPE, chunks=CHUNKS, dtype=given, config={"order": "C"}), values


def outcome_of(writer: str, dtype: np.dtype[Any], name: str, kind: str, source: Any) -> Any:
    """The bytes that zarr-python, our pipeline in it, or `wrap` stores; or the type of the exception."""
    with config.set({} if writer == "zarr-python" else PENSTOCK_PIPELINE):
        array, values = new_zarr(dtype, name)
        try:
            write_to(pz.wrap(array) if writer == "wrap" else array, kind, source)
        except Exception as error:
            return type(error)
    return {key: value.to_bytes() for key, value in values.items()}


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_accept_every_source(name: str, tmp_path: Path) -> None:
    dtype = dtype_of(name)
    for source_name in SOURCES:
        for kind, (selection, shape) in SELECTIONS.items():
            source = made_of(source_name, numbered(dtype, shape), tmp_path)
            if source is None:
                continue
            model = blank(dtype)
            assign(model, kind, expected_of(source, dtype))
            for by_write in (False, True) if kind in ("all", "basic", "row", "steps", "mask") else (False,):
                made = ps.create_array(
                    {}, shape=SHAPE, dtype="bfloat16" if name == "bfloat16" else dtype, chunks=CHUNKS
                )
                if by_write:
                    made.write(selection, source)
                else:
                    write_to(made, kind, source)
                assert raw(made[...]) == raw(model), (source_name, kind, by_write)


@pytest.mark.parametrize("name", DTYPES)
def test_the_plug_in_stores_the_bytes_of_zarr_python(name: str, tmp_path: Path) -> None:
    dtype = dtype_of(name)
    try:
        new_zarr(dtype, name)
    except Exception as error:
        pytest.skip(f"zarr-python has no such data type: {error}")
    kept, writers = 0, ("plug-in", "wrap") if ZARR_VERSION >= (3, 4) else ("plug-in",)
    for number, source_name in enumerate(SOURCES):
        for at, (kind, (_, shape)) in enumerate(SELECTIONS.items()):
            if name not in ("f4", "M8[s]") and (number + at) % 4:
                continue  # one of the other data types for each source
            source = made_of(source_name, numbered(dtype, shape), tmp_path)
            if source is None:
                continue
            theirs = outcome_of("zarr-python", dtype, name, kind, source)
            for writer in writers:
                ours = outcome_of(writer, dtype, name, kind, source)
                if isinstance(theirs, dict) and isinstance(ours, dict):
                    assert ours == theirs or decoded(ours) == decoded(theirs), (writer, source_name, kind)
                    kept += 1
                else:
                    assert ours == theirs, (writer, source_name, kind)
    assert kept > 20 * len(writers)


def decoded(values: dict[str, Any]) -> Any:
    with config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        store = MemoryStore({key: zarr.core.buffer.cpu.Buffer.from_bytes(value) for key, value in values.items()})
        return raw(np.asarray(zarr.open_array(store, mode="r")[...])), sorted(values)


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_are_created_from_every_source(name: str, tmp_path: Path) -> None:
    dtype = dtype_of(name)
    given: Any = "bfloat16" if name == "bfloat16" else dtype
    for source_name in SOURCES:
        source = made_of(source_name, numbered(dtype, SHAPE), tmp_path)
        if source is None:
            continue
        expected = expected_of(source, dtype)
        appended = ps.create_array({}, shape=(0, SHAPE[1]), dtype=given, chunks=CHUNKS)
        appended.append(source)
        with appended.appender() as gathers:
            gathers.append(source)
        twice = np.concatenate([expected, expected])
        assert raw(appended[...]) == raw(twice), source_name

        created = ps.create_array({}, data=source, chunks=CHUNKS)
        assert raw(created[...].astype(dtype)) == raw(expected), source_name
        saved: dict[str, Any] = {}
        ps.save(saved, source)
        assert raw(ps.open(saved)[...].astype(dtype)) == raw(expected), source_name


@pytest.mark.parametrize("name", ["f4", "i2", "u1"])
def test_images_are_created_from_every_source(name: str, tmp_path: Path) -> None:
    dtype = np.dtype(name)
    for source_name in SOURCES:
        source = made_of(source_name, numbered(dtype, SHAPE), tmp_path)
        if source is None:
            continue
        expected = np.asarray(source)
        ps.save(str(tmp_path / "image.tif"), source)
        read = np.asarray(ps.open(str(tmp_path / "image.tif"))[...]).reshape(SHAPE)
        assert np.array_equal(read, expected), source_name


@pytest.mark.parametrize("name", ["f4", "i2", "?", "c8", "M8[s]", "U3"])
def test_shards_are_created_from_every_source(name: str, tmp_path: Path) -> None:
    dtype = np.dtype(name)
    for source_name in SOURCES:
        source = made_of(source_name, numbered(dtype, SHAPE), tmp_path)
        if source is None:
            continue
        ps.save_shards(source, str(tmp_path / "shard_{}.npy"), rows=5)
        read = ps.open_shards(str(tmp_path / "shard_*.npy"))[...]
        assert raw(np.asarray(read).astype(dtype)) == raw(expected_of(source, dtype)), source_name


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["f4", "i2", "?", "c8", "M8[s]", "U3"])
def test_zarr_arrays_are_created_from_every_source(name: str, zarr_format: int, tmp_path: Path) -> None:
    dtype = np.dtype(name)
    for source_name in SOURCES:
        source = made_of(source_name, numbered(dtype, SHAPE), tmp_path)
        if source is None or not isinstance(source, np.ndarray):
            continue
        with config.set(PENSTOCK_PIPELINE):
            made = zarr.create_array({}, data=source, chunks=CHUNKS, zarr_format=zarr_format)  # type: ignore[arg-type]
            assert raw(np.asarray(made[...]).astype(dtype)) == raw(expected_of(source, dtype)), source_name


def test_xarray_writes_datasets_with_coordinates(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    values = numbered(np.dtype("f4"), SHAPE)
    with config.set(PENSTOCK_PIPELINE):
        for source_name in list(SOURCES)[1::2]:
            source = made_of(source_name, values, tmp_path)
            if not isinstance(source, np.ndarray):
                continue
            times = read_only(np.arange(12).astype("M8[s]").astype("M8[ns]"))
            wanted = xr.Dataset(
                {"a": (("t", "x"), source), "b": ("x", read_only(np.arange(10.0)))},
                coords={"t": times, "x": list("abcdefghij"), "y": ("x", np.broadcast_to(np.float32(3), 10))},
            )
            wanted.to_zarr(tmp_path / "set.zarr", mode="w", consolidated=False)
            found = xr.open_zarr(tmp_path / "set.zarr", consolidated=False).load()
            xr.testing.assert_equal(found, wanted)


def test_read_only_memory_is_not_read_into() -> None:
    values = numbered(np.dtype("f4"), SHAPE)
    stored = ps.create_array({}, data=values, chunks=CHUNKS)
    for out in (read_only(np.zeros(SHAPE, "f4")), read_only(np.zeros(SHAPE, "f4").view(Subclass))):
        with pytest.raises((ValueError, BufferError), match=r"read-only|written to"):
            stored.read(out=out)
        assert not out.any()
