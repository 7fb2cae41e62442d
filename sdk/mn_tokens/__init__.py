"""Counts the tokens of a complete model request, by provider family (invariant 11).

A leaf: it knows requests and tokenizers, nothing of records or sessions. It never sends anything, never downloads a
tokenizer, and never passes an estimate off as a count: `Count.exact`, `Count.tokenizer` and `Count.margin` say what
the number rests on.
"""

from mn_tokens.count import Api, Counter, check_request, count
from mn_tokens.values import Count, Part

__all__ = ["Api", "Count", "Counter", "Part", "check_request", "count"]
