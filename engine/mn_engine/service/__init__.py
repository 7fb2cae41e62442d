"""Use cases: load -> decide -> commit. Faces call them through the operation table; they know the store by its port."""
