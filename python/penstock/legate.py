"""An array as a cuPyNumeric array, its tiles loaded by Legate's tasks.

>>> import penstock.legate
>>> x = penstock.legate.load("run.zarr")             # a cupynumeric.ndarray

`python -m penstock.legate` writes shards, loads and verifies them: see `python -m penstock.legate --help`.
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
