"""Penstock under zarr-python: the same arrays and the same calls, run by Penstock's engine.

Examples
--------
>>> import zarr, penstock.zarr
>>> before = penstock.zarr.stats(reset=True)
>>> with penstock.zarr.enable():                # without `with`: until `disable`
...     z = zarr.create_array("x.zarr", shape=(100, 50), chunks=(10, 50), dtype="f4")
...     z[:] = 1
...     float(z[3:5].sum())
100.0
>>> penstock.zarr.stats()["write"]["paths"]
{'native': 1}
"""

from penstock.interop.zarr.array import Array
from penstock.interop.zarr.enable import Enabled, disable, enable, is_enabled
from penstock.interop.zarr.explain import Explanation, Explanations, explain
from penstock.interop.zarr.pipeline import CodecPipeline
from penstock.interop.zarr.settings import stats
from penstock.interop.zarr.wrap import Group, open_array, open_group, wrap

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
