"""Real arrays that others wrote: the hashes of an established reader, or a refusal in words."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

ROOT = Path(__file__).resolve().parents[2]
SELECTION = ROOT / "tests" / "data" / "zarr_corpus"
# The whole corpus lies beside the checkout where there is one.
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus"))
MALFORMED = ("sharing_too_small_data_file", "test_deprecated_no_codecs")


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def digest(values: np.ndarray) -> str:
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<")))
    return hashlib.sha256(little.tobytes()).hexdigest()


@pytest.mark.parametrize("record", records(SELECTION / "oracle.jsonl"), ids=lambda record: record["path"])
def test_an_array_of_the_selection_reads_as_known(record):
    if "refused" in record:
        with pytest.raises(ps.Error) as caught:
            ps.open(SELECTION / record["path"])[...]
        assert caught.value.code == record["refused"]
        return
    array = ps.open(SELECTION / record["path"])
    values = array[...]
    assert list(values.shape) == record["shape"]
    assert values.dtype == np.dtype(record["dtype"]).newbyteorder("=")
    assert digest(values) == record["sha256"]
    # The same through the strided path.
    flipped = array[tuple(slice(None, None, -1) for _ in array.shape)]
    np.testing.assert_array_equal(flipped[tuple(slice(None, None, -1) for _ in array.shape)], values)


def test_the_selection_is_there():
    assert len(records(SELECTION / "oracle.jsonl")) > 90


@pytest.mark.skipif(not (CORPUS / "oracle.jsonl").exists(), reason=f"the whole corpus is not at {CORPUS}")
def test_the_whole_corpus_reads_as_known_or_is_refused_by_name():
    same = 0
    for record in records(CORPUS / "oracle.jsonl"):
        path = CORPUS / record["path"]
        if not record["path"].startswith("zarr/") or not (path / "zarr.json").exists():
            continue
        try:
            node = ps.open(path)
            if isinstance(node, ps.Group):
                continue
            values = node[...]
        except ps.UnsupportedError as error:
            if "'" not in error.message and '"' not in error.message:
                pytest.fail(f"does not name what it refuses: {error}")
            continue
        except ps.CorruptDataError:
            assert any(name in record["path"] for name in MALFORMED), record["path"]
            continue
        assert not any(name in record["path"] for name in MALFORMED), record["path"]
        if "sha256" in record:
            assert digest(values) == record["sha256"], record["path"]
            same += 1
    assert same >= 120


@pytest.mark.skipif(not (CORPUS / "zarr").exists(), reason=f"the whole corpus is not at {CORPUS}")
def test_zarr_version_2_is_refused_in_words():
    seen = 0
    for metadata in (CORPUS / "zarr").rglob(".zarray"):
        if (metadata.parent / "zarr.json").exists():
            continue
        with pytest.raises(ps.UnsupportedError, match=r"\.zarray"):
            ps.open(metadata.parent)
        seen += 1
    assert seen > 100
