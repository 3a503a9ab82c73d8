"""The entry point that xarray finds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import xarray.backends
from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint

from penstock.api.virtual import first_of
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.core.group import Group
from penstock.hdf5.group import Hdf5Group
from penstock.interop.xarray import accessor  # noqa: F401  registers `.penstock`
from penstock.interop.xarray.hdf5 import Hdf5Store
from penstock.interop.xarray.lazy import Place, settled_target
from penstock.interop.xarray.netcdf import NetcdfStore
from penstock.interop.xarray.tiff import UNSET, device_of, is_one_file, is_tiff, is_zarr_name, open_raster
from penstock.interop.xarray.virtual import VirtualPlace, VirtualStore
from penstock.interop.xarray.zarr import ZarrGroup, groups_below, open_group
from penstock.netcdf.file import NetcdfGroup
from penstock.target.sniff import format_by_name


class PenstockBackendEntrypoint(BackendEntrypoint):
    """Zarr (v2 and v3), HDF5, NetCDF (4 and classic), references and GeoTIFF in every store of `penstock.open`.

    Datasets of Zarr equal those of xarray's engine "zarr", of HDF5 those of "h5netcdf", and of TIFF those of
    rioxarray's: variables, coordinates, attributes, decoding, encoding. They are lazy, keep no files open, take no
    lock, and pickle as the location from which they were opened.

    Examples
    --------
    >>> import xarray as xr
    >>> ps.save("scene.tif", np.ones((2, 64, 64), "u2"), crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6))
    >>> scene = xr.open_dataset("scene.tif", engine="penstock")
    >>> scene["band_data"].dims, dict(scene.sizes)["x"]
    (('band', 'y', 'x'), 64)
    """

    description = "Open Zarr, GeoTIFF, HDF5, NetCDF and references with Penstock"
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether xarray should choose this engine if the caller names none; decided by the name only.

        True only if no other installed engine claims the target, or the variable PENSTOCK_XARRAY_GUESS is "1".
        """
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        name = os.fspath(filename_or_obj)
        if not isinstance(name, str):
            return False
        path = name.split("?")[0]
        if not is_zarr_name(path) and format_by_name(path) != "tiff":
            return False
        return os.environ.get("PENSTOCK_XARRAY_GUESS", "") == "1" or not _is_claimed(filename_or_obj)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool | None = None,
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
        cache_members: bool = True,
        convention: str = "rioxarray",
        masked: bool = False,
        parse_coordinates: bool | None = None,
        default_name: str = "band_data",
        band_as_variable: bool = False,
        page: int | Sequence[int] = 0,
        level: int = 0,
        bands: list[int] | None = None,
        variable: str | Sequence[str] | None = None,
        open_kwargs: dict[str, Any] | None = None,
        lock: Any = None,
        device: str | None = None,
        device_id: Any = UNSET,
        concat: str | None = None,
        sort: str | bool | None = None,
        missing: str = "error",
        attributes: str = "meaning",
        compare: str = "shape",
    ) -> Dataset:
        """One group of Zarr, one image of a TIFF (which `group` may name within a store), or many files (`concat`).

        `xarray.open_zarr` explains the parameters of Zarr; those of TIFF follow. Some are accepted and ignored:
        `cache_members` (members are looked up once), `lock` (reads need none) and, for TIFFs, the options of CF
        decoding other than `mask_and_scale`. Options that the target does not have are refused: those of TIFFs for a
        group, those of Zarr for a TIFF, those of many files without `concat`.

        Parameters
        ----------
        convention
            "rioxarray": as in rioxarray's engine. "plain": the variable is `raster`, bands are counted from 0 in uint8,
            and values are the file's own (`mask_and_scale` is then off by default).
        mask_and_scale, masked
            Missing pixels are NaN and scale and offset applied; `masked=True` with `mask_and_scale=False`: only the
            former.
        parse_coordinates
            False: no `x` and `y`.
        default_name, band_as_variable
            The variable's name; a variable for each band instead (`band_1`, ...).
        page, level, bands
            Which image, which overview (1: the largest), which bands (from 0), as in `penstock.open`.
        variable
            Only these variables of a group. For a TIFF, which has no subdatasets, it is ignored, and so is `group` if
            the target is the file itself.
        open_kwargs
            Options of `rasterio.open`: `overview_level` (0: the largest), and those that control how GDAL reads.
        device, device_id
            "cuda" or "cuda:1"; or 0, 1, ... and None for the current device: values are then CuPy's, except for
            indexes, times and texts.
        concat, sort, missing, attributes, compare
            `concat` is the name of a dimension: the target is a pattern or a list of files, as for
            `penstock.open_virtual`, which explains the others.

        Returns
        -------
        xarray.Dataset
            Its variables are lazy.

        Raises
        ------
        InvalidArgumentError
            The target is an array (other than of a TIFF), or does not have an option that is given.
        UnsupportedError
            `mode` is not "r", or an option of GDAL has no counterpart.
        Error
            As for `penstock.open`.
        """
        _check_mode(mode)
        decoding: dict[str, Any] = {
            "mask_and_scale": True if mask_and_scale is None else mask_and_scale,
            "decode_times": decode_times, "concat_characters": concat_characters, "decode_coords": decode_coords,
            "drop_variables": drop_variables, "use_cftime": use_cftime, "decode_timedelta": decode_timedelta,
        }  # fmt: skip
        chosen: dict[str, Any] = {"page": page, "level": level, "bands": bands}
        of_images = {
            "page": page != 0, "level": level != 0, "bands": bands is not None, "open_kwargs": bool(open_kwargs),
            "convention": convention != "rioxarray", "masked": masked,
            "parse_coordinates": parse_coordinates is not None, "default_name": default_name != "band_data",
            "band_as_variable": band_as_variable,
        }  # fmt: skip
        of_zarr = {"consolidated": consolidated is not None, "zarr_format": zarr_format is not None}
        _check_joining(concat, sort, missing, attributes, compare)
        if concat is not None:
            _refuse({**of_images, **of_zarr}, "is not supported for many files, which `concat` joins")
            how = {
                "concat": concat, "group": _within(group), "sort": sort, "missing": missing, "attributes": attributes,
                "compare": compare, "variables": None, "drop_variables": drop_variables,
                "storage_options": storage_options,
            }  # fmt: skip
            if variable is not None:
                how["variables"] = [variable] if isinstance(variable, str) else list(variable)
            files = VirtualPlace(_settled_files(filename_or_obj), "", {}, how)
            store = VirtualStore(files, files.open(), use_zarr_fill_value_as_mask, drop_variables, _store_of)
            return _decode(store, device_of(device, device_id), **decoding)
        named, filename_or_obj = filename_or_obj, settled_target(filename_or_obj)
        where = device_of(device, device_id)
        within = "" if group and is_one_file(filename_or_obj) else _within(group)
        if is_tiff(filename_or_obj, within, storage_options):
            of_zarr["use_zarr_fill_value_as_mask"] = use_zarr_fill_value_as_mask is not None
            _refuse(of_zarr, f"is an option of Zarr, {filename_or_obj!r} is a TIFF")
            chosen |= {"level": _level(level, open_kwargs or {}), "storage_options": storage_options}
            made = open_raster(
                filename_or_obj,
                within,
                options={key: value for key, value in chosen.items() if value},
                source=named,
                convention=convention,
                drop_variables=drop_variables,
                mask_and_scale=mask_and_scale,
                masked=masked,
                parse_coordinates=parse_coordinates,
                default_name=default_name,
                band_as_variable=band_as_variable,
                device=where,
            )
            made.set_close(_close)
            return made
        _refuse(of_images, f"is an option of TIFFs, {filename_or_obj!r} is not a TIFF")
        place, node = open_group(filename_or_obj, within, consolidated, storage_options, zarr_format)
        made = _decode(
            _store_of(place, node, use_zarr_fill_value_as_mask, drop_variables),
            where,
            **decoding,
        )
        if variable is None:
            return made
        chosen_variables = made[[variable] if isinstance(variable, str) else list(variable)]
        chosen_variables.set_close(_close)
        return chosen_variables

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
        device: str | None = None,
        device_id: Any = UNSET,
        concat: str | None = None,
        sort: str | bool | None = None,
        missing: str = "error",
        attributes: str = "meaning",
        compare: str = "shape",
        **decoding: Any,
    ) -> dict[str, Dataset]:
        """A group and all groups below it, by path: "/", "/a", "/a/b"; if `group` is given, below it: ".", "a",
        "a/b".

        With `concat`, the target is a pattern or a list of files: their groups are joined one by one, as by
        `open_dataset`. Groups without that dimension are those of the first file.
        """
        _check_mode(mode)
        _check_joining(concat, sort, missing, attributes, compare)
        on = device_of(device, device_id)
        target = settled_target(filename_or_obj) if concat is None else first_of(filename_or_obj, storage_options)
        place, node = open_group(target, _within(group), consolidated, storage_options, zarr_format)
        out = {}
        for path, where, each in groups_below(place, node, "." if _within(group) else "/"):
            store = _store_of(where, each, use_zarr_fill_value_as_mask, decoding.get("drop_variables"))
            if concat is None or not store.has_dimension(concat):
                out[path] = _decode(store, on, **decoding)
                continue
            out[path] = self.open_dataset(
                filename_or_obj, group=where.path, storage_options=storage_options, device=device, device_id=device_id,
                use_zarr_fill_value_as_mask=use_zarr_fill_value_as_mask, concat=concat, sort=sort, missing=missing,
                attributes=attributes, compare=compare, **decoding,
            )  # fmt: skip
        return out

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> DataTree:
        """The tree of a group and all groups below it."""
        return DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))


