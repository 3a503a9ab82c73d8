"""Runs Python tests with the wheel of build/dist for another machine, under emulation.

try_tests.py [--arch aarch64] [--keep] FILE... [-- OPTION...]
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

from emulated import Emulator
from make_wheels import BUILD, DEBIAN, ROOT
from recipes import Debian

# The packages of tools/requirements that these tests import, if the index has them for the machine.
WANTED = {"pytest", "pytest-timeout", "hypothesis", "trustme", "h2"}
WANTED |= {"zarr", "numcodecs", "ml_dtypes", "h5py", "tifffile"}


def requirements() -> list[str]:
    """The pinned versions of those packages, for the emulator's Python."""
    lists = [ROOT / "tools" / "requirements" / f"{name}.txt" for name in ("test", "zarr", "wheels")]
    rows = [row.strip() for each in lists for row in each.read_text().splitlines()]
    rows = [row for row in rows if row.split("==")[0] in WANTED and '< "3.12"' not in row]
    return [row.split(";")[0] for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", choices=DEBIAN, default="aarch64")
    parser.add_argument("--keep", action="store_true", help="take the packages that the last run installed")
    parser.add_argument("tests", nargs="+", help="files, and options of pytest after --")
    a = parser.parse_args()
    if a.arch == platform.machine():
        raise SystemExit("Here this is not needed: install the wheel and call pytest")
    (wheel,) = (ROOT / "build" / "dist").glob(f"penstock-*{a.arch}.whl")
    emulator = Emulator(a.arch, DEBIAN[a.arch], BUILD / a.arch / "emulated", Debian(BUILD / "sources"))
    if not a.keep:
        emulator.install(wheel, *requirements())
    return emulator.run("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *a.tests, cwd=Path(ROOT))


if __name__ == "__main__":
    raise SystemExit(main())
