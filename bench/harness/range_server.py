"""Serves a folder over HTTP with byte ranges, and delays every answer by a given time: `range_server.py FOLDER
SECONDS`.

It prints its port when it is ready, and ends when its standard input does. It is a separate process, so that it does
not compete with the measured program for an interpreter.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

COUNT = "/requests-so-far"
"""Reports the number of requests. It is answered at once and not counted."""


@contextmanager
def serving(folder: Path, latency_s: float) -> Iterator[str]:
    """The URL of `folder`, while the block runs."""
    command = [sys.executable, __file__, str(folder), str(latency_s)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.stdin.close()
        server.wait(timeout=10)
        server.stdout.close()


async def serve(folder: Path, latency_s: float) -> None:
    requests = 0

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        try:
            while request := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n"):
                method, target, _ = request[0].split()
                fields = dict(line.lower().split(": ", 1) for line in request[1:] if line)
                if target == COUNT:
                    text = str(requests).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
                    await writer.drain()
                    continue
                requests += 1
                await asyncio.sleep(latency_s)
                path = folder / unquote(target.partition("?")[0]).lstrip("/")
                head, body = answer(path, fields.get("range"), has_body=method != "HEAD")
                writer.write(head + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


def answer(path: Path, wanted: str | None, has_body: bool) -> tuple[bytes, bytes]:
    """The head and the body of an answer, RFC 9110. For HEAD the body is not read, which would take time."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            size, tag = status.st_size, f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
            first, last = bounds(wanted, size)
            body = os.pread(file.fileno(), last - first, first) if has_body else b""
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b""
    lines = ["HTTP/1.1 206 Partial Content" if wanted else "HTTP/1.1 200 OK", f"Content-Length: {last - first}"]
    lines += [f"ETag: {tag}", "Accept-Ranges: bytes"]
    if wanted:
        lines.append(f"Content-Range: bytes {first}-{last - 1}/{size}")
    return "\r\n".join([*lines, "", ""]).encode(), body


def bounds(wanted: str | None, size: int) -> tuple[int, int]:
    """The begin and the end of a range, cut to the object."""
    if wanted is None:
        return 0, size
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