def _refuse(given: dict[str, bool], why: str) -> None:
    """Raise an error for the first option that is given."""
    for name, is_given in given.items():
        if is_given:
            raise InvalidArgumentError(f"{name} {why}")


def _check_joining(concat: str | None, sort: Any, missing: str, attributes: str, compare: str) -> None:
    """Refuse options for joining many files without `concat`, which names the dimension."""
    if concat is None:
        given = {
            "sort": sort is not None, "missing": missing != "error", "attributes": attributes != "meaning",
            "compare": compare != "shape",
        }  # fmt: skip
        _refuse(given, "is an option for many files, which `concat` joins: give concat, the name of a dimension")


def _settled_files(target: Any) -> Any:
    if isinstance(target, str | os.PathLike):
        return settled_target(target)
    return [settled_target(each) for each in target]


def _store_of(place: Place, group: Group, fill_value_is_mask: bool | None, dropped: Any) -> ZarrGroup:
    kind: type[ZarrGroup] = ZarrGroup
    if isinstance(group, Hdf5Group):
        kind = Hdf5Store
    elif isinstance(group, NetcdfGroup):
        kind = NetcdfStore
    if kind is not ZarrGroup and fill_value_is_mask is not None:
        raise InvalidArgumentError(f"use_zarr_fill_value_as_mask is an option of Zarr, '{group.uri}' is {group.format}")
    return kind(place, group, fill_value_is_mask, dropped)


