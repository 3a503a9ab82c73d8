"""The contents of raw files: from the caller, or from JSON files next to them, which the engine reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.convert import as_dtype
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.shards.names import Files


def raw_settings(
    found: Files, axis: int, dtype: Any, shape: Any, row_shape: Any, offset: int | None, order: str | None
) -> dict[str, Any]:
    """The engine's options for raw files. Those of the caller take precedence over those of sidecar files.

    Returns
    -------
    dict of dtype (`descr_text`), shape, row_shape, offset, fortran_order, and rows: for each file, or None if not
    known; empty: for no file.
    """
    if offset is not None and (not isinstance(offset, int) or offset < 0):
        raise InvalidArgumentError(f"offset must be a number of bytes, got {offset!r}")
    text = None if dtype is None else descr_text(dtype)
    if text is not None and not text.startswith("[") and as_dtype(dtype).itemsize == 0:
        raise UnsupportedError(f"items of {as_dtype(dtype)} have no bytes: how many there are cannot be known")
    shape = None if shape is None else _lengths("shape", shape)
    row_shape = None if row_shape is None else _lengths("row_shape", row_shape)
    return found.found.raw_items(axis, text, shape, row_shape, offset, None if order is None else order == "F")


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
        made = as_dtype(dtype)
    except TypeError as failure:
        raise InvalidArgumentError(f"dtype: {failure}") from None
    if made.names is not None:
        return json.dumps(made.descr)
    return str(made.name if made.kind == "V" and made.type is not np.void else made.str)
