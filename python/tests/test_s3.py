"""Zarr in buckets: on moto's server, and on a test server that counts round trips."""

from __future__ import annotations

import pickle
import sys
import urllib.parse

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import same, sharded, write
from support.http_server import ROUND_TRIP, HttpServer, Reply

VALUES = np.arange(48 * 40, dtype="i4").reshape(48, 40)
KEYS = {"key": "testing", "secret": "testing", "region": "us-east-1"}


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def endpoint():
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint):
    boto3 = pytest.importorskip("boto3")
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="data")
    yield client
    for each in client.list_objects_v2(Bucket="data").get("Contents", []):
        client.delete_object(Bucket="data", Key=each["Key"])
    client.delete_bucket(Bucket="data")


@pytest.fixture
def options(endpoint):
    return {**KEYS, "endpoint_url": endpoint}


@pytest.mark.parametrize("name", ["a b+c.tif", "100%20.tif", "a?b=c#d.tif", "[1]&é.tif"])
def test_keys_may_contain_any_characters(bucket, options, name):
    uri = f"s3://data/{name}"
    ps.save(uri, VALUES, storage_options=options)
    assert [each["Key"] for each in bucket.list_objects_v2(Bucket="data")["Contents"]] == [name]
    assert same(ps.load(uri, storage_options=options)[0], VALUES)
    again = pickle.loads(pickle.dumps(ps.open(uri, storage_options=options)))
    assert same(again[0], VALUES)


@pytest.mark.parametrize("shards", [None, (24, 20)])
def test_arrays_are_created_written_and_read_on_s3(bucket, options, shards):
    uri = "s3://data/a b/x.zarr"
    a = ps.create_array(uri, data=VALUES, chunks=(8, 10), shards=shards, storage_options=options)
    assert same(a[...], VALUES)
    a[3:9, 5] = -1
    wanted = VALUES.copy()
    wanted[3:9, 5] = -1
    again = ps.open(uri, storage_options=options)
    assert same(again[...], wanted)
    assert same(pickle.loads(pickle.dumps(again))[...], wanted)
    names = [each["Key"] for each in bucket.list_objects_v2(Bucket="data")["Contents"]]
    assert "a b/x.zarr/zarr.json" in names
    with pytest.raises(ps.InvalidArgumentError):
        ps.create_array(uri, shape=(1,), dtype="i4", storage_options=options)


