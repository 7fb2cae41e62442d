"""What fits before anything is submitted: admission without a dispatch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from mn_contract.errors import NeedsPartition
from mn_sdk.context_session.policy import ContextPolicy

if TYPE_CHECKING:
    from mn_sdk.context_session.admit import Admission
    from mn_tokens import Count

_PROBE_BYTES: Final = 4096
"""Long enough for what margins say of long texts, and short enough to count twenty of; counts grow evenly from it."""
_PROBES: Final = (
    "\x7f", "\t", "\r", "\\", "7", "\u07fe", "\uabff", "\U000e1234", "7\n", "1 ", "\b\f", '\\"\n', "\t\x7f", "\b\x7f",
    '"\x7f', "\\\x7f", "7\u07fe", "7" * 33 + "\n", '\t"\f\\\b\n\r\f\t\\"\r\b\n',
)  # fmt: skip
"""What is repeated in texts that cost the most a byte: signs that tokenizers have no tokens for or that JSON escapes,
runs, digits, and mixes in which nothing is merged."""
_SLACK_NUM, _SLACK_DEN = 98, 100
"""For texts denser still than the probes."""
_SEAM_KNOWN: Final = 16
_SEAM_ESTIMATED: Final = 384
"""Tokens that two texts may cost more side by side than apart: a few in a tokenizer; where a count is an estimate, what
it doubts of a string or of repeated words that are long enough only together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Whether a request fits, and what room it leaves.

    `tokens` are those of the request at its smallest, its margin included: what the caller wrote, without keys that may
    be left out, and the records that it requires. `room_tokens` are left of `input_budget` then, for such keys, for
    other records or for more text; so many UTF-8 bytes as `room_bytes` of more text certainly fit, whatever it says
    (see `text_bytes`). Where it does not fit, `partition` is NeedsPartition's detail, with its plan.
    """

    fits: bool
    input_budget: int
    tokens: int
    exact: bool
    tokenizer: str
    parts: tuple[Mapping[str, Any], ...]
    room_bytes: int
    partition: Mapping[str, Any] = field(default_factory=dict)

    @property
    def room_tokens(self) -> int:
        """Tokens that are left."""
        return max(self.input_budget - self.tokens, 0)


def capacity_of(admission: Admission) -> Capacity:
    """What fits of the call that `admission` is for. Raises InvalidInput."""
    partition: Mapping[str, Any] = {}
    try:
        admission.admit()
    except NeedsPartition as error:
        partition = error.detail
    request = admission.least()
    least = admission.count(request)
    room = max(admission.input_budget - least.upper, 0)
    return Capacity(
        fits=not partition,
        input_budget=admission.input_budget,
        tokens=least.upper,
        exact=least.exact,
        tokenizer=least.tokenizer,
        room_bytes=text_bytes(room, request, admission.count),
        parts=tuple({"part": part.part, "tokens": part.tokens} for part in least.ledger),
        partition=partition,
    )


def available_text_bytes(
    policy: ContextPolicy, *, model: str, request: Mapping[str, Any] | None = None, sample: str = ""
) -> int:
    """How many bytes of further text a request may carry beside what it already says (`request`, as it would be sent).

    Without a `sample` of the text the answer is what holds for any text (see `text_bytes`). With one, it is reckoned at
    the sample's density, less a tenth. Recalled records share the same room: what they take is not subtracted here.
    """
    from mn_tokens import count

    used = 0 if request is None else count(request, model=model).upper
    room = max(policy.budget_of(model) - used, 0)
    least = text_bytes(room, request or {}, lambda asked: count(asked, model=model))
    if not sample:
        return least
    cost = max(count(_saying(_written(request or {})(sample)), model=model).upper, 1)
    return max(least, room * len(sample.encode("utf-8")) * 9 // (cost * 10))


def text_bytes(room: int, request: Mapping[str, Any], counter: Callable[[Mapping[str, Any]], Count]) -> int:
    """UTF-8 bytes of any further text that certainly fit into `room` tokens of a request, in one message.

    Bytes are of the text itself. Where the request's last message is a JSON object, the text is taken for a string in
    it, in which one byte may become two: any text is covered, written without needless escapes (`ensure_ascii=False`),
    but for control characters that JSON writes as `\\u00..`, which become six. What a byte costs at most is asked of
    texts that are as dense as any, margin included, and is never less than a token.
    """
    written = _written(request)
    bare = counter(_saying(""))
    dearest = Fraction(1)
    for piece in _PROBES:
        size = len(piece.encode("utf-8"))
        times = _PROBE_BYTES // size
        spent = counter(_saying(written(piece * times))).upper - bare.upper
        dearest = max(dearest, Fraction(spent, times * size))
    left = max(room - (_SEAM_KNOWN if bare.exact else _SEAM_ESTIMATED), 0)
    return int(left * _SLACK_NUM / (_SLACK_DEN * dearest))


def _saying(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def _written(request: Mapping[str, Any]) -> Callable[[str], str]:
    """How further text is written in a request: as it is, or in a string of the object that its last message is."""
    messages = request.get("messages") or [{}]
    try:
        inside = isinstance(json.loads(messages[-1].get("content") or ""), dict)
    except (TypeError, ValueError, RecursionError):
        inside = False
    return (lambda text: json.dumps(text, ensure_ascii=False)) if inside else str
