"""Admission: the complete request, counted, fits the input budget or is not sent (invariants 1, 2, 11).

The packet starts at its target share of `window - output reserve - safety` and shrinks until the whole request,
recounted each time, fits. What is required never shrinks: where it does not fit beside the caller's own words, the
answer is NeedsPartition, with what each part costs and how the decision could be split. Rounds are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mn.context.working.v1 import packet_pb2
from mn_contract.errors import InvalidInput, NeedsPartition
from mn_contract.limits import PACKET_BUDGET_BYTES_MAX, PACKET_BUDGET_BYTES_MIN
from mn_sdk.context_session.assemble import Form, Recalled
from mn_sdk.context_session.call import ModelCall
from mn_sdk.context_session.documents import coverage_document, packet_documents
from mn_sdk.context_session.partition import over_budget
from mn_sdk.context_session.policy import ContextPolicy
from mn_tokens import Count

BYTES_PER_TOKEN: Final = 4
"""How many bytes of a packet a token is first taken for; recounting corrects it."""
ROUNDS_MAX: Final = 8
_SHRINK_NUM, _SHRINK_DEN = 97, 100

Compile = Callable[[int], packet_pb2.Packet]
"""The packet for a budget in bytes; its sources are verified once it is chosen. Raises NeedsPartition."""
Counter = Callable[[Mapping[str, Any], str], Count]
"""Counts a complete request for a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A call that fits, and what it is made of."""

    call: ModelCall
    packet: packet_pb2.Packet
    count: Count
    input_budget: int
    left_out: tuple[str, ...]
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Fits one call under one policy."""

    policy: ContextPolicy
    call: ModelCall
    form: Form
    compile: Compile
    counter: Counter

    def admit(self) -> Admitted:
        """The call, complete. Raises NeedsPartition, InvalidInput."""
        bare = self._sized(Recalled(), frozenset(self.form.droppable))
        if bare.upper > self.input_budget:
            raise self._partition("current_over_budget", bare, {})
        left_out = self._left_out(bare)
        packet, rounds = self._packet(left_out)
        left_out = self._restored(packet, left_out)
        recalled = recalled_of(packet)
        return Admitted(
            call=self.call.with_messages(self.form.messages(recalled, left_out)),
            packet=packet,
            count=self._sized(recalled, left_out),
            input_budget=self.input_budget,
            left_out=tuple(name for name in self.form.droppable if name in left_out),
            rounds=rounds,
        )

    @property
    def input_budget(self) -> int:
        """Tokens that the request may take. A call that allows more output than the policy reserves gets less input."""
        policy = self.policy
        budget = policy.window_tokens - max(policy.output_tokens, self.call.output_tokens) - policy.safety_tokens
        if budget <= 0:
            raise InvalidInput(
                f"max_tokens of {self.call.output_tokens} leaves no input in a window of {policy.window_tokens}",
                field="max_tokens",
            )
        return budget

    def _left_out(self, bare: Count) -> frozenset[str]:
        """Droppable keys that do not fit into what the packet's target leaves, in the caller's order."""
        room = self.input_budget - self._target - bare.upper
        left_out = []
        for name in self.form.droppable:
            cost = self._field_cost(name)
            if cost > room:
                left_out.append(name)
            else:
                room -= cost
        return frozenset(left_out)

    def _restored(self, packet: packet_pb2.Packet, left_out: frozenset[str]) -> frozenset[str]:
        """What is still left out once the packet is known: keys come back where there is room after all."""
        recalled = recalled_of(packet)
        room = self.input_budget - self._sized(recalled, left_out).upper
        back = set()
        for name in self.form.droppable:
            cost = self._field_cost(name) if name in left_out else room + 1
            if cost <= room:
                back.add(name)
                room -= cost
        fewer = left_out - back
        return fewer if back and self._sized(recalled, fewer).upper <= self.input_budget else left_out

    def _packet(self, left_out: frozenset[str]) -> tuple[packet_pb2.Packet, int]:
        """The largest packet up to the target that fits beside the rest, and the rounds that it took."""
        beside = self._sized(Recalled(), left_out).upper
        size = min(self._target, self.input_budget - beside) * BYTES_PER_TOKEN
        required, told = 0, dict[str, Any]()
        for rounds in range(1, ROUNDS_MAX + 1):
            size = max(PACKET_BUDGET_BYTES_MIN, min(size, PACKET_BUDGET_BYTES_MAX))
            if rounds == ROUNDS_MAX:
                size = max(PACKET_BUDGET_BYTES_MIN, required)
            try:
                packet = self.compile(size)
            except NeedsPartition as error:
                needed = error.detail.get("size")
                if required or not isinstance(needed, int) or not size < needed <= PACKET_BUDGET_BYTES_MAX:
                    raise self._enriched(error, left_out) from error
                size = required = needed
                told = error.detail
                continue
            count = self._sized(recalled_of(packet), left_out)
            if count.upper <= self.input_budget:
                return packet, rounds
            spent, over = max(count.upper - beside, 1), count.upper - self.input_budget
            shrunk = packet.size_bytes * max(spent - over, 0) // spent * _SHRINK_NUM // _SHRINK_DEN
            if required and size == required:
                break
            size = max(min(shrunk, size - 1), required)
        raise self._partition("required_over_budget", self._sized(Recalled(), left_out), told)

    @property
    def _target(self) -> int:
        return int(self.policy.packet_target * self.input_budget)

    def _sized(self, recalled: Recalled, left_out: frozenset[str]) -> Count:
        messages = self.form.messages(recalled, left_out)
        return self.counter({**self.call.asked, "messages": messages}, self.call.model)

    def _field_cost(self, name: str) -> int:
        content = self.form.field_text(name)
        return self.counter({"messages": [{"role": "user", "content": content}]}, self.call.model).upper

    def _partition(self, reason: str, count: Count, more: Mapping[str, Any]) -> NeedsPartition:
        fields = {name: self._field_cost(name) for name in self.form.current or {}}
        return over_budget(
            reason, count, fields, window=self.policy.window_tokens, input_budget=self.input_budget, more=more
        )

    def _enriched(self, error: NeedsPartition, left_out: frozenset[str]) -> NeedsPartition:
        count = self._sized(Recalled(), left_out)
        reason = str(error.detail.get("reason", "required_over_budget"))
        return self._partition(reason, count, error.detail)


def recalled_of(packet: packet_pb2.Packet) -> Recalled:
    """A packet as a model reads it."""
    return Recalled(documents=packet_documents(packet), coverage=coverage_document(packet.coverage))
