"""Where chunks of values in device memory are encoded."""

from __future__ import annotations

from penstock.core.errors import InvalidArgumentError


def checked_encoder(encoder: str) -> str:
    """ "auto", "host" or "device"."""
    if encoder not in ("auto", "host", "device"):
        raise InvalidArgumentError(f"encoder must be 'auto', 'host' or 'device', got {encoder!r}")
    return encoder
