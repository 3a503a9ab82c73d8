"""An array over JAX's devices.

Examples
--------
>>> import jax, penstock.jax
>>> ps.save("run.zarr", np.arange(32.0, dtype="f4").reshape(8, 4))
>>> mesh = jax.make_mesh((jax.device_count(),), ("rows",))
>>> x = penstock.jax.load("run.zarr", jax.NamedSharding(mesh, jax.P("rows")))
>>> x.shape, float(x.sum())
((8, 4), 496.0)
"""

from penstock.interop.jax import load

__all__ = ["load"]
