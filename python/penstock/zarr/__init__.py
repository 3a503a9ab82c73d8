"""Penstock under zarr-python: the same arrays and the same calls, at the engine's speed.

>>> import penstock.zarr
>>> penstock.zarr.enable()                  # all arrays opened from here on
>>> a = penstock.zarr.open_array("x.zarr")  # and past zarr-python's event loop
>>> print(penstock.zarr.explain(a))
"""

from penstock.zarr._enable import Enabled, disable, enable, is_enabled
from penstock.zarr._explain import Explanation, Explanations, explain
from penstock.zarr._pipeline import CodecPipeline
from penstock.zarr._settings import stats
from penstock.zarr._wrap import Array, Group, open_array, open_group, wrap

__all__ = [
    "Array",
    "CodecPipeline",
    "Enabled",
    "Explanation",
    "Explanations",
    "Group",
    "disable",
    "enable",
    "explain",
    "is_enabled",
    "open_array",
    "open_group",
    "stats",
    "wrap",
]
