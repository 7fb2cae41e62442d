"""Word vectors that came with a package: read here, used by pure code as plain arrays."""
