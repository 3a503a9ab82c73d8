"""zarr-python: its arrays and its codec pipeline. The public names are in `penstock.zarr`."""
