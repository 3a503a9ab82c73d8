"""Real arrays written by other libraries: the values have an established reader's hash, or a refusal is clear."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr

ROOT = Path(__file__).resolve().parents[2]
SELECTION = ROOT / "tests" / "data" / "zarr_corpus"
# The whole corpus, if it is next to the checkout.
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus"))
MALFORMED = (
    "sharing_too_small_data_file",
    "test_deprecated_no_codecs",
    "array_attrs.zarr",
    "v3/fixed_length_utf32.zarr",
)
# Data that only its author's program reads, or that needs a library which is not installed here.
NOT_READ = ("'zarrs.gdeflate'", "imagecodecs_tiff", '"optional"')


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def digest(values: np.ndarray) -> str:
    little = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<")))
    return hashlib.sha256(little.tobytes()).hexdigest()


def described(dtype: Any) -> np.dtype[Any]:
    """A dtype from a record: its name, or its fields."""
    if isinstance(dtype, str):
        return np.dtype(dtype)
    return np.dtype([(name, described(inner), *shape) for name, inner, *shape in dtype])


@pytest.mark.parametrize("record", records(SELECTION / "oracle.jsonl"), ids=lambda record: record["path"])
def test_an_array_of_the_selection_has_the_recorded_values(record):
    if "refused" in record:
        with pytest.raises(ps.Error) as caught:
            ps.open(SELECTION / record["path"])[...]
        assert caught.value.code == record["refused"]
        return
    array = ps.open(SELECTION / record["path"])
    values = array[...]
    assert list(values.shape) == record["shape"]
    if "values" in record:
        assert [x.decode("latin1") if isinstance(x, bytes) else x for x in values.ravel().tolist()] == record["values"]
        return
    wanted = described(record["dtype"])
    assert values.dtype == wanted.newbyteorder("=")
    assert digest(values) == record["sha256"]
    # Read again through the strided path.
    flipped = array[tuple(slice(None, None, -1) for _ in array.shape)]
    np.testing.assert_array_equal(flipped[tuple(slice(None, None, -1) for _ in array.shape)], values)


def test_the_selection_is_complete():
    assert len(records(SELECTION / "oracle.jsonl")) > 180


def agrees(record: dict[str, Any], path: Path, values: np.ndarray) -> bool | None:
    """Whether the values are those of the record; None if the record has none."""
    if "json" in record:
        # The record truncates long lists.
        return json.dumps(values.ravel().tolist(), ensure_ascii=False, separators=(",", ":")).startswith(record["json"])
    if values.dtype.kind in "OT":
        try:
            return bool((values == zarr.open_array(path, mode="r")[...]).all())
        except (TypeError, ValueError):  # types that it does not read: json2 and some fill values
            return None
    return digest(values) == record["sha256"] if "sha256" in record else None


@pytest.mark.skipif(not (CORPUS / "oracle.jsonl").exists(), reason=f"the whole corpus is not at {CORPUS}")
@pytest.mark.filterwarnings("ignore")
def test_the_whole_corpus_is_read_as_recorded_or_refused():
    same = {"zarr2": 0, "zarr3": 0}
    wrong = []
    for record in records(CORPUS / "oracle.jsonl"):
        path = CORPUS / record["path"]
        if not record["path"].startswith("zarr/"):
            continue
        malformed = any(name in record["path"] for name in MALFORMED)
        try:
            node = ps.open(path)
            if isinstance(node, ps.Group):
                continue
            values = node[...]
        except ps.UnsupportedError as error:
            if not any(name in error.message for name in NOT_READ):
                wrong.append((record["path"], str(error)))
            continue
        except ps.CorruptDataError as error:
            if not malformed:
                wrong.append((record["path"], str(error)))
            continue
        known = agrees(record, path, values)
        if malformed or known is False:
            wrong.append((record["path"], "reads as other values"))
        same[node.format] += known is True
    assert not wrong
    assert same["zarr2"] >= 130
    assert same["zarr3"] >= 150
