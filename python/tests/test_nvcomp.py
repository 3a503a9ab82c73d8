"""nvCOMP as a decoder on devices: an error if it is absent, the installed wheel is loaded, and a stand-in decodes."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import penstock as ps
import pytest
from device_support import LIBRARY

STAND_IN = LIBRARY.with_name("libpenstock_fake_nvcomp.so")
SAY = """
import penstock as ps
try:
    print(ps.Context(decoder="nvcomp").decoder)
except ps.UnsupportedError as error:
    print(error)
"""


def run(program: str, **environment: str) -> str:
    # In a separate process, because each process searches for the library only once.
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_our_own_decoders_are_the_default() -> None:
    assert ps.Context().decoder == "penstock"
    with pytest.raises(ps.InvalidArgumentError, match="unknown decoder 'magic': use 'penstock' or 'nvcomp'"):
        ps.Context(decoder="magic")


def test_without_nvcomp_there_is_one_clear_error() -> None:
    assert run(SAY, PENSTOCK_NVCOMP="/nowhere/libnvcomp.so.6").startswith(
        "unsupported: nvCOMP does not load: /nowhere/libnvcomp.so.6"
    )


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("5100", "nvcomp 5.1.0"),
        ("6000", "nvcomp 6.0.0"),
        ("4200", "unsupported: nvCOMP 4.2.0 is too old: Penstock supports versions 5 and 6"),
        ("7000", "unsupported: nvCOMP 7.0.0 is newer than this release supports"),
    ],
)
def test_the_version_of_the_library_is_checked(version: str, says: str) -> None:
    if not STAND_IN.exists():
        pytest.skip(f"the stand-in for nvCOMP is not built: {STAND_IN}")
    assert run(SAY, PENSTOCK_NVCOMP=str(STAND_IN), PENSTOCK_FAKE_NVCOMP_VERSION=version).startswith(says)


def test_the_installed_wheel_is_found_with_its_version() -> None:
    for package in ("nvidia-libnvcomp-cu13", "nvidia-libnvcomp-cu12"):
        try:
            installed = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        assert run(SAY) == "nvcomp " + ".".join(installed.split(".")[:3])
        return
    pytest.skip("nvCOMP is not installed: neither nvidia-libnvcomp-cu13 nor -cu12")


def test_the_wheel_is_found_if_another_one_makes_nvidia_a_regular_package(tmp_path: Path) -> None:
    library = tmp_path / "carried" / "nvidia" / "libnvcomp" / "lib64" / "libnvcomp.so.6"
    library.parent.mkdir(parents=True)
    library.touch()
    other = tmp_path / "other" / "nvidia" / "__init__.py"
    other.parent.mkdir(parents=True)
    other.touch()
    path = os.pathsep.join(
        filter(None, [*map(str, (tmp_path / "other", tmp_path / "carried")), os.environ.get("PYTHONPATH")])
    )
    said = run("from penstock.core.context import _nvcomp_library; print(_nvcomp_library())", PYTHONPATH=path)
    assert said == str(library)


READ = """
import ctypes, os
import numpy as np
import penstock as ps

made = ps.create_array(os.environ["ARRAY"], shape=(60, 50), dtype="f4",
                       chunks=(7, 50), shards=(21, 50), codecs=["zstd"])
made[...] = values = np.arange(3000, dtype="f4").reshape(60, 50)
opened = ps.open(os.environ["ARRAY"], context=ps.Context(decoder="nvcomp"))
np.testing.assert_array_equal(opened.read(device="cuda").numpy(), values)
np.testing.assert_array_equal(opened.read(np.s_[50:3:-7, 4:9], device="cuda").numpy(), values[50:3:-7, 4:9])
library = ctypes.CDLL(os.environ["PENSTOCK_NVCOMP"])
library.penstock_fake_nvcomp_streams.restype = ctypes.c_uint64
print(library.penstock_fake_nvcomp_streams(b"zstd"))
"""


def test_reads_are_decoded_by_nvcomp(tmp_path: Path) -> None:
    if not STAND_IN.exists() or not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver and the stand-in for nvCOMP are not built: {STAND_IN}")
    said = run(READ, PENSTOCK_CUDA_DRIVER=str(LIBRARY), PENSTOCK_NVCOMP=str(STAND_IN), ARRAY=str(tmp_path / "x.zarr"))
    assert re.fullmatch(r"\d+", said)
    assert int(said) >= 9
