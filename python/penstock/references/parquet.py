"""References as a folder of Parquet files, as fsspec and kerchunk write and read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock import _core
from penstock.core.errors import UnsupportedError
from penstock.core.group import Group

ROWS_PER_FILE = 100_000
"""As fsspec writes them."""


def parquet_files(
    group: Group, put: Callable[[str, bytes], None], rows_per_file: int = ROWS_PER_FILE
) -> list[tuple[str, str]]:
    """Write the files of a group of references, one after the other: `put(name, bytes)`; `.zmetadata` is the last.

    Returns the paths of the omitted arrays, and why.

    Source: fsspec.implementations.reference.LazyReferenceMapper.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        text = "writing references as Parquet needs the Python package pyarrow (pip install pyarrow)"
        raise UnsupportedError(text) from error
    documents, arrays, omitted = _core.exported_references(group)
    for path, grid, array in arrays:
        cells = int(np.prod(grid, dtype=np.uint64)) if grid else 1
        objects = _core.exported_objects(array)
        names = pyarrow.array([_text(name) for name, _ in objects], pyarrow.string())
        for number, begin in enumerate(range(0, cells, rows_per_file)):
            count = min(rows_per_file, cells - begin)
            table = _rows(pyarrow, array, objects, names, begin, count)
            sink = pyarrow.BufferOutputStream()
            pyarrow.parquet.write_table(table, sink, compression="zstd", use_dictionary=["path"])
            put(f"{_text(path)}/refs.{number}.parq", sink.getvalue().to_pybytes())
    metadata = {_text(key): _with_dots(json.loads(text)) for key, text in documents.items()}
    put(".zmetadata", json.dumps({"metadata": metadata, "record_size": rows_per_file}).encode())
    return omitted


def _rows(pyarrow: Any, array: Any, objects: Any, names: Any, begin: int, count: int) -> Any:
    columns = [np.frombuffer(each, np.uint64) for each in _core.exported_rows(array, begin, begin + count)]
    at = (columns[0] - np.uint64(begin)).astype(np.int64)
    number = np.zeros(count, np.int32)
    offsets, sizes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    number[at], offsets[at], sizes[at] = columns[1], columns[2], columns[3]
    absent = np.ones(count, bool)
    absent[at] = False
    raw: list[bytes | None] | None = None
    for which, (_, whole) in enumerate(objects):
        if whole is None:
            continue
        raw = [None] * count if raw is None else raw
        for row in at[columns[1] == which].tolist():
            length = int(sizes[row]) or len(whole)
            raw[row] = whole[int(offsets[row]) : int(offsets[row]) + length]
            absent[row] = True
            offsets[row] = sizes[row] = 0
    indices = pyarrow.array(number, pyarrow.int32(), mask=absent)
    table = {
        "path": pyarrow.DictionaryArray.from_arrays(indices, names).cast(pyarrow.string()),
        "offset": pyarrow.array(offsets),
        "size": pyarrow.array(sizes),
    }
    if raw is not None:  # fsspec treats a null as bytes unless it is None
        table["raw"] = pyarrow.array(raw, pyarrow.binary())
    return pyarrow.table(table)


def _with_dots(document: Any) -> Any:
    """Metadata whose chunk keys are those that fsspec looks up."""
    if isinstance(document, dict) and document.get("dimension_separator", ".") != ".":
        return {**document, "dimension_separator": "."}
    return document


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise UnsupportedError(f"a name that is not UTF-8 has no counterpart in references: {name!r}") from error
