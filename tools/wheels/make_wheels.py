"""Makes a wheel that installs on any x86-64 Linux with glibc 2.28 or later: `make wheels`. See packaging/README.md.

g++ compiles Penstock as ever, with the headers of this Debian. zig links it: against the symbols of glibc 2.28, with
libstdc++ and all libraries inside. These are built once into build/wheels/x86_64/prefix, from this Debian's sources.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from libraries import LIBRARIES, PREBUILT
from recipes import HERE, Builder, Debian

MACHINE = "x86_64"
GLIBC = "2.28"  # RHEL 8, Debian 10, Ubuntu 18.10 and all later ones
MOST_BYTES = 20_000_000
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "wheels"
FOLDER = BUILD / MACHINE
TOOLS = BUILD / "venv" / "bin" / "python"  # has what requirements/wheels.txt names


def write_tools() -> None:
    """A C compiler and a linker for the old glibc, as scripts: CMake and Configure want programs without arguments."""
    found = subprocess.run(
        [TOOLS, "-c", "import ziglang; print(ziglang.__file__)"], check=True, capture_output=True, text=True
    )
    zig = Path(found.stdout.strip()).parent / "zig"
    gcc = subprocess.run(["g++", "-print-file-name=libstdc++.a"], check=True, capture_output=True, text=True)
    runtime = " ".join(
        str(Path(gcc.stdout.strip()).parent / f"{name}.a") for name in ("libstdc++", "libgcc_eh", "libgcc")
    )
    (FOLDER / "bin").mkdir(parents=True, exist_ok=True)
    # zig traps undefined behaviour in what it compiles without optimisation: not in configure checks.
    cc = f'"{zig}" cc -target {MACHINE}-linux-gnu.{GLIBC} -fno-sanitize=undefined'
    scripts = {
        "cc": f'exec {cc} "$@"',
        "ar": f'exec "{zig}" ar "$@"',
        "ranlib": f'exec "{zig}" ranlib "$@"',
        # Of CMake's arguments, the objects and options that count: this system's shared libraries are replaced.
        "link": f"""keep=()
while [ $# -gt 0 ]; do
  case "$1" in
    -o) keep+=("$1" "$2"); shift ;;
    *.o|*.a|-shared|-Wl,--gc-sections|-Wl,--version-script=*) keep+=("$1") ;;
  esac
  shift
