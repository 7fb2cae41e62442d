"""Packs over every face and store: the envelope, sessions, pins, pages, and what nobody may see."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mn.context.working.v1 import artifact_pb2, run_pb2
from mn_contract.canonical import digest
from mn_contract.errors import InvalidInput, NeedsPartition, NotFound, RunClosed
from mn_contract.smp import ENVELOPE_KEYS, ENVELOPE_SCHEMA, ITEM_KEYS, LEGEND, item_text
from mn_engine.domain.packets import Decision
from mn_engine.domain.packs import PackRequest
from mn_engine.domain.scope import Scope
from mn_engine.service.engine import Call, Engine
from mn_engine.service.packs import get_context
from mn_sdk.memories import Memories
from mn_sdk.scope import SessionScope
from mn_sdk.transport import Transport
from tests.contract.faces.conftest import Embedded, Faces
from tests.contract.faces.hostile import HOSTILE
from tests.contract.faces.messages import card, event, observe, opened, record

SCHEMA = Draft202012Validator(dict(ENVELOPE_SCHEMA))
LINES = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
"""Whatever any reader takes for the end of a line."""


def context(transport: Transport, task: str = "", **arguments: Any) -> dict[str, Any]:
    """An envelope, held to the schema."""
    envelope: dict[str, Any] = Memories(transport.call).context(task=task, **arguments)
    if arguments.get("format", "smp") == "smp":
        SCHEMA.validate(envelope)
        refs = [item["ref"] for item in envelope["items"]]
        assert len(set(refs)) == len(refs)
        assert envelope["budget"]["used"] <= envelope["budget"]["tokens"]
    return envelope


def refs(envelope: dict[str, Any]) -> list[str]:
    return [item["ref"] for item in envelope["items"]]


def _fill(transport: Transport, count: int = 60) -> None:
    """Memories about doors, the newest the least about them."""
    opened(transport)
    for start in range(0, count, 20):
        cards = [
            card(
                f"door number {n} is " + ("red " * (n % 5)) + f"and has the mark {n}.",
                "fact",
                id=f"c{n}",
                entities=["Ada"],
            )
            for n in range(start, min(start + 20, count))
        ]
        record(transport, event(f"fill-{start}", *cards))


def test_an_envelope_has_every_key_and_the_constant_legend(faces: Faces) -> None:
    alice = faces.of()
    _fill(alice, 5)
    for arguments in ({}, {"session_id": "s"}, {"model": "claude", "pin": True}):
        envelope = context(alice, "door", **arguments)
        assert tuple(sorted(envelope)) == tuple(sorted(ENVELOPE_KEYS))
        assert envelope["legend"] == LEGEND
        assert all(set(ITEM_KEYS) <= set(item) for item in envelope["items"])
        assert envelope["receipt"]["revision"] == 1
    assert context(alice, "door")["working_memory"] is None
    assert context(alice, "door")["coverage"] == {"status": "complete", "excluded": 0, "deduped": 0, "pending": 0}
    assert context(alice, "nothing of the kind")["coverage"]["status"] == "missing"


def test_budgets_follow_the_profile_and_are_kept(faces: Faces) -> None:
    """claude >= gpt >= cursor, and fewer items for cursor under pressure."""
    alice = faces.of()
    _fill(alice, 300)
    told = {model: context(alice, "door mark", model=model) for model in ("claude", "gpt", "cursor", "")}
    assert {model: one["budget"]["tokens"] for model, one in told.items()} == {
        "claude": 12000, "gpt": 8000, "cursor": 3000, "": 6000}  # fmt: skip
    counts = {model: len(one["items"]) for model, one in told.items()}
    assert counts["claude"] >= counts["gpt"] >= counts["cursor"]
    assert counts["cursor"] < counts["gpt"]
    assert context(alice, "door", model="cursor", token_budget=9_000)["budget"]["tokens"] == 3000
    assert context(alice, "door", token_budget=1)["budget"]["tokens"] == 300


def test_what_is_used_is_the_items_text_by_the_models_own_tokenizer(faces: Faces) -> None:
    """Invariant 11."""
    import mn_tokens

    alice = faces.of()
    _fill(alice, 20)
    told = context(alice, "door", model="gpt-4o", token_budget=400)
    assert told["budget"]["counter"] == "o200k_base"
    text = [mn_tokens.text_tokens("o200k_base", item_text(item)) for item in told["items"]]
    assert told["budget"]["used"] == sum(text) + len(text)
    assert mn_tokens.text_tokens("o200k_base", "".join(map(item_text, told["items"]))) <= told["budget"]["used"]
    assert "estimate" in context(alice, "door", model="claude")["budget"]["counter"]


def test_the_same_request_at_the_same_revision_is_the_same_pack(faces: Faces) -> None:
    """Invariant 5: with a session or without, and from one face to another the digest tells."""
    alice = faces.of()
    _fill(alice)
    plain = context(alice, "door red", model="gpt")
    for arguments in ({}, {"session_id": "a"}, {"session_id": "a"}, {"pin": True}):
        again = context(alice, "door red", model="gpt", **arguments)
        assert again["receipt"]["digest"] == plain["receipt"]["digest"]
        assert again["items"] == plain["items"]
    text = Memories(alice.call).context(task="door red", model="gpt", format="json")
    assert {**text, "warnings": None} == {**Memories(alice.call).context(
        task="door red", model="gpt", format="json", session_id="b"), "warnings": None}  # fmt: skip


def test_pages_bring_every_relevant_memory_once(faces: Faces) -> None:
    """Invariant 8; what is required stands on the first one."""
    alice = faces.of()
    _fill(alice, 69)
    observe(alice, "c69", "Never paint the mark of a door at night.", "constraint")
    for model in ("", "cursor"):
        seen: list[str] = []
        cursor = None
        while True:
            page = context(alice, "door mark", model=model, token_budget=300, cursor=cursor)
            seen += refs(page)
            assert page["coverage"]["pending"] == 70 - len(seen)
            cursor = page["cursor"]
            if cursor is None:
                break
        assert sorted(seen) == sorted(f"c{n}" for n in range(70))
        assert page["coverage"]["status"] == "complete"


def test_what_no_page_holds_is_told_and_passed_over(faces: Faces) -> None:
    """Invariant 13."""
    alice = faces.of()
    _fill(alice, 3)
    observe(alice, "long", "door " * 1600, "fact")
    told = context(alice, "door", token_budget=300)
    assert told["coverage"] == {"status": "degraded", "excluded": 1, "deduped": 0, "pending": 0}
    assert told["cursor"] is None
    assert "long" not in refs(told)


def test_a_pack_does_not_change_by_waiting(engine: Engine) -> None:
    """Invariant 5: recency is counted from the newest candidate, not from the clock."""
    alice = Embedded(engine, SessionScope(job_id="job", run_id="run", principal="alice", roles=()))
    opened(alice)
    for n in range(30):
        text = "door " * (n % 3 + 1) + f"mark {n} " + "word " * 40
        observe(alice, f"c{n}", text, "fact", occurred_at=datetime.now(UTC) - timedelta(days=5 * n))
    later = replace(engine, clock=lambda: engine.clock() + 20 * 365 * 24 * 3600 * 1_000_000)
    scope = Scope(job_id="job", run_id="run", principal="alice")
    for model in ("", "claude", "cursor"):
        request = PackRequest(decision=Decision(focus="door mark"), model=model, budget_tokens=600)
        packs = [get_context(one, scope, Call(), request=request) for one in (engine, later)]
        assert packs[0].digest == packs[1].digest


def test_what_is_required_stands_on_the_first_page_wherever_it_ranks(faces: Faces) -> None:
    alice = faces.of()
    _fill(alice, 240)
    observe(alice, "rule", "Rules of this house, among which is one on the mark of a thing. " * 3, "constraint")
    seen: list[str] = []
    cursor = None
    while True:
        page = context(alice, "door number mark", token_budget=3000, cursor=cursor)
        seen += refs(page)
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen[0] == "rule"
    assert sorted(seen) == sorted(["rule", *(f"c{n}" for n in range(240))])


def test_the_top_constraint_is_always_in(faces: Faces) -> None:
    """Invariant 2, as CMP has it: that one and what is named; other constraints compete."""
    alice = faces.of()
    _fill(alice, 60)
    observe(alice, "rule", "Never paint a door at night.", "constraint")
    observe(alice, "other", "Speak softly in the library at all times.", "constraint")
    for model in ("", "gpt", "cursor"):
        told = context(alice, "door red", model=model, token_budget=300)
        assert refs(told)[0] == "rule"
        assert told["items"][0]["layer"] == "constraints"
    assert refs(context(alice, "nothing of the kind"))[0] == "other", "of those that match nothing the newest"
    told = context(alice, "door red", token_budget=300, required=["c3", "c50"])
    assert {"c3", "c50", "rule"} <= set(refs(told))


def test_a_constraint_that_does_not_fit_is_a_refusal(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    observe(alice, "rule", "Never ever. " * 200, "constraint")
    with pytest.raises(NeedsPartition) as caught:
        context(alice, "door", model="cursor", token_budget=300)
    detail = caught.value.detail
    assert detail["items"][0]["id"] == "rule"
    assert detail["size"] > detail["budget"] == 300
    with pytest.raises(NotFound):
        context(alice, "door", required=["absent"])


def test_opposition_gets_the_share_that_is_asked_for(faces: Faces) -> None:
    """Invariant 3."""
    alice = faces.of()
    opened(alice)
    record(alice, *(event(f"s{n}", card(f"door door door claim {n} holds", stance="supports")) for n in range(80)))
    observe(alice, "against", "door of another kind, so no", stance="opposes")
    assert "against" not in refs(context(alice, "door claim holds", model="cursor", token_budget=300))
    told = context(alice, "door claim holds", model="cursor", token_budget=300, counter_share=0.3)
    assert "against" in refs(told)


def test_near_duplicates_fold_and_are_named(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    observe(alice, "a", "The Atlas launch of the web team is planned for May.", "fact", source_url="http://a")
    observe(alice, "b", "Planned for May: the Atlas launch of the web team!", "fact", source_url="http://b")
    observe(alice, "c", "The Atlas launch of the web team is not planned for May.", "fact")
    told = context(alice, "Atlas launch", model="claude")
    assert told["coverage"]["deduped"] == 1
    (speaker,) = [item for item in told["items"] if "folded_refs" in item]
    assert {speaker["ref"], *speaker["folded_refs"]} == {"a", "b"}
    assert sorted(speaker["source_urls"]) == ["http://a", "http://b"]
    assert speaker["occurrences"] == 2
    assert "c" in refs(told)
    assert sorted(refs(context(alice, "Atlas launch"))) == ["a", "b", "c"], "generic folds nothing"


def test_a_pin_replays_the_pack_whatever_came_since(faces: Faces) -> None:
    alice = faces.of()
    _fill(alice, 10)
    first = context(alice, "door", model="gpt", pin=True, session_id="s")
    observe(alice, "later", "door door door", "fact", relations=[("supersedes", "c3")])
    again = context(alice, pinned=first["pin"])
    same = ("items", "budget", "coverage", "cursor", "follow_ups", "graph", "model", "pin", "legend")
    assert {name: again[name] for name in same} == {name: first[name] for name in same}
    assert again["receipt"] == {"event": None, "revision": 1, "digest": first["receipt"]["digest"]}
    assert again["working_memory"] is None
    assert context(alice, "door", model="gpt", pin=True)["pin"] != first["pin"]
    document = Memories(alice.call).context(pinned=first["pin"], format="json")
    kept = {name: value for name, value in document.items() if name not in ("digest", "pin", "warnings")}
    assert digest(kept) == first["receipt"]["digest"], "anyone can check it"


def test_a_pin_is_its_askers_alone(faces: Faces) -> None:
    """Invariant 7: with the roles that it was made with, and not a character changed."""
    alice = faces.of(roles=("lead",))
    _fill(alice, 3)
    pin = context(alice, "door", pin=True)["pin"]
    others = (
        faces.of("bob", roles=("lead",)),
        faces.of(),
        faces.of(roles=("lead", "more")),
        faces.of(roles=("lead",), run="r2"),
    )
    opened(others[3])
    for other in others:
        with pytest.raises(InvalidInput) as refused:
            context(other, pinned=pin)
        assert refused.value.detail["field"] == "pinned"
    for wrong in (
        pin[:-1] + ("0" if pin[-1] != "0" else "1"),
        pin.replace("pin:", "pin:0"),
        "pin:",
        "x",
        "pin:" + "0" * 64,
    ):
        with pytest.raises(InvalidInput):
            context(alice, pinned=wrong)


def test_a_pinned_packs_bytes_are_its_askers_and_nobodys_source(faces: Faces) -> None:
    """Invariants 6 and 7: its SHA-256 is in every receipt, and opens nothing."""
    alice, bob, plain = faces.of(roles=("lead",)), faces.of("bob", roles=("lead",)), faces.of()
    _fill(alice, 3)
    sha256 = context(alice, "door", pin=True)["receipt"]["digest"]
    asked = artifact_pb2.StatArtifactRequest(sha256=sha256)
    assert alice.call("StatArtifact", asked).artifact.sha256 == sha256
    for other in (bob, plain):
        with pytest.raises(NotFound):
            other.call("StatArtifact", asked)
    copy = card("what the pack said", "fact", id="copy")
    copy.acl.allow_principals.append("alice")
    copy.acl.require_roles.append("lead")
    copy.sources.add(artifact_sha256=sha256, start=0, end=5)
    with pytest.raises(InvalidInput, match="cite"):
        record(alice, event("copy", copy))


def test_a_session_is_told_what_changed(faces: Faces) -> None:
    """The three turns of the protocol, on one record."""
    alice = faces.of()
    _fill(alice, 60)
    first = context(alice, "door mark", model="claude", token_budget=400, session_id="chat")
    assert [new["ref"] for new in first["working_memory"]["new"]] == refs(first)
    second = context(alice, "door mark", model="claude", token_budget=11_000, session_id="chat")
    assert [new["ref"] for new in second["working_memory"]["new"]] == [
        ref for ref in refs(second) if ref not in refs(first)
    ]
    assert set(refs(first)) <= set(refs(second))
    third = context(alice, "door mark", model="claude", token_budget=11_000, session_id="chat", items="new")
    assert third["working_memory"] == {"new": [], "evicted": [], "superseded": [], "cursor": "3"}
    assert third["items"] == [{"ref": ref} for ref in refs(second)]
    assert third["receipt"]["digest"] == second["receipt"]["digest"]


def test_a_session_hears_what_was_superseded_and_by_what(faces: Faces) -> None:
    alice = faces.of()
    _fill(alice, 4)
    context(alice, "door mark", session_id="chat")
    observe(alice, "c1b", "door number 1 is blue now, with the mark 1", "fact", relations=[("supersedes", "c1")])
    observe(alice, "else", "entirely something else", "fact", relations=[("supersedes", "c2")])
    told = context(alice, "door mark", session_id="chat")["working_memory"]
    assert told["superseded"] == [{"ref": "c1", "replacement": "c1b"}, {"ref": "c2", "replacement": None}]
    assert [new["ref"] for new in told["new"]] == ["c1b"]
    assert context(alice, "door mark", session_id="chat")["working_memory"]["superseded"] == []


def test_a_delta_names_nothing_that_its_reader_may_not_read(faces: Faces) -> None:
    """delta_no_leak, invariant 7: also where the session was served it with other roles."""
    lead, plain = faces.of(roles=("lead",)), faces.of()
    opened(lead)
    secret = card("door secret mark", "fact", id="secret")
    secret.acl.require_roles.append("lead")
    record(lead, event("e", secret, card("door open mark", "fact", id="open")))
    assert set(refs(context(lead, "door mark", session_id="chat"))) == {"secret", "open"}
    replacing = card("door secret mark again", "fact", id="secret2")
    replacing.acl.require_roles.append("lead")
    replacing.relations.add(type="supersedes", target="secret")
    record(lead, event("f", replacing))
    for _ in range(6):
        told = context(plain, "door mark", session_id="chat")
        assert "secret" not in json.dumps({name: told[name] for name in told if name != "legend"})
    assert context(lead, "door mark", session_id="chat")["working_memory"]["new"][0]["ref"] == "secret2"


def test_warnings_carry_the_delta_for_plain_packs(faces: Faces) -> None:
    alice = faces.of()
    _fill(alice, 2)
    plain = Memories(alice.call).context(task="door mark", format="json")
    assert plain["warnings"] == []
    told = Memories(alice.call).context(task="door mark", format="json", session_id="chat")
    assert sorted(told["warnings"]) == [
        "working_memory:cursor:1", "working_memory:new:c0", "working_memory:new:c1"]  # fmt: skip
    observe(alice, "c1b", "door mark again", "fact", relations=[("supersedes", "c1")])
    told = Memories(alice.call).context(task="door mark", format="json", session_id="chat")
    assert "working_memory:superseded:c1=>c1b" in told["warnings"]


def test_sessions_of_different_principals_have_nothing_in_common(faces: Faces) -> None:
    alice, bob = faces.of(), faces.of("bob")
    _fill(alice, 3)
    context(alice, "door", session_id="chat")
    told = context(bob, "door", session_id="chat")["working_memory"]
    assert (told["cursor"], len(told["new"])) == ("1", 3)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(task=st.text(max_size=60), budget=st.integers(1, 20_000), model=st.sampled_from(["", "claude", "gpt-4o", "zed"]))
def test_any_question_gets_a_valid_envelope(faces: Faces, task: str, budget: int, model: str) -> None:
    alice = faces.of(run="any")
    _fill(alice, 12)
    context(alice, task, token_budget=budget, model=model)


def test_hostile_texts_are_data_and_nothing_else(faces: Faces) -> None:
    """Invariant 14: envelope and legend are what they are, the text stands in `content`, and Markdown quotes it."""
    alice = faces.of()
    opened(alice)
    assert len(HOSTILE) >= 100
    record(alice, event("hostile", *(card(f"door {text}", "fact", id=f"h{n}") for n, text in enumerate(HOSTILE))))
    seen: dict[str, str] = {}
    cursor = None
    while True:
        page = context(alice, "door", cursor=cursor)
        assert page["legend"] == LEGEND
        seen |= {item["ref"]: item["content"] for item in page["items"]}
        text = Memories(alice.call).context(task="door", cursor=cursor, format="markdown")
        lines = LINES.split(text)
        ours = [line for line in lines if not line.startswith("> ")]
        assert [line for line in ours if line] == [ours[0], *ours[2:4]]
        assert ours[0] == "# Memories"
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen == {f"h{n}": f"door {text}" for n, text in enumerate(HOSTILE)}


def test_nothing_is_told_of_a_cleared_run(faces: Faces) -> None:
    """Invariant 15."""
    alice = faces.of()
    _fill(alice, 3)
    told = context(alice, "door", pin=True, session_id="chat")
    alice.call("ClearRun", run_pb2.ClearRunRequest(reason="over"))
    for arguments in ({"task": "door"}, {"pinned": told["pin"]}, {"task": "door", "session_id": "chat"}):
        with pytest.raises(RunClosed):
            context(alice, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"format": "xml"},
        {"items": "some"},
        {"items": "new"},
        {"session_id": "a b"},
        {"session_id": "x" * 161},
        {"task": "x" * 70_000},
        {"model": "x" * 257},
        {"token_budget": 0},
        {"counter_share": 1.5},
        {"as_of": "yesterday"},
        {"cursor": "mnc2.AAAA"},
        {"cursor": "nonsense"},
        {"pinned": "pin:x", "task": "door"},
        {"topics": [""]},
        {"unknown": 1},
        {"task": 7},
    ],
    ids=str,
)
def test_bad_input_is_refused_and_stores_nothing(faces: Faces, arguments: dict[str, Any]) -> None:
    alice = faces.of()
    _fill(alice, 2)
    with pytest.raises(InvalidInput):
        context(
            alice, **{"task": "door", "session_id": "chat", **arguments} if arguments != {"items": "new"} else arguments
        )
    assert context(alice, "door", session_id="chat")["working_memory"]["cursor"] == "1"


def test_concurrent_turns_of_one_session_follow_each_other(faces: Faces) -> None:
    """Each delta is the one after another, by the naive model, while others record and supersede."""
    import threading

    alice = faces.of()
    _fill(alice, 40)
    told: list[dict[str, Any]] = []

    def talk(number: int) -> None:
        for turn in range(6):
            task = ("door red", "door mark", "door number 3")[(number + turn) % 3]
            told.append(context(alice, task, model="cursor", token_budget=300, session_id="chat"))

    def write() -> None:
        for n in range(8):
            observe(alice, f"n{n}", f"door red mark again {n}", "fact", relations=[("supersedes", f"c{n}")])

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(3)] + [threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.sort(key=lambda envelope: int(envelope["working_memory"]["cursor"]))
    assert [envelope["working_memory"]["cursor"] for envelope in told] == [str(n) for n in range(1, 19)]
    known: dict[str, int] = {}
    for turn, envelope in enumerate(told, start=1):
        change, pack = envelope["working_memory"], set(refs(envelope))
        for one in change["superseded"]:
            assert one["ref"] in known
            assert one["ref"] not in pack
            del known[one["ref"]]
        assert [new["ref"] for new in change["new"]] == [ref for ref in refs(envelope) if ref not in known]
        known |= dict.fromkeys(pack, turn)
        cold = {ref for ref, served in known.items() if ref not in pack and turn - served >= 4}
        assert set(change["evicted"]) <= cold
        for ref in change["evicted"]:
            del known[ref]
