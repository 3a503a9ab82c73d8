"""Names of the dimensions of HDF5 datasets."""

from __future__ import annotations

import functools

_PHONY = "phony_dim_"


class DimensionNames:
    """A name for each dimension of each dataset of a file, by the datasets' paths."""

    def __init__(self, names: dict[str, tuple[str, ...]], links: dict[str, str]) -> None:
        self._names = names
        self._links = links  # further paths of groups, and the first one of each

    def of(self, path: str) -> tuple[str, ...] | None:
        """The names for the dataset at a path; None if it has none, or is not readable."""
        group = ""
        *above, name = path.split("/")
        for part in above:
            group = f"{group}/{part}".lstrip("/")
            group = self._links.get(group, group)
        return self._names.get(f"{group}/{name}".lstrip("/"))

    @functools.cached_property
    def next_number(self) -> int:
        """The first number that the names `phony_dim_...` of the file do not use."""
        given = [
            name.removeprefix(_PHONY) for names in self._names.values() for name in names if name.startswith(_PHONY)
        ]
        return max((int(number) for number in given if number.isdecimal()), default=-1) + 1
