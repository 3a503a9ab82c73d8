"""`penstock head --format png`: the first elements of an array as a picture."""

from __future__ import annotations

import os

from penstock.cli import storage
from penstock.cli.output import fail, write_out
from penstock.cli.parser import Parser
from penstock.cli.read import asks_for_picture, picture, png
from penstock.core.array import Array
from penstock.core.errors import Error, InvalidArgumentError, UnsupportedError

_MOST_ITEMS = 1000


def takes(arguments: list[str]) -> bool:
    """Whether `penstock head` with these arguments writes a PNG; the C++ program writes the other formats."""
    return asks_for_picture(arguments) and "--help" not in arguments and "-h" not in arguments


def main(arguments: list[str]) -> int:
    """Run the verb; returns the exit status."""
    as_json = "--json" in arguments
    parser = Parser("head", add_help=False)
    parser.add_argument("URI")
    parser.add_argument("-n", "--count", type=int, default=10)
    parser.add_argument("--format", choices=("text", "csv", "npy", "png"))
    parser.add_argument("--json", action="store_true")
    storage.add_flags(parser)
    try:
        given = parser.parse_args(arguments)
        if given.json:
            raise InvalidArgumentError("--json and --format png both write to stdout")
        if not 1 <= given.count <= _MOST_ITEMS:
            raise InvalidArgumentError(f"--count must be from 1 to {_MOST_ITEMS}, got {given.count}")
        if os.isatty(1):
            raise InvalidArgumentError("stdout is a terminal; redirect it to a file: penstock head ... > out.png")
        how = storage.options_of(given)
    except Error as error:
        return fail(error, as_json, 2)
    try:
        a = storage.open_source(given.URI, how)
        if not isinstance(a, Array):
            raise InvalidArgumentError(f"'{given.URI}' is a group, not an array")
        if a.dtype.kind not in "biufc":
            raise UnsupportedError(f"elements of {a.dtype} are not pixels", f"array '{a.uri}'")
        values = a[(0,) * (a.ndim - 2) + (slice(given.count),) * min(a.ndim, 2)]
        if not values.size:
            raise InvalidArgumentError(f"a picture of the shape {values.shape} has no pixels", f"array '{a.uri}'")
        write_out(png(picture(values.reshape(1, -1, values.shape[-1] if values.ndim else 1), a)))
    except Error as error:
        return fail(error, as_json)
    return 0
