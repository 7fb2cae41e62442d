"""Facts over every face: what holds when, on both axes of time, and what is told of it (invariants 4, 5, 7, 13)."""

from __future__ import annotations

import base64
import copy
import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mn.context.working.v1 import card_pb2
from mn_contract.errors import IdempotencyConflict, InvalidInput, NotFound, PermissionDenied, SourceMismatch
from mn_engine.bootstrap import engine_over
from mn_engine.cli import main
from mn_engine.config import read_signing_key
from mn_engine.domain.bundles import BUNDLE_FORMAT, verify_bundle
from mn_engine.domain.checkpoints import proved_under, verified_checkpoint
from mn_engine.domain.facts import FOREVER, Said, heads, holders, timeline
from mn_engine.domain.leaves import proved_card_leaf
from mn_engine.domain.merkle import Tree, leaf_hash
from mn_engine.domain.runs import EMPTY_ROOT, chained_root
from mn_engine.domain.scope import run_key
from mn_engine.domain.signed_notes import SigningKey
from mn_engine.domain.times import format_rfc3339
from mn_engine.service.engine import Engine
from mn_engine.store.memory import MemoryStore
from mn_sdk.facts import Facts
from mn_sdk.scope import SessionScope
from tests.contract.faces.conftest import SIGNING_KEY, Embedded, Faces
from tests.contract.faces.messages import acl, compiled, observe, opened, put, refs
from tests.storing import sha

YEAR = 365 * 24 * 3600 * 1_000_000


def year(number: int) -> str:
    """The beginning of a year, or near it, after 1970."""
    return format_rfc3339(number * YEAR)


def objects(answer: dict[str, Any]) -> list[str]:
    return sorted(fact["object"] for fact in answer["facts"])


@pytest.fixture
def facts(faces: Faces) -> Facts:
    transport = faces.of()
    opened(transport)
    return Facts(transport.call)


def test_a_new_fact_closes_the_one_before_it_and_the_past_stays(facts: Facts) -> None:
    first = facts.upsert("Ada", "lives_in", "Paris", valid_from=year(10))
    second = facts.upsert("ada ", "Lives_In", "Berlin", valid_from=year(20))
    assert objects(facts.time_travel(year(15))) == ["Paris"]
    (now,) = facts.entity("Ada")["facts"]
    assert (now["ref"], now["held"]) == (second["ref"], [{"from": year(20), "until": None}])
    (then,) = facts.time_travel(year(15))["facts"]
    assert then["held"] == [{"from": year(10), "until": year(20)}]
    assert then["superseded_by"] == second["ref"]
    assert (then["valid_until"], then["ref"]) == (None, first["ref"])
    assert objects(facts.time_travel(year(5))) == []


def test_a_correction_of_the_past_changes_what_is_known_and_not_what_was(facts: Facts) -> None:
    """Valid in the past, recorded now: both answers can be asked for."""
    facts.upsert("Ada", "lives_in", "Paris", valid_from=year(10))
    known = facts.verify()["revision"]
    facts.upsert("Ada", "lives_in", "Rome", valid_from=year(12), valid_until=year(14))
    assert objects(facts.time_travel(year(13))) == ["Rome"]
    assert objects(facts.time_travel(year(13), recorded_as_of=known)) == ["Paris"]
    assert objects(facts.time_travel(year(14))) == ["Paris"]
    now = facts.time_travel(year(13))["facts"][0]["recorded_at"]
    assert objects(facts.time_travel(year(13), recorded_as_of=now)) == ["Rome"]


def test_plural_facts_accumulate_and_qualifiers_are_places_apart(facts: Facts) -> None:
    for name in ("Bob", "Cy"):
        facts.upsert("Ada", "knows", name, singular=False, valid_from=year(1))
    facts.upsert("Ada", "phone", "1", qualifier="home", valid_from=year(1))
    facts.upsert("Ada", "phone", "2", qualifier="work", valid_from=year(2))
    facts.upsert("Adah", "phone", "3", qualifier="home", valid_from=year(3))
    assert objects(facts.time_travel(year(9), predicate="knows")) == ["Bob", "Cy"]
    assert objects(facts.time_travel(year(9), subject="ADA", predicate="phone")) == ["1", "2"]


