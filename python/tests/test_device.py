"""Reads into device memory: refused without a driver, and tested with the fake driver in a separate process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from device_support import run_cases

VALUES = np.arange(60 * 50, dtype="f4").reshape(60, 50)


@pytest.fixture
def array(tmp_path: Path) -> ps.Array:
    made = ps.create_array(str(tmp_path / "x.zarr"), shape=VALUES.shape, dtype="f4", chunks=(7, 50))
    made[...] = VALUES
    return made


def test_a_plan_shows_what_a_device_would_decode(array: ps.Array) -> None:
    assert re.search(r"\ncuda:1: blosc\(.*\) on the device\n", array.plan(device="cuda:1"))
    assert "on the device" not in array.plan()
    with pytest.raises(ps.InvalidArgumentError, match="not 'gpu'"):
        array.plan(device="gpu")


def test_without_a_driver_device_reads_are_one_clear_error(tmp_path: Path, array: ps.Array) -> None:
    program = """
import sys, penstock as ps
a = ps.open(sys.argv[1])
try:
    a.read(device="cuda:0")
except ps.UnsupportedError as error:
    print(error)
print(float(a[1, 1]))
"""
    environment = os.environ | {"PENSTOCK_CUDA_DRIVER": "/nowhere/libcuda.so.1"}
    run = subprocess.run(
        [sys.executable, "-c", program, array.uri], env=environment, capture_output=True, text=True, check=True
    )
    message, value = run.stdout.rsplit("\n", 2)[:2]
    assert message.startswith("unsupported: no CUDA driver on this machine: /nowhere/libcuda.so.1")
    assert array.uri in message
    assert value == "51.0"


def test_cases_against_the_fake_driver() -> None:
    run_cases("device_cases.py")
