"""What must be in a packet: what the caller names, and what the record demands (invariant 2).

The record demands each visible open obligation and each visible constraint that names no topics and no claims, or
shares one with the decision. A constraint that applies is called hard.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.packets import Decision, Role
from mn_engine.recall.analysis import claim_hash, label_hash
from mn_engine.recall.index import CLAIM, TOPIC
from mn_engine.recall.view import View


def required(view: View, decision: Decision) -> list[tuple[int, Role]]:
    """(ordinal, role) of every required card, each once, ascending. Raises NotFound for a named one that is not
    there."""
    roles: dict[int, Role] = {}
    obligations = view.open_obligations()
    for place in np.flatnonzero(demanded(view, decision)):
        roles[view.ordinal(int(place))] = Role.OBLIGATION if obligations[place] else Role.CONSTRAINT
    for ref in decision.required:
        roles[view.resolve(ref)] = Role.NAMED
    return sorted(roles.items())


def demanded(view: View, decision: Decision) -> NDArray[np.bool_]:
    """Cards that the record demands of the decision, named or not: they stand in every packet that is made for it."""
    demanding: NDArray[np.bool_] = (view.open_obligations() | view.constraints()) & applies(view, decision)
    return demanding


def applies(view: View, decision: Decision) -> NDArray[np.bool_]:
    """Cards that name no topics and no claims, or share one with the decision."""
    applying: NDArray[np.bool_] = ~view.column("bound")
    for hashed, mask in (
        *((label_hash(topic), TOPIC) for topic in decision.topics),
        *((claim_hash(claim), CLAIM) for claim in decision.claims),
    ):
        places, _ = view.with_label(hashed, mask)
        applying[places] = True
    return applying
