"""Many files as one array."""
