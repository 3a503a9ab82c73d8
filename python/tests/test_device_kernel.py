"""`penstock.testing.decode_on_device`: runs the cases with the fake CUDA driver in place of the machine's."""

from __future__ import annotations

from device_support import run_cases


def test_device_kernel_cases() -> None:
    run_cases("device_kernel_cases.py")
