"""The base class of stores that users write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from penstock.core.errors import ReadOnlyError, UnsupportedError


class Store(ABC):
    """Base class for stores written in Python; only `get` is required, and `set` and `delete` to write.

    Methods are called from several threads at once. `get` returns None only if the object does not exist, and raises on
    every other failure: otherwise missing data would silently be filled.
    """

    @abstractmethod
    def get(self, key: str) -> bytes | memoryview | None:
        """All bytes of an object, or None if it does not exist."""

    def get_range(self, key: str, start: int, length: int) -> bytes | memoryview | None:
        """`length` bytes from `start`; override it if the store can read a part."""
        value = self.get(key)
        return None if value is None else memoryview(value)[start : start + length]

    def get_suffix(self, key: str, length: int) -> bytes | memoryview | None:
        """The last `length` bytes; override it if the store can read a part."""
        value = self.get(key)
        return None if value is None else memoryview(value)[-length:] if length else b""

    def list(self, prefix: str) -> Iterable[str]:
        """Every key that begins with `prefix`; only needed to list groups."""
        raise UnsupportedError(f"{type(self).__name__} cannot list its keys")

    def set(self, key: str, value: bytes) -> None:
        """Replace or create an object; readers see the old bytes or the new ones, never a mixture."""
        raise ReadOnlyError(f"{type(self).__name__} cannot be written to: it has no set(key, value)")

    def delete(self, key: str) -> None:
        """Remove an object; an absent object is not an error."""
        raise ReadOnlyError(f"{type(self).__name__} cannot be written to: it has no delete(key)")

    def version(self, key: str) -> str | None:
        """A value that changes whenever the object does (an entity tag, a counter); None if `key` has no object.

        With it, an object's indexes are cached from one read to the next. Without it a store has no versions.
        """
        return None
