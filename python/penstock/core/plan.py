"""The plan of a read, as an object."""

from __future__ import annotations

import html
import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from penstock.core.array import Array

_WASTEFUL = 4  # advise if more than so many times the returned bytes are decoded
_SMALL_REQUEST = 64 << 10
_MANY_REQUESTS = 100
_LEAST_BYTES = 1 << 20  # below this, no advice is given
_NAMED = ("file:", "zip:", "http:", "https:", "s3:", "gs:")  # the program opens these; others are objects of Python
_DRAWN = 48  # squares of a drawing along an axis, at most


class Plan(str):
    """How a selection would be read: a text, which `print` shows, and numbers. Made by `Array.plan`.

    For selections of very many chunks, the numbers are those of the first chunks: see `complete`.

    Attributes
    ----------
    requests : int
        Requests for data, after adjacent ranges were joined; `index_requests` counts additional ones for indexes.
    fetched_bytes : int
        Bytes that the requests for data return, including whole objects whose size the store reports.
    decoded_bytes : int
        Bytes that the chunks decode to.
    returned_bytes : int
        Bytes of the result.
    chunks_touched : int
        Chunks that contain elements of the selection.
    touched : tuple of tuple of int
        Positions of the first of them in the chunk grid.
    complete : bool
        Whether the numbers cover all chunks.

    Examples
    --------
    >>> a = ps.create_array("a.zarr", data=np.ones((100, 100, 100)), chunks=(1, 100, 100))
    >>> plan = a.plan(np.s_[:, 10, 10])
    >>> plan.requests, plan.chunks_touched, plan.decoded_bytes // plan.returned_bytes
    (100, 100, 10000)
    >>> "penstock rechunk" in plan.advise()                 # the command for better chunks is in its text
    True
    >>> print(plan)
    plan for 'file:///...a.zarr': 100 of 100 cells
    ...
    """

    requests: int
    index_requests: int
    fetched_bytes: int
    decoded_bytes: int
    returned_bytes: int
    chunks_touched: int
    touched: tuple[tuple[int, ...], ...]
    complete: bool

    def __new__(cls, text: str, facts: dict[str, Any], array: Array, selection: Any) -> Plan:
        """Made by `Array.plan`."""
        made = super().__new__(cls, text)
        made.requests, made.index_requests = facts["requests"], facts["index_requests"]
        made.fetched_bytes, made.decoded_bytes = facts["fetched_bytes"], facts["decoded_bytes"]
        made.returned_bytes, made.chunks_touched = facts["returned_bytes"], facts["cells"]
        made.touched, made.complete = facts["touched"], facts["complete"]
        made._unknown_sizes = facts["unknown_sizes"]
        made._shape, made._uri, made._chunks = array.shape, array.uri, facts["chunks"]
        made._item_bytes = array.dtype.itemsize
        made._lengths = _lengths(selection, array.shape)
        made._ranges = _ranges(selection, array.shape) if array._is_regular else None
        return made

    def _and_of(self, what: str, others: Sequence[Plan]) -> Plan:
        """This plan, with the numbers of other arrays that the same read needs; chunks are those of this array."""
        made: Plan = str.__new__(Plan, "".join([self, *(f"\n\n{what}: {each}" for each in others)]))
        vars(made).update(vars(self))
        for name in (
            "requests",
            "index_requests",
            "fetched_bytes",
            "decoded_bytes",
            "returned_bytes",
            "_unknown_sizes",
        ):
            setattr(made, name, getattr(self, name) + sum(getattr(each, name) for each in others))
        made.complete = self.complete and all(each.complete for each in others)
        return made

    _unknown_sizes: int  # requests whose bytes are not in `fetched_bytes`
    _shape: tuple[int, ...]
    _uri: str
    _chunks: tuple[int, ...]
    _item_bytes: int
    _lengths: tuple[int, ...] | None
    _ranges: tuple[tuple[int, int], ...] | None

    @property
    def amplification(self) -> float:
        """Bytes decoded for each byte of the result; 1 if nothing more is decoded."""
        return self.decoded_bytes / self.returned_bytes if self.returned_bytes and self.decoded_bytes else 1.0

    def advise(self) -> str:
        """Return advice in words on how to make this read cheaper.

        It names the selection of whole chunks that costs the same, and the command that changes the chunks (the call,
        for a store that only Python has).
        """
        said = []
        if self.decoded_bytes >= _LEAST_BYTES and self.amplification >= _WASTEFUL:
            chunks = "one chunk" if self.chunks_touched == 1 else f"each of {self.chunks_touched} chunks"
            text = f"This reads {100 / self.amplification:.2g} % of {chunks}, and decodes all of "
            text += "it." if self.chunks_touched == 1 else "them."
            whole = self._whole_chunks()
            if whole is not None:
                text += (
                    f" Read {whole[0]} once, which decodes the same chunks and returns all of their elements "
                    f"({_bytes(whole[1])}), and select in memory."
                )
            better = self._better_chunks()
            if better is not None:
                command = f'ps.rechunk(a, "NEW.zarr", {better})'
                if self._uri.startswith(_NAMED):
                    lengths = ",".join(map(str, better))
                    command = f"penstock rechunk {shlex.quote(self._uri)} NEW.zarr --chunks {lengths}"
                text += f" {'Or, if' if whole else 'If'} reads like this are frequent, change the chunks: {command}"
            said.append(text)
        known = self.requests - self._unknown_sizes
        if self.requests >= _MANY_REQUESTS and 0 < self.fetched_bytes < known * _SMALL_REQUEST:
            mean = self.fetched_bytes // known
            said.append(
                f"{self.requests} requests return {mean} bytes each: larger chunks, or shards with adjacent chunks, "
                "need fewer."
            )
        if not said:
            return "Nothing to improve: chunks and requests suit this selection."
        return " ".join(said)

    def _whole_chunks(self) -> tuple[str, int] | None:
        """The selection of exactly the touched chunks, such as `[:, 100:200]`, and the bytes of its elements.

        None if no box contains only these chunks, or if this plan returns all of their elements.
        """
        if self._ranges is None or not self._chunks or not self.complete:
            return None
        count, size_bytes, items = 1, self._item_bytes, []
        for (low, high), size, chunk in zip(self._ranges, self._shape, self._chunks, strict=True):
            first, end = low // chunk, -(-high // chunk)
            count *= end - first
            begin, stop = first * chunk, min(size, end * chunk)
            size_bytes *= stop - begin
            items.append(f"{begin or ''}:{stop if stop < size else ''}")
        if count != self.chunks_touched or size_bytes <= self.returned_bytes:
            return None
        while len(items) > 1 and items[-1] == ":":
            items.pop()
        return f"[{', '.join(items)}]", size_bytes

    def _better_chunks(self) -> tuple[int, ...] | None:
        """Chunks with about as many elements that are as long as the selection."""
        if self._lengths is None or not self._chunks:
            return None
        most = math.prod(self._chunks)
        made = [1] * len(self._chunks)
        while True:
            ratios = [
                min(length, size) / now if now < size else 0.0
                for length, size, now in zip(self._lengths, self._shape, made, strict=True)
            ]
            d = max(range(len(made)), key=ratios.__getitem__)
            if ratios[d] <= 1:  # the selection is covered: extend along the other dimensions as far as possible
                d = max(range(len(made)), key=lambda each: self._shape[each] / made[each])
            longer = min(made[d] * 2, self._shape[d])
            if longer == made[d] or math.prod(made) // made[d] * longer > most:
                return None if tuple(made) == self._chunks else tuple(made)
            made[d] = longer

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)

    def _repr_html_(self) -> str:
        """For notebooks: the numbers, the touched chunks, and the text."""
        facts = (
            ("requests", f"{self.requests}"),
            ("fetched", _bytes(self.fetched_bytes)),
            ("decoded", f"{_bytes(self.decoded_bytes)} ({self.amplification:.3g} x the result)"),
            ("chunks touched", f"{self.chunks_touched}"),
        )
        rows = "".join(f"<tr><th style='text-align:left'>{name}</th><td>{value}</td></tr>" for name, value in facts)
        return (
            f"<div><table>{rows}</table>{self._drawing()}<p>{html.escape(self.advise())}</p>"
            f"<details><summary>plan</summary><pre>{html.escape(self)}</pre></details></div>"
        )

    def _drawing(self) -> str:
        """The chunk grid along its two axes with most chunks; touched chunks are dark."""
        counts = [-(-size // max(1, chunk)) for size, chunk in zip(self._shape, self._chunks, strict=True)]
        if not counts or not self.touched:
            return ""
        order = sorted(range(len(counts)), key=counts.__getitem__)[-2:]
        axes = sorted(order) if len(order) == 2 else [order[0], order[0]]
        rows, columns = (min(counts[d], _DRAWN) for d in axes) if len(order) == 2 else (1, min(counts[axes[0]], _DRAWN))
        dark = set()
        for at in self.touched:
            row = at[axes[0]] * rows // counts[axes[0]] if len(order) == 2 else 0
            dark.add((row, at[axes[1]] * columns // counts[axes[1]]))
        size = 8
        squares = "".join(
            f"<rect x='{x * size}' y='{y * size}' width='{size - 1}' height='{size - 1}' "
            f"fill='{'#1f6feb' if (y, x) in dark else '#d0d7de'}'/>"
            for y in range(rows)
            for x in range(columns)
        )
        return f"<svg width='{columns * size}' height='{rows * size}' role='img'>{squares}</svg>"


def _ranges(selection: Any, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...] | None:
    """The first position and the one after the last along each dimension of a basic selection with elements; None for
    other selections."""
    items = list(selection) if isinstance(selection, tuple) else [selection]
    if sum(each is Ellipsis for each in items) > 1 or any(isinstance(each, bool) for each in items):
        return None
    at = next((i for i, each in enumerate(items) if each is Ellipsis), len(items))
    items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + (at < len(items)))
    if len(items) != len(shape):
        return None
    found = []
    for each, size in zip(items, shape, strict=True):
        if isinstance(each, int | np.integer):
            positions = range(int(each) % size, int(each) % size + 1) if size else range(0)
        elif isinstance(each, slice):
            positions = range(*each.indices(size))
        else:
            return None
        if not positions:
            return None
        found.append((min(positions[0], positions[-1]), max(positions[0], positions[-1]) + 1))
    return tuple(found)


def _lengths(selection: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Elements along each dimension that a basic selection spans; None for other selections."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if not all(each is Ellipsis or isinstance(each, slice | int | np.integer) for each in items):
        return None
    if any(isinstance(each, bool) for each in items):
        return None
    boxes = tuple(
        slice(int(each), int(each) + 1 or None) if isinstance(each, int | np.integer) else each for each in items
    )
    try:
        return np.broadcast_to(np.empty((), np.uint8), shape)[boxes].shape
    except IndexError:
        return None


def _bytes(count: int) -> str:
    number, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.4g} {units[0]}"
