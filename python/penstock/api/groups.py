"""Groups: creating, opening, consolidating."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from penstock import _core
from penstock.api.create_options import check_format, check_name, format_below
from penstock.api.open import open
from penstock.core import registry
from penstock.core.attributes import to_json
from penstock.core.context import Context, current_context
from penstock.core.errors import InvalidArgumentError, NotFoundError
from penstock.core.group import Group
from penstock.target.place import check_path, place_of
from penstock.target.reopening import remember


def create_group(
    target: Any,
    path: str | None = "",
    *,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: int = 3,
    overwrite: bool = False,
    durable: bool = False,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group and open it. Missing parent groups are created.

    Parameters
    ----------
    target, path
        As for `create_array`.
    attributes
        A mapping that JSON can hold.
    zarr_format
        2 or 3.
    overwrite
        Erase an array or group that exists there, and all below it.
    durable
        Return when the metadata, and the folders above it, are on the storage device.
    context
        Threads, caches and limits; None: the current one.
    storage_options
        For a remote URI, as for `open`.

    Returns
    -------
    Group

    Raises
    ------
    InvalidArgumentError
        A node exists there, and `overwrite` is false.
    ReadOnlyError, PermissionDeniedError
        The store cannot be written to.

    Examples
    --------
    >>> run = ps.create_group("run.zarr", attributes={"model": "icon"})
    >>> run.create_array("t", data=np.zeros((2, 3))).uri.endswith("run.zarr/t")
    True
    >>> print(run.tree())
    /
    └── t (2, 3) float64
    """
    path = check_path(path)
    check_name(target, path, storage_options)
    check_format(zarr_format)
    context = current_context() if context is None else context
    text, overwrite, durable = None if attributes is None else to_json(dict(attributes)), bool(overwrite), bool(durable)
    if isinstance(target, Group):
        zarr_format = format_below(target, zarr_format)
        child = Group(_core.create_group(target, context, os.fsencode(path), zarr_format, overwrite, text, durable))
        registry.reopen_as(child, target)
        return child
    store, inside = place_of(target, path, storage_options, context)
    group = Group(_core.create_group(store, context, inside, zarr_format, overwrite, text, durable))
    remember(group, target, path, storage_options)
    return group


def consolidate_metadata(
    target: Any,
    path: str | None = "",
    *,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Copy the metadata of all nodes of a tree into the group at its root and open it with that copy.

    Opening the tree then takes one request. The copy does not follow later changes: consolidate again after them.

    Parameters
    ----------
    target, path
        The group at the root, as for `penstock.open_group`.
    context
        Threads, caches and limits; None: the current one.
    storage_options
        For a remote URI, as for `open`.

    Returns
    -------
    Group
        The root, which uses the copy.

    Raises
    ------
    NotFoundError
        No group exists there.
    ReadOnlyError, PermissionDeniedError
        The store cannot be written to.

    Examples
    --------
    >>> ps.save("run.zarr", t=np.zeros(4), p=np.ones(4))
    >>> run = ps.consolidate_metadata("run.zarr")
    >>> run.consolidated
    True
    """
    context = current_context() if context is None else context
    store, inside = place_of(target, path, storage_options, context)
    return Group(_core.consolidate_metadata(store, context, inside))


def open_group(
    target: Any,
    path: str | None = "",
    *,
    mode: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: int = 3,
    use_consolidated: bool | None = None,
    context: Context | None = None,
    **options: Any,
) -> Group:
    """Open a group, or create one.

    Parameters
    ----------
    target, path
        As for `penstock.open`.
    mode
        None: the group must exist; it can be written to if its store allows it. "r": it must exist, and every write is
        refused, through the group and through everything that is reached from it. "r+": it must exist and be
        writable. "a": as "r+", and it is created if it does not exist. "w": it is created, and an array or group that
        exists there is erased. "w-" or "x": it is created, and nothing may exist there.
    attributes, zarr_format
        Of a group that is created, as for `create_group`.
    use_consolidated
        None: the copy of all metadata in the group is used if there is one; other nodes are looked up in storage.
        True: there must be one, and only its nodes exist. False: storage only. After a write through an open group its
        copy is no longer used in any case.
    context
        Threads, caches and limits; None: the current one.
    options
        `storage_options` and the other options of `penstock.open`.

    Returns
    -------
    Group

    Raises
    ------
    NotFoundError
        No group exists there, and `mode` does not create one.
    InvalidArgumentError
        An array exists there or, with mode "w-", any node.
    ReadOnlyError, PermissionDeniedError
        `mode` needs a store that can be written to.

    Examples
    --------
    >>> run = ps.open_group("run.zarr", mode="a", attributes={"model": "icon"})     # created
    >>> run["t"] = np.zeros(4)
    >>> again = ps.open_group("run.zarr", mode="r")
    >>> list(again), again.attrs["model"]
    (['t'], 'icon')
    """
    if mode not in (None, "r", "r+", "a", "w", "w-", "x"):
        raise InvalidArgumentError(f"mode must be None, 'r', 'r+', 'a', 'w' or 'w-', got {mode!r}")
    if mode in (None, "r", "r+", "a"):
        try:
            found = "r+" if mode == "a" else mode
            node = open(target, path, mode=found, context=context, use_consolidated=use_consolidated, **options)
        except NotFoundError:
            if mode != "a" or use_consolidated:
                raise
        else:
            if not isinstance(node, Group):
                raise InvalidArgumentError(f"'{node.uri}' is an array, not a group")
            return node
    return create_group(
        target,
        path,
        attributes=attributes,
        zarr_format=zarr_format,
        overwrite=mode == "w",
        context=context,
        storage_options=options.get("storage_options"),
    )


registry.register(create_group)
