"""The device's properties and its current state: from the driver and from NVML, the library that nvidia-smi uses."""

from __future__ import annotations

import ctypes
import importlib.metadata
from typing import Any

from bench.gpu.driver import Driver

# CU_DEVICE_ATTRIBUTE_*; attributes that a driver does not support are null.
ATTRIBUTES = {
    "multiprocessors": 16,
    "compute_capability_major": 75,
    "compute_capability_minor": 76,
    "sm_clock_khz": 13,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "ecc": 32,
    "copy_engines": 40,
    "coherent_host_memory": 100,
}


def of_driver(driver: Driver) -> dict[str, Any]:
    """The driver's version of CUDA, the devices, and the first one's attributes and memory, in bytes and kHz."""
    return {
        **driver.describe(),
        "devices": driver.names(),
        "free_bytes": driver.free_bytes(),
        **{name: driver.attribute(number) for name, number in ATTRIBUTES.items()},
    }


# The packages that rows use if they are installed; nvCOMP's and CuPy's have the CUDA version in their names.
LIBRARIES = (
    "torch",
    "cupy",
    "jax",
    "nvidia-libnvcomp",
    "nvidia-nvcomp",
    "nvidia-nvimgcodec",
    "nvidia-nvtiff",
    "zarr",
    "xarray",
)


def of_libraries() -> dict[str, str]:
    """The versions of the installed packages, by the names of their distributions."""
    found = {}
    for each in importlib.metadata.distributions():
        name = (each.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith(LIBRARIES):
            found[name] = each.version
    return dict(sorted(found.items()))


# Name: NVML's function, and its arguments between the device and the result. All results are unsigned integers.
NVML = {
    "sm_clock_mhz": ("nvmlDeviceGetClockInfo", (1,)),
    "sm_clock_most_mhz": ("nvmlDeviceGetMaxClockInfo", (1,)),
    "memory_clock_mhz": ("nvmlDeviceGetClockInfo", (2,)),
    "memory_clock_most_mhz": ("nvmlDeviceGetMaxClockInfo", (2,)),
    "pcie_generation": ("nvmlDeviceGetCurrPcieLinkGeneration", ()),
    "pcie_generation_most": ("nvmlDeviceGetMaxPcieLinkGeneration", ()),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth", ()),
    "pcie_width_most": ("nvmlDeviceGetMaxPcieLinkWidth", ()),
    "temperature_c": ("nvmlDeviceGetTemperature", (0,)),
    "power_mw": ("nvmlDeviceGetPowerUsage", ()),
    "power_limit_mw": ("nvmlDeviceGetEnforcedPowerLimit", ()),
}


def of_nvml(file: str = "libnvidia-ml.so.1") -> dict[str, int | str | None]:
    """The driver's version, and the present clocks, PCIe link, temperature and power of device 0; null for those that
    NVML does not support.

    An idle device lowers its clocks and its PCIe link: call this right after work. Raises OSError without NVML.
    """
    library = ctypes.CDLL(file)
    if status := library.nvmlInit_v2():
        raise OSError(f"nvmlInit_v2: error {status}")
    device = ctypes.c_void_p()
    if status := library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(0), ctypes.byref(device)):
        raise OSError(f"nvmlDeviceGetHandleByIndex_v2: error {status}")
    text = ctypes.create_string_buffer(80)
    version = getattr(library, "nvmlSystemGetDriverVersion", None)
    failed = version is None or version(text, ctypes.c_uint(len(text)))
    found: dict[str, int | str | None] = {"driver": None if failed else text.value.decode()}
    for name, (function, arguments) in NVML.items():
        value = ctypes.c_uint()
        get = getattr(library, function, None)
        failed = get is None or get(device, *(ctypes.c_uint(each) for each in arguments), ctypes.byref(value))
        found[name] = None if failed else value.value
    library.nvmlShutdown()
    return found
