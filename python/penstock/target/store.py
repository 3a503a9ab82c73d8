"""The base class of stores that users write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.core.errors import ReadOnlyError, UnsupportedError


def bytes_view(value: Any) -> memoryview:
    """The memory of an object as bytes: its items may be longer."""
    view = memoryview(value)
    return view if view.ndim == 1 and view.itemsize == 1 else view.cast("B")


class Store(ABC):
    """Base class for stores written in Python; only `get` is required, and `set` and `delete` to write.

    Methods are called from several threads at once. `get` returns None only if the object does not exist, and raises on
    every other failure: otherwise missing data would silently be filled.

    Examples
    --------
    A store that counts requests, over a dict:

    >>> class Counted(ps.Store):
    ...     def __init__(self):
    ...         self.objects, self.requests = {}, 0
    ...     def get(self, key):
    ...         self.requests += 1
    ...         return self.objects.get(key)
    ...     def set(self, key, value):
    ...         self.objects[key] = bytes(value)
    ...     def delete(self, key):
    ...         self.objects.pop(key, None)
    ...     def list(self, prefix):
    ...         return [key for key in self.objects if key.startswith(prefix)]
    >>> store = Counted()
    >>> ps.save(store, np.arange(6.0))
    >>> ps.open(store)[2:4]
    array([2., 3.])
    >>> sorted(store.objects)
    ['c/0', 'zarr.json']
    >>> ps.Store.get_range(store, "c/0", 0, 4) == store.get("c/0")[:4]
    True
    >>> bytes(ps.Store.get_suffix(store, "c/0", 4)) == store.get("c/0")[-4:]
    True
    >>> store.version("c/0") is None
    True
    >>> list(store.list("c/"))
    ['c/0']
    >>> store.delete("c/0")                                    # its chunk is now the fill value
    >>> ps.open(store)[2:4]
    array([0., 0.])
    """

    @abstractmethod
    def get(self, key: str) -> bytes | memoryview | None:
        """Return all bytes of an object, or None if it does not exist."""

    def get_range(self, key: str, start: int, length: int) -> bytes | memoryview | None:
        """Return `length` bytes from `start`; override it if the store can read a part.

        Parameters
        ----------
        key
            The object's key.
        start, length
            In bytes.

        Returns
        -------
        bytes, memoryview or None
            None if the object does not exist; fewer bytes if it ends before.
        """
        value = self.get(key)
        return None if value is None else bytes_view(value)[start : start + length]

    def get_suffix(self, key: str, length: int) -> bytes | memoryview | None:
        """Return the last `length` bytes; override it if the store can read a part."""
        value = self.get(key)
        return None if value is None else bytes_view(value)[-length:] if length else b""

    def list(self, prefix: str) -> Iterable[str]:
        """Return every key that begins with `prefix`; only needed to list groups.

        Raises
        ------
        UnsupportedError
            By default: the store cannot list its keys.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot list its keys")

    def set(self, key: str, value: bytes) -> None:
        """Replace or create an object; readers see the old bytes or the new ones, never a mixture.

        Raises
        ------
        ReadOnlyError
            By default: the store cannot be written to.
        """
        raise ReadOnlyError(f"{type(self).__name__} cannot be written to: it has no set(key, value)")

    def delete(self, key: str) -> None:
        """Remove an object; an absent object is not an error.

        Raises
        ------
        ReadOnlyError
            By default: the store cannot be written to.
        """
        raise ReadOnlyError(f"{type(self).__name__} cannot be written to: it has no delete(key)")

    def version(self, key: str) -> str | None:
        """Return a value that changes whenever the object does (an entity tag, a counter).

        None if `key` has no object. With it, an object's indexes are cached from one read to the next. Without it a
        store has no versions.

        Parameters
        ----------
        key
            The object's key.

        Returns
        -------
        str or None
        """
        return None
