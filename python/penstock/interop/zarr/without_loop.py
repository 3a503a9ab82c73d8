"""zarr-python's methods without its event loop: their coroutines run on the calling thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import FunctionType
from typing import Any

import zarr

from penstock.core.errors import InternalError
from penstock.interop.zarr.pipeline import direct


def _drive(coroutine: Coroutine[Any, Any, Any], loop: Any = None, timeout: float | None = None) -> Any:
    """Run a coroutine that never waits, on this thread."""
    before, direct.on = direct.on, True
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    finally:
        direct.on = before
    coroutine.close()
    raise InternalError("a read or write without an event loop wanted to wait for one")


def _without_loop(method: Any) -> Any:
    """The method with `sync` exchanged for `_drive`."""
    made = FunctionType(
        method.__code__,
        {**method.__globals__, "sync": _drive},
        method.__name__,
        method.__defaults__,
        method.__closure__,
    )
    made.__kwdefaults__ = method.__kwdefaults__
    return made


def selection_method(name: str) -> Callable[..., Any]:
    """A method of `zarr.Array` that runs without the event loop if its store and its codecs never wait."""
    theirs = getattr(zarr.Array, name)
    ours = _without_loop(theirs)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A document that zarr-python repairs is read and stored again before chunks are: this would wait.
        repairs = getattr(self.metadata, "_stored_document", None) is not None
        return (ours if self._penstock_engine().drives and not repairs else theirs)(self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Array.{name}"
    method.__doc__ = theirs.__doc__
    return method
