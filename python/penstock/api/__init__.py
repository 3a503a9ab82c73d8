"""The functions of `penstock` that open, create and copy."""
