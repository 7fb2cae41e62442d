"""Membrane's engine: the durable record of long-running jobs, and the packets built from it."""
