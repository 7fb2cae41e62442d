"""Retrieval: from a decision to ranked candidates. Pure and deterministic: integer scores, no clock, no floats that
add up.

Only what the asker can see has any effect on an answer, document frequencies included (invariant 7).
"""
