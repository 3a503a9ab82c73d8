"""The locations that a document may name: references, manifests and virtual files determine further reads.

The rule is the engine's (`location_rule` in format/reference), for every kind of document.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from penstock import _core
from penstock.core.errors import InvalidArgumentError


@dataclass(frozen=True)
class Document:
    """A document that names locations, and the caller's permissions for it.

    Parameters
    ----------
    uri
        The document's location. Empty: the calling program created it (a dict, a pickle), and it counts as local.
    allow_local
        Whether it may name local files. None: only if it is a local file itself.
    expected
        Local paths that the caller named, too. They are always allowed.
    """

    uri: str
    allow_local: bool | None = None
    expected: Collection[str] = ()

    @classmethod
    def of(cls, uri: str, allow_local: bool | None = None, expected: Collection[str] = ()) -> Document:
        """The same, after checking the option that the caller gave."""
        if allow_local is not None and not isinstance(allow_local, bool):
            raise InvalidArgumentError(f"allow_local must be None, True or False, got {allow_local!r}")
        return cls(uri, allow_local, expected)

    def check(self, location: str) -> str:
        """Return `location`, a resolved path or URL that the document names.

        Raises
        ------
        UnsupportedError
            The document may not name it.
        """
        expected = [os.fsencode(each) for each in self.expected]
        _core.check_location(os.fsencode(self.uri), self.allow_local, expected, os.fsencode(location))
        return location


CALLERS_OWN = Document("")
"""A document that the calling program created."""
