"""Switching the plug-in on and off."""

from __future__ import annotations

from types import SimpleNamespace, TracebackType
from typing import Any

import zarr
import zarr.api.synchronous as synchronous
from zarr.core.config import config

from penstock._errors import InvalidArgumentError, UnsupportedError, _make
from penstock.zarr._settings import settings
from penstock.zarr._wrap import wrap_node

_PATH = "codec_pipeline.path"
_OURS = "penstock.zarr.CodecPipeline"
_ZARRS = "zarr.core.codec_pipeline.BatchedCodecPipeline"

_NAMES = [
    name
    for name in (
        "array",
        "create",
        "create_array",
        "create_group",
        "empty",
        "empty_like",
        "from_array",
        "full",
        "full_like",
        "group",
        "ones",
        "ones_like",
        "open",
        "open_array",
        "open_group",
        "open_like",
        "open_consolidated",
        "zeros",
        "zeros_like",
    )
    if hasattr(synchronous, name)
]

originals = SimpleNamespace(**{name: getattr(synchronous, name) for name in _NAMES})
"""zarr-python's own functions, whatever `enable` put in their place."""


def _wrapping(theirs: Any) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return wrap_node(theirs(*args, **kwargs))

    function.__name__, function.__qualname__, function.__doc__ = theirs.__name__, theirs.__qualname__, theirs.__doc__
    function.__module__, function.__wrapped__ = theirs.__module__, theirs  # type: ignore[attr-defined]
    return function


_wrapped = {name: _wrapping(getattr(originals, name)) for name in _NAMES}


def _set_bypass(on: bool) -> None:
    for name in _NAMES:
        chosen = _wrapped[name] if on else getattr(originals, name)
        for module in (zarr, synchronous):
            if hasattr(module, name):
                setattr(module, name, chosen)


class Enabled:
    """What `enable` gives back: leaving it as a context manager sets things as they were."""

    def __init__(self, before: tuple[Any, bool, bool]) -> None:
        self._before = before

    def __enter__(self) -> Enabled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        path, strict, bypass = self._before
        config.set({_PATH: path})
        settings.strict = strict
        _set_bypass(bypass)


def enable(bypass: bool = False, device: str = "cpu", *, strict: bool = False) -> Enabled:
    """Make Penstock zarr-python's codec pipeline, for all arrays that are opened from here on.

    Parameters
    ----------
    bypass
        `zarr.open`, `open_array`, `open_group`, `create_array` and their relatives return `penstock.zarr.Array` and
        `Group`, which do not go through zarr-python's event loop (see `penstock.zarr.wrap`).
    device
        For later releases: "cpu".
    strict
        Reads and writes that would go zarr-python's own way raise `UnsupportedError` instead.

    Returns
    -------
    Enabled
        Usable as a context manager; without `with`, `disable` ends it.
    """
    if device != "cpu":
        if not isinstance(device, str):
            raise _make(InvalidArgumentError, f"device must be a string, it is {device!r}")
        raise _make(UnsupportedError, f"this release reads to host memory only: device={device!r}")
    before = (config.get(_PATH), settings.strict, zarr.open is _wrapped["open"])
    config.set({_PATH: _OURS})
    settings.strict = strict
    _set_bypass(bypass)
    return Enabled(before)


def disable() -> None:
    """Give zarr-python its own pipeline and functions back. Arrays that are open keep what they were opened with."""
    config.set({_PATH: _ZARRS})
    settings.strict = False
    _set_bypass(False)
