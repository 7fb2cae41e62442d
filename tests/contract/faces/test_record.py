"""Recording and reading back, over every face and store."""

from __future__ import annotations

import contextlib
import hashlib

import pytest

from mn.context.working.v1 import artifact_pb2, card_pb2, run_pb2
from mn_contract.canonical import encoded
from mn_contract.errors import (
    ContextBudgetExceeded,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    RunClosed,
    SourceMismatch,
    StaleRevision,
)
from mn_contract.limits import CARD_TEXT_BYTES_MAX
from mn_contract.names import SUMMARY_MEDIA_TYPE
from mn_sdk.context_session.documents import card_document
from tests.contract.faces.conftest import Faces
from tests.contract.faces.messages import acl, card, compiled, event, get, observe, opened, put, read, record, refs


def test_a_card_comes_back_exactly_as_it_was_written(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    written = card(
        "Straße: 10 €\r\n\tend",
        "evidence",
        stance="opposes",
        topics=["prices"],
        entities=["Acme"],
        claims=[card_pb2.Claim(claim="cheap", stance=card_pb2.STANCE_OPPOSES)],
        confidence=0.25,
        trust=1.0,
        source_url="https://example.org/a?b=c#d",
        summary="About prices",
        validation=card_pb2.VALIDATION_VALIDATED,
    )
    record(alice, event("e1", written))
    found = get(alice, "e1")
    for name in ("text", "topics", "entities", "claims", "confidence", "trust", "source_url", "summary", "stance"):
        assert getattr(found, name) == getattr(written, name), name
    data = written.text.encode()
    assert found.body.sha256 == hashlib.sha256(data).hexdigest()
    assert read(alice, (found.body.artifact_sha256, found.body.start, found.body.end), sha256=found.body.sha256) == [
        data
    ]
    assert (found.ref, found.owner, found.layer, found.revision) == ("e1", "alice", "facts", 1)


def test_the_same_event_again_is_answered_from_the_record_and_another_content_is_refused(faces: Faces) -> None:
    """Invariant 9: identical replays, different content conflicts, a stale revision is rejected; all or nothing."""
    alice = faces.of()
    opened(alice)
    first = record(alice, event("k", card("one")))
    again = record(alice, event("k", card("one")))
    assert (again.revision, again.receipts[0].replayed, again.receipts[0].cards) == (1, True, ["k"])
    assert again.receipts[0].fingerprint == first.receipts[0].fingerprint
    with pytest.raises(IdempotencyConflict):
        record(alice, event("k", card("two")))
    with pytest.raises(IdempotencyConflict):
        record(alice, event("new", card("fresh")), event("k", card("two")))
    with pytest.raises(NotFound):
        get(alice, "new")
    with pytest.raises(StaleRevision) as caught:
        record(alice, event("m", card("three")), expected_revision=7)
    assert caught.value.detail == {"expected": 7, "newest": 1}
    assert record(alice, event("k", card("one")), expected_revision=7).receipts[0].replayed, "a replay has no revision"


def test_a_replay_stands_even_when_what_it_pointed_at_is_out_of_sight(faces: Faces) -> None:
    alice, bob = faces.of(), faces.of("bob")
    opened(alice)
    observe(alice, "seen", "for all")
    observe(bob, "link", "about it", relations=[("about", "alice:seen")])
    assert record(bob, event("link", card("about it", relations=[("about", "alice:seen")]))).receipts[0].replayed


def test_superseded_cards_leave_packets_but_not_history(faces: Faces) -> None:
    """Invariant 4: live at the packet's revision; explicit history shows the past."""
    alice = faces.of()
    opened(alice)
    observe(alice, "old", "the price is 10")
    observe(alice, "new", "the price is 12", relations=[("supersedes", "old")])
    assert refs(compiled(alice, "price")) == ["new"]
    assert refs(compiled(alice, "price", at={"revision": 1})) == ["old"]
    gone = get(alice, "old")
    assert (gone.superseded_revision, gone.superseded_by) == (2, "new")
    assert get(alice, "old", revision=1).superseded_revision == 0


def test_obligations_and_hard_constraints_are_required_until_resolved(faces: Faces) -> None:
    """Invariant 2 in the record's terms: what names no topic applies to all, what names one to decisions about it."""
    alice = faces.of()
    opened(alice)
    record(
        alice,
        event("o", card("Answer the regulator", "obligation")),
        event("c", card("Never sell below cost", "constraint", topics=["pricing"])),
        event("x", card("a blue door")),
    )
    assert refs(compiled(alice, "door")) == ["o", "x"]
    assert refs(compiled(alice, "door", topics=["Pricing"]))[:2] == ["o", "c"]
    record(alice, event("done", card("It was answered", relations=[("resolves", "o")])))
    assert "o" not in refs(compiled(alice, "door"))
    assert get(alice, "o").resolved_revision == 2
    with pytest.raises(InvalidInput):
        record(alice, card_pb2.Event(key="wrong", resolves=["x"]))


def test_contradicting_live_cards_are_both_shown_and_marked(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    observe(alice, "a", "the door is blue")
    observe(alice, "b", "the door is green", relations=[("contradicts", "a")])
    packet = compiled(alice, "door")
    assert {item.card.ref: list(item.card.conflicts) for item in packet.items} == {"a": ["b"], "b": ["a"]}


def test_a_summary_is_never_more_trusted_than_what_it_comes_from(faces: Faces) -> None:
    """Invariant 6: derived text is navigation and cannot launder trust."""
    alice = faces.of()
    opened(alice)
    observe(alice, "low", "hearsay", trust=0.2)
    observe(alice, "high", "measured", trust=0.9)
    observe(alice, "none", "unknown origin")
    observe(alice, "s1", "both", "summary", trust=1.0, relations=[("derived_from", "low"), ("derived_from", "high")])
    assert get(alice, "s1").trust == 0.2
    observe(alice, "s2", "unknown", "summary", trust=1.0, relations=[("derived_from", "none")])
    assert not get(alice, "s2").HasField("trust")
    with pytest.raises(InvalidInput):
        observe(alice, "s3", "out of nothing", "summary")


def test_cards_cite_exact_ranges_and_a_wrong_hash_or_range_is_refused(faces: Faces) -> None:
    """Invariant 6 at the door: nothing is recorded whose bytes are not those that it cites."""
    alice = faces.of()
    opened(alice)
    artifact = put(alice, "Grüße aus Köln".encode())
    good = artifact_pb2.SourceRange(artifact_sha256=artifact.sha256, start=0, end=7)
    record(alice, event("part", card("", body=good)))
    assert get(alice, "part").text == "Grüße"
    bad_hash = artifact_pb2.SourceRange(artifact_sha256=artifact.sha256, start=0, end=7, sha256="0" * 64)
    past = artifact_pb2.SourceRange(artifact_sha256=artifact.sha256, start=0, end=99)
    split = artifact_pb2.SourceRange(artifact_sha256=artifact.sha256, start=0, end=3)
    absent = artifact_pb2.SourceRange(artifact_sha256="1" * 64, start=0, end=3)
    for key, wrong, error in (
        ("h", bad_hash, SourceMismatch),
        ("p", past, InvalidInput),
        ("u", split, InvalidInput),
        ("a", absent, NotFound),
    ):
        with pytest.raises(error):
            record(alice, event(key, card("", body=wrong)))
        with pytest.raises(NotFound):
            get(alice, key)
    with pytest.raises(InvalidInput):
        record(alice, event("t", card("another text", body=good)))


def test_a_summary_is_nothing_to_cite(faces: Faces) -> None:
    """Invariant 6: its bytes are no source, in whole or in part, in a card's sources or as its body."""
    alice = faces.of()
    opened(alice)
    source = put(alice, b"It rained on Monday.")
    rained = artifact_pb2.SourceRange(artifact_sha256=source.sha256, start=0, end=9)
    record(alice, event("s", card("Rain, in short.", "summary", sources=[rained])))
    summary = get(alice, "s")
    part = artifact_pb2.SourceRange(artifact_sha256=summary.body.artifact_sha256, start=0, end=4)
    for key, citing in (
        ("whole", card("a claim", sources=[summary.body])),
        ("part", card("a claim", sources=[rained, part])),
        ("body", card("", body=part)),
        ("again", card("shorter", "summary", sources=[part])),
    ):
        with pytest.raises(InvalidInput, match="cannot be cited"):
            record(alice, event(key, citing))
    (item,) = compiled(alice, "rain").items
    document = card_document(item.card)
    assert (document["derived"], "source" in document) == (True, False)
    assert document["cites"] == [f"{source.sha256[:12]}:0-9"]
    assert item.size_bytes == len(encoded(document)) + 1
    put(alice, b"Rain, in short.")
    record(alice, event("whole", card("a claim", sources=[part])))


def test_a_summarys_body_is_put_as_a_summary(faces: Faces) -> None:
    """Else its bytes could be cited as those of a source."""
    alice = faces.of()
    opened(alice)
    for media_type, error in (("text/plain", True), (SUMMARY_MEDIA_TYPE, False), ("Text/Vnd.Membrane.Summary", False)):
        data = f"in short, as {media_type}".encode()
        artifact = put(alice, data, media_type=media_type)
        body = artifact_pb2.SourceRange(artifact_sha256=artifact.sha256, start=0, end=8)
        asked = event(artifact.sha256, card("", "summary", body=body, relations=[("derived_from", "origin")]))
        observe(alice, "origin", "the long story")
        with pytest.raises(InvalidInput, match="media type") if error else contextlib.nullcontext():
            record(alice, asked)


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 700_000])
def test_artifacts_of_every_size_come_back_whole_and_by_range(faces: Faces, size: int) -> None:
    alice = faces.of()
    opened(alice)
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    artifact = put(alice, data, chunk=262_144)
    assert (artifact.sha256, artifact.size_bytes) == (hashlib.sha256(data).hexdigest(), size)
    stat = alice.call("StatArtifact", artifact_pb2.StatArtifactRequest(sha256=artifact.sha256)).artifact
    assert stat == artifact
    if size:
        assert read(alice, (artifact.sha256, 0, size), (artifact.sha256, size - 1, size)) == [data, data[-1:]]
        with pytest.raises(SourceMismatch):
            read(alice, (artifact.sha256, 0, size), sha256="0" * 64)
    with pytest.raises(InvalidInput):
        read(alice, (artifact.sha256, 0, size + 1))


