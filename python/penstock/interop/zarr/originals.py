"""zarr-python's functions that `enable` replaces."""

from __future__ import annotations

from types import SimpleNamespace

import zarr.api.synchronous as synchronous

NAMES = [
    name
    for name in (
        "array",
        "create",
        "create_array",
        "create_group",
        "empty",
        "empty_like",
        "from_array",
        "full",
        "full_like",
        "group",
        "ones",
        "ones_like",
        "open",
        "open_array",
        "open_group",
        "open_like",
        "open_consolidated",
        "zeros",
        "zeros_like",
    )
    if hasattr(synchronous, name)
]

originals = SimpleNamespace(**{name: getattr(synchronous, name) for name in NAMES})
"""zarr-python's own functions, whatever `enable` put in their place."""
