"""Zarr groups as xarray's datasets, by the rules of its own engine "zarr".

Those rules are https://docs.xarray.dev/en/stable/internals/zarr-encoding-spec.html: names of dimensions are those of
`dimension_names` (v3), from the attribute `_ARRAY_DIMENSIONS` or from NCZarr's `dimrefs` (v2).
"""

from __future__ import annotations

import base64
import json
import posixpath
import struct
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from xarray import Dataset, Variable
from xarray.backends.common import AbstractDataStore
from xarray.core import indexing

from penstock import _core
from penstock.core.array import Array
from penstock.core.errors import CorruptDataError, InvalidArgumentError, NotFoundError, UnsupportedError
from penstock.core.group import Group
from penstock.core.sizes import counted
from penstock.hdf5.file import is_compound, storage_of
from penstock.hdf5.group import Hdf5Group
from penstock.interop.xarray.encoding import codecs_of
from penstock.interop.xarray.lazy import Decoding, LazyArray, Place
from penstock.netcdf.file import NetcdfGroup
from penstock.references.objects import ReferencedArray
from penstock.target.place import place_of

DIMENSIONS = "_ARRAY_DIMENSIONS"


class ZarrGroup(AbstractDataStore):
    """The variables and attributes of one group, before CF decoding.

    `fill_value_is_mask`: the arrays' fill value is a missing value, as `_FillValue` is; None: it is in v2 only.
    `dropped`: names of variables that are not opened, so that an unreadable one can be omitted.
    """

    def __init__(
        self,
        place: Place,
        group: Group,
        fill_value_is_mask: bool | None,
        dropped: str | Iterable[str] | None = None,
    ) -> None:
        self._place, self._group = place, group
        self._masks = group.format == "zarr2" if fill_value_is_mask is None else fill_value_is_mask
        self._arrays = _arrays_of(group, {dropped} if isinstance(dropped, str) else set(dropped or ()))

    def get_variables(self) -> dict[str, Variable]:
        return {name: self._variable(name, array) for name, array in self._arrays.items()}

    def get_attrs(self) -> dict[str, Any]:
        return {key: value for key, value in self._group.attrs.items() if not key.lower().startswith("_nc")}

    def on_device(self, dataset: Dataset, device: str) -> Dataset:
        """The group's decoded variables, with their values in device memory: all numbers except indexes and single
        values.

        xarray decodes on the host only, so missing values, scale and offset are applied here.
        """
        moved = {}
        for name, variable in dataset.variables.items():
            array = self._arrays.get(str(name))
            if array is None or not variable.shape or variable.shape != array.shape or variable.dims == (name,):
                continue
            if array.dtype.kind not in "biufc" or variable.dtype.kind not in "biufc":
                continue
            array.read((slice(0, 0),) * array.ndim, device=device)  # reports missing packages at once
            decoding = _decoding_of(variable, array)
            lazy = LazyArray(self._place.child(str(name)), array, variable.dtype, device, decoding)
            data = indexing.LazilyIndexedArray(lazy)
            moved[name] = Variable(variable.dims, data, variable.attrs, variable.encoding)
        return dataset.assign_coords({k: v for k, v in moved.items() if k in dataset.coords}).assign(
            {k: v for k, v in moved.items() if k not in dataset.coords}
        )

    def _variable(self, name: str, array: Array) -> Variable:
        dimensions, attributes = self._described(name, array)
        text = array.dtype.kind == "O" and any(codec.get("name") == "vlen-utf8" for codec in array.codecs)
        dtype = np.dtype("O", metadata={"element_type": str}) if text else None  # xarray's mark for text
        data = indexing.LazilyIndexedArray(LazyArray(self._place.child(name), array, dtype))
        encoding: dict[str, Any] = {
            "chunks": array.chunks,
            "preferred_chunks": dict(zip(dimensions, array.chunks, strict=True)),
            "shards": array.shards,
            # References have codecs of other files, which are not the codecs to write a Zarr array with.
            **({} if isinstance(array, ReferencedArray) else codecs_of(array)),
        }
        if array.dtype.kind == "T":
            encoding["dtype"] = array.dtype
        if self._masks:
            if array.fill_value is not None:
                attributes["_FillValue"] = array.fill_value
        else:
            if array.format == "zarr3":
                encoding["fill_value"] = array.fill_value
            # References keep the attributes of v2 and of other formats: numbers as they are.
            plain = isinstance(array, ReferencedArray) and not isinstance(attributes.get("_FillValue"), str | list)
            if "_FillValue" in attributes and array.format != "hdf5" and not plain:
                attributes["_FillValue"] = _decode_fill_value(attributes["_FillValue"], array)
        return Variable(dimensions, data, attributes, encoding)

    def has_dimension(self, name: str) -> bool:
        """Whether a variable of the group has the dimension."""
        return any(name in self._described(each, array)[0] for each, array in self._arrays.items())

    def _described(self, name: str, array: Array) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Names of dimensions, and attributes without those that only hold names."""
        typed = array.typed_attributes if isinstance(array, ReferencedArray) else None
        attributes = array.attrs.asdict() if typed is None else typed
        if array.format in ("zarr3", "hdf5"):
            names: Any = array.dimension_names or ()
            if isinstance(self._group, Hdf5Group) and (None in names or len(names) != len(array.shape)):
                names = self._group.dimension_names(name)
            if None in names:
                names = ()
        else:
            names = attributes.pop(DIMENSIONS, None)
            if names is None:
                names = self._nczarr_dimensions(name)
            attributes = {key: value for key, value in attributes.items() if not key.lower().startswith("_nc")}
        if names is None or len(names) != len(array.shape):
            where = "`dimension_names`" if array.format == "zarr3" else f"attribute `{DIMENSIONS}` or NCZarr metadata"
            raise NotFoundError(
                f"array '{array.uri}' has no name for each of its {counted(len(array.shape), 'dimension')} ({where}): "
                f"xarray cannot show it: drop_variables={name!r} omits it, ps.open reads it",
            )
        return tuple(names), attributes

    def _nczarr_dimensions(self, name: str) -> list[str] | None:
        """NCZarr keeps the full names of the dimensions' paths in `.zarray`."""
        place = self._place.child(name)
        if isinstance(place.target, Group):
            return None
        store, inner = place_of(place.target, place.path, place.options.get("storage_options"))
        document = store.get(posixpath.join(inner.decode("utf-8", "surrogateescape"), ".zarray"))
        found = json.loads(document or b"{}").get("_NCZARR_ARRAY", {})
        names = found.get("dimrefs") if isinstance(found, dict) else None
        return None if names is None else [posixpath.basename(str(each)) for each in names]


