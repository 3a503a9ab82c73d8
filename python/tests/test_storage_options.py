"""Storage options that neither the engine nor the library that opens a URI has are named, with the nearest one."""

from __future__ import annotations

from typing import Any

import penstock as ps
import pytest
from penstock import _core


@pytest.mark.parametrize(
    ("uri", "module", "options", "words"),
    [
        ("http://127.0.0.1:9/x.zarr", "aiohttp", {"hedders": {}}, "'http' has no storage option 'hedders'; did you"),
        ("http://127.0.0.1:9/x.nc", "aiohttp", {"zzz": 1}, "'http' has no storage option 'zzz'$"),
        ("s3://bucket/x.zarr", "s3fs", {"anonn": True}, "'s3' has no storage option 'anonn'; did you mean 'anon'"),
        ("s3://bucket/x.zarr", "s3fs", {"client_kwargs": {"endpoint_ulr": ""}}, "'endpoint_ulr' in 'client_kwargs'"),
    ],
)
def test_an_unknown_option_is_named(uri: str, module: str, options: dict[str, Any], words: str) -> None:
    pytest.importorskip("fsspec")
    pytest.importorskip(module)
    with pytest.raises(ps.InvalidArgumentError) as raised:
        ps.open(uri, storage_options=options)
    first = str(raised.value).splitlines()[0]
    assert words.rstrip("$") in first
    assert not words.endswith("$") or first.endswith(words[:-1])
    if uri.endswith("x.zarr"):
        with pytest.raises(ps.InvalidArgumentError, match="has no storage option"):
            ps.create_array(uri, shape=(3,), dtype="i4", storage_options=options)


def test_the_engine_names_its_options() -> None:
    assert {"timeout", "profile", "aws_region"} <= set(_core.storage_option_names(b"s3"))
    assert _core.storage_option_names(b"abfs") == []


def test_another_type_error_is_not_changed() -> None:
    fsspec = pytest.importorskip("fsspec")

    class Broken(fsspec.AbstractFileSystem):  # type: ignore[misc, name-defined]
        protocol = "broken"

        def cat_file(self, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
            raise TypeError("reader() got an unexpected keyword argument 'size'")

    fs = Broken(skip_instance_cache=True)
    with pytest.raises(ps.StorageError, match="reader\\(\\) got an unexpected keyword argument 'size'"):
        ps.open(fsspec.FSMap("folder", fs))


def test_a_chain_of_a_local_file_has_options(tmp_path: Any) -> None:
    pytest.importorskip("fsspec")
    ps.create_array(tmp_path / "a.zarr", data=[1, 2, 3])
    options = {"simplecache": {"cache_storage": str(tmp_path / "cache")}}
    a = ps.open_array(f"simplecache::file://{tmp_path}/a.zarr", storage_options=options)
    assert a[:].tolist() == [1, 2, 3]
    assert (tmp_path / "cache").is_dir()
    with pytest.raises(ps.UnsupportedError, match="for remote URIs"):
        ps.open(f"file://{tmp_path}/a.zarr", storage_options=options)
