"""Spellings and helpers that users expect: one chunk's codecs, environment variables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

X = np.arange(12, dtype="f4").reshape(3, 4)


@pytest.mark.parametrize(
    "codec",
    [
        "zstd",
        "zstd:5",
        "blosc",
        "bytes",
        ["bytes", "gzip", "crc32c"],
        {"name": "zstd", "configuration": {"level": 3}},
        {"id": "zlib", "level": 1},
        [{"id": "delta", "dtype": "<f4"}, {"id": "zlib", "level": 1}],
        [{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes", "zstd"],
    ],
    ids=str,
)
def test_one_chunk_is_encoded_and_decoded(codec: Any):
    chunk = ps.encode(codec, X)
    assert isinstance(chunk, bytes)
    assert np.array_equal(ps.decode(codec, chunk, "f4", X.shape), X)
    assert np.array_equal(ps.decode(codec, ps.encode(codec, X.T[:, ::-1]), "f4", (4, 3)), X.T[:, ::-1])


def test_an_encoded_chunk_equals_the_stores():
    zarr = pytest.importorskip("zarr")
    store: dict[str, bytes] = {}
    a = ps.create_array(store, data=X, chunks=X.shape, codecs=["zstd"])
    assert store["c/0/0"] == ps.encode(a.codecs, X)
    assert np.array_equal(ps.decode(a.codecs, store["c/0/0"], a.dtype, X.shape), X)
    assert np.array_equal(ps.decode(zarr.codecs.ZstdCodec(), ps.encode("zstd", X), "f4", X.shape), X)
    with pytest.raises(ps.CorruptDataError):
        ps.decode("zstd", b"nonsense", "f4", (3, 4))
    with pytest.raises(ps.InvalidArgumentError, match="masked elements"):
        ps.encode("zstd", np.ma.masked_array(X, X.min() == X))
    with pytest.raises(ps.Error, match="nosuch"):
        ps.encode("nosuch", X)
    with pytest.raises(ps.InvalidArgumentError, match="zstd:fast"):
        ps.encode("zstd:fast", X)
    assert ps.encode("bytes", np.int16(5)) == b"\x05\x00"


@pytest.mark.parametrize(
    ("dtype", "items"),
    [
        ("string", [["a", "", "end\0"], ["\u20ac" * 90, "b", "c"]]),
        ("bytes", [[b"a", b"", b"end\0"], [b"\xff" * 300, b"b", b"c"]]),
        (None, np.array(["x", "yy"], object)),
        ("string", "one"),
    ],
)
@pytest.mark.parametrize("codec", ["zstd", [{"id": "zlib", "level": 1}], ["gzip", "crc32c"]], ids=str)
def test_one_chunk_of_text_is_encoded_and_decoded(dtype: Any, items: Any, codec: Any):
    chunk = ps.encode(codec, items, dtype)
    kind, wanted = dtype or "string", np.asarray(items, object)
    found = ps.decode(codec, chunk, kind, wanted.shape)
    assert found.tolist() == wanted.tolist()
    store: dict[str, bytes] = {}
    a = ps.create_array(store, shape=wanted.shape, dtype=kind, chunks=wanted.shape, codecs=codec)
    a[...] = wanted
    assert store["/".join(["c", *"0" * wanted.ndim])] == chunk == ps.encode(a.codecs, items, kind)


def test_a_chunk_of_text_is_checked():
    with pytest.raises(ps.CorruptDataError, match="vlen-utf8"):
        ps.decode(["vlen-utf8"], b"\x05\0\0\0", "string", 2)
    with pytest.raises(ps.InvalidArgumentError, match="at least one element"):
        ps.encode("zstd", [], "string")
    empty = ps.encode("zstd", ["", ""], "string")  # the fill value, which arrays do not store
    assert ps.decode("zstd", empty, "string", 2).tolist() == ["", ""]


def test_environment_variables_set_defaults_of_contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PENSTOCK_THREADS", "3")
    assert ps.Context().threads == 3
    assert ps.Context(threads=1).threads == 1
    monkeypatch.setenv("PENSTOCK_THREADS", "")
    assert ps.Context().threads > 0
    for name, value in (("THREADS", "many"), ("THREADS", "0"), ("MEMORY_LIMIT", "much"), ("CHUNK_CACHE", "-1")):
        with monkeypatch.context() as each:
            each.setenv(f"PENSTOCK_{name}", value)
            with pytest.raises(ps.InvalidArgumentError, match=f"PENSTOCK_{name}"):
                ps.Context()
    monkeypatch.setenv("PENSTOCK_MEMORY_LIMIT", "2GiB")
    monkeypatch.setenv("PENSTOCK_DISK_CACHE", str(tmp_path / "cache"))
    ps.Context()


def test_each_variable_is_in_the_table():
    root = Path(__file__).resolve().parents[2]
    table = (root / "docs" / "guide" / "environment.md").read_text()
    used = set()
    for folder, ending in (("python/penstock", "*.py"), ("src", "*.cc"), ("cli", "*.cc")):
        for file in (root / folder).rglob(ending):
            if not file.name.endswith("_test.cc"):
                used |= set(re.findall(r"(?:environ\S*|getenv|take_\w+|value_of)\(\"(PENSTOCK_\w+)", file.read_text()))
    assert {"PENSTOCK_THREADS", "PENSTOCK_DISK_CACHE", "PENSTOCK_PYTHON"} <= used
    assert {name for name in used if f"`{name}`" not in table} == set()


def test_reads_writes_and_loaders_do_not_import_numpy_ma():
    """Its import takes tens of milliseconds, and no value is of it before."""
    code = """
import sys
import numpy as np, penstock as ps
values = np.arange(12.0)
a = ps.create_array({}, data=values, chunks=4)
a[...] = values
a.read(out=values)
assert [len(batch) for batch in ps.loader(a, batch_size=6)] == [6, 6]
assert "numpy.ma" not in sys.modules
a[...] = np.ma.masked_less(values, -1)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(ps.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_submodules_are_loaded_when_they_are_used():
    code = "import sys, penstock as ps; assert 'penstock.zarr' not in sys.modules; print(ps.zarr.enable.__name__)"
    environment = {**os.environ, "PYTHONPATH": str(Path(ps.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "enable\n"