def _no_variable(array: Array) -> str | None:
    """Why a dataset is not shown as a variable, as in netCDF's own library; None: it is shown."""
    if array.dtype.kind not in "OT":
        return None
    stored = storage_of(array)["dtype"].base.metadata or {}
    if "reference" in stored:
        return "references are not variables"
    return "xarray has no lists of variable length" if isinstance(stored.get("vlen"), np.dtype) else None


def _arrays_of(group: Group, dropped: set[str]) -> dict[str, Array]:
    if isinstance(group, Hdf5Group):
        made = {}
        for name in group.names_in_file_order:
            if name in dropped:
                continue
            try:
                node = group[name]
            except UnsupportedError as error:  # the other variables remain readable
                warnings.warn(f"'{name}' of {group.uri} is omitted: {error.message}", UserWarning, stacklevel=2)
                continue
            if not isinstance(node, Array):
                if is_compound(node):
                    words = f"'{name}' of {group.uri} is omitted: its members are variables of the group '{name}'"
                    warnings.warn(words, UserWarning, stacklevel=2)
                continue
            if why := _no_variable(node):
                warnings.warn(
                    f"'{name}' of {group.uri} is omitted: {why}, `ps.open` reads it", UserWarning, stacklevel=2
                )
                continue
            made[name] = node
        return made
    if isinstance(group, NetcdfGroup):
        names = [each["name"] for each in group.header["variables"]]
        return {name: group[name] for name in names if name not in dropped}  # type: ignore[misc]
    return {name: array for name, array in group.arrays() if name not in dropped}


