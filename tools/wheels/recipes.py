"""Fetches a pinned source and builds it: the steps that the recipes of libraries.py use."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
C_FLAGS = ["-O3", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-DNDEBUG"]


class Builder:
    """Builds one library into build/wheels/<machine>/prefix. `source` is its unpacked source."""

    def __init__(self, machine: str, folder: Path, source: Path, jobs: int) -> None:
        self.machine = machine
        self.prefix = folder / "prefix"
        self.bin = folder / "bin"
        self.source = source
        self.jobs = jobs
        self.environment = {
            **os.environ,
            "PENSTOCK_WHEEL_FOLDER": str(folder),
            "PENSTOCK_WHEEL_MACHINE": machine,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CC": str(self.bin / "cc"),
            "AR": str(self.bin / "ar"),
            "RANLIB": str(self.bin / "ranlib"),
        }

    def run(self, *command: str, cwd: Path | None = None) -> None:
        """Runs a command in the source; its output is shown only if it fails."""
        done = subprocess.run(
            command,
            cwd=cwd or self.source,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"{done.stdout[-6000:]}\n{' '.join(command)}: status {done.returncode}")

    def cmake(self, *options: str, source: str = ".") -> None:
        build = self.source / "penstock-build"
        self.run(
            "cmake", "-S", source, "-B", str(build), "-G", "Unix Makefiles",
            f"-DCMAKE_TOOLCHAIN_FILE={HERE / 'toolchain.cmake'}",
            f"-DCMAKE_INSTALL_PREFIX={self.prefix}", "-DCMAKE_INSTALL_LIBDIR=lib", "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_POSITION_INDEPENDENT_CODE=ON", "-DCMAKE_POLICY_VERSION_MINIMUM=3.5",
            f"-DCMAKE_C_FLAGS={' '.join(C_FLAGS)}", f"-DCMAKE_CXX_FLAGS={' '.join(C_FLAGS)}", *options,
        )  # fmt: skip
        self.run("cmake", "--build", str(build), "-j", str(self.jobs))
        self.run("cmake", "--install", str(build))

    def compile(self, archive: str, *patterns: str, flags: list[str]) -> None:
        """Compiles C sources into a static library of the prefix."""
        files = sorted(each for pattern in patterns for each in glob.glob(pattern, root_dir=self.source))
        objects = [f"{archive}.{file.replace('/', '_')}.o" for file in files]
        for file, made in zip(files, objects, strict=True):
            self.run(str(self.bin / "cc"), *C_FLAGS, *flags, "-c", file, "-o", made)
        (self.prefix / "lib").mkdir(parents=True, exist_ok=True)
        (self.prefix / "lib" / archive).unlink(missing_ok=True)
        self.run(str(self.bin / "ar"), "rcs", str(self.prefix / "lib" / archive), *objects)

    def headers(self, *files: str, folder: str = ".") -> None:
        into = self.prefix / "include" / folder
        into.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(self.source / file, into)


class Debian:
    """Debian's archive as configured on this machine: the sources of any release, each file by its checksum."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lists = folder / "apt"

    def options(self, suite: str, architecture: str = "") -> list[str]:
        """Options for apt-get that leave the machine's own lists alone; made from the first Debian archive that is
        configured.

        For sources; with an architecture, for its binary packages.
        """
        state = self.lists / f"{suite}{architecture}"
        sources = state / "sources.list"
        options = {
            "Dir::Etc::SourceList": str(sources), "Dir::Etc::SourceParts": "/dev/null",
            "APT::Architecture": architecture or "amd64", "APT::Architectures": architecture or "amd64",
            "Dir::State::Lists": f"{state}/lists", "Dir::Cache": f"{state}/cache", "APT::Sandbox::User": "root",
        }  # fmt: skip
        arguments = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        if not sources.exists():
            for each in ("lists/partial", "cache/archives/partial"):
                (state / each).mkdir(parents=True, exist_ok=True)
            main, security = self.archives()
            rows = [f"{main} {suite} main", f"{main} {suite}-updates main", f"{security} {suite}-security main"]
            sources.write_text("".join(f"{'deb' if architecture else 'deb-src'} {row}\n" for row in rows))
            subprocess.run(["apt-get", "-qq", *arguments, "update"], check=True)
        return arguments

    @staticmethod
    def archives() -> tuple[str, str]:
        """The addresses of Debian's archive and of its security updates in this machine's configuration."""
        files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
        text = "\n".join(file.read_text() for file in files if file.suffix in (".list", ".sources") and file.exists())
        found = re.findall(r"^(?:URIs:|deb(?: \[.*\])?) +(\S*debian\S*)", text, re.M)
        main = next((each for each in found if "security" not in each), None)
        if main is None:
            raise SystemExit("This is not a Debian: put the sources that libraries.py lists into build/wheels/sources")
        return main, next((each for each in found if "security" in each), main.rstrip("/") + "-security")

    def source(self, name: str, version: str, suite: str, dsc: str) -> Path:
        """The .dsc of a source package, next to its files; raises if its checksum differs."""
        file = self.folder / f"{name}_{version.split(':')[-1]}.dsc"
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            command = ["apt-get", "-qq", *self.options(suite), "source", "--download-only", f"{name}={version}"]
            if subprocess.run(command, cwd=self.folder).returncode or not file.exists():
                raise SystemExit(
                    f"{name} {version} is not in this archive (a security update may have replaced it): put its "
                    f"files into {self.folder}, or set the new version and checksum in tools/wheels/libraries.py"
                )
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != dsc:
            raise SystemExit(f"{file}: SHA-256 is {found}, expected {dsc}")
        return file

    def binary(self, name: str, version: str, suite: str, architecture: str, checksum: str) -> Path:
        """A binary package; raises if its checksum differs."""
        file = self.folder / f"{name}_{version.split(':')[-1]}_{architecture}.deb"
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            command = ["apt-get", "-qq", *self.options(suite, architecture), "download", f"{name}={version}"]
            subprocess.run(command, cwd=self.folder, check=True)
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != checksum:
            raise SystemExit(f"{file}: SHA-256 is {found}, expected {checksum}")
        return file

    def unpack(self, dsc: Path, into: Path) -> None:
        """Unpacks a source with Debian's patches; dpkg-source compares its files with the checksums of the .dsc."""
        shutil.rmtree(into, ignore_errors=True)
        into.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["dpkg-source", "-x", str(dsc), str(into)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
