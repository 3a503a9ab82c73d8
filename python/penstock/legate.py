"""An array as a cuPyNumeric array, its tiles loaded by Legate's tasks.

`python -m penstock.legate` writes shards, loads and verifies them: see `python -m penstock.legate --help`.

Examples
--------
>>> import cupynumeric, penstock.legate
>>> ps.save("run.zarr", np.ones((100, 20)))
>>> x = penstock.legate.load("run.zarr")
>>> float(x.sum())
2000.0
"""

import sys

from legate.core import get_legate_runtime as get_legate_runtime

from penstock.interop.legate.load import (
    load,
    processors,
    this_rank,
    whole_files,
)

__all__ = ["load", "processors", "this_rank", "whole_files"]

if __name__ == "__main__":
    from penstock.interop.legate import demo

    sys.exit(demo.main(sys.argv[1:]))