def test_a_fact_that_stands_as_it_is_said_changes_nothing_and_one_that_comes_back_is_said_again(facts: Facts) -> None:
    first = facts.upsert("door", "state", "open", valid_from=year(1))
    assert facts.upsert("door", "state", "open")["replayed"]
    assert facts.upsert("door", "state", "open", valid_from=year(1))["ref"] == first["ref"]
    facts.upsert("door", "state", "shut", valid_from=year(2))
    again = facts.upsert("door", "state", "open", valid_from=year(3))
    assert not again["replayed"]
    assert objects(facts.entity("door")) == ["open"]
    corrected = facts.upsert("door", "state", "ajar", valid_from=year(3))
    assert not facts.upsert("door", "state", "open", valid_from=year(3))["replayed"]
    assert objects(facts.entity("door")) == ["open"]
    assert corrected["revision"] == 4


def test_many_facts_are_one_revision(facts: Facts) -> None:
    many = [{"subject": f"s{n}", "predicate": "p", "object": str(n), "valid_from": year(1)} for n in range(1500)]
    first = facts.upsert_many(many, key="many")
    refs = first["refs"]
    assert len(set(refs)) == 1500
    assert facts.upsert_many(many, key="many") == {**first, "replayed": True}
    assert facts.verify()["revision"] == 1
    assert facts.time_travel(year(2))["total"] == 1500
    for wrong in ({"subject": "a", "predicate": "b"}, {"subject": "a", "predicate": "b", "object": "c", "when": 1}):
        with pytest.raises(InvalidInput):
            facts.upsert_many([wrong])
    with pytest.raises(InvalidInput):
        facts.upsert_many([])


