"""Runs the tutorials in new folders: stores what the cells of their notebooks show, and the pictures that they save.

`run_tutorials.py [NAME...]` runs all tutorials, or the named ones. Texts are stored in tools/docs/outputs, pictures in
docs/img. `make docs` adds both to the notebooks, and refuses outputs of code that has changed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import notebooks

ROOT = Path(__file__).resolve().parents[2]
FAKE_DRIVER = ROOT / "build" / "release" / "tests" / "libpenstock_fake_cuda.so"


def shown_by(code: str, namespace: dict[str, Any]) -> tuple[str, str]:
    """Runs a cell as Jupyter does. Returns what it prints, and the repr of the expression at its end."""
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    return printed.getvalue(), "" if value is None else repr(value)


def run(page: Path) -> None:
    """Runs the cells of a page in the working folder, and stores their outputs."""
    stored = []
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for code in notebooks.code_of(page.read_text()):
        before = set(Path().glob("tutorial_*.png"))
        texts = [text.replace(str(Path.cwd()), "/data") for text in shown_by(code, namespace)]
        pictures = sorted(set(Path().glob("tutorial_*.png")) - before)
        for picture in pictures:
            shutil.copy(picture, ROOT / "docs" / "img")
        names = [picture.name for picture in pictures]
        stored.append(notebooks.Output(notebooks.digest(code), texts[0], texts[1], names))
    path = notebooks.OUTPUTS / f"{page.stem}.json"
    path.write_text(json.dumps([vars(each) for each in stored], indent=1, ensure_ascii=False) + "\n")
    print(path)


def main() -> None:
    os.environ.setdefault("PENSTOCK_CUDA_DRIVER", str(FAKE_DRIVER))  # tutorials/gpu.md runs on the simulated device
    os.environ.setdefault("MPLBACKEND", "Agg")
    named = sys.argv[1:] or [page.stem for page in sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
    if len(named) > 1:  # each in a process of its own
        for name in named:
            subprocess.run([sys.executable, __file__, name], check=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shutil.copy(ROOT / "examples" / "scene.tif", folder)
        run(ROOT / "docs" / "tutorials" / f"{named[0]}.md")
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
