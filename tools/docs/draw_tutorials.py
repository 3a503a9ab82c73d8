"""Runs the tutorials in a new folder and takes the pictures that they save into docs/img."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main() -> None:
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
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
