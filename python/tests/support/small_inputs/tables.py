"""HDF5, Parquet and Arrow files of less than 1 MB that are as expensive as the format allows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.small_inputs.cases import Action, add_case, case, touch


def _hdf5(name: str, fill: Callable[[Any], Any]) -> None:
    def make(folder: Path) -> Action:
        import h5py
        import penstock as ps

        path = folder / "x.h5"
        with h5py.File(path, "w", libver="latest") as file:
            fill(file)
        return lambda: touch(ps.open(path))

    add_case(f"hdf5_{name}", make)


def _hdf5_groups(file: Any) -> None:
    for i in range(3_500):
        file.create_group(f"g{i}")


def _hdf5_deep(file: Any) -> None:
    at = file
    for _ in range(1_500):
        at = at.create_group("g")


def _hdf5_circle(file: Any) -> None:
    for i in range(50):
        file[f"a{i}"] = file["/"]


_hdf5("groups", _hdf5_groups)
_hdf5("deep", _hdf5_deep)
_hdf5("circle", _hdf5_circle)
_hdf5("attributes", lambda file: [file.attrs.__setitem__(f"a{i}", i) for i in range(6_000)])
_hdf5("huge_grid", lambda file: file.create_dataset("x", (1 << 62,), "u1", chunks=(1,), maxshape=(1 << 62,)))
_hdf5("huge_2d", lambda file: file.create_dataset("x", (1 << 40, 1 << 20), "u1", chunks=(1, 1), maxshape=(None, None)))
_hdf5("fields", lambda file: file.create_dataset("x", (1,), [(f"f{i}", "u1") for i in range(1_500)]))


@case
def parquet_columns(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({f"c{i}": [1] for i in range(3_000)}), folder / "x.parquet", compression="none")
    return lambda: touch(ps.open(folder / "x.parquet", columns="c0"))


@case
def parquet_row_groups(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"c0": list(range(6_000))}), folder / "x.parquet", row_group_size=1)
    return lambda: touch(ps.open(folder / "x.parquet", columns="c0"))


@case
def parquet_rows(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"c0": pa.repeat(1, 5_000_000)}), folder / "x.parquet")
    return lambda: ps.open(folder / "x.parquet", columns="c0").shape


@case
def arrow_columns(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa
    import pyarrow.feather as feather

    feather.write_feather(
        pa.table({f"c{i}": [1] for i in range(2_500)}), folder / "x.arrow", compression="uncompressed"
    )
    return lambda: touch(ps.open(folder / "x.arrow", columns="c0"))


@case
def arrow_batches(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa

    schema = pa.schema([("c0", pa.int64())])
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for _ in range(3_000):
            writer.write_batch(pa.record_batch([[1]], schema=schema))
    return lambda: touch(ps.open(folder / "x.arrow", columns="c0"))


@case
def arrow_nested(folder: Path) -> Action:
    import penstock as ps
    import pyarrow as pa

    kind: Any = pa.int8()
    for _ in range(50):
        kind = pa.struct([("a", kind), ("b", pa.int8())])
    schema = pa.schema([(f"c{i}", kind) for i in range(60)])
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema):
        pass
    return lambda: touch(ps.open(folder / "x.arrow", columns="c0"))
