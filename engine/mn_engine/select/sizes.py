"""What required items take of a packet's bytes: the label that says why they are there, beside what any item takes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_engine.domain.packets import REQUIRED_LABEL, Role
from mn_engine.recall.view import View

_REQUIRED: Final = len('"required":"",')


def required_sizes(view: View, places: NDArray[Any], roles: list[Role]) -> NDArray[np.int64]:
    """Sizes of required items, side by side with `places` and their `roles`."""
    labels = np.asarray([_REQUIRED + len(REQUIRED_LABEL[role]) for role in roles], np.int64)
    sizes: NDArray[np.int64] = view.item_sizes[places] + labels
    return sizes
