"""Functions (for opening and creating) and classes that higher layers register for the arrays and groups of this one.

`core` imports none of those layers. Importing `penstock` imports all of them, so that every name is registered before
an array or group exists, also in a process that only unpickles one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def location_of(node: Any) -> tuple[str, dict[str, Any] | None]:
    """The URI and the storage options by which another process opens `node`; pickles hold them.

    Raises
    ------
    TypeError
        The node was not opened by a path or a URI.
    """
    if not node.uri.startswith(("file:", "zip:")) and node._storage_options is None:
        raise not_reopened(node, "arrays and groups")
    return node.uri, node._storage_options


def not_reopened(node: Any, kinds: str) -> TypeError:
    """The error of `pickle`, `copy.copy` and `copy.deepcopy`, which open a node again, for one without a location."""
    why = f"only {kinds} opened by path can be opened again. penstock.copy copies the values"
    return TypeError(f"cannot pickle or copy {node!r}: {why}")


def reopen(uri: str, storage_options: dict[str, Any] | None = None, mode: str | None = None, **options: Any) -> Any:
    """Open the node that `location_of` described."""
    return call("open", uri, storage_options=storage_options, mode=mode, **options)
