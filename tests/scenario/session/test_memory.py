"""What is recorded, how it is split and linked, and what a model may read of it by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mn_contract.errors import ContextBudgetExceeded, IdempotencyConflict, InvalidInput, NotFound
from mn_contract.limits import CARD_TEXT_BYTES_MAX
from mn_sdk.context_session import ContextSession
from mn_sdk.context_session.pieces import ranges
from tests.scenario.session.upstream import Upstream

LONG = "\n".join(f"line {n} of the long record, ünïcode and all" for n in range(600))


def recalled(session: ContextSession, query: str, **more: Any) -> list[str]:
    answer = session.memory_action("recall_memory", {"query": query, "limit": 50, **more})
    return [record["id"] for record in answer["records"]]


def test_the_same_observation_again_changes_nothing(session: ContextSession) -> None:
    assert session.observe("seen", event_id="o1", topics=["t"]) == ("o1",)
    assert session.observe("seen", event_id="o1", topics=["t"]) == ("o1",)
    with pytest.raises(IdempotencyConflict):
        session.observe("other", event_id="o1", topics=["t"])


def test_a_record_larger_than_a_card_becomes_pieces_that_leave_nothing_out(session: ContextSession) -> None:
    refs = session.observe(LONG, event_id="long", topics=["t"])
    assert refs == tuple(f"long/{n:04d}" for n in range(1, len(refs) + 1))
    assert len(refs) > 2
    texts = []
    offset: int | None = 0
    while offset is not None:
        read = session.memory_action("read_memory", {"item_id": "long", "max_bytes": 5000, "offset": offset})
        texts.append(read["text"])
        offset = read["next_offset"]
    assert "".join(texts) == LONG
    assert session.observe(LONG, event_id="long", topics=["t"]) == refs


def test_a_record_beyond_an_inline_artifact_is_put_first(session: ContextSession) -> None:
    text = "word " * 40_000
    refs = session.observe(text, event_id="large")
    assert session.observe(text.encode(), event_id="large") == refs
    assert session.memory_action("read_memory", {"item_id": "large"})["size"] == len(text)


@pytest.mark.parametrize("more", [0, 1])
def test_a_record_over_the_storage_budget_leaves_nothing_behind(
    open_session: Callable[..., ContextSession], more: int
) -> None:
    """Invariant 13: its bytes and its cards are two writes, and neither is made where not both fit."""
    text, summary = "word " * 20_000, "in short"
    needed = 2 * len(text) + len(summary)
    session = open_session(policy={"max_storage_bytes": needed - 1 + more})
    if more:
        refs = session.observe(text, event_id="large", summary=summary)
        assert session._client.run().stored_bytes == needed
        assert session.observe(text, event_id="large", summary=summary) == refs
        with pytest.raises(IdempotencyConflict):
            session.observe(text + "!", event_id="large", summary=summary)
    with pytest.raises(ContextBudgetExceeded) as over:
        session.observe(text, event_id="another", summary=summary)
    run = session._client.run()
    assert (run.stored_bytes, run.revision) == ((needed, 1) if more else (0, 0))
    assert over.value.detail["limit"] == needed - 1 + more


def test_bytes_that_are_there_already_need_no_room(open_session: Callable[..., ContextSession]) -> None:
    text = "word " * 20_000
    session = open_session(policy={"max_storage_bytes": 3 * len(text)})
    session.put_artifact(text)
    session.observe(text, event_id="large")


def test_a_record_that_is_wrong_leaves_no_bytes_behind(session: ContextSession) -> None:
    with pytest.raises(InvalidInput):
        session.observe("word " * 20_000, event_id="x", relations=[("about", "x")] * 32)
    assert session._client.run().stored_bytes == 0


def test_a_race_for_the_last_room_is_told_as_it_is(
    open_session: Callable[..., ContextSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "word " * 20_000
    session = open_session(policy={"max_storage_bytes": 2 * len(text)})
    put = session._client.put_artifact

    def put_and_lose(*args: Any, **kwargs: Any) -> Any:
        stored = put(*args, **kwargs)
        session.observe("somebody else's", event_id="other")
        return stored

    monkeypatch.setattr(session._client, "put_artifact", put_and_lose)
    with pytest.raises(ContextBudgetExceeded, match="bytes were stored") as over:
        session.observe(text, event_id="large")
    assert "nothing was written" not in over.value.message
    assert session._client.run().stored_bytes > len(text)


def test_superseding_a_split_record_supersedes_all_of_it(session: ContextSession) -> None:
    session.observe(LONG, event_id="old", topics=["t"])
    session.observe("In short: nothing of the long record holds", event_id="new", supersedes=["old"])
    assert recalled(session, "long record line") == ["new"]
    assert session.observe("In short: nothing of the long record holds", event_id="new", supersedes=["old"]) == ("new",)


def test_an_obligation_stands_until_it_is_resolved(session: ContextSession) -> None:
    refs = session.observe(LONG, event_id="duty", obligation=True)
    assert set(refs) <= set(recalled(session, "record"))
    session.observe("done", event_id="done", resolves=["duty"])
    session.observe("done", event_id="done", resolves=["duty"])


def test_what_contradicts_is_marked_on_both_sides(session: ContextSession) -> None:
    session.observe("Brackets nest well", event_id="a", claim="nesting works", stance="supports")
    session.observe("Brackets do not nest", event_id="b", claims={"nesting works": "opposes"}, contradicts="a")
    records = session.memory_action("recall_memory", {"query": "brackets"})["records"]
    assert {record["id"]: record["conflicts"] for record in records} == {"a": ["b"], "b": ["a"]}
    assert {record["id"]: record["claims"] for record in records} == {
        "a": {"nesting works": "supports"},
        "b": {"nesting works": "opposes"},
    }


def test_a_record_cites_the_ranges_it_is_given(session: ContextSession) -> None:
    source = session.put_artifact("0123456789", media_type="text/plain")
    session.observe("It counts", event_id="o", sources=[(source, 2, 5), (source.sha256, 0, 1)])
    record = session.memory_action("recall_memory", {"query": "counts"})["records"][0]
    assert record["cites"] == [f"{source.sha256[:12]}:2-5", f"{source.sha256[:12]}:0-1"]


def test_everything_an_observation_says_is_kept(session: ContextSession) -> None:
    session.observe(
        {"price": 3, "unit": "EUR"},
        event_id="o",
        kind="fact",
        confidence=0.5,
        occurred_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        valid_from="2026-01-01T00:00:00Z",
        source_url="https://example.org/a",
        topics=["pricing"],
        entities=["acme"],
        summary="a price",
    )
    (record,) = session.memory_action("recall_memory", {"query": "price", "topics": ["pricing"]})["records"]
    assert record["text"] == '{"price":3,"unit":"EUR"}'
    assert (record["kind"], record["confidence"], record["url"]) == ("fact", 0.5, "https://example.org/a")
    assert record["occurred_at"] == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("record", {"record": ""}),
        ("record", {"record": b"\xff"}),
        ("record", {"record": "\ud800"}),
        ("event_id", {"event_id": ""}),
        ("event_id", {"event_id": "with space"}),
        ("kind", {"kind": "rumour"}),
        ("stance", {"stance": "perhaps"}),
        ("stance", {"claim": "c"}),
        ("claims", {"claim": "c", "stance": "opposes", "claims": {"c": "supports"}}),
        ("occurred_at", {"occurred_at": "yesterday"}),
        ("valid_from", {"valid_from": "2026-01-01T00:00:00"}),
        ("sources", {"sources": ["x"]}),
        ("acl", {"acl": {"everybody": []}}),
        ("supersedes", {"supersedes": ["no good"]}),
        ("relations", {"relations": [("is like", "x")]}),
    ],
)
def test_what_cannot_be_recorded_names_the_argument(
    session: ContextSession, field: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        session.observe(**{"record": "text", "event_id": "e", **arguments})
    assert refused.value.field == field


def test_a_link_to_nothing_is_an_error(session: ContextSession) -> None:
    with pytest.raises(NotFound):
        session.observe("text", event_id="e", supersedes=["nobody"])


def test_pages_of_recall_are_numbered_and_mean_the_same_after_a_restart(
    open_session: Callable[..., ContextSession],
) -> None:
    session = open_session()
    for n in range(7):
        session.observe(f"bracket number {n}", event_id=f"o{n}")
    first = session.memory_action("recall_memory", {"query": "bracket", "limit": 3})
    assert first["cursor"] == 1
    session.close()
    again = open_session()
    seen = [record["id"] for record in first["records"]]
    cursor = first["cursor"]
    while cursor is not None:
        page = again.memory_action("recall_memory", {"query": "bracket", "limit": 3, "cursor": cursor})
        seen += [record["id"] for record in page["records"]]
        cursor = page["cursor"]
    assert sorted(seen) == [f"o{n}" for n in range(7)]
    with pytest.raises(InvalidInput):
        again.memory_action("recall_memory", {"query": "another", "limit": 3, "cursor": 1})


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(["a", "b", "write", "reopen a"]), max_size=24))
@example(steps=["a", "write", "write", "write", "write", "b", "reopen a", "a"])
def test_each_walk_of_a_query_shows_every_record_of_its_revision_once(
    open_session: Callable[..., ContextSession], tmp_path: Path, steps: list[str]
) -> None:
    """Invariant 8, whatever other sessions page through and write meanwhile, and across a restart."""
    root = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
    sessions = {name: open_session(root=root) for name in "ab"}
    known = [sessions["a"].observe(f"bracket number {n}", event_id=f"o{n}")[0] for n in range(7)]
    walks: dict[str, dict[str, Any]] = {}

    def go_on(name: str) -> None:
        walk = walks.setdefault(name, {"cursor": 0, "seen": [], "all": list(known)})
        page = sessions[name].memory_action("recall_memory", {"query": "bracket", "limit": 3, "cursor": walk["cursor"]})
        walk["seen"] += [record["id"] for record in page["records"]]
        walk["cursor"] = page["cursor"]
        if page["cursor"] is None:
            assert sorted(walk["seen"]) == sorted(walk["all"])
            del walks[name]

    for step in steps:
        if step == "write":
            known += sessions["b"].observe("bracket bracket", event_id=f"o{len(known)}")
        elif step == "reopen a":
            sessions["a"].close()
            sessions["a"] = open_session(root=root)
        else:
            go_on(step)
    for name in list(walks):
        while name in walks:
            go_on(name)
    for session in sessions.values():
        session.close()


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("write_memory", {}),
        ("recall_memory", {"principal": "bob"}),
        ("recall_memory", {"query": 3}),
        ("recall_memory", {"topics": {"pricing": 1}}),
        ("recall_memory", {"cursor": -1}),
        ("recall_memory", {"cursor": True}),
        ("recall_memory", {"limit": 1000}),
        ("read_memory", {}),
        ("read_memory", {"item_id": "o", "max_bytes": 0}),
    ],
)
def test_actions_are_read_only_and_bounded(session: ContextSession, action: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        session.memory_action(action, arguments)


def test_named_cursors_are_durable_and_belong_to_their_principal(
    open_session: Callable[..., ContextSession],
) -> None:
    session = open_session()
    assert session.journal.cursor("reader") == 0
    assert session.journal.cursor("reader", 12) == 12
    session.close()
    assert open_session().journal.cursor("reader") == 12
    assert open_session("bob").journal.cursor("reader") == 0
    with pytest.raises(InvalidInput):
        open_session().journal.cursor("reader", -1)


def test_a_file_is_put_chunk_by_chunk(session: ContextSession, tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    path.write_bytes(bytes(range(256)) * 3000)
    ref = session.put_artifact(path, media_type="application/octet-stream")
    assert (ref.size, ref.media_type) == (768_000, "application/octet-stream")


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1).map(lambda text: text * (20_000 // len(text.encode("utf-8", "ignore") or b"x") + 1)))
def test_pieces_lie_side_by_side_and_cut_no_character(text: str) -> None:
    data = text.encode("utf-8", "ignore")
    cut = list(ranges(data))
    assert "".join(data[start:end].decode("utf-8") for start, end in cut) == data.decode("utf-8")
    assert all(0 < end - start <= CARD_TEXT_BYTES_MAX for start, end in cut)


@pytest.mark.parametrize("name", ["@response/", "@response/d1/1", "@response/d1/1/0001"])
def test_the_names_of_written_back_responses_are_not_the_callers(session: ContextSession, name: str) -> None:
    """An observation under such a name would keep a response that was paid for out of the record."""
    with pytest.raises(InvalidInput) as caught:
        session.observe("mine", event_id=name)
    assert caught.value.field == "event_id"


def test_recall_says_from_when_to_when_a_record_holds_and_answers_as_of_a_time(
    session: ContextSession, upstream: Upstream
) -> None:
    session.observe("price 10", event_id="old", valid_until="2021-01-01T00:00:00Z")
    session.observe("price 20", event_id="new", valid_from="2021-01-01T00:00:00Z")
    told = {record["id"]: record for record in session.memory_action("recall_memory", {"query": "price"})["records"]}
    assert told["old"]["valid_until"] == told["new"]["valid_from"] == "2021-01-01T00:00:00Z"
    then = session.memory_action("recall_memory", {"query": "price", "as_of": "2020-06-01T00:00:00Z"})
    assert [record["id"] for record in then["records"]] == ["old"]
    messages = [{"role": "user", "content": "what was it?"}]
    session.complete("then", messages=messages, focus="price", as_of="2020-06-01T00:00:00Z", **upstream.arguments)
    recalled = json.loads(upstream.requests[-1]["messages"][0]["content"])["recalled"]
    assert [record["id"] for record in recalled["records"]] == ["old"]
    with pytest.raises(IdempotencyConflict):  # another time is another question
        session.complete("then", messages=messages, focus="price", **upstream.arguments)
    for wrong in ("2020", "yesterday", 5, "2999-01-01T00:00:00Z"):
        with pytest.raises(InvalidInput):
            session.memory_action("recall_memory", {"query": "price", "as_of": wrong})
        with pytest.raises(InvalidInput):
            session.complete("wrong", messages=messages, as_of=wrong, **upstream.arguments)


def test_a_later_page_says_that_it_is_of_an_older_revision(session: ContextSession) -> None:
    for at in range(5):
        session.observe(f"parser {at}", event_id=f"e{at}")
    first = session.memory_action("recall_memory", {"query": "parser", "limit": 2})
    assert first["newest_revision"] == first["revision"]
    session.observe("parser later", event_id="later")
    second = session.memory_action("recall_memory", {"query": "parser", "limit": 2, "cursor": first["cursor"]})
    assert second["revision"] == first["revision"] < second["newest_revision"]
