"""Runs the tutorials in a new folder and takes the pictures that they save into docs/img."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAKE_DRIVER = ROOT / "build" / "release" / "tests" / "libpenstock_fake_cuda.so"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Draw all tutorials, or the given ones: `draw_tutorials.py archive gpu`."""
    os.environ.setdefault("PENSTOCK_CUDA_DRIVER", str(FAKE_DRIVER))  # tutorials/gpu.md runs on the fake device
    named = sys.argv[1:]
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        if named and page.stem not in named:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            shutil.copy(ROOT / "examples" / "scene.tif", folder)
            exec(compile("\n".join(BLOCK.findall(page.read_text())), str(page), "exec"), {})
            for picture in Path(folder).glob("tutorial_*.png"):
                shutil.copy(picture, ROOT / "docs" / "img")
                print(ROOT / "docs" / "img" / picture.name)
            os.chdir(ROOT)


if __name__ == "__main__":
    main()
