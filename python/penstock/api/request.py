"""The arguments of `open`, and the node that they name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock import _core
from penstock.core.context import Context
from penstock.core.errors import Error, InvalidArgumentError, NotFoundError, UnsupportedError
from penstock.core.sizes import suggestion
from penstock.geo.image_options import NO_OPTIONS, ImageOptions
from penstock.target.file_objects import ReaderStore, as_store, contents, in_memory, is_file, is_reader
from penstock.target.place import place_elsewhere

REFERENCES = "reference://"
_OF_REFERENCES = ("remote_options", "remote_protocol")
OF_ALL_FORMATS = (
    *("mode", "context", "cache_index", "storage_options", "use_consolidated"),
    *("page", "level", "layout", "bands", "mask", "ifd", "unpack", "device"),
)
"""The options of `open` that are parameters of their own."""


@dataclass(slots=True, eq=False)
class Request:
    """The arguments of `open`. Not changed; a frozen class would take three times as long to create."""

    target: Any
    path: str
    context: Context
    storage_options: Mapping[str, Any] | None = None
    cache_index: bool = False
    use_consolidated: bool | None = None
    image: ImageOptions = NO_OPTIONS
    options: dict[str, Any] = field(default_factory=dict)

    def normalized(self) -> Request:
        """The request with an open file as its path or bytes, references as fsspec names them, and a URI split."""
        target, storage_options = self.target, self.storage_options
        path = self.path
        if isinstance(target, list | tuple):
            text = f"open takes one target, got a {type(target).__name__}: open_shards opens many files as one array"
            raise InvalidArgumentError(text)
        if not isinstance(target, str):
            if is_reader(target):
                target, path = ReaderStore(target), f"{ReaderStore.KEY}/{path}".rstrip("/")
            elif is_file(target):
                target = contents(target)
            target, path = as_store(target, path)
            if is_references(target):
                storage_options, target = {**(storage_options or {}), "fo": target}, REFERENCES
        elif "://" in target:
            outer, inner = map(os.fsdecode, _core.split_at_object(os.fsencode(target)))
            if inner:
                target, path = outer, "/".join(part for part in (inner, path) if part)
        options = self.options
        if "columns" in options and options["columns"] is None:
            options = {name: value for name, value in options.items() if name != "columns"}
        if target is self.target and path is self.path and options is self.options:
            return self
        return replace(self, target=target, path=path, storage_options=storage_options, options=options)

    @property
    def own_options(self) -> dict[str, Any]:
        """The storage options without those for the files that references name."""
        return {name: value for name, value in (self.storage_options or {}).items() if name not in _OF_REFERENCES}

    def find(self) -> _core.Found:
        """Find the node. Each object's first bytes are read at most once."""
        is_object = bool(self.options) or self.image.for_engine() is not None
        path = os.fsencode(self.path) if self.path else b""
        how = (path, self.cache_index, self.use_consolidated, is_object)
        is_here = self.is_path and not self.storage_options
        place = None if is_here else place_elsewhere(self.target, self.own_options, self.context)
        if place is None:
            return _core.find_local(os.fsencode(self.target), self.context, *how)
        store, key = place
        try:
            return _core.find_node(store, self.context, key, *how)
        except NotFoundError as error:
            if in_memory(self.target) and not self.path:
                raise UnsupportedError("these bytes are not a file of a format that is one file") from error
            raise

    @property
    def is_path(self) -> bool:
        """Whether the target is a path without a scheme. Others may be paths too: `file:` URIs, names with a colon."""
        return isinstance(self.target, str) and ":" not in self.target

    def refuse_options(self) -> None:
        """Refuse options of formats that are one file, for nodes of other formats."""
        if self.options:
            name = next(iter(self.options))
            hint = suggestion(name, OF_ALL_FORMATS)
            raise unused(InvalidArgumentError(f"{self.target!r} takes no option {name!r}{hint}"), name)

    def refuse_storage_options(self) -> None:
        """Refuse storage options for local targets, except for fsspec's chains (`simplecache::file://...`)."""
        is_chain = isinstance(self.target, str) and "::" in self.target and "://" in self.target
        if self.own_options and isinstance(self.target, str) and not is_chain:
            text = f"storage_options are for remote URIs, not for '{self.target}'"
            raise unused(UnsupportedError(text), "storage_options")


def unused(error: Error, option: str) -> Error:
    """The error with the name of the option that a target does not have: `unused_option_of` returns it."""
    vars(error)["_unused_option"] = option
    return error


def unused_option_of(error: Error) -> str | None:
    """The option of `open` that is the reason for an error, because the target does not have it."""
    return vars(error).get("_unused_option")


def is_references(target: Any) -> bool:
    """True for a kerchunk document that is a dict, which a dict of stored bytes is not."""
    if not isinstance(target, dict) or not target:
        return False
    if isinstance(target.get("refs"), Mapping):
        return True
    zarr = any(isinstance(key, str) and key.rpartition("/")[2] in (".zgroup", ".zarray", "zarr.json") for key in target)
    return zarr and any(isinstance(value, str | list | tuple) for value in target.values())


@dataclass(frozen=True)
class Origin:
    """The location of a found object, in a form for other processes."""

    name: str | None  # an absolute path or a URI; None: only this process has it
    is_file: bool  # a local path

    @classmethod
    def of(cls, request: Request, found: _core.Found) -> Origin:
        uri = found.store.uri
        if uri.startswith("file:"):
            key, root = os.fsdecode(found.key), uri.removeprefix("file://")
            return cls(f"{root.rstrip('/')}/{key}" if key else root, True)
        if isinstance(request.target, str) and not uri.startswith("zip:"):
            return cls(_object_uri(request.target, request.path, os.fsdecode(found.inner)), False)
        return cls(None, False)


def _object_uri(target: str, path: str, inner: str) -> str:
    """The URI of an object that was found for `path` below `target`, and whose path `inner` is the node's."""
    path, target = "/".join(part for part in path.split("/") if part), target.rstrip("/") or target
    if inner == path:
        return target
    if path.endswith(f"/{inner}") or not inner:  # the path continues up to the object
        outer = path[: len(path) - len(inner)].strip("/")
        return f"{target}/{outer}"
    within = inner[: len(inner) - len(path)].strip("/")  # the target continues inside it
    return target.removesuffix(f"/{within}")
