"""xarray's variables in device memory, against the fake CUDA driver and a stand-in for CuPy, not on a GPU.

test_device_xarray.py runs these in a separate process.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from device_support import FakeCuda, cuda, fake_cuda_library
from support import fake_cupy

xr = pytest.importorskip("xarray")
__all__ = ["cuda", "fake_cuda_library"]

VALUES = np.random.default_rng(5).integers(0, 50, (3, 70, 90)).astype("u2")
WHERE = (10.0, 0.0, 500000.0, 0.0, -10.0, 5000000.0)
PICKS: dict[str, Any] = {
    "all": {},
    "one": {"y": 3, "x": 5},
    "slices": {"y": slice(10, 60, 7), "x": slice(None, None, -3)},
    "list": {"x": [80, 3, 3, 40]},
    "lists": {"y": [60, 1], "x": [80, 3, 40]},
    "points": {"y": xr.DataArray([60, 1, 7], dims="p"), "x": xr.DataArray([5, 80, 3], dims="p")},
    "points and a slice": {"y": xr.DataArray([60, 1], dims="p"), "x": slice(20, 30)},
}


@pytest.fixture(autouse=True)
def modules(cuda: FakeCuda) -> None:
    fake_cupy.install(cuda)


@pytest.fixture(params=["zarr", "zarr, masked", "tiff", "tiff, nodata", "tiff, nodata values", "tiff, mask"])
def place(request: Any, tmp_path: Path) -> tuple[Path, str]:
    """The location of one variable with dimensions (band, y, x), and its name."""
    if request.param.startswith("zarr"):
        made = xr.Dataset(
            {"v": (("band", "y", "x"), VALUES)},
            {"time": ("band", np.array(["2015-01-16", "2015-01-17", "2015-01-18"], "M8[ns]")), "x": np.arange(90.0)},
        )
        if "masked" in request.param:
            made.v.attrs |= {"_FillValue": np.uint16(7), "scale_factor": 0.5, "add_offset": 3.0}
        made.to_zarr(tmp_path / "x.zarr", zarr_format=2, encoding={"v": {"chunks": (1, 32, 32)}})
        return tmp_path / "x.zarr", "v"
    path = tmp_path / "x.tif"
    if "mask" in request.param:
        rasterio = pytest.importorskip("rasterio")
        options = {"driver": "GTiff", "width": 90, "height": 70, "count": 3, "dtype": "uint16", "tiled": True}
        with (
            rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
            rasterio.open(path, "w", blockxsize=32, blockysize=32, transform=rasterio.Affine(*WHERE), **options) as to,
        ):
            to.write(VALUES)
            to.write_mask(VALUES[0] > 20)
    else:
        items = {"NODATA_VALUES": "7 8 9"} if "values" in request.param else {}
        values = VALUES.copy()
        values[:, 3:30, 5:60] = np.array([7, 8, 9])[:, None, None]
        nodata = 7 if "nodata" in request.param else None
        ps.save(path, values, tiles=32, transform=WHERE, nodata=nodata, attributes=items)
    return path, "band_data"


def test_lists_and_points_read_nothing_else(place: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    path, name = place
    sizes, read = [], ps.Array.read

    def noted(array: ps.Array, *how: Any, **more: Any) -> Any:
        made = read(array, *how, **more)
        sizes.append(made.size)
        return made

    variable = xr.open_dataset(path, engine="penstock", device="cuda", cache=False)[name]
    monkeypatch.setattr(ps.Array, "read", noted)
    for pick in ("lists", "points"):
        sizes.clear()
        wanted = variable.isel(PICKS[pick])
        wanted.load()
        assert 0 < max(sizes) <= wanted.size, pick


@pytest.mark.parametrize("pick", PICKS)
@pytest.mark.parametrize("device", [{"device": "cuda"}, {"device_id": None}, {"device_id": 0}], ids=str)
def test_variables_of_both_formats_are_cupy_arrays(place: tuple[Path, str], device: dict[str, Any], pick: str) -> None:
    path, name = place
    wanted = xr.open_dataset(path, engine="penstock", cache=False)[name].isel(PICKS[pick])
    opened = xr.open_dataset(path, engine="penstock", cache=False, **device)
    got = opened[name].isel(PICKS[pick])
    values = got.variable._data.get_duck_array() if hasattr(got.variable._data, "get_duck_array") else got.data
    assert type(values) is fake_cupy.ndarray
    assert (got.dims, got.dtype) == (wanted.dims, wanted.dtype)
    np.testing.assert_array_equal(values.get(), wanted.values)
    for coordinate in opened[name].indexes:
        assert isinstance(opened[coordinate].values, np.ndarray), "indexes are pandas'"
    if name == "v":
        assert opened.time.dtype.kind == "M"


def test_lazy_arrays_on_a_device_load_asynchronously_and_pickle(place: tuple[Path, str]) -> None:
    path, name = place
    wanted = xr.open_dataset(path, engine="penstock")[name].values
    lazy = xr.open_dataset(path, engine="penstock", cache=False, device="cuda")[name]
    again = pickle.loads(pickle.dumps(lazy))
    loaded = asyncio.run(again.load_async()) if hasattr(again, "load_async") else again.load()
    assert type(loaded.data) is fake_cupy.ndarray
    np.testing.assert_array_equal(loaded.data.get(), wanted)


def test_labels_select_what_a_device_reads(place: tuple[Path, str], cuda: FakeCuda) -> None:
    path, name = place
    ours = xr.open_dataset(path, engine="penstock", cache=False, device="cuda")[name]
    labels = ours.x.values[[4, 70, 31]]
    wanted = xr.open_dataset(path, engine="penstock")[name].sel(x=labels)
    np.testing.assert_array_equal(ours.sel(x=labels).variable._data.get_duck_array().get(), wanted.values)
    nearest = ours.sel(x=labels[0] + 0.1, method="nearest").variable._data.get_duck_array()
    np.testing.assert_array_equal(nearest.get(), wanted.values[..., 0])


def test_values_are_complete_on_a_nonblocking_stream(cuda: FakeCuda, place: tuple[Path, str]) -> None:
    path, name = place
    wanted = xr.open_dataset(path, engine="penstock")[name].values
    stream, found = cuda.stream(), []

    def variable() -> Any:
        return xr.open_dataset(path, engine="penstock", cache=False, device="cuda")[name].variable._data

    def consume() -> None:
        cuda.push(0)
        with fake_cupy.current(stream):
            found.append(variable().get_duck_array().get())
        cuda.pop()

    variable().get_duck_array().get()  # the engine starts
    cuda.hold_kernels()
    consumer = threading.Thread(target=consume)
    consumer.start()
    consumer.join(0.3)
    waits = consumer.is_alive()
    cuda.hold_kernels(False)
    consumer.join()
    assert waits, "values were taken before any kernel ran"
    np.testing.assert_array_equal(found[0], wanted)


def test_trees_are_read_into_device_memory(tmp_path: Path) -> None:
    made = xr.DataTree.from_dict({"/": xr.Dataset({"a": ("p", [1.0, 2.0])}), "/b": xr.Dataset({"c": ("q", [3, 4])})})
    made.to_zarr(tmp_path / "t.zarr")
    tree = xr.open_datatree(tmp_path / "t.zarr", engine="penstock", device="cuda")
    for node, name in ((tree, "a"), (tree["b"], "c")):
        assert type(node[name].variable._data.get_duck_array()) is fake_cupy.ndarray


def test_reads_run_ahead_of_the_device_and_fail_later(cuda: FakeCuda, tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 8, (4, 4096)).astype("f4")
    made = ps.create_array(
        str(tmp_path / "x.zarr" / "v"), shape=values.shape, dtype="f4", chunks=(1, 4096), codecs=["zstd"]
    )
    made[...] = values
    file = tmp_path / "x.zarr" / "v" / "c" / "2" / "0"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40] = bytes(b ^ 0x5A for b in content[middle : middle + 40])
    file.write_bytes(content)
    from penstock.interop.xarray.lazy import LazyArray, Place
    from xarray.core import indexing

    lazy = LazyArray(Place(made.uri, ""), ps.open(made.uri), device="cuda")
    key = indexing.BasicIndexer((slice(None), slice(None)))
    lazy[key]  # the engine starts
    with pytest.raises(ps.CorruptDataError, match="c/2/0"):
        ps.current_context().synchronize()
    with cuda.ahead():
        lazy[key]
        asyncio.run(lazy.async_getitem(key))
    with pytest.raises(ps.CorruptDataError, match="c/2/0"):
        ps.current_context().synchronize()
