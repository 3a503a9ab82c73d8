"""An HTTP/1.1 server for tests: objects by path, byte ranges, entity tags; a script determines its faults.

It counts requests in waves: a request belongs to the wave after the last one whose answer was sent before it arrived.
So the number of waves is the number of round trips that a client needed. Answers are sent once no request has arrived
for as long as the latency. Tests that count waves use `ROUND_TRIP`, which is long enough for a busy machine to send all
its requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

ROUND_TRIP = 0.4  # seconds


@dataclass
class Request:
    method: str
    path: str  # decoded, without the query
    query: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    number: int  # from 1
    wave: int
    target: str  # as it was received


@dataclass
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    length: str | None = None  # sent instead of the body's length; "": not sent
    delay: float = 0.0
    cut_after: int | None = None  # the connection closes after so many bytes of the body
    reset: bool = False  # the connection is reset instead of an answer
    drip: float = 0.0  # seconds between blocks of 1000 bytes


Script = Callable[[Request, Reply], None]


class HttpServer:
    """`with HttpServer({path: bytes}) as server:`. Objects may be changed at any time. With `tls`, it serves HTTPS."""

    def __init__(
        self, objects: Mapping[str, bytes] | None = None, latency: float = 0.0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.objects: dict[str, bytes] = {"/" + key.lstrip("/"): value for key, value in (objects or {}).items()}
        self.latency = latency
        self.tls = tls
        self.script: Script | None = None
        self.requests: list[Request] = []
        self.connections = 0
        self._answered_wave = 0
        self._arrived_at = 0.0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> HttpServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def waves(self) -> int:
        return max((each.wave for each in self.requests), default=0)

    def forget(self) -> None:
        """Reset the counts."""
        self.requests = []
        self._answered_wave = 0

    def put(self, path: str, value: bytes) -> None:
        self.objects["/" + path.lstrip("/")] = value

    # --- methods that a subclass may override ---

    def answer(self, request: Request) -> Reply:
        """The correct response."""
        value = self.objects.get(request.path)
        if request.method not in ("GET", "HEAD"):
            return Reply(405)
        return Reply(404, body=b"nothing here") if value is None else self.answer_object(request, value)

    def answer_object(self, request: Request, value: bytes) -> Reply:
        tag = f'"{hashlib.md5(value).hexdigest()}"'
        if request.headers.get("if-match", tag) != tag:
            return Reply(412)
        reply = Reply(200, {"ETag": tag, "Accept-Ranges": "bytes"}, value)
        wanted = request.headers.get("range")
        if wanted is None:
            return reply
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        size = len(value)
        begin = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        if begin >= size:
            return Reply(416, {"Content-Range": f"bytes */{size}", "ETag": tag})
        reply.status, reply.body = 206, value[begin:end]
        reply.headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        return reply

    # --- the server ---

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1 << 26, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}  # including handshakes
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # lets the transports close

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._converse(reader, writer)
        finally:
            if self.tls is None:
                writer.close()
            else:
                writer.transport.abort()  # does not wait for the client to close its end

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await self._one(reader, writer):
            pass

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        if headers.get("transfer-encoding") == "chunked":
            return False
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        reply = await self._reply(method, target, headers, body)
        if reply.reset:
            writer.transport.abort()
            return False
        lines = [f"HTTP/1.1 {reply.status} X", *(f"{name}: {value}" for name, value in reply.headers.items())]
        length = str(len(reply.body)) if reply.length is None else reply.length
        if length:
            lines.append(f"Content-Length: {length}")
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if method != "HEAD":
            rest = reply.body if reply.cut_after is None else reply.body[: reply.cut_after]
            step = 1000 if reply.drip else max(len(rest), 1)
            for begin in range(0, len(rest), step):
                writer.write(rest[begin : begin + step])
                await writer.drain()
                await asyncio.sleep(reply.drip)
        await writer.drain()
        return reply.cut_after is None and reply.length is None

    async def _reply(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Reply:
        """The response, returned when it is time to send it."""
        path, _, query = target.partition("?")
        wave = self._answered_wave + 1
        request = Request(method, unquote(path), query, headers, body, len(self.requests) + 1, wave, target)
        self.requests.append(request)
        reply = self.answer(request)
        if self.script is not None:
            self.script(request, reply)
        self._arrived_at = self._loop.time()
        await asyncio.sleep(self.latency + reply.delay)
        # A client on a busy machine may take longer to send all its requests.
        while (quiet := self._loop.time() - self._arrived_at) < self.latency:
            await asyncio.sleep(self.latency - quiet)
        self._answered_wave = max(self._answered_wave, wave)
        return reply
