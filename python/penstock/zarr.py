"""Penstock under zarr-python: the same arrays and the same calls, run by Penstock's engine.

>>> import penstock.zarr
>>> penstock.zarr.enable()                  # all arrays opened from now on
>>> a = penstock.zarr.open_array("x.zarr")  # and past zarr-python's event loop
>>> print(penstock.zarr.explain(a))
"""

from penstock.interop.zarr.enable import Enabled, disable, enable, is_enabled
from penstock.interop.zarr.explain import Explanation, Explanations, explain
from penstock.interop.zarr.pipeline import CodecPipeline
from penstock.interop.zarr.settings import stats
from penstock.interop.zarr.wrap import Array, Group, open_array, open_group, wrap

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
