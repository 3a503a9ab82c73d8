"""Converts users' targets (paths, URIs, store objects, open files) to a store and a path within it."""
