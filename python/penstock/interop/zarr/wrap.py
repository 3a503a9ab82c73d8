"""zarr-python's arrays and groups as those of Penstock: `wrap`, and what opens both."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import zarr
from zarr.core import codec_pipeline

from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.interop.zarr.array import Array, with_our_pipeline
from penstock.interop.zarr.originals import originals
from penstock.interop.zarr.settings import type_name


def can_wrap() -> bool:
    """Return True if this zarr-python has the synchronous methods that `wrap` needs: 3.4 and later."""
    return hasattr(codec_pipeline, "FusedCodecPipeline")


def wrap(array: Any) -> Any:
    """Return the same `zarr.Array`, or `zarr.Group` of such arrays, which reads and writes without zarr-python's event
    loop.

    Parameters
    ----------
    array
        A `zarr.Array` or `zarr.Group`.

    Returns
    -------
    penstock.zarr.Array or penstock.zarr.Group
        A view of the same storage.

    Raises
    ------
    InvalidArgumentError
        `array` is neither; the message names what opens it.
    UnsupportedError
        zarr-python is older than 3.4.

    Examples
    --------
    >>> import zarr, penstock.zarr
    >>> z = zarr.create_array("x.zarr", data=np.arange(12.0).reshape(3, 4))
    >>> a = penstock.zarr.wrap(z)
    >>> a[1]
    array([4., 5., 6., 7.])
    """
    if isinstance(array, Array | Group):
        return array
    if isinstance(array, zarr.Group):
        return wrap_node(array)
    if not isinstance(array, zarr.Array):
        text = f"wrap takes a zarr.Array or a zarr.Group, got {type_name(array)}"
        if isinstance(array, str | os.PathLike):
            text += ": penstock.zarr.open_array and open_group open a path"
        raise InvalidArgumentError(text)
    if not can_wrap():
        raise UnsupportedError(f"wrap needs the synchronous ways of zarr-python 3.4, this is {zarr.__version__}")
    return Array(with_our_pipeline(array._async_array))


class Group(zarr.Group):
    """A `zarr.Group` whose arrays are `penstock.zarr.Array`.

    Examples
    --------
    >>> import penstock.zarr
    >>> ps.save("run.zarr", t=np.arange(4.0), p=np.ones(4))
    >>> run = penstock.zarr.open_group("run.zarr")
    >>> run["t"][1:3]
    array([1., 2.])
    """

    def __getitem__(self, path: str) -> Any:
        return wrap_node(super().__getitem__(path))

    def get(self, path: str, default: Any = None) -> Any:
        return wrap_node(super().get(path, default))

    def members(self, *args: Any, **kwargs: Any) -> Any:
        return tuple((name, wrap_node(node)) for name, node in super().members(*args, **kwargs))

    def arrays(self) -> Any:
        for name, node in super().arrays():
            yield name, wrap(node)

    def array_values(self) -> Any:
        for node in super().array_values():
            yield wrap(node)

    def require_groups(self, *names: str) -> Any:
        return tuple(map(wrap_node, super().require_groups(*names)))

    def create_hierarchy(self, nodes: Any, *, overwrite: bool = False) -> Any:
        for name, node in super().create_hierarchy(nodes, overwrite=overwrite):
            yield name, wrap_node(node)

    def groups(self) -> Any:
        for name, node in super().groups():
            yield name, wrap_node(node)

    def group_values(self) -> Any:
        for node in super().group_values():
            yield wrap_node(node)


def _made_by(name: str) -> Callable[..., Any]:
    theirs = getattr(zarr.Group, name)

    def method(self: Group, *args: Any, **kwargs: Any) -> Any:
        return wrap_node(theirs(self, *args, **kwargs))

    method.__name__, method.__qualname__, method.__doc__ = name, f"Group.{name}", theirs.__doc__
    return method


for _name in (
    "array",
    "create",
    "create_array",
    "create_dataset",
    "create_group",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "get_array",
    "get_group",
    "ones",
    "ones_like",
    "require_array",
    "require_dataset",
    "require_group",
    "zeros",
    "zeros_like",
):
    if hasattr(zarr.Group, _name):
        setattr(Group, _name, _made_by(_name))
Group.__module__ = "penstock.zarr"


def wrap_node(node: Any) -> Any:
    """An array or group of zarr-python in the class here; all else, and arrays with a user's pipeline, unchanged."""
    if isinstance(node, zarr.Array):
        module = type(node._async_array.codec_pipeline).__module__
        return wrap(node) if module.partition(".")[0] in ("zarr", "penstock") else node
    if isinstance(node, zarr.Group) and not isinstance(node, Group):
        return Group(node._async_group)
    return node


def open_array(*args: Any, **kwargs: Any) -> Array:
    """Open an array as `zarr.open_array` does, as a `penstock.zarr.Array`.

    Parameters
    ----------
    args, kwargs
        Those of `zarr.open_array`.

    Returns
    -------
    penstock.zarr.Array

    Raises
    ------
    UnsupportedError
        zarr-python is older than 3.4.

    Examples
    --------
    >>> import penstock.zarr
    >>> ps.save("x.zarr", np.arange(12.0).reshape(3, 4))
    >>> penstock.zarr.open_array("x.zarr", mode="r")[1]
    array([4., 5., 6., 7.])
    """
    made: Array = wrap(originals.open_array(*args, **kwargs))
    return made


def open_group(*args: Any, **kwargs: Any) -> Group:
    """Open a group as `zarr.open_group` does; its arrays are `penstock.zarr.Array`.

    Parameters
    ----------
    args, kwargs
        Those of `zarr.open_group`.

    Returns
    -------
    penstock.zarr.Group

    Examples
    --------
    >>> import penstock.zarr
    >>> ps.save("run.zarr", t=np.arange(4.0))
    >>> penstock.zarr.open_group("run.zarr", mode="r")["t"][1:3]
    array([1., 2.])
    """
    made = wrap_node(originals.open_group(*args, **kwargs))
    assert isinstance(made, Group)
    return made
