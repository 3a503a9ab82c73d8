"""Batches of `ps.loader` in device memory: in a separate file, to run in parallel with others."""

from __future__ import annotations

import penstock as ps
import pytest
from device_support import run_cases


def test_cases_against_the_fake_driver() -> None:
    run_cases("device_loader_cases.py")


def test_other_devices_are_refused() -> None:
    a = ps.create_array({}, data=[1, 2, 3], chunks=(2,))
    for device in ("gpu", "cuda:x", 0):
        with pytest.raises(ps.InvalidArgumentError, match="device is"):
            ps.loader(a, device=device)
    assert [batch.numpy().tolist() for batch in ps.loader(a, shuffle=False, device="cpu")] == [[1, 2, 3]]
