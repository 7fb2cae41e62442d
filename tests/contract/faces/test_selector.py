"""The optional model selector: it reorders optional candidates, and nothing else; whatever goes wrong is told."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from mn.context.working.v1 import packet_pb2
from mn_contract.errors import InvalidInput
from mn_engine.bootstrap import engine_over
from mn_engine.config import selector
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.service.engine import Engine
from mn_engine.service.selector import Consultant, Offer
from mn_engine.store.memory import MemoryStore
from mn_sdk.scope import SessionScope
from mn_sdk.transport import Transport
from tests.contract.faces.conftest import Embedded
from tests.contract.faces.messages import acl, asking, compiled, observe, opened, refs


def _raise(error: BaseException) -> Sequence[str]:
    raise error


class _Unreadable(list[str]):
    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("not now")


def makes_nothing() -> Model:
    raise RuntimeError("no model here")


class Model:
    """Answers with what it was made with."""

    def __init__(self, answer: Callable[[Sequence[Offer]], Sequence[str]]) -> None:
        self._answer = answer
        self.shown: list[Offer] = []

    def order(self, question: str, offers: Sequence[Offer]) -> Sequence[str]:
        self.shown = list(offers)
        return self._answer(offers)


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = engine_over(MemoryStore())
    yield engine
    engine.close()


def asked(engine: Engine, model: Model, principal: str = "alice", seconds: float = 20) -> Transport:
    consulting = dataclasses.replace(engine, consultant=Consultant(model, seconds=seconds))
    return Embedded(consulting, SessionScope(job_id="job", run_id="run", principal=principal))


@pytest.fixture
def alice(engine: Engine) -> Transport:
    alice = Embedded(engine, SessionScope(job_id="job", run_id="run", principal="alice"))
    opened(alice)
    for n in range(20):
        observe(alice, f"c{n}", f"door number {n} of the house")
    observe(alice, "against", "a door, but no", stance="opposes")
    observe(alice, "rule", "close the door", "constraint")
    return alice


def test_it_moves_what_is_optional_and_nothing_else(engine: Engine, alice: Transport) -> None:
    plain = compiled(alice, "door", 1200)
    wished = ["c3", "c17"]
    assert not set(wished) <= set(refs(plain)), "or there is nothing to see"
    model = Model(lambda offers: wished)
    packet = compiled(asked(engine, model), "door", 1200)
    assert packet.selector == "applied"
    assert packet.size_bytes <= 1200
    assert refs(packet)[0] == "rule"
    assert set(wished) | {"against"} <= set(refs(packet)), "opposition keeps its share"
    assert [ref for ref in refs(packet) if ref in wished] == wished
    assert "rule" not in {offer.ref for offer in model.shown}


def test_without_one_the_packet_says_nothing(alice: Transport) -> None:
    assert compiled(alice, "door", 1200).selector == ""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda offers: ["rule"], "nonsense"),
        (lambda offers: ["c1", "c1"], "nonsense"),
        (lambda offers: ["nobody"], "nonsense"),
        (lambda offers: "c1", "nonsense"),
        (lambda offers: None, "nonsense"),
        (lambda offers: [5], "nonsense"),
        (lambda offers: 1 // 0, "failed"),
        (lambda offers: sys.exit(3), "failed"),
        (lambda offers: _raise(KeyboardInterrupt()), "failed"),
        (lambda offers: _Unreadable(), "failed"),
        (lambda offers: [[]], "nonsense"),
        (lambda offers: [][0], "failed"),
    ],
)
def test_whatever_goes_wrong_the_deterministic_choice_stands(
    engine: Engine, alice: Transport, answer: Callable[[Sequence[Offer]], Sequence[str]], told: str
) -> None:
    plain, packet = compiled(alice, "door", 1200), compiled(asked(engine, Model(answer)), "door", 1200)
    assert packet.selector == told
    assert packet.digest == plain.digest


def test_a_model_that_hangs_is_not_waited_for(engine: Engine, alice: Transport) -> None:
    released = threading.Event()
    model = Model(lambda offers: [offer.ref for offer in offers if released.wait(20)])
    try:
        hanging = asked(engine, model, seconds=0.05)
        for _ in range(12):  # more than may be outstanding
            packet = compiled(hanging, "door", 1200)
            assert packet.selector == "timeout"
        assert packet.digest == compiled(alice, "door", 1200).digest
        assert threading.active_count() < 50
    finally:
        released.set()


def test_a_caller_who_waits_less_still_gets_the_deterministic_choice(engine: Engine, alice: Transport) -> None:
    released = threading.Event()
    consultant = Consultant(Model(lambda offers: [offer.ref for offer in offers if released.wait(20)]))
    request = packet_pb2.CompileRequest(decision=packet_pb2.Decision(focus="door"), budget_bytes=1200)
    until = time.monotonic() + 1
    metadata = SessionScope(job_id="job", run_id="run", principal="alice").headers()
    try:
        face = EmbeddedFace(dataclasses.replace(engine, consultant=consultant))
        packet = face.call("Compile", metadata, request, remaining=lambda: until - time.monotonic()).packet
    finally:
        released.set()
    assert packet.selector == "timeout"
    assert packet.digest == compiled(alice, "door", 1200).digest


class _Name(str):
    def __hash__(self) -> int:
        raise RuntimeError("not now")


def test_names_that_are_no_plain_text_are_nonsense(engine: Engine, alice: Transport) -> None:
    packet = compiled(asked(engine, Model(lambda offers: [_Name(offers[0].ref)])), "door", 1200)
    assert packet.selector == "nonsense"


def test_it_is_shown_only_what_the_asker_may_read(engine: Engine, alice: Transport) -> None:
    """Invariant 7."""
    observe(alice, "secret", "door secret", acl=acl(["alice"]))
    model = Model(lambda offers: [])
    compiled(asked(engine, model, "bob"), "door", 1200)
    assert model.shown
    assert not any("secret" in offer.ref + offer.text for offer in model.shown)


def test_a_later_page_is_not_reordered(engine: Engine, alice: Transport) -> None:
    model = Model(lambda offers: [offers[-1].ref])
    served: list[str] = []
    request = asking("door", 900)
    for _ in range(20):
        packet = asked(engine, model).call("Compile", request).packet
        served += [item.card.ref for item in packet.items if item.role != packet_pb2.ITEM_ROLE_CONSTRAINT]
        request.cursor = packet.cursor
        if not packet.cursor:
            break
    assert sorted(served) == sorted([*(f"c{n}" for n in range(20)), "against"])


def made() -> Model:
    return Model(lambda offers: [])


def test_it_is_configured_by_name_and_a_wrong_name_is_refused() -> None:
    assert selector({}) is None
    assert selector({"MN_CONTEXT_SELECTOR_FACTORY": f"{__name__}:made"}) is not None
    mine = (f"{__name__}:absent", __name__, f"{__name__}:asked", f"{__name__}:makes_nothing")
    for wrong in (*mine, "nowhere:made", "builtins:dict", ":", "a:b:c"):
        with pytest.raises(InvalidInput) as refused:
            selector({"MN_CONTEXT_SELECTOR_FACTORY": wrong})
        assert refused.value.field == "MN_CONTEXT_SELECTOR_FACTORY"
