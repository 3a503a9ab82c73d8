"""Integrations with other packages. Their public names are `penstock.zarr`, `penstock.torch` and so on."""
