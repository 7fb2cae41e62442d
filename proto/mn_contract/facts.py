"""How a fact reads as a card: what engine and SDK write alike."""

from __future__ import annotations

from mn_contract.limits import LABEL_BYTES_MAX


def fact_text(subject: str, predicate: str, object_: str, qualifier: str = "") -> str:
    """A fact in words."""
    place = f" ({qualifier})" if qualifier else ""
    return f"{subject} {predicate}{place} {object_}"


def fact_entities(subject: str, object_: str) -> tuple[str, ...]:
    """Whom a fact is about: its subject, and its object where that could name somebody."""
    names = len(object_.encode("utf-8", "surrogatepass")) <= LABEL_BYTES_MAX and same(object_) != same(subject)
    return (subject, object_) if names else (subject,)


def same(label: str) -> str:
    """A label as labels are compared: case and outer spaces do not matter."""
    return label.strip().casefold()
