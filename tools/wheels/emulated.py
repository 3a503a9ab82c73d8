"""Runs a wheel for another machine: with Debian's Python for it, packages of the index, and QEMU's user-mode emulator.

Nothing is installed and nothing runs as root: Debian's packages are unpacked into a folder, which the emulator prepends
to this system's files.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from recipes import Debian

SUITE, PYTHON = "trixie", "3.13"
PACKAGES = [
    f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib", "libc6", "libgcc-s1",
    "libstdc++6", "zlib1g", "libexpat1", "libssl3t64", "libffi8", "libbz2-1.0", "liblzma5", "libzstd1", "libsqlite3-0",
    "libuuid1", "tzdata",
]  # fmt: skip
# The glibc versions that packages of the index may be built for, in pip's notation.
GLIBCS = ("2014", "_2_17", "_2_24", "_2_27", "_2_28", "_2_34", "_2_35")


class Emulator:
    """A Python for `machine` (Debian's `architecture`) in `folder`, with its own packages."""

    def __init__(self, machine: str, architecture: str, folder: Path, debian: Debian) -> None:
        self.machine = machine
        self.root = folder / "root"
        self.site = folder / "site"
        unpacked = self.root / "unpacked"
        if unpacked.exists():
            return
        shutil.rmtree(self.root, ignore_errors=True)
        packages = folder / "packages"
        packages.mkdir(parents=True, exist_ok=True)
        command = ["apt-get", "-qq", *debian.options(SUITE, architecture), "download", *PACKAGES]
        subprocess.run(command, cwd=packages, check=True)
        # Since Debian 12, /lib and /bin are links, which another package creates.
        for name in ("bin", "lib"):
            (self.root / "usr" / name).mkdir(parents=True)
            (self.root / name).symlink_to(f"usr/{name}")
        for each in sorted(packages.glob("*.deb")):
            content = subprocess.run(["dpkg-deb", "--fsys-tarfile", each], check=True, capture_output=True).stdout
            subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", self.root], check=True, input=content)
        shutil.rmtree(packages)
        unpacked.touch()

    def install(self, *packages: str | Path) -> None:
        """Install packages into an empty folder, without compiling any."""
        shutil.rmtree(self.site, ignore_errors=True)
        platforms = [f"--platform=manylinux{glibc}_{self.machine}" for glibc in GLIBCS]
        subprocess.run(
            [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--only-binary=:all:",
             f"--python-version={PYTHON}", "--implementation=cp", *platforms, f"--target={self.site}", *packages],
            check=True,
        )  # fmt: skip

    def run(self, *arguments: str | Path, cwd: Path | None = None) -> int:
        """Run Python; returns its status."""
        python = self.root / "usr" / "bin" / f"python{PYTHON}"
        emulator = [f"qemu-{self.machine}-static", "-L", self.root, "-E", f"PYTHONPATH={self.site}"]
        return subprocess.run([*emulator, python, "-s", "-P", *arguments], cwd=cwd).returncode
