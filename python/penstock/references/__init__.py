"""Arrays whose chunks are byte ranges of other files: kerchunk references and manifests."""
