"""Common parts of opening many files of any format as one array: read in parallel, compared with each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock import _core
from penstock.core.context import current_context
from penstock.core.errors import CorruptDataError, Error, InvalidArgumentError
from penstock.core.sizes import counted

_NAMED = 5
# They usually wait for storage, so as many threads are used as a context has requests in flight.
_THREADS = 64

Given = TypeVar("Given")
Made = TypeVar("Made")


def complain(what: str, bad: Sequence[str]) -> str:
    """The failures of the first five files."""
    more = f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return f"{what}: {'; '.join(bad[:_NAMED])}{more}"


def side_by_side(work: Callable[[Given], Made], given: Sequence[Given], threads: int = _THREADS) -> list[Made]:
    """The results of `work` for each item, on threads of the context.

    Raises the exception of the first that failed; items that have not begun by then are skipped.
    """
    made: dict[int, Made] = {}
    failed: dict[int, BaseException] = {}

    def one(which: int) -> None:
        if failed:
            return
        try:
            made[which] = work(given[which])
        except BaseException as failure:
            failed[which] = failure

    _core.side_by_side(current_context(), one, len(given), threads)
    if failed:
        raise failed[min(failed)]
    return [made[which] for which in range(len(given))]


def file_stamps(paths: Sequence[str]) -> list[tuple[int, int] | None]:
    """Size and modification time of local files, each queried once; None if a file does not exist."""
    return _core.file_stamps(current_context(), [os.fsencode(path) for path in paths]) if paths else []


def describe_all(names: Sequence[str], looks: Sequence[Callable[[], Made]], threads: int = _THREADS) -> list[Made]:
    """The results of `looks`, called in parallel. Failures are raised as one error that names the first five."""

    def one(look: Callable[[], Made]) -> Made | Exception:
        try:
            return look()
        except Exception as failure:
            return failure

    if not looks:
        raise InvalidArgumentError("the list of files is empty")
    found = side_by_side(one, looks, threads)
    failures = [(name, each) for name, each in zip(names, found, strict=True) if isinstance(each, Exception)]
    if not failures:
        return [each for each in found if not isinstance(each, Exception)]
    first = failures[0][1]
    kind = type(first) if isinstance(first, Error) else CorruptDataError
    texts = [f"'{name}': {failure.message if isinstance(failure, Error) else failure}" for name, failure in failures]
    raise kind(complain(f"{len(failures)} of {counted(len(found), 'file')} cannot be read", texts)) from first


def refuse_others(names: Sequence[str], shapes: Sequence[tuple[int, ...]], types: Sequence[Any], axis: int) -> None:
    """Refuse scalars, and files whose type or shape outside `axis` differs from the first."""
    scalars = [f"'{name}'" for name, shape in zip(names, shapes, strict=True) if not shape]
    if scalars:
        raise InvalidArgumentError(complain("scalars have no axis to join along", scalars))
    rank = len(shapes[0])
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"axis {axis} is out of range for arrays with {counted(rank, 'dimension')}")
    axis %= rank

    def around(which: int) -> tuple[Any, ...]:
        shape = shapes[which]
        return types[which], len(shape), shape[:axis], shape[axis + 1 :]

    def text(which: int) -> str:
        return f"'{names[which]}' is {types[which]} {shapes[which]}"

    others = [text(i) for i in range(len(names)) if around(i) != around(0)]
    if others:
        what = f"{len(others)} of {len(names)} files do not match {text(0).replace(' is ', ', ', 1)}"
        raise InvalidArgumentError(complain(what, others))
