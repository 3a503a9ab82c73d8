"""Object stores of obstore."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from penstock.target.adapters.asynchronous import AsyncAdapter
from penstock.target.adapters.requests import ABSENT, Stored


class ObstoreAdapter(AsyncAdapter):
    """An obstore object store. Entity tags are versions, and writes are conditional on them."""

    def __init__(self, store: Any, writable: bool = True) -> None:
        self.object_store = store
        self.exceptions = importlib.import_module("obstore.exceptions")
        kind = type(store).__name__
        self.versions = kind in ("S3Store", "GCSStore", "AzureStore", "MemoryStore")
        self.writable = writable and kind != "HTTPStore"
        # Stores that write on condition of a tag; other stores refuse that.
        self.swaps = self.versions

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        options: dict[str, Any] = {}
        if length and from_end:
            options["range"] = {"suffix": length}
        elif length:
            options["range"] = (offset, offset + length)
        if expected is not None:
            options["if_match"] = expected
        try:
            if length == 0:
                tag = (await self.object_store.head_async(key))["e_tag"]
                return False if expected is not None and tag != expected else self._with_tag(b"", tag)
            found = await self.object_store.get_async(key, options=options)
            return self._with_tag(await found.bytes_async(), found.meta["e_tag"])
        except ABSENT:
            return None
        except self.exceptions.PreconditionError:
            return False
        except (self.exceptions.PermissionDeniedError, self.exceptions.UnauthenticatedError) as error:
            raise PermissionError(str(error)) from error
        except self.exceptions.GenericError:
            # A range beyond the object is an error of the reader, not of the store.
            if length and not from_end and offset + length > (await self.object_store.head_async(key))["size"]:
                return self._with_tag(b"", None)
            raise

    def _with_tag(self, value: Any, tag: str | None) -> Any:
        return (value, tag) if self.versions else value

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        if children:
            found = await self.object_store.list_with_delimiter_async(prefix or None)
            return [item["path"] for item in found["objects"]] + [path + "/" for path in found["common_prefixes"]]
        return [item["path"] async for batch in self.object_store.list(prefix or None) for item in batch]

    async def set_value(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        mode: Any = "overwrite"
        if absent:
            mode = "create"
        elif expected is not None and self.swaps:
            mode = {"e_tag": expected}
        try:
            made = await self.object_store.put_async(key, value, mode=mode)
        except (self.exceptions.AlreadyExistsError, self.exceptions.PreconditionError):
            return False
        except (self.exceptions.NotFoundError, FileNotFoundError):
            if expected is None:
                raise
            return False
        except (self.exceptions.PermissionDeniedError, self.exceptions.UnauthenticatedError) as error:
            raise PermissionError(str(error)) from error
        return made["e_tag"] if self.versions else None

    async def delete(self, key: str) -> None:
        with contextlib.suppress(*ABSENT):
            await self.object_store.delete_async(key)
