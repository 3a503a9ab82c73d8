"""Loads `penstock._core` from the file in PENSTOCK_CORE, for example a build with sanitizers.

With this folder in PYTHONPATH, Python also imports this module in the programs that tests start.
"""

import importlib.util
import os
import sys
from typing import Any


class _Finder:
    @staticmethod
    def find_spec(name: str, *_: Any) -> Any:
        core = os.environ["PENSTOCK_CORE"]
        return importlib.util.spec_from_file_location(name, core) if name == "penstock._core" else None


if "PENSTOCK_CORE" in os.environ:
    sys.meta_path.insert(0, _Finder)
