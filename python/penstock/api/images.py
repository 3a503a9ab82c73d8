"""Images of TIFFs as Zarr groups that xarray, rioxarray and GDAL open: with coordinates and a grid mapping."""

from __future__ import annotations

import base64
import os
import struct
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock import _core
from penstock.api.copy import CopyJob, place_of_copy
from penstock.api.create_options import check_format
from penstock.api.groups import create_group
from penstock.api.open import open
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.group import Group
from penstock.geo.image_attributes import attributes_of, grid_mapping_of
from penstock.geo.placed import warn_of_nodata
from penstock.geo.tiff import TiffArray

NAME, MAPPING = "band_data", "spatial_ref"  # as in rioxarray's datasets
_MOST_COORDINATES = 1 << 27  # of one axis


def is_placed(source: Any) -> bool:
    """Whether an image has a georeference or values with units, scales or the like: facts that an array alone does not
    hold."""
    if not isinstance(source, TiffArray) or source._is_mask or source.dimension_names != ("band", "y", "x"):
        return False
    placed = source.crs is not None or source._coefficients is not None or source.gcps or source.rpcs
    return bool(placed or any(each != 1 for each in source.scales) or any(source.offsets))


def write_image(
    source: TiffArray,
    target: Any,
    path: str,
    *,
    how: Mapping[str, Any],
    more: dict[str, Any],
    context: Context | None,
    target_options: Mapping[str, Any] | None,
) -> Group:
    """Write a group with the image's stored values, `band`, `y`, `x` and `spatial_ref`.

    An existing node is kept until all is written, in stores that can replace it.

    Parameters
    ----------
    how
        `chunks`, `shards`, `codecs` and `zarr_format` of the image.
    more
        As of `CopyJob`.
    """
    context = current_context() if context is None else context
    if how["zarr_format"] is not None:
        check_format(how["zarr_format"])
    if source.has_mask:
        warnings.warn(f"the mask of '{source.uri}' is not written to Zarr", UserWarning, stacklevel=3)
    warn_of_nodata(source, stacklevel=4)
    store, inside, own_format = place_of_copy(target, path, target_options, context, how["zarr_format"])
    zarr_format = own_format or 3
    how = {**how, "zarr_format": zarr_format}
    once = {**more, "overwrite": False}
    quiet = {**once, "verify": False, "progress": None}

    def job(of: Array, place: Any, name: str, lengths: Mapping[str, Any], options: dict[str, Any]) -> CopyJob:
        return CopyJob(of, place, name, **lengths, more=options, context=context)

    job(source, _core.dict_store({}), "", how, quiet).run(check_only=True)
    fresh = _core.replace(store, inside) if more["overwrite"] else None
    to, root = (store, os.fsdecode(inside)) if fresh is None else (fresh.store, "")
    try:
        create_group(
            to, root, zarr_format=zarr_format, overwrite=bool(more["overwrite"]) and fresh is None, context=context
        )
        image = job(source, to, f"{root}/{NAME}".lstrip("/"), how, once)
        image.run()
        _describe(image.open(), source)
        plain = {"chunks": None, "shards": None, "codecs": None, "zarr_format": zarr_format}
        for name, member in coordinates_of(source).arrays():
            job(member, to, f"{root}/{name}".lstrip("/"), plain, quiet).run()
        if fresh is not None:
            fresh.commit()
    finally:
        if fresh is not None:
            fresh.discard()
    made = open(store, os.fsdecode(inside), context=context)
    assert isinstance(made, Group)
    return made


