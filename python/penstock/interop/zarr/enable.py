"""Enables and disables the plug-in."""

from __future__ import annotations

import importlib.util
from types import TracebackType
from typing import Any

import zarr
import zarr.api.synchronous as synchronous
from zarr.core.config import config

from penstock.core.context import Context
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.interop.zarr import gpu as _gpu
from penstock.interop.zarr.originals import NAMES, originals
from penstock.interop.zarr.settings import settings
from penstock.interop.zarr.wrap import can_wrap, wrap_node

_PATH = "codec_pipeline.path"
_OURS = "penstock.zarr.CodecPipeline"
_ZARRS = "zarr.core.codec_pipeline.BatchedCodecPipeline"
_HOST_BUFFERS = ("zarr.buffer.cpu.Buffer", "zarr.buffer.cpu.NDBuffer")


def _wrapping(theirs: Any) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        made = theirs(*args, **kwargs)
        return wrap_node(made) if settings.bypass or _gpu.gpu_buffers() else made

    function.__name__, function.__qualname__, function.__doc__ = theirs.__name__, theirs.__qualname__, theirs.__doc__
    function.__module__, function.__wrapped__ = theirs.__module__, theirs  # type: ignore[attr-defined]
    return function


_wrapped = {name: _wrapping(getattr(originals, name)) for name in NAMES}


def _set_bypass(on: bool | None) -> None:
    """Replaces zarr-python's functions, or restores them if `on` is False. None: they wrap in GPU mode only."""
    settings.bypass = on
    for name in NAMES:
        chosen = getattr(originals, name) if on is False else _wrapped[name]
        for module in (zarr, synchronous):
            if hasattr(module, name):
                setattr(module, name, chosen)


def _set_buffers(names: tuple[Any, Any]) -> None:
    config.set({"buffer": names[0], "ndbuffer": names[1]})


class Enabled:
    """The result of `enable`: leaving it as a context manager restores the previous settings.

    Examples
    --------
    >>> import penstock.zarr
    >>> on = penstock.zarr.enable()
    >>> on
    <penstock.zarr.enable(bypass=None, device='cpu', strict=False, threads=None): on>
    >>> penstock.zarr.disable()
    """

    def __init__(self, before: tuple[Any, bool, bool | None, tuple[Any, Any], Context | None], options: str) -> None:
        self._before, self._options = before, options

    def __repr__(self) -> str:
        return f"<penstock.zarr.enable({self._options}): {'on' if is_enabled() else 'off'}>"

    def __enter__(self) -> Enabled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        path, strict, bypass, buffers, context = self._before
        config.set({_PATH: path})
        _set_buffers(buffers)
        settings.strict, settings.context = strict, context
        _set_bypass(bypass)


def enable(
    bypass: bool | None = None, device: str = "cpu", *, strict: bool = False, threads: int | None = None
) -> Enabled:
    """Make Penstock the codec pipeline of zarr-python, for all arrays that are opened from now on.

    Parameters
    ----------
    bypass
        `zarr.open`, `open_array`, `open_group`, `create_array` and similar functions return `penstock.zarr.Array` and
        `Group`, which do not go through zarr-python's event loop (see `penstock.zarr.wrap`). None: they do so with
        zarr-python 3.4 or later while zarr-python's GPU buffers are in use (device="cuda", or
        `zarr.config.enable_gpu()` before or after this call), because only the calling thread has the CUDA stream that
        consumes the values. Reads and writes of other arrays in GPU memory wait for the device. False: zarr-python's
        functions stay as they are.
    device
        "cuda": includes `zarr.config.enable_gpu()`. Arrays are read into CuPy's memory, on CuPy's current device, and
        decoded there; see `explain`. Needs CuPy.
    strict
        Reads and writes that would use zarr-python's own code raise `UnsupportedError` instead.
    threads
        Decoding and encoding workers of one read or write; None: those of the current `penstock.Context`.

    Returns
    -------
    Enabled
        Usable as a context manager; without `with`, `disable` ends it.

    Raises
    ------
    InvalidArgumentError
        Another device; a `bypass` that is not a truth value.
    UnsupportedError
        device="cuda" without CuPy.

    Examples
    --------
    >>> import zarr, penstock.zarr
    >>> with penstock.zarr.enable(threads=2):
    ...     z = zarr.create_array("x.zarr", shape=(100, 50), chunks=(10, 50), dtype="f4")
    ...     z[:] = 1
    ...     penstock.zarr.is_enabled()
    True
    >>> penstock.zarr.is_enabled()
    False
    """
    if bypass is not None and not isinstance(bypass, bool):
        raise InvalidArgumentError(f"bypass is True, False or None, not {bypass!r}; a device is given as device=...")
    if device not in ("cpu", "cuda"):
        raise InvalidArgumentError(f"device is 'cpu' or 'cuda' (CuPy's current device), not {device!r}")
    if device == "cuda" and importlib.util.find_spec("cupy") is None:
        raise UnsupportedError("zarr-python's GPU buffers are CuPy's, which is not installed: device='cuda'")
    if bypass is None and (device == "cuda" or not can_wrap()):
        bypass = can_wrap()
    before = (
        config.get(_PATH),
        settings.strict,
        settings.bypass,
        (config.get("buffer"), config.get("ndbuffer")),
        settings.context,
    )
    context = None if threads is None else Context(threads=threads)
    config.set({_PATH: _OURS})
    if device == "cuda":
        _set_buffers(_gpu.BUFFERS)
    settings.strict, settings.context = strict, context
    _set_bypass(bypass)
    return Enabled(before, f"bypass={bypass}, device={device!r}, strict={strict}, threads={threads}")


def is_enabled() -> bool:
    """Return True if arrays that are opened now use Penstock's codec pipeline.

    Examples
    --------
    >>> import penstock.zarr
    >>> penstock.zarr.is_enabled()
    False
    """
    return bool(config.get(_PATH) == _OURS)


def disable() -> None:
    """Restore zarr-python's own pipeline and functions. Open arrays keep the pipeline that they were opened with.

    Examples
    --------
    >>> import penstock.zarr
    >>> on = penstock.zarr.enable()
    >>> penstock.zarr.disable()
    >>> penstock.zarr.is_enabled()
    False
    """
    config.set({_PATH: _ZARRS})
    if _gpu.gpu_buffers():
        _set_buffers(_HOST_BUFFERS)
    settings.strict, settings.context = False, None
    _set_bypass(False)
