"""What fits before anything is submitted: admission without a dispatch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mn_contract.errors import InvalidInput, NeedsPartition
from mn_sdk.arguments import read_folder
from mn_sdk.context_session.policy import ContextPolicy
from mn_sdk.scope import SessionScope

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
_ASKED: Final = 3
"""Of how many probes, those that cost the most by our rules, a session's counter is asked: it may be slow."""
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
        room_bytes=text_bytes(room, request, admission.count, model=admission.call.model),
        parts=tuple({"part": part.part, "tokens": part.tokens} for part in least.ledger),
        partition=partition,
    )


def available_text_bytes(
    policy: ContextPolicy,
    *,
    model: str,
    request: Mapping[str, Any] | None = None,
    sample: str = "",
    root: str | Path | None = None,
    scope: SessionScope | None = None,
) -> int:
    """How many bytes of further text a request may carry beside what it already says (`request`, as it would be sent).

    Without a `sample` of the text the answer is what holds for any text (see `text_bytes`). With one, it is reckoned at
    the sample's density, less a tenth. Recalled records share the same room: what they take is not subtracted here.
    It is counted as a session does (MN_CONTEXT_TOKEN_COUNTER_FACTORY); with a session's `root` and `scope` also by what
    was learned there. Raises InvalidInput.
    """
    from mn_sdk.context_session.counting import counter_at

    if not isinstance(policy, ContextPolicy):
        raise InvalidInput("policy must be a ContextPolicy: write ContextPolicy(**policy)", field="policy")
    if not isinstance(model, str) or not model:
        raise InvalidInput("name the model, as a call would", field="model")
    if not isinstance(sample, str):
        raise InvalidInput("sample must be text", field="sample")
    if request is not None and not isinstance(request, Mapping):
        raise InvalidInput("request must be an object, with messages", field="request")
    if (root is None) is not (scope is None):
        raise InvalidInput("root and scope go together: those of a session", field="root" if root is None else "scope")
    counter = counter_at(None if root is None else read_folder(root, "root"), scope)
    used = 0 if request is None else counter(request, model).upper
    room = max(policy.budget_of(model) - used, 0)
    least = text_bytes(room, request or {}, lambda asked: counter(asked, model), model=model)
    if not sample:
        return least
    cost = max(counter(_saying(_written(request or {})(sample)), model).upper, 1)
    return max(least, room * len(sample.encode("utf-8", "replace")) * 9 // (cost * 10))


def text_bytes(
    room: int, request: Mapping[str, Any], counter: Callable[[Mapping[str, Any]], Count], *, model: str
) -> int:
    """UTF-8 bytes of any further text that certainly fit into `room` tokens of a request of `model`, in one message.

    Bytes are of the text itself. Where the request's last message is a JSON object, the text is taken for a string in
    it, in which one byte may become two: any text is covered, written without needless escapes (`ensure_ascii=False`),
    but for control characters that JSON writes as `\\u00..`, which become six. What a byte costs at most is asked of
    texts that are as dense as any, margin included, and is never less than a token.
    """
    if not room:
        return 0
    from mn_tokens import count

    written = _written(request)

    def cost(probe: str, upper: int) -> Fraction:
        return Fraction(upper, len(probe.encode("utf-8")))

    probes = [piece * (_PROBE_BYTES // len(piece.encode("utf-8"))) for piece in _PROBES]
    probes.sort(key=lambda probe: cost(probe, count(_saying(written(probe)), model=model).upper), reverse=True)
    bare = counter(_saying(""))
    spent = [cost(probe, counter(_saying(written(probe))).upper - bare.upper) for probe in probes[:_ASKED]]
    dearest = max(Fraction(1), *spent)
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
