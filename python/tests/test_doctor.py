"""`penstock doctor` and `penstock.show_versions`."""

from __future__ import annotations

import io
import json
import platform
import resource
import subprocess
import sys

import penstock as ps
from penstock.cli import doctor


def test_versions_and_limits_are_those_of_this_process():
    out = io.StringIO()
    ps.show_versions(out, as_json=True)
    found = json.loads(out.getvalue())
    assert found["versions"]["penstock"] == ps.__version__
    assert found["versions"]["python"] == platform.python_version()
    assert found["limits"]["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found["limits"]["threads"] == ps.Context().threads
    out = io.StringIO()
    ps.show_versions(out)
    assert ps.__version__ in out.getvalue()


def test_a_verdict_names_the_limit_that_is_too_low():
    found = {"versions": doctor.versions(), "limits": doctor.limits(), "devices": {"count": 1, "why_none": None}}
    short = dict.fromkeys(found["limits"]) | {"threads": 8, "processors_of_cgroup": 2.5, "open_files": 64}
    short |= {"memory": 8 << 30, "memory_of_cgroup": 1 << 30}
    said = " ".join(doctor.verdict(found | {"limits": short, "versions": dict.fromkeys(found["versions"])}))
    for part in ("64 files", "Context(threads=2)", "memory_limit", "Not installed: zarr"):
        assert part in said
    plain = dict.fromkeys(found["limits"]) | {"threads": 2, "memory": 1 << 30}
    names = dict.fromkeys(found["versions"], "1.0")
    assert doctor.verdict(found | {"limits": plain, "versions": names}) == ["All is well."]


def test_the_verb():
    command = [sys.executable, "-m", "penstock", "doctor"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"versions", "limits", "devices", "xarray_engines", "ceilings", "verdict"}
    assert all(value > 0 for value in found["ceilings"].values())
    assert subprocess.run([*command, "--what"], capture_output=True, timeout=60).returncode == 2