def _is_claimed(target: Any) -> bool:
    """Whether another installed engine would open the target by xarray's rules."""
    for engine in xarray.backends.list_engines().values():
        if isinstance(engine, PenstockBackendEntrypoint):
            continue
        try:
            if engine.guess_can_open(target):
                return True
        except Exception:  # xarray ignores engines that fail here
            continue
    return False


def _decode(store: ZarrGroup, device: str | None, **decoding: Any) -> Dataset:
    made = StoreBackendEntrypoint().open_dataset(store, **decoding)
    made.set_close(_close)
    return made if device is None else store.on_device(made, device)


def _close() -> None:
    """No file is open. (xarray requires a function, and a dataset pickles with it.)"""


def _within(group: str | None) -> str:
    return "" if group is None else group.strip("/")


# Options of GDAL that control how it reads, and do not change the values.
_WITHOUT_EFFECT = ("sharing", "num_threads", "ignore_cog_layout_break", "mode", "thread_safe")


def _level(level: int, of_gdal: dict[str, Any]) -> int:
    """The level that the options of `rasterio.open` select."""
    for name, value in of_gdal.items():
        key = name.lower()
        drivers = [value] if isinstance(value, str) else value
        if key == "overview_level" and str(value).isdecimal() and level in (0, int(value) + 1):
            level = int(value) + 1
        elif not (key in _WITHOUT_EFFECT or (key == "driver" and {"GTiff", "COG"} & set(drivers or ("GTiff",)))):
            raise UnsupportedError(f"open_kwargs: {name}={value!r} has no counterpart here")
    return level


def _check_mode(mode: str) -> None:
    if mode != "r":
        raise UnsupportedError(f"the engine opens datasets for reading: mode must be 'r', got {mode!r}")
