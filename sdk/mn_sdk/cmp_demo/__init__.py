"""CMP on a record of its own: `mn-context-engine cmp-demo`."""
