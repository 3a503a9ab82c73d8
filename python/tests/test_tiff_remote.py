"""TIFFs in buckets, at URLs without a suffix, in other stores and file systems: read by few ranges."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.http_server import ROUND_TRIP, HttpServer
from test_s3 import bucket, endpoint, no_settings_of_the_user, options

__all__ = ["bucket", "endpoint", "no_settings_of_the_user", "options"]

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "tiff"
VALUES = np.random.default_rng(9).integers(0, 4000, (2, 700, 900)).astype("u2")
WHERE = (10.0, 0.0, 500000.0, 0.0, -10.0, 5000000.0)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: Any) -> bytes:
    path = tmp_path_factory.mktemp("remote") / "scene.tif"
    ps.save(path, VALUES, tiles=128, transform=WHERE, crs=32633, nodata=0)
    data: bytes = path.read_bytes()
    return data


def check(array: Any) -> None:
    assert array.format == "tiff"
    assert array.epsg == 32633
    np.testing.assert_array_equal(array[:, 100:300, 5:40], VALUES[:, 100:300, 5:40])
    small = ps.read_window(array, shape=(70, 90), resampling="average")
    assert np.abs(small.astype(int).mean() - VALUES.mean()) < 20


def test_a_bucket_of_the_engines_own_store(bucket, options, scene):
    bucket.put_object(Bucket="data", Key="a b/scene.tif", Body=scene)
    bucket.put_object(Bucket="data", Key="no ending", Body=scene)
    array = ps.open("s3://data/a b/scene.tif", storage_options=options)
    check(array)
    check(ps.open("s3://data/no ending", storage_options=options))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array))[0, :50], VALUES[0, :50])
    with pytest.raises(ps.NotFoundError):
        ps.open("s3://data/other.tif", storage_options=options)


def test_s3fs(bucket, endpoint, scene):
    s3fs = pytest.importorskip("s3fs")
    bucket.put_object(Bucket="data", Key="a/scene.tif", Body=scene)
    kwargs = {"endpoint_url": endpoint, "region_name": "us-east-1"}
    fs = s3fs.S3FileSystem(key="testing", secret="testing", client_kwargs=kwargs)
    check(ps.open(fs.get_mapper("data/a"), "scene.tif"))
    with fs.open("data/a/scene.tif") as file:
        check(ps.open(file))


def test_obstore(bucket, endpoint, scene):
    stores = pytest.importorskip("obstore.store")
    bucket.put_object(Bucket="data", Key="a/scene.tif", Body=scene)
    store = stores.S3Store(
        "data",
        prefix="a",
        endpoint=endpoint,
        access_key_id="testing",
        secret_access_key="testing",
        region="us-east-1",
        client_options={"allow_http": True},
    )
    check(ps.open(store, "scene.tif"))


def test_files_of_fsspec_are_read_by_ranges(scene):
    fsspec = pytest.importorskip("fsspec")
    fs = fsspec.filesystem("memory")
    fs.pipe("/remote/scene.tif", scene)
    check(ps.open(fsspec.open("memory://remote/scene.tif")))
    with fs.open("/remote/scene.tif") as file:
        check(ps.open(file))
    asked = []

    class Watched(type(fs)):
        cachable = False

        def cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
            asked.append((start, end))
            return bytes(super().cat_file(path, start, end))

    watched = Watched()
    array = ps.open(fsspec.core.OpenFile(watched, "/remote/scene.tif"))
    assert array[0, 0, 0] == VALUES[0, 0, 0]
    assert asked
    assert sum(end - start for start, end in asked if end is not None) < len(scene) // 4


@pytest.fixture
def server(scene):
    with HttpServer({"scene.tif": scene, "download": scene, "download?id=3": scene}) as running:
        yield running


def test_a_window_of_an_overview_takes_the_header_and_one_wave(server):
    server.latency = ROUND_TRIP
    array = ps.open(f"{server.url}/scene.tif")
    assert server.waves == 1
    server.forget()
    ps.read_window(array, (502000, 4995000, 503000, 4996000), (100, 100))
    assert server.waves == 1
    server.forget()
    ps.read_window(array, shape=(70, 90), resampling="average")
    assert server.waves == 1, "the overview's tags came with the header"


@pytest.fixture(scope="module")
def masked(tmp_path_factory: Any) -> bytes:
    path = tmp_path_factory.mktemp("remote") / "masked.tif"
    ps.save(path, VALUES, tiles=128, transform=WHERE, crs=32633, mask=VALUES[0] > 500)
    return path.read_bytes()


def test_masks_are_fetched_with_their_image(masked):
    small = ps.open(masked, level=2)[...]
    with HttpServer({"scene.tif": masked}, latency=ROUND_TRIP) as server:
        array = ps.open(f"{server.url}/scene.tif")
        assert server.waves == 1
        unpacked = ps.UnpackedArray(array)
        for read in (
            lambda: ps.read_window(array, shape=(70, 90), resampling="average"),
            lambda: array.unpacked(np.s_[:, :100, :100]),
            lambda: ps.read_window(unpacked, shape=(70, 90)),
            lambda: ps.read_window(unpacked, shape=(70, 90), resampling="average"),
            lambda: array._image(level=2).unpacked(),
        ):
            server.forget()
            read()
            assert server.waves == 1
        valid = array._image(level=2, mask=True)[0] != 0
        np.testing.assert_array_equal(np.where(valid, array._image(level=2).unpacked(), 0), np.where(valid, small, 0))
        xr = pytest.importorskip("xarray")
        opened = xr.open_dataset(f"{server.url}/scene.tif", engine="penstock", cache=False)
        server.forget()
        assert np.isnan(opened.band_data[0, :100, :100].values).sum() == (VALUES[0, :100, :100] <= 500).sum()
        assert server.waves == 1


def test_a_changed_file_is_detected_by_its_other_images(masked, scene):
    with HttpServer({"scene.tif": masked}) as server:
        array = ps.open(f"{server.url}/scene.tif")
        server.put("scene.tif", scene)
        with pytest.raises(ps.ConflictError):
            array._image(level=1)[...]


@pytest.fixture(scope="module")
def small(tmp_path_factory: Any) -> bytes:
    path = tmp_path_factory.mktemp("remote") / "small.tif"
    ps.save(path, VALUES[:, :16, :16], tiles=16, overviews=None)
    data: bytes = path.read_bytes()
    assert len(data) < 16 << 10
    return data


def test_a_small_file_takes_one_request_to_open(small):
    with HttpServer({"x.tif": small, "empty.tif": b"", "short.tif": b"II*"}) as server:
        array = ps.open(f"{server.url}/x.tif")
        assert len(server.requests) == 1
        np.testing.assert_array_equal(array[...], VALUES[:, :16, :16])
        for options in ({"level": 1}, {"mask": True}):
            server.forget()
            with pytest.raises(ps.NotFoundError):
                ps.open(f"{server.url}/x.tif", **options)
            assert len(server.requests) <= 3
        for name in ("empty.tif", "short.tif"):
            with pytest.raises(ps.Error):
                ps.open(f"{server.url}/{name}", level=1)


@pytest.mark.parametrize("how", ["without ranges", "without a length", "without a total"])
def test_small_files_of_unusual_servers(small, how):
    def odd(request: Any, reply: Any) -> None:
        if reply.status >= 300:
            return
        if how == "without a total":
            reply.headers["Content-Range"] = reply.headers["Content-Range"].split("/")[0] + "/*"
            return
        reply.status, reply.body = 200, small
        reply.headers.pop("Content-Range", None)
        if how == "without a length":
            reply.headers["Transfer-Encoding"] = "chunked"
            reply.length, reply.body = "", b"%x\r\n%s\r\n0\r\n\r\n" % (len(small), small)

    with HttpServer({"x.tif": small}) as server:
        server.script = odd
        np.testing.assert_array_equal(ps.open(f"{server.url}/x.tif")[...], VALUES[:, :16, :16])


@pytest.mark.parametrize("options", [{"level": 1}, {"mask": True}])
def test_a_forbidden_sidecar_file_is_absent(small, options):
    class Closed(HttpServer):
        def answer(self, request: Any) -> Any:
            reply = super().answer(request)
            if reply.status == 404:
                reply.status = 403
            return reply

    with Closed({"x.tif": small}) as server:
        with pytest.raises(ps.NotFoundError, match=next(iter(options))):
            ps.open(f"{server.url}/x.tif", **options)
        with pytest.raises(ps.PermissionDeniedError):
            ps.open(f"{server.url}/y.tif", **options)


class Redirecting(HttpServer):
    """`/x.tif` redirects to `/there/N`, where N is a counter."""

    number = 1

    def answer(self, request: Any) -> Any:
        reply = super().answer(request)
        if request.path == "/x.tif":
            reply.status, reply.headers, reply.body = 302, {"Location": f"/there/{self.number}?sig=a"}, b""
        elif request.path.startswith("/there/"):
            reply = self.answer_object(request, self.objects["/x.tif"])
            if request.path != f"/there/{self.number}":
                reply.status, reply.headers, reply.body = 403, {}, b"expired"
        return reply


def test_a_redirect_is_followed_once_and_again_when_its_target_expires(small):
    with Redirecting({"x.tif": small}) as server:
        array = ps.open(f"{server.url}/x.tif")
        assert [each.path for each in server.requests] == ["/x.tif", "/there/1"]
        for _ in range(2):
            server.forget()
            np.testing.assert_array_equal(array[...], VALUES[:, :16, :16])
            assert [each.path for each in server.requests] == ["/there/1"]
        server.number = 2
        server.forget()
        np.testing.assert_array_equal(array[...], VALUES[:, :16, :16])
        assert [each.path for each in server.requests] == ["/there/1", "/x.tif", "/there/2"]
        server.forget()
        ps.open(f"{server.url}/x.tif")
        assert [each.path for each in server.requests] == ["/x.tif", "/there/2"], "a new reader sends a new request"


def test_an_encoded_slash_stays_encoded(small):
    class Buckets(HttpServer):
        """As in Google's JSON API, an object's name is one segment of the path."""

        def answer(self, request: Any) -> Any:
            known = request.target in ("/o/a%20dir%2Fx.tif?alt=media", "/o/a%20dir%2fx.tif?alt=media")
            return self.answer_object(request, self.objects["/x.tif"]) if known else super().answer(request)

    with Buckets({"x.tif": small}) as server:
        for slash in ("%2F", "%2f"):
            array = ps.open(f"{server.url}/o/a%20dir{slash}x.tif?alt=media")
            np.testing.assert_array_equal(array[...], VALUES[:, :16, :16])
            assert array.uri.endswith(f"/o/a%20dir{slash}x.tif")
        with pytest.raises(ps.NotFoundError):
            ps.open(f"{server.url}/o/a%20dir%2Fx.tif?alt=media", level=1)
        assert "/o/a%20dir%2Fx.tif.ovr?alt=media" in [each.target for each in server.requests]


@pytest.mark.parametrize("name", ["scene.tif", "scene.tif?token=a", "download", "download?id=3"])
def test_xarray_finds_tiffs_by_their_bytes(server, name):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("rioxarray")
    server.objects.setdefault(f"/{name}", server.objects["/scene.tif"])
    opened = xr.open_dataset(f"{server.url}/{name}", engine="penstock", mask_and_scale=False)
    np.testing.assert_array_equal(opened.band_data[:, :50, :50], VALUES[:, :50, :50])
    masked = xr.open_dataset(f"{server.url}/{name}", engine="penstock")
    assert np.isnan(masked.band_data.values).sum() == (VALUES == 0).sum()


def test_xarray_finds_tiffs_in_other_stores(scene):
    xr = pytest.importorskip("xarray")
    wanted = VALUES[:, :50, :50]
    places: list[tuple[Any, dict[str, Any]]] = [({"a/scene": scene}, {"group": "a/scene"}), (scene, {})]
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/remote/scene.tif", scene)
    places += [
        (fsspec.filesystem("memory").get_mapper("/remote"), {"group": "scene.tif"}),
        (fsspec.open("memory://remote/scene.tif"), {}),
    ]
    for target, more in places:
        opened = xr.open_dataset(target, engine="penstock", mask_and_scale=False, **more)
        np.testing.assert_array_equal(opened.band_data[:, :50, :50], wanted)


def test_other_files_are_not_opened_as_tiffs(server):
    pytest.importorskip("xarray")
    from penstock.interop.xarray.tiff import is_tiff

    server.put("plain/zarr.json", b"{}")
    for name in ("plain", "plain/zarr.json", "nothing", "x.zarr"):
        assert not is_tiff(f"{server.url}/{name}")
    assert is_tiff(f"{server.url}/download")
    assert not is_tiff({"zarr.json": b"{}"})
    assert not is_tiff({"zarr.json": b"{}"}, "zarr.json")


@pytest.mark.parametrize("kind", ["nodata", "mask", "alpha"])
def test_images_load_asynchronously(tmp_path, kind):
    xr = pytest.importorskip("xarray")
    rasterio = pytest.importorskip("rasterio")
    path, values = tmp_path / "x.tif", VALUES[:, :60, :70].astype("u1")
    made = {"driver": "GTiff", "width": 70, "height": 60, "count": 2, "dtype": "uint8"}
    made |= {"nodata": 7} if kind == "nodata" else {"alpha": "premultiplied"} if kind == "alpha" else {}
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "w", **made) as to:
        to.write(values)
        if kind == "mask":
            to.write_mask(values[0] > 9)
    lazy = xr.open_dataset(path, engine="penstock", cache=False).band_data
    if not hasattr(lazy, "load_async"):
        pytest.skip("this xarray does not load asynchronously")
    keys: list[dict[str, Any]] = [{}, {"x": [5, 3], "y": slice(4, 40, 3)}, {"band": 0}]
    keys += [{"x": xr.DataArray([5, 3], dims="p"), "y": xr.DataArray([1, 50], dims="p")}]
    for key in keys:
        got = asyncio.run(lazy.isel(key).load_async())
        np.testing.assert_array_equal(got.values, lazy.isel(key).values)
        assert np.isnan(got.values).any() or key


def test_a_real_scene_has_its_known_shape_and_values():
    """The DEM of the corpus, as it is stored."""
    xr = pytest.importorskip("xarray")
    path = DATA / "blacha__cogeotiff" / "DEM_BS28_2016_1000_1141.tif"
    opened = xr.open_dataset(path, engine="penstock", convention="plain")
    assert opened.raster.dims == ("band", "y", "x")
    assert opened.raster.shape == (1, 244, 63)
    assert opened.raster.dtype == np.float32
    assert opened.band.dtype == np.uint8
    np.testing.assert_array_equal(opened.raster, ps.open(path)[...])
    assert not np.isnan(opened.raster).any()