def test_what_comes_back_without_a_key_is_said_again(facts: Facts) -> None:
    for number, place in enumerate(("Bergen", "Oslo", "Bergen"), start=1):
        said = {"subject": "Acme", "predicate": "based in", "object": place}
        answer = facts.upsert_many([said])
        assert (answer["revision"], answer["replayed"]) == (number, False)
    assert objects(facts.entity("Acme")) == ["Bergen"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ("x", "facts[1]"),
        (None, "facts[1]"),
        ({"subject": "\ud800", "predicate": "p", "object": "o"}, "facts[1]"),
        ({"subject": 5, "predicate": "p", "object": "o"}, "facts[1]"),
        ({"subject": "s", "predicate": "p", "object": "o", "confidence": float("nan")}, "facts[1].confidence"),
        ({"subject": "s", "predicate": "p", "object": "o", "valid_from": "2020-01-01"}, "facts[1].valid_from"),
        ({"subject": " ", "predicate": "p", "object": "o"}, "facts[1].subject"),
    ],
)
def test_what_is_wrong_with_one_of_many_facts_is_named(facts: Facts, wrong: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        facts.upsert_many([{"subject": "s", "predicate": "p", "object": "o"}, wrong])
    assert refused.value.field == field
    assert facts.verify()["revision"] == 0


def test_a_fact_of_now_is_answered_when_it_is_tried_again(facts: Facts) -> None:
    """Invariant 9: what a caller did not say is in no fingerprint."""
    first = facts.upsert("door", "state", "open", key="once")
    facts.upsert("door", "state", "shut", key="twice")
    again = facts.upsert("door", "state", "open", key="once")
    assert again == {**first, "replayed": True}
    with pytest.raises(IdempotencyConflict):
        facts.upsert("door", "state", "ajar", key="once")
    assert facts.compile("door state", max_tokens=200)["root"] == facts.verify()["root"]


def test_sources_that_disagree_are_both_kept_marked_and_listed(facts: Facts) -> None:
    minutes = facts.record_episode("Acme has Ann as its head.", source="minutes")
    letter = facts.record_episode("Acme's head is Bo.", source="letter")
    one = facts.upsert("Acme", "head", "Ann", valid_from=year(1), source_episode=minutes["ref"], source_range=[9, 12])
    other = facts.upsert("Acme", "head", "Bo", valid_from=year(1), source_episode=letter["ref"])
    facts.upsert("Acme", "head", "Cy", valid_from=year(5), source_episode=letter["ref"])  # time went on
    ((first, second),) = facts.contradictions()
    assert (first["ref"], second["ref"]) == (one["ref"], other["ref"])
    assert (first["contradicts"], second["contradicts"]) == ([other["ref"]], [one["ref"]])
    assert (first["stated_in"], first["sources"][0]["start"], first["sources"][0]["end"]) == ([minutes["ref"]], 9, 12)
    told = facts.compile("Who was the head of Acme?", max_tokens=500, as_of=year(2))
    assert f"contradicted by {one['ref']}" in told["text"]
    (held,) = facts.time_travel(year(2))["facts"]
    assert (held["ref"], held["contradicts"]) == (other["ref"], [one["ref"]])


def test_one_source_that_corrects_itself_contradicts_nobody(facts: Facts) -> None:
    facts.upsert("Acme", "head", "Ann", valid_from=year(1))
    facts.upsert("Acme", "head", "Bo", valid_from=year(1))
    assert facts.contradictions() == []


def test_a_context_holds_what_holds_within_its_tokens(facts: Facts) -> None:
    """Stale facts are left out unless they are asked for, and neighbours of neighbours come along."""
    facts.upsert("Ada", "lives_in", "Paris", valid_from=year(10))
    facts.upsert("Ada", "lives_in", "Berlin", valid_from=year(20))
    facts.upsert("Berlin", "lies_in", "Germany", valid_from=year(1))
    facts.upsert("Germany", "has_capital", "Bonn", valid_from=year(1))
    now = facts.compile("Where does Ada live?", max_tokens=200)
    assert "Ada lives_in Berlin (since 1989-12-27)" in now["text"]
    assert "Paris" not in now["text"]
    assert "Bonn" in now["text"], "two hops away"
    assert now["tokens"]["used"] <= 200
    assert [fact["ref"] for fact in now["facts"]] == now["refs"]
    then = facts.compile("Where does Ada live?", max_tokens=200, as_of=year(12))
    assert "Paris" in then["text"]
    assert "Berlin (" not in then["text"]
    both = facts.compile("Where does Ada live?", max_tokens=200, include_superseded=True)
    assert "Paris (1979-12-30 until 1989-12-27)" in both["text"]
    for room in (1, 5, 20, 30, 60):
        assert facts.compile("Where does Ada live?", max_tokens=room)["tokens"]["used"] <= room


def test_a_fact_that_does_not_fit_makes_no_room_stay_empty(facts: Facts) -> None:
    facts.upsert("Ada", "wrote", "Ada " + "a long book about the engine " * 40, valid_from=year(1))
    small = facts.upsert("Ada", "likes", "tea", valid_from=year(1))["ref"]
    told = facts.compile("Ada", max_tokens=60)
    assert told["refs"] == [small]
    assert told["left"] == 1


def test_a_time_before_anything_was_recorded_is_told_as_that(facts: Facts) -> None:
    facts.upsert("Ada", "likes", "tea", valid_from=year(1))
    with pytest.raises(InvalidInput, match="before anything was recorded") as refused:
        facts.time_travel(year(9), recorded_as_of=year(9))
    assert refused.value.field == "recorded_as_of"


def test_an_entity_of_very_many_facts_is_told_in_part_and_says_so(facts: Facts) -> None:
    many = [{"subject": "Ada", "predicate": "counts", "object": f"{n}", "singular": False} for n in range(250)]
    facts.upsert_many(many)
    told = facts.entity("Ada")
    assert (len(told["facts"]), told["cut"]) == (200, True)
    assert facts.entity("7")["cut"] is False


def test_a_packet_holds_no_superseded_fact(faces: Faces) -> None:
    """Invariant 4, in the packets of every decision."""
    transport = faces.of()
    opened(transport)
    facts = Facts(transport.call)
    old = facts.upsert("Ada", "lives_in", "Paris", valid_from=year(10))["ref"]
    new = facts.upsert("Ada", "lives_in", "Berlin", valid_from=year(20))["ref"]
    assert refs(compiled(transport, "Where does Ada live?")) == [new]
    then = Timestamp(seconds=15 * YEAR // 1_000_000)
    assert refs(compiled(transport, "Where does Ada live?", as_of=then)) == [old]


def test_facts_of_others_count_as_far_as_one_may_read_them(faces: Faces) -> None:
    """Invariant 7: a hidden fact closes nothing."""
    mine = faces.of()
    opened(mine)
    Facts(mine.call).upsert("Ada", "lives_in", "Paris", valid_from=year(10))
    theirs = faces.of("bob")
    said = card_pb2.Fact(subject="Ada", predicate="lives_in", object="Rome", singular=True)
    observe(theirs, "hidden", "Ada lives_in Rome", "fact", fact=said, entities=["Ada"], acl=acl(["bob"]))
    assert objects(Facts(mine.call).entity("Ada")) == ["Paris"]
    assert objects(Facts(theirs.call).entity("Ada")) == ["Rome"]


HISTORIES = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from("abc"), st.integers(1, 9), st.integers(2, 10) | st.none(), st.booleans()
    ),
    min_size=1,
    max_size=8,
)


