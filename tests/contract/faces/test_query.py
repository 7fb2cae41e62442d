"""Queries and expansions over every face: filters only take away, cursors know their query, nothing hidden is named."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mn_tokens
from mn_contract.errors import InvalidInput, NotFound, PermissionDenied
from mn_contract.smp import MQL_LAYERS, item_text
from mn_sdk.memories import Memories
from mn_sdk.transport import Transport
from tests.contract.faces.conftest import Faces
from tests.contract.faces.messages import card, event, observe, opened, record

KINDS = ("fact", "decision", "observation", "preference", "procedure", "failure", "identity")
TIMES = [datetime(2020, month, 1, tzinfo=UTC) for month in range(1, 13)]


def query(transport: Transport, **arguments: Any) -> dict[str, Any]:
    return Memories(transport.call).query(**arguments)


def refs(answer: dict[str, Any]) -> list[str]:
    return [item["ref"] for item in answer["items"]]


def _fill(transport: Transport, count: int = 30) -> None:
    """Memories of every kind about doors; every fifth is superseded by the next but one."""
    opened(transport)
    for n in range(count):
        observe(
            transport,
            f"c{n}",
            f"door number {n} " + "red " * (n % 4) + ("by Ada Lovelace" if n % 6 == 0 else ""),
            KINDS[n % len(KINDS)],
            entities=["Bob"] if n % 3 == 0 else [],
            confidence=(n % 5) / 4 if n % 2 else None,
            valid_from=TIMES[n % 6] if n % 4 == 0 else None,
            relations=[("supersedes", f"c{n - 2}")] if n % 5 == 2 else [],
        )


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "layers": st.lists(st.sampled_from(MQL_LAYERS), min_size=1, max_size=3, unique=True),
        "entities": st.lists(st.sampled_from(["Bob", "bob ", "Ada Lovelace", "Nobody"]), min_size=1, max_size=2),
        "as_of": st.sampled_from(["2020-03-15T00:00:00Z", "2021-01-01T00:00:00Z"]),
        "min_relevance": st.sampled_from([0.0, 0.0909, 0.1667, 0.5, 1.0]),
        "min_trust": st.sampled_from([0.0, 0.25, 0.75]),
        "k": st.integers(1, 100),
    },
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters=FILTERS, mode=st.sampled_from(["find", "ask"]))
def test_a_query_only_narrows(faces: Faces, filters: dict[str, Any], mode: str) -> None:
    """Against the same query with no filter but its page, and valid_only off."""
    alice = faces.of(run="narrow")
    opened(alice)
    if not refs(query(alice, find="door")):
        _fill(alice)
    plain = query(alice, **{mode: "red door"}, valid_only=False, k=filters.get("k", 20))
    told = query(alice, **{mode: "red door"}, **filters)
    items = {item["ref"]: item for item in plain["items"]}
    assert set(refs(told)) <= items.keys()
    assert all(items[item["ref"]] == item for item in told["items"])
    assert refs(told) == [ref for ref in refs(plain) if ref in refs(told)], "in their order"
    assert told["narrowed_from"] == plain["narrowed_from"] == len(items)
    assert told["narrowed_to"] == len(told["items"])


def test_thresholds_make_a_chain_of_subsets(faces: Faces) -> None:
    """The protocol's evidence: 1/11, then 1/6."""
    alice = faces.of()
    _fill(alice)
    chain = [query(alice, find="door", k=25, min_relevance=least) for least in (0.0, 0.0909, 0.1667)]
    counts = [answer["narrowed_to"] for answer in chain]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1] > counts[2]
    assert all(set(refs(after)) < set(refs(before)) for before, after in pairwise(chain))


def test_each_filter_keeps_what_it_names(faces: Faces) -> None:
    alice = faces.of()
    _fill(alice)
    assert {item["layer"] for item in query(alice, find="door", layers=["decision"])["items"]} == {"decisions"}
    told = query(alice, find="door", entities=["Ada Lovelace"], k=100)
    assert refs(told)
    assert all("Ada Lovelace" in item["content"] for item in told["items"])
    told = query(alice, find="door", min_trust=0.75, k=100)
    assert {item["confidence"] for item in told["items"]} == {0.75, 1.0}
    live = refs(query(alice, find="door", k=100))
    everything = query(alice, find="door", k=100, valid_only=False)
    ended = {item["ref"] for item in everything["items"] if "superseded" in item}
    assert ended == {f"c{n}" for n in range(0, 30, 5)}
    assert set(live) == set(refs(everything)) - ended


