"""The base class of stores that users write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from penstock.core.errors import ReadOnlyError, UnsupportedError


class Store(ABC):
    """Base class for stores written in Python; only `get` is required, and `set` and `delete` to write.

    Methods are called from several threads at once. `get` returns None where the object is absent, and raises for
    every other trouble: a failure must never look like absence.
    """

    @abstractmethod
    def get(self, key: str) -> bytes | memoryview | None:
        """All bytes of an object, or None if it does not exist."""

    def get_range(self, key: str, start: int, length: int) -> bytes | memoryview | None:
        """`length` bytes from `start`; override it where the store can read a part."""
        value = self.get(key)
        return None if value is None else memoryview(value)[start : start + length]

    def get_suffix(self, key: str, length: int) -> bytes | memoryview | None:
        """The last `length` bytes; override it where the store can read a part."""
        value = self.get(key)
        return None if value is None else memoryview(value)[-length:] if length else b""

    def list(self, prefix: str) -> Iterable[str]:
        """Every key that begins with `prefix`; needed for listing groups only."""
        raise UnsupportedError(f"{type(self).__name__} cannot list its keys")

    def set(self, key: str, value: bytes) -> None:
        """Replace or create an object; readers see the old bytes or the new ones, never a mixture."""
        raise ReadOnlyError(f"{type(self).__name__} cannot be written to: it has no set(key, value)")

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""
        raise ReadOnlyError(f"{type(self).__name__} cannot be written to: it has no delete(key)")

    def version(self, key: str) -> str | None:
        """What changes whenever the object does (an entity tag, a counter); None where there is no object.

        With it, indexes that were read of an object are cached from one read to the next. Without it a store has no
        versions.
        """
        return None
