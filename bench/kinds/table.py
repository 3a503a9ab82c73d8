"""A column of a Parquet file, compared with pyarrow's to_numpy, and the memory used in addition to the result."""

from __future__ import annotations

import numpy as np
import penstock as ps
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        result.left_out["pyarrow"] = "it is not installed"
        return result
    setting.folder.mkdir(parents=True, exist_ok=True)
    path = setting.folder / f"{scenario['name']}.parquet"
    rows, group = scenario["rows"], scenario["row_group"]
    random = np.random.default_rng(0)
    schema = pa.schema([("x", pa.float32())])
    with pq.ParquetWriter(path, schema, compression=scenario["compression"], use_dictionary=False) as writer:
        for start in range(0, rows, group):
            values = random.normal(size=min(group, rows - start)).astype("f4")
            writer.write_table(pa.table({"x": values}, schema=schema), row_group_size=group)
    pa.set_cpu_count(setting.threads)
    array = ps.open(path, columns="x", context=ps.Context(threads=setting.threads))
    taken = {"ours": np.empty(0), "theirs": np.empty(0)}

    def ours() -> None:
        taken["ours"] = array[...]

    def theirs() -> None:
        taken["theirs"] = pq.read_table(path, columns=["x"]).column("x").to_numpy()

    ours()
    theirs()
    if not np.array_equal(taken["ours"], taken["theirs"]):
        result.failed = "penstock reads wrong values"
        return result
    samples = in_turns({"penstock": once(ours), "pyarrow": once(theirs)}, scenario["turns"])
    for name, sample in samples.items():
        result.add(name, sample, bytes_out=4 * rows)
    ratio = samples["pyarrow"].best / samples["penstock"].best
    result.bars.append(Bar("penstock against pyarrow, best runs", ratio, scenario["at_least_of_peers"], True, "x"))
    return result
