"""Views that several decisions share."""

from __future__ import annotations

from mn_engine.service.indexes import Indexes
from tests.unit.recall.corpus import Record, card, scope


def test_those_who_ask_alike_share_a_view_and_nobody_else_does() -> None:
    record = Record()
    record.add(card("a"))
    indexes = Indexes(record.store)
    view = indexes.view(scope(), 1)
    assert indexes.view(scope(), 1) is view
    assert indexes.view(scope("bob"), 1) is not view
    assert indexes.view(scope("alice", "team"), 1) is not view, "roles are part of who asks"


def test_a_view_kept_from_before_a_write_does_not_hold_the_older_index() -> None:
    record = Record()
    record.add(card("a"))
    indexes = Indexes(record.store)
    before = indexes.view(scope(), 1)
    record.add(card("b"))
    assert indexes.view(scope(), 2).visible_count == 2
    again = indexes.view(scope(), 1)
    assert again.index is not before.index
    assert again.visible_count == before.visible_count == 1


def test_few_views_are_kept() -> None:
    record = Record()
    record.add(card("a"))
    indexes = Indexes(record.store)
    first = indexes.view(scope(), 1)
    for number in range(20):
        indexes.view(scope(f"reader-{number}"), 1)
    assert indexes.view(scope(), 1) is not first
