"""Benchmarks: figures beside a floor or a peer measured in the same run."""
