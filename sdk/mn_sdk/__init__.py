"""Membrane's SDK: sessions that give every model call a bounded, verified context."""