def _check_history(history: list[tuple[int, str, int, int | None, bool]]) -> None:
    """Whether the engine answers a history as the rule does, at every time and every revision."""
    engine = engine_over(MemoryStore())
    transport = Embedded(engine, SessionScope(job_id="j", run_id="r", principal="ada", roles=()))
    opened(transport)
    facts = Facts(transport.call)
    said: list[list[Said]] = [[], []]
    for number, (place, name, since, until, singular) in enumerate(history, start=1):
        until = until if until is not None and until > since else None
        end = {} if until is None else {"valid_until": year(until)}
        facts.upsert(f"s{place}", "is", name, valid_from=year(since), singular=singular, key=f"{number}", **end)
        said[place].append(Said(name, since, FOREVER if until is None else until, singular))
        for of, told in enumerate(said):
            spans = timeline(told)
            for time in range(11):
                expected = sorted(told[fact].triple for fact in holders(spans, time))
                answer = facts.time_travel(year(time), recorded_as_of=number, subject=f"s{of}")
                assert objects(answer) == expected, (history, number, of, time)
            current = sorted(str(told[fact].triple) for fact in holders(spans, 50))
            compiled = facts.compile(f"s{of} is", max_tokens=1000)
            assert sorted(one["object"] for one in compiled["facts"] if one["subject"] == f"s{of}") == current
            assert len(heads(told, spans)) <= len(told)
    assert facts.verify()["holds"]
    engine.close()


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(HISTORIES)
def test_random_histories_are_told_as_the_rule_has_them(history: list[Any]) -> None:
    _check_history(history)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=10_000, suppress_health_check=list(HealthCheck))
@given(HISTORIES)
def test_ten_thousand_histories_leak_nothing_stale(history: list[Any]) -> None:
    _check_history(history)


# Bundles.


