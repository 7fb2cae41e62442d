"""Between prepared cards and the columns that a store keeps of them; and the checks of a bulk table."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from mn_contract.canonical import encoded
from mn_contract.errors import InvalidInput
from mn_contract.limits import BULK_CARDS_MAX
from mn_engine.domain.access import OPEN, Acl
from mn_engine.domain.cards import Card
from mn_engine.domain.events import Analysis, PreparedArtifact, PreparedCard, PreparedEvent
from mn_engine.store.port import BULK_CARDS


def index_row(ordinal: int, prepared: PreparedCard) -> tuple[object, ...]:
    """The INDEX_CARDS row of a card."""
    card, analysis = prepared.card, prepared.analysis
    return (
        ordinal,
        card.owner,
        card.id,
        int(card.kind),
        int(card.stance),
        acl_text(card.acl),
        card.occurred_at,
        card.valid_from,
        card.valid_until,
        analysis.version,
        analysis.terms,
        analysis.counts,
        analysis.length,
        analysis.topics,
        analysis.entities,
        analysis.claims,
        analysis.claim_stances,
        analysis.id_hash,
        analysis.key_hash,
        analysis.text_hash,
        analysis.document_bytes,
        analysis.document_tokens,
        analysis.body_hash,
        analysis.vector,
        analysis.fact_place,
        analysis.fact_triple,
        analysis.fact_singular,
    )


def bulk_row(prepared: PreparedCard) -> tuple[object, ...]:
    """The BULK_CARDS row of a card without relations."""
    row = index_row(0, prepared)
    return (*row[2:], prepared.card.text, card_meta(prepared.card))


def arrow(schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Rows as a table."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, type=item.type) for column, item in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def card_meta(card: Card) -> str:
    """The `meta` column: the card in canonical JSON, without its text, which has a column of its own."""
    meta = card.as_json()
    del meta["text"]
    return encoded(meta).decode("utf-8")


def card_of(text: str, meta: str) -> Card:
    """The inverse of the `text` and `meta` columns."""
    return Card.from_json({**json.loads(meta), "text": text})


def acl_text(acl: Acl) -> str:
    """The `acl` column: canonical JSON, empty where every principal reads."""
    return "" if acl == OPEN else encoded(acl.as_json()).decode("utf-8")


def check_table(cards: pa.Table) -> None:
    """Raises InvalidInput where a bulk table has another shape than BULK_CARDS, nulls, too many rows, text that is not
    UTF-8, an id twice, or a meta column that is of another card."""
    if not cards.schema.equals(BULK_CARDS):
        raise InvalidInput("a bulk table has the columns of BULK_CARDS, in that order", field="cards")
    if not 1 <= cards.num_rows <= BULK_CARDS_MAX:
        raise InvalidInput(f"a bulk table has 1-{BULK_CARDS_MAX} rows", field="cards")
    nullable = ("occurred_at", "valid_from", "valid_until")
    for name, column in zip(cards.column_names, cards.columns, strict=True):
        if column.null_count and name not in nullable:
            raise InvalidInput(f"column {name} of a bulk table has nulls", field=f"cards.{name}")
    try:
        cards.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidInput("a bulk table's columns are not what their types say", field="cards") from error
    if pc.count_distinct(cards["id"]).as_py() != cards.num_rows:
        raise InvalidInput("a card id stands in a bulk table twice", field="cards.id")


def event_of_table(
    cards: pa.Table,
    *,
    owner: str,
    key: str,
    fingerprint: str,
    artifacts: Sequence[PreparedArtifact] = (),
    recorded_at: int = 0,
) -> PreparedEvent:
    """A bulk table as an event, card by card: the slow way, for the reference store. Raises InvalidInput."""
    check_table(cards)
    prepared = []
    for row in cards.to_pylist():
        try:
            card = card_of(row["text"], row["meta"])
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidInput("a bulk row's meta is not JSON of a card", field="cards.meta") from error
        if card.owner != owner or card.id != row["id"] or card.relations:
            raise InvalidInput("a bulk row's meta is not of its card", field="cards.meta")
        analysis = Analysis(
            version=row["analysis_version"],
            **{name: row[name] for name in Analysis.__slots__ if name != "version"},
        )
        prepared.append(PreparedCard(card=card, analysis=analysis))
    return PreparedEvent(
        owner=owner,
        key=key,
        fingerprint=fingerprint,
        artifacts=tuple(artifacts),
        cards=tuple(prepared),
        recorded_at=recorded_at,
        bulk=True,
    )
