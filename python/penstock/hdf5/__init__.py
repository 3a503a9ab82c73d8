"""HDF5 and NetCDF4 files, read with h5py."""
