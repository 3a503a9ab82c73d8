"""NetCDF classic files (CDF-1, CDF-2, CDF-5): the engine opens them, this package adds the types of attributes."""
