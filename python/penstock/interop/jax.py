"""An array over JAX's devices. The public names are in `penstock.jax`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.api.open import open_array
from penstock.core.array import Array
from penstock.core.convert import as_dtype
from penstock.core.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    import jax

__all__ = ["load"]


def load(
    source: Any, sharding: jax.sharding.Sharding | jax.Device, *, dtype: Any = None, threads: int | None = None
) -> jax.Array:
    """Return a global `jax.Array`, whose parts are read by the processes that own the devices.

    Parts that several devices hold (replicas) are read once in each process; all parts of a process are read at the
    same time. With several processes each must call it, as in all of JAX.

    Parameters
    ----------
    source
        An open `Array`, or a target of `open_array`.
    sharding
        How the array is divided over the devices; a device: the whole array.
    dtype
        The dtype of the result; None: the array's, converted as in JAX (float64 becomes float32 unless `jax_enable_x64`
        is set).
    threads
        For all parts together, as for `Array.read`.

    Returns
    -------
    jax.Array
        Complete: all parts are read and on their devices.

    Raises
    ------
    InvalidArgumentError
        The sharding does not divide the shape, or `sharding` is neither a sharding nor a device.
    UnsupportedError
        JAX does not have the array's type.
    Error
        A part could not be read.

    Examples
    --------
    >>> import jax, penstock.jax
    >>> ps.save("x.zarr", np.arange(6.0).reshape(2, 3))
    >>> penstock.jax.load("x.zarr", jax.devices()[0]).shape
    (2, 3)
    """
    import jax

    array = source if isinstance(source, Array) else open_array(source)
    single = jax.sharding.SingleDeviceSharding
    if isinstance(sharding, jax.Device):
        sharding = single(sharding)
    elif not isinstance(sharding, jax.sharding.Sharding):
        raise InvalidArgumentError(f"sharding must be a jax.sharding.Sharding or a device, got {sharding!r}")
    wanted = _element_type(array, dtype)
    try:
        parts = sharding.addressable_devices_indices_map(array.shape)
    except ValueError as error:
        raise InvalidArgumentError(f"the sharding does not divide the shape {array.shape}", str(error)) from error
    jobs: dict[tuple[tuple[int, int], ...], Any] = {}
    for index in parts.values():
        key = _bounds(index, array.shape)
        if key not in jobs:
            jobs[key] = array.read_async(tuple(slice(*bound) for bound in key), dtype=wanted, threads=threads)
    try:
        values = {key: np.asarray(job.wait()) for key, job in jobs.items()}
    finally:
        for job in jobs.values():
            job.cancel()
    placed = [
        jax.device_put(values[_bounds(index, array.shape)], single(device, memory_kind=sharding.memory_kind))
        for device, index in parts.items()
    ]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, placed)


def _element_type(array: Array, dtype: Any) -> np.dtype[Any]:
    from jax import dtypes
    from jax import numpy as jnp

    asked: Any = array.dtype if dtype is None else dtype
    try:
        asked = as_dtype(asked)
        wanted: np.dtype[Any] = np.dtype(dtypes.canonicalize_dtype(asked.newbyteorder("=")))
        if wanted.kind == "m" or (wanted != np.bool_ and not jnp.issubdtype(wanted, np.number)):  # NumPy counts "m"
            raise TypeError(f"{wanted} is not a type of numbers")
    except TypeError as error:
        raise UnsupportedError(f"JAX has no elements of type {asked}", f"array '{array.uri}'") from error
    return wanted


def _bounds(index: tuple[slice, ...] | None, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    if index is None:
        index = (slice(None),) * len(shape)
    return tuple(part.indices(length)[:2] for part, length in zip(index, shape, strict=True))
