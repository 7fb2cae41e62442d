"""Coverage: what was considered, selected and left, counted over cards that the asker can see and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.cards import Kind, Stance
from mn_engine.domain.packets import Coverage, CoverageStatus, Left


def coverage(
    *,
    stances: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    taken: NDArray[np.bool_],
    left: Mapping[Left, NDArray[np.bool_]],
    required: int = 0,
    required_opposing: int = 0,
) -> Coverage:
    """The coverage of relevant optional cards, given side by side.

    MISSING: nothing is relevant and nothing is required. DEGRADED: relevant cards were served by no page so far, be it
    for want of room, for their size or for the cap. COMPLETE: everything relevant is here or was served before.
    """
    counts = {reason: int(np.count_nonzero(left[reason])) for reason in Left if reason in left}
    unserved = sum(count for reason, count in counts.items() if reason is not Left.SERVED)
    if not len(taken) and not required:
        status = CoverageStatus.MISSING
    else:
        status = CoverageStatus.DEGRADED if unserved else CoverageStatus.COMPLETE
    return Coverage(
        status=status,
        relevant=len(taken),
        stances=_rows(Stance, stances, taken),
        kinds=_rows(Kind, kinds, taken),
        left=tuple((reason, count) for reason, count in counts.items() if count),
        required=required,
        required_opposing=required_opposing,
    )


def _rows(names: Any, column: NDArray[np.uint8], taken: NDArray[np.bool_]) -> tuple[tuple[Any, int, int], ...]:
    """(name, considered, selected) of each name that is there, in the enum's order."""
    selected = np.bincount(column[taken], minlength=len(names) + 1)
    considered = ((name, int(np.count_nonzero(column == np.uint8(name)))) for name in names)
    return tuple((name, count, int(selected[name])) for name, count in considered if count)
