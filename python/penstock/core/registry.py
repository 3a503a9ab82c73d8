"""Functions (for opening and creating) and classes that higher layers register for the arrays and groups of this one.

`core` imports none of those layers. Importing `penstock` imports all of them, so that every name is registered before
an array or group exists, also in a process that only unpickles one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

_functions: dict[str, Callable[..., Any]] = {}
_classes: dict[str, type] = {}
_group_classes: dict[str, type] = {}


def register(*functions: Callable[..., Any]) -> None:
    """Make functions available to this layer by their names: `open`, `create_array`, `create_group`."""
    _functions.update({function.__name__: function for function in functions})


def register_class(format: str, kind: type) -> None:
    """Set the class of arrays of one format."""
    _classes[format] = kind


def register_group_class(format: str, kind: type) -> None:
    """Set the class of groups of one format."""
    _group_classes[format] = kind


def call(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a registered function."""
    return _functions[name](*arguments, **options)


def class_of(format: str, default: type) -> type:
    """The class of arrays of one format."""
    return _classes.get(format, default)


def group_class_of(format: str, default: type) -> type:
    """The class of groups of one format."""
    return _group_classes.get(format, default)


class OpenedFrom(NamedTuple):
    """The arguments of `open` for a node that has no URI of its own: the target is a store, or a URI for fsspec."""

    target: Any
    path: str
    storage_options: dict[str, Any] | None
    uri: str
    """Of the node, as errors show it."""

    def below(self, uri: str) -> OpenedFrom:
        """The same for the node itself, or one below it."""
        parts = (self.path.strip("/"), uri.removeprefix(self.uri).strip("/"))
        return self._replace(path="/".join(part for part in parts if part), uri=uri)


def reopen_as(node: Any, other: Any) -> None:
    """Let `node`, which was opened through `other`, be opened again by the same target and options."""
    node._storage_options, node._opened_from = other._storage_options, other._opened_from


def location_of(node: Any) -> tuple[str | OpenedFrom, dict[str, Any] | None]:
    """The arguments of `reopen` with which another process opens `node`; pickles hold them.

    Raises
    ------
    TypeError
        The node was not opened by a path, a URI, or a store that pickles.
    """
    if node.uri.startswith(("file:", "zip:")) or node._storage_options is not None:
        return node.uri, node._storage_options
    if node._opened_from is None:
        raise not_reopened(node, "arrays and groups")
    found: OpenedFrom = node._opened_from.below(node.uri)
    return found, found.storage_options


def not_reopened(node: Any, kinds: str) -> TypeError:
    """The error of `pickle`, `copy.copy` and `copy.deepcopy`, which open a node again, for one without a location."""
    why = f"only {kinds} opened by path can be opened again. penstock.copy copies the values"
    return TypeError(f"cannot pickle or copy {node!r}: {why}")


def reopen(
    uri: str | OpenedFrom, storage_options: dict[str, Any] | None = None, mode: str | None = None, **options: Any
) -> Any:
    """Open the node that `location_of` described."""
    target, path = (uri.target, uri.path) if isinstance(uri, OpenedFrom) else (uri, "")
    return call("open", target, path, storage_options=storage_options, mode=mode, **options)


def reopen_above(node: Any) -> Any:
    """Open the group that holds `node`, read-only. Raises as `location_of`, also if its path is not known."""
    uri, storage_options = location_of(node)
    if isinstance(uri, str):
        return reopen(uri.rpartition("/")[0], storage_options, "r")
    if not uri.path:
        raise not_reopened(node, "arrays and groups")
    return reopen(uri._replace(path=uri.path.rpartition("/")[0]), storage_options, "r")
