"""Typed arguments of `open_shards`."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from penstock.api.npy import refuse_options
from penstock.core.context import Context, current_context
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.shards.names import FORMATS, Files
from penstock.shards.raw import raw_settings
from penstock.shards.readers import Metadata, Reader


@dataclass(frozen=True)
class RawItems:
    """The description of raw files, as far as the caller gives it; the docstring of `open_shards` explains each
    member."""

    dtype: npt.DTypeLike | None = None
    shape: Sequence[int] | None = None
    row_shape: Sequence[int] | None = None
    offset: int | None = None
    order: str | None = None

    def __post_init__(self) -> None:
        if self.order not in ("C", "F", None):
            raise InvalidArgumentError(f"order is 'C' or 'F', not {self.order!r}")

    def settings(self, found: Files, axis: int) -> dict[str, Any]:
        """The same with the contents of sidecar files of raw files, in the form for the engine."""
        return raw_settings(found, axis, self.dtype, self.shape, self.row_shape, self.offset, self.order)


@dataclass(frozen=True)
class TableOptions:
    """The options of Parquet and Arrow files."""

    columns: str | Sequence[str] | None = None
    nulls: Any = "error"
    dtype: npt.DTypeLike | None = None

    @classmethod
    def taken_from(cls, options: dict[str, Any], dtype: npt.DTypeLike | None) -> TableOptions:
        """Remove its members from `options`."""
        if "column" in options and "columns" in options:
            raise InvalidArgumentError("column and columns are the same option")
        columns = options.pop("column", options.pop("columns", None))
        return cls(columns, options.pop("nulls", "error"), dtype)


@dataclass(frozen=True)
class ShardRequest:
    """The arguments of `open_shards` except the files."""

    axis: int
    format: str | None
    items: RawItems
    gaps: str
    missing: str
    allow_local: bool | None
    manifest: Any
    metadata: Metadata | None
    reader: Reader | None
    mmap: bool
    context: Context
    storage_options: Mapping[str, Any] | None
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, axis: Any, context: Context | None, **members: Any) -> ShardRequest:
        """Check everything that can be checked without the files."""
        try:
            number = operator.index(axis)
        except TypeError:
            raise InvalidArgumentError(f"axis must be a whole number, got {axis!r}") from None
        return cls(axis=number, context=current_context() if context is None else context, **members)

    def __post_init__(self) -> None:
        if self.gaps not in ("error", "allow"):
            raise InvalidArgumentError(f"gaps must be 'error' or 'allow', got {self.gaps!r}")
        if self.missing not in ("error", "fill"):
            raise InvalidArgumentError(f"missing must be 'error' or 'fill', got {self.missing!r}")
        if self.format is not None and self.format not in FORMATS:
            known = ", ".join(map(repr, FORMATS))
            raise UnsupportedError(f"format is one of {known} or None, not {self.format!r}")
        if (self.metadata is None) != (self.reader is None):
            raise InvalidArgumentError("metadata and reader go together")

    @property
    def allow_gaps(self) -> bool:
        return self.gaps == "allow"

    def of_manifest(self) -> dict[str, Any]:
        """Options that have no meaning with a manifest, by name."""
        own = {"format": self.format, **vars(self.items), "manifest": self.manifest, "metadata": self.metadata}
        return {**own, **self.options}

    def refuse_other(self, what: str, **options: Any) -> None:
        """Refuse arguments without a meaning for `what`: the given options, mapping, a manifest, and
        missing="fill"."""
        refuse_options(options, self.mmap, self.manifest, what)
        self.refuse_missing()

    def refuse_missing(self) -> None:
        """Refuse missing="fill" for sources other than a manifest or references."""
        if self.missing != "error":
            raise InvalidArgumentError(
                'missing="fill" needs a manifest or references: the length of an absent file is unknown'
            )


def refuse_given(what: str, options: Mapping[str, Any]) -> None:
    """Refuse options for `what`, which defines their values itself."""
    named = [name for name, value in options.items() if value is not None]
    if named:
        verb = "defines its own" if what.startswith("a ") else "define their own"
        raise InvalidArgumentError(f"{named[0]}= is not accepted: {what} {verb}")
