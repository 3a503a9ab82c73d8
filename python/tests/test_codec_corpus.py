"""numcodecs' fixtures: chunks that its releases of ten years wrote, each next to its array.

Some of them are in tests/data/codecs; if the whole collection is next to the project, all of it is read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from penstock import testing

ROOT = Path(__file__).parents[2]
FOLDER = Path("codecs", "zarr-developers__numcodecs", "fixture")
OWN = ROOT / "tests" / "data" / FOLDER
WHOLE = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / FOLDER
# Codecs of objects, and codecs that are implemented in Python.
NOT_HERE = {"vlen-bytes", "vlen-utf8", "vlen-array", "pcodec", "json2", "msgpack2", "pickle", "categorize"}


def chunks(root: Path) -> list[Path]:
    found = [path for path in sorted(root.rglob("encoded.*.dat")) if (path.parent / "config.json").exists()]
    return [path for path in found if identifier(path) not in NOT_HERE]


def identifier(path: Path) -> str:
    return json.loads((path.parent / "config.json").read_text())["id"]


def test_the_own_part_has_every_native_codec():
    ids = {identifier(path) for path in chunks(OWN)}
    assert len(chunks(OWN)) >= 20
    assert {"delta", "zlib", "lzma", "bz2", "lz4", "shuffle", "packbits", "quantize", "zfpy"} <= ids


@pytest.mark.parametrize("path", chunks(OWN), ids=lambda path: "-".join(path.relative_to(OWN).parts))
def test_own_fixtures_decode(path):
    check(path)


@pytest.mark.skipif(not WHOLE.exists(), reason=f"the whole collection is not at {WHOLE}")
def test_all_fixtures_decode():
    paths = chunks(WHOLE)
    assert len(paths) > 500
    for path in paths:
        check(path)


def array_of(path: Path) -> np.ndarray:
    number = path.name.split(".")[1]
    return np.load(path.parent.parent / f"array.{number}.npy", allow_pickle=False)


def check(path: Path) -> None:
    config = json.loads((path.parent / "config.json").read_text())
    expected = array_of(path)
    # Fixtures in Fortran order were encoded in their memory order. zfp's streams have the shape of their array.
    flat = expected if config["id"] == "zfpy" else expected.reshape(-1, order="A")
    try:
        decoded = testing.decode(path.read_bytes(), [config], flat.dtype.str, flat.shape)
    except ps.Error as failure:
        raise AssertionError(f"{path}: {failure}") from failure
    native = flat.astype(flat.dtype.newbyteorder("="))
    if config["id"] == "quantize":
        np.testing.assert_array_almost_equal(decoded, native, decimal=config["digits"])
    elif config["id"] == "fixedscaleoffset":
        np.testing.assert_allclose(decoded, native, atol=0.5 / config["scale"])
    elif config["id"] == "astype" and native.dtype.kind == "f":
        np.testing.assert_array_equal(decoded, native.astype(config["encode_dtype"]))
    else:
        assert decoded.tobytes() == native.tobytes(), path
