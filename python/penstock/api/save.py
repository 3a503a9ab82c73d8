"""`save` and `load`: whole arrays and groups."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.api.copy import copy
from penstock.api.create import create_array
from penstock.api.create_options import check_name, format_for_new
from penstock.api.groups import create_group
from penstock.api.open import open
from penstock.api.written_values import check_is_array
from penstock.core import device as _device
from penstock.core.array import Array, Progress
from penstock.core.context import current_context
from penstock.core.data_types import as_ndarray, is_masked, is_masked_array, unmasked
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.core.group import Group
from penstock.core.progress import Shares, callback_of
from penstock.target.place import place_of


def save(
    target: Any,
    data: npt.ArrayLike | None = None,
    /,
    path: str = "",
    *,
    progress: Progress | bool | None = None,
    **arrays: Any,
) -> None:
    """Write one array, or several below a group: `save(uri, x)`, `save(uri, a=x, b=y)`. Replaces an existing node.

    The old array or group is kept until all of the new one is written (files, dicts). The name's suffix chooses the
    format: `.npy` is a NumPy file; `save("scene.tif", x, crs=32633, transform=...)` writes a Cloud Optimized GeoTIFF,
    with the options of `create_array`; names of formats that are not written here (`.nc`, `.h5`) are refused; all
    others are Zarr. A group is copied, as by `copy`. Attributes, dimension names and the fill value of Penstock's
    arrays are stored. Of xarray's DataArrays, attributes and dimension names are stored, but not coordinates (a warning
    names them).

    Parameters
    ----------
    target, path
        As for `create_array`.
    data
        The values of one array, or a group.
    progress
        True: a line on stderr, or a bar in a notebook; for a group, one for each array. A function: called with (bytes
        done, bytes in all) about ten times a second and at the end; for a group, those of each array in turn. Returning
        False stops (`CancelledError`). A `.npy` file of values in memory is reported when it is written.
    arrays
        Values of several arrays by name, below a new group. For a TIFF: options of `create_array`.

    Raises
    ------
    InvalidArgumentError
        Neither `data` nor `arrays` are given, or both are; an option that is not valid.
    UnsupportedError
        The format does not have such values.
    ReadOnlyError, PermissionDeniedError
        The store cannot be written to.

    Examples
    --------
    >>> ps.save("x.zarr", np.arange(12.0).reshape(3, 4))
    >>> ps.save("run.zarr", t=np.zeros((2, 3)), p=np.ones(3))
    >>> sorted(ps.load("run.zarr"))
    ['p', 't']
    >>> ps.save("x.npy", ps.open("x.zarr"))
    >>> ps.save("scene.tif", np.zeros((3, 64, 64), "u1"), crs=4326, transform=(0.1, 0, 5, 0, -0.1, 50))
    """
    if format_for_new(target, path) == "tiff":
        if data is None:
            raise InvalidArgumentError("a TIFF holds one array: save(name, x)")
        create_array(target, path, data=data, progress=progress, **{"overwrite": True, **arrays})
        return
    if data is None and not arrays:
        raise InvalidArgumentError("give one array, or arrays by name")
    if data is not None and arrays:
        named = ", ".join(f"{name}=..." for name in arrays)
        raise InvalidArgumentError(
            f"save(target, x) has options for TIFFs only: create_array(target, data=x, {named}) has those of Zarr. "
            "To write several arrays, name all of them: save(target, a=x, b=y)"
        )
    if data is not None:
        if isinstance(data, Group):
            copy(data, target, path, overwrite=True, progress=_of_each_array(progress))
        elif not path and _is_npy_name(target):
            save_npy(target, data, callback_of(progress, "writing"))
        else:
            create_array(target, path, data=data, overwrite=True, progress=progress)
        return
    _save_arrays(target, path, arrays, progress)


def _save_arrays(target: Any, path: str, arrays: Mapping[str, Any], progress: Progress | bool | None) -> None:
    """A group of new arrays, instead of a node that may be there."""
    check_name(target, path)
    for values in arrays.values():
        check_is_array(values)
    sizes = {name: int(getattr(values, "nbytes", 0)) for name, values in arrays.items()}
    shares = Shares(progress, "writing", sum(sizes.values()))
    place, inside = target, os.fsencode(path)
    if not isinstance(target, Group):
        place, inside = place_of(target, path, None, current_context())
    fresh = _core.replace(place, inside)
    zarr_format = 2 if isinstance(target, Group) and target.format == "zarr2" else 3
    if fresh is None and all(isinstance(values, np.ndarray) for values in arrays.values()):
        _save_members(create_group(target, path, overwrite=True), arrays, sizes, shares)
        return
    if fresh is None:  # the values may be read from the old node, which is erased first
        in_memory = create_group({}, zarr_format=zarr_format)
        _save_members(in_memory, arrays, sizes, shares)
        made = create_group(target, path, overwrite=True)
        for each in arrays:
            copy(in_memory[each], made, each)
        return
    try:
        _save_members(create_group(fresh.store, zarr_format=zarr_format), arrays, sizes, shares)
        fresh.commit()
    finally:
        fresh.discard()


def _of_each_array(progress: Progress | bool | None) -> Any:
    """The progress of a copy, which names the array: without the name, for a function."""
    if progress is None or isinstance(progress, bool):
        return progress
    report = callback_of(progress, "copying")
    return None if report is None else lambda _, done, total: report(done, total)


def _save_members(group: Group, arrays: Mapping[str, Any], sizes: Mapping[str, int], shares: Shares) -> None:
    for name, values in arrays.items():
        create_array(group, name, data=values, progress=shares.share(sizes[name]))


def _is_npy_name(target: Any) -> bool:
    if not isinstance(target, str | os.PathLike):
        return False
    return _core.driver_by_name(os.fsencode(target), current_context()) == "npy"


def save_npy(target: Any, data: Any, progress: Progress | None = None, memory: int | None = None) -> None:
    """Write a `.npy` file. An open array is read in blocks, of at most `memory` bytes together.

    `memory`: None: half of the context's limit.
    """
    check_is_array(data)
    if is_masked_array(data) and is_masked(data):
        raise InvalidArgumentError("a .npy file has no mask: write data.filled(value)")
    context = current_context()
    if progress is not None and isinstance(data, Array) and data.nbytes <= (memory or context._memory_limit // 2):
        shares, half = Shares(progress, "writing", data.nbytes), data.nbytes // 2
        data = np.asarray(data.read(progress=shares.share(half)))  # the engine would read it as one block
        progress = shares.share(data.nbytes - half)
    is_open = isinstance(data, Array)  # the engine reads it in blocks
    values: Any
    if isinstance(data, Array):
        values = data._opened()
    else:
        values = unmasked(as_ndarray(_device.to_host(data, context) if _device.is_device_value(data) else data))
    dtype = values.dtype
    if dtype.hasobject or dtype.kind == "T":
        raise UnsupportedError(f"items of {dtype} cannot be written without pickling them")
    if not dtype.itemsize:
        raise UnsupportedError(f"items of {dtype} have no bytes to be written")
    raw = np.dtype(f"V{dtype.itemsize}")
    descr = np.lib.format.dtype_to_descr(dtype)
    options = {"format": "npy", "shape": values.shape, "type": raw, "dtype": json.dumps(descr), "overwrite": True}
    options["memory"] = memory
    store, inside = place_of(target, "", None, context, is_object=True)
    _core.write_array(store, context, inside, options, values if is_open else values.view(raw), progress)


def load(target: Any, path: str | None = "", *, progress: Progress | bool | None = None, **options: Any) -> Any:
    """Read everything: an array as ndarray, a group as a dict of its children's values by name.

    Parameters
    ----------
    target, path, options
        As for `penstock.open`.
    progress
        True: a line on stderr, or a bar in a notebook. A function: called with (bytes done, bytes in all), those of all
        arrays together. Returning False stops (`CancelledError`).

    Returns
    -------
    numpy.ndarray or dict
        Values in memory of their own.

    Raises
    ------
    Error
        As for `penstock.open` and `Array.read`.

    Examples
    --------
    >>> ps.save("run.zarr", t=np.zeros((2, 3)), p=np.ones(3))
    >>> ps.load("run.zarr")["p"]
    array([1., 1., 1.])
    >>> ps.load("run.zarr", "t").shape
    (2, 3)
    """
    node = open(target, path, **options)
    if progress is None or progress is False:
        return _values(node)
    arrays = [node] if isinstance(node, Array) else [each for _, each in node.members(max_depth=None)]
    shares = Shares(progress, "reading", sum(each.nbytes for each in arrays if isinstance(each, Array)))
    return _values(node, shares)


def _values(node: Any, shares: Shares | None = None) -> Any:
    if isinstance(node, Array):
        return node[...] if shares is None else node.read(progress=shares.share(node.nbytes))
    return {name: _values(child, shares) for name, child in node.members()}
