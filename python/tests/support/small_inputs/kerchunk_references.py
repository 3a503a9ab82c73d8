"""Kerchunk references, in JSON and Parquet files of less than 1 MB, that are as expensive as the format allows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.small_inputs.cases import Action, add_case, case, touch
from support.small_inputs.zarr_metadata import V2_DOCUMENT, nested_json


def _kerchunk(name: str, document: Callable[[], Any]) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps

        path = folder / "d.json"
        made = document()
        path.write_text(made if isinstance(made, str) else json.dumps(made))
        return lambda: touch(ps.open(path, "x"))

    add_case(f"kerchunk_{name}", make)


def references_of(more: dict[str, Any], **zarray: Any) -> dict[str, Any]:
    return {".zgroup": '{"zarr_format": 2}', "x/.zarray": json.dumps({**V2_DOCUMENT, **zarray}), **more}


def _levels(width: int, depth: int, spelled: str = "{{{{t{}}}}}") -> dict[str, str]:
    return {"t0": "x" * 10, **{f"t{i}": spelled.format(i - 1) * width for i in range(1, depth)}}


def _versioned(refs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"version": 1, "refs": refs, **more}


_kerchunk("templates", lambda: _versioned(references_of({"x/0": ["{{t8}}"]}), templates=_levels(10, 9)))
_kerchunk("templates_wide", lambda: _versioned(references_of({"x/0": ["{{t2}}"]}), templates=_levels(30_000, 3)))
_kerchunk(
    "templates_called",
    lambda: _versioned(references_of({"x/0": ["{{t7(a=1)}}"]}), templates=_levels(10, 9, "{{{{t{}(a=2)}}}}")),
)
_kerchunk(
    "templates_in_refs",
    lambda: _versioned(
        references_of({f"x/{i}": ["{{u}}", 0, 1] for i in range(25_000)}, shape=[25_000], chunks=[1]),
        templates={"u": "x" * 100_000},
    ),
)
_kerchunk(
    "templates_circle", lambda: _versioned(references_of({"x/0": ["{{a}}"]}), templates={"a": "{{a}}{{a}}{{a}}{{a}}"})
)
_kerchunk("templates_long_expression", lambda: _versioned(references_of({"x/0": ["{{" + "1+" * 400_000 + "1}}"]})))
_kerchunk(
    "templates_products", lambda: _versioned(references_of({"x/0": ["{{" + "*".join(["9" * 4_000] * 200) + "}}"]}))
)
_kerchunk(
    "templates_brackets", lambda: _versioned(references_of({"x/0": ["{{" + nested_json(400_000, "(", ")") + "}}"]}))
)
_kerchunk("templates_not_closed", lambda: _versioned(references_of({"x/0": ["{{" * 400_000]})))
_kerchunk(
    "templates_many_places", lambda: _versioned(references_of({"x/0": ["{{a}}" * 180_000]}), templates={"a": "b"})
)
_kerchunk(
    "generated",
    lambda: _versioned(
        references_of({}, shape=[10**7], chunks=[1]),
        gen=[
            {"key": "x/{{i}}", "url": "u", "offset": "{{i}}", "length": "1", "dimensions": {"i": {"stop": 9_999_999}}}
        ],
    ),
)
_kerchunk(
    "generated_often",
    lambda: _versioned(
        references_of({}, shape=[10**7], chunks=[1]),
        gen=[{"key": "x/{{i}}", "url": "u", "dimensions": {"i": {"stop": 90_000}}}] * 100,
    ),
)
_kerchunk(
    "generated_long",
    lambda: _versioned(
        references_of({}, shape=[10**7], chunks=[1]),
        templates={"u": "x" * 500_000},
        gen=[{"key": "x/{{i}}", "url": "{{u}}{{i}}", "dimensions": {"i": {"stop": 90_000}}}],
    ),
)
_kerchunk(
    "generated_dimensions",
    lambda: _versioned(
        references_of({}), gen=[{"key": "x/0", "url": "u", "dimensions": {f"d{i}": [0] for i in range(50_000)}}]
    ),
)
_kerchunk(
    "generated_huge",
    lambda: _versioned(references_of({}), gen=[{"key": "x/0", "url": "u", "dimensions": {"i": {"stop": 10**30}}}]),
)
_kerchunk("chunks", lambda: references_of({f"x/{i}": ["u", i, 1] for i in range(36_000)}, shape=[40_000], chunks=[1]))
_kerchunk(
    "objects", lambda: references_of({f"x/{i}": [f"u{i}", i, 1] for i in range(30_000)}, shape=[40_000], chunks=[1])
)
_kerchunk(
    "folders", lambda: references_of({f"x/{i}": [f"{i}/u", i, 1] for i in range(30_000)}, shape=[40_000], chunks=[1])
)
_kerchunk("inlined", lambda: references_of({f"x/{i}": "a" for i in range(50_000)}, shape=[60_000], chunks=[1]))
_kerchunk("huge_grid", lambda: references_of({"x/0": ["u", 0, 1]}, shape=[1 << 62], chunks=[1]))
_kerchunk("huge_product", lambda: references_of({"x/0.0.0": ["u", 0, 1]}, shape=[1 << 40] * 3, chunks=[1] * 3))
_kerchunk("deep", lambda: '{"version": 1, "refs": ' + nested_json(480_000) + "}")
_kerchunk(
    "deep_keys", lambda: references_of({"/".join(["a"] * i) + "/.zgroup": '{"zarr_format": 2}' for i in range(1, 900)})
)
_kerchunk("groups", lambda: references_of({f"g{i}/.zgroup": '{"zarr_format": 2}' for i in range(18_000)}))
_kerchunk("long_key_numbers", lambda: references_of({"x/" + "9" * 900_000: ["u", 0, 1]}))


@case
def kerchunk_group_of_arrays(folder: Path) -> Action:
    import penstock as ps

    refs: dict[str, Any] = {".zgroup": '{"zarr_format": 2}', "g/.zgroup": '{"zarr_format": 2}'}
    for i in range(1_500):
        refs |= {f"g/a{i}/.zarray": json.dumps(V2_DOCUMENT), f"g/a{i}/0": ["u", 0, 4]}
    path = folder / "d.json"
    path.write_text(json.dumps(refs))
    return lambda: [ps.open(path, "g")[f"a{i}"].shape for i in range(50)]  # type: ignore[index]


def _parquet(name: str, record_size: int, rows: int, value: Any = None, records: int = 1, **zarray: Any) -> None:
    def make(folder: Path) -> Action:
        import penstock as ps
        import pyarrow as pa
        import pyarrow.parquet as pq

        target = folder / "d.parq"
        (target / "x").mkdir(parents=True)
        metadata = {".zgroup": {"zarr_format": 2}, "x/.zarray": {**V2_DOCUMENT, **zarray}}
        (target / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": record_size}))
        table = {
            "path": pa.nulls(rows, pa.string()) if value is None else pa.repeat(value, rows),
            "offset": pa.repeat(0, rows), "size": pa.repeat(1, rows), "raw": pa.nulls(rows, pa.binary()),
        }  # fmt: skip
        for record in range(records):
            pq.write_table(pa.table(table), target / "x" / f"refs.{record}.parq", compression="zstd")
        return lambda: touch(ps.open(target, "x"))

    add_case(f"kerchunk_parquet_{name}", make)


_parquet("few", 10, 10, "u", shape=[40], chunks=[1])
_parquet("huge_grid", 1, 1, "u", shape=[1 << 40], chunks=[1])
_parquet("huge_record", 1 << 60, 1, "u", shape=[1 << 62], chunks=[1])
_parquet("nulls", 1 << 40, 20_000_000, shape=[1 << 40], chunks=[1])
_parquet("values", 1 << 40, 5_000_000, "u", shape=[1 << 40], chunks=[1])
_parquet("long_values", 1 << 40, 200, "u" * 500_000, shape=[1 << 40], chunks=[1])
_parquet("records", 1, 1, "u", 300, shape=[300], chunks=[1])
