"""Makes a wheel that installs on any Linux with glibc 2.28 or later: `make wheels`. See packaging/README.md.

g++ compiles Penstock as usual, with the headers of this Debian. zig links it: against the symbols of glibc 2.28, with
libstdc++ and all libraries inside. These are built once into build/wheels/<machine>/prefix, from this Debian's sources.
For another machine, Debian's g++ for that machine compiles, and an emulator runs the result.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import ziglang
from emulated import Emulator
from libraries import LIBRARIES, PREBUILT
from recipes import HERE, Builder, Debian

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}  # Debian's names of machines
GLIBC = "2.28"  # RHEL 8, Debian 10, Ubuntu 18.10 and all later ones
MOST_BYTES = 20_000_000
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "wheels"


def write_tools(machine: str, folder: Path) -> None:
    """Write a C compiler and a linker for the old glibc as scripts, because build systems pass them no arguments."""
    zig = Path(ziglang.__file__).parent / "zig"
    command = [f"{machine}-linux-gnu-g++", "-print-file-name=libstdc++.a"]
    gcc = subprocess.run(command, check=True, capture_output=True, text=True)
    runtime = " ".join(
        str(Path(gcc.stdout.strip()).parent / f"{name}.a") for name in ("libstdc++", "libgcc_eh", "libgcc")
    )
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    # zig traps undefined behaviour in code that it compiles without optimisation; configure checks must not be trapped.
    cc = f'"{zig}" cc -target {machine}-linux-gnu.{GLIBC} -fno-sanitize=undefined'
    scripts = {
        "cc": f'exec {cc} "$@"',
        "ar": f'exec "{zig}" ar "$@"',
        "ranlib": f'exec "{zig}" ranlib "$@"',
        # Keeps the objects and options of CMake's arguments, and replaces this system's shared libraries.
        "link": f"""keep=()
while [ $# -gt 0 ]; do
  case "$1" in
    -o) keep+=("$1" "$2"); shift ;;
    *.o|*.a|-shared|-Wl,--gc-sections|-Wl,--version-script=*) keep+=("$1") ;;
  esac
  shift
