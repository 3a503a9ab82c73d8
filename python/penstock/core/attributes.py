"""Attributes of arrays and groups: a mapping that writes through."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from penstock import _core
from penstock.core.errors import InvalidArgumentError


def to_json(attributes: Any) -> str:
    """The JSON text of attributes; NumPy's scalars and arrays become numbers and lists."""
    try:
        return json.dumps(attributes, default=_plain)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"attributes must be JSON: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.longdouble) and (value == float(value) or value != value):
        return float(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "mM":  # times would become numbers
        made = value.tolist()
        if not isinstance(made, np.generic):  # a long double that is not a double
            return made
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


class Attributes(MutableMapping[str, Any]):
    """The attributes of an open array or group.

    Setting, removing and updating change the stored document at once. Concurrent changes of other attributes by other
    writers are kept. Reading returns the attributes as of opening, or as of the last change through this object.
    """

    def __init__(self, node: _core.Array | _core.Group) -> None:
        self._node = node
        self._parsed: tuple[str, dict[str, Any]] | None = None  # the text and its document

    def _write(self, set_json: str, removed: list[str] | None) -> None:
        if isinstance(self._node, _core.Group):
            self._node._check_format()  # type: ignore[attr-defined]
        _core.set_attributes(self._node, set_json, removed)

    def asdict(self) -> dict[str, Any]:
        """A copy of the attributes as a dict."""
        values: dict[str, Any] = json.loads(self._node._attributes_json)
        return values

    def _values(self) -> dict[str, Any]:
        text = self._node._attributes_json  # the same object until the node changes
        if self._parsed is None or self._parsed[0] is not text:
            self._parsed = text, json.loads(text)
        return self._parsed[1]

    def __getitem__(self, name: str) -> Any:
        return copy.deepcopy(self._values()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values()))

    def __len__(self) -> int:
        return len(self._values())

    def __setitem__(self, name: str, value: Any) -> None:
        self._write(to_json({_name(name): value}), [])

    def __delitem__(self, name: str) -> None:
        if name not in self._values():
            raise KeyError(name)
        self._write("{}", [name])

    def update(self, *others: Any, **values: Any) -> None:
        """As dict.update, in one write."""
        new: dict[str, Any] = {}
        new.update(*others, **values)
        self._write(to_json({_name(name): value for name, value in new.items()}), [])

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes."""
        self._write(to_json(dict(attributes)), None)

    def clear(self) -> None:
        """Remove all attributes."""
        self.put({})

    def __repr__(self) -> str:
        return repr(self.asdict())


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"attributes have names, not {type(name).__name__}")
    return name
