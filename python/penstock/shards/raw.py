"""The contents of raw files: from the caller, or from JSON files next to them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.shards.files import complain, side_by_side
from penstock.shards.names import Files

COMMON = "_meta.json"
"""The sidecar of all files of a folder."""


@dataclass(frozen=True)
class _Told:
    """The contents of one sidecar file about one file."""

    dtype: str
    row_shape: tuple[int, ...] | None
    rows: int | None
    offset: int
    order: str


def raw_settings(
    found: Files, axis: int, dtype: Any, shape: Any, row_shape: Any, offset: int | None, order: str | None
) -> dict[str, Any]:
    """The engine's options for raw files. Those of the caller take precedence over those of sidecar files.

    Returns
    -------
    dict of dtype (`descr_text`), shape, row_shape, offset, fortran_order, and rows: of each file, or
    None if it is not known; empty: of no file.
    """
    rows: list[int | None] = []
    if dtype is None:
        told = _told(found, axis, shape is not None or row_shape is not None)
        dtype, row_shape_told = told[0].dtype, told[0].row_shape
        offset = told[0].offset if offset is None else offset
        order = told[0].order if order is None else order
        if shape is None and row_shape is None:
            row_shape = row_shape_told
            rows = [each.rows for each in told]
    if offset is not None and (not isinstance(offset, int) or offset < 0):
        raise InvalidArgumentError(f"offset is a number of bytes, not {offset!r}")
    text = descr_text(dtype)
    if not text.startswith("[") and np.dtype(dtype).itemsize == 0:
        raise UnsupportedError(f"items of {np.dtype(dtype)} have no bytes: how many there are cannot be known")
    return {
        "dtype": text,
        "shape": None if shape is None else _lengths("shape", shape),
        "row_shape": None if row_shape is None else _lengths("row_shape", row_shape),
        "offset": offset or 0,
        "fortran_order": order == "F",
        "rows": rows if any(each is not None for each in rows) else [],
    }


def _told(found: Files, axis: int, shape_is_given: bool) -> list[_Told]:
    """The sidecar's contents for each file; they must agree on all but the number of rows."""
    sidecars = _sidecars(found)
    names = [os.fsdecode(key) for key in found.keys]
    without = [name for name, (place, _) in zip(names, sidecars, strict=True) if not place]
    if without:
        raise InvalidArgumentError(
            f"'{without[0]}' is raw bytes: give dtype=, or write it into '{without[0]}.json' or '{COMMON}' next to it",
        )
    told = [_parse(name, *sidecar, axis) for name, sidecar in zip(names, sidecars, strict=True)]

    def common(each: _Told) -> tuple[Any, ...]:
        return each.dtype, each.offset, each.order, None if shape_is_given else each.row_shape

    others = [
        f"'{name}' ({place}): {common(each)}"
        for name, (place, _), each in zip(names, sidecars, told, strict=True)
        if common(each) != common(told[0])
    ]
    if others:
        what = f"{len(others)} of {len(names)} files do not go together with '{names[0]}', {common(told[0])}"
        raise InvalidArgumentError(complain(what, others))
    return told


def _parse(name: str, place: str, members: dict[str, Any], axis: int) -> _Told:
    """The contents of the sidecar at `place` for the file `name`."""
    dtype, order, offset = members.get("dtype"), members.get("order", "C"), members.get("offset", 0)
    if not isinstance(dtype, str | list) or order not in ("C", "F") or not isinstance(offset, int) or offset < 0:
        raise InvalidArgumentError(f"'{place}' has no dtype, order and offset of raw files: {members}")
    row_shape = members.get("row_shape", members.get("trailing_shape"))
    rows = members.get("rows")
    if isinstance(rows, dict):  # of the files of a folder, by name
        rows = rows.get(os.path.basename(name))
    if "shape" in members:
        shape = _lengths(f"shape of '{place}'", members["shape"])
        if not -len(shape) <= axis < len(shape):
            raise InvalidArgumentError(f"axis {axis} is none of '{name}', which has the shape {shape}")
        at = axis % len(shape)
        row_shape, rows = [*shape[:at], *shape[at + 1 :]], shape[at]
    if rows is not None and (not isinstance(rows, int) or rows < 0):
        raise InvalidArgumentError(f"'{place}' says that '{name}' has {rows!r} rows")
    lengths = None if row_shape is None else tuple(_lengths(f"row_shape of '{place}'", row_shape))
    return _Told(descr_text(dtype), lengths, rows, offset, order)


def _sidecars(found: Files) -> list[tuple[str, dict[str, Any]]]:
    """The key and the members of the sidecar of each file, its own before its folder's; ("", {}) if it has none."""
    names = [os.fsdecode(key) for key in found.keys]
    folders = sorted({name.rpartition("/")[0] for name in names})
    listed = dict(zip(folders, side_by_side(lambda folder: _listed(found, folder), folders), strict=True))
    common = {folder: f"{folder}/{COMMON}" if folder else COMMON for folder in folders}
    shared = dict(zip(folders, side_by_side(lambda folder: _members(found, common[folder]), folders), strict=True))

    def look(name: str) -> tuple[str, dict[str, Any]]:
        folder = name.rpartition("/")[0]
        there = listed[folder]
        for key in (f"{name}.json", f"{os.path.splitext(name)[0]}.json"):
            if (there is None or key in there) and (members := _members(found, key)) is not None:
                return key, members
        members = shared[folder]
        return ("", {}) if members is None else (common[folder], members)

    return side_by_side(look, names)


def _listed(found: Files, folder: str) -> set[str] | None:
    """The keys of a folder; None if the store cannot list."""
    try:
        return set(found.store.list(f"{folder}/" if folder else "", True))
    except UnsupportedError:
        return None


def _members(found: Files, key: str) -> dict[str, Any] | None:
    """The JSON object at `key`, or None."""
    text = found.store.get(key)
    if text is None:
        return None
    try:
        members = json.loads(bytes(text))
    except ValueError as failure:
        raise InvalidArgumentError(f"'{key}' is not JSON: {failure}") from None
    return members if isinstance(members, dict) else None


def _lengths(name: str, value: Any) -> list[int]:
    lengths = [value] if isinstance(value, int) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(each, int | np.integer) and each >= 0 for each in lengths):
        raise InvalidArgumentError(f"{name} is {value!r}, not lengths")
    return [int(each) for each in lengths]


def descr_text(dtype: npt.DTypeLike | list[Any]) -> str:
    """NumPy's type string, or JSON of its list of fields."""
    if isinstance(dtype, list) and all(isinstance(each, list) for each in dtype):
        return json.dumps(dtype)
    try:
        made = np.dtype(dtype)
    except TypeError as failure:
        raise InvalidArgumentError(f"dtype: {failure}") from None
    if made.names is not None:
        return json.dumps(made.descr)
    return str(made.name if made.kind == "V" and made.type is not np.void else made.str)
