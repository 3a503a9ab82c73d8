// Whatever has a precompiled header needs a source.
