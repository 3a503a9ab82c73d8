"""The entry point that xarray finds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint

from penstock._errors import UnsupportedError, _make
from penstock.xarray._zarr import ZarrGroup, groups_below, open_group

_SUFFIXES = (".zarr", ".zarr.zip")


class PenstockBackendEntrypoint(BackendEntrypoint):
    """Zarr (v2 and v3, folders, archives and every store that `penstock.open` takes), read by Penstock.

    Datasets equal those of xarray's engine "zarr": variables, coordinates, attributes, decoding, encoding. They are
    lazy, hold nothing open, take no lock, and pickle as the place that they were opened from.
    """

    description = "Open Zarr with Penstock"
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """By name alone: nothing is opened."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        name = os.fspath(filename_or_obj)
        return isinstance(name, str) and name.rstrip("/").lower().endswith(_SUFFIXES)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool = True,
        decode_times: Any = True,
        concat_characters: bool = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: dict[str, Any] | None = None,
        zarr_format: int | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
    ) -> Dataset:
        """One group. What the parameters mean stands at `xarray.open_zarr`."""
        _check_mode(mode)
        place, node = open_group(filename_or_obj, _within(group), consolidated, storage_options, zarr_format)
        return _decode(
            ZarrGroup(place, node, use_zarr_fill_value_as_mask),
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: dict[str, Any] | None = None,
        zarr_format: int | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        **decoding: Any,
    ) -> dict[str, Dataset]:
        """A group and all below it, by path: "/", "/a", "/a/b"; where `group` is given, below that: ".", "a", "a/b"."""
        _check_mode(mode)
        place, node = open_group(filename_or_obj, _within(group), consolidated, storage_options, zarr_format)
        return {
            path: _decode(ZarrGroup(where, each, use_zarr_fill_value_as_mask), **decoding)
            for path, where, each in groups_below(place, node, "." if _within(group) else "/")
        }

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> DataTree:
        """The tree of a group and all below it."""
        return DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))


def _decode(store: ZarrGroup, **decoding: Any) -> Dataset:
    return StoreBackendEntrypoint().open_dataset(store, **decoding)


def _within(group: str | None) -> str:
    return "" if group is None else group.strip("/")


def _check_mode(mode: str) -> None:
    if mode != "r":
        raise _make(UnsupportedError, f"the engine opens datasets for reading: mode must be 'r', it is {mode!r}")
