"""Small references that declare or expand to very much are refused or read within 1 s of the processor."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import penstock as ps
import pytest

ZARRAY = {
    "zarr_format": 2, "shape": [10**7], "chunks": [1], "dtype": "|u1", "order": "C", "compressor": None,
    "filters": None, "fill_value": 0,
}  # fmt: skip
RULE = {"key": "x/{{i}}", "url": "u", "dimensions": {"i": {"stop": 90_000}}}


def levels(depth: int, spelled: str) -> dict[str, str]:
    return {"t0": "x" * 10, **{f"t{i}": spelled.format(i - 1) * 10 for i in range(1, depth)}}


DOCUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "levels": ("{{t8}}", {"templates": levels(9, "{{{{t{}}}}}")}),
    "calls": ("{{t7(a=1)}}", {"templates": levels(9, "{{{{t{}(a=2)}}}}")}),
    "circle": ("{{a}}", {"templates": {"a": "{{a}}" * 4}}),
    "wide": ("{{a}}" * 180_000, {"templates": {"a": "b"}}),
    "not closed": ("{{" * 400_000, {}),
    "sum": ("{{" + "1+" * 400_000 + "1}}", {}),
    "product": ("{{" + "*".join(["9" * 4_000] * 200) + "}}", {}),
    "brackets": ("{{" + "(" * 400_000 + ")" * 400_000 + "}}", {}),
    "generated": ("u", {"gen": [{**RULE, "dimensions": {"i": {"stop": 9_999_999}}}]}),
    "generated often": ("u", {"gen": [RULE] * 100}),
    "generated long": ("u", {"gen": [{**RULE, "url": "{{a}}"}], "templates": {"a": "x" * 500_000}}),
    "generated huge": ("u", {"gen": [{**RULE, "dimensions": {"i": {"stop": 10**30}}}]}),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_templates_expand_within_bounds(tmp_path: Path, name: str) -> None:
    url, more = DOCUMENTS[name]
    refs = {".zgroup": '{"zarr_format": 2}', "x/.zarray": json.dumps(ZARRAY), "x/0": [url]}
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"version": 1, "refs": refs, **more}))
    assert path.stat().st_size < 1_000_000
    begin = time.process_time()
    with pytest.raises((ps.UnsupportedError, ps.CorruptDataError)):
        ps.open(path, "x")
    assert time.process_time() - begin < 2  # twice the bound, for slower machines


@pytest.mark.parametrize("rows", [1, 3_000_000])
def test_parquet_references_of_a_huge_grid_are_not_probed(tmp_path: Path, rows: int) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (tmp_path / "d.parq" / "x").mkdir(parents=True)
    metadata = {".zgroup": {"zarr_format": 2}, "x/.zarray": {**ZARRAY, "shape": [1 << 40]}}
    (tmp_path / "d.parq" / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": rows}))
    table = pa.table({"path": pa.nulls(rows, pa.string()), "offset": pa.repeat(0, rows), "size": pa.repeat(1, rows)})
    pq.write_table(table, tmp_path / "d.parq" / "x" / "refs.0.parq")
    begin = time.process_time()
    with contextlib.suppress(ps.UnsupportedError):
        array: Any = ps.open(tmp_path / "d.parq", "x")
        assert array[5:6].tolist() == [0]
    assert time.process_time() - begin < 2
