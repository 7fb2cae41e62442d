"""Admission: the complete request, counted, fits the input budget or is not sent (invariants 1, 2, 11).

The packet starts at its target share of `window - output reserve - safety` and shrinks until the whole request,
recounted each time, fits. What is required never shrinks: where it does not fit beside the caller's own words, the
answer is NeedsPartition, with what each part costs and how the decision could be split. Rounds are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from mn.context.working.v1 import packet_pb2
from mn_contract.canonical import encoded
from mn_contract.errors import NeedsPartition
from mn_contract.limits import PACKET_BUDGET_BYTES_MAX, PACKET_BUDGET_BYTES_MIN
from mn_sdk.context_session.assemble import NOTHING, Form, Recalled
from mn_sdk.context_session.call import ModelCall
from mn_sdk.context_session.documents import coverage_document, packet_documents
from mn_sdk.context_session.partition import fitting_prefix, over_budget
from mn_sdk.context_session.policy import ContextPolicy
from mn_tokens import Count, fills_output

BYTES_PER_TOKEN: Final = 4
"""How many bytes of a packet a token is first taken for; recounting corrects it."""
ROUNDS_MAX: Final = 8
_SHRINK_NUM, _SHRINK_DEN = 97, 100


class Compile(Protocol):
    """Asks for packets."""

    def __call__(self, budget_bytes: int, *, named: bool = True) -> packet_pb2.Packet:
        """The packet for a budget; without the records that the caller named where not `named`. Its sources are
        verified once it is chosen. Raises NeedsPartition."""


def no_packet(budget_bytes: int, *, named: bool = True) -> packet_pb2.Packet:
    """A Compile for requests that stay as they are: nothing is recalled or required."""
    return packet_pb2.Packet()


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
    reserved: int = 0
    """Tokens that are kept free for what litellm adds."""
    fills: Callable[[str], bool] = fills_output
    """Whether litellm gives a model's request a limit of its output where it has none."""
    _sizes: dict[tuple[Recalled, frozenset[str]], Count] = field(default_factory=dict)

    def admit(self) -> Admitted:
        """The call, complete. Raises NeedsPartition, InvalidInput."""
        every = frozenset(self.form.droppable)
        left_out = self._left_out(NOTHING, every, self.input_budget - self._target)
        bare = self._sized(NOTHING, left_out)
        if bare.upper > self.input_budget:
            raise self._partition("current_over_budget", bare, {})
        try:
            packet, recalled, rounds = self._packet(left_out)
        except NeedsPartition:
            if left_out == every:
                raise
            left_out = every  # what is required comes before keys that may be left out
            packet, recalled, rounds = self._packet(left_out)
        left_out = self._left_out(recalled, left_out, self.input_budget)
        call, count = self.call.with_messages(self.form.messages(recalled, left_out)), self._sized(recalled, left_out)
        if not call.limits_output and self.fills(call.model):
            call = call.with_output(self.policy.output_room(call.model, count.upper + self.reserved))
        return Admitted(
            call=call,
            packet=packet,
            count=count,
            input_budget=self.input_budget + self.reserved,
            left_out=tuple(name for name in self.form.droppable if name in left_out),
            rounds=rounds,
        )

    def least(self) -> Mapping[str, Any]:
        """The request at its smallest: with what is required of it and of the record, as far as a packet holds that."""
        required, _ = self._required()
        return self._request(required or NOTHING, frozenset(self.form.droppable))

    def count(self, request: Mapping[str, Any]) -> Count:
        """The tokens of a request of this call's model."""
        return self.counter(request, self.call.model)

    @property
    def input_budget(self) -> int:
        """Tokens that the request may take."""
        return self.policy.budget_of(self.call.model, output_tokens=self.call.output_tokens) - self.reserved

    def _left_out(self, recalled: Recalled, left_out: frozenset[str], limit: int) -> frozenset[str]:
        """`left_out` without the keys that fit beside `recalled` into `limit` tokens, in the caller's order.

        The whole request is counted, never a key by itself, so that all keys stay where all fit. Sizes of keys only say
        which need no trial: those not smaller than one that did not fit.
        """
        least = self._sized(recalled, left_out).upper
        if self._sized(recalled, frozenset()).upper <= max(limit, least):
            return frozenset()

        def fits(back: Sequence[str]) -> bool:
            return self._sized(recalled, left_out.difference(back)).upper <= limit

        pending = [name for name in self.form.droppable if name in left_out and least <= limit]
        while pending:
            fitting = fitting_prefix(pending, fits)
            left_out = left_out.difference(pending[:fitting])
            refused, pending = pending[fitting : fitting + 1], pending[fitting + 1 :]
            pending = [name for name in pending if self._saving(name) < self._saving(refused[0])]
        return left_out

    def _packet(self, left_out: frozenset[str]) -> tuple[packet_pb2.Packet, Recalled, int]:
        """The largest packet up to the target that fits beside the rest, as it is recalled, and the rounds it took."""
        beside = self._sized(NOTHING, left_out).upper
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
            recalled = recalled_of(packet)
            count = self._sized(recalled, left_out)
            if count.upper <= self.input_budget:
                return packet, recalled, rounds
            spent, over = max(count.upper - beside, 1), count.upper - self.input_budget
            shrunk = packet.size_bytes * max(spent - over, 0) // spent * _SHRINK_NUM // _SHRINK_DEN
            if required and size == required:
                break
            size = max(min(shrunk, size - 1), required)
        raise self._partition("required_over_budget", self._sized(NOTHING, left_out), told)

    @property
    def _target(self) -> int:
        return int(self.policy.packet_target * self.input_budget)

    def _sized(self, recalled: Recalled, left_out: frozenset[str]) -> Count:
        key = (recalled, left_out)
        if key not in self._sizes:
            self._sizes[key] = self.count(self._request(recalled, left_out))
        return self._sizes[key]

    def _request(self, recalled: Recalled, left_out: frozenset[str]) -> Mapping[str, Any]:
        return {**self.call.asked, "messages": self.form.messages(recalled, left_out)}

    def _text_tokens(self, text: str) -> int:
        return self.count({"messages": [{"role": "user", "content": text}]}).tokens

    def _saving(self, name: str) -> int:
        """Tokens that leaving this key out saves: its own, less those of its name among what was left out."""
        return self._text_tokens(self.form.field_text(name)) - self._text_tokens(encoded([name]).decode())

    def _partition(self, reason: str, count: Count, more: Mapping[str, Any]) -> NeedsPartition:
        names = tuple(self.form.current or {})
        empty = self._text_tokens("{}")
        fields = {name: self._text_tokens(self.form.field_text(name)) - empty for name in names}
        required, told = self._required()
        every = required if self._holds((), required) else self._required(named=False)[0]
        splits = self._holds((), every)
        beside = every if splits and every is not None else NOTHING
        return over_budget(
            reason,
            count,
            fields,
            self._oversize_records(required, beside),
            splits=splits,
            fits=lambda part: self._holds(part, beside),
            window=self.policy.window_of(self.call.model),
            input_budget=self.input_budget,
            more={**told, **more},
        )

    def _required(self, *, named: bool = True) -> tuple[Recalled | None, Mapping[str, Any]]:
        """What is required, as it is recalled, and the engine's account of it. None where no packet holds it."""
        size, told = PACKET_BUDGET_BYTES_MIN, dict[str, Any]()
        for _ in range(2):
            try:
                return recalled_of(self.compile(size, named=named)), told
            except NeedsPartition as error:
                size = min(int(error.detail.get("size", PACKET_BUDGET_BYTES_MAX)), PACKET_BUDGET_BYTES_MAX)
                told = {name: error.detail[name] for name in ("items",) if name in error.detail}
        return None, told

    def _oversize_records(self, required: Recalled | None, beside: Recalled) -> list[str]:
        """The required records that are not in `beside` and fit into no request, each taken alone."""
        if required is None or not self._holds((), beside):
            return []
        known = {document["id"] for document in beside.documents}
        return [
            document["id"]
            for document in required.documents
            if document["id"] not in known
            and not self._holds((), replace(required, documents=[*beside.documents, document]))
        ]

    def _holds(self, names: Sequence[str], recalled: Recalled | None) -> bool:
        """Whether a request whose object has these keys alone fits beside `recalled`."""
        return recalled is not None and self._sized_with(names, recalled).upper <= self.input_budget

    def _sized_with(self, names: Sequence[str], recalled: Recalled) -> Count:
        """The request, its object cut down to these keys."""
        return self.count({**self.call.asked, "messages": self.form.only(names).messages(recalled)})

    def _enriched(self, error: NeedsPartition, left_out: frozenset[str]) -> NeedsPartition:
        count = self._sized(NOTHING, left_out)
        reason = str(error.detail.get("reason", "required_over_budget"))
        return self._partition(reason, count, error.detail)


def recalled_of(packet: packet_pb2.Packet) -> Recalled:
    """A packet as a model reads it."""
    return Recalled(documents=packet_documents(packet), coverage=coverage_document(packet.coverage))
