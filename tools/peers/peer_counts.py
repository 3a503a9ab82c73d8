"""Counts of a run of `tools/test_peers.py`: what the engine read, and what the peer's own code read, by reason."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import penstock as ps

READS: Counter[str] = Counter()
"""Reads of the engine, by kind."""
LEFT: Counter[str] = Counter()
"""Reads of the peer's own code, by reason."""


class NotByEngine(Exception):
    """The engine does not read this; the text is the reason."""


def by_engine(kind: str, work: Any, own: Any) -> Any:
    """The result of `work`, or that of `own` if the engine does not read the object."""
    try:
        found = work()
    except (NotByEngine, ps.UnsupportedError) as error:
        left(kind, error)
        return own()
    READS[kind] += 1
    return found


def left(kind: str, reason: object) -> None:
    """Counts a read of the peer's own code; names within the reason are left out."""
    text = str(reason).partition("\n")[0]
    LEFT[f"{kind}: " + re.sub(r"'[^']*'", "'...'", text)] += 1


def count_pipeline() -> None:
    """Adds the operations of the codec pipeline of this process, by path."""
    from penstock.interop.zarr import settings

    with settings._lock:
        found = dict(settings._counts)
    for (operation, path, reason), number in found.items():
        if path == "zarr":
            first_line = reason.partition("\n")[0]
            LEFT[f"{operation}s of arrays: {first_line}"] += number
        else:
            READS[f"{operation}s of arrays (path `{path}`)"] += number


def save(path: str) -> None:
    """Writes the counts of this process; a run may have several."""
    with open(path, "w") as stream:
        json.dump({"reads": READS, "left": LEFT}, stream)