@pytest.fixture
def bundle(facts: Facts) -> dict[str, Any]:
    """A bundle of two facts, one of them read in an episode, out of a longer record."""
    told = facts.record_episode("It was said that Ada lives in Paris.", source="a letter")
    one = facts.upsert(
        "Ada", "lives_in", "Paris", valid_from=year(1), source_episode=told["ref"], source_range=[17, 35]
    )
    other = facts.upsert("Ada", "born_in", "1815", valid_from=year(1))
    for number in range(20):
        facts.upsert("Ada", "counts", str(number), valid_from=year(number))
    found = facts.bundle([one["ref"], other["ref"]])
    return json.loads(json.dumps(found))  # as it travels


def test_a_bundle_proves_its_facts_without_the_record(facts: Facts, bundle: dict[str, Any]) -> None:
    root = facts.verify()["root"]
    proved = verify_bundle(bundle, expected_root=root)
    assert [card.text for card in proved.cards] == [
        "Ada lives_in Paris",
        "Ada born_in 1815",
        "It was said that Ada lives in Paris.",
    ]
    assert proved.root == root
    cited = next(source for source in bundle["sources"] if source["start"] == 17)
    assert base64.b64decode(cited["data"]) == b"Ada lives in Paris"


def _changed(bundle: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The bundle with each of its parts missing or altered, and which."""
    found = []

    def walk(value: Any, path: tuple[Any, ...]) -> None:
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in members:
            if key == "ref":  # the asker's name for a card, and proof of nothing
                continue
            for change in ("gone", "other"):
                changed = copy.deepcopy(bundle)
                at: Any = changed
                for step in path:
                    at = at[step]
                if change == "gone":
                    del at[key]
                elif isinstance(inner, dict | list):
                    at[key] = "x"
                else:
                    end = "AA" if str(inner)[-2:] != "AA" else "BB"
                    at[key] = inner + 1 if isinstance(inner, int) else inner[:-2] + end
                found.append((f"{'.'.join(map(str, (*path, key)))} {change}", changed))
            if isinstance(inner, dict | list):
                walk(inner, (*path, key))

    walk(bundle, ())
    return found


def test_a_bundle_with_any_part_missing_or_altered_is_refused(bundle: dict[str, Any]) -> None:
    tried = _changed(bundle)
    assert len(tried) > 80
    for what, changed in tried:
        if what in ("job_id other", "run_id other", "records.1 gone", "records.0 gone"):
            continue  # names prove nothing by themselves, and a bundle may hold fewer records
        with pytest.raises((InvalidInput, SourceMismatch)) as refused:
            verify_bundle(changed)
        assert refused.value.detail.get("field"), what


@pytest.mark.parametrize(
    "meta",
    ["[" * 100_000 + "]" * 100_000, '{"body":[]}', '{"acl":[5]}', '{"sources":[[]]}', "[]", "{"],
)
def test_a_bundle_whose_tree_is_made_up_of_no_cards_is_refused(meta: str) -> None:
    """Whoever makes a bundle can make its tree, too."""
    hashes = {"meta_sha256": sha(meta.encode()), "text_sha256": sha(b"x")}
    tree = Tree([leaf_hash(proved_card_leaf(ordinal=1, columns="0" * 64, **hashes))]).root
    made = {
        "format": BUNDLE_FORMAT,
        "job_id": "j",
        "run_id": "r",
        "revision": 1,
        "previous_root": "0" * 64,
        "root": chained_root("0" * 64, 1, 1, tree),
        "tree": tree,
        "size": 1,
        "sources": [],
        "records": [{"number": 0, "ordinal": 1, "meta": meta, "text": "x", "columns": "0" * 64, "path": []}],
    }
    with pytest.raises(InvalidInput) as refused:
        verify_bundle(made)
    assert refused.value.field == "records.0.meta"


@pytest.mark.parametrize("name", ["job\nOK: 9 records", "", "\x1b[2J"])
def test_a_bundle_names_its_run_by_ids(bundle: dict[str, Any], name: str) -> None:
    for field in ("job_id", "run_id"):
        with pytest.raises(InvalidInput) as refused:
            verify_bundle({**bundle, field: name})
        assert refused.value.field == field


def test_the_command_shows_no_control_characters_of_a_text(facts: Facts, tmp_path: Path) -> None:
    told = facts.upsert("a", "says", "\x1b[2Jx\x00\u202ey", valid_from=year(1))
    file = tmp_path / "bundle.json"
    file.write_text(json.dumps(facts.bundle([told["ref"]])))
    ran = CliRunner().invoke(main, ["verify-bundle", str(file)])
    assert ran.exit_code == 0, ran.output
    assert "a says ?[2Jx??y" in ran.output


def test_a_bundle_of_another_root_is_refused_where_the_root_is_known(bundle: dict[str, Any]) -> None:
    with pytest.raises(SourceMismatch):
        verify_bundle(bundle, expected_root="0" * 64)


def test_what_only_its_owner_may_see_is_in_nobody_elses_bundle(faces: Faces) -> None:
    """Invariant 7: a bundle proves a card whole."""
    mine = faces.of()
    opened(mine)
    observe(mine, "secret", "secret", acl=acl(["alice"]))
    observe(mine, "open", "open", relations=[("about", "secret")])
    theirs = Facts(faces.of("bob").call)
    with pytest.raises(PermissionDenied):
        theirs.bundle(["alice:open"])
    with pytest.raises(NotFound):
        theirs.bundle(["alice:secret"])
    assert len(Facts(mine.call).bundle(["open"])["records"]) == 1


def test_the_command_checks_a_bundle_and_says_what_it_proves(bundle: dict[str, Any], tmp_path: Any) -> None:
    file = tmp_path / "bundle.json"
    file.write_text(json.dumps(bundle))
    ran = CliRunner().invoke(main, ["verify-bundle", str(file), "--root", bundle["root"]])
    assert ran.exit_code == 0, ran.output
    assert "Ada lives_in Paris" in ran.output
    assert bundle["root"] in ran.output
    file.write_text(json.dumps(bundle).replace("1815", "1816"))
    ran = CliRunner().invoke(main, ["verify-bundle", str(file)])
    assert ran.exit_code == 1
    assert "SOURCE_MISMATCH" in ran.output
    file.write_text("{")
    assert CliRunner().invoke(main, ["verify-bundle", str(file)]).exit_code == 2


# Signed roots.


def _verify_root(tmp_path: Path, note: str, *options: str, key: str = SIGNING_KEY.verifier.text) -> Result:
    file = tmp_path / "root.note"
    file.write_text(note, encoding="utf-8")
    return CliRunner().invoke(main, ["verify-root", str(file), "--key", key, *options])


def test_a_signed_root_is_the_runs_and_anybody_can_check_it(facts: Facts) -> None:
    written = facts.upsert("Ada", "lives_in", "Paris", valid_from=year(1))
    told, verified = facts.signed_root(), facts.verify()
    checkpoint = verified_checkpoint(told["note"].encode(), SIGNING_KEY.verifier)
    assert told["root"] == checkpoint.root == written["root"] == verified["root"]
    assert told["revision"] == checkpoint.revision == 1
    assert told["size"] == checkpoint.size == verified["leaves"]
    assert (checkpoint.job_id, checkpoint.run_id) == ("job", "run")
    assert told["note"].startswith("membrane/job/run\n")


def test_the_root_of_a_run_without_a_record_is_signed_too(facts: Facts) -> None:
    checkpoint = verified_checkpoint(facts.signed_root()["note"].encode(), SIGNING_KEY.verifier)
    assert (checkpoint.size, checkpoint.revision, checkpoint.root) == (0, 0, EMPTY_ROOT)
    assert checkpoint.tree == hashlib.sha256().hexdigest()


def test_an_earlier_revisions_root_is_signed_as_it_was_then(facts: Facts) -> None:
    signed = [facts.signed_root()]
    for number in range(1, 8):
        facts.upsert("Ada", "counts", str(number), valid_from=year(number))
        signed.append(facts.signed_root())
    assert [facts.signed_root(revision=number) for number in range(8)] == signed
    with pytest.raises(InvalidInput) as refused:
        facts.signed_root(revision=8)
    assert refused.value.field == "revision"


def test_a_revision_that_comes_while_one_asks_is_not_there_yet(
    facts: Facts, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head is read once, and nothing after it is told."""
    facts.upsert("Ada", "counts", "1", valid_from=year(1))
    head = engine.store.run(run_key("job", "run"))
    facts.upsert("Ada", "counts", "2", valid_from=year(2))
    monkeypatch.setattr(engine.store, "run", lambda _: head)
    with pytest.raises(InvalidInput):
        facts.signed_root(revision=2)
    assert facts.signed_root()["revision"] == 1


def test_what_was_stored_between_two_revisions_belongs_to_the_earlier_one(faces: Faces) -> None:
    """An artifact is a leaf and makes no revision: of one revision's roots the last one is signed."""
    transport = faces.of()
    opened(transport)
    facts = Facts(transport.call)
    facts.upsert("a", "b", "c", valid_from=year(1))
    before = facts.signed_root()
    put(transport, b"a file")
    between = facts.signed_root()
    facts.upsert("a", "b", "d", valid_from=year(2))
    assert (between["revision"], between["size"]) == (1, before["size"] + 1)
    assert facts.signed_root(revision=1) == between


def test_a_record_that_was_changed_signs_no_earlier_root(
    facts: Facts, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leaves up to the root that is asked for are looked at, those from there to the newest, and the chain."""
    for number in range(4):
        facts.upsert("Ada", "counts", str(number), valid_from=year(number))
    size = facts.signed_root(revision=2)["size"]
    leaves, roots = engine.store.leaf_hashes(run_key("job", "run")), engine.store.roots(run_key("job", "run"))
    for at in (0, size, len(leaves) - 1):
        changed = [*leaves[:at], bytes(32), *leaves[at + 1 :]]
        with monkeypatch.context() as patched:
            patched.setattr(engine.store, "leaf_hashes", lambda _, hashes=changed: hashes)
            with pytest.raises(SourceMismatch):
                facts.signed_root(revision=2)
    other = [dataclasses.replace(at, root="0" * 64) if at.revision == 2 else at for at in roots]
    monkeypatch.setattr(engine.store, "roots", lambda _: other)
    with pytest.raises(SourceMismatch):
        facts.signed_root(revision=2)


def test_the_command_checks_a_signed_root_and_a_bundle_under_it(
    facts: Facts, bundle: dict[str, Any], tmp_path: Path
) -> None:
    signed = facts.signed_root()
    file = tmp_path / "bundle.json"
    file.write_text(json.dumps(bundle))
    ran = _verify_root(tmp_path, signed["note"])
    assert ran.exit_code == 0, ran.output
    assert "example.com/membrane signed job job, run run, revision" in ran.output
    assert signed["root"] in ran.output
    ran = _verify_root(tmp_path, signed["note"], "--bundle", str(file))
    assert ran.exit_code == 0, ran.output
    assert "Ada lives_in Paris" in ran.output
    facts.upsert("Ada", "counts", "more", valid_from=year(99))
    ran = _verify_root(tmp_path, facts.signed_root()["note"], "--bundle", str(file))
    assert (ran.exit_code, "bundle's root is not the signed one" in ran.output) == (1, True), ran.output
    again = facts.signed_root(revision=bundle["revision"])
    assert again == signed
    file.write_text(json.dumps(bundle).replace("1815", "1816"))
    ran = _verify_root(tmp_path, signed["note"], "--bundle", str(file))
    assert (ran.exit_code, "SOURCE_MISMATCH" in ran.output) == (1, True)
    file.write_text("{")
    assert _verify_root(tmp_path, signed["note"], "--bundle", str(file)).exit_code == 2


@pytest.mark.parametrize("name", ["size", "tree", "revision", "job_id", "run_id"])
def test_a_bundle_under_another_checkpoint_is_refused_by_the_part_that_differs(
    name: str, facts: Facts, bundle: dict[str, Any]
) -> None:
    """Also where the root is the same: what a signer puts beside it must be what the root is of."""
    signed = verified_checkpoint(facts.signed_root()["note"].encode(), SIGNING_KEY.verifier)
    other = "0" * 64 if name == "tree" else "other" if name.endswith("_id") else 1
    with pytest.raises(SourceMismatch) as refused:
        proved_under(dataclasses.replace(signed, **{name: other}), json.dumps(bundle).encode())
    assert refused.value.detail["field"] == name


def test_the_command_says_in_one_line_what_is_wrong_with_a_note(facts: Facts, tmp_path: Path) -> None:
    note = facts.signed_root()["note"]
    other = SigningKey("example.com/membrane", bytes(32)).verifier.text
    for changed, key, code in (
        (note.replace("membrane/job/run", "membrane/job/other"), SIGNING_KEY.verifier.text, 1),
        (note, other, 1),
        (note, "a key", 2),
        (note.removesuffix("\n"), SIGNING_KEY.verifier.text, 2),
        (json.dumps({"note": note}), SIGNING_KEY.verifier.text, 2),
        (SIGNING_KEY.signed("something else\n"), SIGNING_KEY.verifier.text, 2),
    ):
        ran = _verify_root(tmp_path, changed, key=key)
        assert ran.exit_code == code, (changed, ran.output)
        assert len(ran.output.splitlines()) == 1
    assert CliRunner().invoke(main, ["verify-root", "-"], input=note).exit_code == 2, "no key"


def test_keygen_makes_a_key_that_signs_and_overwrites_none(facts: Facts, tmp_path: Path) -> None:
    file = tmp_path / "root.key"
    ran = CliRunner().invoke(main, ["keygen", "example.com/membrane", str(file)])
    assert ran.exit_code == 0, ran.output
    assert file.stat().st_mode & 0o777 == 0o600
    key = read_signing_key({"MN_CONTEXT_SIGNING_KEY_FILE": str(file)})
    assert key is not None
    assert ran.output == f"{key.verifier.text}\n"
    signed = verified_checkpoint(facts.signed_root()["note"].encode(), SIGNING_KEY.verifier).signed(key)
    assert _verify_root(tmp_path, signed, key=ran.output.strip()).exit_code == 0
    kept = file.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for arguments in (
        ["a", str(file)],
        ["a b", str(tmp_path / "x")],
        ["a", str(tmp_path / "no" / "x")],
        ["a", str(link)],
    ):
        ran = CliRunner().invoke(main, ["keygen", *arguments])
        assert (ran.exit_code, len(ran.output.splitlines())) == (2, 1), ran.output
    assert file.read_bytes() == kept
    assert not (tmp_path / "x").exists()
    CliRunner().invoke(main, ["keygen", "example.com/membrane", str(tmp_path / "other")])
    assert (tmp_path / "other").read_bytes() != kept


# Integrity.


def test_a_root_that_was_kept_is_one_of_the_runs(facts: Facts) -> None:
    kept = facts.upsert("a", "b", "c", valid_from=year(1))["root"]
    facts.upsert("a", "b", "d", valid_from=year(2))
    assert facts.verify(kept)["holds"]
    with pytest.raises(InvalidInput) as refused:
        facts.verify("f" * 64)
    assert refused.value.field == "expected_root"


def test_candidates_are_proposed_and_not_recorded(facts: Facts) -> None:
    before = facts.verify()
    (found,) = facts.propose("Ada lives in Paris.")
    assert (found["subject"], found["predicate"], found["object"]) == ("Ada", "lives in", "Paris")
    assert facts.verify() == before
