"""A session's working set: what its model was served, and what changed with the pack that it is served now.

The state is a value; a turn makes the next one and a delta. Three laws: the delta names only memories that the reader
may read (delta_no_leak); what is known is never called new (delta_no_resend); only what is absent from the pack and was
not served for SESSION_TTL_TURNS turns is evicted (eviction_soundness). What leaves the known set - evicted, superseded,
or pushed out by SESSION_KNOWN_MAX, the longest unserved first - is new when it comes back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mn_contract.canonical import encoded
from mn_contract.limits import (
    SESSION_CENTROID_TERMS,
    SESSION_KNOWN_MAX,
    SESSION_TRAJECTORY_TURNS,
    SESSION_TTL_TURNS,
)

_TERM_WEIGHT: Final = 1024
_FADING: Final = 2
"""With each turn a term of an earlier one weighs half."""


@dataclass(frozen=True, slots=True)
class Served:
    """When a memory was last served, and a mark of how it stood then."""

    turn: int
    mark: str


@dataclass(frozen=True, slots=True)
class Step:
    """A turn of the trajectory: the tokens and the ordinals of its pack."""

    turn: int
    tokens: int
    ordinals: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingSet:
    """A session's state. `known` maps ordinals to when they were served; `centroid` are terms of what was asked, with
    weights, the heaviest first: what the session is about."""

    turn: int = 0
    known: Mapping[int, Served] = field(default_factory=dict)
    trajectory: tuple[Step, ...] = ()
    centroid: tuple[tuple[str, int], ...] = ()

    def encoded(self) -> str:
        """Canonical JSON."""
        document = {
            "turn": self.turn,
            "known": [[ordinal, served.turn, served.mark] for ordinal, served in sorted(self.known.items())],
            "trajectory": [[step.turn, step.tokens, list(step.ordinals)] for step in self.trajectory],
            "centroid": [list(entry) for entry in self.centroid],
        }
        return encoded(document).decode("utf-8")

    @classmethod
    def decode(cls, text: str) -> WorkingSet:
        """The inverse of encoded; a new session's where the text is empty."""
        if not text:
            return cls()
        document: dict[str, Any] = json.loads(text)
        return cls(
            turn=document["turn"],
            known={ordinal: Served(turn, mark) for ordinal, turn, mark in document["known"]},
            trajectory=tuple(Step(turn, tokens, tuple(some)) for turn, tokens, some in document["trajectory"]),
            centroid=tuple((term, weight) for term, weight in document["centroid"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What changed, as ordinals. `superseded` maps what no longer holds to its live head where the session has that;
    `fresh` is what the session does not have as it stands now: what is new, and what stands in another form."""

    new: tuple[int, ...]
    evicted: tuple[int, ...]
    superseded: tuple[tuple[int, int | None], ...]
    fresh: frozenset[int]
    cursor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What has become of memories that a session knows, as its reader sees it: which may not be named at all, and the
    live heads of those that were superseded (None: it has none that may be named). `unseen` were recorded later than
    the reader looks, and served by a call that overtook this one: they stay as they are."""

    unseen: frozenset[int] = frozenset()
    hidden: frozenset[int] = frozenset()
    heads: Mapping[int, int | None] = field(default_factory=dict)


def advance(
    before: WorkingSet,
    pack: Sequence[tuple[int, str]],
    *,
    tokens: int,
    terms: Iterable[str],
    fate_of: Callable[[Iterable[int]], Fate],
) -> tuple[WorkingSet, Delta]:
    """The turn in which a session is served `pack`: (ordinal, mark) of its items, each once, in order."""
    turn = before.turn + 1
    served = dict(pack)
    fate = fate_of(before.known.keys() - served.keys())
    known = {ordinal: was for ordinal, was in before.known.items() if ordinal not in fate.hidden}
    stale = {ordinal: head for ordinal, head in fate.heads.items() if ordinal in known}
    known = {ordinal: was for ordinal, was in known.items() if ordinal not in stale}
    new = tuple(ordinal for ordinal in served if ordinal not in known)
    fresh = frozenset(ordinal for ordinal, mark in pack if ordinal not in known or known[ordinal].mark != mark)
    known.update((ordinal, Served(turn, mark)) for ordinal, mark in pack)
    evicted = tuple(
        ordinal
        for ordinal, was in sorted(known.items())
        if ordinal not in served and ordinal not in fate.unseen and turn - was.turn >= SESSION_TTL_TURNS
    )
    for ordinal in evicted:
        del known[ordinal]
    superseded = tuple((ordinal, head if head in known else None) for ordinal, head in sorted(stale.items()))
    state = WorkingSet(
        turn=turn,
        known=_capped(known),
        trajectory=(*before.trajectory, Step(turn, tokens, tuple(served)))[-SESSION_TRAJECTORY_TURNS:],
        centroid=_moved(before.centroid, terms),
    )
    return state, Delta(new=new, evicted=evicted, superseded=superseded, fresh=fresh, cursor=turn)


def _capped(known: Mapping[int, Served]) -> dict[int, Served]:
    """The SESSION_KNOWN_MAX that were served last, of those served in one turn the newest."""
    if len(known) <= SESSION_KNOWN_MAX:
        return dict(known)
    kept = sorted(known, key=lambda ordinal: (known[ordinal].turn, ordinal))[-SESSION_KNOWN_MAX:]
    return {ordinal: known[ordinal] for ordinal in kept}


def _moved(centroid: Iterable[tuple[str, int]], terms: Iterable[str]) -> tuple[tuple[str, int], ...]:
    weights = {term: weight // _FADING for term, weight in centroid}
    for term in dict.fromkeys(terms):
        weights[term] = weights.get(term, 0) + _TERM_WEIGHT
    heaviest = sorted((-weight, term) for term, weight in weights.items() if weight)[:SESSION_CENTROID_TERMS]
    return tuple((term, -weight) for weight, term in heaviest)
