"""Rows of datasets whose members are opened one by one, as structured NumPy arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.array import Array
from penstock.core.errors import OutOfRangeError
from penstock.core.sizes import counted

if TYPE_CHECKING:
    from penstock.core.job import Job
    from penstock.hdf5.group import Hdf5Group


@dataclass(frozen=True)
class _Field:
    """A member of the elements."""

    name: str
    node: Array | list[_Field]  # a member, or those of a compound in it
    dtype: np.dtype[Any]  # of one element
    ndim: int  # of the dataset

    def start(self, selection: tuple[Any, ...]) -> _Reading:
        if isinstance(self.node, Array):
            is_one = len(selection) == self.node.ndim and all(isinstance(i, int | np.integer) for i in selection)
            return _Reading(self, self.node.read_async(selection), [], is_one)
        return _Reading(self, None, [each.start(selection) for each in self.node])


@dataclass(frozen=True)
class _Reading:
    field: _Field
    job: Job | None
    inner: list[_Reading]
    is_one: bool = False  # a single element, not an array of them

    def finish(self) -> npt.NDArray[Any]:
        if self.job is None:
            return _rows(self.inner)
        values = self.job.wait()
        dtype = self.field.dtype.base
        if dtype.kind != "O":
            return np.asarray(values)
        is_list = dtype.metadata is not None and dtype.metadata["vlen"] not in (str, bytes)
        return _in_array(values) if is_list and self.is_one else np.asarray(values, object)


def read_rows(table: Hdf5Group, selection: Any) -> Any:
    """The elements of a selection of the dataset: a structured array, or an element of one.

    Members are read at the same time, each from its own chunks. Text is `str`, lists are arrays, references are
    Penstock's paths. `dtype.metadata` of these members is that of h5py.
    """
    fields, _ = _fields(table)
    ndim = fields[0].ndim
    selected = _expanded(selection, ndim)
    rows = _rows([each.start(selected) for each in fields])
    return rows[()] if rows.ndim == 0 else rows


def _fields(table: Hdf5Group, depth: int = 0) -> tuple[list[_Field], list[tuple[int, ...]]]:
    """The members, and the shapes of the arrays of compounds that they are in, the outermost first.

    Parameters
    ----------
    depth
        The number of compounds that contain this one.
    """
    out: list[_Field] = []
    levels: list[tuple[int, ...]] = []
    for name in table.names_in_file_order:
        node = table[name]
        if isinstance(node, Array):
            levels = _levels(node, depth)
            dtype = cast(Any, node).storage["dtype"]  # of an Hdf5Array
            own = dtype.shape[sum(map(len, levels)) :]
            # Big-endian numbers are read in this machine's order.
            base = dtype.base if dtype.base.kind == "O" else node.dtype
            out.append(_Field(name, node, np.dtype((base, own)), node.ndim - len(dtype.shape)))
        else:
            inner, levels = _fields(node, depth + 1)
            out.append(_Field(name, inner, np.dtype((_dtype(inner), levels[depth + 1])), inner[0].ndim))
    return out, levels


def _levels(member: Array, depth: int) -> list[tuple[int, ...]]:
    stored = json.loads(_core.hdf5_storage(member)).get("levels", [[]] * (depth + 1))
    return [tuple(each) for each in stored]


def _dtype(fields: list[_Field]) -> np.dtype[Any]:
    return np.dtype([(each.name, each.dtype) for each in fields])


def _rows(readings: list[_Reading]) -> npt.NDArray[Any]:
    dtype = _dtype([each.field for each in readings])
    out: npt.NDArray[Any] | None = None
    for each in readings:
        values = each.finish()
        if out is None:
            out = np.empty(values.shape[: values.ndim - len(each.field.dtype.shape)], dtype)
        out[each.field.name] = values
    assert out is not None  # a compound has members
    return out


def _expanded(selection: Any, ndim: int) -> tuple[Any, ...]:
    """The selection with an index for each dimension of the dataset, so that it selects nothing within elements."""
    parts = selection if isinstance(selection, tuple) else (selection,)
    ellipses = [i for i, each in enumerate(parts) if each is Ellipsis]
    given = len(parts) - len(ellipses)
    if len(ellipses) > 1 or given > ndim:
        raise OutOfRangeError(
            f"the selection has {counted(given, 'index', 'indices')}, the dataset has {counted(ndim, 'dimension')}"
        )
    at = ellipses[0] if ellipses else given
    return (*parts[:at], *[slice(None)] * (ndim - given), *parts[at + 1 :])


def _in_array(one: Any) -> npt.NDArray[Any]:
    """An array of objects without dimensions, with one list."""
    out = np.empty(1, object)
    out[0] = one
    return out.reshape(())
