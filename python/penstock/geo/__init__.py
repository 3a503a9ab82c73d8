"""Georeferenced images: what TIFF metadata means, windows, new TIFFs."""
