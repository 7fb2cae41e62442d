"""What fits before anything is submitted: admission without a dispatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mn_contract.errors import NeedsPartition
from mn_sdk.context_session.policy import ContextPolicy

if TYPE_CHECKING:
    from mn_sdk.context_session.admit import Admission
    from mn_tokens import Count

_PROBE: Final = "word " * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Whether a request fits, and what room it leaves.

    `tokens` are those of the request at its smallest, its margin included: what the caller wrote, without keys that may
    be left out, and the records that it requires. `room_tokens` are left of `input_budget` then, for such keys, for
    other records or for more text; `room_bytes` is what text takes at most of it, whatever it says: a token is at least
    one byte. Where it does not fit, `partition` is NeedsPartition's detail, with its plan.
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

    Without a `sample` of the text the answer is what holds for any text: a token is at least one byte. With one, it is
    reckoned at the sample's density, less a tenth. Recalled records share the same room: what they take is not
    subtracted here.
    """
    from mn_tokens import count

    used = 0 if request is None else count(request, model=model).upper
    room = max(policy.budget_of(model) - used, 0)
    least = text_bytes(room, request or {}, lambda asked: count(asked, model=model))
    if not sample:
        return least
    cost = max(count({"messages": [{"role": "user", "content": sample}]}, model=model).upper, 1)
    return max(least, room * len(sample.encode("utf-8")) * 9 // (cost * 10))


def text_bytes(room: int, request: Mapping[str, Any], counter: Callable[[Mapping[str, Any]], Count]) -> int:
    """Bytes of any further text that certainly fit into `room` tokens of a request.

    A token is at least one byte, also in a string of JSON, but for control characters, which JSON writes as six. What a
    token costs is asked of a probe, because a margin goes by the size.
    """
    messages = [*request.get("messages", ()), {"role": "user", "content": ""}]
    without, probed = (
        counter({**request, "messages": [*messages[:-1], {"role": "user", "content": text}]}) for text in ("", _PROBE)
    )
    return room * (probed.tokens - without.tokens) // (probed.upper - without.upper)
