"""Parsers of the verbs that are written in Python: their errors are those of the C++ verbs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from penstock.core.errors import InvalidArgumentError
from penstock.core.sizes import suggestion


class Parser(argparse.ArgumentParser):
    """The parser of `penstock VERB`. A wrong argument raises an error with the nearest option or value."""

    def __init__(self, verb: str, **options: Any) -> None:
        super().__init__(prog=f"penstock {verb}", allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise `InvalidArgumentError` with argparse's message."""
        _, begin, unknown = message.partition("unrecognized arguments: ")
        if begin:
            typed = next((each for each in unknown.split() if each.startswith("-")), "")
            message += suggestion(typed.partition("=")[0], [*self._option_string_actions])
        raise InvalidArgumentError(f"{message}; see '{self.prog} --help'")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        message = f"'{value}' is not one of {', '.join(known)}{suggestion(str(value), known)}"
        raise argparse.ArgumentError(action, message)


def at_least(least: int) -> Callable[[str], int]:
    """The `type` of an argument that is a whole number of `least` or more."""

    def parse(text: str) -> int:
        try:
            number = int(text.removesuffix(".0"))  # `read` passes -1 as " -1.0"
        except ValueError:
            raise argparse.ArgumentTypeError(f"takes a whole number, got '{text.strip()}'") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more, got {number}")
        return number

    return parse
