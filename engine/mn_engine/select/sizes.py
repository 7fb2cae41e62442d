"""What each item takes of a packet's budget, to the byte, before any body is read.

The record keeps a card's document size as its owner sees it; an asker's document differs by known strings only: the
owner's name in references, the conflicts, the required label. `PacketItem.document` is the truth; a test holds this
to it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mn_contract.limits import TOKEN_BYTES
from mn_engine.domain.packets import REQUIRED_LABEL, Role
from mn_engine.recall.view import View

_CONFLICTS: Final = len('"conflicts":[],') - 1  # the first reference has no comma before it
_CONFLICT: Final = len('"",')
_REQUIRED: Final = len('"required":"",')


def item_sizes(view: View, places: NDArray[Any]) -> NDArray[np.int64]:
    """Sizes of optional items, side by side with `places`."""
    sizes: NDArray[np.int64] = view.column("document_bytes")[places].astype(np.int64)
    sizes += view.prefix_lengths(places)
    ones, others = view.links
    if len(ones):
        conflicts = np.zeros(view.count, np.int64)
        conflicts[ones] = _CONFLICTS
        np.add.at(conflicts, ones, view.ref_lengths(others) + _CONFLICT)
        sizes += conflicts[places]
    return sizes


def item_tokens(view: View, places: NDArray[Any], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tokens of items of these sizes: the writers' estimates, and a token for every TOKEN_BYTES of what no writer knew
    of - an owner's name, conflicts, a label."""
    marks = sizes - view.column("document_bytes")[places]
    tokens: NDArray[np.int64] = view.column("document_tokens")[places] + -(-marks // TOKEN_BYTES)
    return tokens


def required_sizes(view: View, places: NDArray[Any], roles: list[Role]) -> NDArray[np.int64]:
    """Sizes of required items, side by side with `places` and their `roles`."""
    labels = np.asarray([_REQUIRED + len(REQUIRED_LABEL[role]) for role in roles], np.int64)
    sizes: NDArray[np.int64] = item_sizes(view, places) + labels
    return sizes
