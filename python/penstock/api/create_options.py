"""Converts users' options of `create_array` to the engine's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock import _core
from penstock.core.chunking import as_list
from penstock.core.context import current_context
from penstock.core.data_types import codec_json
from penstock.core.errors import InvalidArgumentError, UnsupportedError

AUTO = "auto"


def format_for_new(target: Any, path: str) -> str:
    """The format of a new array, by its name: "zarr", or that of a registered format whose arrays are one file."""
    if isinstance(target, os.PathLike):
        target = os.fsdecode(target)
    if isinstance(target, _core.Group):
        return "zarr"  # its arrays may have any name
    if not isinstance(target, str | dict | _core.Store) and not hasattr(target, "get"):
        return "zarr"
    name = path or (target if isinstance(target, str) else "")
    return _core.format_for_new(os.fsencode(name.rstrip("/")), current_context())


def check_name(target: Any, path: str, storage_options: Any = None) -> None:
    """Refuse a name with the ending of another format, and options for a local path."""
    if isinstance(target, str | os.PathLike) and not path:
        _core.check_new_name(os.fsencode(target))
    if storage_options and isinstance(target, os.PathLike):
        raise UnsupportedError(f"storage_options are for remote URIs, not for '{os.fsdecode(target)}'")


def check_format(zarr_format: Any) -> None:
    if isinstance(zarr_format, bool) or not isinstance(zarr_format, int) or zarr_format not in (2, 3):
        raise InvalidArgumentError(f"zarr_format must be 2 or 3, got {zarr_format!r}")


def format_below(group: _core.Group, zarr_format: Any) -> int:
    """The format of new nodes in a group: its own. Refuses another one, except for 3, which is the default."""
    check_format(zarr_format)
    own = 2 if group.format == "zarr2" else 3
    if zarr_format not in (own, 3):
        raise InvalidArgumentError(f"zarr_format is {zarr_format}, the group '{group.uri}' has {own}")
    return own


def check_text(value: Any, name: str) -> None:
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a str, got {value!r}")


def lengths_of(value: Any, name: str) -> list[int]:
    value = as_list(value)
    try:
        return [int(value.__index__())] if hasattr(value, "__index__") else [_whole(each) for each in value]
    except (TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{name} must be an int or ints, got {value!r}") from error


def _whole(value: Any) -> int:
    number = int(value.__index__())
    if number < 0:
        raise InvalidArgumentError(f"lengths cannot be negative: {number}")
    return number


def chunks_of(chunks: Any, rank: int) -> dict[str, Any]:
    if chunks is None or chunks is True or (isinstance(chunks, str) and chunks == AUTO):
        return {}
    if hasattr(chunks, "__index__"):
        return {"chunks": [_whole(chunks)] * rank}
    parts = [as_list(part) for part in chunks]
    if all(hasattr(part, "__index__") for part in parts):
        return {"chunks": [_whole(part) for part in parts]}
    lengths, longest = _edge_lists(parts)
    return {"chunk_lengths": lengths, "chunks": longest}


def _edge_lists(parts: Sequence[Any]) -> tuple[list[list[int]], list[int]]:
    """The lengths of each dimension, empty if one number is sufficient, and the longest of each."""
    for part in parts:
        if not (hasattr(part, "__index__") or isinstance(part, Iterable)) or isinstance(part, str):
            raise InvalidArgumentError(f"lengths of a dimension's chunks are an int or a list of ints, got {part!r}")
    lengths = [[] if hasattr(part, "__index__") else _edges(part) for part in parts]
    longest = [max(each, default=1) if each else _whole(part) for each, part in zip(lengths, parts, strict=True)]
    return lengths, longest


def _edges(part: Any) -> list[int]:
    """The lengths of one dimension's chunks; a pair within it is a length and its number of repetitions."""
    out: list[int] = []
    for each in part:
        if hasattr(each, "__index__"):
            out.append(_whole(each))
        else:
            length, count = each
            out.extend([_whole(length)] * _whole(count))
    if not out:
        raise InvalidArgumentError("a list of lengths of a dimension is empty")
    return out


def shards_of(shards: Any, rank: int) -> dict[str, Any]:
    if shards is None or (isinstance(shards, str) and shards == AUTO):
        return {"shards": shards}
    if isinstance(shards, Mapping):
        return _shards_of_zarr(shards, rank)
    if hasattr(shards, "__index__"):
        return {"shards": [_whole(shards)] * rank}
    parts = [as_list(part) for part in shards]
    if all(hasattr(part, "__index__") for part in parts):
        return {"shards": [_whole(part) for part in parts]}
    lengths, longest = _edge_lists(parts)
    return {"shard_lengths": lengths, "shards": longest}


