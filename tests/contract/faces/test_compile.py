"""Recall and compile over every face: budgets, required cards, shares, cursors, determinism."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mn.context.working.v1 import card_pb2, packet_pb2
from mn_contract.errors import ContextError, InvalidInput, NeedsPartition, NotFound, StaleRevision
from mn_sdk.transport import Transport
from tests.contract.faces.conftest import Faces
from tests.contract.faces.messages import card, compiled, event, observe, opened, record, refs


def _fill(transport: Transport, count: int) -> None:
    opened(transport)
    record(
        transport,
        *(
            event(f"c{n}", card(f"door number {n} " + "x" * (n % 7) * 20, stance=("supports", "opposes")[n % 3 == 0]))
            for n in range(count)
        ),
    )


def test_a_packet_is_never_larger_than_its_budget(faces: Faces) -> None:
    """Invariant 1, and sizes add up to what is said."""
    alice = faces.of()
    _fill(alice, 40)
    for budget in (2, 3, 150, 151, 400, 1000, 5000):
        packet = compiled(alice, "door", budget)
        assert packet.size_bytes <= budget
        sizes = [item.size_bytes for item in packet.items]
        assert packet.size_bytes == (1 + sum(sizes) if sizes else 2)


def test_what_is_required_is_in_whole_or_the_call_names_it(faces: Faces) -> None:
    """Invariant 2: every item, its size, and a plan whose packets fit."""
    alice = faces.of()
    _fill(alice, 12)
    named = [f"c{n}" for n in range(12)]
    assert refs(compiled(alice, "", 100_000, required=named))[:12] == named
    with pytest.raises(NeedsPartition) as caught:
        compiled(alice, "", 600, required=named)
    detail = caught.value.detail
    assert [item["id"] for item in detail["items"]] == named
    assert detail["size"] > detail["budget"] == 600
    planned = [ref for packet in detail["plan"]["packets"] for ref in packet]
    assert planned == named
    for packet in detail["plan"]["packets"]:
        compiled(alice, "nothing else", 600, required=packet)
    with pytest.raises(NotFound):
        compiled(alice, "", required=["absent"])


def test_a_large_refusal_names_every_item(faces: Faces) -> None:
    """Also over a wire whose trailers are small."""
    alice = faces.of()
    opened(alice)
    record(alice, *(event(f"required-card-number-{n:04d}", card(f"text {n}")) for n in range(250)))
    named = [f"required-card-number-{n:04d}" for n in range(250)]
    with pytest.raises(NeedsPartition) as caught:
        compiled(alice, "", 500, required=named)
    assert [item["id"] for item in caught.value.detail["items"]] == named


def test_opposing_cards_are_offered_their_share_first(faces: Faces) -> None:
    """Invariant 3: a dominant hypothesis does not crowd them out."""
    alice = faces.of()
    opened(alice)
    for n in range(50):
        observe(alice, f"s{n}", f"door door door claim {n}", stance="supports")
    observe(alice, "o", "a door, but no", stance="opposes")
    packet = compiled(alice, "door claim", 1500)
    assert "o" in refs(packet)
    assert "o" not in refs(compiled(alice, "door claim", 1500, counter_evidence_share=0.0))
    counted = {row.stance: (row.considered, row.selected) for row in packet.coverage.stances}
    assert counted[card_pb2.STANCE_OPPOSES] == (1, 1)
    assert counted[card_pb2.STANCE_SUPPORTS][0] == 50


def test_following_the_cursor_serves_every_relevant_card_once(faces: Faces) -> None:
    """Invariant 8, for packets and for recall; a cursor keeps reading its revision while others write."""
    alice = faces.of()
    _fill(alice, 60)
    served: list[str] = []
    cursor = ""
    for _ in range(100):
        packet = compiled(alice, "door", 700, cursor=cursor)
        assert packet.revision == 1
        served += refs(packet)
        cursor = packet.cursor
        observe(alice, f"later{len(served)}", "a door that came later")
        if not cursor:
            break
        assert packet.coverage.status == packet_pb2.COVERAGE_STATUS_DEGRADED
    assert sorted(served) == sorted(f"c{n}" for n in range(60))
    assert packet.coverage.status == packet_pb2.COVERAGE_STATUS_COMPLETE
    assert packet.newest_revision > packet.revision


def test_recall_pages_through_the_ranking(faces: Faces) -> None:
    alice = faces.of()
    _fill(alice, 25)
    decision = packet_pb2.Decision(focus="door")
    seen: list[str] = []
    cursor = ""
    for _ in range(10):
        page = alice.call("Recall", packet_pb2.RecallRequest(decision=decision, page_size=7, cursor=cursor))
        seen += [candidate.card.ref for candidate in page.candidates]
        cursor = page.cursor
        if not cursor:
            break
    assert sorted(seen) == sorted(f"c{n}" for n in range(25))
    assert [candidate.why.rank for candidate in page.candidates] == list(range(22, 26))


def test_the_same_request_at_the_same_revision_gives_the_same_bytes(faces: Faces) -> None:
    """Invariant 5."""
    alice = faces.of()
    _fill(alice, 40)
    first = compiled(alice, "door number", 2000)
    observe(alice, "later", "door number later")
    again = compiled(alice, "door number", 2000, at={"revision": 1})
    again.newest_revision = first.newest_revision
    assert again.SerializeToString(deterministic=True) == first.SerializeToString(deterministic=True)


def test_a_foreign_or_altered_cursor_is_refused(faces: Faces) -> None:
    alice, bob = faces.of(), faces.of("bob")
    _fill(alice, 40)
    cursor = compiled(alice, "door", 300).cursor
    assert cursor
    compiled(alice, "door", 500, cursor=cursor)
    for asker, focus, text in (
        (bob, "door", cursor),
        (alice, "other", cursor),
        (alice, "door", cursor[:-2] + ("AA" if not cursor.endswith("AA") else "BB")),
        (alice, "door", cursor + "A"),
        (alice, "door", "nonsense"),
        (alice, "door", "ä"),
        (alice, "door", "x" * 40_000),
    ):
        with pytest.raises(InvalidInput) as caught:
            compiled(asker, focus, 300, cursor=text)
        assert caught.value.field == "cursor"


def test_an_empty_answer_says_that_it_is_one(faces: Faces) -> None:
    """Invariant 13: complete, degraded and missing are three answers."""
    alice = faces.of()
    opened(alice)
    assert compiled(alice, "door").coverage.status == packet_pb2.COVERAGE_STATUS_MISSING
    observe(alice, "a", "a window")
    assert compiled(alice, "door").coverage.status == packet_pb2.COVERAGE_STATUS_MISSING
    assert compiled(alice, "window").coverage.status == packet_pb2.COVERAGE_STATUS_COMPLETE
    assert compiled(alice, "window", 10).coverage.status == packet_pb2.COVERAGE_STATUS_DEGRADED


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"budget": 0}, "budget_bytes"),
        ({"budget": 1 << 40}, "budget_bytes"),
        ({"counter_evidence_share": 1.5}, "counter_evidence_share"),
        ({"counter_evidence_share": float("nan")}, "counter_evidence_share"),
        ({"focus": "x" * ((1 << 20) + 1)}, "decision.focus"),
        ({"topics": [""]}, "decision.topics"),
        ({"kinds": [77]}, "decision.kinds"),
        ({"required": ["not a ref"]}, "decision.required"),
        ({"at": {"revision": 99}}, "at.revision"),
    ],
)
def test_malformed_decisions_get_one_error_that_names_the_field(
    faces: Faces, changes: dict[str, object], field: str
) -> None:
    alice = faces.of()
    _fill(alice, 3)
    with pytest.raises(InvalidInput) as caught:
        compiled(alice, **changes)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_a_reader_can_insist_on_the_newest_revision(faces: Faces) -> None:
    alice = faces.of()
    _fill(alice, 3)
    compiled(alice, "door", at={"expected_revision": 1})
    with pytest.raises(StaleRevision):
        compiled(alice, "door", at={"expected_revision": 2})


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.binary(max_size=300), method=st.sampled_from(["RecordEvents", "Compile", "Recall", "GetCard"]))
def test_generated_garbage_gets_a_typed_error_or_an_answer(faces: Faces, garbage: bytes, method: str) -> None:
    """Whatever a message decodes to, nothing but the contract's errors comes out."""
    alice = faces.of()
    opened(alice)
    types = {
        "RecordEvents": card_pb2.RecordEventsRequest,
        "Compile": packet_pb2.CompileRequest,
        "Recall": packet_pb2.RecallRequest,
        "GetCard": card_pb2.GetCardRequest,
    }
    request = types[method]()
    text = garbage.decode("utf-8", "ignore")
    if method == "RecordEvents":
        request.events.add(key=text, resolves=[text]).cards.add(id=text[:5], text=text, kind=len(garbage) % 16)
    elif method == "GetCard":
        request.ref = text
    else:
        request.decision.focus = text
        request.decision.required.append(text)
        request.cursor = text
    try:
        alice.call(method, request)
    except ContextError as error:
        json.dumps(error.detail)
