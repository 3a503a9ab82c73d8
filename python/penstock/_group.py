"""Groups."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from penstock import _core
from penstock._array import Array, _picklable_uri, _reopen
from penstock._errors import NotFoundError


def wrap(node: _core.Array | _core.Group) -> Array | Group:
    """What users see of what the engine opened."""
    return Array(node) if isinstance(node, _core.Array) else Group(node)


class Group(_core.Group):
    """An open group. Made by `penstock.open`; iterating gives the names of its children, sorted."""

    # `uri`, `format` and `keys` are _core's.

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes, as a mapping that cannot be changed."""
        return MappingProxyType(json.loads(self._attributes_json))

    def __getitem__(self, path: str) -> Array | Group:
        """The child of that name, or of that path. Raises `NotFoundError` (a KeyError)."""
        if not isinstance(path, str):
            raise TypeError(f"a group's children have names, not {type(path).__name__}")
        return wrap(self._open(os.fsencode(path)))

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str) or not path.strip("/"):
            return False
        try:
            self[path]
        except NotFoundError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def members(self) -> Iterator[tuple[str, Array | Group]]:
        """(name, child) of every direct child."""
        for name in self.keys():
            yield name, self[name]

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """(name, array) of the direct children that are arrays."""
        return ((name, node) for name, node in self.members() if isinstance(node, Array))

    def groups(self) -> Iterator[tuple[str, Group]]:
        """(name, group) of the direct children that are groups."""
        return ((name, node) for name, node in self.members() if isinstance(node, Group))

    def tree(self) -> str:
        """The hierarchy as text, an array with its shape and dtype."""
        return "\n".join(["/", *_branches(self, "")])

    def __repr__(self) -> str:
        return f"<penstock.Group {self.uri!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (_picklable_uri(self),)


def _branches(group: Group, indent: str) -> Iterator[str]:
    members = list(group.members())
    for i, (name, node) in enumerate(members):
        last = i == len(members) - 1
        label = f"{name} {node.shape} {node.dtype}" if isinstance(node, Array) else name
        yield f"{indent}{'└── ' if last else '├── '}{label}"
        if isinstance(node, Group):
            yield from _branches(node, indent + ("    " if last else "│   "))
