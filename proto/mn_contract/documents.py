"""How a card reads in a packet: the document whose canonical JSON is counted, digested and shown to a model.

The engine counts these bytes against a packet's budget and the SDK puts the same bytes into the request, so there is
one renderer. A document names where its text stands (an artifact's first 12 hex digits and a byte range): enough for
a reader to cite; the full hash travels beside it in the packet. A summary is derived and nothing to cite: its document
says so, and names what it cites instead (invariant 6). Fields that say nothing are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ARTIFACT_PREFIX = 12
_DERIVED = "summary"


def item_document(
    *,
    ref: str,
    kind: str,
    text: str,
    source: tuple[str, int, int],
    cites: Sequence[tuple[str, int, int]] = (),
    stance: str = "neutral",
    claims: Mapping[str, str] | None = None,
    validation: str = "unverified",
    confidence: float | None = None,
    trust: float | None = None,
    occurred_at: str | None = None,
    valid_from: str | None = None,
    valid_until: str | None = None,
    topics: Sequence[str] = (),
    source_url: str = "",
    conflicts: Sequence[str] = (),
    required: str = "",
) -> dict[str, Any]:
    """The document of one item.

    `source` and `cites` are (artifact sha256, start, end); `cites` is left out where it is only the body. `required` is
    empty, `named`, `obligation` or `constraint`. Times are RFC 3339.
    """
    document: dict[str, Any] = {"id": ref, "kind": kind, "text": text}
    if kind == _DERIVED:
        document["derived"] = True
    else:
        document["source"] = _range(source)
    if cites and list(cites) != [source]:
        document["cites"] = [_range(cited) for cited in cites]
    if stance != "neutral":
        document["stance"] = stance
    if claims:
        document["claims"] = dict(claims)
    if validation != "unverified":
        document["validation"] = validation
    if confidence is not None:
        document["confidence"] = confidence
    if trust is not None:
        document["trust"] = trust
    if occurred_at is not None:
        document["occurred_at"] = occurred_at
    if valid_from is not None:
        document["valid_from"] = valid_from
    if valid_until is not None:
        document["valid_until"] = valid_until
    if topics:
        document["topics"] = list(topics)
    if source_url:
        document["url"] = source_url
    if conflicts:
        document["conflicts"] = list(conflicts)
    if required:
        document["required"] = required
    return document


def _range(source: tuple[str, int, int]) -> str:
    sha256, start, end = source
    return f"{sha256[:ARTIFACT_PREFIX]}:{start}-{end}"
