"""Versions of remote objects, which manifests pin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.shards.files import side_by_side
from penstock.target.stores import remote_stamp


class Stamps:
    """Finds the stamps of remote objects, once for each. Called by the engine with their URLs."""

    def __init__(self, storage_options: Mapping[str, Any] | None) -> None:
        self._options = dict(storage_options or {})
        self._known: dict[str, str] = {}

    def __call__(self, urls: list[str]) -> list[str]:
        new = [url for url in dict.fromkeys(urls) if url not in self._known]
        self._known.update(zip(new, side_by_side(self._now, new), strict=True))
        return [self._known[url] for url in urls]

    def _now(self, url: str) -> str:
        """Return "" if no version is known: any version matches then."""
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            return ""
        try:
            filesystem, path = url_to_fs(url, **self._options)
        except (ImportError, ValueError):  # fsspec does not serve it
            return ""
        if hasattr(filesystem, "invalidate_cache"):
            filesystem.invalidate_cache(path)
        stamp = remote_stamp(filesystem, path)
        return "" if stamp is None or stamp == "gone" else stamp
