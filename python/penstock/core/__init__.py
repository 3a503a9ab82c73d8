"""Arrays, groups, their reads and their writes. Imports only `penstock._core`: knows no format."""