done
exec {cc} -O2 "${{keep[@]}}" {FOLDER}/glibc.o {FOLDER}/prefix/lib/*.a {runtime} -lm -ldl -lpthread""",
    }
    for name, text in scripts.items():
        script = FOLDER / "bin" / name
        script.write_text(f"#!/bin/bash\n{text}\n")
        script.chmod(0o755)
    subprocess.run(
        [FOLDER / "bin" / "cc", "-O2", "-fPIC", "-c", HERE / "glibc_2_28.c", "-o", FOLDER / "glibc.o"], check=True
    )


def build_libraries(jobs: int) -> None:
    """Builds the libraries whose version, or checksum, is not the one that was built."""
    debian = Debian(BUILD / "sources")
    stamps = FOLDER / "stamps"
    stamps.mkdir(parents=True, exist_ok=True)
    for package in PREBUILT:
        stamp = stamps / package.name
        if stamp.exists() and stamp.read_text() == package.checksum:
            continue
        print(f"{package.name} {package.version}", flush=True)
        deb = debian.binary(package.name, package.version, package.suite, "amd64", package.checksum)
        with tempfile.TemporaryDirectory() as unpacked:
            subprocess.run(["dpkg-deb", "-x", deb, unpacked], check=True)
            for name in package.archives:
                (found,) = Path(unpacked).rglob(name)
                (FOLDER / "prefix" / "lib").mkdir(parents=True, exist_ok=True)
                shutil.copy(found, FOLDER / "prefix" / "lib")
        stamp.write_text(package.checksum)
    for library in LIBRARIES:
        stamp = stamps / library.name
        if stamp.exists() and stamp.read_text() == library.dsc:
            continue
        print(f"{library.name} {library.version}", flush=True)
        source = FOLDER / "source" / library.name
        debian.unpack(debian.source(library.name, library.version, library.suite, library.dsc), source)
        library.build(Builder(MACHINE, FOLDER, source, jobs))
        shutil.rmtree(source)
        stamp.write_text(library.dsc)


def build_wheel(cuda: list[str]) -> Path:
    """The wheel, with its platform's tag; compiles only what has changed since the last one."""
    builder = Builder(MACHINE, FOLDER, ROOT, 0)
    link = FOLDER / "bin" / "link"
    defines = {
        "CMAKE_CXX_CREATE_SHARED_MODULE": f"{link} -shared <LINK_FLAGS> -o <TARGET> <OBJECTS> <LINK_LIBRARIES>",
        "CMAKE_MODULE_LINKER_FLAGS": f"-Wl,--gc-sections -Wl,--version-script={HERE / 'exports.map'}",
        "CMAKE_DISABLE_FIND_PACKAGE_libjxl": "ON",
        "PENSTOCK_CURL": "LINK",
        "PENSTOCK_PICTURES": "LINK",
    }
    options = {"build-dir": str(ROOT / "build" / "wheels-project")}
    options |= {f"cmake.define.{name}": value for name, value in defines.items()}
    options |= {f"cmake.define.{name}": value for name, value in (each.split("=", 1) for each in cuda)}
    made = FOLDER / "made"
    shutil.rmtree(made, ignore_errors=True)
    builder.run(
        sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir",
        f"--wheel-dir={made}", *(f"--config-settings={name}={value}" for name, value in options.items()), str(ROOT),
    )  # fmt: skip
    (wheel,) = made.glob("*.whl")
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{MACHINE}"
    builder.run(str(TOOLS), "-m", "wheel", "tags", "--remove", f"--platform-tag={tag}", str(wheel))
    (wheel,) = made.glob("*.whl")
    return wheel


def check_wheel(wheel: Path) -> None:
    """What the tag promises: no symbol of a later glibc, no library that a system may lack; and a small size."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        (module,) = (each for each in archive.namelist() if each.endswith(".so"))
        text = subprocess.run(
            ["readelf", "--wide", "--dynamic", "--version-info", "--dyn-syms", archive.extract(module, folder)],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
    newest = max(tuple(int(part) for part in each) for each in re.findall(r"GLIBC_(\d+)\.(\d+)", text))
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
    symbols = re.findall(r"(GLOBAL|WEAK) +DEFAULT +(\S+) (\S+)", text)
    # Python has the rest. A symbol that neither has is an error when it is used first, unless it may be missing (weak).
    missing = {
        name
        for binding, index, name in symbols
        if binding == "GLOBAL" and index == "UND" and not re.match(r"_?Py|.*@GLIBC_", name)
    }
    # Two libraries of one name in a process must not find each other's functions.
    exported = {name for _, index, name in symbols if index != "UND"}
    size = wheel.stat().st_size
    if newest > tuple(int(part) for part in GLIBC.split(".")):
        raise SystemExit(f"{wheel.name} needs glibc {newest}, more than {GLIBC}")
    if surplus := {
        each for each in needed if not re.match(r"(lib(c|m|dl|pthread|rt|util)|ld-linux-\S+)\.so\.\d$", each)
    }:
        raise SystemExit(f"{wheel.name} needs libraries that a system may lack: {', '.join(sorted(surplus))}")
    if missing:
        raise SystemExit(f"{wheel.name} holds no {', '.join(sorted(missing)[:10])}")
    if exported != {"PyInit__core"}:
        raise SystemExit(f"{wheel.name} exports more than PyInit__core: {', '.join(sorted(exported)[:10])}")
    if size > MOST_BYTES:
        raise SystemExit(f"{wheel.name} has {size} bytes, more than {MOST_BYTES}")
    libraries = ", ".join(sorted(needed))
    print(f"{wheel.name}: {size / 1e6:.1f} MB, needs glibc {newest[0]}.{newest[1]} and no other library ({libraries})")


def try_wheel(wheel: Path) -> None:
    """Installs the wheel in an environment of its own and reads with it: see try_wheel.py."""
    environment = BUILD / "try"
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([TOOLS, HERE / "make_samples.py", BUILD / "samples"], check=True)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", wheel], check=True)
    subprocess.run([python, "-I", HERE / "try_wheel.py", BUILD / "samples"], check=True, cwd=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes, checks and tries a manylinux wheel.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--define", action="append", default=[], help="a variable of CMake: NAME=VALUE")
    a = parser.parse_args()
    # The headers that Penstock is compiled with, and the libraries that it is linked with, are those of one release.
    if 'VERSION_ID="12"' not in Path("/etc/os-release").read_text():
        raise SystemExit("This builds on Debian 12 only, whose sources libraries.py names. The wheel installs anywhere")
    for program in ("g++", "nasm", "perl", "make", "readelf", "dpkg-source", "apt-get"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not on PATH: apt-get install g++ nasm perl make binutils dpkg-dev")
    write_tools()
    build_libraries(a.jobs)
    os.environ["CMAKE_BUILD_PARALLEL_LEVEL"] = str(a.jobs)
    wheel = build_wheel(a.define)
    check_wheel(wheel)
    try_wheel(wheel)
    (ROOT / "build" / "dist").mkdir(parents=True, exist_ok=True)
    print(shutil.copy(wheel, ROOT / "build" / "dist"))


if __name__ == "__main__":
    main()