def test_an_upload_that_is_not_what_was_expected_leaves_nothing(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    data = b"x" * 100_000
    with pytest.raises(SourceMismatch):
        put(alice, data, expected_sha256="0" * 64)
    with pytest.raises(InvalidInput):
        put(alice, b"x" * 300_000, chunk=300_000)
    with pytest.raises(InvalidInput):
        alice.call("PutArtifact", iter([artifact_pb2.PutArtifactRequest(chunk=b"no header")]))
    with pytest.raises(InvalidInput):
        alice.call("PutArtifact", iter([]))
    header = artifact_pb2.PutArtifactRequest(header=artifact_pb2.ArtifactHeader(media_type="text/plain"))
    chunk = artifact_pb2.PutArtifactRequest(chunk=data)
    with pytest.raises(InvalidInput) as broken:
        alice.call("PutArtifact", iter([header, chunk]))
    assert broken.value.field == "end", "a stream that breaks off looks like one that ends"
    with pytest.raises(SourceMismatch):
        alice.call(
            "PutArtifact",
            iter([header, chunk, artifact_pb2.PutArtifactRequest(end=artifact_pb2.ArtifactEnd(sha256="0" * 64))]),
        )
    end = artifact_pb2.PutArtifactRequest(end=artifact_pb2.ArtifactEnd(sha256=hashlib.sha256(data).hexdigest()))
    for more in (chunk, end, artifact_pb2.PutArtifactRequest()):
        with pytest.raises(InvalidInput) as broken:
            alice.call("PutArtifact", iter([header, chunk, end, more]))
        assert broken.value.field == "end", "nothing comes after an end"
    with pytest.raises(NotFound):
        alice.call("StatArtifact", artifact_pb2.StatArtifactRequest(sha256=hashlib.sha256(data).hexdigest()))


def test_a_storage_budget_fails_with_its_numbers_and_writes_nothing(faces: Faces) -> None:
    """Invariant 13: over budget fails with metrics and writes nothing."""
    alice = faces.of()
    opened(alice, max_stored_bytes=1000)
    observe(alice, "small", "x" * 100)
    used = opened(alice).stored_bytes
    with pytest.raises(ContextBudgetExceeded) as caught:
        observe(alice, "large", "y" * 900)
    assert caught.value.detail["budget"] == "storage"
    assert (caught.value.detail["limit"], caught.value.detail["used"]) == (1000, used)
    with pytest.raises(ContextBudgetExceeded):
        put(alice, b"z" * 1001)
    with pytest.raises(NotFound):
        get(alice, "large")
    assert opened(alice).stored_bytes == used
    opened(alice, max_stored_bytes=10_000)
    observe(alice, "large", "y" * 900)


def test_a_cancelled_run_is_read_but_not_written(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    observe(alice, "a", "before")
    assert alice.call("CancelRun", run_pb2.CancelRunRequest(reason="enough")).run.state == run_pb2.RUN_STATE_CANCELLED
    with pytest.raises(RunClosed) as caught:
        observe(alice, "b", "after")
    assert caught.value.reason == "RUN_CANCELLED"
    with pytest.raises(RunClosed):
        put(alice, b"after")
    assert record(alice, event("a", card("before"))).receipts[0].replayed, "a replay writes nothing"
    assert refs(compiled(alice, "before")) == ["a"]


def test_a_cleared_run_shows_nothing_but_its_tombstone(faces: Faces) -> None:
    """Invariant 15: no answer, count or cursor; later writes refused; the tombstone keeps the last root."""
    alice = faces.of()
    opened(alice)
    for place in range(5):
        observe(alice, f"a{place}", f"secret thing {place}")
    artifact = put(alice, b"secret bytes")
    cursor = compiled(alice, "secret", 300).cursor
    assert cursor
    stone = alice.call("ClearRun", run_pb2.ClearRunRequest(reason="gdpr")).tombstone
    assert (stone.revision, len(stone.root_sha256)) == (5, 64)
    assert alice.call("ClearRun", run_pb2.ClearRunRequest()).tombstone.root_sha256 == stone.root_sha256
    for refused in (
        lambda: observe(alice, "b", "more"),
        lambda: compiled(alice, "secret"),
        lambda: compiled(alice, "secret", 300, cursor=cursor),
        lambda: get(alice, "a0"),
        lambda: read(alice, (artifact.sha256, 0, 3)),
        lambda: put(alice, b"more"),
        lambda: opened(alice),
    ):
        with pytest.raises(RunClosed) as caught:
            refused()
        assert caught.value.reason == "RUN_CLEARED"
    shown = alice.call("GetRun", run_pb2.GetRunRequest()).run
    assert shown == run_pb2.Run(job_id="job", run_id="run", state=run_pb2.RUN_STATE_CLEARED)


def test_runs_are_apart(faces: Faces) -> None:
    """The run's key is derived from job and run together."""
    one, other = faces.of(job="a/b", run="c"), faces.of(job="a", run="b/c")
    opened(one)
    with pytest.raises(NotFound):
        observe(other, "x", "text")
    opened(other)
    observe(one, "x", "text")
    with pytest.raises(NotFound):
        get(other, "x")


def test_an_artifact_is_read_through_a_handle_that_permits_it(faces: Faces) -> None:
    """Invariant 7: what is absent and what is hidden answer in the same words, and a second put tells nothing."""
    alice, bob = faces.of(), faces.of("bob", roles=("reviewer",))
    opened(alice)
    secret = put(alice, b"for alice", acl=acl(["alice"]))
    with pytest.raises(NotFound) as hidden:
        read(bob, (secret.sha256, 0, 3))
    with pytest.raises(NotFound) as absent:
        read(bob, ("0" * 64, 0, 3))
    assert hidden.value.message == absent.value.message
    assert put(bob, b"for alice", acl=acl(["bob"])).sha256 == secret.sha256
    assert read(bob, (secret.sha256, 0, 3)) == [b"for"]
    role_only = put(alice, b"for reviewers", acl=acl(roles=["reviewer"]))
    assert read(bob, (role_only.sha256, 0, 3)) == [b"for"]
    denied = put(alice, b"not for bob", acl=acl(deny=["bob"]))
    with pytest.raises(NotFound):
        read(bob, (denied.sha256, 0, 3))


def test_a_card_is_not_readable_by_more_than_what_it_cites(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    secret = put(alice, b"for alice only", acl=acl(["alice"]))
    body = artifact_pb2.SourceRange(artifact_sha256=secret.sha256, start=0, end=9)
    with pytest.raises(InvalidInput):
        record(alice, event("leak", card("", body=body)))
    record(alice, event("kept", card("", body=body, acl=acl(["alice"]))))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "unspecified"}, "card.kind"),
        ({"kind": 99}, "card.kind"),
        ({"stance_number": 77}, "card.stance"),
        ({"text": ""}, "card.text"),
        ({"text": "x" * (CARD_TEXT_BYTES_MAX + 1)}, "card.text"),
        ({"id": "no spaces"}, "card.id"),
        ({"topics": [""]}, "card.topics"),
        ({"topics": ["t"] * 2}, "card.topics"),
        ({"topics": [f"t{n}" for n in range(33)]}, "card.topics"),
        ({"confidence": 1.5}, "card.confidence"),
        ({"trust": float("nan")}, "card.trust"),
        ({"claims": [card_pb2.Claim(claim="c")]}, "card.claims.stance"),
        ({"relations": [("about", "nobody")]}, None),
        ({"relations": [("about", "bad ref")]}, "card.relations"),
        ({"relations": [("no type", "k")]}, "relation.type"),
        ({"relations": [("about", "k")]}, "card.relations"),
        ({"source_url": "u" * 5000}, "card.source_url"),
        ({"acl": artifact_pb2.Acl(allow_roles=["not ok"])}, "acl.allow_roles"),
    ],
)
def test_a_malformed_card_gets_one_error_that_names_its_field(
    faces: Faces, change: dict[str, object], field: str | None
) -> None:
    alice = faces.of()
    opened(alice)
    fields = dict(change)
    kind, number = fields.pop("kind", "observation"), fields.pop("stance_number", None)
    wrong = card(str(fields.pop("text", "text")), kind if isinstance(kind, str) else "observation", **fields)
    if isinstance(kind, int):
        wrong.kind = kind  # type: ignore[assignment]
    if number is not None:
        wrong.stance = number  # type: ignore[assignment]
    with pytest.raises((InvalidInput, NotFound)) as caught:
        record(alice, event("k", wrong))
    if field is not None:
        assert caught.value.detail["field"] == field
    assert opened(alice).revision == 0


def test_malformed_events_are_refused_whole(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    for events in (
        [],
        [event("bad key", card("x"))],
        [card_pb2.Event(key="nothing")],
        [event("k", card("x")), event("k", card("x"))],
        [event("k", card("x", id="same"), card("y", id="same"))],
    ):
        with pytest.raises((InvalidInput, IdempotencyConflict)):
            record(alice, *events)
    assert opened(alice).revision == 0
