"""Writes the Parquet files of this folder: the same references by two writers, in each form that is read."""

import sys
from pathlib import Path

import fastparquet
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

out = Path(sys.argv[1])
rows = 40
path = [None if i % 7 == 3 else f"s3://bucket/file_{i // 10}.nc" for i in range(rows)]
offset = [i * 1000 for i in range(rows)]
size = [100 + i % 3 for i in range(rows)]
raw = [bytes([i, 255]) if i % 7 == 3 and i % 2 else None for i in range(rows)]
numbers = {"offset": pa.array(offset, pa.int64()), "size": pa.array(size, pa.int64())}
table = pa.table({"path": path, **numbers, "raw": pa.array(raw, pa.binary())})
pages = {"row_group_size": 25, "write_statistics": False, "data_page_size": 64, "store_schema": False}
for codec in ("none", "snappy", "gzip", "zstd"):
    for version in ("1.0", "2.0"):
        for form in ("dictionary", "plain"):
            name = f"pyarrow_{codec}_v{version[0]}_{form}.parq"
            options = {"compression": codec, "data_page_version": version, "use_dictionary": form == "dictionary"}
            pq.write_table(table, out / name, **options, **pages)
pq.write_table(table, out / "brotli.parq", compression="brotli")
delta = {"offset": "DELTA_BINARY_PACKED", "path": "DELTA_BYTE_ARRAY"}
pq.write_table(table, out / "delta.parq", use_dictionary=False, column_encoding=delta)
pq.write_table(pa.table({"path": pa.nulls(5), "offset": pa.array(range(1, 6), pa.int32())}), out / "nulls.parq")
pq.write_table(pa.table({"path": pa.array([["a"], ["b"]])}), out / "nested.parq")
frame = pd.DataFrame({"path": pd.Categorical(path), "offset": offset, "size": size, "raw": raw})
for compression in (None, "ZSTD", "SNAPPY", "GZIP"):
    name = f"fastparquet_{(compression or 'none').lower()}.parq"
    encodings = {"raw": "bytes", "path": "utf8"}
    options = {"compression": compression, "object_encoding": encodings, "has_nulls": ["path", "raw"], "stats": False}
    fastparquet.write(str(out / name), frame, **options)
