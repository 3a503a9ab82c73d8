"""Copying arrays and groups from store to store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock import _core
from penstock._array import Array
from penstock._context import Context, current_context
from penstock._create import AUTO, _codecs
from penstock._group import Group
from penstock._open import open
from penstock._place import place_of
from penstock._progress import ProgressLine, callback_of

Progress = Callable[[str, int, int], Any]


def copy(
    source: Any,
    target: Any,
    path: str = "",
    *,
    chunks: Sequence[int] | None = None,
    shards: Any = None,
    codecs: Any = None,
    zarr_format: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    durable: bool = False,
    threads: int | None = None,
    progress: Progress | bool | None = None,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> Array | Group:
    """Copy an array, or a group and everything in it, and open the copy.

    Arrays that keep their chunks, shards, codecs and format are copied byte for byte. Others are read and written
    anew, a few objects of the destination at a time on each thread.

    Parameters
    ----------
    source
        An open array or group, or what `penstock.open` takes.
    target, path
        What `penstock.open` takes, and the path within it.
    chunks, shards
        Lengths for the new arrays; None: the source's. With new chunks there are no shards unless they are given.
        `shards` may be "auto", or False: none.
    codecs
        As in `create_array`; None: the source's.
    zarr_format
        2 or 3; None: the source's.
    overwrite
        Erase what stands at the target first.
    resume
        Go on with a copy that was interrupted: metadata is written first, and objects that are there are not copied
        again. What stands at the target must have the same metadata.
    storage_options, target_options
        Of the source's and of the target's URI, as for `open`.
    progress
        True: a line on stderr. A function: called as `progress(path, done_bytes, total_bytes)` on any thread; False
        stops the copy.
    """
    context = current_context() if context is None else context
    if not isinstance(source, Array | Group):
        source = open(source, context=context, storage_options=storage_options)
    store, inside = place_of(target, path, target_options, context)
    made_as = zarr_format or (2 if source.format == "zarr2" else 3)
    options: dict[str, Any] = {
        "chunks": None if chunks is None else tuple(chunks),
        "auto_shards": isinstance(shards, str) and shards == AUTO,
        "no_shards": shards is False,
        "shards": None if shards is None or shards is False or shards == AUTO else tuple(shards),
        "zarr_format": zarr_format,
        "overwrite": overwrite,
        "resume": resume,
        "durable": durable,
        "threads": threads,
        "progress": _line(progress),
    }
    if codecs is not None:
        options["codecs"] = _codecs(codecs, AUTO, AUTO, AUTO, made_as).get("codecs") or AUTO
    _core.copy(source, store, inside, options)
    return open(store, inside.decode("utf-8", "surrogateescape"), context=context)


def _line(progress: Progress | bool | None) -> Callable[..., Any] | None:
    """The function of the engine for `progress`: an array's own line on stderr for True."""
    if progress is not True:
        return callback_of(progress, "copying")
    lines: dict[str, ProgressLine] = {}

    def show(path: str, done: int, total: int) -> None:
        lines.setdefault(path, ProgressLine(f"copying {path}".rstrip()))(done, total)

    return show
