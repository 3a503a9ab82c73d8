"""Georeferenced images: the meaning of TIFF metadata, windows, new TIFFs."""
