"""Faces: decode -> operation -> encode, nothing else. A face imports no other face and no store."""
