"""Stores objects in memory like S3, and delays every answer by a given time: `put_server.py SECONDS`.

Supports PUT, GET with ranges, HEAD, DELETE and ListObjectsV2, without signatures and multipart uploads. It prints its
port when it is ready, and ends when its standard input does. It is a separate process, so that it does not compete with
the measured program for an interpreter.
"""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote
from xml.sax.saxutils import escape

from harness.range_server import bounds

BENCH = Path(__file__).resolve().parent.parent
COUNT = "/requests-so-far"
"""Reports the number of requests and the most that were in flight together. It is answered at once and not counted."""


@contextmanager
def taking(latency_s: float) -> Iterator[str]:
    """The server's URL, while the block runs."""
    command = [sys.executable, "-m", "harness.put_server", str(latency_s)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=BENCH)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.stdin.close()
        server.wait(timeout=10)
        server.stdout.close()


class Objects:
    """The stored objects, and the answers to requests."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.requests = 0
        self.under_way = 0
        self.most_together = 0

    def answer(
        self, method: str, path: str, query: str, fields: dict[str, str], body: bytes
    ) -> tuple[str, dict, bytes]:
        """Status, fields and body of an answer, RFC 9110 and the S3 API reference."""
        held = self.bodies.get(path)
        tag = self.tags.get(path, "")
        if method == "PUT":
            if (fields.get("if-none-match") == "*" and held is not None) or fields.get("if-match", tag) != tag:
                return "412 Precondition Failed", {}, b""
            self.bodies[path] = body
            self.tags[path] = f'"{hashlib.md5(body[:1024] + body[-1024:]).hexdigest()}-{self.requests}"'
            return "200 OK", {"ETag": self.tags[path]}, b""
        if method == "DELETE":
            self.bodies.pop(path, None)
            return "204 No Content", {}, b""
        if "list-type" in query:
            return "200 OK", {"Content-Type": "application/xml"}, self.listing(path, query)
        if held is None:
            return "404 Not Found", {}, b"<Error><Code>NoSuchKey</Code></Error>"
        facts = {"ETag": tag, "Accept-Ranges": "bytes", "Last-Modified": "Wed, 25 Nov 2026 00:00:00 GMT"}
        if wanted := fields.get("range"):
            first, last = bounds(wanted, len(held))
            facts["Content-Range"] = f"bytes {first}-{last - 1}/{len(held)}"
            return "206 Partial Content", facts, held[first:last]
        return "200 OK", facts, held

    def listing(self, path: str, query: str) -> bytes:
        asked = parse_qs(query)
        bucket = path.strip("/")
        prefix = asked.get("prefix", [""])[0]
        lines = ["<ListBucketResult><IsTruncated>false</IsTruncated>"]
        for name, body in sorted(self.bodies.items()):
            key = name.removeprefix(f"/{bucket}/")
            if key != name and key.startswith(prefix):
                lines.append(f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size>")
                lines.append("<LastModified>2026-11-25T00:00:00Z</LastModified><ETag>x</ETag></Contents>")
        return "".join([*lines, "</ListBucketResult>"]).encode()


async def serve(latency_s: float) -> None:
    objects = Objects()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n"):
                method, target, _ = request[0].split()
                fields = {
                    name.lower(): text for name, _, text in (line.partition(": ") for line in request[1:] if line)
                }
                if target == COUNT:
                    send(writer, "GET", "200 OK", {}, f"{objects.requests} {objects.most_together}".encode())
                    objects.most_together = 0
                    await writer.drain()
                    continue
                objects.requests += 1
                objects.under_way += 1
                objects.most_together = max(objects.most_together, objects.under_way)
                if "100-continue" in fields.get("expect", ""):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                await asyncio.sleep(latency_s)
                path, _, query = target.partition("?")
                send(writer, method, *objects.answer(method, unquote(path), query, fields, body))
                objects.under_way -= 1
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, limit=1 << 21)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


def send(writer: asyncio.StreamWriter, method: str, status: str, fields: dict[str, str], body: bytes) -> None:
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body)}",
        *(f"{name}: {text}" for name, text in fields.items()),
    ]
    head = "\r\n".join([*lines, "", ""]).encode()
    writer.write(head if method == "HEAD" else head + body)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
