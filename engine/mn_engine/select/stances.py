"""What cards say toward a decision."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.cards import Stance
from mn_engine.domain.packets import Decision
from mn_engine.recall.analysis import claim_hash
from mn_engine.recall.index import CLAIM
from mn_engine.recall.view import View

OPPOSING: Final = (Stance.OPPOSES, Stance.MIXED)
SUPPORTING: Final = (Stance.SUPPORTS, Stance.MIXED)
"""A mixed card counts for both sides."""
_UNTOLD: Final = 0


def stances_toward(view: View, decision: Decision) -> NDArray[np.uint8]:
    """A stance for each card of the view: toward the decision's claims where the card names one, else in general.

    Toward several claims the stances add up: for one and against another is mixed, neutral adds nothing.
    """
    stances: NDArray[np.uint8] = view.column("stances")
    if not decision.claims:
        return stances
    toward = np.zeros(view.count, np.uint8)
    for hashed in sorted({claim_hash(claim) for claim in decision.claims}):
        having = view.with_labels([hashed], CLAIM)
        toward[having.places] = _joined(toward[having.places], having.weights)
    return np.where(toward != _UNTOLD, toward, stances)


def _joined(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.uint8]:
    silent = (one == _UNTOLD) | (one == Stance.NEUTRAL)
    agreed = (other == Stance.NEUTRAL) | (one == other)
    return np.where(silent, other, np.where(agreed, one, np.uint8(Stance.MIXED)))
