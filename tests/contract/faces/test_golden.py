"""The generic pack, to the byte: whatever is added for models, it stays what it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mn_sdk.memories import Memories
from tests.contract.faces.conftest import Faces
from tests.contract.faces.messages import card, event, opened, record

GOLDEN = Path(__file__).with_name("golden_generic.json")
KINDS = ("observation", "fact", "decision", "procedure", "preference", "identity", "task", "failure", "evidence")
START = datetime(2026, 1, 1, tzinfo=UTC)


def _memories() -> list[Any]:
    """Memories of every layer, some of them near-duplicates, with summaries, links and times."""
    made = [
        card(
            f"Door number {n} of the east wing is {('red', 'blue', 'green')[n % 3]}. "
            + "It was painted last year. " * (n % 7),
            KINDS[n % len(KINDS)],
            id=f"m{n:02d}",
            entities=["Ada"] if n % 4 == 0 else [],
            confidence=(n % 10) / 10 if n % 2 else None,
            summary=f"door {n}" if n % 5 == 0 else "",
            source_url=f"https://doors.example/{n}" if n % 6 == 0 else "",
            occurred_at=START + timedelta(hours=13 * n),
        )
        for n in range(60)
    ]
    made.append(card("Never paint a door at night.", "constraint", id="rule", occurred_at=START))
    made.append(card("Door 3 is not blue.", "evidence", id="no", occurred_at=START, relations=[("contradicts", "m03")]))
    return made


def test_the_generic_pack_is_the_golden_one(faces: Faces) -> None:
    alice = faces.of()
    opened(alice)
    made = _memories()
    for place in range(0, len(made), 20):
        record(alice, event(f"e{place}", *made[place : place + 20]))
    told = Memories(alice.call).context(
        task="Which doors of the east wing are red, and who painted door 3?", token_budget=900, format="json"
    )
    del told["cursor"]  # opaque
    assert told == json.loads(GOLDEN.read_text())
