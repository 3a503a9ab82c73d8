"""Opens the columns of one Parquet or Arrow file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.errors import ConflictError, CorruptDataError, Error
from penstock.references.objects import UNPICKLABLE, open_described
from penstock.tabular.shards import open_tables
from penstock.tabular.table import BatchStore, Choice, batches_of, describe, import_pyarrow, version_of


def open_target(
    target: Any,
    path: str,
    context: Context,
    storage_options: Mapping[str, Any] | None,
    columns: str | Sequence[str] | None = None,
    nulls: Any = "error",
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """Columns of a file as one array: (rows, items...) for one name, (rows, columns, items...) for a list."""
    pa = import_pyarrow()
    if path:
        columns = path if columns is None else columns
    if isinstance(target, str) and "://" in target:
        return open_tables([target], columns, nulls, dtype, context, None, storage_options)
    target = os.path.abspath(target) if isinstance(target, str) else bytes(target)
    uri = f"file://{target}" if isinstance(target, str) else "memory:"
    before = version_of(target) if isinstance(target, str) else None
    try:
        batches = batches_of(target)
        choice = Choice.of(batches.schema, columns, nulls, dtype)
        store = BatchStore(batches, choice)
    except Error as error:
        raise type(error)(error.message, *error.notes, f"opening '{uri}'") from error.__cause__
    except (OSError, EOFError, pa.ArrowException, KeyError, ValueError) as error:
        raise CorruptDataError(f"pyarrow cannot read the file: {error}", f"opening '{uri}'") from error
    store.path, store.opened = target if isinstance(target, str) else None, before
    described = describe(store, uri)
    place = target if isinstance(target, str) else UNPICKLABLE
    made = open_described(
        described, context, (_reopen, (place, columns, nulls, None if dtype is None else choice.dtype.str))
    )
    if isinstance(target, str) and version_of(target) != before:  # reads require the version of the footer's file
        raise ConflictError("the file changed while its footer was read", f"opening '{uri}'")
    return made


def _reopen(path: str, columns: Any, nulls: Any, dtype: Any) -> Array:
    return open_target(path, "", current_context(), None, columns, nulls, dtype)
