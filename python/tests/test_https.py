"""Encrypted stores: certificates, and HTTP/2, which libcurl uses if a server offers it over TLS."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable
from typing import Any

import numpy as np
import penstock as ps
import pytest
import trustme
from conftest import same, sharded, write
from support.http2_server import Http2Server
from support.http_server import ROUND_TRIP, HttpServer, Reply, Request
from test_s3 import KEYS, bucket, endpoint, no_settings_of_the_user

__all__ = ["bucket", "endpoint", "no_settings_of_the_user"]

VALUES = np.arange(512 * 512, dtype="f4").reshape(512, 512)
PLAIN = write(VALUES, (64, 64))
SHARDED = write(VALUES, (256, 256), sharded((64, 64)))
FILES = {f"plain.zarr/{key}": value for key, value in PLAIN.items()}
FILES |= {f"sharded.zarr/{key}": value for key, value in SHARDED.items()}
SERVERS = {"http/1.1": HttpServer, "h2": Http2Server}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trusted(authority: trustme.CA, tmp_path_factory: Any) -> dict[str, Any]:
    """Options with which the test's certificate authority is trusted."""
    path = tmp_path_factory.mktemp("certificates") / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return {"ca_bundle": str(path)}


def tls(authority: trustme.CA, protocol: str, host: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    context.set_alpn_protocols([protocol])
    return context


@pytest.fixture(params=SERVERS)
def server(request: Any, authority: trustme.CA) -> Any:
    with SERVERS[request.param](FILES, tls=tls(authority, request.param)) as running:
        yield running


@pytest.fixture
def http2(authority: trustme.CA) -> Any:
    with Http2Server(FILES, tls=tls(authority, "h2")) as running:
        yield running


@pytest.mark.parametrize("name", ["plain.zarr", "sharded.zarr"])
def test_values_read_over_tls_are_correct(server, trusted, name):
    a = ps.open(f"{server.url}/{name}", storage_options=trusted)
    assert same(a[:, 130:400], VALUES[:, 130:400])
    assert same(a[...], VALUES)


def test_the_environment_may_name_certificates(server, trusted, monkeypatch):
    names = ("CURL_CA_BUNDLE", "SSL_CERT_FILE")
    for name in names:
        for each in names:
            monkeypatch.delenv(each, raising=False)
        monkeypatch.setenv(name, trusted["ca_bundle"])
        assert ps.open(f"{server.url}/plain.zarr")[3, 5] == VALUES[3, 5]


def test_an_untrusted_certificate_is_refused(server, tmp_path):
    with pytest.raises(ps.PermissionDeniedError, match=r"certificate.*ca_bundle"):
        ps.open(f"{server.url}/plain.zarr")
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    with pytest.raises(ps.PermissionDeniedError, match="certificate"):
        ps.open(f"{server.url}/plain.zarr", storage_options={"ca_bundle": str(stranger)})
    with pytest.raises(ps.PermissionDeniedError, match=r"missing\.pem"):
        ps.open(f"{server.url}/plain.zarr", storage_options={"ca_bundle": str(tmp_path / "missing.pem")})
    assert server.requests == []


def test_a_certificate_of_another_host_is_refused(authority, trusted):
    with (
        HttpServer(FILES, tls=tls(authority, "http/1.1", host="data.example.org")) as server,
        pytest.raises(ps.PermissionDeniedError, match=r"127\.0\.0\.1"),
    ):
        ps.open(f"{server.url}/plain.zarr", storage_options=trusted)


def test_a_redirect_to_tls_is_followed_and_one_from_it_is_not(server, trusted):
    with HttpServer() as open_to_all:

        def to(there: HttpServer) -> Any:
            def script(request: Request, reply: Reply) -> None:
                reply.status, reply.headers = 302, {"Location": there.url + request.target}

            return script

        open_to_all.script = to(server)
        assert same(ps.open(f"{open_to_all.url}/plain.zarr", storage_options=trusted)[...], VALUES)
        server.script = to(open_to_all)
        with pytest.raises(OSError, match=r"redirects to 'http://.*not encrypted"):
            ps.open(f"{server.url}/plain.zarr", storage_options=trusted)


# --- HTTP/2 ---


def test_requests_of_one_read_share_a_connection(http2, trusted):
    a = ps.open(f"{http2.url}/plain.zarr", storage_options=trusted)
    http2.latency = ROUND_TRIP
    http2.forget()
    assert same(a[...], VALUES)
    assert len(http2.requests) == 64
    assert http2.waves == 1
    assert http2.connections == 1


def test_a_servers_limit_of_concurrent_requests_is_obeyed(http2, trusted):
    http2.max_streams = 3
    a = ps.open(f"{http2.url}/plain.zarr", storage_options=trusted)
    http2.latency = ROUND_TRIP
    assert same(a[...], VALUES)
    assert http2.connections > 1


def every(number: int, fault: Callable[[Reply], None]) -> Any:
    def script(request: Request, reply: Reply) -> None:
        if request.number % number == 0:
            fault(reply)

    return script


def short(reply: Reply) -> None:
    reply.length, reply.body = str(len(reply.body)), reply.body[:100]


FAULTS: dict[str, Callable[[Reply], None]] = {
    "its stream is reset": lambda reply: setattr(reply, "reset", True),
    "its connection ends": lambda reply: setattr(reply, "cut_after", 100),
    "its end comes early": short,
    "it is longer than it says": lambda reply: setattr(reply, "length", "10"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_requests_with_faults_are_retried(http2, trusted, fault):
    """A fault of a stream concerns that stream; a fault of the connection concerns all of its streams."""
    a = ps.open(f"{http2.url}/plain.zarr", storage_options=trusted)
    http2.script = every(20, FAULTS[fault])
    assert same(a[...], VALUES)
    assert len(http2.requests) > 64


@pytest.mark.parametrize("fault", FAULTS)
def test_permanent_faults_are_errors_with_the_chunk(http2, trusted, fault):
    a = ps.open(f"{http2.url}/plain.zarr", storage_options=trusted | {"retries": 0})
    http2.script = every(1, FAULTS[fault])
    with pytest.raises(OSError, match=r"plain\.zarr/c/1/2"):
        a[64, 128]


def test_a_server_that_does_not_answer_is_an_error(http2, trusted):
    a = ps.open(f"{http2.url}/plain.zarr", storage_options=trusted | {"retries": 0, "timeout": 1})
    http2.script = lambda request, reply: setattr(reply, "delay", 30.0)
    with pytest.raises(ps.DeadlineExceededError):
        a[0, 0]


class Front(Http2Server):
    """Forwards each request to a server without TLS and HTTP/2."""

    def __init__(self, behind: str, tls: ssl.SSLContext) -> None:
        super().__init__(tls=tls)
        self.behind = behind.removeprefix("http://")

    def answer(self, request: Request) -> Reply:
        link = http.client.HTTPConnection(self.behind)
        link.request(request.method, request.target, request.body, request.headers)
        answer = link.getresponse()
        hop = ("connection", "content-length", "transfer-encoding", "keep-alive", "server", "date")
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in hop}
        reply = Reply(answer.status, headers, answer.read())
        link.close()
        return reply


def test_buckets_are_read_and_written_over_http2(bucket, endpoint, authority, trusted):
    with Front(endpoint, tls(authority, "h2")) as front:
        options = KEYS | trusted | {"endpoint_url": front.url}
        a = ps.create_array("s3://data/x", data=VALUES, chunks=(64, 64), shards=(256, 256), storage_options=options)
        front.script = every(3, FAULTS["its stream is reset"])
        a[100:300, 70] = -1
        wanted = VALUES.copy()
        wanted[100:300, 70] = -1
        assert same(ps.open("s3://data/x", storage_options=options)[...], wanted)
        assert sorted(ps.open("s3://data", storage_options=options).keys()) == ["x"]
        signed = [each.headers for each in front.requests if each.method == "PUT"]
        assert {each["x-amz-content-sha256"] for each in signed} == {"UNSIGNED-PAYLOAD"}  # TLS protects the payload
    assert same(ps.open("s3://data/x", storage_options=KEYS | {"endpoint_url": endpoint})[...], wanted)
