"""The server of http_server.py over HTTP/2: requests are streams of one connection, answered as soon as possible."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
from support.http_server import HttpServer, Reply


class Http2Server(HttpServer):
    """Needs `tls`, whose context offers "h2".

    A reply that is `reset` resets its stream; one with `cut_after` closes the connection after that many bytes, with
    all streams of it.
    """

    max_streams = 100
    """The most requests that a client may have open at a time; more are refused, for it to repeat."""

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _Conversation(self, reader, writer).run()


class _Conversation:
    def __init__(self, server: Http2Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.wire = h2.connection.H2Connection(config=config)
        self.arriving: dict[int, tuple[dict[str, str], bytearray]] = {}
        self.streams: dict[int, asyncio.Task[Any]] = {}
        self.room = asyncio.Event()  # the client may have raised its limit

    async def run(self) -> None:
        self.wire.initiate_connection()
        self._flush()
        try:
            while data := await self.reader.read(1 << 16):
                for event in self.wire.receive_data(data):
                    self._take(event)
                self._flush()
        finally:
            for task in self.streams.values():
                task.cancel()

    def _flush(self) -> None:
        self.writer.write(self.wire.data_to_send())

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived() if len(self.arriving) + len(self.streams) >= self.server.max_streams:
                self.wire.reset_stream(event.stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
            case h2.events.RequestReceived():
                self.arriving[event.stream_id] = dict(event.headers), bytearray()
            case h2.events.DataReceived() if event.stream_id in self.arriving:
                self.arriving[event.stream_id][1].extend(event.data)
                self.wire.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded() if event.stream_id in self.arriving:
                headers, body = self.arriving.pop(event.stream_id)
                stream = self._stream(event.stream_id, headers, bytes(body))
                self.streams[event.stream_id] = asyncio.create_task(stream)
            case h2.events.StreamReset():
                if task := self.streams.pop(event.stream_id, None):
                    task.cancel()
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self.room.set()

    async def _stream(self, stream: int, headers: dict[str, str], body: bytes) -> None:
        pseudo = {name: headers.pop(name) for name in list(headers) if name.startswith(":")}
        method, target, headers["host"] = (pseudo[name] for name in (":method", ":path", ":authority"))
        try:
            reply = await self.server._reply(method, target, headers, body)
        except Exception:
            self.writer.transport.abort()  # a bug in the test: fail instead of waiting
            raise
        with contextlib.suppress(h2.exceptions.ProtocolError, OSError):  # the client has closed the connection
            if reply.reset:
                self.wire.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
            else:
                await self._send(stream, reply, with_body=method != "HEAD")
            self._flush()
        self.streams.pop(stream, None)

    async def _send(self, stream: int, reply: Reply, with_body: bool) -> None:
        length = str(len(reply.body)) if reply.length is None else reply.length
        said = [(name.lower(), value) for name, value in reply.headers.items()]
        said += [("content-length", length)] if length else []
        self.wire.send_headers(stream, [(":status", str(reply.status)), *said])
        rest = memoryview(reply.body if with_body else b"")[: reply.cut_after]
        while rest:
            step = min(self.wire.local_flow_control_window(stream), self.wire.max_outbound_frame_size, len(rest))
            step = min(step, 1000) if reply.drip else step
            if step == 0:
                self.room.clear()
                await self.room.wait()
                continue
            self.wire.send_data(stream, bytes(rest[:step]))
            rest = rest[step:]
            self._flush()
            await self.writer.drain()
            await asyncio.sleep(reply.drip)
        if reply.cut_after is None:
            self.wire.end_stream(stream)
        else:
            self._flush()
            self.writer.transport.abort()
