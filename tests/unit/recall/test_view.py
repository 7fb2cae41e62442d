"""What a reader sees: only what is live at the revision (4), and no trace of anything else (7)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mn_contract.errors import InvalidInput, NotFound
from mn_engine.domain.access import Acl
from mn_engine.domain.cards import CONTRADICTS, RESOLVES, SUPERSEDES, Card, CardKey, Kind, Relation
from mn_engine.recall.columns import UNKNOWN_TIME
from mn_engine.recall.view import View
from tests.unit.recall.corpus import SAMPLE, Record, batches_of_cards, card, recorded, scope
from tests.unit.recall.reference import visible_cards

FOR_BOB = Acl(allow_principals=frozenset({"bob"}))
NOT_FOR_ALICE = Acl(deny_principals=frozenset({"alice"}))
ALICE, BOB = scope("alice"), scope("bob")


def seen(view: View) -> list[CardKey]:
    """The keys of what a view shows, oldest first."""
    return [view.index.key(place) for place in range(view.count) if view.visible[place]]


@SAMPLE
@given(batches_of_cards())
def test_a_view_shows_what_is_readable_and_live_at_its_revision(batches: list[list[Card]]) -> None:
    """Invariants 4 and 7, at every revision, for everybody."""
    index = recorded(batches).index()
    for reader in (ALICE, BOB, scope("carol")):
        for revision in range(index.revision + 1):
            expected = visible_cards(batches, reader, revision)
            view = View(index, reader, revision)
            assert seen(view) == [card.key for card in expected]
            assert view.visible_count == len(expected)


def test_roles_open_and_close_cards() -> None:
    record = recorded(
        [
            [
                card("a", acl=Acl(allow_roles=frozenset({"auditor"}))),
                card("b", owner="bob", acl=Acl(allow_roles=frozenset({"auditor"}), deny_roles=frozenset({"intern"}))),
            ]
        ]
    )
    assert seen(record.view(scope("alice"))) == [CardKey("alice", "a")]
    assert len(seen(record.view(scope("carol", "auditor")))) == 2
    assert len(seen(record.view(scope("carol", "auditor", "intern")))) == 1
    assert seen(record.view(scope("carol"))) == []


def test_a_card_may_require_roles_of_its_owner_too() -> None:
    record = recorded([[card("a", acl=Acl(require_roles=frozenset({"auditor", "lead"})))]])
    for principal in ("alice", "bob"):
        assert seen(record.view(scope(principal, "auditor", "lead", "intern"))) == [CardKey("alice", "a")]
        assert seen(record.view(scope(principal, "auditor"))) == []
        assert seen(record.view(scope(principal))) == []


ACLS = st.builds(Acl, **{name: st.frozensets(st.sampled_from("ab"), max_size=2) for name in Acl().__slots__})


@SAMPLE
@given(ACLS, ACLS)
@example(Acl(), Acl(require_roles=frozenset("a")))
def test_whom_a_narrower_acl_permits_the_wider_one_permits(acl: Acl, wider: Acl) -> None:
    """Invariant 7: what a card cites is seen by nobody who may not read it."""
    readers = [scope(principal, *roles) for principal in "abc" for roles in ((), "a", "b", "ab")]
    if acl.within(wider):
        assert all(wider.permits(r, owner="o") for r in readers if acl.permits(r, owner="o"))


class TestResolve:
    """References, as mn_contract.names has them."""

    record = recorded(
        [
            [card("mine"), card("both"), card("both", owner="bob"), card("theirs", owner="bob")],
            [card("many", owner="bob"), card("many", owner="carol"), card("secret", owner="bob", acl=FOR_BOB)],
            [card("newer", relations=(Relation(SUPERSEDES, CardKey("alice", "both")),))],
        ]
    )

    def name(self, ref: str, *, live: bool = True, revision: int | None = None) -> CardKey:
        view = self.record.view(ALICE, revision)
        return view.key(view.resolve(ref, live=live))

    def test_a_bare_id_is_ones_own_card_else_the_only_one_of_another(self) -> None:
        assert self.name("mine") == CardKey("alice", "mine")
        assert self.name("both", revision=1) == CardKey("alice", "both")
        assert self.name("theirs") == CardKey("bob", "theirs")

    def test_a_full_reference_is_exact(self) -> None:
        assert self.name("bob:both") == CardKey("bob", "both")
        with pytest.raises(NotFound):
            self.name("bob:mine")

    def test_ones_own_superseded_card_is_not_anothers_live_one(self) -> None:
        with pytest.raises(NotFound):
            self.name("both")
        assert self.name("both", live=False) == CardKey("alice", "both")

    def test_an_id_that_several_others_use_is_ambiguous(self) -> None:
        with pytest.raises(InvalidInput, match=r"ambiguous.*bob:many, carol:many"):
            self.name("many")

    def test_what_was_not_there_yet_is_not_found(self) -> None:
        with pytest.raises(NotFound):
            self.name("many", revision=1)

    @pytest.mark.parametrize("live", [True, False])
    def test_hidden_and_absent_are_told_in_the_same_words(self, live: bool) -> None:
        """Invariant 7."""
        told = []
        for ref in ("secret", "absent", "bob:secret", "bob:absent"):
            with pytest.raises(NotFound) as caught:
                self.name(ref, live=live)
            told.append((caught.value.message.replace(ref, "REF"), caught.value.detail))
        assert len({str(one) for one in told}) == 1

    def test_superseded_is_told_as_absent_is(self) -> None:
        with pytest.raises(NotFound) as superseded:
            self.name("alice:both")
        with pytest.raises(NotFound) as absent:
            self.name("alice:gone")
        assert superseded.value.message.replace("alice:both", "") == absent.value.message.replace("alice:gone", "")

    def test_a_hidden_namesake_makes_nothing_ambiguous(self) -> None:
        """Invariant 7: bob's hidden `x` must not be felt when carol's is asked for."""
        view = recorded([[card("x", owner="bob", acl=FOR_BOB), card("x", owner="carol")]]).view(ALICE)
        assert view.key(view.resolve("x")) == CardKey("carol", "x")

    @pytest.mark.parametrize("ref", ["", "a b", "a:b:c", ":a", "a:", "é"])
    def test_what_is_no_reference_is_refused(self, ref: str) -> None:
        with pytest.raises(InvalidInput):
            self.name(ref)


class TestEndings:
    """Superseding and resolving, and who can tell."""

    def test_a_hidden_card_ends_nothing_for_those_who_cannot_read_it(self) -> None:
        """Invariant 7: its very effect would be a trace. Its readers see the card ended (invariant 4)."""
        old = card("old", owner="bob")
        task = card("task", owner="bob", kind=Kind.OBLIGATION)
        links = (Relation(SUPERSEDES, old.key), Relation(RESOLVES, task.key))
        record = recorded([[old, task], [card("new", owner="bob", acl=FOR_BOB, relations=links)]])
        assert seen(record.view(ALICE)) == [old.key, task.key]
        assert seen(record.view(BOB)) == [task.key, CardKey("bob", "new")]
        for reader, gone in ((ALICE, None), (BOB, (2, CardKey("bob", "new")))):
            view = record.view(reader)
            assert view.superseded_by(view.resolve("bob:old", live=False)) == gone
            assert view.resolved_by(view.resolve("bob:task")) == gone
            assert bool(view.open_obligations().any()) == (gone is None)

    def test_a_cards_first_ending_counts_and_only_from_its_revision_on(self) -> None:
        old = card("old")
        replaces = (Relation(SUPERSEDES, old.key),)
        record = recorded([[old], [card("new", relations=replaces)], [card("newer", relations=replaces)]])
        assert record.view(ALICE, 1).superseded_by(record.view().resolve("old", live=False)) is None
        assert record.view(ALICE).superseded_by(record.view().resolve("old", live=False)) == (
            2,
            CardKey("alice", "new"),
        )

    def test_an_event_resolves_for_everybody(self) -> None:
        record = Record()
        task = card("task", kind=Kind.OBLIGATION, owner="bob")
        record.add(task)
        record.add(resolves=[task.key])
        for reader in (ALICE, BOB):
            assert record.view(reader, 1).open_obligations().tolist() == [True]
            assert record.view(reader).open_obligations().tolist() == [False]
            assert record.view(reader).resolved_by(record.view(reader).resolve("bob:task")) == (2, None)
        assert seen(record.view(ALICE)) == [task.key], "resolved, not superseded"


class TestConflicts:
    """Contradictions among what is seen."""

    def conflicts(self, record: Record, of: str, reader: str = "alice", revision: int | None = None) -> list[str]:
        view = record.view(scope(reader), revision)
        return [view.ref(view.place(ordinal)) for ordinal in view.conflicts(view.resolve(of, live=False))]

    def test_a_contradiction_is_seen_from_both_sides_and_once(self) -> None:
        one, other = CardKey("alice", "a"), CardKey("bob", "b")
        mutual = recorded(
            [
                [
                    card("a", relations=(Relation(CONTRADICTS, other),)),
                    card("b", owner="bob", relations=(Relation(CONTRADICTS, one), Relation("mentions", one))),
                ]
            ]
        )
        assert self.conflicts(mutual, "a") == ["bob:b"]
        assert self.conflicts(mutual, "b") == ["a"]

    def test_hidden_and_superseded_cards_conflict_with_nothing(self) -> None:
        """Invariants 4 and 7."""
        record = recorded(
            [
                [card("a")],
                [card("b", relations=(Relation(CONTRADICTS, CardKey("alice", "a")),))],
                [card("s", owner="bob", acl=NOT_FOR_ALICE, relations=(Relation(CONTRADICTS, CardKey("alice", "a")),))],
                [card("c", relations=(Relation(SUPERSEDES, CardKey("alice", "b")),))],
            ]
        )
        assert self.conflicts(record, "a", revision=1) == []
        assert self.conflicts(record, "a", revision=3) == ["b"]
        assert self.conflicts(record, "a") == []
        assert self.conflicts(record, "alice:a", reader="bob") == ["s"]


@SAMPLE
@given(batches_of_cards(), st.integers(0, 40))
def test_between_two_times_at_which_something_begins_or_ends_all_holds_alike(
    batches: list[list[Card]], time: int
) -> None:
    """Invariant 5: whoever asks of either shares a view."""
    index = recorded(batches).index()
    settled = index.settled(time)
    assert settled <= time
    for reader in (ALICE, BOB):
        views = [View(index, reader, index.revision, at) for at in (time, settled)]
        assert seen(views[0]) == seen(views[1])
    if batches:
        bounds = {bound for cards in batches for card in cards for bound in (card.valid_from, card.valid_until)}
        assert settled in {*bounds, UNKNOWN_TIME}
