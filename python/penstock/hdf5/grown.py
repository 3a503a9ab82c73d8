"""Datasets that have fewer elements than their unlimited dimensions: netCDF shows the fill value after them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.core.array import Array
from penstock.core.group import Group
from penstock.references.objects import ReferencedArray


def storage_of(array: Array) -> dict[str, Any]:
    """How a dataset is stored; empty for other arrays."""
    return array.storage if isinstance(array, ReferencedArray) else {}


def unlimited_lengths(variables: Iterable[tuple[tuple[str, ...], Array]]) -> dict[str, int]:
    """The lengths of the unlimited dimensions of a group: for each, that of its longest variable.

    Parameters
    ----------
    variables
        The names of the dimensions of each variable, and the variable.
    """
    out: dict[str, int] = {}
    for names, array in variables:
        limits = storage_of(array).get("maxshape") or ()
        for name, most, length in zip(names, limits, array.shape, strict=False):
            if most is None:
                out[name] = max(length, out.get(name, 0))
    return out


def shape_in_netcdf(names: tuple[str, ...], array: Array, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a variable, with the lengths of its unlimited dimensions."""
    limits = tuple(storage_of(array).get("maxshape") or ())
    limits += (0,) * (array.ndim - len(limits))  # axes of array types do not grow
    return tuple(
        length if most is not None else lengths.get(name, length)
        for name, most, length in zip(names, limits, array.shape, strict=True)
    )


def grown_shapes(nodes: Iterable[tuple[str, Array | Group]]) -> dict[str, tuple[int, ...]]:
    """Of nodes by their paths, those that are shorter than their dimensions in netCDF, and their shapes there."""
    folders: dict[str, dict[str, tuple[tuple[str, ...], Array]]] = {}
    for path, node in nodes:
        if isinstance(node, Array) and node.dimension_names is not None and None not in node.dimension_names:
            names = tuple(str(each) for each in node.dimension_names)
            folders.setdefault(path.rpartition("/")[0], {})[path] = (names, node)
    grown = {}
    for arrays in folders.values():
        lengths = unlimited_lengths(arrays.values())
        for path, (names, array) in arrays.items():
            if (shape := shape_in_netcdf(names, array, lengths)) != array.shape:
                grown[path] = shape
    return grown
