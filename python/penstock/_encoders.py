"""What encodes the chunks of values in device memory."""

from __future__ import annotations

from penstock._errors import InvalidArgumentError, _make


def encodes_on_device(encoder: str) -> bool:
    """True for "device", False for "host"."""
    if encoder not in ("host", "device"):
        raise _make(InvalidArgumentError, f"encoder must be 'host' or 'device', it is {encoder!r}")
    return encoder == "device"
