"""The programs and job scripts of the guide's page on clusters, and the page's model of scaling."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "examples" / "cluster"
ENGINES = ["mpi", "dask", "jax", "legate", "torch"]
sys.path.insert(0, str(ROOT / "bench"))

import scaling  # noqa: E402


@pytest.mark.parametrize("engine", ENGINES)
def test_scripts_are_whole(engine: str, tmp_path: Path) -> None:
    py_compile.compile(str(CLUSTER / f"means_{engine}.py"), str(tmp_path / "x.pyc"), doraise=True)
    script = CLUSTER / f"means_{engine}.sh"
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    text = script.read_text()
    assert text.startswith("#!/bin/bash\n#SBATCH")
    assert "set -euo pipefail" in text
    assert f"means_{engine}.py" in text
    page = (ROOT / "docs" / "guide" / "cluster.md").read_text()
    assert f"means_{engine}.py" in page
    assert f"means_{engine}.sh" in page


@pytest.fixture
def run(tmp_path: Path) -> tuple[str, str]:
    """The manifest, and the output of the programs."""
    values = np.arange(24 * 3, dtype="f8").reshape(24, 3)
    ps.save_shards(values, str(tmp_path / "shard_{}.npy"), rows=7)
    return str(tmp_path / "penstock.shards"), " ".join(["means:", *map(str, values.mean(axis=0))])


def said(command: list[str], **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith("means:"))


def test_mpi(run: Any) -> None:
    launcher = shutil.which("mpirun")
    if not launcher:
        pytest.skip("mpirun is not here (Debian: openmpi-bin)")
    pytest.importorskip("mpi4py")
    command = [launcher, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "3"]
    command += ["--mca", "btl", "self,vader", "--mca", "plm", "isolated"]
    assert said([*command, sys.executable, str(CLUSTER / "means_mpi.py"), run[0]]) == run[1]


def test_jax(run: Any) -> None:
    pytest.importorskip("jax")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    assert said([sys.executable, str(CLUSTER / "means_jax.py"), run[0]], **flags) == run[1]


def test_dask(run: Any, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        file.write_text(json.dumps(cluster.scheduler.identity()))
        program = [sys.executable, str(CLUSTER / "means_dask.py"), run[0]]
        assert said(program, SCHEDULER_FILE=str(file)) == run[1]


def test_torch(run: Any) -> None:
    pytest.importorskip("torch")
    program = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    assert said([*program, str(CLUSTER / "means_torch.py"), run[0]]) == run[1]


SMALL = scaling.Machine()


def test_the_model_is_bound_by_the_narrowest_resource() -> None:
    run = scaling.Run(100_000, 20 * 2.0**40)
    few, many = scaling.predict(run, 1), scaling.predict(run, 1000)
    assert few.bound == "network"
    assert few.read_s == pytest.approx(run.total_bytes / SMALL.network_bytes_per_s)
    assert many.bound == "servers"
    assert many.read_s == pytest.approx(run.total_bytes / (SMALL.servers * SMALL.server_bytes_per_s))
    slow = scaling.Machine(read_bytes_per_s=1e8)
    assert scaling.predict(run, 10, slow).bound == "ranks"
    one_file = scaling.predict(scaling.Run(1, 2.0**40), 100)
    assert one_file.read_s == pytest.approx(2.0**40 / SMALL.server_bytes_per_s), "one stripe is one server"
    assert scaling.predict(scaling.Run(1, 2.0**40, stripes=16), 100).read_s == pytest.approx(one_file.read_s / 16)


def test_the_model_counts_metadata_operations() -> None:
    ranks = 1000 * SMALL.ranks_per_node
    manifest = scaling.predict(scaling.Run(100_000, 1e12), 1000)
    headers = scaling.predict(scaling.Run(100_000, 1e12, manifest=False), 1000)
    loop = scaling.predict(scaling.Run(100_000, 1e12, manifest=False, every_rank_looks=True), 1000)
    opens = 3 * (100_000 + ranks - 1)
    assert manifest.metadata_operations == 2 + opens
    assert headers.metadata_operations == 200_000 + opens
    assert loop.metadata_operations == 200_000 * ranks + opens
    assert loop.learn_s > 1000 * headers.learn_s > manifest.learn_s
    slow = scaling.Machine(metadata_per_s=100)
    every = scaling.predict(scaling.Run(1, 1e12, every_rank_looks=True), 1000, slow)
    assert every.learn_s == 2 * ranks / 100, "each rank opens the manifest"
    assert headers.total_s == headers.learn_s + headers.tell_s + headers.open_s + headers.read_s


def test_the_page_has_the_models_numbers() -> None:
    page = (ROOT / "docs" / "guide" / "cluster.md").read_text()
    for nodes in (1, 10, 100, 1000):
        made = scaling.predict(scaling.Run(100_000, 20 * 2.0**40), nodes)
        steps = f"{made.learn_s:.1f} | {made.tell_s:.1f} | {made.open_s:.1f} | {made.read_s:,.0f} | {made.total_s:,.0f}"
        assert f"| {nodes:,} | {made.metadata_operations:,.0f} | {steps} |" in page


def test_invalid_runs_are_refused() -> None:
    for run, nodes in ((scaling.Run(0, 1e9), 1), (scaling.Run(1, 0), 1), (scaling.Run(1, 1e9), 0)):
        with pytest.raises(ValueError, match="at least 1"):
            scaling.predict(run, nodes)


def test_the_program_prints_and_measures(capsys: Any) -> None:
    assert scaling.main(["--files", "1000", "--tib", "1"]) == 0
    assert "headers read by every rank" in capsys.readouterr().out
    found = scaling.measure(files=20, rows=4)
    assert all(value > 0 for value in found.values())
    assert {"header_s", "manifest_s", "read_bytes_per_s"} <= set(found)