def test_time_travel_shows_what_held(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    observe(alice, "old", "the door is red", "fact", valid_from=TIMES[0])
    observe(alice, "new", "the door is blue", "fact", valid_from=TIMES[6], relations=[("supersedes", "old")])
    assert refs(query(alice, find="door")) == ["new"]
    assert refs(query(alice, find="door", as_of="2020-03-01T00:00:00Z")) == ["old"]
    assert refs(query(alice, find="door", as_of="2019-03-01T00:00:00Z")) == []
    with pytest.raises(InvalidInput):
        query(alice, find="door", as_of="2999-01-01T00:00:00Z")


@pytest.mark.parametrize("mode", ["find", "ask"])
def test_pages_go_through_everything_once(faces: Faces, mode: str) -> None:
    """Invariant 8; by the cursor alone, with its query, or by expand."""
    alice = faces.of()
    _fill(alice, 23)
    asked: dict[str, Any] = {mode: "door", "k": 4, "valid_only": False}
    if mode == "ask":
        asked["budget_tokens"] = 300
    seen: list[str] = []
    answer = query(alice, **asked)
    steps = 0
    while True:
        seen += refs(answer)
        cursor = answer["cursor"]
        if cursor is None:
            break
        steps += 1
        if steps % 3 == 0:
            answer = Memories(alice.call).expand(cursor, "more")
        elif steps % 3 == 1:
            answer = query(alice, cursor=cursor)
        else:
            answer = query(alice, **asked, cursor=cursor)
    expected = [f"c{n}" for n in range(23)]
    live = [ref for ref in expected if ref not in {f"c{n}" for n in range(0, 21, 5)}]
    assert sorted(ref for ref in seen if ref in live) == sorted(live)
    assert len(set(seen)) == len(seen)
    if mode == "find":
        assert sorted(seen) == sorted(expected)


def test_a_cursor_is_its_askers_and_its_querys(faces: Faces) -> None:
    alice, bob = faces.of(), faces.of("bob")
    _fill(alice, 12)
    cursor = query(alice, find="door", k=3)["cursor"]
    assert cursor.startswith("mqlc:")
    with pytest.raises(InvalidInput):
        query(bob, cursor=cursor)
    with pytest.raises(InvalidInput):
        query(faces.of(roles=("lead",)), cursor=cursor)
    with pytest.raises(InvalidInput):
        query(alice, find="window", k=3, cursor=cursor)
    for wrong in (cursor[:-1], cursor + "A", cursor.replace("mqlc:", "mnc2."), "mqlc:", "mqlc:AAAA", "mqlc:\u00e9"):
        with pytest.raises(InvalidInput):
            query(alice, cursor=wrong)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"ask": "a", "find": "b"},
        {"ask": " "},
        {"find": "a", "layers": ["unknown"]},
        {"find": "a", "min_relevance": 2.5},
        {"find": "a", "min_trust": -0.1},
        {"find": "a", "k": 0},
        {"find": "a", "k": 101},
        {"ask": "a", "budget_tokens": 299},
        {"ask": "a", "budget_tokens": 6001},
        {"find": "a", "budget_tokens": 300},
        {"find": "a", "entities": ["x"] * 21},
        {"find": "a", "entities": ["  "]},
        {"find": "a", "expand": "sideways"},
        {"find": "x" * 5000},
        {"find": "a", "job_id": "other"},
    ],
    ids=str,
)
def test_what_is_malformed_or_asks_for_too_much_is_refused(faces: Faces, arguments: dict[str, Any]) -> None:
    alice = faces.of()
    opened(alice)
    with pytest.raises(InvalidInput):
        query(alice, **arguments)


def test_a_query_suggests_the_step_that_it_wants(faces: Faces) -> None:
    alice = faces.of()
    _fill(alice, 6)
    told = query(alice, find="door", k=2, expand="document")
    assert told["follow_ups"] == [{"expand": refs(told)[0], "direction": "document"}]
    told = query(alice, find="door", k=2, expand="more")
    assert told["follow_ups"] == [{"expand": told["cursor"], "direction": "more"}]
    assert query(alice, find="nothing", expand="neighbors")["follow_ups"] == []


