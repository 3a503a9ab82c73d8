"""HDF5 files as h5py reads them: the reference for the engine."""
