"""Parts that all scenarios share: making of arrays, timing in turns, the form of results."""
