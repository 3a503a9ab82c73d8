"""Tests of the import check: each rule reports a package that breaks it, and a correct package passes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
import check_imports

CORRECT = {
    "__init__.py": "from typing import TYPE_CHECKING\n\nfrom penstock.api.open import open\n\n"
    "if TYPE_CHECKING:\n    from penstock import zarr as zarr\n",
    "core/__init__.py": "",
    "core/errors.py": "import os\nfrom penstock import _core\nimport penstock._core\n",
    "core/array.py": "from penstock._core import Array\nfrom penstock.core.errors import Error\n",
    "core/convert.py": "if TYPE_CHECKING:\n    from penstock.core.array import Array\n",
    "target/place.py": "from penstock.core import errors\n\ndef f():\n    import asyncio, fsspec.core\n",
    "api/open.py": "from penstock.core.array import Array\nfrom penstock.target.place import f\n",
    "interop/zarr/wrap.py": "import zarr\nfrom penstock.api.open import open\n",
    "zarr.py": "from penstock.interop.zarr.wrap import zarr\n",
    "view/demo/__init__.py": "import penstock as ps\n\n\ndef draw():\n    from . import charts\n",
    "view/demo/charts.py": "import matplotlib\n",
}


def package(folder: Path, **changed: str) -> Path:
    for name, text in {**CORRECT, **changed}.items():
        path = folder / "penstock" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "penstock"


def test_a_correct_package_passes(tmp_path: Path) -> None:
    assert check_imports.check_package(package(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "core/errors.py",
            "from penstock.target import place\n",
            "errors.py:1: core.errors must not know target",
        ),
        ("core/errors.py", "import penstock.target.place\n", "must not know target.place"),
        (
            "core/errors.py",
            "\nfrom penstock import core\n\nimport penstock\n",
            ":4: core.errors must not know",
        ),
        ("target/place.py", "from penstock.geo import crs\n", "target.place must not know geo"),
        ("hdf5/file.py", "from penstock.tabular import shards\n", "hdf5.file must not know tabular"),
        ("interop/zarr/wrap.py", "from penstock.zarr import zarr\n", "interop.zarr.wrap must not know zarr"),
        ("core/errors.py", "if TYPE_CHECKING:\n    from penstock.api.open import open\n", "must not know api.open"),
        ("core/errors.py", "from penstock.core.array import Array\n", "a circle of imports: core.array, core.errors"),
        ("core/errors.py", "def f():\n    import pickle\n", "errors.py:2: import of pickle inside a function"),
        ("api/open.py", "def f():\n    from penstock.core import array\n", "import of core.array inside a function"),
        ("view/demo/charts.py", "", "import of view.demo.charts inside a function"),
        ("novel/x.py", "", "novel/x.py:1: this module has no layer"),
    ],
)
def test_a_wrong_import_is_reported(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    complaints = check_imports.check_package(package(tmp_path, **{name: text}))
    assert any(complaint in line for line in complaints), complaints


def test_the_package_of_this_checkout_passes() -> None:
    root = Path(__file__).resolve().parents[2]
    assert check_imports.check_package(root / "python" / "penstock") == []