def write_image_part(
    source: TiffArray,
    target: Any,
    path: str,
    *,
    how: Mapping[str, Any],
    more: dict[str, Any],
    target_options: Mapping[str, Any] | None,
) -> list[tuple[Any, ...]]:
    """`write_image` by several processes: the stage of `more["part"]`, whose plan is returned.

    All but the image is written by the process that prepares the copy.
    """
    context = current_context()
    if how["zarr_format"] is not None:
        check_format(how["zarr_format"])
    store, inside, own_format = place_of_copy(target, path, target_options, context, how["zarr_format"])
    zarr_format = own_format or 3
    how = {**how, "zarr_format": zarr_format}
    root = os.fsdecode(inside)
    image = CopyJob(source, store, f"{root}/{NAME}".lstrip("/"), **how, more=more, context=context)
    if more["part"][0] != "prepare":
        return list(image.run()["steps"])
    if source.has_mask:
        warnings.warn(f"the mask of '{source.uri}' is not written to Zarr", UserWarning, stacklevel=3)
    warn_of_nodata(source, stacklevel=4)
    plain: dict[str, Any] = {"chunks": None, "shards": None, "codecs": None, "zarr_format": zarr_format}
    group_job = {**more, "part": None, "verify": False}
    members = coordinates_of(source)
    CopyJob(create_group({}), store, root, **plain, more=group_job, context=context).run()
    steps = list(image.run()["steps"])
    _describe(image.open(), source)
    for name, member in members.arrays():
        CopyJob(member, store, f"{root}/{name}".lstrip("/"), **plain, more=group_job, context=context).run()
    return steps


def _describe(made: Array | Group, source: TiffArray) -> None:
    """Set the attributes of xarray's variable on the image, including its missing value in the form of its version."""
    attributes = attributes_in_group(source)
    attributes.pop("_FillValue", None)
    if source.dtype.kind == "c" and source.nodata is not None and made.format == "zarr3":
        attributes["_FillValue"] = [_in_base64(each) for each in (source.nodata, 0)]
    elif source.dtype.kind != "c" and source._held_nodata is not None:
        attributes |= _missing_value(made, source._held_nodata, source.uri)
    made.attrs.update(attributes)


def _missing_value(made: Any, nodata: float, uri: str) -> dict[str, Any]:
    """The attribute of the missing value, in xarray's form: the copy has the value of the TIFF's own tag only, and a
    sidecar file may have another one."""
    if made.format == "zarr3":
        return {"_FillValue": _in_base64(nodata) if made.dtype.kind == "f" else int(nodata)}
    if made.fill_value is None:
        return {} if nodata != nodata else {"_FillValue": nodata}  # NaN is missing without an attribute
    if str(made.dtype.type(made.fill_value)) != str(made.dtype.type(nodata)):
        text = f"nodata {nodata} of '{uri}' is not written: Zarr 2 has one value, {made.fill_value} of the TIFF's tag"
        warnings.warn(text, UserWarning, stacklevel=5)
    return {}


def _in_base64(number: float) -> str:
    return base64.b64encode(struct.pack("<d", float(number))).decode()


def attributes_in_group(source: TiffArray) -> dict[str, Any]:
    """The attributes of the image as a variable of xarray; `_FillValue` has the image's type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bands that differ: the attributes have a list
        attributes, _ = attributes_of(source, False, False, source.dtype)
    for name, nothing in (("scale_factor", 1), ("add_offset", 0)):
        if attributes.get(name) == nothing:
            del attributes[name]
    if ("scale_factor" in attributes) != ("add_offset" in attributes) and not {"scales", "offsets"} & set(attributes):
        attributes.setdefault("scale_factor", 1.0)
        attributes.setdefault("add_offset", 0.0)
    return {**attributes, "grid_mapping": MAPPING}


def coordinates_of(source: TiffArray) -> Group:
    """The coordinates and the grid mapping, in memory."""
    group = create_group({})

    def add(name: str, values: Any, attributes: Mapping[str, Any], *names: str) -> None:
        group.create_array(name, data=np.asarray(values), dimension_names=names, attributes=attributes)

    add("band", np.arange(1, source.shape[0] + 1), {}, "band")
    add(MAPPING, np.int64(0), grid_mapping_of(source))
    a, b, c, d, e, f = source._coefficients or (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    height, width = source.shape[1:]
    even = b == d == 0 and max(height, width) <= _MOST_COORDINATES
    if even and not source.gcps and not source.rpcs:
        axes = _axes_of(source.crs)
        add("x", np.arange(width) * a + (a * 0.5 + c), axes.get("X", {}), "x")
        add("y", np.arange(height) * e + (e * 0.5 + f), axes.get("Y", {}), "y")
    return group


def _axes_of(crs: Any) -> dict[str, Mapping[str, Any]]:
    """CF's attributes of the axes X and Y; empty without pyproj."""
    if crs is None or isinstance(crs, str):
        return {}
    return {str(each["axis"]): each for each in crs.cs_to_cf() if "axis" in each}
