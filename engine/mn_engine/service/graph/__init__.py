"""The fact graph: episodes and facts over the record.

Everything here reads and writes cards; there is no second store. What holds follows from the facts that the asker may
read (domain.facts), at any revision and any time.
"""
