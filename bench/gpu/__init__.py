"""The benchmark of reads into GPU memory: `python -m bench.gpu`, without a network, with only a driver and NumPy."""
