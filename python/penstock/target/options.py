"""Storage options that neither the engine nor the library that opens a URI has."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from penstock import _core
from penstock.core.errors import InvalidArgumentError
from penstock.core.sizes import suggestion

_UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")


@contextlib.contextmanager
def options_named(fs: Any) -> Iterator[None]:
    """Replace the TypeError of a client of an fsspec file system by an error that names the storage option."""
    try:
        yield
    except TypeError as error:
        names = getattr(fs, "protocol", None) or "fsspec"
        scheme = names if isinstance(names, str) else names[0]
        found = unknown_option(error, scheme, type(fs), getattr(fs, "storage_options", None) or {})
        if found is None:
            raise
        raise found from error


def unknown_option(
    error: TypeError, scheme: str, kind: type[Any], given: Mapping[str, Any]
) -> InvalidArgumentError | None:
    """The error for an option that a client refused; None if `error` has another reason.

    Parameters
    ----------
    scheme
        Of the URI.
    kind
        The class of the fsspec file system.
    given
        The storage options.
    """
    found = _UNKNOWN.search(str(error))
    if found is None:
        return None
    name, inside = found[1], ""
    if name not in given:
        holders = [key for key, value in given.items() if isinstance(value, Mapping) and name in value]
        if not holders:
            return None
        inside = f" in '{holders[0]}'"
    known = dict.fromkeys(_core.storage_option_names(os.fsencode(scheme)))
    for each in kind.__mro__[:-1]:
        with contextlib.suppress(KeyError, TypeError, ValueError):  # no __init__ of its own, or one without a signature
            known |= dict.fromkeys(inspect.signature(vars(each)["__init__"]).parameters)
    hint = suggestion(name, (each for each in known if each not in (name, "self", "kwargs")))
    return InvalidArgumentError(f"'{scheme}' has no storage option '{name}'{inside}{hint}")