def _shards_of_zarr(shards: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """zarr-python's `{"shape": ..., "index_location": "start"|"end"}`."""
    where = shards.get("index_location", "end")
    if "shape" not in shards or set(shards) - {"shape", "index_location"} or where not in ("start", "end"):
        form = '{"shape": lengths, "index_location": "start" or "end"}'
        raise InvalidArgumentError(f"shards as a mapping are {form}, not {dict(shards)!r}")
    return {**shards_of(shards["shape"], rank), "shard_index_first": where == "start"}


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def _as_list(value: Any, zarr_format: int) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str | Mapping) or hasattr(value, "to_dict") or hasattr(value, "get_config"):
        value = [value]
    return [codec_json(codec, zarr_format) for codec in value]


def codecs_of(codecs: Any, filters: Any, serializer: Any, compressors: Any, zarr_format: int) -> dict[str, Any]:
    in_parts = not (_is_auto(filters) and _is_auto(serializer) and _is_auto(compressors))
    if in_parts and not _is_auto(codecs):
        raise InvalidArgumentError("give codecs, or filters, serializer and compressors")
    if zarr_format == 2:
        return {"codecs": _v2_codecs(codecs, filters, compressors)}
    if not in_parts:
        return {} if _is_auto(codecs) else {"codecs": json.dumps(_as_list(codecs, 3))}
    chain = [] if _is_auto(filters) else _as_list(filters, 3)
    chain += [] if _is_auto(serializer) else _as_list(serializer, 3)
    chain += [codec_json("zstd", 3)] if _is_auto(compressors) else _as_list(compressors, 3)
    return {"codecs": json.dumps([_with_settings(codec) for codec in chain])}


def makes_objects(options: Mapping[str, Any]) -> bool:
    """Whether the filters of `codecs_of` begin with a codec for objects other than text: that codec then determines the
    array's elements.
    """
    filters = json.loads(options.get("codecs") or "{}")
    first = (filters.get("filters") or [{}])[0] if isinstance(filters, dict) else {}
    return first.get("id") in ("vlen-array", "json2", "msgpack2", "pickle", "categorize")


def _with_settings(codec: dict[str, Any]) -> dict[str, Any]:
    if codec == {"name": "zstd"}:
        return {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
    return codec


def _v2_codecs(codecs: Any, filters: Any, compressors: Any) -> str | None:
    chosen: dict[str, Any] = {}
    if not _is_auto(codecs):
        listed = _as_list(codecs, 2)
        chosen = {"filters": listed[:-1] or None, "compressor": listed[-1] if listed else None}
    if not _is_auto(filters):
        chosen["filters"] = _as_list(filters, 2) or None
    if not _is_auto(compressors):
        listed = _as_list(compressors, 2)
        if len(listed) > 1:
            raise InvalidArgumentError(f"compressors: zarr_format 2 has one, {len(listed)} are given")
        chosen["compressor"] = listed[0] if listed else None
    return json.dumps(chosen) if chosen else None


def keys_of(encoding: Any, separator: str | None) -> dict[str, Any]:
    if encoding is None:
        return {} if separator is None else {"separator": separator}
    if hasattr(encoding, "to_dict"):
        encoding = encoding.to_dict()
    if isinstance(encoding, str):
        encoding = {"name": encoding}
    if not isinstance(encoding, Mapping):
        raise InvalidArgumentError(f"chunk_key_encoding must be a mapping or a name, got {encoding!r}")
    name = encoding.get("name")
    settings = encoding.get("configuration") or encoding
    if name == "suffix":
        if not isinstance(settings.get("suffix"), str):
            raise InvalidArgumentError("chunk_key_encoding 'suffix' needs a suffix, a string")
        base = keys_of(settings.get("base_encoding", settings.get("base-encoding")), separator)
        return {**base, "key_suffix": base.get("key_suffix", "") + settings["suffix"]}
    if name not in ("default", "v2"):
        raise InvalidArgumentError(f"chunk_key_encoding must be 'default', 'v2' or 'suffix', got {name!r}")
    return {"v2_keys": name == "v2", "separator": settings.get("separator", separator)}
