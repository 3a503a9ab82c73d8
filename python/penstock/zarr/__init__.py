"""Penstock under zarr-python: the same arrays and the same calls, at the engine's speed.

>>> import penstock.zarr
>>> penstock.zarr.enable()                  # all arrays opened from here on
>>> a = penstock.zarr.open_array("x.zarr")  # and past zarr-python's event loop
>>> print(penstock.zarr.explain(a))
"""

from penstock.zarr._pipeline import CodecPipeline
from penstock.zarr._settings import stats

__all__ = ["CodecPipeline", "stats"]
