"""Appends blocks of rows to an array until it is killed; logs the start and the outcome of each append.

Usage: appender.py ARRAY LOG NUMBER SEED. A block is 1 to 13 rows with one number that no other block has. Every ninth
block also has rows of the fill value, so that some chunks have no values.
"""

from __future__ import annotations

import os
import random
import sys

import numpy as np
import penstock as ps


def main() -> None:
    """Append until killed."""
    path, log_path, number, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    array = ps.open(path, context=ps.Context(threads=2))
    for k in range(1 << 20):
        block = (seed << 24) + (number << 20) + k + 1
        rows = chance.randint(1, 13)
        values = np.zeros((rows, 3), "int64")
        values[0, 0] = block
        if k % 9:
            values[:] = block
        os.write(log, f"begin {block} {rows} {int(k % 9 != 0)}\n".encode())
        try:
            array.append(values)
        except ps.Error as error:
            os.write(log, f"failed {block} {type(error).__name__} {str(error).splitlines()[0]}\n".encode())
        else:
            os.write(log, f"done {block}\n".encode())


if __name__ == "__main__":
    main()