def test_groups_list_and_erase(bucket, options):
    root = ps.create_group("s3://data/g", attributes={"a": 1}, storage_options=options)
    for i in range(3):
        root.create_array(f"x{i}", data=VALUES[:4], chunks=(2, 10))
    root.create_group("inner").create_array("y", data=VALUES[0])
    group = ps.open("s3://data/g", storage_options=options)
    assert sorted(group.keys()) == ["inner", "x0", "x1", "x2"]
    assert same(group["inner/y"][...], VALUES[0])
    del root["x1"]
    assert sorted(ps.open("s3://data/g", storage_options=options).keys()) == ["inner", "x0", "x2"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_groups_list_nodes_of_both_versions(bucket, options, zarr_format):
    root = ps.create_group("s3://data/mixed", zarr_format=zarr_format, storage_options=options)
    for i in range(70):  # more than one page of keys
        bucket.put_object(
            Bucket="data", Key=f"mixed/{i:02}/{('.zarray', '.zgroup', 'zarr.json', 'notes.txt')[i % 4]}", Body=b"{}"
        )
    bucket.put_object(Bucket="data", Key="mixed/empty/zarr.json", Body=b"")
    assert root.keys() == [f"{i:02}" for i in range(70) if i % 4 != 3] + ["empty"]


def test_penstock_s3fs_and_zarr_read_each_others_arrays(bucket, options, endpoint):
    s3fs = pytest.importorskip("s3fs")
    ps.create_array("s3://data/ours", data=VALUES, chunks=(8, 10), shards=(24, 20), storage_options=options)
    fs = s3fs.S3FileSystem(
        key="testing",
        secret="testing",
        client_kwargs={"endpoint_url": endpoint, "region_name": "us-east-1"},
        asynchronous=True,
    )
    theirs = zarr.open_array(zarr.storage.FsspecStore(fs, path="data/ours", read_only=True), mode="r")
    assert same(theirs[...], VALUES)
    for key, value in write(VALUES, (16, 8)).items():
        bucket.put_object(Bucket="data", Key=f"theirs/{key}", Body=value)
    assert same(ps.open("s3://data/theirs", storage_options=options)[...], VALUES)


def test_s3fs_objects_work_as_stores(bucket, options, endpoint):
    s3fs = pytest.importorskip("s3fs")
    ps.create_array("s3://data/x", data=VALUES, chunks=(8, 10), shards=(24, 20), storage_options=options)
    fs = s3fs.S3FileSystem(
        key="testing", secret="testing", client_kwargs={"endpoint_url": endpoint, "region_name": "us-east-1"}
    )
    assert same(ps.open(fs.get_mapper("data/x"))[...], VALUES)


def test_obstore_objects_work_as_stores(bucket, options, endpoint):
    obstore = pytest.importorskip("obstore.store")
    ps.create_array("s3://data/x", data=VALUES, chunks=(8, 10), shards=(24, 20), storage_options=options)
    store = obstore.S3Store(
        "data",
        prefix="x",
        endpoint=endpoint,
        access_key_id="testing",
        secret_access_key="testing",
        region="us-east-1",
        client_options={"allow_http": True},
    )
    assert same(ps.open(store)[...], VALUES)


def test_credentials_come_from_the_environment_and_from_profiles(bucket, endpoint, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    ps.create_array("s3://data/env", data=VALUES)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    (tmp_path / "credentials").write_text("[mine]\naws_access_key_id = testing\naws_secret_access_key = testing\n")
    assert same(ps.open("s3://data/env", storage_options={"profile": "mine"})[...], VALUES)
    with pytest.raises(ps.InvalidArgumentError, match="there is no profile 'unknown'"):
        ps.open("s3://data/env", storage_options={"profile": "unknown"})


def test_a_missing_bucket_is_an_error(bucket, options):
    with pytest.raises(OSError, match="NoSuchBucket"):
        ps.open("s3://nobody/x", storage_options=options)
    with pytest.raises(ps.NotFoundError):
        ps.open("s3://data/nothing", storage_options=options)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_cold_read_of_all_of_short_shards_takes_one_round_trip(scheme):
    files = write(VALUES, (24, 20), sharded((8, 10)))
    with HttpServer({f"data/x/{key}": value for key, value in files.items()}, latency=ROUND_TRIP) as server:
        options = {"endpoint_url": server.url, "anon": True}
        a = ps.open(f"{scheme}://data/x", storage_options=options)
        server.forget()
        assert same(a[...], VALUES)
        assert server.waves == 1
        assert not any("authorization" in each.headers for each in server.requests)


class Bucket(HttpServer):
    """A bucket that lists folders."""

    def answer(self, request):
        query = urllib.parse.parse_qs(request.query)
        if "list-type" not in query:
            return super().answer(request)
        (prefix,) = query["prefix"]
        keys = (key.removeprefix(request.path) for key in self.objects)
        folders = {key[len(prefix) :].partition("/")[0] for key in keys if key.startswith(prefix)}
        listed = "".join(f"<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>" for name in folders)
        return Reply(200, {}, f"<ListBucketResult>{listed}</ListBucketResult>".encode())


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_members_are_opened_together(zarr_format):
    made = {}
    group = zarr.create_group(made, zarr_format=zarr_format)
    for i in range(9):
        group.create_array(f"v{i:02}", data=np.arange(4) + i)
    group.create_group("inner")
    files = {f"data/g/{key}": value.to_bytes() for key, value in made.items()} | {"data/g/notes/a.txt": b"x"}
    with Bucket(files, latency=ROUND_TRIP) as server:
        opened = ps.open("s3://data/g/", storage_options={"endpoint_url": server.url, "anon": True})
        server.forget()
        members = dict(opened.members())
        assert server.waves == 3  # the listing, documents of the group's version, those of the other version
        assert list(members) == opened.keys() == ["inner", *(f"v{i:02}" for i in range(9))]
        assert same(members["v07"][...], np.arange(4) + 7)
        again = pickle.loads(pickle.dumps(members["v07"]))
        assert same(again[...], np.arange(4) + 7)


def test_options_of_other_libraries_are_passed_to_them():
    from penstock.target import remote as _remote

    assert _remote.serves("s3://b/x", {"anon": True, "client_kwargs": {"endpoint_url": "http://x", "region_name": "r"}})
    assert _remote.serves("gs://b/x", {"token": "anon"})
    assert not _remote.serves("s3://b/x", {"requester_pays": True})
    assert not _remote.serves("gs://b/x", {"project": "p"})
    assert not _remote.serves("s3://b/x", {"client_kwargs": {"verify": False}})
    assert not _remote.serves("abfs://b/x", None)


class Handed:
    """Stands in for obstore's `from_url`: records the arguments."""

    def __init__(self, monkeypatch):
        import obstore.store

        self.calls = []
        self.store = obstore.store.MemoryStore()
        for key, value in write(VALUES, (16, 16)).items():
            self.store.put(key, bytes(value))
        monkeypatch.setattr(obstore.store, "from_url", self)

    def __call__(self, uri, **options):
        self.calls.append((uri, options))
        return self.store


@pytest.mark.parametrize(
    ("given", "handed"),
    [
        (None, {}),
        ({"token": "google_default"}, {}),
        ({"token": "cloud"}, {}),
        ({"token": "/a/key.json"}, {"application_credentials": "/a/key.json"}),
    ],
)
def test_credentials_that_need_a_token_exchange_use_obstore(monkeypatch, given, handed):
    pytest.importorskip("obstore")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/a/key.json")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    obstore = Handed(monkeypatch)
    assert same(ps.open("gs://b/x", storage_options=given)[...], VALUES)
    assert obstore.calls[0] == ("gs://b/x", handed)


def test_credentials_of_google_without_tokens(monkeypatch):
    from penstock.target import remote as _remote

    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    assert _remote.serves("gs://b/x", None)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/a/key.json")
    for options in ({"token": "anon"}, {"token": "ya29.a"}, {"anon": True}, {"key": "k", "secret": "s"}):
        assert _remote.serves("gs://b/x", options), options
    for options in ({"token": "cloud"}, {"token": "/a/key.json"}, {"token": {"type": "authorized_user"}}):
        assert not _remote.serves("gs://b/x", options), options
    assert _remote.serves("s3://b/x", None)
    for name in ("gcsfs", "obstore"):
        monkeypatch.setitem(sys.modules, name, None)
    assert _remote.serves("gs://b/x", None)


class Refusing(HttpServer):
    def answer(self, request):
        return Reply(403)


@pytest.mark.parametrize(
    ("scheme", "options", "note"),
    [
        ("gs", {"anon": True}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ("s3", {"anon": True}, "because anon=True"),
        ("s3", {}, "environment or profile"),
    ],
)
def test_a_refusal_of_unsigned_requests_explains_itself(scheme, options, note, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with Refusing({}) as server, pytest.raises(ps.PermissionDeniedError, match=note):
        ps.open(f"{scheme}://data/x", storage_options={"endpoint_url": server.url, "retries": 0, **options})
