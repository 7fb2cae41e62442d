"""Counts the tokens of a complete model request, by provider family (invariant 11).

A leaf: it knows requests and tokenizers, nothing of records or sessions. It never sends anything, never downloads a
tokenizer, and never passes an estimate off as a count: `Count.exact`, `Count.tokenizer`, `Count.margin` and
`Count.reasons` say what the number rests on.

    reading/     a request of any API -> the one form that rules know (`request`)
    openai, openai_tools, weighed, estimates    what a family bills for that form (`rules`)
    families, margins    which family a model's name belongs to, and how far off its count may be
    count, memo, sums    the count, each part once
    calibration, exact    what reported usage says of it, and a counter that knows better
"""

from mn_tokens.calibration import Calibration, Drift, calibration_of
from mn_tokens.count import Counter, check_request, count
from mn_tokens.encodings import tokens as text_tokens
from mn_tokens.exact import ExactCounter, RequestCounter
from mn_tokens.families import tokenizer_of
from mn_tokens.limits import ModelLimits, fills_output, model_limits
from mn_tokens.reading import Api
from mn_tokens.values import Count, Part

__all__ = [
    "Api",
    "Calibration",
    "Count",
    "Counter",
    "Drift",
    "ExactCounter",
    "ModelLimits",
    "Part",
    "RequestCounter",
    "calibration_of",
    "check_request",
    "count",
    "fills_output",
    "model_limits",
    "text_tokens",
    "tokenizer_of",
]
