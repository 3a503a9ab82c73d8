"""Stores of zarr-python whose synchronous methods wait, as for a network: several objects at a time.

A method that returns at once is called on one thread, object by object. Two long calls in a row show that the store
waits; further calls then overlap, `async.concurrency` of them, as zarr-python's pipelines do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from zarr.core.buffer import cpu
from zarr.core.config import config

from penstock.interop.zarr.batch import Item
from penstock.shards.files import side_by_side


class Waits(Exception):
    """A read was given up, because the store waits."""


def is_long(seconds: float) -> bool:
    """Whether a call took so long that it must have waited: memory and files take less."""
    return seconds >= 0.005


def fetch_all(items: Sequence[Item]) -> dict[str, Any]:
    """Return the objects of items by path, in host memory, without absent ones."""

    def fetch(item: Item) -> Any:
        getter = item[0]  # a StorePath, which has such a method of its own from zarr-python 3.1.6 on
        return getter.store.get_sync(getter.path, prototype=cpu.buffer_prototype)

    values = _overlapped(fetch, items)
    return {item[0].path: value for item, value in zip(items, values, strict=True) if value is not None}


def store_all(objects: Iterable[tuple[Any, Any]], waits: bool, note_time: Callable[[float], bool]) -> None:
    """Store objects, pairs of `StorePath` and value; None erases.

    Parameters
    ----------
    objects
        In the order in which they are stored while the store does not wait.
    waits
        Whether the store is known to wait.
    note_time
        Receives the seconds of a call, and returns whether the store waits.
    """
    rest = iter(objects)
    while not waits and (each := next(rest, None)) is not None:
        begin = time.perf_counter()
        _store(each)
        waits = note_time(time.perf_counter() - begin)
    _overlapped(_store, list(rest))


def _store(what: tuple[Any, Any]) -> None:
    getter, value = what
    if value is None:
        getter.store.delete_sync(getter.path)
    else:
        getter.store.set_sync(getter.path, value)


def _overlapped(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return side_by_side(work, items, config.get("async.concurrency") or len(items))
