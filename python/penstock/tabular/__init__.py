"""Columns of Parquet and Arrow IPC files, read with pyarrow."""
