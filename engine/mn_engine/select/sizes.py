"""What each item takes of a packet's budget, to the byte, before any body is read.

The record keeps a card's document size as its owner sees it; an asker's document differs by known strings only: the
owner's name in references, the conflicts, the required label. `PacketItem.document` is the truth; a test holds this
to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mn_contract.names import format_ref
from mn_engine.domain.packets import REQUIRED_LABEL, Role
from mn_engine.recall.view import View

_CONFLICTS = len('"conflicts":[],') - 1  # the first reference has no comma before it
_REQUIRED = len('"required":"",')


def item_sizes(view: View, places: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Sizes of optional items, side by side with `places`."""
    asker = view.reader.principal
    prefixes = np.asarray([0 if owner == asker else len(owner) + 1 for owner, _ in view.index.readers], np.int64)
    sizes = view.column("document_bytes")[places].astype(np.int64)
    sizes += prefixes[view.column("reader_codes")[places]]
    if view.index.contradictions:
        linked = np.asarray(list(view.index.contradictions), np.uint32)
        for at in np.flatnonzero(np.isin(places, linked)):
            sizes[at] += _conflict_bytes(view, int(places[at]))
    return sizes


def required_size(view: View, place: int, role: Role) -> int:
    """The size of a required item."""
    return int(item_sizes(view, np.asarray([place], np.uint32))[0]) + _REQUIRED + len(REQUIRED_LABEL[role])


def _conflict_bytes(view: View, place: int) -> int:
    keys = [view.index.key(other) for other in view.conflict_places(place)]
    refs = [format_ref(key.owner, key.id, view.reader.principal) for key in keys]
    return _CONFLICTS + sum(len(ref) + len('"",') for ref in refs) if refs else 0
