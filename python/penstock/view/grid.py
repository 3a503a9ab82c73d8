"""Chunk grids as drawings: inline SVG whose sides are to scale."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

_LONGEST = 170.0  # pixels of the longest side
_SHORTEST = 10.0  # the length of a side that would be shorter: such sides are not to scale
_LINES = 40  # chunks along a side, at most
_TILT = 0.45  # of the depth of a box, in both directions

_FACE = "fill='#2f81f7' fill-opacity='.13' stroke='#2f81f7' stroke-width='1'"
_CHUNK = "fill='none' stroke='#2f81f7' stroke-width='.5' stroke-opacity='.6'"
_SHARD = "fill='none' stroke='#2f81f7' stroke-width='1.8'"


def grid_svg(
    shape: Sequence[int],
    chunks: Sequence[int],
    shards: Sequence[int] | None,
    names: Sequence[str | None] | None = None,
) -> str:
    """The last three dimensions of an array with the edges of its chunks, and of its shards as thick lines.

    Empty for arrays without dimensions or without elements. With more than 40 chunks along a side, only some edges are
    drawn.
    """
    if not shape or 0 in shape:
        return ""
    kept = list(range(max(0, len(shape) - 3), len(shape)))
    sides = _sides([shape[d] for d in kept])
    drawn = [
        _Side(shape[d], chunks[d], None if shards is None else shards[d], side)
        for d, side in zip(kept, sides, strict=True)
    ]
    labels = [str(shape[d]) + (f" {names[d]}" if names is not None and names[d] else "") for d in kept]
    if len(kept) == 1:
        drawn.insert(0, _Side(1, 1, None, 26.0))
        labels.insert(0, "")
    x, y = drawn[-1], drawn[-2]
    depth = drawn[0] if len(drawn) == 3 else None
    shift = 0.0 if depth is None else depth.pixels * _TILT
    left, top = 2.0, 4.0 + shift
    parts = [f"<rect x='{left:g}' y='{top:.1f}' width='{x.pixels:.1f}' height='{y.pixels:.1f}' {_FACE}/>"]
    right, bottom = left + x.pixels, top + y.pixels

    def at_x(of: float) -> str:
        return f"M{left + of:.1f} {top:.1f}v{y.pixels:.1f}"

    def at_y(of: float) -> str:
        return f"M{left:g} {top + of:.1f}h{x.pixels:.1f}"

    edges = {
        "chunk": "".join([*map(at_x, x.chunk_edges), *map(at_y, y.chunk_edges)]),
        "shard": "".join([*map(at_x, x.shard_edges), *map(at_y, y.shard_edges)]),
    }
    if depth is not None:
        parts.append(
            f"<path d='M{left:g} {top:.1f}l{shift:.1f} {-shift:.1f}h{x.pixels:.1f}l{-shift:.1f} {shift:.1f}z"
            f"M{right:.1f} {top:.1f}l{shift:.1f} {-shift:.1f}v{y.pixels:.1f}l{-shift:.1f} {shift:.1f}z' {_FACE}/>"
        )

        def on_sides(kind: str) -> str:
            made = []
            for of in getattr(x, f"{kind}_edges"):
                made.append(f"M{left + of:.1f} {top:.1f}l{shift:.1f} {-shift:.1f}")
            for of in getattr(y, f"{kind}_edges"):
                made.append(f"M{right:.1f} {top + of:.1f}l{shift:.1f} {-shift:.1f}")
            for of in getattr(depth, f"{kind}_edges"):
                back = of * _TILT
                made.append(f"M{left + back:.1f} {top - back:.1f}h{x.pixels:.1f}")
                made.append(f"M{right + back:.1f} {top - back:.1f}v{y.pixels:.1f}")
            return "".join(made)

        edges = {kind: path + on_sides(kind) for kind, path in edges.items()}
    for kind, style in (("chunk", _CHUNK), ("shard", _SHARD)):
        if edges[kind]:
            parts.append(f"<path d='{edges[kind]}' {style}/>")
    below = (left + x.pixels / 2, "middle") if x.pixels > 60 else (left, "start")
    texts = [(below[0], bottom + 14, below[1], labels[-1])]
    if labels[-2]:
        texts.append((right + shift + 6, bottom - shift - y.pixels / 2 + 4, "start", labels[-2]))
    if depth is not None:
        texts.append((right + shift / 2 + 8, bottom - shift / 2 + 10, "start", labels[0]))
    widest = max(len(text) for _, _, _, text in texts)
    for across, down, anchor, text in texts:
        parts.append(f"<text x='{across:.1f}' y='{down:.1f}' text-anchor='{anchor}'>{html.escape(text[:24])}</text>")
    width = right + shift + 14 + 7 * min(widest, 24)
    boxes = math.prod(shape[:-3])
    caption = f"<div class='dim'>one of {boxes} such boxes</div>" if boxes > 1 else ""
    return (
        f"<svg role='img' aria-label='chunk grid' width='{width:.0f}' height='{bottom + 22:.0f}' "
        f"font-size='11' fill='currentColor'>{''.join(parts)}</svg>{caption}"
    )


class _Side:
    """One dimension as drawn: its pixels and the positions of the edges within it."""

    def __init__(self, size: int, chunk: int, shard: int | None, pixels: float) -> None:
        self.pixels = pixels
        self.chunk_edges = _edges(size, chunk, pixels)
        self.shard_edges = [] if shard is None else _edges(size, shard, pixels)


def _edges(size: int, length: int, pixels: float) -> list[float]:
    length = max(1, length)
    count = -(-size // length)
    step = -(-count // _LINES)
    return [pixels * number * length / size for number in range(step, count, step)]


def _sides(lengths: Sequence[int]) -> list[float]:
    longest = max(lengths)
    return [max(_SHORTEST, _LONGEST * length / longest) for length in lengths]
