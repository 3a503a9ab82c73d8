"""The benchmark of reads into GPU memory: `python -m bench.gpu`, with no network and nothing but a driver and NumPy."""
