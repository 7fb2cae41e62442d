"""What must be in a packet: what the caller names, and what the record demands (invariant 2).

The record demands each visible open obligation and each visible constraint that names no topics and no claims, or
shares one with the decision. A constraint that applies is called hard.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.cards import Kind
from mn_engine.domain.packets import Decision, Role
from mn_engine.recall.analysis import claim_hash, label_hash
from mn_engine.recall.index import CLAIM, TOPIC
from mn_engine.recall.view import View


def required(view: View, decision: Decision) -> list[tuple[int, Role]]:
    """(ordinal, role) of every required card, each once, ascending. Raises NotFound for a named one that is not
    there."""
    roles: dict[int, Role] = {}
    kinds = view.column("kinds")
    for place in demanded(view, decision).tolist():
        roles[view.ordinal(place)] = Role.OBLIGATION if kinds[place] == Kind.OBLIGATION else Role.CONSTRAINT
    for ref in decision.required:
        roles[view.resolve(ref)] = Role.NAMED
    return sorted(roles.items())


def demanded(view: View, decision: Decision) -> NDArray[np.int64]:
    """Cards that the record demands of the decision, named or not: they stand in every packet that is made for it."""
    return applying(view, decision, view.demanding)


def applying(view: View, decision: Decision, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the cards that name no topics and no claims, or share one with the decision."""
    if not len(places):
        return places
    shared = [
        view.with_labels([hash_of(label) for label in labels], mask).places
        for labels, hash_of, mask in ((decision.topics, label_hash, TOPIC), (decision.claims, claim_hash, CLAIM))
    ]
    applies = ~view.column("bound")[places] | np.isin(places, np.concatenate(shared))
    return places[applies]
