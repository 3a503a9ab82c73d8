"""Reads the files of make_samples.py with an installed Penstock, from disk and over https, and Zarr that it writes
itself.

Needs NumPy only.

try_wheel.py SAMPLES [--system-trusts]: the option if authority.pem is among the system's certificates.
"""

from __future__ import annotations

import http.server
import os
import platform
import ssl
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import penstock as ps


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves files by byte range, which http.server does not support."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = (
            Path(self.translate_path(self.path)).read_bytes()
            if Path(self.translate_path(self.path)).is_file()
            else None
        )
        if body is None:
            self.send_error(404)
            return
        whole = len(body)
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes="):
            first, _, last = asked[6:].partition("-")
            begin = int(first) if first else max(0, whole - int(last))
            end = min(whole, int(last) + 1) if first and last else whole
            if begin >= whole:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{whole}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = body[begin:end]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{whole}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


def write_and_read() -> list[str]:
    """Writes and reads Zarr arrays of both versions and with shards, with each compression; returns their names."""
    values = np.arange(60_000, dtype=">u4").reshape(200, 300) // 7
    names = ["blosc", "bz2", "crc32c", "gzip", "lz4", "lzma", "shuffle", "zlib", "zstd"]
    for name in names:
        for options in ({"zarr_format": 2}, {}, {"shards": (128, 128)}):
            stored: dict[str, bytes] = {}
            array = ps.create_array(
                stored, shape=values.shape, dtype=values.dtype, chunks=(64, 32), codecs=[name], **options
            )
            array[...] = values
            np.testing.assert_array_equal(ps.open_array(stored)[...], values)
            np.testing.assert_array_equal(ps.open_array(stored)[3:190:7, 250:10:-1], values[3:190:7, 250:10:-1])
    return names


def main(samples: Path, system_trusts: bool) -> None:
    names = write_and_read()
    pictures = sorted(samples.glob("*.tif"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(samples / "server.pem")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(samples)))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"https://127.0.0.1:{server.server_port}"

    # If the system does not know the authority, nothing is read until the user names it.
    for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        os.environ.pop(name, None)
    refusal = ""
    try:
        ps.open(f"{address}/{pictures[0].name}")
    except ps.Error as e:
        refusal = str(e)
    if system_trusts:
        assert not refusal, refusal
    else:
        assert "SSL_CERT_FILE" in refusal, f"the certificate of an unknown authority: {refusal or 'accepted'}"
        os.environ["SSL_CERT_FILE"] = str(samples / "authority.pem")

    read = []
    for picture in pictures:
        expected = np.load(picture.with_suffix(".npy"))
        for uri in (str(picture), f"{address}/{picture.name}"):
            values = np.asarray(ps.open_array(uri).read())
            if values.shape != expected.shape:
                values = np.moveaxis(values, 0, -1)
            assert values.shape == expected.shape, (uri, values.shape, expected.shape)
            # Decoders of JPEG may round differently.
            difference = int(np.abs(values.astype(int) - expected).max())
            assert difference <= (2 if picture.stem == "jpeg" else 0), (uri, difference)
        read.append(picture.stem)
    where = f"Python {platform.python_version()}, {platform.machine()}, {' '.join(platform.libc_ver())}"
    print(f"Written and read as Zarr: {', '.join(names)} ({where})")
    print(f"Read from files and over https: {', '.join(read)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), "--system-trusts" in sys.argv)
