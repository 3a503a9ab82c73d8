"""Arrays, groups, their reads and their writes. Imports only `penstock._core`, and depends on no format."""
