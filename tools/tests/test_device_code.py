"""Tests of the build's messages about device code, and of its search for nvcc."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TOOLS = Path(__file__).parent.parent


def run(script: str, *arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "CUDA_PATH": "/nowhere"}
    return subprocess.run(
        [str(TOOLS / script), *arguments], env=environment, capture_output=True, text=True, check=False
    )


def program(file: Path) -> Path:
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_the_machines_nvcc_takes_precedence(tmp_path: Path) -> None:
    mine = program(tmp_path / "venv/lib/python3.12/site-packages/nvidia/cu13/bin/nvcc")
    machines = program(tmp_path / "bin/nvcc")
    plain = "/usr/bin:/bin"
    if not Path("/usr/local/cuda/bin/nvcc").exists() and not Path("/usr/bin/nvcc").exists():
        assert run("find_nvcc.sh", str(tmp_path / "venv"), path=plain).stdout.strip() == str(mine)
        nothing = run("find_nvcc.sh", str(tmp_path / "empty"), path=plain)
        assert (nothing.returncode, nothing.stdout) == (1, "")
    found = run("find_nvcc.sh", str(tmp_path / "venv"), path=f"{machines.parent}:{plain}")
    assert found.stdout.strip() == str(machines)


def test_a_build_without_nvcc_reports_it_at_its_end(tmp_path: Path) -> None:
    said = tmp_path / "device_code"
    said.write_text("left out (no nvcc)\n")
    assert "Device code is left out: there is no nvcc" in run("say_device_code.sh", str(tmp_path)).stdout
    assert "CUDA=1" in run("say_device_code.sh", str(tmp_path)).stdout
    said.write_text("left out (PENSTOCK_CUDA=OFF)\n")
    assert run("say_device_code.sh", str(tmp_path)).stdout == "Device code is left out (PENSTOCK_CUDA=OFF).\n"
    said.write_text("built with /usr/bin/nvcc for 80 90\n")
    assert run("say_device_code.sh", str(tmp_path)).stdout == ""


def test_the_four_packages_are_pinned() -> None:
    lines = (TOOLS / "requirements/cuda.txt").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert all("==13.0." in line for line in pinned)
    assert len(pinned) == 4
