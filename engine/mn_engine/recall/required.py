"""What must be in a packet: what the caller names, and what the record demands (invariant 2).

The record demands each visible open obligation and each visible constraint that names no topics and no claims, or
shares one with the decision. A constraint that applies is called hard.
"""

from __future__ import annotations

import numpy as np

from mn_engine.domain.packets import Decision, Role
from mn_engine.recall.analysis import label_hash
from mn_engine.recall.index import CLAIM, TOPIC
from mn_engine.recall.view import View


def required(view: View, decision: Decision) -> list[tuple[int, Role]]:
    """(ordinal, role) of every required card, each once, ascending. Raises NotFound for a named one that is not
    there."""
    roles: dict[int, Role] = {}
    obligations, constraints = view.open_obligations(), view.constraints()
    demanded = (obligations | constraints) & _applies(view, decision)
    for place in np.flatnonzero(demanded):
        roles[view.ordinal(int(place))] = Role.OBLIGATION if obligations[place] else Role.CONSTRAINT
    for ref in decision.required:
        roles[view.resolve(ref)] = Role.NAMED
    return sorted(roles.items())


def _applies(view: View, decision: Decision) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    applies = ~view.column("bound")
    for labels, mask in ((decision.topics, TOPIC), (decision.claims, CLAIM)):
        for label in labels:
            places, _ = view.with_label(label_hash(label), mask)
            applies[places] = True
    return applies
