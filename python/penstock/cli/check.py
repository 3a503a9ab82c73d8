"""`penstock check` of a manifest of tables, which Python opens."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from penstock import _core
from penstock._core import printable
from penstock.cli import storage
from penstock.cli.output import fail, show
from penstock.cli.parser import Parser, at_least
from penstock.core.context import current_context
from penstock.core.errors import ConflictError, CorruptDataError, Error
from penstock.core.sizes import counted
from penstock.references.manifest import open_target
from penstock.shards.files import side_by_side
from penstock.tabular.shards import JoinedTables, ManyBatches, ManyBatchStore, Table, check_unchanged
from penstock.tabular.table import Cell
from penstock.target.sniff import driver_of_bytes


def takes(arguments: list[str]) -> bool:
    """Whether one of the arguments is a manifest of tables. The C++ program reports what cannot be read."""
    for each in arguments:
        if not each.startswith("-") and os.path.isfile(each):
            with contextlib.suppress(OSError, ValueError, RecursionError), open(each, "rb") as stream:
                if driver_of_bytes(stream) == "references":
                    return bool(json.loads(stream.readline()).get("kind") == "tables")
    return False


def check(array: JoinedTables, threads: int) -> list[tuple[str, Error]]:
    """Decode every row group and compare every checksum; yields the failures in order."""
    batches = ManyBatches(array.tables)
    store = ManyBatchStore(batches, array.choice)

    def group(which: int) -> tuple[str, Error] | None:
        try:
            store.get(Cell(which, batches.rows[which]).key)
        except Error as error:
            return batches.name(which), error
        return None

    def file(table: Table) -> tuple[str, Error] | None:
        try:
            check_unchanged(table)
            if (
                table.crc32c is not None
                and "://" not in table.path
                and (found := _core.checksum_of_shard(os.fsencode(table.path))) != table.crc32c
            ):
                text = f"the file's CRC-32C is {found:08x}, its manifest has {table.crc32c:08x}"
                raise CorruptDataError(text)
        except OSError as error:
            wrong = error if isinstance(error, Error) else ConflictError(str(error))
            return f"file '{table.path}'", wrong
        except Error as error:
            return f"file '{table.path}'", error
        return None

    found = side_by_side(file, array.tables, threads) + side_by_side(group, range(len(batches.rows)), threads)
    return [each for each in found if each is not None]


def main(arguments: list[str]) -> int:
    """Run the verb. Returns its exit status."""
    parser = Parser("check")
    parser.add_argument("URI")
    parser.add_argument("--max-failures", type=at_least(0), default=100)
    parser.add_argument("--threads", type=at_least(1), default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    storage.add_flags(parser)
    try:
        given = parser.parse_args(arguments)
        how: dict[str, Any] = {"storage_options": None, **storage.options_of(given)}
    except Error as error:
        return fail(error, "--json" in arguments, 2)
    except SystemExit as ended:  # --help
        return int(ended.code or 0)
    report: dict[str, Any] = {"uri": given.URI, "ok": False, "arrays": []}
    try:
        array = open_target(given.URI, "", current_context(), **how)
        assert isinstance(array, JoinedTables)
        bad = check(array, max(1, given.threads))
        cells = sum(len(table.rows) for table in array.tables)
    except Error as error:
        bad, cells = [(given.URI, error)], 0
    report["ok"] = not bad
    failures = [{"cell": cell, "error": {"message": wrong.message}} for cell, wrong in bad[: given.max_failures]]
    report["arrays"].append({"path": "", "uri": given.URI, "cells": cells, "failed": len(bad), "failures": failures})
    lines = [f"{printable(cell)}: {printable(str(wrong), lines=True)}" for cell, wrong in bad[: given.max_failures]]
    if len(bad) > given.max_failures:
        lines.append(f"... and {len(bad) - given.max_failures} more")
    lines.append(f"{printable(given.URI)}: {counted(cells, 'row group')}, {counted(len(bad), 'failure')}")
    try:
        show(json.dumps(report) if given.json else "\n".join(lines))
    except Error as error:
        return fail(error, given.json)
    return 1 if bad else 0
