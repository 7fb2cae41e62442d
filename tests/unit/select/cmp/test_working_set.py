"""A session's working set against a naive model: every delta by definition, over random sessions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from mn_contract.limits import SESSION_CENTROID_TERMS, SESSION_KNOWN_MAX, SESSION_TRAJECTORY_TURNS, SESSION_TTL_TURNS
from mn_engine.select.cmp.working_set import Delta, Fate, WorkingSet, advance

ORDINALS = st.integers(0, 14)


@dataclass
class Naive:
    """The laws, written down as they are said."""

    turn: int = 0
    served: dict[int, tuple[int, str]] = field(default_factory=dict)

    def advance(self, pack: dict[int, str], fate: Fate) -> Delta:
        self.turn += 1
        stale = {one for one in self.served if one in fate.heads and one not in pack and one not in fate.hidden}
        for one in list(self.served):
            if (one in fate.hidden or one in stale) and one not in pack:
                del self.served[one]
        new = [one for one in pack if one not in self.served]
        fresh = {one for one in pack if one not in self.served or self.served[one][1] != pack[one]}
        for one, mark in pack.items():
            self.served[one] = (self.turn, mark)
        cold = [
            one
            for one in sorted(self.served)
            if one not in pack and self.turn - self.served[one][0] >= SESSION_TTL_TURNS and one not in fate.unseen
        ]
        for one in cold:
            del self.served[one]
        heads = [(one, fate.heads[one] if fate.heads[one] in self.served else None) for one in sorted(stale)]
        return Delta(
            new=tuple(new), evicted=tuple(cold), superseded=tuple(heads), fresh=frozenset(fresh), cursor=self.turn
        )


TURNS = st.lists(
    st.tuples(
        st.dictionaries(ORDINALS, st.sampled_from(["a", "b"]), max_size=6),
        st.sets(ORDINALS, max_size=2),
        st.dictionaries(ORDINALS, st.none() | ORDINALS, max_size=3),
        st.sets(ORDINALS, max_size=2),
    ),
    max_size=20,
)


@settings(max_examples=500)
@given(TURNS)
def test_every_delta_is_the_naive_models(
    turns: list[tuple[dict[int, str], set[int], dict[int, int | None], set[int]]],
) -> None:
    """delta_no_resend, eviction_soundness, and that nothing hidden is named (delta_no_leak)."""
    state, naive = WorkingSet(), Naive()
    for pack, hidden, heads, unseen in turns:
        hidden, heads = hidden - pack.keys(), {one: head for one, head in heads.items() if one not in pack}
        fate = Fate(hidden=frozenset(hidden), heads=heads, unseen=frozenset(unseen - hidden - heads.keys()))
        known = set(state.known)
        state, delta = advance(state, list(pack.items()), tokens=1, terms=(), fate_of=lambda _, fate=fate: fate)
        assert delta == naive.advance(pack, fate)
        assert {one: (served.turn, served.mark) for one, served in state.known.items()} == naive.served
        assert not known & set(delta.new), "nothing known is new"
        named = {*delta.new, *delta.evicted, *(one for one, _ in delta.superseded)}
        assert not named & hidden
        assert WorkingSet.decode(state.encoded()) == state


def _fate(_: Iterable[int]) -> Fate:
    return Fate()


def _served(state: WorkingSet, *ordinals: int) -> tuple[WorkingSet, Delta]:
    return advance(state, [(one, "m") for one in ordinals], tokens=1, terms=(), fate_of=_fate)


def test_what_is_not_served_for_four_turns_is_evicted_and_new_when_it_returns() -> None:
    state, _ = _served(WorkingSet(), 1, 2)
    for _ in range(SESSION_TTL_TURNS - 1):
        state, delta = _served(state, 2)
        assert delta.evicted == ()
    state, delta = _served(state, 2)
    assert delta.evicted == (1,)
    state, delta = _served(state, 1, 2)
    assert delta.new == (1,)


def test_the_known_set_is_capped_oldest_first_without_a_word() -> None:
    state, _ = _served(WorkingSet(), *range(300))
    state, delta = _served(state, *range(300, 600))
    assert len(state.known) == SESSION_KNOWN_MAX
    assert delta.evicted == ()
    assert set(range(300, 600)) <= set(state.known)
    assert min(state.known) == 600 - SESSION_KNOWN_MAX
    _, delta = _served(state, 0, 599)
    assert delta.new == (0,), "what was pushed out is new when it returns"


def test_the_trajectory_keeps_eight_turns() -> None:
    state = WorkingSet()
    for turn in range(20):
        state, _ = _served(state, turn)
    assert [step.turn for step in state.trajectory] == list(range(21 - SESSION_TRAJECTORY_TURNS, 21))
    assert state.trajectory[-1].ordinals == (19,)


def test_the_centroid_follows_what_is_asked() -> None:
    state = WorkingSet()
    for term in ("old", "old", "new"):
        state, _ = advance(state, [], tokens=0, terms=[term, term], fate_of=_fate)
    assert state.centroid == (("new", 1024), ("old", 768))
    for number in range(100):
        state, _ = advance(state, [], tokens=0, terms=[f"t{number}", f"u{number}"], fate_of=_fate)
    assert len(state.centroid) <= 64
    assert dict(state.centroid).keys() >= {"t99", "u99"}


def test_a_long_question_leaves_its_heaviest_terms() -> None:
    """The state is bounded, whatever is asked."""
    state, _ = advance(WorkingSet(), [], tokens=0, terms=["early"], fate_of=_fate)
    asked = ["early", *(f"w{number:04d}" for number in range(4 * SESSION_CENTROID_TERMS))]
    state, _ = advance(state, [], tokens=0, terms=asked, fate_of=_fate)
    assert len(state.centroid) == SESSION_CENTROID_TERMS
    assert state.centroid[0] == ("early", 1536)
