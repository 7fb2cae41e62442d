"""What CMP adds to selection: profiles of models, a pack's utilities, folding, the ladder, and a session's delta."""
