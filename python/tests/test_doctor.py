"""`penstock doctor` and `penstock.show_versions`."""

from __future__ import annotations

import io
import json
import os
import platform
import re
import resource
import subprocess
import sys
from pathlib import Path

import penstock as ps
import pytest
from device_support import LIBRARY
from penstock.cli import doctor
from penstock.view import versions as _versions


def test_versions_and_limits_are_those_of_this_process():
    out = io.StringIO()
    ps.show_versions(out, as_json=True)
    found = json.loads(out.getvalue())
    assert found["versions"]["penstock"] == ps.__version__
    assert found["versions"]["python"] == platform.python_version()
    assert found["limits"]["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found["limits"]["threads"] == ps.Context().threads
    assert set(found["devices"]) == {"count", "names", "cuda", "driver", "why_none"}
    assert len(found["devices"]["names"]) == found["devices"]["count"]
    assert (found["devices"]["cuda"] is None) == bool(found["devices"]["why_none"])
    out = io.StringIO()
    ps.show_versions(out)
    assert ps.__version__ in out.getvalue()
    assert "why none" in out.getvalue()


def test_libraries_have_versions():
    found = doctor.libraries()
    for name in ("zstd", "lz4", "blosc", "libdeflate", "bzip2", "lzma"):
        assert re.fullmatch(r"\d+(\.\d+)+.*", found[name] or ""), name
    assert {"libcurl", "libtiff", "openjpeg", "libjxl", "zfp"} <= set(found)


def _write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_cgroups(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_versions, "_ROOT", str(tmp_path))
    (tmp_path / "proc/self").mkdir(parents=True)
    own, groups = tmp_path / "proc/self/cgroup", tmp_path / "sys/fs/cgroup"
    limits = _versions.limits()
    assert limits["memory_of_cgroup"] is limits["processors_of_cgroup"] is None
    if version == 2:
        own.write_text("0::/job/step\n")
        _write(groups / "job", memory__max=str(1 << 30), cpu__max="150000 100000")
        _write(groups / "job/step", memory__max="max", cpu__max="max 100000")
    else:
        own.write_text("5:cpu,cpuacct:/job/step\n3:memory:/job/step\n1:name=systemd:/x\n")
        _write(groups / "memory", memory__limit_in_bytes="9223372036854771712")
        _write(groups / "memory/job", memory__limit_in_bytes=str(1 << 30))
        _write(groups / "cpu/job", cpu__cfs_quota_us="150000", cpu__cfs_period_us="100000")
        _write(groups / "cpu/job/step", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    limits = _versions.limits()
    assert limits["memory_of_cgroup"] == 1 << 30
    assert limits["processors_of_cgroup"] == 1.5
    own.write_text("")  # as in a container whose root is its own group
    _write(groups / ("" if version == 2 else "memory"), memory__max="7", memory__limit_in_bytes="7")
    assert _versions.limits()["memory_of_cgroup"] == 7


def test_the_version_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: 12.2.0\n"
    (tmp_path / "version").write_text(text)
    monkeypatch.setattr(_versions, "_NVIDIA", tmp_path / "version")
    assert _versions.devices()["driver"] == "570.86.15"


def test_devices_of_a_driver():
    if not LIBRARY.exists():
        pytest.skip(f"the fake CUDA driver is not built: {LIBRARY}")
    code = "import penstock as ps; ps.show_versions(as_json=True)"
    env = os.environ | {"PENSTOCK_CUDA_DRIVER": str(LIBRARY)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    devices = json.loads(done.stdout)["devices"]
    assert devices["count"] == len(devices["names"]) > 0
    assert set(devices["names"]) == {"a fake device"}
    assert float(devices["cuda"]) >= 12


def test_a_verdict_names_the_limit_that_is_too_low():
    found = {"versions": doctor.versions(), "limits": doctor.limits(), "devices": {"count": 1, "why_none": None}}
    short = dict.fromkeys(found["limits"]) | {"threads": 8, "processors_of_cgroup": 2.5, "open_files": 64}
    said = " ".join(doctor.verdict(found | {"limits": short, "versions": dict.fromkeys(found["versions"])}))
    for part in ("64 files", "Context(threads=3)", "Not installed: zarr"):
        assert part in said
    plain = dict.fromkeys(found["limits"]) | {"threads": 2, "memory": 1 << 30}
    names = dict.fromkeys(found["versions"], "1.0")
    assert doctor.verdict(found | {"limits": plain, "versions": names}) == ["All is well."]


def test_engines_are_those_of_files_that_exist():
    pytest.importorskip("netCDF4")
    found = doctor.xarray_engines()
    assert found["x.nc"] == found["x.h5"] == "netcdf4"
    assert found["x.zarr"] == "zarr"


def test_the_verb():
    command = [sys.executable, "-m", "penstock", "doctor"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    titles = {"versions", "libraries", "limits", "devices", "xarray_engines", "ceilings", "verdict"}
    assert set(found) == titles
    assert all(value > 0 for value in found["ceilings"].values())
    assert subprocess.run([*command, "--what"], capture_output=True, timeout=60).returncode == 2
