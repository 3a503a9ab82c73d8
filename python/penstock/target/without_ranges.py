"""Files on web servers that ignore ranges, for the readers that read them through fsspec."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import UnsupportedError

_MOST_WHOLE_BYTES = 1 << 28


def content_without_ranges(filesystem: Any, path: str, uri: str) -> bytes | None:
    """All bytes of a file of a web server that ignores ranges, up to 256 MiB; None for a server that supports them."""
    protocols = filesystem.protocol
    if "http" not in ((protocols,) if isinstance(protocols, str) else protocols):
        return None
    if not hasattr(filesystem, "set_session") or not _ignores_ranges(filesystem, path):
        return None
    with filesystem.open(path, "rb", block_size=0) as stream:  # without ranges, read as it arrives
        made = bytearray()
        while len(made) <= _MOST_WHOLE_BYTES and (part := stream.read(1 << 20)):  # the bytes so far
            made += part
    if len(made) > _MOST_WHOLE_BYTES:
        text = "the server ignores ranges and the file has more than 256 MiB: download it and open it by its path"
        raise UnsupportedError(text, f"opening '{uri}'")
    return bytes(made)


def _ignores_ranges(filesystem: Any, path: str) -> bool:
    from fsspec.asyn import sync

    async def ask() -> bool:
        session = await filesystem.set_session()
        options = dict(filesystem.kwargs)
        headers = {**options.pop("headers", {}), "Range": "bytes=0-7", "Accept-Encoding": "identity"}
        async with session.get(filesystem.encode_url(path), headers=headers, **options) as answer:
            length = answer.headers.get("Content-Length")
            return answer.status == 200 and (length is None or int(length) > 8)

    made: bool = sync(filesystem.loop, ask)
    return made
