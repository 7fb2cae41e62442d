"""Reads: columns between revisions, cards by ordinal, and what became of them."""

from __future__ import annotations

import pytest

from mn_contract.errors import NotFound
from mn_engine.domain.access import Acl
from mn_engine.domain.cards import CardKey, Kind, Relation, Stance, Validation, ordinal_of
from mn_engine.store.port import INDEX_CARDS, INDEX_ENDINGS, INDEX_RELATIONS, Store
from tests.storing import KEY, NOW, batch, card, event, observe, open_run, resolving, supersedes


def test_columns_have_the_ports_schemas_even_where_there_is_nothing(store: Store) -> None:
    open_run(store)
    for upto in (0, 1):
        columns = store.index_columns(KEY, after=0, upto=upto)
        assert columns.cards.schema.equals(INDEX_CARDS)
        assert columns.relations.schema.equals(INDEX_RELATIONS)
        assert columns.endings.schema.equals(INDEX_ENDINGS)
        observe(store, f"a{upto}")


def test_columns_between_revisions_join_up(store: Store) -> None:
    """Invariant 4: what is read in pieces is what is read at once, each row once."""
    open_run(store)
    for number in range(6):
        relations = supersedes(f"c{number - 1}") if number else ()
        observe(store, f"c{number}", relations=relations)
    whole = store.index_columns(KEY, after=0, upto=6)
    for cut in range(7):
        first = store.index_columns(KEY, after=0, upto=cut)
        rest = store.index_columns(KEY, after=cut, upto=6)
        for name in ("cards", "relations", "endings"):
            joined = getattr(first, name).to_pylist() + getattr(rest, name).to_pylist()
            assert joined == getattr(whole, name).to_pylist()


def test_a_card_comes_back_as_it_was_written(store: Store) -> None:
    open_run(store)
    observe(store, "a")
    rich = card(
        "rich",
        'Text with \0, \u2028, 中文, emoji 🜲 and \\ " quotes',
        summary="a summary",
        kind=Kind.OBLIGATION,
        stance=Stance.MIXED,
        topics=("pricing", "naïve"),
        entities=("Ada",),
        claims=(("it holds", Stance.OPPOSES),),
        validation=Validation.VALIDATED,
        confidence=0.1,
        trust=1.0,
        occurred_at=-5,
        valid_from=NOW,
        valid_until=NOW + 1,
        source_url="https://example.org/?q=1",
        relations=(Relation("follows", CardKey("ada", "a")),),
        acl=Acl(allow_principals=frozenset({"bob"}), deny_roles=frozenset({"guest"})),
        occurrences=3,
    )
    store.commit(batch(event("e", rich)))
    (stored,) = store.cards(KEY, [ordinal_of(2, 0)], revision=2)
    assert stored.card == rich.card
    row = store.index_columns(KEY, after=1, upto=2).cards.to_pylist()[0]
    assert (row["kind"], row["stance"], row["occurred_at"]) == (5, 3, -5)
    assert row["acl"] == '{"allow_principals":["bob"],"deny_roles":["guest"]}'
    assert row["key_hash"] == rich.card.key.hash


def test_cards_come_in_the_order_they_are_asked_for(store: Store) -> None:
    open_run(store)
    for name in "abc":
        observe(store, name)
    asked = [ordinal_of(3, 0), ordinal_of(1, 0), ordinal_of(3, 0), ordinal_of(2, 0)]
    assert [stored.card.id for stored in store.cards(KEY, asked, revision=3)] == ["c", "a", "c", "b"]
    assert store.cards(KEY, [], revision=3) == []


@pytest.mark.parametrize("ordinal", [0, ordinal_of(1, 1), ordinal_of(2, 0), ordinal_of(9, 0)])
def test_a_card_that_is_not_there_yet_is_not_found(store: Store, ordinal: int) -> None:
    open_run(store)
    observe(store, "a")
    observe(store, "b")
    with pytest.raises(NotFound):
        store.cards(KEY, [ordinal_of(1, 0), ordinal], revision=1)


def test_what_became_of_a_card_is_told_as_of_the_revision(store: Store) -> None:
    """Invariant 4: at an earlier revision it is still live. A card's first ending of a kind counts."""
    open_run(store)
    observe(store, "a")
    observe(store, "b", relations=supersedes("a"))
    observe(store, "c", relations=(*supersedes("a"), *resolving("a")))
    store.commit(batch(event("e", resolves=(CardKey("ada", "b"),))))
    ordinal = ordinal_of(1, 0)

    def told(revision: int) -> tuple[int | None, CardKey | None, int | None]:
        (stored,) = store.cards(KEY, [ordinal], revision=revision)
        return stored.superseded_revision, stored.superseded_by, stored.resolved_revision

    assert told(1) == (None, None, None)
    assert told(2) == (2, CardKey("ada", "b"), None)
    assert told(3) == (2, CardKey("ada", "b"), 3)
    (resolved,) = store.cards(KEY, [ordinal_of(2, 0)], revision=4)
    assert resolved.resolved_revision == 4
    assert resolved.superseded_by is None


def test_two_endings_in_one_revision_count_in_the_order_of_the_batch(store: Store) -> None:
    open_run(store)
    observe(store, "a")
    store.commit(batch(event("e", card("b", relations=supersedes("a")), card("c", relations=supersedes("a")))))
    (stored,) = store.cards(KEY, [ordinal_of(1, 0)], revision=2)
    assert stored.superseded_by == CardKey("ada", "b")


def test_whoever_catches_up_step_by_step_misses_no_link(store: Store) -> None:
    """Also after many revisions that had none."""
    open_run(store)
    expected: list[tuple[int, int]] = []
    for number in range(1, 30):
        linked = number % 7 == 3
        observe(store, f"c{number}", relations=supersedes(f"c{number - 1}") if linked else ())
        found = store.index_columns(KEY, after=number - 1, upto=number)
        expected.append((int(linked), int(linked)))
        assert (found.relations.num_rows, found.endings.num_rows) == expected[-1], number
    whole = store.index_columns(KEY, after=0, upto=29)
    assert whole.relations.num_rows == whole.endings.num_rows == sum(one for one, _ in expected)
    assert store.index_columns(KEY, after=28, upto=29).relations.schema == whole.relations.schema