done
exec {cc} -O2 "${{keep[@]}}" {folder}/glibc.o {folder}/prefix/lib/*.a {runtime} -lm -ldl -lpthread""",
    }
    for name, text in scripts.items():
        script = folder / "bin" / name
        script.write_text(f"#!/bin/bash\n{text}\n")
        script.chmod(0o755)
    subprocess.run(
        [folder / "bin" / "cc", "-O2", "-fPIC", "-c", HERE / "glibc_2_28.c", "-o", folder / "glibc.o"], check=True
    )


def build_libraries(machine: str, folder: Path, jobs: int) -> None:
    """Builds the libraries whose version or checksum has changed since they were built."""
    debian = Debian(BUILD / "sources")
    stamps = folder / "stamps"
    stamps.mkdir(parents=True, exist_ok=True)
    for package in PREBUILT:
        stamp = stamps / package.name
        checksum = package.checksums[DEBIAN[machine]]
        if stamp.exists() and stamp.read_text() == checksum:
            continue
        print(f"{package.name} {package.version}", flush=True)
        deb = debian.binary(package.name, package.version, package.suite, DEBIAN[machine], checksum)
        with tempfile.TemporaryDirectory() as unpacked:
            subprocess.run(["dpkg-deb", "-x", deb, unpacked], check=True)
            for name in package.archives:
                (found,) = Path(unpacked).rglob(name)
                (folder / "prefix" / "lib").mkdir(parents=True, exist_ok=True)
                shutil.copy(found, folder / "prefix" / "lib")
            shutil.copytree(f"{unpacked}/usr/include", folder / "prefix" / "include", dirs_exist_ok=True)
        stamp.write_text(checksum)
    for library in LIBRARIES:
        stamp = stamps / library.name
        if stamp.exists() and stamp.read_text() == library.dsc:
            continue
        print(f"{library.name} {library.version}", flush=True)
        source = folder / "source" / library.name
        debian.unpack(debian.source(library.name, library.version, library.suite, library.dsc), source)
        library.build(Builder(machine, folder, source, jobs))
        shutil.rmtree(source)
        stamp.write_text(library.dsc)


def copy_headers(prefix: Path) -> None:
    """For another machine: copies those libraries of this system that consist of headers."""
    for name in ("include/nlohmann", "include/CLI", "share/cmake/nlohmann_json", "share/cmake/CLI11"):
        shutil.copytree(f"/usr/{name}", prefix / name, dirs_exist_ok=True)


def build_wheel(machine: str, folder: Path, more: list[str]) -> Path:
    """Builds the wheel, with its platform's tag; compiles only what has changed since the last one."""
    builder = Builder(machine, folder, ROOT, 0)
    link = folder / "bin" / "link"
    defines = {
        "CMAKE_CXX_CREATE_SHARED_MODULE": f"{link} -shared <LINK_FLAGS> -o <TARGET> <OBJECTS> <LINK_LIBRARIES>",
        "CMAKE_MODULE_LINKER_FLAGS": f"-Wl,--gc-sections -Wl,--version-script={HERE / 'exports.map'}",
        "CMAKE_DISABLE_FIND_PACKAGE_libjxl": "ON",
        "PENSTOCK_CURL": "LINK",
        "PENSTOCK_PICTURES": "LINK",
    }
    defines |= dict(each.split("=", 1) for each in more)
    if machine != platform.machine():
        copy_headers(folder / "prefix")
        defines |= {"CMAKE_TOOLCHAIN_FILE": str(HERE / "toolchain.cmake"), "PENSTOCK_CUDA": "OFF"}
        # CMake finds no Python for another machine. The headers of the stable interface are the same.
        defines |= {"Python_INCLUDE_DIR": sysconfig.get_path("include")}
    else:
        # With the flags of `make test`, and a folder of the same depth: a compiler cache then has most of the objects.
        defines |= {"PENSTOCK_WERROR": "ON"}
    options = {"build-dir": str(ROOT / "build" / f"wheels-{machine}-{sys.implementation.cache_tag}{sys.abiflags}")}
    options |= {f"cmake.define.{name}": value for name, value in defines.items()}
    made = folder / "made"
    shutil.rmtree(made, ignore_errors=True)
    builder.run(
        sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir",
        f"--wheel-dir={made}", *(f"--config-settings={name}={value}" for name, value in options.items()), str(ROOT),
    )  # fmt: skip
    (wheel,) = made.glob("*.whl")
    keep_own_module(wheel)
    (wheel,) = made.glob("*.whl")
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    builder.run(sys.executable, "-m", "wheel", "tags", "--remove", f"--platform-tag={tag}", str(wheel))
    (wheel,) = made.glob("*.whl")
    return wheel


def keep_own_module(wheel: Path) -> None:
    """Removes modules for other Pythons, which `make build` may have put into the package's folder."""
    own = "abi3.so" if "-abi3-" in wheel.name else str(sysconfig.get_config_var("EXT_SUFFIX"))[1:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "--dest", folder, wheel], check=True)
        for module in Path(folder).rglob("_core.*.so"):
            if module.name != f"_core.{own}":
                module.unlink()
        wheel.unlink()
        (unpacked,) = Path(folder).iterdir()
        subprocess.run([sys.executable, "-m", "wheel", "pack", "--dest-dir", wheel.parent, unpacked], check=True)


def check_wheel(machine: str, wheel: Path) -> None:
    """Checks the tag's promises: no symbol of a later glibc, no library that a system may lack; and a small size."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        (module,) = (each for each in archive.namelist() if each.endswith(".so"))
        text = subprocess.run(
            ["readelf", "--wide", "--dynamic", "--version-info", "--dyn-syms", "--segments",
             archive.extract(module, folder)],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
    newest = max(tuple(int(part) for part in each) for each in re.findall(r"GLIBC_(\d+)\.(\d+)", text))
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
    symbols = re.findall(r"(GLOBAL|WEAK) +DEFAULT +(\S+) (\S+)", text)
    # Python provides the rest. A symbol that neither has is an error at its first use, unless it may be missing (weak).
    missing = {
        name
        for binding, index, name in symbols
        if binding == "GLOBAL" and index == "UND" and not re.match(r"_?Py|.*@GLIBC_", name)
    }
    # Two libraries with the same name in a process must not use each other's functions.
    exported = {name for _, index, name in symbols if index != "UND"}
    alignments = {int(each, 16) for each in re.findall(r"^ +LOAD .* (0x[0-9a-f]+)$", text, re.M)}
    size = wheel.stat().st_size
    if machine == "aarch64" and min(alignments) < 65536:
        raise SystemExit(f"{wheel.name} does not load on systems with pages of 64 KiB (Red Hat's for aarch64)")
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


def try_wheel(machine: str, folder: Path, wheel: Path) -> None:
    """Installs the wheel in a new environment and reads with it: see try_wheel.py."""
    subprocess.run([sys.executable, HERE / "make_samples.py", BUILD / "samples"], check=True)
    if machine != platform.machine():
        emulator = Emulator(machine, DEBIAN[machine], folder / "emulated", Debian(BUILD / "sources"))
        emulator.install(wheel)
        if emulator.run(HERE / "try_wheel.py", BUILD / "samples"):
            raise SystemExit(f"{wheel.name} failed under emulation")
        return
    environment = BUILD / "try"
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", wheel], check=True)
    subprocess.run([python, "-I", HERE / "try_wheel.py", BUILD / "samples"], check=True, cwd=environment)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes, checks and tries a manylinux wheel.")
    parser.add_argument("--arch", choices=DEBIAN, default=platform.machine())
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--define", action="append", default=[], help="a variable of CMake: NAME=VALUE")
    a = parser.parse_args()
    # The headers with which Penstock is compiled, and the libraries with which it is linked, are of one release.
    if 'VERSION_ID="12"' not in Path("/etc/os-release").read_text():
        raise SystemExit("This builds on Debian 12 only, whose sources libraries.py names. The wheel installs anywhere")
    if a.arch != platform.machine() and sys.version_info < (3, 12):
        raise SystemExit("For another machine, only with the stable interface of Python 3.12 and later: set PYTHON=")
    folder = BUILD / a.arch
    write_tools(a.arch, folder)
    build_libraries(a.arch, folder, a.jobs)
    os.environ["CMAKE_BUILD_PARALLEL_LEVEL"] = str(a.jobs)
    wheel = build_wheel(a.arch, folder, a.define)
    check_wheel(a.arch, wheel)
    try_wheel(a.arch, folder, wheel)
    (ROOT / "build" / "dist").mkdir(parents=True, exist_ok=True)
    print(shutil.copy(wheel, ROOT / "build" / "dist"))


if __name__ == "__main__":
    main()
