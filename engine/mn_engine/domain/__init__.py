"""Values and rules of the record. Pure: no clock, no randomness, no I/O, no protobuf, no SQL.

A value that breaks a rule cannot be built: constructors check and raise the contract's typed errors.
"""
