"""Legate and cuPyNumeric. The public names are in `penstock.legate`."""
