"""xarray's engines over ours, for `tools/test_peers.py`: what opens a target, and how many reads the engine does."""

from __future__ import annotations

import inspect
import os
from typing import Any

from peer_counts import READS, NotByEngine, by_engine
from penstock.xarray import PenstockBackendEntrypoint

OURS = PenstockBackendEntrypoint()
KNOWN = set(inspect.signature(OURS.open_dataset).parameters)


def count_reads() -> None:
    """Each read of a variable by our engine is counted."""
    from penstock.interop.xarray.lazy import LazyArray
    from penstock.interop.xarray.tiff import RasterArray

    def counted(kind: Any, what: str) -> None:
        item, item_async = kind.__getitem__, kind.async_getitem

        def get(self: Any, key: Any) -> Any:
            READS[what] += 1
            return item(self, key)

        async def get_async(self: Any, key: Any) -> Any:
            READS[what] += 1
            return await item_async(self, key)

        kind.__getitem__, kind.async_getitem = get, get_async

    counted(LazyArray, "reads of variables")
    counted(RasterArray, "reads of images")


def replace_engines(*names: str) -> None:
    """Datasets that a test opens by these engines of xarray are opened by ours.

    An option that ours does not have, unless it is None, leaves the dataset to the peer's own engine.
    """
    from xarray.backends import list_engines

    count_reads()
    engines = list_engines()
    for name in names:
        if name in engines:
            kind: Any = type(engines[name])
            for method in ("open_dataset", "open_groups_as_dict", "open_datatree"):
                if method in vars(kind):
                    setattr(kind, method, replaced(name, getattr(kind, method), getattr(OURS, method)))


def replaced(name: str, own: Any, ours: Any) -> Any:
    def work(target: Any, options: dict[str, Any]) -> Any:
        target, options = as_ours(name, target, dict(options))
        without = {key: value for key, value in options.items() if key not in KNOWN}
        if set_ones := [key for key, value in without.items() if value is not None]:
            raise NotByEngine(f"the option {', '.join(sorted(set_ones))} of the engine {name}")
        if options.get("mode") is None:
            options.pop("mode", None)
        if options.get("zarr_format") is None:
            options.pop("zarr_format", None)
        return ours(target, **{key: value for key, value in options.items() if key in KNOWN})

    def opened(self: Any, filename_or_obj: Any, **options: Any) -> Any:
        return by_engine(
            "datasets opened", lambda: work(filename_or_obj, options), lambda: own(self, filename_or_obj, **options)
        )

    return opened


def as_ours(name: str, target: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The target and the options by our names."""
    if name == "kerchunk":
        if not isinstance(target, str | os.PathLike | dict):
            raise NotByEngine(f"references of the type {type(target).__name__}")
        inner = dict(options.pop("open_dataset_options", None) or {})
        inner.pop("consolidated", None)
        given = dict(options.pop("storage_options", None) or {})
        for ignored in ("lazy", "asynchronous", "skip_instance_cache"):
            given.pop(ignored, None)
        return "reference://", options | inner | {"storage_options": {"fo": target, **given}}
    if type(target).__module__ == "fsspec.mapping":
        raise NotByEngine("a mapping of fsspec")
    return target, options
