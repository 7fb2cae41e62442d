"""What stands around a pack: a graph of a bounded size, and queries that can be sent as they are."""

from __future__ import annotations

from mn_contract.limits import FOLLOW_UPS_MAX, GRAPH_ENTITIES_MAX, GRAPH_LINKS_MAX, QUERY_TEXT_BYTES_MAX
from mn_engine.domain.packets import Decision
from mn_engine.domain.queries import MemoryQuery
from mn_engine.select.cmp.around import follow_ups, graph_of
from tests.unit.select.cmp.memories import OWNER, memory


def test_the_graph_shows_the_entities_of_most_items() -> None:
    items = [memory(f"m{n}", "text", entities=("Ada", f"E{n:02d}", f"F{n:02d}")) for n in range(30)]
    graph = graph_of(items, OWNER)
    assert graph is not None
    names = [one["entity"] for one in graph["entities"]]
    assert (len(names), names[0]) == (GRAPH_ENTITIES_MAX, "Ada")
    assert graph["entities"][0]["refs"] == [f"m{n}" for n in range(30)]
    assert len(graph["links"]) <= GRAPH_LINKS_MAX
    assert {name for link in graph["links"] for name in link["between"]} <= set(names), "links are of what is shown"


def test_an_entity_is_one_however_it_is_spelt() -> None:
    items = [
        memory("a", "text", entities=(" Priya", "Atlas")),
        memory("b", "text", entities=("priya", "PRIYA ", "atlas")),
        memory("c", "text", entities=("  ",)),
    ]
    graph = graph_of(items, OWNER)
    assert graph == {
        "entities": [{"entity": "Atlas", "refs": ["a", "b"]}, {"entity": "Priya", "refs": ["a", "b"]}],
        "links": [{"between": ["Atlas", "Priya"], "refs": ["a", "b"]}],
    }
    (atlas, priya) = follow_ups(items, Decision(focus="?"), budget=6000, pending=0)
    assert (atlas["find"], priya["find"]) == ("Atlas", "Priya")
    assert graph_of([memory("c", "text", entities=(" ",)), memory("d", "text")], OWNER) is None


def test_what_was_asked_is_not_suggested() -> None:
    items = [memory("a", "text", entities=("Ada", "Bob", "Cleo"))]
    decision = Decision(focus="What does ADA own?", entities=("bob ",))
    assert [query["find"] for query in follow_ups(items, decision, budget=6000, pending=0)] == ["Cleo"]


def test_suggestions_can_be_sent() -> None:
    """A task may be longer than a question, and a label blank: no query is made of them, and others move up."""
    items = [memory(f"m{n}", "text", entities=("  ", f"E{n}")) for n in range(5)]
    for focus in ("short", "long " * QUERY_TEXT_BYTES_MAX):
        told = follow_ups(items, Decision(focus=focus[:60_000]), budget=300, pending=1)
        assert len(told) == FOLLOW_UPS_MAX
        assert ("ask" in told[0]) == (focus == "short")
        for query in told:
            assert MemoryQuery.from_json(query)
