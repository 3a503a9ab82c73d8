"""Arrays for tests of `penstock.loader`."""

from __future__ import annotations

import numpy as np
import penstock as ps


def make(values, chunks, names=None, shards=None, path=None):
    return ps.create_array(
        path if path is not None else {}, data=values, chunks=chunks, shards=shards, dimension_names=names
    )


def rows(count=60, width=5, chunk=7, **options):
    values = np.arange(count * width, dtype="i4").reshape(count, width)
    return values, make(values, (chunk, width), **options)


def all_of(loader):
    return [batch.numpy().copy() for batch in loader]