def test_expand_goes_to_the_document_and_to_neighbours(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    observe(alice, "a", "Ada owns the door", "fact", entities=["Ada"], claims=[{"claim": "owned", "stance": 1}])
    observe(alice, "b", "No, Bob owns the door", "fact", relations=[("contradicts", "a")])
    observe(alice, "c", "The door leads to the lab", "fact", relations=[("about", "a")])
    observe(alice, "d", "Ada is in Paris", "fact", entities=["Ada"])
    memories = Memories(alice.call)
    (item,) = memories.expand("a")["items"]
    assert item["content"] == "Ada owns the door"
    assert item["conflicts"] == ["b"]
    assert item["memory"]["claims"] == {"owned": "supports"}
    assert item["memory"]["sources"][0]["end"] == len("Ada owns the door")
    told = memories.expand("a", "neighbors")
    assert {one["ref"]: one["why"]["retrievers"] for one in told["items"]} == {"b": ["contradicts"], "c": ["related"]}
    assert [(one["entity"], [item["ref"] for item in one["items"]]) for one in told["entities"]] == [("Ada", ["d"])]
    assert memories.expand("absent")["items"] == []
    assert memories.expand("d", "neighbors")["items"] == []
    assert memories.expand("d", "more")["items"] == []
    with pytest.raises(InvalidInput):
        memories.expand("a", "sideways")


def test_nothing_hidden_is_named_by_any_step(faces: Faces) -> None:
    """Invariant 7."""
    alice, bob = faces.of(), faces.of("bob")
    opened(alice)
    secret = card("the door code is 1234", "fact", id="secret", entities=["Ada"])
    secret.acl.allow_principals.append("alice")
    record(alice, event("e", card("the door of Ada", "fact", id="open", entities=["Ada"]), secret))
    record(alice, event("f", card("about it", "fact", id="g", relations=[("about", "secret"), ("about", "open")])))
    assert "secret" in str(query(alice, find="door"))
    for told in (
        query(bob, find="door", valid_only=False),
        query(bob, ask="door code"),
        Memories(bob.call).expand("alice:open", "neighbors"),
        Memories(bob.call).expand("alice:g", "neighbors"),
        Memories(bob.call).expand("alice:g"),
    ):
        assert "secret" not in str(told)
        assert "1234" not in str(told)
    assert Memories(bob.call).expand("alice:secret") == {
        **Memories(bob.call).expand("alice:nobody"),
        "ref": "alice:secret",
    }


def _tool(transport: Transport, operation: str, **arguments: Any) -> dict[str, Any]:
    import json

    answer: dict[str, Any] = json.loads(Memories(transport.call)._document(operation, arguments))
    return answer


def test_search_and_fetch_have_the_connectors_shape(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    observe(alice, "a", "The door " + "is very long " * 20, "fact", source_url="http://a")
    observe(alice, "b", "A door", "fact")
    observe(alice, "p", "I like short answers", "preference")
    (one, other) = sorted(_tool(alice, "Search", query="door")["results"], key=lambda one: one["id"])
    assert set(one) == {"id", "title", "url"}
    assert (one["url"], len(one["title"])) == ("http://a", 80)
    assert other == {"id": "b", "title": "A door", "url": "urn:membrane:memory:b"}
    document = _tool(alice, "Fetch", id="a")
    assert set(document) == {"id", "title", "text", "url", "metadata"}
    assert document["text"] == "The door " + "is very long " * 20
    with pytest.raises(NotFound):
        _tool(alice, "Fetch", id="absent")


def test_models_record_memories_and_make_no_rules(faces: Faces) -> None:
    """Invariants 9 and 14."""
    alice, bob = faces.of(), faces.of("bob")
    opened(alice)
    observe(alice, "rule", "never", "constraint")
    observe(bob, "bobs", "the door is green", "fact")
    noted = _tool(alice, "RememberThis", text="The door is red", entities=["Ada"])
    assert (noted["status"], noted["replayed"]) == ("recorded", False)
    again = _tool(alice, "RememberThis", text="The door is red", entities=["Ada"])
    assert again == {**noted, "replayed": True}
    newer = _tool(alice, "RememberThis", text="The door is blue", supersedes=[noted["ref"]], contradicts=["bob:bobs"])
    assert refs(query(alice, find="door", k=5)) == [newer["ref"], "bob:bobs"]
    proposed = _tool(alice, "ProposeMemory", text="The door may be wood")
    assert proposed["status"] == "proposed"
    assert _tool(alice, "Fetch", id=proposed["ref"])["metadata"]["kind"] == "hypothesis"
    for arguments in ({"supersedes": ["rule"]}, {"supersedes": ["bob:bobs"]}):
        with pytest.raises(PermissionDenied):
            _tool(alice, "RememberThis", text="x", **arguments)
    nothing = ({"text": ""}, {"text": " \n"}, {"entities": ["Ada", "  "]})
    for arguments in ({"kind": "constraint"}, {"kind": "obligation"}, {"kind": "summary"}, *nothing):
        with pytest.raises(InvalidInput):
            _tool(alice, "RememberThis", **{"text": "x", **arguments})


def test_what_no_longer_holds_can_be_remembered_again(faces: Faces) -> None:
    """Invariant 13: the answer says recorded, so it is; and while it is live, saying it again changes nothing."""
    alice = faces.of()
    opened(alice)
    red, blue = "The door is red", "The door is blue"
    noted = _tool(alice, "RememberThis", text=red)
    for _ in range(3):
        other = _tool(alice, "RememberThis", text=blue, supersedes=[noted["ref"]])
        found = refs(query(alice, find="door", k=100))
        assert (other["replayed"], noted["ref"] in found, other["ref"] in found) == (False, False, True)
        noted = _tool(alice, "RememberThis", text=red)
        assert noted["replayed"] is False
        assert _tool(alice, "RememberThis", text=red) == {**noted, "replayed": True}
        assert {noted["ref"], other["ref"]} <= set(refs(query(alice, find="door", k=100)))
        _tool(alice, "RememberThis", text="It was removed", supersedes=[other["ref"]], key=f"gone-{other['revision']}")
    kept = _tool(alice, "RememberThis", text="It is kept", key="kept")
    _tool(alice, "RememberThis", text="It is lost", supersedes=[kept["ref"]])
    assert _tool(alice, "RememberThis", text="It is kept", key="kept")["replayed"], "a name is a retry's, whatever came"


def test_a_note_takes_no_name_of_the_runtimes(faces: Faces) -> None:
    """Invariant 9: whatever a model calls its memory, the runtime's events are recorded under their own names."""
    alice = faces.of()
    opened(alice)
    noted = _tool(alice, "RememberThis", text="mine", key="observation-3")
    proposed = _tool(alice, "ProposeMemory", text="perhaps", key="observation-4")
    assert (noted["ref"], proposed["ref"]) == ("note/observation-3", "note/observation-4")
    for name in ("observation-3", "observation-4"):
        observe(alice, name, f"the runtime's own {name}", "observation")
    assert _tool(alice, "Fetch", id="observation-3")["text"] == "the runtime's own observation-3"
    for key in ("x" * 160, "a b"):
        with pytest.raises(InvalidInput) as refused:
            _tool(alice, "RememberThis", text="x", key=key)
        assert refused.value.detail["field"] == "key"


def test_what_no_longer_holds_takes_only_the_room_that_a_pack_left(faces: Faces) -> None:
    """Invariant 1: an asked query answers no more than the pack's budget holds."""
    alice = faces.of()
    opened(alice)
    for n in range(12):
        observe(alice, f"old{n}", f"the door {n} is red " + "and has words " * 10, "fact")
        observe(alice, f"new{n}", f"the door {n} is blue " + "and has words " * 10, "fact", relations=[
            ("supersedes", f"old{n}")])  # fmt: skip
    asked = {"ask": "door", "model": "gpt-4o", "valid_only": False, "k": 100}
    told = query(alice, **asked, budget_tokens=1000)
    cost = sum(mn_tokens.text_tokens("o200k_base", item_text(item)) + 1 for item in told["items"])
    assert cost <= 1000
    assert any("superseded" in item for item in told["items"]), "what is left is used"
    assert len(query(alice, **asked, budget_tokens=6000)["items"]) == 24
