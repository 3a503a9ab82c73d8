"""HDF5 files as h5py sees them: what the engine is compared with."""
