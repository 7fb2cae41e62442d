"""Membrane's SDK: what a workflow author imports. Import the part you need; nothing is loaded that is not used."""
