"""xarray: its engine. The public name is in `penstock.xarray`."""
