"""HDF5 and NetCDF4 files. The engine opens them; h5py is used by `open_shards`."""
