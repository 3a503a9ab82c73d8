"""Runs the command line in the process of the tests: the start of an interpreter takes longer than most verbs."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from penstock.__main__ import main


def run_program(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `penstock` with `words` in the folder `cwd`. Returns its status and its output, including that of C++."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        kept = os.dup(1), os.dup(2)
        patch.setattr(sys, "argv", ["penstock", *map(str, words)])
        if cwd is not None:
            patch.chdir(cwd)
        try:
            for number, (name, file) in enumerate({"stdout": out, "stderr": err}.items(), 1):
                os.dup2(file.fileno(), number)
                patch.setattr(sys, name, io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8"))
            try:
                status = main()
            except SystemExit as end:  # argparse
                status = end.code if isinstance(end.code, int) else 1
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            for number, own in enumerate(kept, 1):
                os.dup2(own, number)
                os.close(own)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess([*words], status, *texts)