def _decoding_of(variable: Variable, array: Array) -> Decoding:
    """Attributes that xarray applied: it moves them to the encoding."""
    encoding = variable.encoding
    if "_Unsigned" in encoding:
        raise UnsupportedError("integers of the other sign (_Unsigned) are decoded on the host only", array.uri)
    missing = [encoding[name] for name in ("_FillValue", "missing_value") if encoding.get(name) is not None]
    values = [each for one in missing for each in np.atleast_1d(one).tolist()]
    masked = variable.dtype.kind == "f" and any(name in encoding for name in ("_FillValue", "missing_value"))
    scale, offset = encoding.get("scale_factor"), encoding.get("add_offset")
    return Decoding(tuple(values) if masked else (), scale, offset)


def _decode_fill_value(value: Any, array: Array) -> Any:
    """`_FillValue` among the attributes of v3, in which xarray keeps floats as base64 of their bytes."""
    kind = array.dtype.kind
    try:
        if kind == "f":
            return _float_of(value)
        if kind == "c":
            return complex(_float_of(value[0]), _float_of(value[1]))
        if kind in "iu":
            return int(value)
        if kind == "b":
            return bool(value)
        if kind in "UTO" and isinstance(value, str):
            return value
        if kind == "S":
            return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, IndexError, struct.error) as error:
        message = f"attribute _FillValue is {value!r}, which is not a value of {array.dtype}: {error}"
        raise CorruptDataError(message, f"array '{array.uri}'") from None
    return value


def _float_of(text: Any) -> float:
    if not isinstance(text, str):
        raise TypeError("xarray keeps floats as base64 of eight bytes")
    made: float = struct.unpack("<d", base64.b64decode(text, validate=True))[0]
    return made


def open_group(
    target: Any,
    group: str,
    consolidated: bool | None,
    storage_options: dict[str, Any] | None,
    zarr_format: int | None,
) -> tuple[Place, Group]:
    """The group `group` of the hierarchy at `target`.

    Consolidated metadata belong to the root, so the root is opened first unless they are disabled.
    """
    options = {"storage_options": storage_options, "use_consolidated": consolidated}
    root = Place(target, "", options)
    node: Any = None
    if group and consolidated is not False:
        try:
            node = root.open()
        except NotFoundError:
            if consolidated:
                raise
        if isinstance(node, Group):
            node = node[group]
    if node is None:
        node = Place(target, group, options).open()
    if not isinstance(node, Group):
        raise InvalidArgumentError(f"'{node.uri}' is an array, not a group: xarray opens groups")
    if consolidated and isinstance(node, Hdf5Group | NetcdfGroup):
        raise InvalidArgumentError(f"consolidated is an option of Zarr, '{node.uri}' is {node.format}")
    if zarr_format is not None and node.format != f"zarr{zarr_format}":
        raise NotFoundError(f"'{node.uri}' is {node.format}, not Zarr format {zarr_format}")
    return Place(target, group, options), node


def groups_below(
    place: Place, group: Group, path: str, seen: set[str] | None = None
) -> Iterator[tuple[str, Place, Group]]:
    """(path, location, group) of a group, named `path`, and of all groups below it, parents first.

    A group with several links to it is visited once, by the first link: links of a file may refer to any group.
    """
    seen = set() if seen is None else seen
    identity = _core.group_identity(group)
    if identity in seen:
        return
    if identity:
        seen.add(identity)
    yield path, place, group
    for name, child in group.groups():
        below = Place(place.target, place.child(name).path, place.options)
        yield from groups_below(below, child, name if path == "." else posixpath.join(path, name), seen)
