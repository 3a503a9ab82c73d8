"""An array over JAX's devices.

>>> import jax, penstock.jax
>>> mesh = jax.make_mesh((8,), ("rows",))
>>> x = penstock.jax.load("run.zarr", jax.NamedSharding(mesh, jax.P("rows")))
"""

from penstock.interop.jax import load

__all__ = ["load"]
