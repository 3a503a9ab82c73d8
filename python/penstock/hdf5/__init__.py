"""HDF5 and NetCDF4 files, which the engine opens."""
