"""Shared by all scenarios: creation of arrays, timing in turns, the form of results."""
