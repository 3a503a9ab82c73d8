"""What users give as a place (paths, URIs, store objects, open files), as a store and a path within it."""
