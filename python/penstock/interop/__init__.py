"""Integrations with other packages. Their public names are in `penstock.zarr`, `penstock.torch` and so on."""
