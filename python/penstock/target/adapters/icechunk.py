"""Stores of Icechunk."""

from __future__ import annotations

import re
from typing import Any

from penstock.target.adapters.zarr import ZarrAdapter

_ZARR_KEY = re.compile(r"(^|/)(zarr\.json|c(/\d+)*)$")


class IcechunkAdapter(ZarrAdapter):
    """A store of Icechunk. It raises an error for keys and folders that Zarr does not have: nothing is there."""

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        try:
            return await super().get(key, offset, length, from_end, expected)
        except ValueError:  # its InvalidInputError
            if _ZARR_KEY.search(key):
                raise
            return None

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        try:
            return await super().list_keys(prefix, children)
        except ValueError:
            if _ZARR_KEY.search(prefix.rstrip("/")) or await self.zarr_store.exists(f"{prefix}zarr.json"):
                raise
            return []
