"""The pytest plugin of `tools/test_peers.py`: puts Penstock in the place of a peer's own code."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pytest

SUITE = os.environ["PENSTOCK_PEERS_SUITE"]
MODE = os.environ["PENSTOCK_PEERS_MODE"]

if MODE in ("pipeline", "bypass"):
    import penstock.zarr

    # The processes of zarr-python's suite have the setting in their environment.
    if not SUITE.startswith("zarr") or MODE == "bypass":
        penstock.zarr.enable(bypass=MODE == "bypass")

if MODE == "engine" and SUITE in ("pyfive", "h5py"):
    import hdf5_peers

    if SUITE == "pyfive":
        hdf5_peers.enable_pyfive()
    else:
        hdf5_peers.enable_h5py()
elif MODE == "engine" and SUITE not in ("gdal", "conformance"):
    import xarray_peers

    if SUITE in ("xarray", "rioxarray"):
        xarray_peers.count_reads()
    elif SUITE == "dataset_io":
        xarray_peers.replace_engines("netcdf4", "h5netcdf", "scipy")
    else:
        xarray_peers.replace_engines("zarr", "kerchunk")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if MODE == "default":
        return
    import peer_counts

    if MODE in ("pipeline", "bypass"):
        peer_counts.count_pipeline()
    peer_counts.save(os.path.join(os.environ["PENSTOCK_PEERS_COUNTS"], f"{os.getpid()}.json"))


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    if MODE == "engine" and SUITE in ("xarray", "icechunk"):
        read_by_engine()
    for module in {getattr(each, "module", None) for each in items}:
        # zarr-python's benchmarks name a pipeline for each case.
        if MODE in ("pipeline", "bypass") and hasattr(module, "_PIPELINE_SETTINGS"):
            ours = {"codec_pipeline.path": "penstock.zarr.CodecPipeline"}
            module._PIPELINE_SETTINGS = dict.fromkeys(module._PIPELINE_SETTINGS, ours)
    if (path := os.environ.get("PENSTOCK_PEERS_ONLY")) is not None:
        with open(path) as file:
            names = set(file.read().splitlines())
        config.hook.pytest_deselected(items=[each for each in items if each.name not in names])
        items[:] = [each for each in items if each.name in names]


def read_by_engine() -> None:
    """Files that xarray's tests of netCDF4, h5netcdf and Zarr wrote are opened by our engine."""
    import xarray as xr
    from xarray.tests import test_backends as tests

    @contextlib.contextmanager
    def open_netcdf(self: Any, path: Any, **options: Any) -> Any:
        engine = self.engine if self.engine not in ("netcdf4", "h5netcdf") else "penstock"
        with xr.open_dataset(path, engine=engine, **options) as found:
            yield found

    @contextlib.contextmanager
    def open_zarr(self: Any, path: Any, **options: Any) -> Any:
        with xr.open_dataset(path, engine="penstock", **options, **self.version_kwargs) as found:
            yield found

    tests.DatasetIOBase.open = open_netcdf  # type: ignore[method-assign]
    tests.ZarrBase.open = open_zarr  # type: ignore[method-assign]


if MODE == "engine" and SUITE == "rioxarray":
    import rioxarray
    import xarray as xr

    own_open_rasterio = rioxarray.open_rasterio

    def open_rasterio(filename: Any, **options: Any) -> Any:
        """A GeoTIFF by our engine, with the options that it shares with rioxarray; everything else by rioxarray."""
        if not str(filename).endswith((".tif", ".tiff")) or options.get("band_as_variable"):
            return own_open_rasterio(filename, **options)
        masked, scaled = options.pop("masked", False), options.pop("mask_and_scale", False)
        known = ("parse_coordinates", "chunks", "cache", "default_name", "decode_times", "decode_timedelta")
        left = {name: value for name, value in options.items() if name not in known and name != "lock"}
        if left:
            return own_open_rasterio(filename, **options, masked=masked, mask_and_scale=scaled)
        options.pop("lock", None)
        chunks = options.get("chunks")
        if chunks in (True, "auto"):  # one pixel each, for xarray's own functions
            chunks = (1, "auto", "auto")
        if isinstance(chunks, tuple):  # these take no tuples
            options["chunks"] = dict(zip(("band", "y", "x"), chunks, strict=True))
        found = xr.open_dataset(filename, engine="penstock", masked=masked, mask_and_scale=scaled, **options)
        (name,) = found.data_vars
        made = found[name]
        made.encoding.setdefault("source", str(filename))
        if "default_name" not in options:
            made.name = None
        return made

    rioxarray.open_rasterio = open_rasterio
