"""`penstock convert`: writes another format, which the destination's name determines."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from typing import Any

from penstock._core import printable
from penstock.api.convert import convert, is_pattern
from penstock.api.rechunk import RechunkPlan
from penstock.cli import storage
from penstock.cli.output import fail, show
from penstock.cli.parser import Parser, at_least
from penstock.core.array import Array
from penstock.core.context import Context
from penstock.core.data_types import named_codec
from penstock.core.errors import Error, InvalidArgumentError
from penstock.core.group import Group
from penstock.core.sizes import parse_bytes

_EPILOG = """\
The name of DST chooses the format: .tif and .tiff a Cloud Optimized GeoTIFF, .h5, .hdf5, .nc and .nc4 HDF5 (by h5py),
.npy NumPy, everything else Zarr. A name with {} or {:05d} is that of many files (.npy, .raw and others).

Examples:
  penstock convert era5.nc era5.zarr --codec zstd --verify
  penstock convert scene.tif scene.zarr --verify
  penstock convert run.zarr run.h5
  penstock convert run.zarr 'run/x_{:05d}.npy' --rows 1000"""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "convert",
        description="Write an array or a group in another format",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SRC", help="a path or URI that penstock opens")
    parser.add_argument("target", metavar="DST", help="a path; a URI for Zarr")
    parser.add_argument("--chunks", help="of Zarr and HDF5: 64,64, or time=24,lat=-1 by name, or 8MiB")
    parser.add_argument("--shards", help="of Zarr: as --chunks, or 'auto' or 'none'; of many files: their number")
    parser.add_argument("--rows", type=at_least(1), help="of many files: rows of each")
    parser.add_argument("--codec", help="of Zarr: names (zstd, zstd:5 with its level), JSON, 'auto' or 'none'")
    parser.add_argument("--zarr-format", type=int, choices=(2, 3), help="of Zarr; default: the source's, or 3")
    parser.add_argument("--memory", help="of Zarr and .npy: for blocks of elements, such as 2GiB")
    parser.add_argument("--scratch", help="of Zarr: a folder for data that exceeds the memory limit")
    parser.add_argument("--dry-run", action="store_true", help="of Zarr: check all, print the plan; write nothing")
    parser.add_argument("--resume", action="store_true", help="of Zarr: continue an interrupted copy")
    parser.add_argument("--overwrite", action="store_true", help="replace the destination")
    parser.add_argument("--verify", action="store_true", help="read the copy and the source, and compare")
    parser.add_argument("--consolidate", action="store_true", help="of Zarr: also store a group's metadata at its root")
    parser.add_argument("--threads", type=at_least(1), metavar="N", help="default: one for each core")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    storage.add_flags(parser)
    return parser


def lengths(text: str | None, flag: str) -> Any:
    """Parse `64,64`, `time=1,lat=-1` or `8MiB`, the value of `flag`."""
    if text is None or text == "auto":
        return text
    parts = [part.strip() for part in text.strip("()[]").split(",")]
    try:
        if any("=" in part for part in parts):
            return {name.strip(): int(length) for name, _, length in (part.rpartition("=") for part in parts)}
        if len(parts) > 1 or parts[0].lstrip("-").isdecimal():
            return tuple(map(int, parts))
    except ValueError:
        raise InvalidArgumentError(f"{flag} takes lengths, such as 64,64 or time=1,lat=-1: '{text}'") from None
    parse_bytes(text, flag)
    return text


def main(arguments: list[str]) -> int:
    """Run the verb; returns the exit status."""
    as_json = "--json" in arguments
    try:
        given = _parser().parse_args(arguments)
        options: dict[str, Any] = {
            "chunks": lengths(given.chunks, "--chunks"),
            "shards": _shards(given.shards, given.target),
            "rows": given.rows,
            "codecs": _codecs(given.codec),
            "zarr_format": given.zarr_format,
            "memory": None if given.memory is None else parse_bytes(given.memory, "--memory"),
            "scratch": given.scratch,
        }
        how = storage.options_of(given)
    except Error as error:
        return fail(error, as_json, 2)
    except SystemExit as ended:  # --help
        return int(ended.code or 0)
    try:
        context = Context(threads=given.threads)
        made = convert(
            storage.open_source(given.source, how, context),
            given.target,
            **options,
            dry_run=given.dry_run,
            resume=given.resume,
            overwrite=given.overwrite,
            verify=given.verify,
            consolidate=given.consolidate,
            threads=given.threads,
            progress=os.isatty(2),
            context=context,
        )
        show(_described(made, given, as_json))
    except Error as error:
        return fail(error, as_json)
    return 0


def _described(made: Array | Group | RechunkPlan, given: argparse.Namespace, as_json: bool) -> str:
    if isinstance(made, RechunkPlan):
        steps = [dataclasses.asdict(step) for step in made.steps]
        text = printable(str(made), lines=True) or "nothing needs encoding"
        return json.dumps({"steps": steps}, indent=2) if as_json else text
    if as_json:
        return json.dumps({"source": given.source, "destination": given.target, "format": made.format}, indent=2)
    kind = f"an array {made.shape}" if isinstance(made, Array) else "a group"
    return f"{printable(given.target)}: {kind} in {made.format}"


def _shards(text: str | None, target: str) -> Any:
    if text == "none":
        return False
    if text is not None and is_pattern(target) and text.isdecimal():
        return int(text)
    return lengths(text, "--shards")


def _codecs(text: str | None) -> Any:
    if text is None or text == "auto":
        return text
    if text == "none":
        return []
    if text.startswith(("[", "{")):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InvalidArgumentError(f"--codec is not JSON: {error}") from None
    return [named_codec(each) if ":" in each else each for each in text.split(",")]
