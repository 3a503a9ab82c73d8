"""An input of less than 1 MB takes at most 1 s of CPU time and 256 MiB.

`support/small_inputs` has 168 inputs, for every format; one in four is tested, all with PENSTOCK_SWEEP=1.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import penstock as ps
import pytest
from support.small_inputs import CASES, MOST_BYTES

# Seconds: twice the bound, for slower machines.
MOST_SECONDS, MOST_MEMORY = 2.0, 256 << 20
ALWAYS = ("zarr3_members", "manifest_large_table", "manifest_table_of_zeros", "manifest_deep_documents")
ONE_OF = 1 if os.environ.get("PENSTOCK_SWEEP") == "1" else 4


def test_small_inputs_take_little_time_and_memory() -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peak memory is read from Linux's /proc")
    chosen = [name for name in CASES if name in ALWAYS or zlib.crc32(name.encode()) % ONE_OF == 0]
    assert set(ALWAYS) <= set(chosen)
    command = [sys.executable, "-m", "support.small_inputs", *chosen]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=300)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["name"] for each in found] == chosen, done.stderr[-2000:]
    assert all(each.get("bytes", 0) < MOST_BYTES for each in found)
    bad = [
        each
        for each in found
        if each["outcome"].startswith("!") or each["seconds"] > MOST_SECONDS or each["memory"] > MOST_MEMORY
    ]
    assert bad == []


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


def test_a_manifest_takes_memory_in_proportion(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(bytes(4000))
    zarray = json.dumps({**ZARRAY, "shape": [4000], "chunks": [4]})
    refs = {"x/.zarray": zarray, **{f"x/{i}": ["b.bin", 0, 4] for i in range(1000)}}
    (tmp_path / "r.json").write_text(json.dumps({"version": 1, "refs": refs}))
    array: Any = ps.open(tmp_path / "r.json", "x")
    ps.save_manifest(array, tmp_path / "m")
    assert (ps.open(tmp_path / "m")[:] == 0).all()
    line, table = (tmp_path / "m").read_bytes().split(b"\n", 1)
    document = json.loads(line)
    for plain in (1 << 27, 1 << 40):
        document["table"]["plain_bytes"] = plain
        (tmp_path / "m").write_bytes(json.dumps(document).encode() + b"\n" + table)
        with pytest.raises(ps.UnsupportedError, match=rf"a table of {plain} bytes, \d+ of them stored"):
            ps.open(tmp_path / "m")
